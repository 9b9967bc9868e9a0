"""Patterns: sides of a rule's statements, to be matched with terms of any element type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import mul

from atl.core.predicate import Predicate
from atl.core.terms import Expr, Metavariable
from rewrites.rule import USER_FAMILY, Rule
from rewrites.rule_statement import Extent, Ranks, RuleStatement, choices_of_ranks, groups_of


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


@lru_cache(maxsize=4096)
def patterns(rule: Rule, reverse: bool, rank: int) -> tuple[Pattern, ...]:
    """Return the patterns of a side that can match a term of this rank."""
    known = None if rule.family == USER_FAMILY else _rank_of_side(rule, reverse)
    found = (
        _at_ranks(rule, ranks)
        for ranks in choices_of_ranks(rule.metavariables)
        if known is None or known[0] + sum(map(mul, known[1], ranks)) == rank
    )
    return tuple(both[reverse] for both in found if both is not None and both[reverse].term.type.rank == rank)


def all_patterns(rule: Rule, reverse: bool) -> tuple[Pattern, ...]:
    """Return the patterns of a side, one for each choice of the ranks of elements."""
    return _up_to(rule, reverse, None)


def few_patterns(rule: Rule, reverse: bool) -> tuple[Pattern, ...]:
    """Return the patterns for scalar and vector elements; all patterns of a user-defined rule."""
    return _up_to(rule, reverse, None if rule.family == USER_FAMILY else 1)


@lru_cache(maxsize=2048)
def _up_to(rule: Rule, reverse: bool, rank: int | None) -> tuple[Pattern, ...]:
    most = () if rank is None else (rank,)
    stated = (_at_ranks(rule, ranks) for ranks in choices_of_ranks(rule.metavariables, *most))
    return tuple(both[reverse] for both in stated if both is not None)


@lru_cache(maxsize=8192)
def _at_ranks(rule: Rule, ranks: Ranks) -> tuple[Pattern, Pattern] | None:
    """Return the patterns of both sides; None if the rule has no statement at these ranks."""
    stated = rule.statements.get(ranks)
    if stated is None:
        return None
    typed = _typed(stated)
    return tuple(  # type: ignore[return-value]
        Pattern(side, stated.names, stated.extents, stated.premises, typed) for side in (stated.lhs, stated.rhs)
    )


def _typed(stated: RuleStatement) -> dict[str, int]:
    """Return the tensor metavariables of which both sides use only the type, and their ranks."""
    used = stated.lhs.free | stated.rhs.free
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
