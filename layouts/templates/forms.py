"""Equivalent forms of an index: expanded, Horner's scheme, factored, common subexpressions. The shortest is chosen.

All forms have the same value for all sizes that are at least 0. Quotients are variables of the polynomial. Each form is
expanded again and compared. If Horner's scheme reads every variable once, it is optimal; otherwise sympy factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, Final, TypeAlias, assert_never

from atl.core import index as ix
from atl.errors import TooLarge
from atl.text.index_notation import Division, Element, Extreme, IndexSyntax, Name, Number, Product, Sum, write_index
from layouts.errors import TemplateError

MOST_TERMS: Final = 60
"""For polynomials with more terms only the expanded form is used."""


def operations(written: IndexSyntax) -> int:
    """Return the number of arithmetic operations: additions, products, quotients, remainders, extrema.

    >>> from atl import sizes
    >>> K, BM, i, j = sizes("K BM i j")
    >>> operations(shortest((BM * K * i + K * j).node))
    3
    """
    match written:
        case Number() | Name():
            return 0
        case Sum(terms):
            signs = len(terms) - 1 + (1 if terms[0][0] else 0)
            return signs + sum(operations(term) for _, term in terms)
        case Product(parts) | Extreme(_, parts):
            return len(parts) - 1 + sum(map(operations, parts))
        case Division("ceiling", left, right):
            return (2 if isinstance(right, Number) else 3) + operations(left) + 2 * operations(right)
        case Division(_, left, right):
            return 1 + operations(left) + operations(right)
        case Element(_, indices):
            return sum(map(operations, indices))
        case _:
            assert_never(written)


def shortest(expression: ix.Index) -> IndexSyntax:
    """Return the form with the fewest operations; the first in the order above if several are equally short.

    >>> from atl import sizes
    >>> from atl.text.printing import UNICODE, index_text
    >>> M, BK, k, pid, GM, n = sizes("M BK k pid GM n")
    >>> index_text(shortest((BK * M * k + M * n + 1).node), UNICODE)
    'M*(BK*k + n) + 1'
    >>> index_text(shortest((pid // GM - pid // (GM * n) * n).node), UNICODE)
    '(pid // GM) % n'
    """
    return min((_improved(write_index(each, called)) for each in _nested(expression)), key=operations)


def called(leaf: ix.Leaf) -> str:
    """Return the name of a size or variable."""
    if isinstance(leaf, ix.Bound):
        raise TemplateError(
            "the index contains a loop variable of a program", required="sizes, and variables of slices"
        )
    return leaf.name


def _nested(expression: ix.Index) -> Iterator[ix.Index]:
    """Return the expression, and the same with a // (b * c) written (a // b) // c if a // b occurs too.

    The two are equal if b * c is positive; otherwise neither is defined.
    """
    yield expression
    quotients = sorted(
        {atom for atom in ix.atoms(expression) if isinstance(atom, ix.Quotient)}, key=lambda atom: atom.order
    )
    instead: dict[ix.Quotient, ix.Index] = {}
    for each in quotients:
        for other in quotients:
            if other.numerator == each.numerator and other != each:
                rest = ix.quotient_exactly(each.denominator, other.denominator)
                if rest is not None and rest.constant is None:
                    instead[each] = ix.index(ix.Quotient(ix.index(other), rest))
    if instead:
        total = ix.index(0)
        for monomial, coefficient in expression.terms:
            term = ix.index(coefficient)
            for atom in monomial:
                term = term * (instead[atom] if isinstance(atom, ix.Quotient) and atom in instead else ix.index(atom))
            total = total + term
        yield total


# -- by sympy ---------------------------------------------------------------------------------------------------------


def _improved(written: IndexSyntax) -> IndexSyntax:
    """Return the shortest form of the polynomial, after its parts have been shortened."""
    held: dict[IndexSyntax, Name] = {}
    inner = _opaque(written, held)
    if operations(inner) < 3 or _terms(inner) > MOST_TERMS:
        return _restored(inner, held)
    whole = meaning(inner, ix.size)
    candidates = [inner, *_by_horner(whole)]
    if len(reads := list(_names(candidates[-1]))) > len(set(reads)):
        candidates += _factored(inner)
    equal = [each for each in candidates if meaning(each, ix.size) == whole]
    return _restored(min(equal, key=operations), held)


def _terms(written: IndexSyntax) -> int:
    return len(written.terms) if isinstance(written, Sum) else 1


def _opaque(written: IndexSyntax, held: dict[IndexSyntax, Name]) -> IndexSyntax:
    """Return the polynomial with names for parts that are not polynomials; the parts are shortened first."""
    match written:
        case Number() | Name():
            return written
        case Sum(terms):
            return Sum(tuple((taken, _opaque(term, held)) for taken, term in terms))
        case Product(factors):
            return Product(tuple(_opaque(factor, held) for factor in factors))
        case Division(kind, left, right):
            made: IndexSyntax = Division(kind, _improved(left), _improved(right))
        case Extreme(kind, choices):
            made = Extreme(kind, tuple(map(_improved, choices)))
        case Element(array, indices):
            made = Element(array, tuple(map(_improved, indices)))
        case _:
            assert_never(written)
    return held.setdefault(made, Name(f"{_OPAQUE}{len(held)}"))


_OPAQUE: Final = "#"
"""Prefix of internal names for parts; users' names cannot begin with it."""


def _restored(written: IndexSyntax, held: dict[IndexSyntax, Name]) -> IndexSyntax:
    parts = {name: part for part, name in held.items()}
    return replaced(written, lambda each: parts.get(each) if isinstance(each, Name) else None)


def replaced(written: IndexSyntax, instead: Callable[[IndexSyntax], IndexSyntax | None]) -> IndexSyntax:
    """Replace parts for which `instead` returns an expression; the results are not revisited."""
    if (found := instead(written)) is not None:
        return found
    match written:
        case Number() | Name():
            return written
        case Sum(terms):
            return Sum(tuple((taken, replaced(term, instead)) for taken, term in terms))
        case Product(factors):
            return Product(tuple(replaced(factor, instead) for factor in factors))
        case Division(kind, left, right):
            return Division(kind, replaced(left, instead), replaced(right, instead))
        case Extreme(kind, choices):
            return Extreme(kind, tuple(replaced(choice, instead) for choice in choices))
        case Element(array, indices):
            return Element(array, tuple(replaced(each, instead) for each in indices))
        case _:
            assert_never(written)


def _factored(written: IndexSyntax) -> list[IndexSyntax]:
    """Return the factored forms of the polynomial, from sympy."""
    import sympy

    known = {name: sympy.Symbol(name) for name in sorted(set(_names(written)))}
    return [_written(sympy.factor(_sympy(written, known)))]


# -- Horner's scheme --------------------------------------------------------------------------------------------------

Terms: TypeAlias = dict[tuple[str, ...], int]
"""Products of names with their coefficients."""


def _by_horner(expression: ix.Index) -> list[IndexSyntax]:
    """Apply Horner's scheme, taking out first the name in most terms, or that in fewest (but at least two) terms."""
    terms: Terms = {}
    for monomial, coefficient in expression.terms:
        terms[tuple(atom.name for atom in monomial if isinstance(atom, ix.Size))] = coefficient
    return [_horner(terms, max), _horner(terms, min)]


def _horner(terms: Terms, first: Callable[..., str]) -> IndexSyntax:
    shared = gcd(*terms.values())
    if shared > 1 and len(terms) > 1:
        inner = _horner({monomial: value // shared for monomial, value in terms.items()}, first)
        return _times(shared, [], inner)
    counts: dict[str, int] = {}
    for monomial in terms:
        for name in sorted(set(monomial)):
            counts[name] = counts.get(name, 0) + 1
    several = [name for name, count in counts.items() if count > 1]
    if not several:
        return _sum(terms)
    name = first(several, key=lambda each: counts[each])
    taken: Terms = {}
    rest: Terms = {}
    for monomial, value in terms.items():
        if name in monomial:
            at = monomial.index(name)
            taken[monomial[:at] + monomial[at + 1 :]] = value
        else:
            rest[monomial] = value
    product = _times(1, [name], _horner(taken, first))
    if not rest:
        return product
    left = _horner(rest, first)
    if isinstance(left, Sum):
        return Sum(_positive_first(((False, product), *left.terms)))
    return Sum(_positive_first(((False, product), (False, left))))


def _times(number: int, names: list[str], inner: IndexSyntax) -> IndexSyntax:
    """Return a product with one factor that is a sum or a product."""
    factors: list[IndexSyntax] = [Number(number)] if number != 1 else []
    factors += map(Name, names)
    if inner != Number(1):
        factors += inner.factors if isinstance(inner, Product) else [inner]
    return factors[0] if len(factors) == 1 else Product(tuple(factors))


def _sum(terms: Terms) -> IndexSyntax:
    """Return the sum of terms without a common name."""
    out: list[tuple[bool, IndexSyntax]] = []
    for monomial, value in terms.items():
        made = _times(abs(value), [*monomial], Number(1)) if monomial else Number(abs(value))
        out.append((value < 0, made))
    if len(out) == 1 and not out[0][0]:
        return out[0][1]
    return Sum(_positive_first(tuple(out)))


def _positive_first(terms: tuple[tuple[bool, IndexSyntax], ...]) -> tuple[tuple[bool, IndexSyntax], ...]:
    """Return the terms with additions first, then subtractions, and numbers last in each group."""
    return tuple(sorted(terms, key=lambda term: (term[0], isinstance(term[1], Number))))


def _names(written: IndexSyntax) -> Iterator[str]:
    match written:
        case Name(name):
            yield name
        case Sum(terms):
            for _, term in terms:
                yield from _names(term)
        case Product(factors):
            for factor in factors:
                yield from _names(factor)
        case Number() | Division() | Extreme() | Element():
            pass
        case _:
            assert_never(written)


def _sympy(written: IndexSyntax, known: dict[str, Any]) -> Any:
    match written:
        case Number(value):
            return value
        case Name(name):
            return known[name]
        case Sum(terms):
            total: Any = 0
            for taken, term in terms:
                total = total - _sympy(term, known) if taken else total + _sympy(term, known)
            return total
        case Product(factors):
            product: Any = 1
            for factor in factors:
                product = product * _sympy(factor, known)
            return product
        case Division() | Extreme() | Element():
            raise TooLarge("a part is not a polynomial", required="a polynomial")
        case _:
            assert_never(written)


def _written(expression: Any) -> IndexSyntax:
    """Return a sympy expression in our notation, with positive terms first."""
    if expression.is_Integer:
        return Number(int(expression))
    if expression.is_Symbol:
        return Name(expression.name)
    if expression.is_Pow:
        return Product((_written(expression.base),) * int(expression.exp))
    if expression.is_Mul:
        factors: list[IndexSyntax] = []
        for part in expression.as_ordered_factors():
            made = _written(part)
            factors += made.factors if isinstance(made, Product) else (made,)
        return _signed(factors)
    terms = [_term(part) for part in expression.as_ordered_terms()]
    terms.sort(key=lambda term: (term[0], isinstance(term[1], Number)))
    return Sum(tuple(terms))


def _signed(factors: list[IndexSyntax]) -> IndexSyntax:
    """Return a product; a factor of -1 becomes a sign."""
    if factors[0] == Number(-1):
        rest = factors[1:]
        return Sum(((True, rest[0] if len(rest) == 1 else Product(tuple(rest))),))
    return Product(tuple(factors))


def _term(expression: Any) -> tuple[bool, IndexSyntax]:
    made = _written(-expression) if expression.could_extract_minus_sign() else _written(expression)
    return bool(expression.could_extract_minus_sign()), made


# -- common subexpressions --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Common:
    """Common subexpressions in order of definition, with names, and the expressions that use them."""

    parts: tuple[tuple[str, IndexSyntax], ...]
    rest: tuple[IndexSyntax, ...]

    @property
    def operations(self) -> int:
        """The number of operations of the definitions and the expressions together."""
        return sum(operations(part) for _, part in self.parts) + sum(map(operations, self.rest))


def common(written: Sequence[IndexSyntax], names: Iterator[str]) -> Common:
    """Compute each subexpression that occurs more than once only once.

    >>> from atl import sizes
    >>> K, i, j = sizes("K i j")
    >>> found = common([shortest((K * i + 1).node), shortest((K * i + j).node)], iter("ab"))
    >>> found.parts, found.operations
    ((('a', Product(factors=(Name(name='K'), Name(name='i')))),), 3)
    """
    parts: list[tuple[str, IndexSyntax]] = []
    rest = list(written)
    while True:
        seen: dict[IndexSyntax, int] = {}
        for each in (*(part for _, part in parts), *rest):
            for part in _parts(each):
                seen[part] = seen.get(part, 0) + 1
        often = [part for part, times in seen.items() if times > 1]
        if not often:
            return Common(_in_order(parts), tuple(rest))
        most = max(often, key=operations)
        name = Name(next(names))

        def instead(each: IndexSyntax, most: IndexSyntax = most, name: Name = name) -> IndexSyntax | None:
            return name if each == most else None

        parts = [(known, replaced(part, instead)) for known, part in parts]
        rest = [replaced(each, instead) for each in rest]
        parts.append((name.name, most))


def _in_order(parts: list[tuple[str, IndexSyntax]]) -> tuple[tuple[str, IndexSyntax], ...]:
    """Return the parts in order of definition: a part found later never contains one found before it."""
    return tuple(reversed(parts))


def _parts(written: IndexSyntax) -> Iterator[IndexSyntax]:
    """Return all parts that contain an operation, including the whole."""
    if operations(written):
        yield written
    match written:
        case Number() | Name():
            pass
        case Sum(terms):
            for _, term in terms:
                yield from _parts(term)
        case Product(parts) | Extreme(_, parts) | Element(_, parts):
            for part in parts:
                yield from _parts(part)
        case Division(_, left, right):
            yield from _parts(left)
            yield from _parts(right)
        case _:
            assert_never(written)


def meaning(written: IndexSyntax, leaf: Callable[[str], ix.Index]) -> ix.Index:
    """Return the index expression that the notation denotes."""
    match written:
        case Number(value):
            return ix.index(value)
        case Name(name):
            return leaf(name)
        case Sum(terms):
            total = ix.index(0)
            for taken, term in terms:
                total = total - meaning(term, leaf) if taken else total + meaning(term, leaf)
            return total
        case Product(factors):
            product = ix.index(1)
            for factor in factors:
                product = product * meaning(factor, leaf)
            return product
        case Division(kind, left, right):
            above, below = meaning(left, leaf), meaning(right, leaf)
            if kind == "ceiling":
                return (above + below - 1) // below
            return above // below if kind == "floor" else above % below
        case Extreme(kind, choices):
            options = [meaning(choice, leaf) for choice in choices]
            return ix.exclusive_or(*options) if kind == "xor" else ix.extremum(kind, *options)
        case Element(array, _):
            raise TemplateError(f"the index reads the array {array}", required="an index over sizes and digits")
        case _:
            assert_never(written)
