"""Answers of the prover: proved, refuted by numbers, or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from atl.core.index import Array, Bound, Index, Leaf, Size, Var, value_of
from atl.core.predicate import Predicate, holds

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
