"""Random recurrences, whose storage in one row or more is compared with a simulation of one row at small sizes.

`python -m proofs_tests.nests.random_recurrences --n 100 --seed 1` prints how many may be computed in place, how many
are, and the reasons for the others. Half of the programs may not be computed in place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any, Final

import numpy as np

import atl
from atl import IndexExpr, Program, Tensor
from lowering import lower
from lowering.nest.interpreter import run
from lowering.nest.loopnest import RowStorage
from proofs_tests.fuzzing import Progress, Tally, command, try_all

DTYPE: Final = "float64"
SIZES: Final = (2, 3, 4, 5, 6, 9)
STEPS: Final = 4
UNPROVED: Final = "is not proved to read row"
"""Part of the only reason for two rows where one is enough."""

n = atl.sizes("n", min=2)
T = atl.sizes("T")

Place = Callable[..., tuple[Any, ...]]
"""Indices of an element that is read, from those of the stored one, the number of the step, and n."""
Test = Callable[..., Any]
"""Condition on the same numbers, for integers and for index expressions."""


def _affine(random: Random) -> Callable[[Any, Any, Any], Any]:
    """Return a position along an axis, from the own one, the step and n."""
    c = random.choice((-2, -1, -1, 0, 0, 0, 1, 1, 2))
    chosen: Callable[[Any, Any, Any], Any] = random.choice(
        (
            *(lambda i, s, n: i + c,) * 7,
            lambda i, s, n: n - 1 - i,
            lambda i, s, n: i * 2 + c,
            lambda i, s, n: i + s * 0 + (c and 1),
            lambda i, s, n: s + c,
            lambda i, s, n: i // 2,
            lambda i, s, n: n - 1 + i * 0,
            lambda i, s, n: i * 0,
        )
    )
    return chosen


def _place(random: Random, rank: int) -> Place:
    axes = [_affine(random) for _ in range(rank)]
    if rank == 2 and random.random() < 0.15:
        return lambda at, s, n: (axes[0](at[1], s, n), axes[1](at[0], s, n))
    return lambda at, s, n: tuple(axis(i, s, n) for axis, i in zip(axes, at, strict=True))


def _test(random: Random, rank: int) -> Test:
    d = random.randrange(rank)
    c = random.choice((0, 1, 2))
    chosen: Test = random.choice(
        (
            lambda at, s, n: at[d] >= c,
            lambda at, s, n: at[d] < n - c,
            lambda at, s, n: (at[d] >= 1) & (at[d] < n - 1),
            lambda at, s, n: at[d] == c,
            lambda at, s, n: at[d] <= s,
            lambda at, s, n: (at[d] + s) % 2 == 0,
            lambda at, s, n: at[d] % 2 == (c and 1),
            lambda at, s, n: at[0] < at[-1] + c,
            lambda at, s, n: at[d] >= 0,
            lambda at, s, n: at[d] >= 0,
        )
    )
    return chosen


def _within(place: tuple[Any, ...], n: Any) -> Any:
    held: Any = None
    for i in place:
        one = (i >= 0) & (i < n)
        held = one if held is None else held & one
    return held


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a recurrence on a state of rank 1 or 2.

    An element is stored where `stored` holds, and kept elsewhere. It adds the elements of the state before at `reads`
    under their conditions, and, with `staged`, of a tensor made from that state first. With `by_rows`, rows are
    recurrences too, and an element adds the new one before it. The first `cut` rows are computed by a loop before the
    others.
    """

    rank: int
    stored: Test
    reads: Sequence[tuple[Test, Place]]
    staged: Sequence[tuple[Test, Place]]
    by_rows: bool
    cut: int

    @staticmethod
    def drawn(random: Random) -> Step:
        rank = random.choice((1, 1, 2))

        def some(most: int) -> list[tuple[Test, Place]]:
            return [(_test(random, rank), _place(random, rank)) for _ in range(random.randint(0, most))]

        staged = some(2) if random.random() < 0.2 else []
        by_rows, cut = rank == 2 and random.random() < 0.3, random.choice((0, 0, 1, 2))
        return Step(rank, _test(random, rank), [*some(2), *some(1)], staged, by_rows, cut)

    def program(self) -> Program:
        """Return the program of the last state."""
        a = atl.tensor("a", *[n] * self.rank, dtype=DTYPE)

        def added(u: Tensor, reads: Sequence[tuple[Test, Place]], at: tuple[IndexExpr, ...], s: IndexExpr) -> Any:
            total: Any = atl.cast(DTYPE, 1)
            for k, (test, place) in enumerate(reads):
                where = place(at, s, n)
                total = total + (k + 2) * atl.select(test(at, s, n) & _within(where, n), u[where], 0)
            return total

        def step(s: IndexExpr, u: Tensor) -> Tensor:
            def element(at: tuple[IndexExpr, ...], copied: Tensor | None, new: Any = 0) -> Any:
                value = added(u, self.reads, at, s) + new
                if copied is not None:
                    value = value + copied[at]
                return atl.select(self.stored(at, s, n), value / 8, u[at])

            def whole(copied: Tensor | None) -> Tensor:
                if self.by_rows:
                    return atl.rec(n, lambda i, _: row(i, copied), of=(n,), dtype=DTYPE)
                rest = [n] * (self.rank - 1)
                after = atl.gen(n - self.cut, *rest, lambda i, *j: element((i + self.cut, *j), copied))
                if not self.cut:
                    return after
                return atl.concat(atl.gen(self.cut, *rest, lambda *at: element(at, copied)), after)

            def row(i: IndexExpr, copied: Tensor | None) -> Tensor:
                def later(j: IndexExpr, r: Tensor) -> Any:
                    return element((i, j), copied, atl.select(j >= 1, r[j - 1], u[i, j]))

                return atl.rec(n, later, dtype=DTYPE)

            if not self.staged:
                return whole(None)
            return atl.let(atl.gen(*[n] * self.rank, lambda *at: added(u, self.staged, at, s)), whole)

        return atl.program("steps", [a], atl.iterate(T, a, step))

    def may_be_in_place(self) -> bool:
        """Return whether no element of the state before is read after a store to it, at small sizes."""
        return not any(self.is_lost(s, size) for size in SIZES for s in range(STEPS))

    def is_lost(self, s: int, size: int) -> bool:
        """Return whether an element is read after a store to it, in one step at one size."""
        replaced: set[tuple[int, ...]] = set()
        for at in product(range(size), repeat=self.rank):
            if not self.stored(at, s, size):
                continue
            for test, place in self.reads:
                where = place(at, s, size)
                if test(at, s, size) and _within(where, size) and where in replaced:
                    return True
            replaced.add(at)
        return False


