"""Queries as integer rows, the common representation of the prover's layers.

Each atom and each product of atoms is a column. A row {column: coefficient} is the polynomial with these coefficients;
column 0 is the constant. The definitions of atoms are separate: a solution of the rows alone need not be a
counterexample, but if the rows have no solution, neither have the predicates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import gcd
from typing import Final, TypeAlias, assert_never

from atl.core.index import AnyAtom, Bound, Index, Read, Size, Var, parts_of
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero
from atl.core.program import AtLeast, Below, bounds_of, is_increasing
from atl.prove.facts import declared

Row: TypeAlias = dict[int, int]


@dataclass(slots=True)
class Table:
    """The columns of a query. The column of an atom follows those of the atoms inside it."""

    monomials: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    columns: dict[tuple[int, ...], int] = field(default_factory=lambda: {(): 0})
    atoms: dict[int, AnyAtom] = field(default_factory=dict)
    parts: dict[int, tuple[Row, ...]] = field(default_factory=dict)
    _of_atom: dict[AnyAtom, int] = field(default_factory=dict)

    def row(self, expression: Index) -> Row:
        out: Row = {}
        of_atom = self._of_atom
        for monomial, coefficient in expression.terms:
            if len(monomial) == 1:
                column = of_atom.get(monomial[0])
                out[self.of_atom(monomial[0]) if column is None else column] = coefficient
            else:
                out[self.column(tuple(sorted(self.of_atom(atom) for atom in monomial)))] = coefficient
        return out

    def of_atom(self, atom: AnyAtom) -> int:
        """Return the column of an atom; add it if new."""
        found = self._of_atom.get(atom)
        if found is not None:
            return found
        parts = tuple(self.row(part) for part in _parts(atom))
        column = len(self.monomials)
        self.monomials.append((column,))
        self.columns[(column,)] = column
        self.atoms[column] = atom
        self._of_atom[atom] = column
        if not isinstance(atom, Size | Bound | Var):
            self.parts[column] = parts  # empty for a scalar input
        return column

    def column(self, monomial: tuple[int, ...]) -> int:
        """Return the column of a product of atoms, which is given by their sorted columns."""
        found = self.columns.get(monomial)
        if found is None:
            found = self.columns[monomial] = len(self.monomials)
            self.monomials.append(monomial)
        return found

    def times(self, a: int, b: int) -> int:
        """Return the column of the product of two columns."""
        return self.column(tuple(sorted((*self.monomials[a], *self.monomials[b]))))

    def product(self, a: Row, b: Row) -> Row:
        out: Row = {}
        for left, x in a.items():
            for right, y in b.items():
                column = self.times(left, right)
                value = out.get(column, 0) + x * y
                if value:
                    out[column] = value
                else:
                    del out[column]
        return out


def _parts(atom: AnyAtom) -> tuple[Index, ...]:
    """Return the expressions in the definition of an atom; for a read, its indices, then its declaration."""
    return (*parts_of(atom), *declared(atom.array)) if isinstance(atom, Read) else parts_of(atom)


def combined(a: Row, x: int, b: Row, y: int) -> Row:
    """Return x*a + y*b."""
    out = {column: x * value for column, value in a.items()} if x != 1 else dict(a)
    for column, value in b.items():
        total = out.get(column, 0) + y * value
        if total:
            out[column] = total
        else:
            out.pop(column, None)  # a row such as 0 >= 0 may have a zero
    return out


def plus(row: Row, value: int) -> Row:
    """Return row + value."""
    out = dict(row)
    total = out.get(0, 0) + value
    if total:
        out[0] = total
    else:
        out.pop(0, None)
    return out


def opposite(row: Row) -> Row:
    """Negate a row."""
    return {column: -value for column, value in row.items()}


def declared_rows(table: Table, column: int, read: Read) -> list[Row]:
    """Return the declared bounds of an element, for an index within its array.

    In a strictly increasing array of n elements, low + p <= a[p] < high - (n - 1 - p).
    """
    rank = len(read.indices)
    parts = table.parts[column]
    before: Row = {}
    after: Row = {}
    if is_increasing(read.array) and rank:
        before = parts[rank - 1]
        after = plus(combined(parts[2 * rank - 1], 1, before, -1), -1)
    rows: list[Row] = []
    for fact, bound in zip(bounds_of(read.array), parts[2 * rank :], strict=True):
        match fact:
            case AtLeast():
                row, margin = combined({column: 1}, 1, bound, -1), before
            case Below():
                row, margin = plus(combined(bound, 1, {column: 1}, -1), -1), after
            case _:
                assert_never(fact)
        rows.append(row)
        if margin:
            rows.append(combined(row, 1, margin, -1))
    return rows


def segments(table: Table, column: int) -> list[tuple[int, int]]:
    """Return the columns of neighbouring segment boundaries that occur in the query.

    `column` is an element of an array that is ordered within segments (`between`).
    """
    read = table.atoms[column]
    if not isinstance(read, Read) or read.array.between is None:
        return []
    at = [c for c, atom in table.atoms.items() if isinstance(atom, Read) and atom.array == read.array.between]
    return [(a, b) for a in at for b in at if combined(table.parts[b][0], 1, table.parts[a][0], -1) == {0: 1}]


def leading_columns(table: Table, column: int) -> list[int] | None:
    """Return the columns of the leading elements of an element in a lexicographic order, at the same position.

    Returns None if the array has no such order, or if a leading element does not occur in the query.
    """
    read = table.atoms[column]
    leading = read.array.leading if isinstance(read, Read) else ()
    position = table.parts[column][:1]
    at = {atom.array: c for c, atom in table.atoms.items() if isinstance(atom, Read) and table.parts[c][:1] == position}
    found = [at[array] for array in leading if array in at]
    return found if leading and len(found) == len(leading) else None


# -- predicates as rows -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class System:
    """Rows >= 0, equalities = 0, and cases. At least one alternative of each case holds."""

    rows: list[Row] = field(default_factory=list)
    equalities: list[Row] = field(default_factory=list)
    cases: list[Disjunction] = field(default_factory=list)

    def add(self, other: System) -> None:
        self.rows.extend(other.rows)
        self.equalities.extend(other.equalities)
        self.cases.extend(other.cases)

    def copy(self) -> System:
        return System(list(self.rows), list(self.equalities), list(self.cases))


Disjunction: TypeAlias = tuple[System, ...]


def read_predicate(table: Table, predicate: Predicate, into: System) -> None:
    """Add a predicate to the system."""
    match predicate:
        case NonNegative(expression):
            into.rows.append(table.row(expression))
        case Zero(expression):
            into.equalities.append(table.row(expression))
        case NonZero(expression):
            row = table.row(expression)
            into.cases.append((System([plus(row, -1)]), System([plus(opposite(row), -1)])))
        case All(parts):
            for part in parts:
                read_predicate(table, part, into)
        case Any(parts):
            alternatives = []
            for part in parts:
                alternative = System()
                read_predicate(table, part, alternative)
                alternatives.append(alternative)
            into.cases.append(tuple(alternatives))
        case _:
            assert_never(predicate)


# -- intervals --------------------------------------------------------------------------------------------------------


PASSES: Final = 4
"""Maximum number of passes, as propagation may not terminate (i < j and j < i)."""
LARGEST: Final = 2**64
"""Larger bounds are dropped, which keeps numbers small."""


@dataclass(slots=True)
class Intervals:
    """Known integer bounds of columns."""

    table: Table
    low: dict[int, int] = field(default_factory=dict)
    high: dict[int, int] = field(default_factory=dict)
    changed: bool = False

    def raise_low(self, column: int, value: int) -> None:
        old = self.low.get(column)
        if (old is None or value > old) and abs(value) < LARGEST:
            self.low[column] = value
            self.changed = True

    def lower_high(self, column: int, value: int) -> None:
        old = self.high.get(column)
        if (old is None or value < old) and abs(value) < LARGEST:
            self.high[column] = value
            self.changed = True

    def least(self, row: Row) -> int | None:
        """Return a lower bound of the row's value, or None."""
        total = 0
        for column, value in row.items():
            bound = 1 if not column else self.low.get(column) if value > 0 else self.high.get(column)
            if bound is None:
                return None
            total += value * bound
        return total

    def empty(self) -> bool:
        """Return True if some column has no possible value."""
        high = self.high
        return any(high.get(column, value) < value for column, value in self.low.items())


