"""What is known at a place in a program: a growing, immutable list of predicates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from atl.core.declared import bounds_of
from atl.core.index import AnyAtom, Array, Bound, Extremum, Index, Quotient, Read, Size, Var
from atl.core.predicate import TRUE, Predicate, conjuncts, expressions

Topics: TypeAlias = frozenset[Hashable]
"""The sizes and variables that a predicate speaks about, and the names of the arrays that it reads."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts in scope, oldest first. Every size is non-negative without being told.

    Two are equal when they hold the same predicates in the same order.
    """

    predicates: tuple[Predicate, ...] = ()
    topics: tuple[Topics, ...] = field(default=(), repr=False, compare=False)
    known: frozenset[Predicate] = field(default=frozenset(), repr=False, compare=False)
    _hash: int = field(default=0, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Conjunctions are flattened, what is true anyway and repetitions drop."""
        if len(self.topics) != len(self.predicates) or not self.predicates:
            flat: dict[Predicate, None] = {}
            for predicate in self.predicates:
                flat.update(dict.fromkeys(part for part in conjuncts(predicate) if part != TRUE))
            object.__setattr__(self, "predicates", tuple(flat))
            object.__setattr__(self, "topics", tuple(topics_of(part) for part in flat))
        object.__setattr__(self, "known", frozenset(self.predicates))
        object.__setattr__(self, "_hash", hash(self.predicates))

    def __hash__(self) -> int:
        return self._hash

    def assume(self, *predicates: Predicate) -> Facts:
        """These facts and the given ones."""
        new: dict[Predicate, None] = {}
        for predicate in predicates:
            for part in conjuncts(predicate):
                if part != TRUE and part not in self.known:
                    new[part] = None
        if not new:
            return self
        return Facts((*self.predicates, *new), (*self.topics, *(topics_of(part) for part in new)))

    def about(self, topics: Topics) -> tuple[Facts, Facts]:
        """The facts connected to these topics, directly or through other facts, and the rest of them."""
        reached = set(topics)
        left = list(range(len(self.predicates)))
        grown = True
        while grown and left:
            grown = False
            out = []
            for position in left:
                if self.topics[position] and reached.isdisjoint(self.topics[position]):
                    out.append(position)
                else:
                    reached |= self.topics[position]
                    grown = True
            left = out
        if not left:
            return self, EMPTY
        rest = set(left)
        return self._at([position for position in range(len(self.predicates)) if position not in rest]), self._at(left)

    def only(self, wanted: Callable[[Predicate], bool]) -> Facts:
        """The facts that are wanted, in their order."""
        return self._at([position for position, predicate in enumerate(self.predicates) if wanted(predicate)])

    def _at(self, positions: list[int]) -> Facts:
        return Facts(tuple(self.predicates[k] for k in positions), tuple(self.topics[k] for k in positions))


EMPTY = Facts()


def topics_of(predicate: Predicate) -> Topics:
    found: set[Hashable] = set()
    for expression in expressions(predicate):
        _gather(expression, found)
    return frozenset(found)


def _gather(expression: Index, found: set[Hashable]) -> None:
    for monomial, _ in expression.terms:
        for atom in monomial:
            _gather_atom(atom, found)


def _gather_atom(atom: AnyAtom, found: set[Hashable]) -> None:
    match atom:
        case Size() | Bound() | Var():
            found.add(atom)
        case Quotient(numerator, denominator):
            _gather(numerator, found)
            _gather(denominator, found)
        case Extremum(_, choices):
            for choice in choices:
                _gather(choice, found)
        case Read(array, indices):
            found.add(array.name)
            for part in (*indices, *declared(array)):
                _gather(part, found)


def declared(array: Array) -> Iterable[Index]:
    """The expressions in an array's declaration: its shape and the bounds of its elements."""
    return (*array.shape, *(fact.bound for fact in bounds_of(array)))
