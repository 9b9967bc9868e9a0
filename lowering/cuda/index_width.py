"""Width of indices in CUDA: the sizes for which 32 bits suffice, as a test in the host code before each launch.

Every integer that a kernel computes for an index is a sum of products of sizes and loop variables, a quotient, an
extremum, or an element of an array. Its absolute value, and that of each of its parts however the text factors it, is
bounded by a polynomial in the sizes. The polynomial has positive coefficients, and counts sizes below 1 as 1. It
follows from the bounds of the loops; the prover is not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Final, TypeAlias, assert_never

from atl.core.index import ONE, AnyAtom, Bound, Extremum, Index, Quotient, Read, Size, Var, Xor
from atl.core.program import AtLeast, Below, bounds_of
from atl.core.reshape_definitions import Pairs
from lowering.gpu.kernels import MAX_THREADS_PER_BLOCK
from lowering.nest.index_expressions import Compared, Computed, index_expressions
from lowering.nest.loopnest import Allocate, Clear, For, LoopNest, flat, statements
from lowering.nest.tiles import cells_of

LIMIT: Final = 2_147_480_000
"""Slightly less than 2^31, to allow for rounding in the host's test and for loops that end after the limit."""

Monomial: TypeAlias = tuple[str, ...]
Bounds: TypeAlias = Mapping[Monomial, Fraction]
"""A polynomial with nonnegative coefficients, in sizes that are at least 1."""

_ONE: Final[Bounds] = {(): Fraction(1)}


class _Unbounded(Exception):
    """Raised for an integer without a known bound, such as an element of an array without declared bounds."""


def bounds_of_indices(nest: LoopNest) -> tuple[Bounds, ...] | None:
    """Return polynomials that bound all integers computed for indices in the kernels of a nest, or None if unbounded.

    Bounds with the same largest terms share one polynomial.

    >>> import atl
    >>> from lowering import lower
    >>> text = "f (x : float32[n, m]) : float32[n, m] := ⊞[i < n | block.y] ⊞[j < m | block.x] x[i, j]"
    >>> [polynomial_text(bounds) for bounds in bounds_of_indices(lower(atl.parse(text), target="cuda"))]
    ['m * n + m']
    """
    indices = _Indices()
    try:
        indices.of_nest(nest)
    except _Unbounded:
        return None
    return _greatest(indices.found.values())


def fits_32_bits(bounds: Iterable[Bounds], sizes: Mapping[str, int]) -> bool:
    """Return whether 32 bits suffice for every index with these sizes, as the host's test does."""
    return all(evaluate_bounds(each, sizes) <= LIMIT for each in bounds)


def evaluate_bounds(bounds: Bounds, sizes: Mapping[str, int]) -> Fraction:
    """Evaluate a polynomial for these sizes."""
    total = Fraction(0)
    for monomial, coefficient in bounds.items():
        product = coefficient
        for name in monomial:
            product *= max(sizes[name], 1)
        total += product
    return total


def polynomial_text(bounds: Bounds, names: Mapping[str, str] | None = None) -> str:
    """Print a polynomial as C in double precision, with coefficients rounded up."""
    terms = []
    for monomial, coefficient in sorted(bounds.items(), key=lambda term: (-len(term[0]), term[0])):
        factors = [name if names is None else names[name] for name in monomial]
        number = ceil(coefficient)
        terms.append(" * ".join(factors if number == 1 and factors else [f"{number}.0", *factors]))
    return " + ".join(terms)


