"""Facts: an immutable list of the predicates known at a place in a program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias, assert_never

from atl.core import index as ix
from atl.core.declared import bounds_of
from atl.core.node import Identity, identity
from atl.core.predicate import NonNegative, Predicate, atoms_of, conjuncts, map_indices
from atl.core.traversal import never_negative

NOTHING: Final = Identity(())
"""The identity of an empty list of facts."""
Topics: TypeAlias = frozenset[Hashable]
"""The sizes, variables and array names that occur in a predicate."""


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """The facts in scope, oldest first. Sizes are non-negative without an explicit fact.

    Facts are equal if they contain the same predicates in the same order.
    """

    predicates: tuple[Predicate, ...] = ()
    topics: tuple[Topics, ...] = field(default=(), repr=False, compare=False)
    known: frozenset[Identity] = field(default=frozenset(), repr=False, compare=False)
    identity: Identity = field(default=NOTHING, repr=False, compare=False)
    """An identity shared by equal facts, which is extended in constant time for each further predicate."""

    def __post_init__(self) -> None:
        """Flatten conjunctions and drop trivial and repeated predicates."""
        if len(self.topics) != len(self.predicates) or not self.predicates:
            flat: dict[Predicate, None] = {}
            for predicate in self.predicates:
                flat.update(dict.fromkeys(conjuncts(predicate)))
            object.__setattr__(self, "predicates", tuple(flat))
            object.__setattr__(self, "topics", tuple(symbols_of(part) for part in flat))
        object.__setattr__(self, "known", frozenset(predicate.identity for predicate in self.predicates))
        object.__setattr__(self, "identity", _longer(NOTHING, self.predicates))

    def __eq__(self, other: object) -> bool:
        return self.identity is other.identity if isinstance(other, Facts) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.identity)

    def assume(self, *predicates: Predicate) -> Facts:
        """Return these facts extended by `predicates`."""
        new: dict[Predicate, None] = {}
        for predicate in predicates:
            for part in conjuncts(predicate):
                if part.identity not in self.known:
                    new[part] = None
        if not new:
            return self
        longer = object.__new__(Facts)
        set_field = object.__setattr__
        set_field(longer, "predicates", (*self.predicates, *new))
        set_field(longer, "topics", (*self.topics, *map(symbols_of, new)))
        set_field(longer, "known", self.known.union([predicate.identity for predicate in new]))
        set_field(longer, "identity", _longer(self.identity, new))
        return longer

    def about(self, topics: Topics) -> tuple[Facts, Facts]:
        """Split into the facts connected to `topics`, directly or through other facts, and the rest."""
        return _partition(self, topics)

    def only(self, wanted: Callable[[Predicate], bool]) -> Facts:
        """Return the facts that satisfy `wanted`, in order."""
        return self.at([position for position, predicate in enumerate(self.predicates) if wanted(predicate)])

    def at(self, positions: Sequence[int]) -> Facts:
        """Return the facts at these positions."""
        return Facts(tuple(self.predicates[k] for k in positions), tuple(self.topics[k] for k in positions))


def _longer(before: Identity, predicates: Iterable[Predicate]) -> Identity:
    """Return the identity of facts extended by `predicates`."""
    for predicate in predicates:
        before = identity((before, predicate.identity))
    return before


EMPTY = Facts()


def has_only_non_negative_terms(facts: Facts, expression: ix.Index) -> bool:
    """Return True if `expression` is a polynomial of non-negative atoms with positive coefficients.

    An example is 4*i + crd[p], if 0 <= i is a fact and the elements of crd are declared to be non-negative.
    """
    return all(
        value > 0 and all(_is_non_negative(facts, atom) for atom in monomial) for monomial, value in expression.terms
    )


def _is_non_negative(facts: Facts, atom: ix.AnyAtom) -> bool:
    match atom:
        case ix.Size():
            return True
        case ix.Read(array) if array.low is not None and never_negative(array.low):
            return True  # an element outside the array is zero
        case ix.Read() | ix.Bound() | ix.Var() | ix.Quotient() | ix.Extremum() | ix.Xor():
            return NonNegative(ix.index(atom)).identity in facts.known
        case _:
            assert_never(atom)


@lru_cache(maxsize=4096)
def _partition(facts: Facts, topics: Topics) -> tuple[Facts, Facts]:
    reached = set(topics)
    left = list(range(len(facts.predicates)))
    grown = True
    while grown:
        grown = False
        out = []
        for position in left:
            if facts.topics[position] and reached.isdisjoint(facts.topics[position]):
                out.append(position)
            else:
                reached |= facts.topics[position]
                grown = True
        left = out
    if not left:
        return facts, EMPTY
    rest = set(left)
    return facts.at([position for position in range(len(facts.predicates)) if position not in rest]), facts.at(left)


@lru_cache(maxsize=8192)
def symbols_of(predicate: Predicate) -> Topics:
    """Return the sizes, variables and array names of a predicate."""
    found: set[Hashable] = set()
    _collect(atoms_of(predicate), found)
    return frozenset(found)


def _collect(among: Iterable[ix.AnyAtom], found: set[Hashable]) -> None:
    for atom in among:
        match atom:
            case ix.Size() | ix.Bound() | ix.Var():
                found.add(atom)
            case ix.Read(array):
                found.add(array.name)
                for part in declared(array):
                    _collect(ix.atoms(part), found)
            case ix.Quotient() | ix.Extremum() | ix.Xor():
                pass
            case _:
                assert_never(atom)


def declared(array: ix.Array) -> Iterable[ix.Index]:
    """Return the expressions in an array's declaration: its shape and the bounds of its elements."""
    return (*array.shape, *(fact.bound for fact in bounds_of(array)))


