"""Symbolic values of terms: polynomials over reads, Iverson brackets [p], folds and uninterpreted operations.

Two values are equal if their difference is zero once atoms that are equal by the facts are identified. This compares
the two sides of a rule for all sizes at once (`rewrites.rule_checking.symbolic`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from atl.core.index import Index, Leaf, Var, atoms, index, map_leaves
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero, equal, expressions, negation, substitute
from atl.meaning.polynomials import compared, factors_of_exponential
from atl.prove import Facts, Proved, prove, simplify


class Undecided(Exception):
    """Request to split the proof by cases on a condition."""

    def __init__(self, literal: Predicate) -> None:
        self.literal = literal


class Stuck(Exception):
    """The proof fails, for the reason in the message."""


@dataclass(frozen=True, slots=True)
class Read:
    """An element of a generic tensor, or a generic function at these indices."""

    name: str
    at: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A generic function of indices and of whole tensors: each tensor by its extents and its element at `bound`."""

    name: str
    at: tuple[Index, ...]
    tensors: tuple[tuple[tuple[Index, ...], Poly], ...]
    bound: tuple[tuple[Var, ...], ...]


@dataclass(frozen=True, slots=True)
class Bracket:
    """The Iverson bracket of a literal: 1 if it holds, 0 otherwise."""

    literal: Predicate


@dataclass(frozen=True, slots=True)
class Operation:
    """An uninterpreted operation: equal operands give equal results."""

    op: str
    operands: frozenset[Poly]


@dataclass(frozen=True, slots=True)
class Fold:
    """The body folded over 0 <= variable < extent."""

    monoid: str
    extent: Index
    variable: Var
    body: Poly


@dataclass(frozen=True, slots=True)
class Number:
    """An atom of an index expression, as a scalar."""

    of: Index


Atom: TypeAlias = Read | Given | Bracket | Operation | Fold | Number
Monomial: TypeAlias = frozenset[tuple[Atom, int]]
"""Atoms with their powers."""
Order: TypeAlias = "tuple[tuple[Poly, Poly], ...]"


@dataclass(frozen=True, slots=True)
class Poly:
    """A polynomial over atoms."""

    terms: frozenset[tuple[Monomial, Fraction]]

    def __add__(self, other: Poly) -> Poly:
        total = dict(self.terms)
        for monomial, value in other.terms:
            total[monomial] = total.get(monomial, Fraction(0)) + value
        return poly(total)

    def __neg__(self) -> Poly:
        return poly({monomial: -value for monomial, value in self.terms})

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        total: dict[Monomial, Fraction] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                product = _times(left, right)
                total[product] = total.get(product, Fraction(0)) + a * b
        return poly(total)

    @property
    def zero(self) -> bool:
        return not self.terms


def poly(terms: Mapping[Monomial, Fraction]) -> Poly:
    """Return a polynomial without zero terms."""
    return Poly(frozenset((monomial, value) for monomial, value in terms.items() if value))