def propagate(intervals: Intervals, rows: list[Row], equalities: list[Row]) -> bool:
    """Narrow the intervals by rows >= 0 and equalities = 0; return True if they are contradictory."""
    both = [*rows, *equalities, *({c: -v for c, v in row.items()} for row in equalities)]
    products = [column for column, monomial in enumerate(intervals.table.monomials) if len(monomial) > 1]
    for _ in range(PASSES):
        intervals.changed = False
        for row in both:
            if _narrow(intervals, row):
                return True
        for column in products:
            _narrow_product(intervals, column)
        if intervals.empty():
            return True
        if not intervals.changed:
            return False
    return False


def _narrow(intervals: Intervals, row: Row) -> bool:
    """Narrow by one row: each term is at least minus the maximum of the others."""
    low, high = intervals.low, intervals.high
    total, open_column = 0, 0
    for column, value in row.items():
        bound = 1 if not column else high.get(column) if value > 0 else low.get(column)
        if bound is not None:
            total += value * bound
        elif open_column:
            return False
        else:
            open_column = column
    if open_column:
        _bound_term(intervals, open_column, row[open_column], total)
        return False
    if total < 0:
        return True
    for column, value in row.items():
        if column:
            own = value * (high[column] if value > 0 else low[column])
            _bound_term(intervals, column, value, total - own)
    return False


