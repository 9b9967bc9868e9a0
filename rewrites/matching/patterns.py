"""Patterns: sides of a rule's statements, to be matched with terms of any element type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from operator import mul
from typing import Final, TypeAlias

from atl.core.index import Index, constant
from atl.core.predicate import Predicate
from atl.core.terms import Expr, Metavariable
from atl.core.traversal import children, static
from rewrites.rule import USER_FAMILY, Rule
from rewrites.rule_checking.every_rank import WithPermutations
from rewrites.rule_statement import (
    Extent,
    Ranks,
    RuleStatement,
    axis_numbers,
    choices_of_ranks,
    groups_of,
    is_checked,
    permutations_of,
    permuted_groups,
    unused_indices,
)

Order: TypeAlias = tuple[int, ...]
"""A permutation: the axes in their new order."""
MOST_LATER: Final = 720
"""Maximum number of permutations that are tried at one rank; more need arguments that state some of them."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One side of a rule, for elements of certain ranks."""

    term: Expr
    names: Mapping[int, str]
    """The metavariable of each variable id."""
    extents: Mapping[int, Extent]
    """The tensor metavariable and the dimension of each variable id that denotes an extent."""
    premises: tuple[Predicate, ...]
    typed: Mapping[str, int]
    """The tensor metavariables of which both sides use only the type, and their ranks."""
    unused: frozenset[str]
    """The members of `Indices` that the statement does not use, because its elements have fewer axes."""
    permuted: Mapping[str, Index]
    """The axis number of each member of a `Perm`."""
    tests: tuple[Expr, ...]
    """The premises about every element."""


@lru_cache(maxsize=4096)
def patterns(rule: Rule, reverse: bool, rank: int) -> tuple[Pattern, ...]:
    """Return the patterns of a side that can match a term of this rank."""
    known = None if rule.family == USER_FAMILY else _rank_of_side(rule, reverse)
    found = (
        _at_ranks(rule, ranks)
        for ranks in (rule.statements if rule.family == USER_FAMILY else choices_of_ranks(rule.metavariables))
        if known is None or known[0] + sum(map(mul, known[1], ranks)) == rank
    )
    return tuple(both[reverse] for both in found if both is not None and both[reverse].term.type.rank == rank)


def later_patterns(rule: Rule, reverse: bool, rank: int, orders: Sequence[Order | None]) -> Iterator[Pattern]:
    """Yield the patterns for terms of this rank that have permutations which are stated only when they are needed.

    `orders` has the wanted permutations, and None for any. There are none if too many permutations are possible.
    """
    statements, kinds = rule.statements, rule.metavariables
    if not isinstance(statements, WithPermutations):
        return
    groups, now = groups_of(kinds), set(statements)
    for ranks in dict.fromkeys(each[: len(groups)] for each in now):
        if is_checked(kinds, ranks):
            continue
        first = _at_ranks(rule, next(each for each in statements if each[: len(groups)] == ranks))
        if first is not None and first[reverse].term.type.rank == rank:
            rank_of_group = dict(zip(groups, ranks, strict=True))
            among = [
                [at for at, each in enumerate(permutations_of(rank_of_group[group])) if order in (None, each)]
                for group, order in zip(permuted_groups(kinds).values(), orders, strict=True)
            ]
            if prod(map(len, among)) <= MOST_LATER:
                for numbers in product(*among):
                    stated = None if (*ranks, *numbers) in now else statements.unchecked((*ranks, *numbers))
                    if stated is not None:
                        yield _sides(stated)[reverse]


def all_patterns(rule: Rule, reverse: bool) -> tuple[Pattern, ...]:
    """Return the patterns of a side, one for each choice of the ranks of elements."""
    return _up_to(rule, reverse, None)


def few_patterns(rule: Rule, reverse: bool) -> tuple[Pattern, ...]:
    """Return the patterns for scalar and vector elements; all patterns of a user-defined rule."""
    return _up_to(rule, reverse, None if rule.family == USER_FAMILY else 1)


@lru_cache(maxsize=2048)
def _up_to(rule: Rule, reverse: bool, rank: int | None) -> tuple[Pattern, ...]:
    most = () if rank is None else (rank,)
    every = rule.statements if rule.family == USER_FAMILY else choices_of_ranks(rule.metavariables, *most)
    stated = (_at_ranks(rule, ranks) for ranks in every)
    return tuple(both[reverse] for both in stated if both is not None)


@lru_cache(maxsize=8192)
def _at_ranks(rule: Rule, ranks: Ranks) -> tuple[Pattern, Pattern] | None:
    """Return the patterns of both sides; None if the rule has no statement at these ranks."""
    stated = rule.statements.get(ranks)
    return None if stated is None else _sides(stated)


