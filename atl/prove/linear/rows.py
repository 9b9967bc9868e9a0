"""Queries as integer rows, the common representation of the prover's layers.

Each atom and each product of atoms is a column. A row {column: coefficient} is the polynomial with these coefficients;
column 0 is the constant. The definitions of atoms are separate: a solution of the rows alone need not be a
counterexample, but if the rows have no solution, neither have the predicates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from atl.core.declared import AtLeast, Below, bounds_of, is_increasing
from atl.core.index import AnyAtom, Bound, Extremum, Index, Quotient, Read, Size, Var, Xor
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero
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
    match atom:
        case Size() | Bound() | Var():
            return ()
        case Quotient(numerator, denominator):
            return (numerator, denominator)
        case Extremum(_, choices):
            return choices
        case Xor(parts):
            return parts
        case Read(array, indices):
            return (*indices, *declared(array))
    assert_never(atom)


def combined(a: Row, x: int, b: Row, y: int) -> Row:
    """Return x*a + y*b."""
    out = {column: x * value for column, value in a.items()} if x != 1 else dict(a)
    for column, value in b.items():
        total = out.get(column, 0) + y * value
        if total:
            out[column] = total
        else:
            del out[column]
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
