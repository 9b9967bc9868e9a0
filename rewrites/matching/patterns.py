"""Patterns: a side of a rule with variables in place of its metavariables.

An index metavariable is a `Var`, a tensor a `TensorVar`, a condition the predicate `variable >= 0`. A function of
indices is an access to a tensor variable, or a read of an array, at those indices; applied to a tensor it is a let of
that tensor in the variable. Extents that a rule asks a tensor for are variables too. Patterns have no element types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import Final

from atl.core.index import Array, Index, Read, Var, constant, index, read
from atl.core.predicate import NonNegative, Predicate
from atl.core.terms import Access, Expr, Let, TensorVar, Type
from atl.errors import ATLError
from atl.surface.values import Condition, IndexExpr, Tensor, as_index, as_tensor
from rewrites.rule import Equation, Kind, Rule

_BASE: Final = 1 << 60
_APPLY: Final = "?apply"
MAX_ELEMENT_RANK: Final = 4


@dataclass(frozen=True, slots=True)
class Pattern:
    """One side of a rule, for elements of certain ranks."""

    term: Expr
    names: dict[int, str]
    """The metavariable that each variable's id belongs to; extents are named "v.0", the first extent of v."""
    takes: dict[str, int]
    """How many indices each function takes."""
    premises: tuple[Predicate, ...] = ()
    typed: dict[str, int] = field(default_factory=dict)
    """The tensors of which neither side asks more than their types, and their ranks."""
    conditions: frozenset[int] = frozenset()
    """The ids of the variables that stand for conditions: `variable >= 0` is one of them, and no fact of an index."""


@dataclass(frozen=True, slots=True)
class Application:
    """A metavariable of tensor sort in a pattern, applied to indices and tensors (none, for a plain one)."""

    name: str
    indices: tuple[Index, ...]
    tensors: tuple[Expr, ...]


def patterns(rule: Rule, reverse: bool, rank: int) -> tuple[Pattern, ...]:
    """The patterns of a side that can stand for a term of this rank."""
    return tuple(pattern for pattern in all_patterns(rule, reverse) if pattern.term.type.rank == rank)


@lru_cache(maxsize=1024)
def all_patterns(rule: Rule, reverse: bool) -> tuple[Pattern, ...]:
    """The patterns of a side, one for each choice of the ranks of elements."""
    groups = groups_of(rule)
    found: list[Pattern] = []
    for ranks in product(range(MAX_ELEMENT_RANK + 1), repeat=len(groups)):
        try:
            found.append(_pattern(rule, reverse, dict(zip(groups, ranks, strict=True))))
        except ATLError:
            continue  # elements of these ranks do not fit this rule
    return tuple(found)


def groups_of(rule: Rule) -> list[str]:
    """The groups of tensor metavariables whose elements have one rank."""
    return sorted({kind.group for kind in _kinds(rule) if kind.sort == "tensor" and kind.group})


def _kinds(rule: Rule) -> list[Kind]:
    kinds = list(rule.metavariables.values())
    return kinds + [parameter for kind in kinds for parameter in kind.parameters]


def _pattern(rule: Rule, reverse: bool, ranks: dict[str, int]) -> Pattern:
    pattern, stated = variables_of(rule, ranks)
    return replace(pattern, term=stated.rhs) if reverse else pattern


def variables_of(rule: Rule, ranks: dict[str, int]) -> tuple[Pattern, Equation]:
    """The equation with variables for its metavariables, and its left side as a pattern, at these ranks."""
    maker = _Maker(ranks)
    arguments = {name: maker.variable(name, kind) for name, kind in rule.metavariables.items()}
    stated = rule.states(**arguments)
    takes = {name: sum(p.sort == "index" for p in kind.parameters) for name, kind in rule.metavariables.items()}
    used = stated.lhs.free | stated.rhs.free
    typed = {
        name: sum(other.startswith(f"{name}.") for other in maker.names.values())
        for uid, name in maker.names.items()
        if name in rule.metavariables and rule.metavariables[name].sort == "tensor" and uid not in used
    }
    return Pattern(stated.lhs, maker.names, takes, stated.premises, typed, frozenset(maker.conditions)), stated


class _Maker:
    def __init__(self, ranks: dict[str, int]) -> None:
        self.ranks = ranks
        self.names: dict[int, str] = {}
        self.conditions: set[int] = set()

    def _uid(self, name: str) -> int:
        uid = _BASE + len(self.names)
        self.names[uid] = name
        return uid

    def variable(self, name: str, kind: Kind) -> object:
        match kind.sort:
            case "index":
                return IndexExpr(index(Var(self._uid(name), name)))
            case "condition":
                return self._condition(name, kind)
            case "tensor":
                return self._tensor(name, kind)

    def _condition(self, name: str, kind: Kind) -> object:
        if not kind.parameters:
            uid = self._uid(name)
            self.conditions.add(uid)
            return Condition(NonNegative(index(Var(uid, name))))
        array = Array(f"?{name}", tuple(constant(0) for _ in kind.parameters), "int64")
        return lambda *at: Condition(NonNegative(read(array, tuple(as_index(position) for position in at))))

    def _tensor(self, name: str, kind: Kind) -> object:
        uid = self._uid(name)
        parameters = [parameter for parameter in kind.parameters if parameter.sort == "index"]
        element = tuple(
            index(Var(self._uid(f"{name}.{dimension}"), f"{name}.{dimension}"))
            for dimension in range(kind.rank + self.ranks.get(kind.group, 0))
        )
        whole = TensorVar(uid, name, Type(None, (*(constant(0) for _ in parameters), *element)))
        return _applying(whole) if kind.parameters else Tensor(whole)


def _applying(variable: TensorVar) -> Callable[..., Tensor]:
    def call(*given: object) -> Tensor:
        out: Expr = variable
        for value in given:
            if not isinstance(value, IndexExpr | int):
                out = Let(as_tensor(value).node, out, _APPLY)
        for value in given:
            if isinstance(value, IndexExpr | int):
                out = Access(out, as_index(value))
        return Tensor(out)

    return call


# -- reading patterns -------------------------------------------------------------------------------------------------


def application(term: Expr, pattern: Pattern) -> Application | None:
    """The metavariable and its arguments, if that is what stands here in a pattern.

    An access to a plain tensor, or to the value of a function, is an access.
    """
    indices: list[Index] = []
    tensors: list[Expr] = []
    while isinstance(term, Access):
        indices.append(term.index)
        term = term.tensor
    while isinstance(term, Let) and term.name == _APPLY:
        tensors.append(term.value)
        term = term.body
    if not isinstance(term, TensorVar) or term.uid not in pattern.names:
        return None
    name = pattern.names[term.uid]
    if len(indices) != pattern.takes[name]:
        return None
    return Application(name, tuple(reversed(indices)), tuple(reversed(tensors)))


def condition_variable(predicate: Predicate, pattern: Pattern) -> tuple[str, tuple[Index, ...]] | None:
    """The metavariable of a condition and the indices it is applied to, if that is what stands here."""
    if not isinstance(predicate, NonNegative):
        return None
    match predicate.expression.atom:
        case Var(uid) if uid in pattern.conditions:
            return pattern.names[uid], ()
        case Read(array, indices) if array.name.startswith("?"):
            return array.name[1:], indices
        case _:
            return None
