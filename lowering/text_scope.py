"""A place in a text made from a loop nest: the names in sight there, and the facts that hold."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from atl.core.index import Index, Size, constant
from atl.core.predicate import Predicate, at_most
from atl.prove import Facts, simplify, simplify_predicate
from atl.text.index_notation import write_condition, write_index
from atl.text.names import ASCII
from atl.text.printing import condition_text, index_text
from lowering.c.names import Names
from lowering.loopnest import Buffer, LoopNest, Scalar


@dataclass(frozen=True, slots=True)
class Place:
    """What is known at a place. Sizes and loop variables stand for themselves among the names, storage by its `key`."""

    names: Names = field(default_factory=Names)
    facts: Facts = field(default_factory=Facts)

    def name(self, of: Hashable) -> str:
        return self.names.of[of]

    def bind(self, key: Hashable, hint: str) -> tuple[str, Place]:
        """A name for a new thing, and the place where it is in sight."""
        name, names = self.names.bind(key, hint)
        return name, replace(self, names=names)

    def assume(self, *predicates: Predicate) -> Place:
        return replace(self, facts=self.facts.assume(*predicates))

    def simplify(self, expression: Index) -> Index:
        return simplify(self.facts, expression)

    def simplify_predicate(self, predicate: Predicate) -> Predicate:
        return simplify_predicate(self.facts, predicate)


def outermost(nest: LoopNest) -> Place:
    """Where the body of a loop nest stands: its parameters are in sight, and what is assumed of a call holds."""
    names = Names().bind_all(
        [
            *((array.name, array.name) for array in nest.inputs),
            *((Size(size), size) for size in nest.sizes),
            (key(nest.output), nest.output.name),
        ]
    )
    extents = (at_most(constant(0), extent) for array in nest.inputs for extent in array.shape)
    return Place(names).assume(*nest.assumptions, *extents)


def key(storage: Buffer | Scalar) -> Hashable:
    """What a buffer or scalar variable is known by among the names of a place; an input, by its own name."""
    if isinstance(storage, Scalar):
        return ("scalar", storage.uid)
    return storage.name if storage.role == "input" else ("buffer", storage.uid)


# -- the notation of programs, with the names of a place --------------------------------------------------------------


def show_index(place: Place, expression: Index) -> str:
    return index_text(write_index(expression, place.name), ASCII)


def show_condition(place: Place, predicate: Predicate) -> str:
    return condition_text(write_condition(predicate, place.name), ASCII)


def shown(place: Place, storage: Hashable, indices: Sequence[Index]) -> str:
    """A tensor with its extents, or an element with its indices; of rank 0, the name alone."""
    name = place.name(storage)
    return f"{name}[{', '.join(show_index(place, index) for index in indices)}]" if indices else name
