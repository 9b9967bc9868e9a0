"""A seeded and bounded search for counterexamples with small numbers.

Leaves and array elements are assigned one after the other. A hypothesis that is linear in its last leaf bounds the
choice of this leaf, so that most samples satisfy the hypotheses. Other hypotheses are tested as soon as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from typing import Final, TypeAlias, assert_never

from atl.core.index import AnyAtom, Bound, Extremum, Quotient, Read, Size, Var, Xor
from atl.core.program import AtLeast, Below, bounds_of, order_of
from atl.prove.rows import Row, System, Table

SPREAD: Final = 6
"""Distance from a bound within which a value without another bound is chosen."""

Elements: TypeAlias = dict[tuple[str, tuple[int, ...]], int]


@dataclass(slots=True)
class Sample:
    """Values of the leaves and reads by column, and the array elements."""

    leaves: dict[int, int]
    elements: Elements


@dataclass(slots=True)
class _Plan:
    """The order of assigning columns, and the columns computed after each assignment."""

    table: Table
    unknowns: list[int]
    ready: dict[int, int] = field(default_factory=dict)
    computed: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Test:
    """A row tested once the unknown at `position` is assigned. If linear, it is slope * unknown + rest."""

    row: Row
    slope: tuple[tuple[int, tuple[int, ...]], ...]
    rest: tuple[tuple[int, tuple[int, ...]], ...]
    position: int
    linear: bool
    equality: bool


_Stage: TypeAlias = dict[int, list[_Test]]


@dataclass(slots=True)
class _Choice:
    """One alternative: its tests by position, and nested cases."""

    tests: _Stage
    cases: list[list[_Choice]]


class _Failed(Exception):
    """This sample cannot satisfy the hypotheses."""


class _Random:
    """A linear congruential generator, which gives the same numbers on every platform."""

    __slots__ = ("state",)

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, limit: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        return (self.state >> 33) % limit


@dataclass(slots=True)
class Search:
    """A sampler for one system; `sample` may be called repeatedly."""

    plan: _Plan
    root: _Choice
    undefined: bool
    random: _Random

    def sample(self, tries: int) -> Sample | None:
        """Return values that satisfy the system, or None after `tries` attempts."""
        for attempt in range(tries):
            try:
                return self._attempt(attempt)
            except _Failed:
                continue
        return None

    def _attempt(self, attempt: int) -> Sample:
        tests: _Stage = {}
        self._choose_cases(self.root, tests)
        values: dict[int, int] = {}
        elements: Elements = {}
        self._check(tests.get(-1, ()), values)
        for position, column in enumerate(self.plan.unknowns):
            atom = self.plan.table.atoms[column]
            known = self._known_element(column, atom, values, elements)
            here = tests.get(position, ())
            if known is None:
                low, high = self._range(column, atom, values, elements)
                values[column] = self._choose(here, values, low, high, attempt)
            else:
                values[column] = known
            if isinstance(atom, Read):
                elements[self._position(column, atom, values)] = values[column]
            for derived in self.plan.computed[position]:
                values[derived] = self._derived(derived, values)
            self._check(here, values)
        return Sample({column: values[column] for column in self.plan.unknowns}, elements)

    # -- cases ---------------------------------------------------------------------------------------------------

    def _choose_cases(self, choice: _Choice, tests: _Stage) -> None:
        for position, group in choice.tests.items():
            tests.setdefault(position, []).extend(group)
        for case in choice.cases:
            if not case:
                raise _Failed
            self._choose_cases(case[self.random.below(len(case))], tests)

    # -- values --------------------------------------------------------------------------------------------------

    def _choose(
        self, tests: Sequence[_Test], values: dict[int, int], low: int | None, high: int | None, attempt: int
    ) -> int:
        for test in tests:
            if not test.linear:
                continue
            slope, rest = _sum(test.slope, values), _sum(test.rest, values)
            if slope == 0:
                if rest < 0 or (rest and test.equality):
                    raise _Failed
                continue
            if slope > 0 or test.equality:
                least = -(rest // slope)
                low = least if low is None else max(least, low)
            if slope < 0 or test.equality:
                most = rest // -slope
                high = most if high is None else min(most, high)
        spread = SPREAD + attempt // 16
        if low is None and high is None:
            return self.random.below(2 * spread + 1) - spread // 2
        if low is None:
            assert high is not None
            low = high - spread
        elif high is None:
            high = low + spread
        if high < low:
            raise _Failed
        return self._between(low, high)

    def _between(self, low: int, high: int) -> int:
        """Choose a value; both ends and values near the lower end are more likely."""
        pick = self.random.below(4)
        if pick == 0:
            return low
        if pick == 1:
            return high
        return low + self.random.below(min(high - low + 1, 4 * SPREAD))

    def _range(
        self, column: int, atom: AnyAtom, values: dict[int, int], elements: Elements
    ) -> tuple[int | None, int | None]:
        match atom:
            case Size():
                return 0, None
            case Read(array, indices):
                low = high = None
                bounds = self.plan.table.parts[column][len(indices) + len(array.shape) :]
                for fact, bound in zip(bounds_of(array), bounds, strict=True):
                    match fact:
                        case AtLeast():
                            low = self._value(bound, values)
                        case Below():
                            high = self._value(bound, values) - 1
                        case _:
                            assert_never(fact)
                order = order_of(array)
                if order is None or order.between is not None or not indices:
                    return low, high
                step = 1 if order.strict else 0
                return self._between_neighbours(column, atom, values, elements, low, high, step)
            case Bound() | Var() | Quotient() | Extremum() | Xor():
                return None, None
            case _:
                assert_never(atom)

    def _between_neighbours(
        self,
        column: int,
        read: Read,
        values: dict[int, int],
        elements: Elements,
        low: int | None,
        high: int | None,
        step: int,
    ) -> tuple[int | None, int | None]:
        """Return the range that known elements leave for an element of an ordered row with at least this step."""
        _, position = self._position(column, read, values)
        rank = len(position)
        # The elements before and after it must fit between the bounds as well.
        after = self._value(self.plan.table.parts[column][2 * rank - 1], values) - 1 - position[-1]
        low = None if low is None else low + step * position[-1]
        high = None if high is None else high - step * after
        for (name, other), value in elements.items():
            if name != read.array.name or len(other) != len(position) or other[:-1] != position[:-1]:
                continue
            if not self._inside(column, read, other, values):
                continue
            bound = value + step * (position[-1] - other[-1])
            if other[-1] < position[-1]:
                low = bound if low is None else max(low, bound)
            else:
                high = bound if high is None else min(high, bound)
        return low, high

    def _known_element(self, column: int, atom: AnyAtom, values: dict[int, int], elements: Elements) -> int | None:
        if not isinstance(atom, Read):
            return None
        key = self._position(column, atom, values)
        if not self._inside(column, atom, key[1], values):
            return 0
        return elements.get(key)

    def _position(self, column: int, read: Read, values: dict[int, int]) -> tuple[str, tuple[int, ...]]:
        parts = self.plan.table.parts[column][: len(read.indices)]
        return read.array.name, tuple(self._value(part, values) for part in parts)

    def _inside(self, column: int, read: Read, position: tuple[int, ...], values: dict[int, int]) -> bool:
        rank = len(read.indices)
        shape = self.plan.table.parts[column][rank : rank + len(read.array.shape)]
        return all(0 <= k < self._value(extent, values) for k, extent in zip(position, shape, strict=False))

    def _derived(self, column: int, values: dict[int, int]) -> int:
        parts = [self._value(part, values) for part in self.plan.table.parts[column]]
        atom = self.plan.table.atoms[column]
        match atom:
            case Quotient():
                if parts[1] <= 0:
                    if not self.undefined:
                        raise _Failed
                    return self.random.below(SPREAD)
                return parts[0] // parts[1]
            case Extremum(kind, _):
                return min(parts) if kind == "min" else max(parts)
            case Xor():
                return reduce(xor, parts)
            case Size() | Bound() | Var() | Read():
                raise TypeError("a leaf is chosen, not computed")
        assert_never(atom)

    def _value(self, row: Row, values: dict[int, int]) -> int:
        monomials = self.plan.table.monomials
        total = 0
        for column, coefficient in row.items():
            product = coefficient
            for atom in monomials[column]:
                product *= values[atom]
            total += product
        return total

    def _check(self, tests: Sequence[_Test], values: dict[int, int]) -> None:
        for test in tests:
            value = self._value(test.row, values)
            if value < 0 or (value and test.equality):
                raise _Failed


def _sum(terms: tuple[tuple[int, tuple[int, ...]], ...], values: dict[int, int]) -> int:
    total = 0
    for coefficient, atoms in terms:
        product = coefficient
        for atom in atoms:
            product *= values[atom]
        total += product
    return total


# -- planning ---------------------------------------------------------------------------------------------------------


def search(table: Table, system: System, *, undefined: bool, seed: int = 1) -> Search:
    """Return a sampler for values that satisfy the system. If `undefined`, quotients by zero may have any value."""
    plan = _plan(table)
    return Search(plan, _make_choice(plan, system), undefined, _Random(seed))


def _plan(table: Table) -> _Plan:
    """Order the unknowns: sizes, then variables from the outermost; reads as soon as their position is known."""
    plan = _Plan(table, [])
    leaves = [column for column, atom in table.atoms.items() if isinstance(atom, Size | Bound | Var)]
    leaves.sort(key=lambda column: table.atoms[column].order)
    others = [column for column in table.atoms if column in table.parts]

    def schedule_ready() -> None:
        """Schedule all columns that depend only on the unknowns so far."""
        for column in list(others):
            if column in plan.ready or not _depends_only(table, column, plan.ready):
                continue
            others.remove(column)
            if isinstance(table.atoms[column], Read) or not plan.unknowns:
                # A quotient of constants divides by zero or less (dead code): it may have any value.
                _next_unknown(plan, column)
            else:
                plan.ready[column] = len(plan.unknowns) - 1
                plan.computed[-1].append(column)

    schedule_ready()
    for leaf in leaves:
        _next_unknown(plan, leaf)
        schedule_ready()
    return plan


def _next_unknown(plan: _Plan, column: int) -> None:
    plan.ready[column] = len(plan.unknowns)
    plan.unknowns.append(column)
    plan.computed.append([])


def _depends_only(table: Table, column: int, ready: dict[int, int]) -> bool:
    return all(atom in ready for part in table.parts[column] for key in part for atom in table.monomials[key])


def _make_choice(plan: _Plan, system: System) -> _Choice:
    tests: _Stage = {}
    for equality, rows in ((False, system.rows), (True, system.equalities)):
        for row in rows:
            test = _test(plan, row, equality)
            tests.setdefault(test.position, []).append(test)
    return _Choice(tests, [[_make_choice(plan, part) for part in case] for case in system.cases])


def _test(plan: _Plan, row: Row, equality: bool) -> _Test:
    monomials, ready = plan.table.monomials, plan.ready
    position = max((ready[atom] for column in row for atom in monomials[column]), default=-1)
    slope: list[tuple[int, tuple[int, ...]]] = []
    rest: list[tuple[int, tuple[int, ...]]] = []
    linear = True
    for column, coefficient in row.items():
        monomial = monomials[column]
        late = [atom for atom in monomial if ready[atom] == position]
        if not late:
            rest.append((coefficient, monomial))
        elif late == [plan.unknowns[position]]:
            slope.append((coefficient, tuple(atom for atom in monomial if atom not in late)))
        else:
            linear = False
    return _Test(row, tuple(slope), tuple(rest), position, linear, equality)
