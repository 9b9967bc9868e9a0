"""The linear prover: do the facts and a negated goal contradict each other?

The definitions of atoms become rows: b*q <= a < b*q + b for a quotient q = a // b, and the bounds of an extremum or an
array element. A quotient is defined only after its divisor was proved positive *from the system itself*; until then it
is an arbitrary integer. Then follow elimination, products of hypotheses, and case splits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import Final, TypeAlias

from atl.core.index import AnyAtom, Bound, Extremum, Quotient, Read, Size, Var, Xor
from atl.core.program import is_strict, order_of
from atl.prove.rows import (
    Budget,
    Disjunction,
    Intervals,
    Row,
    System,
    Table,
    combined,
    contradict,
    declared_rows,
    leading_columns,
    opposite,
    plus,
    projected,
    propagate,
    segments,
)

# -- cases ------------------------------------------------------------------------------------------------------------


Known: TypeAlias = dict[frozenset[tuple[int, int]], int]
"""A map from coefficients to the least constant of a known row with these coefficients."""


def decide_cases(system: System) -> bool:
    """Drop alternatives that a row contradicts and cases that a row implies; return True if a case becomes empty.

    A single remaining alternative is added to the system.
    """
    if not system.cases:
        return False
    known: Known = {}
    _add_rows(known, system.rows)
    changed = True
    while changed:
        changed = False
        cases, system.cases = system.cases, []
        for case in cases:
            left = tuple(part for part in case if not _contradicted(known, part))
            if not left:
                return True
            if len(left) == 1:
                system.add(left[0])
                _add_rows(known, left[0].rows)
                changed = True
            elif not any(_implied(known, part) for part in left):
                system.cases.append(_kept(case, left))
    return False


def _kept(case: Disjunction, left: Disjunction) -> Disjunction:
    return case if len(left) == len(case) else left


def _key(row: Row, sign: int) -> frozenset[tuple[int, int]]:
    return frozenset((column, sign * value) for column, value in row.items() if column)


def _add_rows(known: Known, rows: list[Row]) -> None:
    for row in rows:
        key, constant = _key(row, 1), row.get(0, 0)
        known[key] = min(constant, known.get(key, constant))


def _contradicted(known: Known, part: System) -> bool:
    """Return True if a row of the alternative contradicts a single known row."""
    for row in part.rows:
        other = known.get(_key(row, -1))
        if other is not None and row.get(0, 0) + other < 0:
            return True
    for row in part.equalities:
        constant = row.get(0, 0)
        above, below = known.get(_key(row, 1)), known.get(_key(row, -1))
        if (above is not None and above < constant) or (below is not None and below + constant < 0):
            return True
    return False


def _implied(known: Known, part: System) -> bool:
    """Return True if the alternative is one row that a known row implies."""
    if len(part.rows) != 1 or part.equalities or part.cases:
        return False
    other = known.get(_key(part.rows[0], 1))
    return other is not None and other <= part.rows[0].get(0, 0)


# -- common factors ---------------------------------------------------------------------------------------------------


MAX_CONSEQUENCES: Final = 40


def factor(system: System, intervals: Intervals) -> None:
    """Add the rows that follow by dividing out common factors repeatedly; x*r = 0 with x != 0 gives r = 0."""
    for row in list(system.rows):
        system.rows.extend(_quotients(row, intervals))
    for row in list(system.equalities):
        x = None if 0 in row else _common_factor(intervals.table, row)
        if x is not None and (intervals.low.get(x, 0) > 0 or intervals.high.get(x, 0) < 0):
            system.equalities.append(_over(intervals.table, row, x))


def consequences(system: System, intervals: Intervals, budget: Budget) -> list[Row]:
    """For each atom x in several products, eliminate all terms but the multiples of x, and divide by x.

    Only this proves p < q from k*p <= e < k*q, where e is not a product.
    """
    monomials = intervals.table.monomials
    columns = {column: None for row in (*system.rows, *system.equalities) for column in row}
    products = [column for column in columns if len(monomials[column]) > 1]
    rows = [*system.rows, *system.equalities, *(opposite(row) for row in system.equalities)]
    out: list[Row] = []
    for x in dict.fromkeys(atom for column in products for atom in monomials[column]):
        if intervals.low.get(x, -1) < 0 or sum(x in monomials[column] for column in products) < 2:
            continue
        kept = frozenset(column for column in columns if x in monomials[column])
        for row in projected(rows, kept, budget):
            if len(out) < MAX_CONSEQUENCES:
                out.extend(_quotients(row, intervals))
    return out


def _quotients(row: Row, intervals: Intervals) -> list[Row]:
    """Divide by common factors: x*r + c >= 0 gives r >= 1 if c < 0 <= x.

    It gives r + c // low >= 0 if c >= 0 and x >= low > 0.
    """
    out: list[Row] = []
    rest = row
    while (x := _common_factor(intervals.table, rest)) is not None:
        low, constant = intervals.low.get(x, -1), rest.get(0, 0)
        if low < 0 or (low == 0 and constant >= 0):
            break
        rest = _over(intervals.table, rest, x)
        rest = plus(rest, -1 if constant < 0 else constant // low)
        out.append(rest)
    return out


def _common_factor(table: Table, row: Row) -> int | None:
    """Return an atom that divides every term of the row except the constant, if some term is a product."""
    columns = [table.monomials[column] for column in row if column]
    if not columns or max(map(len, columns)) < 2:
        return None
    return next((atom for atom in columns[0] if all(atom in other for other in columns)), None)


def _over(table: Table, row: Row, factor: int) -> Row:
    """Divide the row without its constant by the factor."""
    out: Row = {}
    for column, value in row.items():
        if column:
            monomial = list(table.monomials[column])
            monomial.remove(factor)
            out[table.column(tuple(monomial))] = value
    return out


# -- products of hypotheses -------------------------------------------------------------------------------------------
# From a >= 0 and b >= 0 follows a*b >= 0. A product is used only if each of its monomials divides one in the query. For
# example, i*m + j < n*m needs (n - 1 - i)*m >= 0, which contains only n*m and i*m.


MAX_PRODUCTS: Final = 120
MAX_DIVISORS: Final = 60
MAX_WIDER: Final = 16
MAX_DEGREE: Final = 4

Monomial: TypeAlias = tuple[int, ...]
Pairs: TypeAlias = dict[int, dict[int, int]]
"""A map from two columns to the column of their product."""


def products(table: Table, system: System, intervals: Intervals, *, wide: bool) -> System:
    """Return rows and equalities that follow by multiplying two rows of the system.

    With `wide`, products may introduce one new monomial.
    """
    divisors = _divisors(table, system)
    if wide:
        _widen(table, system, divisors)
    pairs = _pairs(table, divisors)
    out = System()
    out.rows.extend(_times_factors(system.rows, _factors(intervals, pairs), pairs)[:MAX_PRODUCTS])
    for a, b in combinations([row for row in system.rows if len(row) > 1], 2):
        if len(out.rows) >= MAX_PRODUCTS:
            break
        product = _product(a, b, pairs)
        if product is not None:
            out.rows.append(product)
    for equality in system.equalities:
        for factor in pairs:
            times = _product(equality, {factor: 1}, pairs)
            if times is not None and len(out.equalities) < MAX_PRODUCTS:
                out.equalities.append(times)
    return out


def _divisors(table: Table, system: System) -> dict[Monomial, None]:
    """Return the divisors of degree 2 or more of the monomials that occur, in order."""
    divisors: dict[Monomial, None] = {}
    for row in (*system.rows, *system.equalities):
        for column in row:
            monomial = table.monomials[column]
            if monomial not in divisors and len(divisors) < MAX_DIVISORS:
                for degree in range(2, len(monomial) + 1):
                    divisors.update(dict.fromkeys(combinations(monomial, degree)))
    return divisors


def _widen(table: Table, system: System, divisors: dict[Monomial, None]) -> None:
    """Add monomials that are the only new ones in a product of a row with a monomial.

    The last rows, which are the goal and the definitions of quotients, come first, as they matter most.
    """
    left_to_add = MAX_WIDER
    known = list(divisors)
    for row in reversed(system.rows):
        columns = [table.monomials[column] for column in row if column]
        for product in known if len(columns) > 1 else ():
            for cofactor in dict.fromkeys(_cofactors(product, columns)):
                times = [tuple(sorted((*column, *cofactor))) for column in columns]
                new = [monomial for monomial in times if monomial not in divisors]
                if len(new) == 1 and len(new[0]) <= MAX_DEGREE and left_to_add > 0:
                    left_to_add -= 1
                    for degree in range(2, len(new[0]) + 1):
                        divisors.update(dict.fromkeys(combinations(new[0], degree)))


def _cofactors(product: Monomial, columns: list[Monomial]) -> Iterator[Monomial]:
    """Yield the monomials by which some column of a row must be multiplied to give `product`."""
    for column in columns:
        left = list(product)
        for atom in column:
            if atom not in left:
                break
            left.remove(atom)
        else:
            if left:
                yield tuple(left)


def _pairs(table: Table, divisors: dict[Monomial, None]) -> Pairs:
    """Return all factorisations of each divisor into two columns."""
    out: Pairs = {}
    for monomial in divisors:
        product = table.column(monomial)
        for degree in range(1, len(monomial)):
            for positions in combinations(range(len(monomial)), degree):
                a = tuple(monomial[k] for k in positions)
                b = tuple(monomial[k] for k in range(len(monomial)) if k not in positions)
                out.setdefault(table.column(a), {})[table.column(b)] = product
    return out


def _factors(intervals: Intervals, pairs: Pairs) -> list[Row]:
    """Return rows to multiply by: x - low and high - x for known bounds, and products of non-negative atoms."""
    out: list[Row] = []
    for column in pairs:
        atoms = intervals.table.monomials[column]
        lows = [intervals.low.get(atom) for atom in atoms]
        known = [low for low in lows if low is not None and (low >= 0 or len(atoms) == 1)]
        if len(known) == len(atoms):
            low = prod(known)
            out.append({column: 1, 0: -low} if low else {column: 1})
        high = intervals.high.get(column)
        if high is not None and len(atoms) == 1:
            out.append({column: -1, 0: high} if high else {column: -1})
    return out


def _times_factors(rows: list[Row], factors: list[Row], pairs: Pairs) -> list[Row]:
    out: list[Row] = []
    for row in rows:
        for factor in factors:
            product = _product(row, factor, pairs)
            if product is not None:
                out.append(product)
    return out


def _product(a: Row, b: Row, pairs: Pairs) -> Row | None:
    """Return a*b if all of its monomials are known."""
    if len(a) < len(b):
        a, b = b, a
    out: Row = {}
    for right, y in b.items():
        if right:
            known = pairs.get(right)
            if known is None:
                return None
            part: Row = {}
            for left, x in a.items():
                column = known.get(left) if left else right
                if column is None:
                    return None
                part[column] = x * y
            out = combined(out, 1, part, 1)
        else:
            out = combined(out, 1, a, y)
    return out


# -- the linear prover ------------------------------------------------------------------------------------------------


MAX_BITS: Final = 16
"""Maximum bit length for bounding an exclusive or by a power of two."""
MAX_SPLITS: Final = 7
MAX_READ_PAIRS: Final = 10
BUDGET: Final = 4_000
"""Default budget of a query in row combinations: about ten milliseconds."""


@dataclass(slots=True)
class _State:
    """A system with the atoms whose definitions are not yet added."""

    system: System
    pending: list[int]
    reads: list[tuple[int, Read]] = field(default_factory=list)
    within: list[int] = field(default_factory=list)
    intervals: Intervals | None = None
    stale: bool = True

    def add(self, *rows: Row) -> None:
        """Add rows of a definition, and mark the intervals as outdated."""
        self.system.rows.extend(rows)
        self.stale = True

    def with_alternative(self, alternative: System, case: Disjunction | None) -> _State:
        system = self.system.copy()
        system.cases = [other for other in system.cases if other is not case]
        system.add(alternative)
        return _State(system, list(self.pending), list(self.reads), list(self.within))


def refuted(
    table: Table,
    facts: System,
    goal: System,
    *,
    effort: int = BUDGET,
    splits: int = MAX_SPLITS,
    wide: bool = False,
) -> bool:
    """Return True if the facts contradict `goal`, which is the negation of the goal to prove.

    Case splits are nested at most `splits` deep. With `wide`, more products of hypotheses are tried.
    """
    search, state = _start(table, facts, Budget(effort), wide=wide)
    if not goal.rows and not goal.equalities and len(goal.cases) == 1:
        search.define(state)
        return all(search.refutes(state.with_alternative(part, None), splits) for part in goal.cases[0])
    state.system.add(goal)
    state.system.cases = [*goal.cases, *facts.cases]
    return search.refutes(state, splits)


def refuted_by_rounding(table: Table, facts: System, goal: System) -> bool:
    """Return True if the facts contradict `goal` after rounding the bounds of all columns, without case splits.

    Elimination rounds a row only when one column is left. Rounding all bounds first proves more: from 128*q >= 129 and
    x >= q - 1 follows x >= 1, and so 128*x >= 2.
    """
    search, state = _start(table, facts, Budget(BUDGET), wide=False)
    state.system.add(goal)
    return search.refutes_by_rounding(state)


def _start(table: Table, facts: System, budget: Budget, *, wide: bool) -> tuple[_Refutation, _State]:
    """Return the refutation and its initial state: the facts, and the non-negative sizes."""
    state = _State(facts.copy(), list(table.atoms))
    state.system.rows.extend({column: 1} for column, atom in table.atoms.items() if isinstance(atom, Size))
    return _Refutation(table, budget, wide), state


@dataclass(slots=True)
class _Refutation:
    table: Table
    budget: Budget
    wide: bool

    # -- contradiction -------------------------------------------------------------------------------------------

    def refutes(self, state: _State, splits: int) -> bool:
        """Return True if the state has no solution, with at most `splits` nested case splits."""
        if self.refutes_directly(state):
            return True
        if not state.system.cases or splits == 0 or self.budget.left <= 0:
            return False
        return self._refutes_by_cases(state, splits)

    def refutes_directly(self, state: _State) -> bool:
        """Return True if the state has no solution, without case splits."""
        if self.budget.left <= 0:
            return False
        self.define(state)
        system = state.system
        if decide_cases(system) or contradict(system.rows, system.equalities, self.budget):
            return True
        monomials = self.table.monomials
        if not any(len(monomials[column]) > 1 for row in (*system.rows, *system.equalities) for column in row):
            return False
        intervals = self._intervals(state, fresh=True)
        if intervals is None:
            return True
        if self.wide:
            system.rows.extend(consequences(system, intervals, self.budget))
        factor(system, intervals)
        more = products(self.table, system, intervals, wide=self.wide)
        self.budget.left -= len(more.rows)
        rows = [*system.rows, *more.rows, *self._bounds(intervals)]
        return contradict(rows, [*system.equalities, *more.equalities], self.budget)

    def refutes_by_rounding(self, state: _State) -> bool:
        """Return True if the state with rounded bounds has no solution, without case splits."""
        self.define(state)
        intervals = self._intervals(state, fresh=True)
        if intervals is None:
            return True
        return contradict([*state.system.rows, *self._bounds(intervals)], state.system.equalities, self.budget)

    def _refutes_by_cases(self, state: _State, splits: int) -> bool:
        """Split a disjunction with an alternative that is contradictory without splitting, or else the first one."""
        for case in state.system.cases:
            alternatives = [state.with_alternative(part, case) for part in case]
            left = [part for part in alternatives if not self.refutes_directly(part)]
            if len(left) < len(case):
                return all(self.refutes(part, splits - 1) for part in left)
        case = state.system.cases[0]
        return all(self.refutes(state.with_alternative(part, case), splits - 1) for part in case)

    def _bounds(self, intervals: Intervals) -> list[Row]:
        """Return the bounds of columns as rows."""
        rows: list[Row] = []
        for column, value in intervals.low.items():
            rows.append({column: 1, 0: -value} if value else {column: 1})
        for column, value in intervals.high.items():
            rows.append({column: -1, 0: value} if value else {column: -1})
        return rows

    def _intervals(self, state: _State, *, fresh: bool) -> Intervals | None:
        """Return the bounds of columns, or None if they are contradictory. Outdated bounds are valid but looser."""
        if state.intervals is None or (fresh and state.stale):
            intervals = Intervals(self.table)
            if propagate(intervals, state.system.rows, state.system.equalities):
                return None
            state.intervals = intervals
            state.stale = False
        return state.intervals

    def entails(self, state: _State, row: Row) -> bool:
        """Return True if row >= 0 follows from the state."""
        if not any(row):
            return row.get(0, 0) >= 0
        monomials = self.table.monomials
        intervals = self._intervals(state, fresh=any(len(monomials[column]) > 1 for column in row))
        if intervals is None:
            return True
        least = intervals.least(row)
        if least is not None and least >= 0:
            return True
        return contradict([*state.system.rows, plus(opposite(row), -1)], state.system.equalities, self.budget)

    # -- definitions of atoms ------------------------------------------------------------------------------------

    def define(self, state: _State) -> None:
        """Add the definitions of the pending atoms that are proved to be well defined."""
        changed = bool(state.pending)
        while changed:
            before = state.pending
            state.pending = [column for column in before if not self._define(state, column, self.table.atoms[column])]
            changed = len(state.pending) < len(before)
        self._pair_reads(state)
        state.reads = []

    def _define(self, state: _State, column: int, atom: AnyAtom) -> bool:
        match atom:
            case Size() | Bound() | Var():
                return True
            case Quotient():
                return self._define_quotient(state, column)
            case Extremum(kind, _):
                self._define_extremum(state, column, least=kind == "min")
                return True
            case Xor():
                return self._define_xor(state, column)
            case Read():
                self._define_read(state, column, atom)
                return True

    def _define_quotient(self, state: _State, column: int) -> bool:
        """Add b*q <= a <= b*q + b - 1 if b > 0 is proved."""
        numerator, divisor = self.table.parts[column]
        if not self.entails(state, plus(divisor, -1)):
            return False
        rest = combined(numerator, 1, self.table.product(divisor, {column: 1}), -1)
        state.add(rest, plus(combined(divisor, 1, rest, -1), -1))
        if any(divisor):
            self._sign_of_quotient(state, column, numerator)
        return True

    def _sign_of_quotient(self, state: _State, column: int, numerator: Row) -> None:
        """Add the sign of a quotient, which elimination does not derive for a symbolic divisor."""
        if self.entails(state, numerator):
            state.add({column: 1})
        elif self.entails(state, plus(opposite(numerator), -1)):
            state.add({column: -1, 0: -1})

    def _define_extremum(self, state: _State, column: int, *, least: bool) -> None:
        """State that a minimum is at most each choice, and equal to one of them; dually for a maximum."""
        differences = [combined(choice, 1, {column: 1}, -1) for choice in self.table.parts[column]]
        state.add(*(row if least else opposite(row) for row in differences))
        state.system.cases.append(tuple(System([], [row]) for row in differences))

    def _define_xor(self, state: _State, column: int) -> bool:
        """Add 0 <= a ^ b <= a + b, and a ^ b < 2^k if a, b < 2^k, once a and b are proved non-negative."""
        parts = self.table.parts[column]
        if not all(self.entails(state, part) for part in parts):
            return False
        total: Row = {column: -1}
        for part in parts:
            total = combined(total, 1, part, 1)
        state.add({column: 1}, total)
        bits = self._bits(state, parts)
        if bits is not None:
            state.add({column: -1, 0: (1 << bits) - 1})
        return True

    def _bits(self, state: _State, parts: Sequence[Row]) -> int | None:
        """Return the least number of bits that is proved to be enough for all parts, which are non-negative."""

        def enough(bits: int) -> bool:
            return all(self.entails(state, plus(opposite(part), (1 << bits) - 1)) for part in parts)

        if not enough(MAX_BITS):
            return None
        return bisect_left(range(MAX_BITS), True, key=enough)

    def _define_read(self, state: _State, column: int, read: Read) -> None:
        """State that an element has the declared bounds inside its array, and is zero outside."""
        rank = len(read.indices)
        parts = self.table.parts[column]
        shape = parts[rank : rank + len(read.array.shape)]
        inside: list[Row] = []
        for position, extent in zip(parts[:rank], shape, strict=False):
            inside.append(position)
            inside.append(plus(combined(extent, 1, position, -1), -1))
        bounds = declared_rows(self.table, column, read)
        state.reads.append((column, read))
        if all(self.entails(state, row) for row in inside):
            state.within.append(column)
            state.add(*bounds)
        else:
            state.system.cases.append((System([*inside, *bounds]), System([], [{column: 1}])))

    def _pair_reads(self, state: _State) -> None:
        """State that equal positions have equal elements, and that ordered arrays are monotone."""
        done = 0
        for (a, left), (b, right) in combinations(state.reads, 2):
            if left.array != right.array:
                continue
            done += 1
            if done > MAX_READ_PAIRS:
                return
            rank = len(left.indices)
            steps = [
                combined(x, 1, y, -1)
                for x, y in zip(self.table.parts[a][:rank], self.table.parts[b][:rank], strict=True)
            ]
            difference = combined({a: 1}, 1, {b: 1}, -1)
            order = order_of(left.array)
            ordered = a in state.within and b in state.within and not any(steps[:-1])
            if order is not None and ordered and (order.between is None or self._in_one_segment(state, a, b)):
                self._pair_in_order(state, steps[-1], difference, strict=order.strict)
            elif ordered and self._have_equal_leading(state, a, b):
                self._pair_in_order(state, steps[-1], difference, strict=is_strict(left.array))
            else:
                self._pair(state, steps, difference)

    def _in_one_segment(self, state: _State, a: int, b: int) -> bool:
        """Return True if two elements are proved to be in the same segment.

        An element outside the boundary array is 0, and no position is before 0, so only `first` must be in range.
        """
        here = [self.table.parts[a][0], self.table.parts[b][0]]
        return any(
            first in state.within
            and all(
                self.entails(state, row)
                for at in here
                for row in (combined(at, 1, {first: 1}, -1), plus(combined({last: 1}, 1, at, -1), -1))
            )
            for first, last in segments(self.table, a)
        )

    def _have_equal_leading(self, state: _State, a: int, b: int) -> bool:
        """Return True if two elements are ordered lexicographically, and their leading elements are proved equal."""
        here, there = leading_columns(self.table, a), leading_columns(self.table, b)
        if here is None or there is None:
            return False
        differences = [combined({x: 1}, 1, {y: 1}, -1) for x, y in zip(here, there, strict=True)]
        return all(self.entails(state, row) and self.entails(state, opposite(row)) for row in differences)

    def _pair_in_order(self, state: _State, step: Row, difference: Row, *, strict: bool) -> None:
        """Order two elements of a row; if strict, by at least the distance of their positions."""
        ahead = combined(difference, 1, step, -1) if strict else difference
        if not any(step):  # a non-zero constant: two different elements
            state.system.rows.append(ahead if step[0] > 0 else opposite(ahead))
            return
        up = System([plus(step, -1), ahead])
        down = System([plus(opposite(step), -1), opposite(ahead)])
        state.system.cases.append((up, System([], [step, difference]), down))

    def _pair(self, state: _State, steps: list[Row], difference: Row) -> None:
        distinct: list[System] = []
        for step in steps:
            if not any(step):
                if step:
                    return  # the positions differ by a constant
                continue
            distinct.append(System([plus(step, -1)]))
            distinct.append(System([plus(opposite(step), -1)]))
        state.system.cases.append((System([], [*(step for step in steps if step), difference]), *distinct))
