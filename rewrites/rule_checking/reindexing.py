"""Proofs that two nests of folds are equal because they fold the same terms in different order or nesting.

Nested folds by one commutative monoid over non-empty ranges fold their body over all tuples of indices. Two nests are
equal if a bijection between their tuples maps terms to equal terms. If a range is empty, the nest is zero: it has no
terms, or only terms that are zero. No neutral element is needed.

Sums have one. So their ranges may be empty, and only tuples count whose terms are not proved to be zero: a guard is a
range. `tile_sum` maps (o, i) with o * k + i < n to o * k + i, and back to its quotient and remainder by k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from atl.core.index import ONE, ZERO, Index, Leaf, Var, atoms, floordiv, index, map_leaves
from atl.core.predicate import Predicate, at_most, equal, expressions, less, negation, substitute, within
from atl.core.substitution import instantiate, transform
from atl.core.terms import Expr, Metavariable, Reduce
from atl.core.traversal import divisors, subterms
from atl.prove import Facts, proves
from rewrites.rule_checking.symbolic_reading import unused_ids
from rewrites.rule_checking.symbolic_values import Bracket, Poly, Read, Stuck, Undecided, settled, vanishes

Tuple = tuple[Index, ...]
Reading: TypeAlias = Callable[[Expr, Facts, tuple[Var, ...]], Poly]


@dataclass(frozen=True, slots=True)
class _Nest:
    """Nested folds: their variables, their ranges and the innermost body."""

    variables: tuple[Var, ...]
    ranges: tuple[Predicate, ...]
    body: Expr
    value: Poly

    def at(self, values: Tuple) -> tuple[tuple[Predicate, ...], Expr]:
        """Return the ranges and the body with these values for the variables."""
        leaf = _replacing(self.variables, values)
        return tuple(substitute(part, leaf) for part in self.ranges), transform(self.body, lambda at, _: leaf(at))


def _replacing(variables: tuple[Var, ...], values: Tuple) -> Callable[[Leaf], Index]:
    to = dict(zip(variables, values, strict=True))
    return lambda leaf: to.get(leaf, index(leaf)) if isinstance(leaf, Var) else index(leaf)


def reindexed(lhs: Expr, rhs: Expr, facts: Facts, read: Reading) -> bool:
    """Return whether two nests are proved to fold the same terms.

    `read` evaluates a term symbolically; conditions on the given variables become brackets. Raises an error for a range
    that may be empty, except of a sum: `Stuck` if it depends on an enclosing index, `Undecided` otherwise.
    """
    if not isinstance(lhs, Reduce) or not isinstance(rhs, Reduce) or lhs.monoid != rhs.monoid:
        return False
    left, right = _nest(lhs, facts, read), _nest(rhs, facts, read)
    if left is None or right is None:
        return left is right
    return any(
        _inverse(left, right, to_left, to_right, facts) and _same_terms(left, right, to_left, facts, read)
        for to_left, to_right in _maps(left, right)
    )


def _nest(term: Expr, facts: Facts, read: Reading) -> _Nest | None:
    """Return the nest of a fold; None if a range is empty."""
    assert isinstance(term, Reduce)
    monoid, variables, ranges = term.monoid, list[Var](), list[Predicate]()
    while isinstance(term, Reduce) and term.monoid == monoid:
        if monoid != "sum":
            extent = term.high - term.low
            if proves(facts, at_most(extent, ZERO)):
                return None
            if not proves(facts, at_most(ONE, extent)):
                if any(atom in variables for atom in atoms(extent)):
                    raise Stuck("a range may be empty for some of the enclosing indices")
                raise Undecided(at_most(ONE, extent))
        variable = Var(next(unused_ids), "k")
        ranges.append(within(term.low, index(variable), term.high))
        facts = facts.assume(ranges[-1])
        variables.append(variable)
        term = instantiate(term.body, index(variable))
    value = read(term, facts, tuple(variables))
    if monoid == "sum":
        ranges += _support(value, facts)
    return _Nest(tuple(variables), tuple(ranges), term, value)


def _support(value: Poly, facts: Facts) -> Iterator[Predicate]:
    """Yield the conditions without which a value is zero."""
    for literal in {
        part.literal: None for monomial, _ in value.terms for part, _ in monomial if isinstance(part, Bracket)
    }:
        for condition in (literal, negation(literal)):
            if settled(value, facts.assume(negation(condition))).zero:
                yield condition


def _inverse(left: _Nest, right: _Nest, to_left: Tuple, to_right: Tuple, facts: Facts) -> bool:
    """Return whether two maps between the tuples of the nests are inverse to each other.

    `to_left` gives the indices of the left nest in terms of those of the right nest; `to_right` is the opposite map.
    """
    for source, target, forward, backward in ((right, left, to_left, to_right), (left, right, to_right, to_left)):
        inside = facts.assume(*source.ranges)
        ranges = target.at(forward)[0]
        returned = [map_leaves(value, _replacing(target.variables, forward)) for value in backward]
        compared = [*forward, *returned, *(part for each in (*source.ranges, *ranges) for part in expressions(each))]
        if not all(
            _is_positive(divisor, source.variables, facts, inside) for value in compared for divisor in divisors(value)
        ):
            return False
        if not all(proves(inside, part) for part in ranges):
            return False
        pairs = zip(returned, source.variables, strict=True)
        if not all(proves(inside, equal(value, index(variable))) for value, variable in pairs):
            return False
    return True


def _is_positive(divisor: Index, variables: tuple[Var, ...], facts: Facts, inside: Facts) -> bool:
    """Return whether a divisor is positive within the ranges. Raises `Undecided` if the facts outside leave it open.

    The prover takes divisors to be positive, which well-formedness does not imply where a range is empty.
    """
    positive = less(ZERO, divisor)
    if proves(inside, positive):
        return True
    if any(variable in atoms(divisor) for variable in variables) or proves(facts, negation(positive)):
        return False
    raise Undecided(positive)


def _same_terms(left: _Nest, right: _Nest, to_left: Tuple, facts: Facts, read: Reading) -> bool:
    inside = facts.assume(*right.ranges)
    term, other = (read(body, inside, right.variables) for body in (left.at(to_left)[1], right.body))
    return vanishes(term - other, inside)


# -- candidate maps ---------------------------------------------------------------------------------------------------


def _maps(left: _Nest, right: _Nest) -> Iterator[tuple[Tuple, Tuple]]:
    """Yield candidates for the maps, by matching positions in generic tensors, and arguments of generic functions."""
    for name, at in _generic(left):
        for other, elsewhere in _generic(right):
            if name != other:
                continue
            if at == tuple(map(index, left.variables)):
                yield from ((elsewhere, to_right) for to_right in _undone(left.variables, right.variables, elsewhere))
            if elsewhere == tuple(map(index, right.variables)):
                yield from ((to_left, at) for to_left in _undone(right.variables, left.variables, at))


def _generic(nest: _Nest) -> dict[tuple[str, Tuple], None]:
    functions = ((of.name, of.indices) for of in subterms(nest.body) if isinstance(of, Metavariable))
    reads = ((of.name, of.at) for monomial, _ in nest.value.terms for of, _ in monomial if isinstance(of, Read))
    return dict.fromkeys((*functions, *reads))


def _undone(names: tuple[Var, ...], variables: tuple[Var, ...], values: Tuple) -> Iterator[Tuple]:
    """Yield solutions of `values = names` for `variables`: by quotient and remainder, or by solving."""
    if len(names) != len(values):
        return  # the position of an element has further indices, those of its axes
    given = tuple(map(index, names))
    if len(values) > 1 and len(variables) > 1 and values[-1] == index(variables[-1]):
        yield from ((*found, given[-1]) for found in _undone(names[:-1], variables[:-1], values[:-1]))
    if len(values) == 1 and len(variables) == 2:
        outer, inner = map(index, variables)
        factor = _factor(values[0], variables[0])
        if factor != ZERO:
            rest = given[0] - (values[0] - outer * factor - inner)
            row = floordiv(rest, factor, positive=True)
            yield row, rest - row * factor
    elif len(values) == 2 and len(variables) == 1:
        for divisor in divisors(values[0]):
            yield (given[0] * divisor + given[1],)
    elif len(values) == len(variables):
        for order in ((0,), (0, 1), (1, 0)):
            if len(order) == len(values):
                solved = [_solved(given[at], values[at], variables[to]) for to, at in enumerate(order)]
                if None not in solved:
                    yield tuple(value for value in solved if value is not None)


def _solved(name: Index, value: Index, variable: Var) -> Index | None:
    """Solve name = variable + rest, or name = rest - variable, for the variable."""
    for sign in (1, -1):
        rest = value - index(variable) * sign
        if variable not in atoms(rest):
            return (name - rest) * sign
    return None


def _factor(value: Index, variable: Var) -> Index:
    """Return by how much a value grows if the variable is 1 instead of 0."""
    without = map_leaves(value, lambda at: ZERO if at == variable else index(at))
    once = map_leaves(value, lambda at: ONE if at == variable else index(at))
    return once - without