def _bound_term(intervals: Intervals, column: int, value: int, others: int) -> None:
    """Use value * column + others >= 0."""
    if value > 0:
        intervals.raise_low(column, -(others // value))
    else:
        intervals.lower_high(column, others // -value)


def _narrow_product(intervals: Intervals, column: int) -> None:
    """Bound a product by its factors. If a product is >= 1 and its factors are >= 0, they are >= 1."""
    factors = intervals.table.monomials[column]
    low: int | None = 1
    high: int | None = 1
    for factor in factors:
        low, high = _interval_product(low, high, intervals.low.get(factor), intervals.high.get(factor))
    square = len(factors) == 2 and factors[0] == factors[1]
    if square and (low is None or low < 0):
        low = 0
    if low is not None:
        intervals.raise_low(column, low)
    if high is not None:
        intervals.lower_high(column, high)
    if intervals.low.get(column, 0) >= 1 and all(intervals.low.get(factor, -1) >= 0 for factor in factors):
        for factor in factors:
            intervals.raise_low(factor, 1)


def _interval_product(a: int | None, b: int | None, c: int | None, d: int | None) -> tuple[int | None, int | None]:
    """Multiply the intervals [a, b] and [c, d]; None means an unknown end."""
    if (a == 0 and b == 0) or (c == 0 and d == 0):
        return 0, 0
    if a is not None and c is not None and a >= 0 and c >= 0:
        return a * c, None if b is None or d is None else b * d
    if a is not None and b is not None and c is not None and d is not None:
        ends = (a * c, a * d, b * c, b * d)
        return min(ends), max(ends)
    if a is not None and a >= 0 and d is not None and d <= 0:
        return None, a * d
    if c is not None and c >= 0 and b is not None and b <= 0:
        return None, b * c
    if b is not None and b <= 0 and d is not None and d <= 0:
        return b * d, None
    return None, None


# -- Fourier–Motzkin elimination --------------------------------------------------------------------------------------


MAX_ROWS: Final = 160
"""Maximum number of rows; an elimination that exceeds it is abandoned."""

_Coefficients: TypeAlias = dict[int, int]
_Key: TypeAlias = frozenset[tuple[int, int]]
_Line: TypeAlias = tuple[_Coefficients, int, int]
"""Coefficients, constant, and the set of original rows that it was combined from, as bits."""


@dataclass(slots=True)
class Budget:
    """The remaining number of row combinations of a query: a machine-independent measure of work."""

    left: int


def contradict(rows: list[Row], equalities: list[Row], budget: Budget) -> bool:
    """Return True if elimination proves that rows >= 0 and equalities = 0 have no integer solution.

    Columns are treated as independent variables.
    """
    budget.left -= len(rows) + len(equalities)
    solved = _without_equalities(rows, equalities)
    if solved is None:
        return True
    lines = _Lines()
    if lines.add(solved):
        return True
    steps = 0
    while column := lines.next_column():
        if lines.eliminate(column, steps, budget):
            return True
        if budget.left <= 0 or len(lines.by_key) > MAX_ROWS:
            return False
        steps += 1
    return False


def projected(rows: list[Row], kept: frozenset[int], budget: Budget) -> list[Row]:
    """Eliminate all but the kept columns, and return the rows that remain."""
    lines = _Lines(kept)
    lines.add(rows)
    steps = 0
    while column := lines.next_column():
        if lines.eliminate(column, steps, budget) or budget.left <= 0 or len(lines.by_key) > MAX_ROWS:
            return []
        steps += 1
    return [
        {**coefficients, 0: constant} if constant else coefficients
        for coefficients, constant, _ in lines.by_key.values()
    ]


def leaves_no_rows(rows: list[Row], kept: frozenset[int], budget: Budget) -> bool:
    """Return True if eliminating all but the kept columns leaves no row, so that these are unconstrained."""
    lines = _Lines(kept)
    if lines.add(rows):
        return False
    steps = 0
    while column := lines.next_column():
        if lines.eliminate(column, steps, budget) or budget.left <= 0:
            return False
        steps += 1
    return not lines.by_key


@dataclass(slots=True)
class _Lines:
    """The rows of an elimination, indexed by column so that a step visits only the rows with its column."""

    kept: frozenset[int] = frozenset()
    """Columns that are not eliminated."""
    by_key: dict[_Key, _Line] = field(default_factory=dict)
    above: dict[int, dict[_Key, None]] = field(default_factory=dict)
    """The lines with a positive coefficient, by column; `below` has those with a negative one."""
    below: dict[int, dict[_Key, None]] = field(default_factory=dict)
    changed: dict[int, None] = field(default_factory=dict)
    """Columns whose lines changed since a column was last chosen."""
    queue: list[tuple[int, int]] = field(default_factory=list)
    """(price, column), cheapest first; some prices are outdated."""

    def add(self, rows: Iterable[Row]) -> bool:
        """Add the original rows; return True if one is a contradiction."""
        for position, row in enumerate(rows):
            coefficients = dict(row)
            if self.keep(coefficients, coefficients.pop(0, 0), 1 << position):
                return True
        return False

    def keep(self, coefficients: _Coefficients, constant: int, origin: int) -> bool:
        """Add a line unless a stronger one exists; return True if the line is a contradiction."""
        if not coefficients:
            return constant < 0
        common = gcd(*coefficients.values())
        if common > 1:
            coefficients = {column: value // common for column, value in coefficients.items()}
            constant //= common
        key = frozenset(coefficients.items())
        other = self.by_key.get(key)
        if other is None:
            for column, value in coefficients.items():
                (self.above if value > 0 else self.below).setdefault(column, {})[key] = None
                self.changed[column] = None
        if other is None or constant < other[1]:
            self.by_key[key] = (coefficients, constant, origin)
        return False

    def remove(self, key: _Key) -> _Line:
        """Remove a line."""
        line = self.by_key.pop(key)
        for column, value in line[0].items():
            del (self.above if value > 0 else self.below)[column][key]
            self.changed[column] = None
        return line

    def next_column(self) -> int:
        """Return the column that is cheapest to eliminate, or 0 if only kept columns are left.

        Lines with a column that occurs with one sign only are dropped first.
        """
        while self.changed:
            column, _ = self.changed.popitem()
            above, below = self.above.get(column, {}), self.below.get(column, {})
            if column in self.kept:
                continue
            if above and below:
                heappush(self.queue, (_price(above, below), column))
            else:
                for key in [*above, *below]:
                    self.remove(key)
        while self.queue:
            price, column = heappop(self.queue)
            above, below = self.above.get(column, {}), self.below.get(column, {})
            if above and below and price == _price(above, below):
                return column
        return 0

    def eliminate(self, column: int, steps: int, budget: Budget) -> bool:
        """Replace the lines with the column by their combinations without it; return True for a contradiction."""
        above = [self.remove(key) for key in [*self.above[column]]]
        below = [self.remove(key) for key in [*self.below[column]]]
        budget.left -= len(above) * len(below)
        for upper, upper_constant, upper_origin in above:
            a = upper[column]
            for lower, lower_constant, lower_origin in below:
                origin = upper_origin | lower_origin
                # Chernikov's rule: a line combined from more than steps + 2 original rows is redundant.
                if origin.bit_count() > steps + 2:
                    continue
                b = -lower[column]
                common = gcd(a, b)
                x, y = b // common, a // common
                coefficients = {key: value * x for key, value in upper.items()}
                for key, value in lower.items():
                    total = coefficients.get(key, 0) + value * y
                    if total:
                        coefficients[key] = total
                    else:
                        del coefficients[key]
                if self.keep(coefficients, x * upper_constant + y * lower_constant, origin):
                    return True
        return False


def _price(above: dict[_Key, None], below: dict[_Key, None]) -> int:
    return len(above) * len(below) - len(above) - len(below)


def _without_equalities(rows: list[Row], equalities: list[Row]) -> list[Row] | None:
    """Solve each equality for a column and substitute; return None if the equalities are contradictory."""
    rows = list(rows)
    left = list(equalities)
    while left:
        equality = left.pop(0)
        coefficients = [(abs(value), column) for column, value in equality.items() if column]
        constant = equality.get(0, 0)
        if not coefficients:
            if constant:
                return None
            continue
        if constant % gcd(*(size for size, _ in coefficients)):
            return None
        size, column = min(coefficients, key=lambda pair: (pair[0], -pair[1]))
        value = equality[column]
        for group in (rows, left):
            for position, row in enumerate(group):
                if other := row.get(column):
                    group[position] = _replaced(row, size, equality, -other if value > 0 else other)
    return rows


def _replaced(row: Row, x: int, equality: Row, y: int) -> Row:
    """Return x*row + y*equality, in which the pivot cancels. x > 0 keeps the direction of an inequality."""
    out = {column: x * value for column, value in row.items()}
    for column, value in equality.items():
        total = out.get(column, 0) + y * value
        if total:
            out[column] = total
        else:
            out.pop(column, None)
    return out
