"""The last layer: z3 on rows without quotients, with a fixed seed and a limit on steps instead of time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, TypeAlias, assert_never

from atl.core.index import AnyAtom, Bound, Extremum, Quotient, Read, Size, Var, Xor
from atl.core.program import order_of
from atl.prove.rows import Row, System, Table, combined, declared_rows, plus, segments
from atl.prove.search import Elements, Sample

STEPS: Final = 2_000_000
"""Limit in z3's unit of work (`rlimit`): 0.2 to 0.5 s."""
STEPS_AGAIN: Final = 300_000
BITS: Final = range(1, 9)
"""Bit lengths for which the bound of an exclusive or is stated."""
MAX_READ_PAIRS: Final = 40

Term: TypeAlias = Any
"""A z3 term. z3 is optional and has no types."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The system has no solution."""


@dataclass(frozen=True, slots=True)
class GaveUp:
    """z3 found no answer within its limit, or is not installed."""

    reason: str


Verdict: TypeAlias = Contradiction | Sample | GaveUp


def solve(table: Table, system: System, *, defined: bool, steps: int = STEPS) -> Verdict:
    """Decide if the system has a solution; if `defined`, only solutions with positive divisors count."""
    try:
        import z3
    except ImportError:
        return GaveUp("z3 is not installed")
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.set("random_seed", 0)
    solver.set("rlimit", min(steps, STEPS_AGAIN) if defined else steps)
    translation = _Translation(z3, context, table, {})
    for column, atom in table.atoms.items():
        translation.add_atom(solver, column, atom, defined)
    translation.add_pairs(solver)
    solver.add(translation.system(system))
    verdict = solver.check()
    if verdict == z3.unsat:
        return Contradiction()
    if verdict != z3.sat:
        return GaveUp("z3 gave up within its limit of steps")
    return _sample(translation, solver.model())


