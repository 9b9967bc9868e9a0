"""Random storages: store tensors or reorder loops, and compare with the original program.

Storages are the named ones of `layouts`, strides, layouts over F2, swizzles after strides and Axe layouts, injective or
not. A refused layout must not be injective, by enumeration.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import numpy as np

import atl
import layouts
from atl.core.index import constant
from atl.core.program import Program
from atl.errors import ATLError
from layouts.axe import S, axis
from lowering import lower
from lowering.nest.interpreter import execute
from rewrites import Session, reschedule
from rewrites.tactics.reindexing.storing import FilledBy

PROGRAMS: Final = (
    (
        "f (A : float32[{0}, {1}]) : float32[{0}, {1}] := let y := ⊞[i < {0}] ⊞[j < {1}] A[i, j] + 1 in "
        "⊞[i < {0}] ⊞[j < {1}] y[i, j] * y[{0} - 1 - i, j] + A[i, j]"
    ),
    (
        "f (A : float32[{0}, {1}]) : float32[{1}] := let y := ⊞[i < {0}] ⊞[j < {1}] 2 * A[i, j] in "
        "⊞[j < {1}] Σ[i < {0}] y[i, j] * A[i, j]"
    ),
    (
        "f (A : float32[{0}, {1}]) : float32[{0}, {1}] := "
        "let y := ⊞[i < {0}] ⊞[j < {1}] where(A[i, j] < 5, A[i, j] + 1, 2) in rec[p < {0}] u from "
        "padding(float32[0, {1}]) in ⊞[j < {1}] select(1 <= p, u[p - 1, {1} - 1 - j], 0) + y[p, j] * A[p, j]"
    ),
)
REORDERED: Final = (
    "f (A : float32[{0}, {1}]) : float32[{0}, {1}] := ⊞[i < {0}] ⊞[j < {1}] A[i, j] * A[i, j]",
    "f (A : float32[{0}, {1}]) : float32 := Σ[i < {0}] Σ[j < {1}] A[i, j] * A[i, j]",
)
NAMED: Final[tuple[Callable[[Random], Any], ...]] = (
    lambda _: layouts.column_major,
    lambda r: layouts.blocked(r.randint(1, 4), r.randint(1, 5)),
    lambda r: layouts.padded(r.randint(0, 3)),
    lambda _: layouts.skewed,
    lambda r: layouts.swizzled(r.choice((1, 2, 4)), r.choice((1, 2, 3))),
    lambda r: layouts.morton(r.choice((1, 2, 4))),
    lambda _: layouts.backwards,
    lambda _: layouts.antidiagonal,
    lambda _: layouts.compact_antidiagonal,
    lambda _: layouts.sheared,
    lambda r: in_segments(r.randint(0, 2), r.randint(0, 2)),
)


def in_segments(gap: int, growing: int) -> Callable[[Any], layouts.IndexFunction]:
    """Return a storage of consecutive rows, with growing gaps between them."""

    def storage(shape: Any) -> layouts.IndexFunction:
        rows, columns = shape
        segments = layouts.Segments(rows, lambda i: i * (columns + gap + growing * i), lambda _: columns)
        return layouts.IndexFunction(
            (rows, columns), lambda i, j: (i, j), lambda i, q: (i, q), onto=segments, name="segments"
        )

    return storage


def named_storage(random: Random) -> tuple[Any, list[Any], dict[str, int]]:
    """Return a named storage, and a shape of numbers or of sizes with numbers."""
    at = [random.randint(1, 6), random.randint(1, 9)]
    named = [f"{name}" if random.random() < 0.5 else extent for name, extent in zip("nm", at, strict=True)]
    return random.choice(NAMED)(random), named, {"n": at[0], "m": at[1]}


def of_powers(random: Random) -> tuple[Any, list[Any], dict[str, int]]:
    """Return a function on powers of two: over F2, along axes, or a swizzle after rows."""
    a, b = random.randint(0, 3), random.randint(0, 4)
    rows, columns = 1 << a, 1 << b
    made: Any
    match random.randrange(4):
        case 0:
            width = a + b + random.randint(0, 1)
            given = [random.randrange(1, max(2, 1 << width)) for _ in range(a + b)]
            if random.random() < 0.7:
                given = [1 << k for k in random.sample(range(width), a + b)]
                for k in range(1, len(given)):
                    given[k] ^= given[random.randrange(k)] if random.random() < 0.5 else 0
            made = layouts.LinearLayout.from_bases([("i", given[:a]), ("j", given[a:])], [("at", 1 << width)])
        case 1:
            made = layouts.Layout(
                (rows, columns), (layouts.F2(random.randint(1, 2 * columns)), layouts.F2(random.choice((1, 1, 2, 3))))
            )
        case 2:
            bits, base = random.randint(0, 2), random.randint(0, 2)
            made = layouts.composition(
                layouts.Swizzle(bits, base, random.randint(max(bits, 1), 4)),
                layouts.Layout((rows, columns), (columns, 1)),
            )
        case _:
            lane = axis("lane")
            cut = 1 << random.randint(0, b)
            strides = (random.choice((1, 2, 4)) @ lane, cut * random.choice((1, 2)), 1)
            made = S[(rows, columns // cut, cut) : strides]
    return made, [rows, columns], {}


def by_strides(random: Random) -> tuple[Any, list[Any], dict[str, int]]:
    """Return strides of two modes, often injective."""
    rows, columns = random.randint(1, 5), random.randint(1, 5)
    strides = (
        (columns + random.randint(-1, 2), 1) if random.random() < 0.6 else (random.randint(0, 6), random.randint(0, 6))
    )
    return layouts.Layout((rows, columns), strides), [rows, columns], {}


def is_storage(layout: Any, rows: int, columns: int) -> bool:
    """Return whether the layout is injective, by enumeration; named storages always are."""
    if not isinstance(layout, layouts.Function):
        return True
    values = layout.table().reshape(rows * columns, -1)
    return len(np.unique(values, axis=0)) == rows * columns


def random_storage(random: Random) -> tuple[Any, list[Any], dict[str, int]]:
    return random.choice((named_storage, named_storage, of_powers, of_powers, by_strides))(random)


def compare(program: Program, session: Session, sizes: dict[str, int], rows: int, columns: int) -> str:
    """Return a difference between goal and program, in the interpreter or the loop nest, or an empty text."""
    given = np.arange(1, rows * columns + 1, dtype=np.float32).reshape(rows, columns)
    wanted = atl.evaluate(program, A=given)
    if not np.array_equal(atl.evaluate(session.goal, A=given), wanted):
        return "the interpreter differs"
    nest = lower(session.goal)
    outcome = execute(nest, {name: sizes[name] for name in nest.sizes}, {"A": given})
    found = np.zeros(wanted.size, dtype=np.float32)
    for at, value in outcome.cells.items():
        found[at] = value
    return "" if np.array_equal(found.reshape(wanted.shape), wanted) else "the loop nest differs"


def tried(random: Random, what: str) -> tuple[str, str]:
    """Try a random storage in a random program; return the outcome, and a finding or an empty text."""
    layout, shape, sizes = random_storage(random)
    rows, columns = (sizes[e] if isinstance(e, str) else e for e in shape)
    program = atl.parse(random.choice(REORDERED if what == "reordered" else PROGRAMS).format(*shape))
    session = reschedule(program)
    try:
        if what == "reordered":
            session.reorder(["i", "j"], layout)
        else:
            loops: FilledBy = "elements" if what == "by elements" else "places"
            session.store("y" if random.random() < 0.7 else "A", layout, loops=loops)
    except ATLError as refused:
        if what == "by elements" and "packed segments" in refused.summary:
            return "packed segments, not by elements", ""
        if is_storage(layout, rows, columns) and (what != "reordered" or _has_inverse(layout, rows, columns)):
            return "refused", f"{layout} of {shape} is refused: {refused.args[0]}"
        return f"no storage, not {what}", ""
    wrong = compare(program, session, sizes, rows, columns)
    return what, f"{what} through {layout} of {shape} at {sizes}: {wrong}\n{session.goal}" if wrong else ""


def _has_inverse(layout: Any, rows: int, columns: int) -> bool:
    """Return whether the inverse has a formula, which reordered loops need."""
    if not isinstance(layout, layouts.Layout):
        return True
    return layout.stored((constant(rows), constant(columns))).inverse is not None
