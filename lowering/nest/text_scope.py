"""A place in a text made from a loop nest: the names in sight there, and the conditions that it stands under."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from atl.core.index import Index, Size, Var
from atl.core.predicate import Predicate
from atl.text.index_notation import write_condition, write_index
from atl.text.names import ASCII
from atl.text.printing import condition_text, index_text
from lowering.c.names import Names
from lowering.nest.loopnest import Conditions, LoopNest, key, under
from lowering.nest.tiles import Tiles
from lowering.origins.anchors import anchored_lines, ids_of


@dataclass(frozen=True, slots=True)
class TextScope:
    """Where a printer stands in a nest.

    Sizes and loop variables stand for themselves among the names, storage by its `key`. `nonnegative_numerators` and `strict` are
    those of the nest. `tiles` are the buffers in registers. `indices` is the type of indices, where functions of them
    are told it: in C all are of 64 bits. `anchored` are the loops whose lines are to be found again in the text.
    """

    names: Names
    conditions: Conditions
    nonnegative_numerators: frozenset[tuple[Conditions, Index]]
    tiles: Tiles = field(default_factory=dict)
    strict: frozenset[Var] = frozenset()
    indices: str = ""
    anchored: frozenset[int] = frozenset()

    def name(self, of: Hashable) -> str:
        return self.names.of[of]

    def bind(self, key: Hashable, hint: str) -> tuple[str, TextScope]:
        """A name for a new thing, and the place where it is in sight."""
        name, names = self.names.bind(key, hint)
        return name, replace(self, names=names)

    def with_tile(self, uid: int, lengths: tuple[int, ...]) -> TextScope:
        """The place where a tile in registers is in sight, whose rows are vectors of these lengths."""
        return replace(self, tiles={**self.tiles, uid: lengths})

    def under(self, predicate: Predicate) -> TextScope:
        """The place in a loop or branch here."""
        return replace(self, conditions=under(self.conditions, predicate))

    def of_loop(self, variable: Var, lines: list[str]) -> list[str]:
        """The lines that a loop is printed as."""
        return anchored_lines(self.anchored, variable, lines)

    def function(self, name: str) -> str:
        """How a function of indices is called."""
        return f"{name}<{self.indices}>" if self.indices else name

    def is_nonnegative(self, numerator: Index) -> bool:
        """Whether the nest says that this numerator of a quotient is not negative here."""
        return (self.conditions, numerator) in self.nonnegative_numerators


def names_wanted(nest: LoopNest) -> list[tuple[Hashable, str]]:
    """What the parameters of a nest stand for among the names, and what each would be called."""
    return [
        *((array.name, array.name) for array in nest.inputs),
        *((Size(size), size) for size in nest.sizes),
        (key(nest.output), nest.output.name),
    ]


def outermost(nest: LoopNest) -> TextScope:
    """Where the body of a loop nest stands: its parameters are in sight."""
    names = Names().bind_all(names_wanted(nest))
    return TextScope(names, frozenset(), nest.nonnegative_numerators, strict=nest.strict, anchored=ids_of(nest.origins))


# -- the notation of programs, with the names of a place --------------------------------------------------------------


def show_index(scope: TextScope, expression: Index) -> str:
    return index_text(write_index(expression, scope.name), ASCII)


def show_condition(scope: TextScope, predicate: Predicate) -> str:
    return condition_text(write_condition(predicate, scope.name), ASCII)


def shown(scope: TextScope, storage: Hashable, indices: Sequence[Index]) -> str:
    """A tensor with its extents, or an element with its indices; of rank 0, the name alone."""
    name = scope.name(storage)
    return f"{name}[{', '.join(show_index(scope, index) for index in indices)}]" if indices else name
