"""Readable notation for index expressions and conditions.

Canonical forms are polynomials over atoms. This module recovers remainders (a - b*(a // b)) and ceilings
((a + b - 1) // b), and moves terms so that both sides of a condition are positive. The notation always denotes exactly
the canonical form, because each step extracts a part of a polynomial and keeps the exact rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from atl.core import index as ix
from atl.core.declared import is_bool_array
from atl.core.dtypes import BOOL
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero
from atl.errors import TooLarge

Naming: TypeAlias = Callable[[ix.Leaf], str]
"""Function that names a size or an index at a place."""

MANY_QUOTIENTS: Final = 24
"""Maximum number of quotients in an expression for which remainders are searched."""


# -- the notation of index expressions --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """An integer, possibly negative."""

    value: int


@dataclass(frozen=True, slots=True)
class Name:
    """A size or an index."""

    name: str


@dataclass(frozen=True, slots=True)
class Sum:
    """Two or more terms, or one negated term, each with a flag that is true if the term is subtracted."""

    terms: tuple[tuple[bool, IndexSyntax], ...]


@dataclass(frozen=True, slots=True)
class Product:
    """Two or more factors."""

    factors: tuple[IndexSyntax, ...]


@dataclass(frozen=True, slots=True)
class Division:
    """A quotient rounded down or up, or a remainder."""

    kind: Literal["floor", "ceiling", "remainder"]
    left: IndexSyntax
    right: IndexSyntax


@dataclass(frozen=True, slots=True)
class Extreme:
    """The minimum, maximum or exclusive or of several expressions."""

    kind: Literal["min", "max", "xor"]
    choices: tuple[IndexSyntax, ...]


@dataclass(frozen=True, slots=True)
class Element:
    """An element of an integer array."""

    array: str
    indices: tuple[IndexSyntax, ...]


IndexSyntax: TypeAlias = Number | Name | Sum | Product | Division | Extreme | Element


# -- the notation of conditions ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """a < b, or a chain a <= b < c."""

    operands: tuple[IndexSyntax, ...]
    relations: tuple[Literal["<", "<=", "=", "!="], ...]


@dataclass(frozen=True, slots=True)
class BooleanOp:
    """Conjunction (`every`) or disjunction of two or more conditions."""

    every: bool
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Truth:
    """A constant condition."""

    value: bool


@dataclass(frozen=True, slots=True)
class BooleanAtom:
    """A condition variable of a rule applied to indices, or an element of a Boolean input; possibly negated."""

    name: str
    indices: tuple[IndexSyntax, ...]
    negated: bool
    is_element: bool = False


Condition: TypeAlias = Comparison | BooleanOp | Truth | BooleanAtom


# -- terms of a sum ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Term:
    """A term coefficient * atoms * (a % b)."""

    coefficient: int
    atoms: ix.Monomial
    remainder: tuple[ix.Index, ix.Index] | None = None

    @property
    def is_constant(self) -> bool:
        return not self.atoms and self.remainder is None

    def times(self, sign: int) -> _Term:
        return _Term(self.coefficient * sign, self.atoms, self.remainder)

    def order(self) -> tuple[object, ...]:
        """Return a sort key: higher degrees, then larger strides, then outer indices first."""
        factors = [_atom_order(atom) for atom in self.atoms]
        if self.remainder is not None:
            factors.append((2, (3, self.remainder[0].order, self.remainder[1].order)))
        return (-len(factors), -abs(self.coefficient), *sorted(factors))


def _atom_order(atom: ix.AnyAtom) -> ix.Order:
    """Return a sort key for factors: indices precede sizes, as in i*k and (i // k)*k."""
    match atom:
        case ix.Bound(position):
            return (0, -position)
        case ix.Var(uid, _):
            return (1, uid)
        case ix.Size(name, _):
            return (3, name)
        case ix.Quotient() | ix.Extremum() | ix.Xor() | ix.Read():
            return (2, atom.order)
        case _:
            assert_never(atom)


def _terms(expression: ix.Index) -> list[_Term]:
    out: list[_Term] = []
    while (found := _remainder(expression)) is not None:
        factor, a, b, expression = found
        out.extend(_Term(coefficient, atoms, (a, b)) for atoms, coefficient in factor.terms)
    out.extend(_Term(coefficient, atoms) for atoms, coefficient in expression.terms)
    return out


def _remainder(expression: ix.Index) -> tuple[ix.Index, ix.Index, ix.Index, ix.Index] | None:
    """Return (f, a, b, rest) such that the expression is f * (a % b) + rest with a shorter rest; else None."""
    if len(expression.terms) < 2:
        return None
    quotients = {atom: None for atoms, _ in expression.terms for atom in atoms if isinstance(atom, ix.Quotient)}
    if not quotients or len(quotients) > MANY_QUOTIENTS:
        return None
    # Try larger quotients first, so that an outer remainder is found before remainders in its numerator.
    for quotient in sorted(quotients, key=lambda atom: -atom.size):
        for a, b in _readings(quotient, list(quotients)):
            for factor in _factors(expression, quotient, b):
                try:
                    rest = expression - factor * (a % b)
                except TooLarge:
                    continue
                if len(rest.terms) + len(factor.terms) < len(expression.terms):
                    return factor, a, b, rest
    return None


def _readings(quotient: ix.Quotient, others: list[ix.Quotient]) -> Iterator[tuple[ix.Index, ix.Index]]:
    """Yield the divisions a // b equal to this quotient: itself, and (a // c) // (b / c) for each quotient a // c."""
    whole = quotient.denominator.constant
    if whole is not None and whole < 1:
        return  # dead branches may divide by a constant below one
    yield quotient.numerator, quotient.denominator
    for other in others:
        part = other.denominator.constant
        if whole and part and other != quotient and other.numerator == quotient.numerator and whole % part == 0:
            yield ix.index(other), ix.constant(whole // part)


def _factors(expression: ix.Index, quotient: ix.Quotient, b: ix.Index) -> Iterator[ix.Index]:
    """Yield the factors f such that the terms of -f * b * quotient occur in the expression."""
    lead, leading = b.terms[0]
    found: dict[ix.Monomial, int] = {}
    for atoms, coefficient in expression.terms:
        if quotient in atoms and coefficient % leading == 0:
            left = ix.without(ix.without(atoms, (quotient,)) or (), lead)
            if left is not None:
                found[left] = -coefficient // leading
    if len(b.terms) == 1 and found:
        yield ix.polynomial(found)
    elif found:
        yield from (ix.polynomial({atoms: coefficient}) for atoms, coefficient in found.items())


# -- writing expressions ----------------------------------------------------------------------------------------------


def write_index(expression: ix.Index, naming: Naming) -> IndexSyntax:
    """Return the notation of an index expression."""
    return _sum(_terms(expression), naming)


def _sum(terms: list[_Term], naming: Naming) -> IndexSyntax:
    """Order the terms: positive, negative, constant. A constant is first if it is the only positive term."""
    offset = sum(term.coefficient for term in terms if term.is_constant)
    others = sorted((term for term in terms if not term.is_constant), key=_Term.order)
    positive = [(False, _product(term, naming)) for term in others if term.coefficient > 0]
    negative = [(True, _product(term, naming)) for term in others if term.coefficient < 0]
    if not others:
        return Number(offset)
    last: list[tuple[bool, IndexSyntax]] = [(offset < 0, Number(abs(offset)))] if offset else []
    out = [*last, *negative] if not positive and offset > 0 else [*positive, *negative, *last]
    return out[0][1] if len(out) == 1 and not out[0][0] else Sum(tuple(out))


def _product(term: _Term, naming: Naming) -> IndexSyntax:
    """Return the notation of a term without its sign."""
    factors: list[tuple[ix.Order, IndexSyntax]] = [(_atom_order(atom), _atom(atom, naming)) for atom in term.atoms]
    if term.remainder is not None:
        a, b = term.remainder
        written = Division("remainder", write_index(a, naming), write_index(b, naming))
        factors.append(((2, (3, a.order, b.order)), written))
    factors.sort(key=lambda factor: factor[0])
    ordered = [written for _, written in factors]
    if abs(term.coefficient) != 1:
        ordered.insert(0, Number(abs(term.coefficient)))
    return ordered[0] if len(ordered) == 1 else Product(tuple(ordered))


def _atom(atom: ix.AnyAtom, naming: Naming) -> IndexSyntax:
    match atom:
        case ix.Size() | ix.Bound() | ix.Var():
            return Name(naming(atom))
        case ix.Quotient(numerator, denominator):
            above = _rounded_up(numerator, denominator)
            rounding: Literal["floor", "ceiling"] = "floor" if above is None else "ceiling"
            return Division(
                rounding, write_index(numerator if above is None else above, naming), write_index(denominator, naming)
            )
        case ix.Extremum(kind, choices):
            return Extreme(kind, tuple(write_index(choice, naming) for choice in choices))
        case ix.Xor(parts):
            return Extreme("xor", tuple(write_index(part, naming) for part in parts))
        case ix.Read(array, indices):
            return Element(array.name, tuple(write_index(position, naming) for position in indices))
        case _:
            assert_never(atom)


def _rounded_up(numerator: ix.Index, denominator: ix.Index) -> ix.Index | None:
    """Return a if numerator // denominator is better written as a / denominator rounded up; else None."""
    above = numerator - denominator + ix.ONE
    saved = len(numerator.terms) - len(above.terms)
    if not above.terms or saved < 0:
        return None
    sum_of = {atoms for atoms, _ in above.terms}
    taken_out = denominator.constant is None and not any(atoms in sum_of for atoms, _ in denominator.terms if atoms)
    return above if saved or taken_out else None


# -- writing conditions -----------------------------------------------------------------------------------------------


def write_condition(predicate: Predicate, naming: Naming) -> Condition:
    """Return the notation of a predicate."""
    match predicate:
        case NonNegative(expression):
            return _boolean_atom(expression, naming) or _inequality(_terms(expression), naming)
        case Zero(expression):
            return _equation("=", expression, naming)
        case NonZero(expression):
            return _equation("!=", expression, naming)
        case All(parts) | Any(parts):
            every = isinstance(predicate, All)
            written = [write_condition(part, naming) for part in parts]
            if every:
                written = _chained(written)
            if not written:
                return Truth(every)
            return written[0] if len(written) == 1 else BooleanOp(every, tuple(written))
        case _:
            assert_never(predicate)


def _boolean_atom(expression: ix.Index, naming: Naming) -> BooleanAtom | None:
    """Return a rule's condition p(i) or a Boolean element mask[i] if 0 <= expression states its truth or negation."""
    candidates = ((expression, False, False), (-expression - 1, True, False), (expression + 1, False, True))
    for truth, negated, is_element in (*candidates, (-expression, True, True)):
        match truth.atom:
            case ix.Read(array, indices) if array.dtype == BOOL and is_element == is_bool_array(array):
                return BooleanAtom(array.name, tuple(write_index(at, naming) for at in indices), negated, is_element)
            case _:
                pass
    return None


def _inequality(terms: list[_Term], naming: Naming) -> Comparison:
    """Return the notation of 0 <= the sum of the terms: i < n for n - i - 1, and 1 <= i for i - 1."""
    offset = sum(term.coefficient for term in terms if term.is_constant)
    more = [term for term in terms if not term.is_constant and term.coefficient > 0]
    less = [term.times(-1) for term in terms if not term.is_constant and term.coefficient < 0]
    if not less:
        return Comparison((Number(-offset), _sum(more, naming)), ("<=",))
    if not more:
        # Write bounds of indices as i < n, and bounds of sizes as n <= 5.
        strict = any(not isinstance(atom, ix.Size) for term in less for atom in term.atoms) or any(
            term.remainder is not None for term in less
        )
        bound = Number(offset + 1 if strict else offset)
        return Comparison((_sum(less, naming), bound), ("<" if strict else "<=",))
    if offset >= 0:
        return Comparison((_sum(less, naming), _sum([*more, _Term(offset, ())], naming)), ("<=",))
    return Comparison((_sum([*less, _Term(-offset - 1, ())], naming), _sum(more, naming)), ("<",))


def _equation(relation: Literal["=", "!="], expression: ix.Index, naming: Naming) -> Comparison:
    """Return the notation of an equation, solved for an index if possible: i = n - 1 for n - i - 1."""
    terms = _terms(expression)
    for term in sorted(terms, key=_Term.order):
        alone = len(term.atoms) == 1 and term.remainder is None and abs(term.coefficient) == 1
        if alone and isinstance(term.atoms[0], ix.Bound | ix.Var):
            rest = [other.times(-term.coefficient) for other in terms if other is not term]
            return Comparison((_product(term, naming), _sum(rest, naming)), (relation,))
    if not any(term.coefficient > 0 for term in terms if not term.is_constant):
        terms = [term.times(-1) for term in terms]
    left = [term for term in terms if not term.is_constant and term.coefficient > 0]
    right = [term.times(-1) for term in terms if term.is_constant or term.coefficient < 0]
    return Comparison((_sum(left, naming), _sum(right, naming)), (relation,))


def _chained(parts: list[Condition]) -> list[Condition]:
    """Join adjacent comparisons a <= b and b < c to a <= b < c."""
    out: list[Condition] = []
    for part in parts:
        before = out[-1] if out else None
        if (
            isinstance(part, Comparison)
            and isinstance(before, Comparison)
            and before.operands[-1] == part.operands[0]
            and not isinstance(part.operands[0], Number)
            and {"=", "!="}.isdisjoint((*before.relations, *part.relations))
        ):
            out[-1] = Comparison((*before.operands, *part.operands[1:]), (*before.relations, *part.relations))
        else:
            out.append(part)
    return out
