"""Names in C: any name of a program, input, size, loop or let yields C that compiles."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, Literal

import cffi.commontypes
import numpy as np
import pytest

import atl
import lowering
from atl.core.index import Array, Index, Var, index, size
from atl.core.predicate import TRUE
from lowering import lower, print_c
from lowering.builds import find_compiler
from lowering.c.helpers import HELPER_NAMES
from lowering.c.printer import declaration, function_names, print_unit
from lowering.c.text import FUNCTION_NAMES, KEYWORDS, Names, identifier, reserved
from lowering.nest import loopnest as ln
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
def names_in(header: str, standard: Sequence[str]) -> tuple[set[str], set[str]]:
    """Return the macros of a header, and its identifiers outside of braces, among them all declarations."""
    text = preprocessed(f"#include <{header}>", *standard)
    while (shorter := re.sub(r"\{[^{}]*\}", "", text)) != text:
        text = shorter
    macros = re.findall(r"#define ([A-Za-z]\w*)", preprocessed(f"#include <{header}>", *standard, "-dM"))
    return set(macros), set(re.findall(r"\b[A-Za-z]\w*", text))


@pytest.mark.long
@pytest.mark.parametrize("standard", STANDARDS)
@pytest.mark.parametrize("header", HEADERS)
def test_table_covers_the_headers_of_this_machine(header: str, standard: Sequence[str]) -> None:
    macros, declared = names_in(header, standard)
    assert [name for name in macros if not reserved(name)] == []
    assert [name for name in declared if not reserved(name, of_function=True)] == []


def test_reserved_name_with_an_underscore_is_free() -> None:
    for name in (*KEYWORDS, *FUNCTION_NAMES, *HELPER_NAMES):
        assert identifier(name, of_function=True) == f"{name}_"
        assert not reserved(f"{name}_", of_function=True)


def test_ordinary_names_are_unchanged() -> None:
    ordinary = (
        "A i n buf blur total x2 index y1 near far vector M_TILE LC_X FP_SCALE PRIor M_ E end start strength member"
    )
    assert [identifier(name) for name in ordinary.split()] == ordinary.split()


_X, _OUT = tensor("x_in", n)[0], output(n)
_VALUE: Final = ln.Apply("min", (at(tensor("x_in", n)[1], ZERO), ln.Number(math.inf, "float32")), "float32")
_STORED: Final = loop(
    Var(1, "at"), n, ln.Assign(cell(_OUT, index(Var(1, "at"))), ln.Apply("exp", (_VALUE,), "float32"))
)
"""A loop that calls library functions and our helpers."""


def made(name: str, inputs: Sequence[Array], *body: ln.Statement, sizes: Sequence[str] = ()) -> ln.LoopNest:
    scratch = ln.Buffer(900, "scratch", "float32", (n,))
    used = (ln.Allocate(scratch, n), ln.Assign(cell(scratch, ZERO), ln.Number(0, "float32")), ln.Free(scratch))
    return ln.LoopNest(name, ("n", *sizes), (_X, *inputs), _OUT, (_STORED, ln.If(TRUE, used), *body))


def programs(names: Sequence[str]) -> list[ln.LoopNest]:
    return [made(name, []) for name in names]


def arrays(names: Sequence[str], rank: int = 1) -> list[ln.LoopNest]:
    both = [tensor(name, *[n] * rank) for name in names]
    stores = [ln.Assign(cell(_OUT, ZERO), at(buffer, *[ZERO] * rank)) for _, buffer in both]
    return [made("f", [array for array, _ in both], *stores)]


def numbers(names: Sequence[str]) -> list[ln.LoopNest]:
    return arrays(names, 0)


def sizes(names: Sequence[str]) -> list[ln.LoopNest]:
    return [made("f", [], *(ln.Assign(cell(_OUT, size(name)), ln.Number(1, "float32")) for name in names), sizes=names)]


def outputs(names: Sequence[str]) -> list[ln.LoopNest]:
    stored = ln.Number(1, "float32")
    renamed = [ln.Buffer(0, name, "float32", (n,), "output") for name in names]
    return [ln.LoopNest("f", ("n",), (), out, (ln.Assign(cell(out, ZERO), stored),)) for out in renamed]


def loops(names: Sequence[str]) -> list[ln.LoopNest]:
    variables = [Var(10 + number, name) for number, name in enumerate(names)]
    stored = ln.Number(1, "float32")
    return [made("f", [], *(loop(v, n, ln.Assign(cell(_OUT, index(v)), stored)) for v in variables))]


def _lets(names: Sequence[str], let: Callable[[int, str], ln.Block]) -> list[ln.LoopNest]:
    return [made("f", [], *(ln.If(TRUE, let(10 + number, name)) for number, name in enumerate(names)))]


def scalars(names: Sequence[str]) -> list[ln.LoopNest]:
    def let(number: int, name: str) -> ln.Block:
        variable = ln.Scalar(number, name, "float32")
        return ln.Declare(variable, ln.Number(1, "float32")), ln.Assign(cell(_OUT, ZERO), ln.Load(variable))

    return _lets(names, let)


def buffers(names: Sequence[str], extent: Index, storage: Literal["heap", "stack"]) -> list[ln.LoopNest]:
    def let(number: int, name: str) -> ln.Block:
        buffer = ln.Buffer(number, name, "float32", (extent,))
        return ln.Allocate(buffer, extent, storage), ln.Assign(cell(_OUT, ZERO), at(buffer, ZERO)), ln.Free(buffer)

    return _lets(names, let)


def heap(names: Sequence[str]) -> list[ln.LoopNest]:
    return buffers(names, n, "heap")


def stack(names: Sequence[str]) -> list[ln.LoopNest]:
    return buffers(names, index(4), "stack")


ROLES: Final = (programs, arrays, numbers, sizes, outputs, loops, scalars, heap, stack)


@pytest.mark.long
@pytest.mark.parametrize("role", ROLES)
def test_every_reserved_name_compiles_in_every_role(role: Callable[[Sequence[str]], list[ln.LoopNest]]) -> None:
    headers = (names_in(header, standard) for header in HEADERS for standard in STANDARDS)
    declared = {name for both in headers for names in both for name in names}
    names = sorted({*KEYWORDS, *FUNCTION_NAMES, *HELPER_NAMES, *declared, *cffi.commontypes.COMMON_TYPES})
    names = [name for name in names if name.isidentifier()]
    assert len(names) > 2000
    # Each output needs its own function; outputs are renamed as arrays are, which take all names.
    text = print_unit(role(names[::8] if role is outputs else names))
    for standard in STANDARDS:
        compiles(text, standard)


@pytest.mark.long
def test_program_of_every_reserved_name_is_declared_to_cffi() -> None:
    names = sorted({*KEYWORDS, *FUNCTION_NAMES, *HELPER_NAMES, *cffi.commontypes.COMMON_TYPES})
    of = programs([name for name in names if name.isidentifier()])
    ffi = cffi.FFI()
    ffi.cdef("\n".join(declaration(each, name) for each, name in zip(of, function_names(of), strict=True)))


UNENDING: Final = ("M_TILE", "LC_X", "FP_SCALE", "PRIor", "M_", "SIGN", "INT_MAX", "HUGE_VALF", "int8_t", "linux", "y1")


@pytest.mark.thinned(13)
@pytest.mark.sampled
@pytest.mark.parametrize("name", UNENDING)
def test_program_may_use_one_name_for_everything(name: str) -> None:
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


def test_repeated_name_is_numbered_past_reserved_names() -> None:
    names = Names()
    bound = []
    for key, hint in enumerate(("exp", "exp", "M_", "M_", "M_LN", "M_LN", "int8", "int8")):
        name, names = names.bind(key, hint, of_function=True)
        bound.append(name)
    assert bound == ["exp_", "exp_2", "M_", "M_2", "M_LN", "M_LN2_", "int8", "int8_2"]
