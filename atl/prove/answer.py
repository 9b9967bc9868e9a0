"""What the prover answers: proved, refuted with concrete numbers, or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from atl.core.index import Array, Bound, Index, Leaf, Size, Var, value_of
from atl.core.predicate import Predicate, holds

Layer: TypeAlias = Literal["trivial", "linear", "z3", "structure", "table", "isl"]
"""What proved something: the first three are of the prover; of layouts their form decides too, and tables of values."""


@dataclass(frozen=True, slots=True)
class Model:
    """Values of sizes, index variables and array elements; an element outside of its array is zero."""

    leaves: tuple[tuple[Leaf, int], ...] = ()
    elements: tuple[tuple[str, tuple[int, ...], int], ...] = ()

    def leaf(self, leaf: Leaf) -> int:
        """The value of a size or variable; of one that the query did not mention, 0."""
        return next((value for known, value in self.leaves if known == leaf), 0)

    def element(self, array: Array, indices: tuple[int, ...]) -> int:
        """The element of `array` at `indices`; of one that the query did not read, 0."""
        for name, known, value in self.elements:
            if name == array.name and known == indices:
                return value
        return 0

    def value(self, expression: Index) -> int:
        """What the expression is here. Raises `ZeroDivisionError` where a divisor is not positive."""
        return value_of(expression, self.leaf, self.element)

    def satisfies(self, predicate: Predicate) -> bool:
        """Whether the predicate holds here. Raises `ZeroDivisionError` where a divisor is not positive."""
        return holds(predicate, self.leaf, self.element)

    def joined(self, other: Model) -> Model:
        """Both models as one; they speak of different leaves and arrays."""
        leaves = sorted((*self.leaves, *other.leaves), key=lambda pair: pair[0].order)
        return Model(tuple(leaves), tuple(sorted((*self.elements, *other.elements))))

    def named(self, variables: Iterable[Var]) -> Model:
        """The model with the names that these variables have: equal variables may be called otherwise elsewhere."""
        named = {variable: variable for variable in variables}
        return Model(
            tuple((named.get(leaf, leaf) if isinstance(leaf, Var) else leaf, value) for leaf, value in self.leaves),
            self.elements,
        )

    def of_variables(self, variables: Sequence[Var]) -> Model:
        """The model of what was asked of these variables, from that of the same asked of variables 0, 1, …."""
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


def _distinct(name: str, taken: Mapping[str, int]) -> str:
    """Names of variables are hints only: a second `i` is shown as `i_2`."""
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def model_of(leaves: Iterable[tuple[Leaf, int]], elements: Iterable[tuple[str, tuple[int, ...], int]]) -> Model:
    """The model with these values, in canonical order."""
    return Model(tuple(sorted(leaves, key=lambda pair: pair[0].order)), tuple(sorted(elements)))


@dataclass(frozen=True, slots=True)
class Proved:
    """The goal follows from the facts; `vacuous` when it was seen that the facts contradict each other."""

    layer: Layer
    vacuous: bool = False


@dataclass(frozen=True, slots=True)
class Refuted:
    """In `model` the facts hold and the goal does not: this was checked by evaluating them."""

    model: Model


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither a proof nor a counterexample was found. This never counts as proved."""

    reason: str


Answer: TypeAlias = Proved | Refuted | Unknown


@dataclass(slots=True)
class Statistics:
    """How many queries each layer has answered."""

    memo: int = 0
    trivial: int = 0
    linear: int = 0
    search: int = 0
    z3: int = 0
    z3_refuted: int = 0
    unknown: int = 0

    def snapshot(self) -> Statistics:
        """A copy that no longer changes."""
        return Statistics(self.memo, self.trivial, self.linear, self.search, self.z3, self.z3_refuted, self.unknown)

    def since(self, earlier: Statistics) -> Statistics:
        """The counts added after `earlier` was taken."""
        return Statistics(
            self.memo - earlier.memo,
            self.trivial - earlier.trivial,
            self.linear - earlier.linear,
            self.search - earlier.search,
            self.z3 - earlier.z3,
            self.z3_refuted - earlier.z3_refuted,
            self.unknown - earlier.unknown,
        )
