"""Traversals of index expressions: substitution of leaves, atoms, evaluation, and shifting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import xor

from atl.core.index.expressions import (
    ONE,
    AnyAtom,
    Array,
    Bound,
    Extremum,
    Index,
    Leaf,
    Quotient,
    Read,
    Size,
    Var,
    Xor,
    bound,
    exclusive_or,
    extremum,
    floordiv,
    index,
    linear,
    polynomial,
    read,
    without,
)


def map_leaves(
    expression: Index, leaf: Callable[[Leaf], Index], divide: Callable[[Index, Index], Index] = floordiv
) -> Index:
    """Replace each size and variable by the result of `leaf`, and return the expression in canonical form.

    `divide` builds the quotients, innermost first.
    """
    changed = False
    new: dict[AnyAtom, Index] = {}
    for monomial, _ in expression.terms:
        for atom in monomial:
            if atom not in new:
                new[atom] = _map_atom(atom, leaf, divide)
                changed = changed or new[atom].atom is not atom
    if not changed:
        return expression
    total = []
    for monomial, coefficient in expression.terms:
        product = new[monomial[0]] if monomial else ONE
        for atom in monomial[1:]:
            product = product * new[atom]
        total.append((coefficient, product))
    return linear(total)


def _map_atom(atom: AnyAtom, leaf: Callable[[Leaf], Index], divide: Callable[[Index, Index], Index]) -> Index:
    match atom:
        case Size() | Bound() | Var():
            return leaf(atom)
        case Quotient(numerator, denominator):
            a, b = map_leaves(numerator, leaf, divide), map_leaves(denominator, leaf, divide)
            if a is numerator and b is denominator and divide is floordiv:
                return index(atom)
            quotient = divide(a, b)
            return index(atom) if quotient.atom == atom else quotient
        case Extremum(kind, choices):
            mapped = tuple(map_leaves(choice, leaf, divide) for choice in choices)
            return index(atom) if _same(mapped, choices) else extremum(kind, *mapped)
        case Xor(parts):
            mapped = tuple(map_leaves(part, leaf, divide) for part in parts)
            return index(atom) if _same(mapped, parts) else exclusive_or(*mapped)
        case Read(array, indices):
            mapped = tuple(map_leaves(position, leaf, divide) for position in indices)
            return index(atom) if _same(mapped, indices) else read(array, mapped)


def _same(new: tuple[Index, ...], old: tuple[Index, ...]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def atoms(expression: Index) -> Iterable[AnyAtom]:
    """Yield every occurrence of an atom, nested atoms before the atoms that contain them."""
    for monomial, _ in expression.terms:
        for atom in monomial:
            for part in _parts(atom):
                yield from atoms(part)
            yield atom


def _parts(atom: AnyAtom) -> tuple[Index, ...]:
    match atom:
        case Size() | Bound() | Var():
            return ()
        case Quotient(numerator, denominator):
            return (numerator, denominator)
        case Extremum(_, choices):
            return choices
        case Xor(parts):
            return parts
        case Read(_, indices):
            return indices


def value_of(expression: Index, leaf: Callable[[Leaf], int], element: Callable[[Array, tuple[int, ...]], int]) -> int:
    """Evaluate the expression for given values of its leaves and of array elements.

    Raises `ZeroDivisionError` for a divisor of zero or less, which does not occur in a well-formed program.
    """
    total = 0
    for monomial, coefficient in expression.terms:
        product = coefficient
        for atom in monomial:
            product *= _value_of_atom(atom, leaf, element)
        total += product
    return total


def _value_of_atom(atom: AnyAtom, leaf: Callable[[Leaf], int], element: Callable[[Array, tuple[int, ...]], int]) -> int:
    match atom:
        case Size() | Bound() | Var():
            return leaf(atom)
        case Quotient(numerator, denominator):
            divisor = value_of(denominator, leaf, element)
            if divisor <= 0:
                raise ZeroDivisionError(divisor)
            return value_of(numerator, leaf, element) // divisor
        case Extremum(kind, choices):
            values = [value_of(choice, leaf, element) for choice in choices]
            return min(values) if kind == "min" else max(values)
        case Xor(parts):
            return reduce(xor, (value_of(part, leaf, element) for part in parts))
        case Read(array, indices):
            return element(array, tuple(value_of(position, leaf, element) for position in indices))


def shift(expression: Index, by: int, cutoff: int = 0) -> Index:
    """Add `by` to the free de Bruijn positions from `cutoff` on."""
    if expression.loose <= cutoff or by == 0:
        return expression
    return map_leaves(
        expression,
        lambda leaf: bound(leaf.position + by) if isinstance(leaf, Bound) and leaf.position >= cutoff else index(leaf),
    )


def factor_of(expression: Index, atom: AnyAtom) -> Index | None:
    """Return the f such that the expression is f * atom + rest, where neither f nor the rest contains the atom.

    Return None if there is no such f: the atom is multiplied by itself, or occurs within another atom.

    >>> i, n = Var(1, "i"), index(Size("n"))
    >>> factor_of(index(i) * n - index(i) + n, i), factor_of(n, i), factor_of(index(i) // n, i)
    (n - 1, 0, None)
    """
    inside = {monomial: left for monomial, _ in expression.terms if (left := without(monomial, (atom,))) is not None}
    factor = polynomial({inside[monomial]: value for monomial, value in expression.terms if monomial in inside})
    rest = expression - factor * index(atom) if inside else expression
    return None if any(other == atom for part in (factor, rest) for other in atoms(part)) else factor
