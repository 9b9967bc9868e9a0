"""Loop nests written by hand, printed, built and called after the passes that `lower` runs; and what is in nests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.index import Array, Index, Var, constant, index, size
from lowering.c.parameters import declaration
from lowering.c.printer import function_names, print_c
from lowering.c.values.scalars import C_TYPES
from lowering.nest.loopnest import Apply, Buffer, Cell, For, Load, LoopNest, ScalarExpr, Statement, statements
from lowering.passes import after_passes
from lowering.toolchain import build_shared, load

AnyArray = npt.NDArray[Any]

# clang 19 warns of its own -march=native on processors newer than it.
_OF_CLANG: Final = ("-Wno-unknown-warning-option", "-Wno-invalid-feature-combination")
WARNINGS: Final = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", *_OF_CLANG)
"""Generated C is built with these in tests, and with no complaint."""

n, m, k = size("n"), size("m"), size("k")
vi, vj, vk = Var(1, "i"), Var(2, "j"), Var(3, "k")
i, j, l = index(vi), index(vj), index(vk)  # noqa: E741
ZERO = constant(0)


def tensor(name: str, *extents: Index, dtype: str = "float32") -> tuple[Array, Buffer]:
    """An input, as it is declared and as cells refer to it."""
    return Array(name, extents, dtype), Buffer(100 + sum(map(ord, name)), name, dtype, extents, "input")


def output(*extents: Index, dtype: str = "float32", name: str = "out") -> Buffer:
    return Buffer(0, name, dtype, extents, "output")


def cell(buffer: Buffer, *indices: Index) -> Cell:
    return Cell(buffer, tuple(zip(indices, buffer.extents, strict=True)))


def at(buffer: Buffer, *indices: Index) -> Load:
    return Load(cell(buffer, *indices))


def binary(op: Any, left: ScalarExpr, right: ScalarExpr) -> Apply:
    return Apply(op, (left, right), left.dtype)


def loop(variable: Var, high: Index, *body: Any, low: Index = ZERO) -> For:
    return For(variable, low, high, body)


def nest(
    name: str, inputs: Sequence[Array], out: Buffer, *body: Any, sizes: str = "", complete: bool = True
) -> LoopNest:
    return LoopNest(name, tuple(sizes.split()), tuple(inputs), out, body, complete=complete)


def run(
    of: LoopNest,
    arrays: Sequence[AnyArray | float] = (),
    sizes: Sequence[int] = (),
    count: int = 1,
    flags: Sequence[str] = (),
) -> AnyArray:
    """Builds the nest, after all passes, without a warning and calls it; the output is poisoned before."""
    of = after_passes(of)
    (name,) = function_names((of,))
    path = build_shared(print_c(of), name=name, extra_flags=(*WARNINGS, *flags))
    ffi, library = load(path, declaration(of, name))
    out = np.full(count, 0x7F, np.int8).repeat(8).view(of.output.dtype)[:count].copy()
    given = [ffi.from_buffer(f"{C_TYPES[str(a.dtype)]}[]", a) if isinstance(a, np.ndarray) else a for a in arrays]
    status = getattr(library, name)(*given, *sizes, ffi.from_buffer(f"{C_TYPES[of.output.dtype]}[]", out))
    assert status == 0
    return out


def body_of(of: LoopNest) -> str:
    """The function's lines after all passes, without what stands before them."""
    text = print_c(after_passes(of))
    return text[text.index(f"/* {function_names((of,))[0]}:") :]


def innermost(block: tuple[Statement, ...]) -> Iterator[For]:
    """The loops that have no other loop inside."""
    for statement in statements(block):
        if isinstance(statement, For) and not any(isinstance(inner, For) for inner in statements(statement.body)):
            yield statement


def parts(value: object) -> Iterator[object]:
    """All that a piece of a loop nest is made of."""
    yield value
    within = (
        value if isinstance(value, tuple) else [getattr(value, name) for name in getattr(value, "__match_args__", ())]
    )
    for inner in within:
        yield from parts(inner)
