"""Patterns: a side of a rule with variables in place of its metavariables.

A tensor is a `Metavariable`, applied to the indices and tensors that it is a function of; an index is a `Var`, and so
are the extents that a rule asks a tensor for. A condition is an element of an array of truth values at the indices that
it is a function of. Patterns have no element types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from operator import mul
from typing import Final, TypeAlias

from atl.core.dtypes import TRUTH
from atl.core.index import Array, Index, Read, Var, constant, index, read
from atl.core.predicate import NonNegative, Predicate
from atl.core.terms import Expr, Metavariable, Type
from atl.errors import ATLError
from atl.surface.values import Condition, IndexExpr, Tensor, as_index, as_tensor
from rewrites.rule import Equation, Kind, Rule

_BASE: Final = 1 << 60
MAX_ELEMENT_RANK: Final = 4


Ranks: TypeAlias = tuple[int, ...]
"""The rank of the elements of each group, in the order of `groups_of`."""
Extent: TypeAlias = tuple[str, int]
"""A tensor metavariable, and a dimension of it."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One side of a rule, for elements of certain ranks."""

    term: Expr
    names: dict[int, str]
    """The metavariable that each variable's id belongs to."""
    extents: dict[int, Extent]
    """What each other variable's id belongs to: an extent that a rule asks a tensor for."""
    premises: tuple[Predicate, ...] = ()
    typed: dict[str, int] = field(default_factory=dict)
    """The tensors of which neither side asks more than their types, and their ranks."""


@lru_cache(maxsize=4096)
def patterns(rule: Rule, reverse: bool, rank: int) -> tuple[Pattern, ...]:
    """The patterns of a side that can stand for a term of this rank."""
    known = _rank_of_side(rule, reverse)
    found = (
        _at_ranks(rule, ranks)
        for ranks in _choices(rule, MAX_ELEMENT_RANK)
        if known is None or known[0] + sum(map(mul, known[1], ranks)) == rank
    )
    return tuple(both[reverse] for both in found if both is not None and both[reverse].term.type.rank == rank)


def all_patterns(rule: Rule, reverse: bool) -> tuple[Pattern, ...]:
    """The patterns of a side, one for each choice of the ranks of elements."""
    return _up_to(rule, reverse, MAX_ELEMENT_RANK)


def few_patterns(rule: Rule, reverse: bool) -> tuple[Pattern, ...]:
    """Those for elements that are scalars or vectors."""
    return _up_to(rule, reverse, 1)


@lru_cache(maxsize=2048)
def _up_to(rule: Rule, reverse: bool, rank: int) -> tuple[Pattern, ...]:
    stated = (_at_ranks(rule, ranks) for ranks in _choices(rule, rank))
    return tuple(both[reverse] for both in stated if both is not None)


def _choices(rule: Rule, rank: int) -> Iterator[Ranks]:
    return product(range(rank + 1), repeat=len(groups_of(rule)))


@lru_cache(maxsize=8192)
def _at_ranks(rule: Rule, ranks: Ranks) -> tuple[Pattern, Pattern] | None:
    """The patterns of the left and of the right side, of the same variables: it is stating the rule that costs.

    There are none where elements of these ranks do not fit the rule.
    """
    try:
        pattern, stated = variables_of(rule, dict(zip(groups_of(rule), ranks, strict=True)))
    except ATLError:
        return None
    return pattern, replace(pattern, term=stated.rhs)


@lru_cache(maxsize=2048)
def _rank_of_side(rule: Rule, reverse: bool) -> tuple[int, Ranks] | None:
    """The rank of a side for scalar elements, and what each group of elements adds to it for each of their dimensions.

    Not known where the rule fits no scalars or no vectors.
    """
    count = len(groups_of(rule))
    stated = [_at_ranks(rule, tuple(int(one == at) for one in range(count))) for at in range(-1, count)]
    ranks = [both[reverse].term.type.rank for both in stated if both is not None]
    if len(ranks) <= count:
        return None
    return ranks[0], tuple(rank - ranks[0] for rank in ranks[1:])


