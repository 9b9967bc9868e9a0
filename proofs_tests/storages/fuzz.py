"""Random storages: tensors stored, loops run in their order, inputs viewed; each compared with the program as it was.

Drawn are the words of `layouts.storages`, strides, layouts over F2, swizzles after strides, LEGO's chains and Axe's
layouts, of one that is one to one and of others. What is refused has to be no storage, by enumeration of its places.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import numpy as np

import atl
from atl.core.index import constant
from atl.core.program import Program
from atl.errors import ATLError
from layouts import (
    F2,
    Function,
    IndexFunction,
    Layout,
    LinearLayout,
    Segments,
    Swizzle,
    antidiagonal,
    backwards,
    blocked,
    column_major,
    compact_antidiagonal,
    composition,
    morton,
    padded,
    skewed,
    swizzled,
)
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
)
REORDERED: Final = (
    "f (A : float32[{0}, {1}]) : float32[{0}, {1}] := ⊞[i < {0}] ⊞[j < {1}] A[i, j] * A[i, j]",
    "f (A : float32[{0}, {1}]) : float32 := Σ[i < {0}] Σ[j < {1}] A[i, j] * A[i, j]",
)
WORDS: Final[tuple[Callable[[Random], Any], ...]] = (
    lambda _: column_major,
    lambda r: blocked(r.randint(1, 4), r.randint(1, 5)),
    lambda r: padded(r.randint(0, 3)),
    lambda _: skewed,
    lambda r: swizzled(r.choice((1, 2, 4)), r.choice((1, 2, 3))),
    lambda r: morton(r.choice((1, 2, 4))),
    lambda _: backwards,
    lambda _: antidiagonal,
    lambda _: compact_antidiagonal,
    lambda r: in_segments(r.randint(0, 2), r.randint(0, 2)),
)


def in_segments(apart: int, growing: int) -> Callable[[Any], IndexFunction]:
    """Rows one after the other, with room between them that grows."""

    def storage(shape: Any) -> IndexFunction:
        rows, columns = shape
        segments = Segments(rows, lambda i: i * (columns + apart + growing * i), lambda _: columns)
        return IndexFunction((rows, columns), lambda i, j: (i, j), lambda i, q: (i, q), onto=segments, name="segments")

    return storage


def by_word(random: Random) -> tuple[Any, list[Any], dict[str, int]]:
    """A word, and a shape: numbers, or sizes with numbers for them."""
    at = [random.randint(1, 6), random.randint(1, 9)]
    named = [f"{name}" if random.random() < 0.5 else extent for name, extent in zip("nm", at, strict=True)]
    return random.choice(WORDS)(random), named, {"n": at[0], "m": at[1]}


def of_powers(random: Random) -> tuple[Any, list[Any], dict[str, int]]:
    """A function of powers of two: over F2, along axes, or rows after which a swizzle comes."""
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
            made = LinearLayout.from_bases([("i", given[:a]), ("j", given[a:])], [("at", 1 << width)])
        case 1:
            made = Layout((rows, columns), (F2(random.randint(1, 2 * columns)), F2(random.choice((1, 1, 2, 3)))))
        case 2:
            bits, base = random.randint(0, 2), random.randint(0, 2)
            made = composition(
                Swizzle(bits, base, random.randint(max(bits, 1), 4)), Layout((rows, columns), (columns, 1))
            )
        case _:
            lane = axis("lane")
            cut = 1 << random.randint(0, b)
            strides = (random.choice((1, 2, 4)) @ lane, cut * random.choice((1, 2)), 1)
            made = S[(rows, columns // cut, cut) : strides]
    return made, [rows, columns], {}


def by_strides(random: Random) -> tuple[Any, list[Any], dict[str, int]]:
    """Any strides of two modes, most of which store."""
    rows, columns = random.randint(1, 5), random.randint(1, 5)
    strides = (
        (columns + random.randint(-1, 2), 1) if random.random() < 0.6 else (random.randint(0, 6), random.randint(0, 6))
    )
    return Layout((rows, columns), strides), [rows, columns], {}


def is_storage(layout: Any, rows: int, columns: int) -> bool:
    """Whether each element has a place of its own, by enumeration; words always give each one."""
    if not isinstance(layout, Function):
        return True
    values = layout.table().reshape(rows * columns, -1)
    return len(np.unique(values, axis=0)) == rows * columns


def draw(random: Random) -> tuple[Any, list[Any], dict[str, int]]:
    return random.choice((by_word, by_word, of_powers, of_powers, by_strides))(random)


def compare(program: Program, session: Session, sizes: dict[str, int], rows: int, columns: int) -> str:
    """What the goal computes that the program does not, in the interpreter and by its loop nest."""
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
    """One storage in one program: what came of it, and what is wrong, if anything."""
    layout, shape, sizes = draw(random)
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
        if what == "by elements" and "places in segments" in refused.summary:
            return "places in segments, not by elements", ""
        if is_storage(layout, rows, columns) and (what != "reordered" or _leads_back(layout, rows, columns)):
            return "refused", f"{layout} of {shape} is refused: {refused.args[0]}"
        return f"no storage, not {what}", ""
    wrong = compare(program, session, sizes, rows, columns)
    return what, f"{what} through {layout} of {shape} at {sizes}: {wrong}\n{session.goal}" if wrong else ""


def _leads_back(layout: Any, rows: int, columns: int) -> bool:
    """Whether a formula leads back from places: strides in no order may store, and loops in their order need one."""
    if not isinstance(layout, Layout):
        return True
    return layout.stored((constant(rows), constant(columns))).inverse is not None
