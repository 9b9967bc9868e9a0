"""Loop nests written by hand: helpers that construct, print, build and run them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.index import Array, Index, Var, constant, index, size
from lowering.builds import build_shared, load
from lowering.c.printer import declaration, function_names, print_c
from lowering.c.scalars import C_TYPES
from lowering.nest import loopnest as ln
from lowering.passes import after_passes

AnyArray = npt.NDArray[Any]

# clang 19 warns about its own -march=native on newer processors.
_OF_CLANG: Final = ("-Wno-unknown-warning-option", "-Wno-invalid-feature-combination")
WARNINGS: Final = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", *_OF_CLANG)
"""Flags with which tests build generated C; no warning is allowed."""

n, m, k = size("n"), size("m"), size("k")
vi, vj, vk = Var(1, "i"), Var(2, "j"), Var(3, "k")
i, j, l = index(vi), index(vj), index(vk)  # noqa: E741
ZERO = constant(0)


def tensor(name: str, *extents: Index, dtype: str = "float32") -> tuple[Array, ln.Buffer]:
    """Return an input as its declaration and as the buffer that cells refer to."""
    return Array(name, extents, dtype), ln.Buffer(100 + sum(map(ord, name)), name, dtype, extents, "input")


def output(*extents: Index, dtype: str = "float32", name: str = "out") -> ln.Buffer:
    return ln.Buffer(0, name, dtype, extents, "output")


def cell(buffer: ln.Buffer, *indices: Index) -> ln.Cell:
    return ln.Cell(buffer, tuple(zip(indices, buffer.extents, strict=True)))


def at(buffer: ln.Buffer, *indices: Index) -> ln.Load:
    return ln.Load(cell(buffer, *indices))


def binary(op: Any, left: ln.ScalarExpr, right: ln.ScalarExpr) -> ln.Apply:
    return ln.Apply(op, (left, right), left.dtype)


def loop(variable: Var, high: Index, *body: Any, low: Index = ZERO) -> ln.For:
    return ln.For(variable, low, high, body)


def nest(
    name: str, inputs: Sequence[Array], out: ln.Buffer, *body: Any, sizes: str = "", complete: bool = True
) -> ln.LoopNest:
    return ln.LoopNest(name, tuple(sizes.split()), tuple(inputs), out, body, complete=complete)


def run(
    of: ln.LoopNest,
    arrays: Sequence[AnyArray | float] = (),
    sizes: Sequence[int] = (),
    count: int = 1,
    flags: Sequence[str] = (),
) -> AnyArray:
    """Build the nest after all passes, without warnings, and call it with a poisoned output."""
    of = after_passes(of)
    (name,) = function_names((of,))
    path = build_shared(print_c(of), name=name, extra_flags=(*WARNINGS, *flags))
    ffi, library = load(path, declaration(of, name))
    out = np.full(count, 0x7F, np.int8).repeat(8).view(of.output.dtype)[:count].copy()
    given = [ffi.from_buffer(f"{C_TYPES[str(a.dtype)]}[]", a) if isinstance(a, np.ndarray) else a for a in arrays]
    status = getattr(library, name)(*given, *sizes, ffi.from_buffer(f"{C_TYPES[of.output.dtype]}[]", out))
    assert status == 0
    return out


def body_of(of: ln.LoopNest) -> str:
    """Return the C function after all passes, without the text before it."""
    text = print_c(after_passes(of))
    return text[text.index(f"/* {function_names((of,))[0]}:") :]


def innermost(block: tuple[ln.Statement, ...]) -> Iterator[ln.For]:
    """Yield the loops that contain no other loop."""
    for statement in ln.statements(block):
        if isinstance(statement, ln.For) and not any(
            isinstance(inner, ln.For) for inner in ln.statements(statement.body)
        ):
            yield statement


def parts(value: object) -> Iterator[object]:
    """Yield all parts of a loop nest or expression."""
    yield value
    named = [getattr(value, name) for name in getattr(value, "__match_args__", ())]
    for inner in value if isinstance(value, tuple) else named:
        yield from parts(inner)