@lru_cache(maxsize=2048)
def outermost(rule: Rule, reverse: bool) -> type[Expr] | None:
    """What a side of a rule is made by, told from the least ranks alone, which is quick; None if it may be any term."""
    for ranks in _choices(rule, MAX_ELEMENT_RANK):
        if (both := _at_ranks(rule, ranks)) is not None:
            term = both[reverse].term
            return None if isinstance(term, Metavariable) else type(term)
    return None


def groups_of(rule: Rule) -> list[str]:
    """The groups of tensor metavariables whose elements have one rank."""
    return sorted({kind.group for kind in _kinds(rule) if kind.sort == "tensor" and kind.group})


def _kinds(rule: Rule) -> list[Kind]:
    kinds = list(rule.metavariables.values())
    return kinds + [parameter for kind in kinds for parameter in kind.parameters]


def variables_of(rule: Rule, ranks: dict[str, int]) -> tuple[Pattern, Equation]:
    """The equation with variables for its metavariables, and its left side as a pattern, at these ranks."""
    maker = _Maker(ranks)
    arguments = {name: maker.variable(name, kind) for name, kind in rule.metavariables.items()}
    stated = rule.stated(**arguments)
    used = stated.lhs.free | stated.rhs.free
    typed = {
        name: sum(of == name for of, _ in maker.extents.values())
        for uid, name in maker.names.items()
        if name in rule.metavariables and rule.metavariables[name].sort == "tensor" and uid not in used
    }
    return Pattern(stated.lhs, maker.names, maker.extents, stated.premises, typed), stated


class _Maker:
    def __init__(self, ranks: dict[str, int]) -> None:
        self.ranks = ranks
        self.names: dict[int, str] = {}
        self.extents: dict[int, Extent] = {}

    def _uid(self, name: str) -> int:
        uid = _BASE + len(self.names) + len(self.extents)
        self.names[uid] = name
        return uid

    def _extent(self, name: str, dimension: int) -> Index:
        uid = _BASE + len(self.names) + len(self.extents)
        self.extents[uid] = (name, dimension)
        return index(Var(uid, f"{name}_{dimension}"))

    def variable(self, name: str, kind: Kind) -> object:
        match kind.sort:
            case "index":
                return IndexExpr(index(Var(self._uid(name), name)))
            case "condition":
                return self._condition(name, kind)
            case "tensor":
                return self._tensor(name, kind)

    def _condition(self, name: str, kind: Kind) -> object:
        array = Array(name, tuple(constant(0) for _ in kind.parameters), TRUTH)

        def call(*at: object) -> Condition:
            return Condition(NonNegative(read(array, tuple(map(as_index, at)))))

        return call if kind.parameters else call()

    def _tensor(self, name: str, kind: Kind) -> object:
        uid = self._uid(name)
        rank = kind.rank + self.ranks.get(kind.group, 0)
        element = tuple(self._extent(name, dimension) for dimension in range(rank))

        def call(*given: object) -> Tensor:
            indices = [as_index(value) for value in given if isinstance(value, IndexExpr | int)]
            tensors = [as_tensor(value).node for value in given if not isinstance(value, IndexExpr | int)]
            return Tensor(Metavariable(uid, name, Type(None, element), tuple(indices), tuple(tensors)))

        return call if kind.parameters else call()


def applied_metavariable(term: Expr, pattern: Pattern) -> str | None:
    """The tensor metavariable that stands here, if one does: its name where it is a tensor, "" where a function."""
    if not isinstance(term, Metavariable):
        return None
    return "" if term.indices or term.tensors else pattern.names[term.uid]


def condition_variable(predicate: Predicate) -> tuple[str, tuple[Index, ...]] | None:
    """The metavariable of a condition and the indices it is applied to, if that is what stands here."""
    if not isinstance(predicate, NonNegative):
        return None
    match predicate.expression.atom:
        case Read(array, indices) if array.dtype == TRUTH:
            return array.name, indices
        case _:
            return None