@dataclass(slots=True)
class _Translation:
    z3: Any
    context: Any
    table: Table
    terms: dict[int, Term]

    def value(self, row: Row) -> Term:
        parts = []
        for column, coefficient in row.items():
            product = self.z3.IntVal(coefficient, self.context)
            for atom in self.table.monomials[column]:
                product = product * self.terms[atom]
            parts.append(product)
        return self.z3.Sum(parts) if parts else self.z3.IntVal(0, self.context)

    def truth(self, values: list[Term], otherwise: bool) -> Term:
        if not values:
            return self.z3.BoolVal(otherwise, self.context)
        return self.z3.And(values) if otherwise else self.z3.Or(values)

    def system(self, system: System) -> Term:
        parts = [self.value(row) >= 0 for row in system.rows]
        parts.extend(self.value(row) == 0 for row in system.equalities)
        parts.extend(self.truth([self.system(part) for part in case], False) for case in system.cases)
        return self.truth(parts, True)

    def add_atom(self, solver: Any, column: int, atom: AnyAtom, defined: bool) -> None:
        z3 = self.z3
        if isinstance(atom, Read):
            self._add_read(solver, column, atom)
            return
        term = self.terms[column] = z3.Int(f"x{column}", self.context)
        match atom:
            case Size():
                solver.add(term >= 0)
            case Bound() | Var():
                pass
            case Quotient():
                numerator, divisor = (self.value(part) for part in self.table.parts[column])
                rest = numerator - divisor * term
                solver.add(z3.Implies(divisor > 0, z3.And(rest >= 0, rest < divisor)))
                if defined:
                    solver.add(divisor > 0)
            case Extremum(kind, _):
                choices = [self.value(part) for part in self.table.parts[column]]
                solver.add(*((term <= choice if kind == "min" else term >= choice) for choice in choices))
                solver.add(z3.Or([term == choice for choice in choices]))
            case Xor():
                self._add_xor(solver, column)
            case _:
                assert_never(atom)

    def _add_xor(self, solver: Any, column: int) -> None:
        """Add bounds and the lowest bit of an exclusive or. These are consequences only, so models are checked later.

        Each of a, b, … and their exclusive or c is the exclusive or of the others, and so is at most their sum.
        """
        z3, term = self.z3, self.terms[column]
        parts = [self.value(part) for part in self.table.parts[column]]
        non_negative = z3.And([part >= 0 for part in parts])
        whole = z3.Sum([*parts, term])
        carried = z3.Int(f"c{column}", self.context)
        bounds = [term >= 0, *(2 * each <= whole for each in (*parts, term)), whole == 2 * carried]
        solver.add(z3.Implies(non_negative, z3.And(bounds)))
        for bits in BITS:
            fits = z3.And([part < 1 << bits for part in parts])
            solver.add(z3.Implies(z3.And(non_negative, fits), term < 1 << bits))

    def _add_read(self, solver: Any, column: int, read: Read) -> None:
        z3 = self.z3
        rank = len(read.indices)
        sort = z3.IntSort(self.context)
        function = z3.Function(f"{read.array.name}/{rank}", *([sort] * (rank + 1)))
        parts = self.table.parts[column]
        term = self.terms[column] = function(*(self.value(part) for part in parts[:rank]))
        inside = self.inside(column, read)
        solver.add(z3.Implies(z3.Not(inside), term == 0))
        for row in declared_rows(self.table, column, read):
            solver.add(z3.Implies(inside, self.value(row) >= 0))

    def inside(self, column: int, read: Read) -> Term:
        parts = self.table.parts[column]
        rank = len(read.indices)
        tests = []
        for position, extent in zip(parts[:rank], parts[rank : rank + len(read.array.shape)], strict=False):
            tests.append(self.value(position) >= 0)
            tests.append(self.value(plus(combined(extent, 1, position, -1), -1)) >= 0)
        return self.truth(tests, True)

    def add_pairs(self, solver: Any) -> None:
        """State that ordered arrays are monotone, and strictly ordered ones increase by at least the distance."""
        z3 = self.z3
        reads = [(column, atom) for column, atom in self.table.atoms.items() if isinstance(atom, Read)]
        pairs = [(a, b) for a, b in combinations(reads, 2) if order_of(a[1].array) and a[1].array == b[1].array]
        for (a, left), (b, right) in pairs[:MAX_READ_PAIRS]:
            order = order_of(left.array)
            assert order is not None
            rank = len(left.indices)
            steps = [
                self.value(combined(x, 1, y, -1))
                for x, y in zip(self.table.parts[a][:rank], self.table.parts[b][:rank], strict=True)
            ]
            both = [self.inside(a, left), self.inside(b, right), *(step == 0 for step in steps[:-1])]
            if order.between is not None:
                both.append(self.truth([self._in_segment(a, b, *ends) for ends in segments(self.table, a)], False))
            rise = self.terms[a] - self.terms[b]
            least = steps[-1] if order.strict else 0
            solver.add(z3.Implies(z3.And([*both, steps[-1] > 0]), rise >= least))
            solver.add(z3.Implies(z3.And([*both, steps[-1] < 0]), rise <= least))

    def _in_segment(self, a: int, b: int, first: int, last: int) -> Term:
        """Return a term that is true if both elements are in the segment between two neighbouring boundaries."""
        ends = [
            self.inside(column, atom) for column in (first, last) if isinstance(atom := self.table.atoms[column], Read)
        ]
        here = [self.value(self.table.parts[column][0]) for column in (a, b)]
        between = [self.z3.And(self.terms[first] <= at, at < self.terms[last]) for at in here]
        return self.truth([*ends, *between], True)


def _sample(translation: _Translation, model: Any) -> Sample:
    table = translation.table
    values: dict[int, int] = {}
    elements: Elements = {}
    for column, atom in table.atoms.items():
        match atom:
            case Size() | Bound() | Var():
                values[column] = _number(model, translation.terms[column])
            case Read(array, indices):
                parts = table.parts[column][: len(indices)]
                position = tuple(_number(model, translation.value(part)) for part in parts)
                elements[array.name, position] = _number(model, translation.terms[column])
            case Quotient() | Extremum() | Xor():
                pass
            case _:
                assert_never(atom)
    return Sample(values, elements)


def _number(model: Any, term: Term) -> int:
    return int(model.eval(term, model_completion=True).as_long())