def balanced(seed: int) -> Iterator[tuple[Step, bool]]:
    """Yield random steps, of which every second one may be in place, with that."""
    random = Random(f"recurrences {seed}")
    wanted = True
    while True:
        step = Step.drawn(random)
        if step.may_be_in_place() is wanted:
            yield step, wanted
            wanted = not wanted


def difference(program: Program, *, compiled: bool) -> str:
    """Return a difference between the loop nest or C and the meaning, or an empty text."""
    numbers = np.random.default_rng(5)
    nest = lower(program)
    kernel = atl.compile(program) if compiled else None
    for size, steps in ((2, 0), (2, 3), (3, 2), (5, 4)):
        arrays: Mapping[str, Any] = {a.name: numbers.uniform(-1, 1, (size,) * len(a.shape)) for a in program.inputs}
        meant = atl.evaluate(program, **arrays, T=steps)
        for found in (run(nest, {"n": size, "T": steps}, arrays), kernel(**arrays, T=steps) if kernel else meant):
            if not np.allclose(found, meant, rtol=1e-12):
                return f"other values at n = {size}, T = {steps}"
    return ""


@dataclass(slots=True)
class Report(Tally[str]):
    """Counts of a run: programs that may be and are in place, and the reasons for more rows than needed."""

    may: int = 0
    are: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        more = [f"  {count}: {reason}" for reason, count in self.reasons.most_common()]
        return self.report(
            [self.opening("recurrences"), f"  {self.may} may be in place, {self.are} of them are; refused:", *more]
        )


def storage_of(program: Program) -> RowStorage | None:
    """Return the storage of the recurrence over the steps; None if all steps are kept or none."""
    found = [storage for storage in lower(program).row_storage if storage.name == "u"]
    return found[0] if len(found) == 1 else None


def judged(step: Step, report: Report, *, may: bool, compiled: bool) -> str:
    """Return the fault of the storage of a recurrence, or an empty text."""
    program = step.program()
    storage = storage_of(program)
    if storage is None:
        return f"its storage is not known\n{program}"
    if storage.rows == 1:
        report.are += 1
        if not may:
            return f"wrongly computed in place\n{program}"
    elif numbers := re.search(r"would be replaced before.*\(.*\bn = (\d+), s = (\d+)", storage.reason):
        if not step.is_lost(int(numbers[2]) - 1, int(numbers[1])):
            return f"may be computed in place there, but {storage}\n{program}"
    elif UNPROVED in storage.reason and storage.rows == 2:
        report.reasons[storage.reason] += may
    else:
        return f"needs two rows, but {storage}\n{program}"
    wrong = difference(program, compiled=compiled)
    return f"{wrong}\n{program}" if wrong else ""


def run_recurrences(
    numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, compiled: bool = True
) -> Report:
    """Judge the random recurrences with these numbers."""
    report = Report(seed, wanted=len(numbers))
    steps = balanced(seed)
    drawn = [next(steps) for _ in range(max(numbers) + 1)]

    def one(number: int) -> None:
        step, may = drawn[number]
        report.may += may
        if wrong := judged(step, report, may=may, compiled=compiled):
            report.findings.append(f"recurrence {number}: {wrong}")

    try_all(report, numbers, one, progress)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 without findings, 1 with findings, 130 when interrupted."""
    description = "Compares the storage of random recurrences with a simulation of one row."
    return command(arguments, run_recurrences, name="rows", what="recurrences", description=description)


if __name__ == "__main__":
    raise SystemExit(main())