@lru_cache(maxsize=8192)
def _sides(stated: RuleStatement) -> tuple[Pattern, Pattern]:
    """Return the patterns of both sides of a statement."""
    typed = _typed(stated)
    permuted = {name: constant(axis) for name, axis in axis_numbers(stated).items()}
    return tuple(  # type: ignore[return-value]
        Pattern(
            side, stated.names, stated.extents, stated.premises, typed, unused_indices(stated), permuted, stated.tests
        )
        for side in (stated.lhs, stated.rhs)
    )


def _typed(stated: RuleStatement) -> dict[str, int]:
    """Return the tensor metavariables of which both sides use only the type, and their ranks."""
    used = frozenset[int]().union(*(part.free for part in (stated.lhs, stated.rhs, *stated.tests)))
    kinds = stated.metavariables
    return {
        name: sum(of == name for of, _ in stated.extents.values())
        for uid, name in stated.names.items()
        if kinds[name].sort == "tensor" and uid not in used
    }


@lru_cache(maxsize=2048)
def _rank_of_side(rule: Rule, reverse: bool) -> tuple[int, Ranks] | None:
    """Return the rank of a side for scalar elements, and its increase for each dimension of each group's elements.

    None if the rule has no statement for scalars or for vectors.
    """
    count = len(groups_of(rule.metavariables))
    stated = [_at_ranks(rule, tuple(int(one == at) for one in range(count))) for at in range(-1, count)]
    ranks = [both[reverse].term.type.rank for both in stated if both is not None]
    if len(ranks) <= count:
        return None
    return ranks[0], tuple(rank - ranks[0] for rank in ranks[1:])


@lru_cache(maxsize=2048)
def outermost(rule: Rule, reverse: bool) -> type[Expr] | None:
    """Return the outermost constructor of a side, from its statement of least rank; None for a metavariable."""
    for ranks in choices_of_ranks(rule.metavariables):
        if (both := _at_ranks(rule, ranks)) is not None:
            term = both[reverse].term
            return None if isinstance(term, Metavariable) else type(term)
    return None


def applied_metavariable(term: Expr, pattern: Pattern) -> str | None:
    """Return the name of a tensor metavariable, "" for an applied function, None for any other term."""
    if not isinstance(term, Metavariable):
        return None
    return "" if term.indices or term.tensors else pattern.names[term.uid]


# -- rules that may match ---------------------------------------------------------------------------------------------


Node: TypeAlias = tuple[type, object]
"""The constructor of a node and its static attributes."""


@dataclass(frozen=True, slots=True)
class Head:
    """The outermost node of a side of a rule and the nodes directly below; None matches any node."""

    node: Node
    below: tuple[Node | None, ...]


@lru_cache(maxsize=1024)
def heads(rule: Rule, reverse: bool) -> frozenset[Head] | None:
    """Return the heads of a side of the rule for all ranks of elements; None if it matches any term."""
    found = _heads_of(few_patterns(rule, reverse))
    # If scalars and vectors have the same head, so do all ranks of a rule of the catalogue.
    return found if found is None or len(found) == 1 else _heads_of(all_patterns(rule, reverse))


def _heads_of(patterns: Iterable[Pattern]) -> frozenset[Head] | None:
    found: set[Head] = set()
    for pattern in patterns:
        if isinstance(pattern.term, Metavariable):
            return None
        below = tuple(_head(child.expr) for child in children(pattern.term))
        found.add(Head((type(pattern.term), static(pattern.term)), below))
    return frozenset(found)


def _head(term: Expr) -> Node | None:
    return None if isinstance(term, Metavariable) else (type(term), static(term))


def may_match(rule: Rule, reverse: bool, term: Expr) -> bool:
    """Return whether the outermost two levels of a term allow it to match a side of the rule."""
    known = heads(rule, reverse)
    return known is None or any(_fits(head, term) for head in known)


def _fits(head: Head, term: Expr) -> bool:
    if head.node[0] is not type(term) or head.node[1] != static(term):
        return False
    return all(
        wanted is None or (wanted[0] is type(child.expr) and wanted[1] == static(child.expr))
        for wanted, child in zip(head.below, children(term), strict=True)
    )


@lru_cache(maxsize=256)
def by_outermost(rules: tuple[Rule, ...], reverse: bool) -> tuple[Mapping[type, Sequence[Rule]], Sequence[Rule]]:
    """Return the rules that may apply to each type of node, in order, and those for all other types."""
    everywhere = [rule for rule in rules if heads(rule, reverse) is None]
    types = {head.node[0] for rule in rules for head in heads(rule, reverse) or ()}

    def may_stand_for(rule: Rule, of: type) -> bool:
        known = heads(rule, reverse)
        return known is None or any(head.node[0] is of for head in known)

    return {of: [rule for rule in rules if may_stand_for(rule, of)] for of in types}, everywhere
