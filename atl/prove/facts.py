"""Facts, the assumptions of the prover, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, TypeAlias, assert_never

from atl.core import index as ix
from atl.core.index import Array, Bound, Index, Leaf, Size, Var, value_of
from atl.core.node import Identity, identity
from atl.core.predicate import NonNegative, Predicate, atoms_of, conjuncts, holds, map_indices
from atl.core.program import bounds_of
from atl.core.traversal import never_negative

# -- facts ------------------------------------------------------------------------------------------------------------


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


# -- answers ----------------------------------------------------------------------------------------------------------


Layer: TypeAlias = Literal["trivial", "linear", "z3", "structure", "table", "isl"]
"""The layer that proved a goal. Layouts are also proved by structure, a table of values, or isl."""


@dataclass(frozen=True, slots=True)
class Model:
    """Values of sizes, index variables and array elements. Elements outside their array are zero."""

    leaves: tuple[tuple[Leaf, int], ...] = ()
    elements: tuple[tuple[str, tuple[int, ...], int], ...] = ()

    def leaf(self, leaf: Leaf) -> int:
        """Return the value of a size or variable; 0 if the query does not mention it."""
        return next((value for known, value in self.leaves if known == leaf), 0)

    def element(self, array: Array, indices: tuple[int, ...]) -> int:
        """Return the element of `array` at `indices`; 0 if the query does not read it."""
        for name, known, value in self.elements:
            if name == array.name and known == indices:
                return value
        return 0

    def value(self, expression: Index) -> int:
        """Evaluate an expression. Raise `ZeroDivisionError` if a divisor is not positive."""
        return value_of(expression, self.leaf, self.element)

    def satisfies(self, predicate: Predicate) -> bool:
        """Evaluate a predicate. Raise `ZeroDivisionError` if a divisor is not positive."""
        return holds(predicate, self.leaf, self.element)

    def joined(self, other: Model) -> Model:
        """Return the union of two models of disjoint leaves and arrays."""
        leaves = sorted((*self.leaves, *other.leaves), key=lambda pair: pair[0].order)
        return Model(tuple(leaves), tuple(sorted((*self.elements, *other.elements))))

    def named(self, variables: Iterable[Var]) -> Model:
        """Return the model with the names of `variables`, as equal variables may have other names."""
        named = {variable: variable for variable in variables}
        return Model(
            tuple((named.get(leaf, leaf) if isinstance(leaf, Var) else leaf, value) for leaf, value in self.leaves),
            self.elements,
        )

    def of_variables(self, variables: Sequence[Var]) -> Model:
        """Replace the variables 0, 1, … by `variables`; the inverse of `facts.renumbered`."""
        return Model(
            tuple((variables[leaf.uid] if isinstance(leaf, Var) else leaf, value) for leaf, value in self.leaves),
            self.elements,
        )

    @property
    def numbers(self) -> dict[str, int]:
        """The values by printable name, for messages: {'n': 3, 'i': 2, 'pos[3]': 7}."""
        out: dict[str, int] = {}
        for leaf, value in self.leaves:
            out[_distinct(_name(leaf), out)] = value
        for name, indices, value in self.elements:
            out[f"{name}[{', '.join(map(str, indices))}]"] = value
        return out

    def __repr__(self) -> str:
        return f"Model({self.numbers})"


def _name(leaf: Leaf) -> str:
    match leaf:
        case Size(name) | Var(_, name):
            return name
        case Bound(position):
            return f"#{position}"


def _distinct(name: str, used: Mapping[str, int]) -> str:
    """Return `name`, or `i_2` for a second `i`: names of variables need not be unique."""
    if name not in used:
        return name
    number = 2
    while f"{name}_{number}" in used:
        number += 1
    return f"{name}_{number}"


def model_of(leaves: Iterable[tuple[Leaf, int]], elements: Iterable[tuple[str, tuple[int, ...], int]]) -> Model:
    """Return the model with these values, in canonical order."""
    return Model(tuple(sorted(leaves, key=lambda pair: pair[0].order)), tuple(sorted(elements)))


@dataclass(frozen=True, slots=True)
class Proved:
    """The goal follows from the facts. `vacuous` means that the facts were found to be contradictory."""

    layer: Layer
    vacuous: bool = False


@dataclass(frozen=True, slots=True)
class Refuted:
    """The facts hold in `model` and the goal does not. Both were checked by evaluation."""

    model: Model


@dataclass(frozen=True, slots=True)
class Unknown:
    """The prover found neither a proof nor a counterexample. This never counts as proved."""

    reason: str


Answer: TypeAlias = Proved | Refuted | Unknown


@dataclass(slots=True)
class Statistics:
    """Number of queries that each layer answered."""

    memo: int = 0
    trivial: int = 0
    linear: int = 0
    search: int = 0
    z3: int = 0
    z3_refuted: int = 0
    unknown: int = 0

    def snapshot(self) -> Statistics:
        """Return a copy."""
        return Statistics(self.memo, self.trivial, self.linear, self.search, self.z3, self.z3_refuted, self.unknown)

    def since(self, earlier: Statistics) -> Statistics:
        """Return the counts since `earlier`."""
        return Statistics(
            self.memo - earlier.memo,
            self.trivial - earlier.trivial,
            self.linear - earlier.linear,
            self.search - earlier.search,
            self.z3 - earlier.z3,
            self.z3_refuted - earlier.z3_refuted,
            self.unknown - earlier.unknown,
        )