def _times(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for atom, power in right:
        powers[atom] = 1 if is_test(atom) else powers.get(atom, 0) + power
        if isinstance(atom, Operation) and atom.op == EXP:
            _cancel(powers, atom)
    return frozenset(powers.items())


def _cancel(powers: dict[Atom, int], one: Operation) -> None:
    """Remove exp(x) * exp(-x) = 1 from a product."""
    (operand,) = one.operands
    other = Operation(EXP, frozenset((-operand,)))
    common = min(powers[one], powers.get(other, 0))
    for each in (one, other) if common else ():
        powers[each] -= common
        if not powers[each]:
            del powers[each]


ZERO = poly({})


def constant(value: float | Fraction) -> Poly:
    """Return a number as a polynomial."""
    return poly({frozenset(): Fraction(value)})


ONE = constant(1)


def atom(of: Atom) -> Poly:
    """Return an atom as a polynomial."""
    return poly({frozenset(((of, 1),)): Fraction(1)})


EXP: Final = "exp"


def exponential(x: Poly) -> Poly:
    """Return exp(x) by the laws exp(0) = 1 and exp(a + b) = exp(a) * exp(b): a product with factors for each term.

    These laws, which hold over the real numbers, are assumed. exp(3*a - b/2) is exp(a)^3 * exp(-b/2).
    """
    made = ONE
    for monomial, coefficient, power in factors_of_exponential(x.terms):
        factor = Operation(EXP, frozenset((poly({monomial: coefficient}),)))
        made = made * poly({frozenset(((factor, power),)): Fraction(1)})
    return made


INVERSE: Final = "1/"


def inverse(x: Poly) -> Poly:
    """Return 1/x, where 1/0 = 0: that of a product is the product of those of its factors, and 1/(1/x) is x.

    So a / (b / c) is a * c / b. It is not assumed that x * (1/x) = 1, which is false for zero.
    """
    if x.zero:
        return x
    if len(x.terms) > 1:
        return atom(Operation(INVERSE, frozenset((x,))))
    ((monomial, coefficient),) = x.terms
    made = constant(1 / coefficient)
    for part, power in monomial:
        undone = isinstance(part, Operation) and part.op == INVERSE
        one = next(iter(part.operands)) if isinstance(part, Operation) and undone else atom_inverse(part)
        for _ in range(power):
            made = made * one
    return made


def atom_inverse(part: Atom) -> Poly:
    """Return 1/x for an atom. That of a test is the test, which is 0 or 1."""
    return atom(part) if is_test(part) else atom(Operation(INVERSE, frozenset((atom(part),))))


ABSOLUTE: Final = "abs"


def absolute(x: Poly) -> Poly:
    """Return |x|, the same value for x and -x. Its square is that of x, also where integers wrap."""
    known = _small(x)
    if known is not None:
        return constant(abs(known))
    inner = single_atom(x)
    if isinstance(inner, Operation) and inner.op == ABSOLUTE:
        return x
    return atom(Operation(ABSOLUTE, frozenset((x, -x))))


def squared(value: Poly) -> Poly:
    """Replace |x| * |x| by x * x."""
    if not any(power > 1 and _is_absolute(part) for monomial, _ in value.terms for part, power in monomial):
        return value
    total = ZERO
    for monomial, coefficient in value.terms:
        term = constant(coefficient)
        for part, power in monomial:
            if isinstance(part, Operation) and _is_absolute(part):
                one = min(part.operands, key=repr)
                for _ in range(power // 2):
                    term = term * one * one
                power %= 2  # noqa: PLW2901
            for _ in range(power):
                term = term * atom(part)
        total = total + term
    return total


def _is_absolute(part: Atom) -> bool:
    return isinstance(part, Operation) and part.op == ABSOLUTE


def single_atom(value: Poly) -> Atom | None:
    """Return the atom if a value consists of a single atom."""
    if len(value.terms) == 1:
        ((monomial, coefficient),) = value.terms
        if coefficient == 1 and len(monomial) == 1:
            ((part, power),) = monomial
            return part if power == 1 else None
    return None


def _small(x: Poly) -> Fraction | None:
    """Return the value of a constant that no integer type wraps."""
    known = _number(x)
    return known if known is not None and abs(known) < SMALL else None


SMALL: Final = 1 << 31
JOIN: Final = {"max": "max", "min": "max", "or": "or", "and": "or"}
"""The join of the lattice of each operation; the meet distributes over it."""
MEET: Final = {"max": "min", "or": "and"}
MOST_SETS: Final = 40
"""Maximum number of operands in the normal form of an expression of a lattice; a longer one is an unknown function."""
Sets: TypeAlias = frozenset[frozenset[Poly]]


def lattice(op: str, x: Poly, y: Poly, order: Order = ()) -> Poly:
    """Return the normal form of a max, min, bitwise or, or bitwise and: a join of meets, without implied operands.

    They form distributive lattices, also where integers wrap. `order` has pairs of values of which the first is known
    to be at most the second.
    """
    join = JOIN[op]
    left, right = _sets(join, x), _sets(join, y)
    made = left | right if op == join else frozenset(a | b for a in left for b in right)
    if len(made) > MOST_SETS:
        return atom(Operation(op, frozenset((x, y))))
    return _of_sets(join, made, order)


def _sets(join: str, x: Poly) -> Sets:
    part = single_atom(x)
    if isinstance(part, Operation) and part.op == join:
        return frozenset(frozenset(_factors(join, operand)) for operand in part.operands)
    return frozenset((frozenset(_factors(join, x)),))


def _factors(join: str, x: Poly) -> Iterable[Poly]:
    part = single_atom(x)
    return part.operands if isinstance(part, Operation) and part.op == MEET[join] else (x,)


def _of_sets(join: str, sets: Sets, order: Order) -> Poly:
    def at_most(a: Poly, b: Poly) -> bool:
        if a == b or (a, b) in order:
            return True
        x, y = _small(a), _small(b)
        return join == "max" and x is not None and y is not None and x <= y

    def least(values: frozenset[Poly]) -> frozenset[Poly]:
        kept: list[Poly] = []
        for value in sorted(values, key=repr):
            if not any(at_most(other, value) for other in kept):
                kept = [other for other in kept if not at_most(value, other)] + [value]
        return frozenset(kept)

    def below(these: frozenset[Poly], those: frozenset[Poly]) -> bool:
        return all(any(at_most(one, other) for one in these) for other in those)

    largest: list[frozenset[Poly]] = []
    for one in sorted(map(least, sets), key=repr):
        if not any(below(one, other) for other in largest):
            largest = [other for other in largest if not below(other, one)] + [one]
    smallest = [next(iter(one)) if len(one) == 1 else atom(Operation(MEET[join], one)) for one in largest]
    return smallest[0] if len(smallest) == 1 else atom(Operation(join, frozenset(smallest)))


def ordered(value: Poly, order: Order, right: str) -> Poly:
    """Return a value where these pairs are in order: some operands of extrema, absolute values and tests are implied.

    `right` names the right operands of tests of the type in which the pairs are in order.
    """
    total = ZERO
    for monomial, coefficient in value.terms:
        term = constant(coefficient)
        implied = _implied_tests([part for part, _ in monomial], order, right)
        for part, power in monomial:
            one = ONE if part in implied else _in_order(part, order)
            for _ in range(power):
                term = term * one
        total = total + term
    return total


def _in_order(part: Atom, order: Order) -> Poly:
    """Return an atom where these pairs are in order."""
    if isinstance(part, Operation) and part.op in ("max", "min"):
        return _of_sets("max", _sets("max", atom(part)), order)
    if isinstance(part, Operation) and part.op == ABSOLUTE:
        for operand in part.operands:
            if (ZERO, operand) in order:
                return operand
    return atom(part)


def _implied_tests(parts: Sequence[Atom], order: Order, right: str) -> set[Atom]:
    """Return tests that others imply: a < d by a < c, and c < b by d < b, if c is at most d."""
    tests = {part: _sides(part) for part in parts if isinstance(part, Operation) and part.op == "<"}
    every = {part: (low, _of_right(high)) for part, (low, high) in tests.items() if _name_of_right(high) == right}
    return {
        part
        for part, (low, high) in every.items()
        for a, b in every.values()
        if (a == low and b != high and (b, high) in order) or (b == high and a != low and (low, a) in order)
    }


RIGHT: Final = "right"
"""The operation that distinguishes the right operand of a comparison."""
TESTS: Final = ("<", "=", "true")
"""Operations whose values are 0 and 1: on the operands of a comparison, and on a truth value."""


def is_test(part: Atom) -> bool:
    """Return whether an atom has only the values 0 and 1."""
    return isinstance(part, Bracket) or (isinstance(part, Operation) and part.op in TESTS)


def less(x: Poly, y: Poly, dtype: str | None) -> Poly:
    """Return the test x < y of elements of this type. The test y - x > 0 would differ where integers wrap.

    The same numbers may wrap in one type and not in another, so the type is a part of the test. The test of a maximum
    or a minimum is made of the tests of its operands.
    """
    for part, on_left in ((single_atom(x), True), (single_atom(y), False)):
        if isinstance(part, Operation) and part.op in ("max", "min"):
            tests = [less(one, y, dtype) if on_left else less(x, one, dtype) for one in sorted(part.operands, key=repr)]
            every = ONE
            # max(a, b) < y if both are; x < max(a, b) if x is less than one of them.
            both = (part.op == "max") == on_left
            for test in tests:
                every = every * (test if both else ONE - test)
            return every if both else ONE - every
    known = compared(x, y, _number, operator.lt)
    right = atom(Operation(f"{RIGHT} of {dtype}", frozenset((y,))))
    return atom(Operation("<", frozenset((x, right)))) if known is None else constant(int(known))


def equal_values(x: Poly, y: Poly, dtype: str | None) -> Poly:
    """Return the test x = y of elements of this type."""
    known = compared(x, y, _number, operator.eq)
    return (
        atom(Operation("=", frozenset((x, y, atom(Read(f"type {dtype}", ()))))))
        if known is None
        else constant(int(known))
    )


def truth(x: Poly) -> Poly:
    """Return a truth value as a polynomial in tests."""
    if all(is_test(part) for monomial, _ in x.terms for part, _ in monomial):
        return x
    return atom(Operation("true", frozenset((x,))))


def choice(test: Poly, x: Poly, y: Poly) -> Poly:
    """Return x if the test is 1, y if it is 0. If it compares two values, their order is used in both."""
    for one, holds in ((test, True), (ONE - test, False)):
        part = single_atom(one)
        if isinstance(part, Operation) and part.op == "<":
            low, right = _sides(part)
            high, named = _of_right(right), _name_of_right(right)
            if not (_has_type(low) or _has_type(high)):
                continue  # maxima and minima may be in another type, in which numbers are in another order
            first, second = ((low, high),), ((high, low),)
            x, y = ordered(x, first if holds else second, named), ordered(y, second if holds else first, named)
    return test * x + (ONE - test) * y


def _has_type(value: Poly) -> bool:
    """Return whether an element of a tensor occurs in a value, so that its operations have the type of this element."""
    return any(isinstance(part, (Read, Given)) for monomial, _ in value.terms for part, _ in monomial)


def _sides(test: Operation) -> tuple[Poly, Poly]:
    """Return the operands of a test: the left one, and the right one as it is distinguished."""
    right = next(each for each in test.operands if _name_of_right(each).startswith(f"{RIGHT} of "))
    return next((each for each in test.operands if each is not right), right), right


def _name_of_right(value: Poly) -> str:
    part = single_atom(value)
    return part.op if isinstance(part, Operation) else ""


def _of_right(value: Poly) -> Poly:
    part = single_atom(value)
    assert isinstance(part, Operation)
    return next(iter(part.operands))


def by_cases(function: Callable[..., Poly], *operands: Poly) -> Poly:
    """Apply a function to values without tests of elements: in the case that a test holds, and that it fails."""
    parts = (part for operand in operands for monomial, _ in operand.terms for part, _ in monomial)
    test = min((part for part in parts if isinstance(part, Operation) and is_test(part)), key=repr, default=None)
    if test is None:
        return function(*operands)
    holds, fails = (by_cases(function, *(_with(operand, test, value) for operand in operands)) for value in (1, 0))
    return choice(atom(test), holds, fails)


def _with(value: Poly, test: Atom, outcome: int) -> Poly:
    total = ZERO
    for monomial, coefficient in value.terms:
        if outcome or (test, 1) not in monomial:
            total = total + poly({monomial - {(test, 1)}: coefficient})
    return total


def _number(x: Poly) -> Fraction | None:
    """Return the value of a polynomial without atoms."""
    if x.zero:
        return Fraction(0)
    ((monomial, value), *others) = x.terms
    return None if monomial or others else value


def of_index(expression: Index) -> Poly:
    """Convert an index expression to a scalar."""
    total = ZERO
    for monomial, coefficient in expression.terms:
        term = constant(coefficient)
        for part in monomial:
            term = term * atom(Number(index(part)))
        total = total + term
    return total


def bracket(predicate: Predicate) -> Poly:
    """Return [p] as a polynomial in brackets of literals. Of a literal and its negation only one is used."""
    match predicate:
        case All(parts):
            out = ONE
            for part in parts:
                out = out * bracket(part)
            return out
        case Any(parts):
            none = ONE
            for part in parts:
                none = none * (ONE - bracket(part))
            return ONE - none
        case NonZero():
            return ONE - atom(Bracket(negation(predicate)))
        case NonNegative(expression) if _first(expression) < 0:
            return ONE - atom(Bracket(negation(predicate)))
        case NonNegative() | Zero():
            return atom(Bracket(predicate))


def _first(expression: Index) -> int:
    return expression.terms[0][1]


# -- variables --------------------------------------------------------------------------------------------------------


def mentions(value: Poly, variable: Var) -> bool:
    """Return whether an index variable occurs in a value."""
    return any(_atom_mentions(part, variable) for monomial, _ in value.terms for part, _ in monomial)


def _atom_mentions(part: Atom, variable: Var) -> bool:
    def within(found: Iterable[Index]) -> bool:
        return any(variable in tuple(atoms(expression)) for expression in found)

    match part:
        case Read(_, at):
            return within(at)
        case Given(_, at, tensors, _):
            return within(at) or any(within(extents) or mentions(body, variable) for extents, body in tensors)
        case Bracket(literal):
            return within(expressions(literal))
        case Operation(_, operands):
            return any(mentions(operand, variable) for operand in operands)
        case Fold(_, extent, _, body):
            return within((extent,)) or mentions(body, variable)
        case Number(of):
            return within((of,))


def mapped(value: Poly, leaf: Callable[[Leaf], Index]) -> Poly:
    """Substitute the index variables of a value."""
    total = ZERO
    for monomial, coefficient in value.terms:
        term = constant(coefficient)
        for part, power in monomial:
            for _ in range(power):
                term = term * _mapped_atom(part, leaf)
        total = total + term
    return total


def _mapped_atom(part: Atom, leaf: Callable[[Leaf], Index]) -> Poly:
    def moved(expression: Index) -> Index:
        return map_leaves(expression, leaf)

    match part:
        case Read(name, at):
            return atom(Read(name, tuple(map(moved, at))))
        case Given(name, at, tensors, bound):
            made = tuple((tuple(map(moved, extents)), mapped(body, leaf)) for extents, body in tensors)
            return atom(Given(name, tuple(map(moved, at)), made, bound))
        case Bracket(literal):
            return bracket(substitute(literal, leaf))
        case Operation("exp", operands):
            (operand,) = operands
            return exponential(mapped(operand, leaf))
        case Operation("1/", operands):
            (operand,) = operands
            return inverse(mapped(operand, leaf))
        case Operation(op, operands):
            return atom(Operation(op, frozenset(mapped(operand, leaf) for operand in operands)))
        case Fold(monoid, extent, variable, body):
            return atom(Fold(monoid, moved(extent), variable, mapped(body, leaf)))
        case Number(of):
            return of_index(moved(of))


def settled(value: Poly, facts: Facts) -> Poly:
    """Return a value with the brackets that the facts decide replaced by 0 and 1, and simpler indices."""
    total = ZERO
    for monomial, coefficient in value.terms:
        term = constant(coefficient)
        for part, power in monomial:
            one = atom(part)
            if isinstance(part, Bracket):
                if isinstance(prove(facts, part.literal), Proved):
                    one = ONE
                elif isinstance(prove(facts, negation(part.literal)), Proved):
                    one = ZERO
            elif isinstance(part, Read):
                one = atom(Read(part.name, tuple(simplify(facts, place) for place in part.at)))
            for _ in range(power):
                term = term * one
        total = total + term
    return total


# -- comparing --------------------------------------------------------------------------------------------------------


def vanishes(value: Poly, facts: Facts) -> bool:
    """Return whether a value is zero if atoms that are equal by the facts are identified."""
    if value.zero:
        return True
    representatives: list[Atom] = []
    total = ZERO
    for monomial, coefficient in value.terms:
        term = constant(coefficient)
        for part, power in monomial:
            known = next((r for r in representatives if r == part), None)
            if known is None:
                known = next((r for r in representatives if same(r, part, facts)), None)
            if known is None:
                known = part
                representatives.append(part)
            for _ in range(power):
                term = term * atom(known)
        total = total + term
    return total.zero


def same(a: Atom, b: Atom, facts: Facts) -> bool:
    """Return whether two atoms are equal by the facts."""
    match a, b:
        case Read(), Read():
            return a.name == b.name and len(a.at) == len(b.at) and _equal(a.at, b.at, facts)
        case Given(), Given():
            known = a.name == b.name and len(a.at) == len(b.at) and a.bound == b.bound
            return known and _equal(a.at, b.at, facts) and _same_tensors(a, b, facts)
        case Operation(), Operation():
            return a.op == b.op and _same_operands(a.operands, b.operands, facts)
        case Fold(), Fold():
            inside = facts.assume(NonNegative(index(a.variable)))
            return (
                a.monoid == b.monoid
                and a.variable == b.variable
                and _equal((a.extent,), (b.extent,), facts)
                and vanishes(a.body - b.body, inside.assume(_below(a.variable, a.extent)))
            )
        case Number(), Number():
            return _equal((a.of,), (b.of,), facts)
        case Bracket(), Bracket():
            one, other = facts.assume(a.literal), facts.assume(b.literal)
            return isinstance(prove(one, b.literal), Proved) and isinstance(prove(other, a.literal), Proved)
        case _:
            return False


def _below(variable: Var, extent: Index) -> Predicate:
    return NonNegative(extent - index(variable) - 1)


def _same_operands(a: frozenset[Poly], b: frozenset[Poly], facts: Facts) -> bool:
    def within(these: frozenset[Poly], those: frozenset[Poly]) -> bool:
        return all(any(vanishes(x - y, facts) for y in those) for x in these)

    return within(a, b) and within(b, a)


def _same_tensors(a: Given, b: Given, facts: Facts) -> bool:
    for (extents, body), (others, other), bound in zip(a.tensors, b.tensors, a.bound, strict=True):
        if len(extents) != len(others) or not _equal(extents, others, facts):
            return False
        inside = facts
        for variable, extent in zip(bound, extents, strict=True):
            inside = inside.assume(NonNegative(index(variable)), _below(variable, extent))
        if not vanishes(body - other, inside):
            return False
    return True


def _equal(a: tuple[Index, ...], b: tuple[Index, ...], facts: Facts) -> bool:
    return all(x == y or isinstance(prove(facts, equal(x, y)), Proved) for x, y in zip(a, b, strict=True))