def renumbered(facts: Facts, goal: Predicate) -> tuple[Facts, Predicate, Sequence[ix.Var]]:
    """Return the query with its variables numbered 0, 1, …, and the original variables.

    Queries from different loops are then equal and share a memo entry. Variables keep their order,
    because the order of terms and the search depend on it.
    """
    numbered, variables = _numbered(facts, frozenset(one for one in symbols_of(goal) if isinstance(one, ix.Var)))
    return numbered, _with_numbers(goal, symbols_of(goal), variables), variables


@lru_cache(maxsize=4096)
def _numbered(facts: Facts, others: frozenset[ix.Var]) -> tuple[Facts, tuple[ix.Var, ...]]:
    """Assign numbers to the variables of the facts and `others`, and return the facts and the original variables."""
    occurring = {topic for topics in facts.topics for topic in topics if isinstance(topic, ix.Var)}
    variables = tuple(sorted(occurring | others, key=lambda one: one.uid))
    if all(variable.uid == number for number, variable in enumerate(variables)):
        return facts, variables
    numbered = zip(facts.predicates, facts.topics, strict=True)
    return Facts(tuple(_with_numbers(fact, topics, variables) for fact, topics in numbered)), variables


def _with_numbers(predicate: Predicate, topics: Topics, variables: Sequence[ix.Var]) -> Predicate:
    """Replace each variable in a predicate by its position in `variables`."""
    changed = tuple((one, number) for number, one in enumerate(variables) if one.uid != number and one in topics)
    return _renumbered(predicate, changed) if changed else predicate


@lru_cache(maxsize=8192)
def _renumbered(predicate: Predicate, numbers: tuple[tuple[ix.Var, int], ...]) -> Predicate:
    after: dict[ix.Leaf, ix.Index] = {one: ix.index(ix.Var(number, one.name)) for one, number in numbers}

    def leaf(one: ix.Leaf) -> ix.Index:
        return after[one] if one in after else ix.index(one)

    # Keep quotients as they are: dead code may divide by zero.
    return map_indices(predicate, lambda e: ix.map_leaves(e, leaf, lambda a, b: ix.index(ix.Quotient(a, b))))
