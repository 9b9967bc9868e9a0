"""Names in C: whatever a program, an input, a size, a loop or a let is called, a compiler reads it."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import cffi.commontypes
import numpy as np
import pytest

import atl
import lowering
from atl.core.index import Array, Var, index, size
from atl.core.predicate import TRUE
from lowering import lower, print_c
from lowering.c.helpers import HELPER_NAMES
from lowering.c.names import FUNCTION_NAMES, KEYWORDS, Names, identifier, reserved
from lowering.c.parameters import declaration
from lowering.c.printer import function_names, print_unit
from lowering.nest.loopnest import (
    Allocate,
    Apply,
    Assign,
    Block,
    Buffer,
    Declare,
    Free,
    If,
    Load,
    LoopNest,
    Number,
    Scalar,
    Statement,
)
from lowering.toolchain import find_compiler
from proofs_tests.nests.by_hand import WARNINGS, ZERO, at, cell, loop, n, output, tensor

HEADERS: Final = ("math.h", "stdint.h", "stdio.h", "stdlib.h", "string.h", "stddef.h")
STANDARDS: Final = (("-std=c11",), ("-std=gnu2x", "-D_GNU_SOURCE"))


pytestmark = pytest.mark.usefixtures("private_cache", "each_compiler")


def preprocessed(text: str, *flags: str) -> str:
    command = [*find_compiler().command, *flags, "-E", "-P", "-x", "c", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def compiles(text: str, standard: Sequence[str] = STANDARDS[0]) -> None:
    command = [*find_compiler().command, *standard, *WARNINGS, "-fsyntax-only", "-x", "c", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


@cache
def macros_of(header: str, standard: Sequence[str]) -> set[str]:
    return set(re.findall(r"#define ([A-Za-z]\w*)", preprocessed(f"#include <{header}>", *standard, "-dM")))


@cache
def declared_by(header: str, standard: Sequence[str]) -> set[str]:
    """Every identifier of the header outside of braces: what it declares is among them."""
    text = preprocessed(f"#include <{header}>", *standard)
    while (shorter := re.sub(r"\{[^{}]*\}", "", text)) != text:
        text = shorter
    return set(re.findall(r"\b[A-Za-z]\w*", text))


def in_headers() -> set[str]:
    return {
        name
        for header in HEADERS
        for standard in STANDARDS
        for name in (*macros_of(header, standard), *declared_by(header, standard))
    }


# -- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("standard", STANDARDS)
@pytest.mark.parametrize("header", HEADERS)
def test_the_table_has_what_this_machines_headers_define_and_declare(header: str, standard: Sequence[str]) -> None:
    assert [name for name in macros_of(header, standard) if not reserved(name)] == []
    assert [name for name in declared_by(header, standard) if not reserved(name, of_function=True)] == []


def test_a_reserved_name_with_an_underscore_is_free() -> None:
    for name in (*KEYWORDS, *FUNCTION_NAMES, *HELPER_NAMES):
        assert identifier(name, of_function=True) == f"{name}_"
        assert not reserved(f"{name}_", of_function=True)


def test_ordinary_names_stay_as_they_are() -> None:
    ordinary = (
        "A i n buf blur total x2 index y1 near far vector M_TILE LC_X FP_SCALE PRIor M_ E end start strength member"
    )
    assert [identifier(name) for name in ordinary.split()] == ordinary.split()


# -- each name in each role -------------------------------------------------------------------------------------------

_X, _OUT = tensor("x_in", n)[0], output(n)
_STORED: Final = loop(
    Var(1, "at"),
    n,
    Assign(
        cell(_OUT, index(Var(1, "at"))),
        Apply(
            "exp", (Apply("min", (at(tensor("x_in", n)[1], ZERO), Number(math.inf, "float32")), "float32"),), "float32"
        ),
    ),
)
"""What uses functions of the library and of our own; an output that is not complete is cleared by one, too."""


def made(
    name: str, inputs: Sequence[Array], *body: Statement, sizes: Sequence[str] = (), out: Buffer = _OUT
) -> LoopNest:
    room = Buffer(900, "room", "float32", (n,))
    used = (Allocate(room, n), Assign(cell(room, ZERO), Number(0, "float32")), Free(room))
    return LoopNest(name, ("n", *sizes), (_X, *inputs), out, (_STORED, If(TRUE, used), *body))


def programs(names: Sequence[str]) -> list[LoopNest]:
    return [made(name, []) for name in names]


def arrays(names: Sequence[str]) -> list[LoopNest]:
    both = [tensor(name, n) for name in names]
    stores = [Assign(cell(_OUT, ZERO), at(buffer, ZERO)) for _, buffer in both]
    return [made("f", [array for array, _ in both], *stores)]


def numbers(names: Sequence[str]) -> list[LoopNest]:
    both = [tensor(name) for name in names]
    stores = [Assign(cell(_OUT, ZERO), at(buffer)) for _, buffer in both]
    return [made("f", [array for array, _ in both], *stores)]


def sizes(names: Sequence[str]) -> list[LoopNest]:
    return [made("f", [], *(Assign(cell(_OUT, size(name)), Number(1, "float32")) for name in names), sizes=names)]


def outputs(names: Sequence[str]) -> list[LoopNest]:
    stored = Number(1, "float32")
    renamed = [Buffer(0, name, "float32", (n,), "output") for name in names]
    return [LoopNest("f", ("n",), (), out, (Assign(cell(out, ZERO), stored),)) for out in renamed]


def loops(names: Sequence[str]) -> list[LoopNest]:
    variables = [Var(10 + number, name) for number, name in enumerate(names)]
    stored = Number(1, "float32")
    return [made("f", [], *(loop(v, n, Assign(cell(_OUT, index(v)), stored)) for v in variables))]


def _lets(names: Sequence[str], let: Callable[[int, str], Block]) -> list[LoopNest]:
    return [made("f", [], *(If(TRUE, let(10 + number, name)) for number, name in enumerate(names)))]


def scalars(names: Sequence[str]) -> list[LoopNest]:
    def let(number: int, name: str) -> Block:
        variable = Scalar(number, name, "float32")
        return Declare(variable, Number(1, "float32")), Assign(cell(_OUT, ZERO), Load(variable))

    return _lets(names, let)


def heap(names: Sequence[str]) -> list[LoopNest]:
    def let(number: int, name: str) -> Block:
        buffer = Buffer(number, name, "float32", (n,))
        return Allocate(buffer, n), Assign(cell(_OUT, ZERO), at(buffer, ZERO)), Free(buffer)

    return _lets(names, let)


def stack(names: Sequence[str]) -> list[LoopNest]:
    def let(number: int, name: str) -> Block:
        buffer = Buffer(number, name, "float32", (index(4),))
        return Allocate(buffer, index(4), "stack"), Assign(cell(_OUT, ZERO), at(buffer, ZERO)), Free(buffer)

    return _lets(names, let)


ROLES: Final = (programs, arrays, numbers, sizes, outputs, loops, scalars, heap, stack)


@pytest.mark.long
@pytest.mark.parametrize("role", ROLES)
def test_every_reserved_name_compiles_in_every_role(role: Callable[[Sequence[str]], list[LoopNest]]) -> None:
    names = sorted({*KEYWORDS, *FUNCTION_NAMES, *HELPER_NAMES, *in_headers(), *cffi.commontypes.COMMON_TYPES})
    names = [name for name in names if name.isidentifier()]
    assert len(names) > 2000
    # Each output needs a function, and is renamed as arrays are, which have all of the names.
    text = print_unit(role(names[::8] if role is outputs else names))
    for standard in STANDARDS:
        compiles(text, standard)


@pytest.mark.long
def test_a_program_of_every_reserved_name_is_declared_to_python() -> None:
    names = sorted({*KEYWORDS, *FUNCTION_NAMES, *HELPER_NAMES, *cffi.commontypes.COMMON_TYPES})
    of = programs([name for name in names if name.isidentifier()])
    ffi = cffi.FFI()
    ffi.cdef("\n".join(declaration(each, name) for each, name in zip(of, function_names(of), strict=True)))


UNENDING: Final = ("M_TILE", "LC_X", "FP_SCALE", "PRIor", "M_", "SIGN", "INT_MAX", "HUGE_VALF", "int8_t", "linux", "y1")


@pytest.mark.thinned(3)
@pytest.mark.sampled
@pytest.mark.parametrize("name", UNENDING)
def test_a_program_may_use_one_name_for_everything(name: str) -> None:
    width = atl.sizes(f"{name}_n", min=1)
    x = atl.tensor(name, width)
    body = atl.let(
        atl.gen(width, lambda a: 2 * x[a]),
        lambda t: atl.gen(width, lambda a: atl.sum(width, lambda b: t[b] * x[a])),
        name=name,
    )
    kernel = lowering.compile(atl.program(name, [x], body))
    np.testing.assert_allclose(kernel(np.array([1, 2], np.float32)), [6.0, 12.0])
    assert print_c(lower(kernel.program)) == kernel.source


def test_a_name_that_is_taken_is_numbered_past_what_is_reserved() -> None:
    names = Names()
    bound = []
    for key, hint in enumerate(("exp", "exp", "M_", "M_", "M_LN", "M_LN", "int8", "int8")):
        name, names = names.bind(key, hint, of_function=True)
        bound.append(name)
    assert bound == ["exp_", "exp_2", "M_", "M_2", "M_LN", "M_LN2_", "int8", "int8_2"]