@dataclass(slots=True)
class _Indices:
    """Collects bounds; `variables` has those of enclosing loops."""

    variables: dict[int, Bounds] = field(default_factory=dict)
    found: dict[tuple[tuple[Monomial, Fraction], ...], Bounds] = field(default_factory=dict)

    def of_nest(self, nest: LoopNest) -> None:
        for statement in statements(nest.body):
            if isinstance(statement, For):
                # After the loop, its variable has the value of the upper bound.
                ends = _sum((self.of(statement.low), self.of(statement.high)))
                self.variables[statement.variable.uid] = _at_least_one(ends)
            elif isinstance(statement, Allocate | Clear) and statement.zeroed:
                # All threads of a block clear the buffer; each stops when its index is beyond the end.
                count = statement.capacity if isinstance(statement, Allocate) else statement.count
                self._note(_sum((self.of(count), {(): Fraction(2 * MAX_THREADS_PER_BLOCK)})))
        for occurrence in index_expressions(nest):
            match occurrence:
                case Computed(expression=expression):
                    self.of(expression)
                case Compared(condition=condition):
                    # The constant may be on the other side of the comparison, increased or decreased by one.
                    self._note(_sum((self.of(condition.expression), _ONE)))
                case _:
                    assert_never(occurrence)
        for cell, _ in cells_of(nest.body):
            self._address(cell.memory_pairs)

    def of(self, e: Index) -> Bounds:
        """Record and return the bound of an expression, after those of its parts."""
        terms = []
        for atoms, coefficient in e.terms:
            product: Bounds = {(): Fraction(abs(coefficient))}
            for atom in atoms:
                product = _product(product, self._atom(atom))
            terms.append(product)
        return self._note(_sum(terms))

    def _note(self, bounds: Bounds) -> Bounds:
        self.found[tuple(sorted(bounds.items()))] = bounds
        return bounds

    def _address(self, pairs: Pairs) -> None:
        """Record the bounds of an address in both forms: as a polynomial, and nested like its pairs."""
        self.of(flat(pairs))
        nested: Bounds = {}
        for position, extent in pairs:
            if extent != ONE:
                nested = _product(nested, _at_least_one(self.of(extent)))
            nested = _sum((nested, self.of(position)))
        self._note(nested)

    def _atom(self, atom: AnyAtom) -> Bounds:
        """Return a bound of at least 1, so that a product also bounds its factors."""
        match atom:
            case Size(name):
                return {(name,): Fraction(1)}
            case Var(uid):
                return self.variables[uid]
            case Quotient(numerator, denominator):
                above, _ = self.of(numerator), self.of(denominator)
                # A negative quotient rounded down is farther from zero by up to one.
                return _sum((_divided(above, denominator), _ONE))
            case Extremum(_, choices):
                return _at_least_one(_sum([self.of(choice) for choice in choices]))
            case Xor(parts):
                # |a ^ b| <= |a| + |b|, for numbers below zero too.
                return _at_least_one(_sum(self.of(part) for part in parts))
            case Read(array, indices):
                self._address(tuple(zip(indices, array.shape, strict=True)))
                return _at_least_one(self._element(atom))
            case Bound():
                raise AssertionError("a loop nest has no bound indices")
        assert_never(atom)

    def _element(self, read: Read) -> Bounds:
        least = most = None
        for fact in bounds_of(read.array):
            match fact:
                case AtLeast():
                    least = self.of(fact.bound)
                case Below():
                    most = self.of(fact.bound)
                case _:
                    assert_never(fact)
        if least is None or most is None:
            raise _Unbounded
        return _sum((least, most))


# -- polynomials ------------------------------------------------------------------------------------------------------


def _sum(parts: Iterable[Bounds]) -> Bounds:
    total: dict[Monomial, Fraction] = {}
    for part in parts:
        for monomial, coefficient in part.items():
            total[monomial] = total.get(monomial, Fraction(0)) + coefficient
    return total


def _product(one: Bounds, another: Bounds) -> Bounds:
    total: dict[Monomial, Fraction] = {}
    for left, a in one.items():
        for right, b in another.items():
            monomial = tuple(sorted((*left, *right)))
            total[monomial] = total.get(monomial, Fraction(0)) + a * b
    return total


def _divided(bounds: Bounds, by: Index) -> Bounds:
    """Bound the quotient by a positive expression: a number or a product of sizes is cancelled in each term."""
    if len(by.terms) != 1:
        return bounds
    ((atoms, number),) = by.terms
    sizes = Counter(atom.name for atom in atoms if isinstance(atom, Size))
    if number < 1 or sizes.total() < len(atoms):
        return bounds
    out: list[Bounds] = []
    for monomial, coefficient in bounds.items():
        left = tuple(sorted((Counter(monomial) - sizes).elements()))
        out.append({left: coefficient / number})
    return _sum(out)


def _at_least_one(bounds: Bounds) -> Bounds:
    return bounds if sum(bounds.values()) >= 1 else _sum((bounds, _ONE))


def _greatest(found: Iterable[Bounds]) -> tuple[Bounds, ...]:
    """Return few polynomials that bound all of these: one for each set of largest terms of degree two or more."""
    ordered = sorted(found, key=lambda each: (-max(map(len, each), default=0), -sum(each.values())))
    kept: list[Bounds] = []
    for each in ordered:
        largest = {monomial: value for monomial, value in each.items() if len(monomial) > 1}
        at = next((at for at, other in enumerate(kept) if _is_at_most(largest, other)), None)
        if at is None:
            kept.append(each)
        elif not _is_at_most(each, kept[at]):
            smaller = {monomial: value for monomial, value in each.items() if monomial not in largest}
            kept[at] = {**kept[at], **{of: max(kept[at].get(of, value), value) for of, value in smaller.items()}}
            if not _is_at_most(each, kept[at]):
                kept[at] = _sum((kept[at], each))
    return tuple(kept)


def _is_at_most(one: Bounds, another: Bounds) -> bool:
    """Return whether each term of the first polynomial is covered by terms of the second that contain its sizes."""
    available = dict(another)
    for monomial, coefficient in sorted(one.items(), key=lambda term: -len(term[0])):
        left = coefficient
        for larger in _multiples(monomial, available):
            used = min(available[larger], left)
            available[larger] -= used
            left -= used
        if left > 0:
            return False
    return True


def _multiples(monomial: Monomial, among: Iterable[Monomial]) -> list[Monomial]:
    """Return the monomials that are multiples of one, those with the fewest other factors first."""
    needed = Counter(monomial)
    return sorted((each for each in among if needed <= Counter(each)), key=len)
