"""Random programs with a let of constant size marked `registers`: ways to fill the tile and to read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import atl
from atl.core.index import constant
from atl.core.marks import LetMark
from lowering.lower import lower_unchecked
from lowering.nest.loopnest import Allocate, Assign, Buffer, Free, LoopNest
from proofs_tests.nests.by_hand import at, cell, i, loop, n, nest, output, tensor, vi
from proofs_tests.programs.generate import Case

VALUES: Final = (
    "Σ[p < k] ⊞[i < R] ⊞[j < C] A[i, p] * B[p, j]",
    "Σ[p < k] ⊞[i < R] ⊞[j < C] [CONDITION] · (A[i, p] - B[p, j])",
    "⊞[i < R] ⊞[j < C] Σ[p < k] A[i, p] * B[p, j]",
    "⊞[i < R] ⊞[j < C] Z[i, j] * x[j] + y[i]",
    "⊞[i < R] ⊞[j < C] -(Z[i, j] + 3) * y[0]",
    "⊞[i < R] ⊞[j < C] [CONDITION] · Z[i, j] + Z[i, C - 1 - j]",
    "⊞[i < R] ⊞[j < C] max(Z[i, j], min(x[j], y[i]))",
    "⊞[i < R] ⊞[j < C] select(CONDITION, Z[i, j], x[j])",
    "⊞[i < R] ⊞[j < C] cast(DTYPE, V[i, j]) - x[j]",
    "⊞[i < R] ⊞[j < C] value(i * j) * x[j]",
    "⊞[i < R] ⊞[j < C] y[i]",
    "⊞[i < R] ((⊞[j < H] x[j]) ++ ⊞[j < C - H] Z[i, j])",
    "transpose ⊞[j < C] ⊞[i < R] Z[i, j]",
    "⊞[i < R] padr (C - H) ⊞[j < H] Z[i, j + (C - H)]",
    "Σ[p < k] (padr (R - min(k, R)) ⊞[i < min(k, R)] ⊞[j < C] A[i, p] * B[p, j])",
    "Σ[p < k] ⊞[i < R] padr (C - min(k, C)) ⊞[j < min(k, C)] A[i, p] * B[p, j]",
    "⊞[i < R] ⊞[j < C] let s := Z[i, j] * x[j] in s * s",
    "(⊞[i < R] ⊞[j < C] Z[i, j]) + Σ[p < k] ⊞[i < R] ⊞[j < C] A[i, p] * B[p, j]",
    "Σ[p < k] Σ[q < 2] ⊞[i < R] ⊞[j < C] [q <= p] · A[i, p - q] * B[p, j]",
)
"""Expressions that fill the tile. R and C are its extents, H is at most C, and k is known in the call."""

BODIES: Final = (
    ("R, C", "⊞[i < R] ⊞[j < C] acc[i, j]"),
    ("C, R", "⊞[j < C] ⊞[i < R] acc[i, j]"),
    ("R, C", "⊞[i < R] ⊞[j < C] acc[i, C - 1 - j] * y[i]"),
    ("R", "⊞[i < R] Σ[j < C] acc[i, j]"),
    ("C", "⊞[j < C] Σ[i < R] acc[i, j] * y[i]"),
    ("k, C", "⊞[q < k] ⊞[j < C] Σ[i < R] acc[i, j] * A[i, q]"),
    ("min(k, R), C", "⊞[i < min(k, R)] ⊞[j < C] acc[i, j] + 1"),
    ("R, C", "⊞[i < R] ⊞[j < C] [CONDITION] · acc[i, j] * acc[i, 0]"),
    ("R, C", "⊞[i < R] padr (C - min(k, C)) ⊞[j < min(k, C)] acc[i, j]"),
    ("R, C", "let d | registers := ⊞[i < R] ⊞[j < C] acc[i, j] + acc[0, j] in ⊞[i < R] ⊞[j < C] d[i, C - 1 - j]"),
    ("R, C", "let next | registers := Σ[p < k] ⊞[i < R] ⊞[j < C] acc[i, p % C] * B[p, j] in next"),
    (
        "min(k, R), C",
        "let row | registers := ⊞[j < C] x[j] + 1 in ⊞[i < min(k, R)] ⊞[j < C] acc[i, j] * row[j] - row[0] * acc[0, 0]",
    ),
    ("C, R, 2", "⊞[j < C] ⊞[i < R] ⊞[q < 2] acc[i, j] * x[(j + q) % C]"),
)  # fmt: skip
"""Shapes of results, and expressions that read the tile."""

CONDITIONS: Final = ("i <= j", "j < k", "(i + j) % 2 = 0", "i < k", "i ≠ 1", "k % 2 = 0")
DTYPES: Final = ("float32", "float32", "float64", "int32", "int64")
LIMIT: Final = 2048


@dataclass(frozen=True, slots=True)
class Tiled:
    """A case, with the numbers of its value and body."""

    case: Case
    value: int
    body: int


def tiled(seed: str) -> Tiled | None:
    """Return the program of this seed with a call of it, or None if it does not parse."""
    random = Random(seed)
    dtype = random.choice(DTYPES)
    size = np.dtype(dtype).itemsize
    columns = random.choice([1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 24, 32, 44])
    rows = random.randint(1, min(6, LIMIT // (columns * size)))
    value, body = random.randrange(len(VALUES)), random.randrange(len(BODIES))
    shape, read = BODIES[body]
    text = (
        f"t (A : DTYPE[R, k], B : DTYPE[k, C], Z : DTYPE[R, C], V : int32[R, C], x : DTYPE[C], y : DTYPE[R]) "
        f": DTYPE[{shape}]\n    given 1 <= k :=\n  let acc | registers := {VALUES[value]} in {read}"
    )
    words = {"CONDITION": random.choice(CONDITIONS), "DTYPE": dtype, "H": str(random.randint(0, columns))}
    for word, by in {**words, "R": str(rows), "C": str(columns)}.items():
        text = re.sub(rf"\b{word}\b", by, text)
    try:
        program = atl.parse(text)
    except atl.ATLError:
        return None
    inner = random.choice([1, 2, 3, 7])
    arrays = _arrays(program, {"k": inner}, seed)
    return Tiled(Case(program, {"k": inner}, arrays, frozenset()), value, body)


def _arrays(program: atl.Program, sizes: dict[str, int], seed: str) -> dict[str, npt.NDArray[Any]]:
    draw = np.random.default_rng(sum(map(ord, seed)))
    made: dict[str, npt.NDArray[Any]] = {}
    for array in program.inputs:
        shape = [sizes["k"] if extent.constant is None else extent.constant for extent in array.shape]
        made[array.name] = draw.integers(-4, 5, shape).astype(array.dtype)
    return made


def tile_nests() -> Iterator[tuple[LoopNest, Mapping[str, int], Mapping[str, npt.NDArray[Any]]]]:
    """Yield nests with tiles, with sizes and arrays."""
    for number in range(10):
        made = tiled(f"nests:{number}")
        assert made is not None
        yield lower_unchecked(made.case.program), made.case.sizes, made.case.arrays
    for of in (meeting(), adjacent()):
        yield of, {"n": 5}, {"x": np.arange(1, 6, dtype=np.float32)}


def meeting() -> LoopNest:
    """Return a loop whose second statement reads what the first stores one iteration later."""
    array, x = tensor("x", n)
    tile, out = Buffer(4, "tile", "float32", (constant(8),)), output(n)
    both = (Assign(cell(tile, i), at(x, i)), Assign(cell(out, i), at(tile, i + 1)))
    made = Allocate(tile, constant(8), "stack", mark=LetMark.REGISTERS)
    return nest("meeting", [array], out, made, loop(vi, constant(4), *both), Free(tile), sizes="n", complete=False)


def adjacent() -> LoopNest:
    """Return a loop with two statements, only one of which accesses the tile."""
    array, x = tensor("x", n)
    tile, out = Buffer(4, "tile", "float32", (constant(4),)), output(n)
    both = (Assign(cell(tile, i), at(x, i)), Assign(cell(out, i + 1), at(x, i)))
    made = Allocate(tile, constant(4), "stack", mark=LetMark.REGISTERS)
    last = Assign(cell(out, constant(0)), at(tile, constant(2)))
    return nest(
        "adjacent", [array], out, made, loop(vi, constant(4), *both), last, Free(tile), sizes="n", complete=False
    )
