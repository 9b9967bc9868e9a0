"""Facts about extents: comparison and exact division, immediate for integers and by the prover for symbolic extents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from atl.core.index import ONE, Index, Leaf, Monomial, Quotient, Size, floordiv, index, polynomial, without
from atl.core.index import atoms as atoms_of
from atl.core.predicate import FALSE, Predicate, Zero, at_most, equal, less, substitute
from atl.prove import Facts, Proved, prove, simplify
from atl.surface.values import as_predicate
from atl.text.printing import show_predicate
from layouts.errors import LayoutError
from layouts.foundation.tuples import Extent


@dataclass(frozen=True, slots=True)
class Known:
    """Facts about sizes and their consequences. Every query answers False or None if it cannot be proved."""

    facts: Facts = field(default_factory=Facts)

    def assume(self, *predicates: Predicate) -> Known:
        """Add predicates."""
        facts = self.facts.assume(*predicates)
        return self if facts is self.facts else Known(facts)

    def given(self, conditions: Iterable[object]) -> Known:
        """Add conditions written by the user."""
        return self.assume(*(as_predicate(condition) for condition in conditions))

    def joined(self, other: Known) -> Known:
        """Return the facts of both."""
        return self if other is self else self.assume(*other.facts.predicates)

    def where(self, sizes: Mapping[str, int]) -> Known:
        """Return the facts with numbers for some sizes. Raises `LayoutError` if the numbers contradict a fact.

        >>> from atl import sizes
        >>> n, m = sizes("n m")
        >>> EMPTY.given([n % m == 0]).where({"m": 4}).holds((n % 4 == 0).node)
        True
        """
        out = EMPTY
        for fact in self.facts.predicates:
            held = substitute(fact, partial(number_for, sizes))
            if held == FALSE:
                numbers = ", ".join(f"{name} = {number}" for name, number in sizes.items())
                raise LayoutError(f"{numbers} contradicts what is known of the sizes", required=show_predicate(fact))
            out = out.assume(held)
        return out

    def holds(self, predicate: Predicate) -> bool:
        """Return whether the fast layers of the prover prove `predicate` from the facts."""
        return isinstance(prove(self.facts, predicate, thorough=False), Proved)

    def less(self, a: Extent, b: Extent) -> bool:
        """Return whether a < b is proved."""
        if isinstance(a, int) and isinstance(b, int):
            return a < b
        return self.holds(less(index(a), index(b)))

    def same(self, a: Extent, b: Extent) -> bool:
        """Return whether a = b is proved."""
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return index(a) == index(b) or self.holds(equal(index(a), index(b)))

    def quotient(self, a: Extent, b: Extent) -> Extent | None:
        """Return a / b if b > 0 is proved to divide a; else None.

        >>> from atl.core.index import size
        >>> n = size("n")
        >>> EMPTY.quotient(12 * n, 4), EMPTY.quotient(n, 4), EMPTY.quotient(10, 4)
        (3*n, None, None)
        """
        if isinstance(a, int) and isinstance(b, int):
            return a // b if b > 0 and a % b == 0 else None
        if b == 1:
            return a
        if a == 1:
            return None  # only 1 divides 1, and an extent of 1 is always written as an integer
        whole, part = index(a), index(b)
        if (exact := _divided(whole, part)) is None:
            if not self.facts.predicates:
                return None
            quotient = floordiv(whole, part)
            if not self.holds(equal(whole, part * quotient)):
                return None
            exact = quotient
        return self.simple(exact) if self.less(0, b) else None

    def simple(self, value: Extent) -> Extent:
        """Return an equal expression, simplified by the facts; an integer if it is constant.

        Where B is proved to divide K, (K // B) * B becomes K.

        >>> from atl import sizes
        >>> k, b = sizes("K B")
        >>> known = EMPTY.given([b >= 1, k % b == 0])
        >>> known.simple((k // b * b + 1).node)
        K + 1
        """
        if isinstance(value, int):
            return value
        if value.constant is None and any(isinstance(atom, Quotient) for atom in atoms_of(value)):
            value = simplify(self.facts, value)
            for whole, part, quotient in self._exact_quotients():
                value = _multiplied_out(value, whole, part, quotient)
        return value if value.constant is None else value.constant

    def _exact_quotients(self) -> Iterator[tuple[Index, Index, Quotient]]:
        """Return the quotients that the facts make exact."""
        for fact in self.facts.predicates:
            if isinstance(fact, Zero):
                for atom in set(atoms_of(fact.expression)):
                    if isinstance(atom, Quotient) and _says_exact(fact.expression, atom):
                        yield atom.numerator, atom.denominator, atom


def _says_exact(expression: Index, atom: Quotient) -> bool:
    """Return whether `expression` = 0 implies that the quotient is exact."""
    remainder = atom.numerator - atom.denominator * index(atom)
    return expression in (remainder, -remainder)


def _divided(whole: Index, part: Index) -> Index | None:
    """Return whole / part, if every term of `whole` is a multiple of the single term `part`; else None."""
    if whole == part:
        return ONE
    if len(part.terms) != 1:
        return None
    atoms, coefficient = part.terms[0]
    out: dict[Monomial, int] = {}
    for monomial, value in whole.terms:
        rest = list(monomial)
        for atom in atoms:
            if atom not in rest:
                return None
            rest.remove(atom)
        if value % coefficient:
            return None
        out[tuple(rest)] = value // coefficient
    return polynomial(out)


def _multiplied_out(value: Index, whole: Index, part: Index, quotient: Quotient) -> Index:
    """Return the value with each c * part * quotient replaced by c * whole; the two are known to be equal."""
    while True:
        factors: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in value.terms:
            left = without(monomial, (quotient,))
            # If the part has several terms, it must divide the whole coefficient of the quotient.
            if left is not None and (
                len(part.terms) > 1 or _divided(polynomial({left: coefficient}), part) is not None
            ):
                factors[left] = coefficient
            else:
                rest[monomial] = coefficient
        multiple = _divided(polynomial(factors), part) if factors else None
        if multiple is None:
            return value
        value = polynomial(rest) + multiple * whole


EMPTY: Final = Known()
"""No facts."""


def number_for(sizes: Mapping[str, int], leaf: Leaf) -> Index:
    """Return the number given for a size; any other leaf unchanged."""
    return index(sizes[leaf.name]) if isinstance(leaf, Size) and leaf.name in sizes else index(leaf)


def positive(extents: Iterable[Extent]) -> Known:
    """Return the facts that these extents are at least 1."""
    symbolic = [extent for extent in extents if not isinstance(extent, int)]
    return EMPTY.assume(*(at_most(ONE, extent) for extent in symbolic)) if symbolic else EMPTY


def in_order(modes: Sequence[tuple[Extent, Extent]], known: Known) -> list[tuple[Extent, Extent]] | None:
    """Return the modes ordered so that each stride exceeds the span of all modes before it; None if no order is proved.

    The last mode of such an order exceeds the span of all others, and the rest is ordered again. So the order is found
    from the end without backtracking.
    """
    left, behind = list(modes), list[tuple[Extent, Extent]]()
    while left:
        for position, (n, d) in enumerate(left):
            others: Extent = 0
            for k, (m, e) in enumerate(left):
                if k != position:
                    others = others + (m - 1) * e
            if known.less(others, d):
                behind.append((n, d))
                del left[position]
                break
        else:
            return None
    return behind[::-1]
