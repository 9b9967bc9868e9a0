"""Scopes for printing a loop nest: the visible names and the conditions at a place."""

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
    """The scope of a place in the printed text.

    Names are looked up by size, loop variable, or `key` of the storage. `nonnegative_numerators` and `strict` are those
    of the nest. `tiles` are the buffers in registers. `indices` is the type of indices, if helper functions are
    templates over it; in C all indices have 64 bits. `anchored` are the loops whose lines are located in the text.
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
        """Return a fresh name for `key`, and the scope in which it is visible."""
        name, names = self.names.bind(key, hint)
        return name, replace(self, names=names)

    def with_tile(self, uid: int, lengths: tuple[int, ...]) -> TextScope:
        """Return the scope with a tile in registers whose rows consist of vectors of these lengths."""
        return replace(self, tiles={**self.tiles, uid: lengths})

    def under(self, predicate: Predicate) -> TextScope:
        """Return the scope within a loop or branch."""
        return replace(self, conditions=under(self.conditions, predicate))

    def of_loop(self, variable: Var, lines: list[str]) -> list[str]:
        """Return the lines of a loop, with anchors if its lines are to be located."""
        return anchored_lines(self.anchored, variable, lines)

    def function(self, name: str) -> str:
        """Return the text that calls a helper function of indices."""
        return f"{name}<{self.indices}>" if self.indices else name

    def is_nonnegative(self, numerator: Index) -> bool:
        """Return whether the nest lists this numerator of a quotient as non-negative here."""
        return (self.conditions, numerator) in self.nonnegative_numerators


def names_wanted(nest: LoopNest) -> list[tuple[Hashable, str]]:
    """Return the keys of the parameters of a nest, each with its preferred name."""
    return [
        *((array.name, array.name) for array in nest.inputs),
        *((Size(size), size) for size in nest.sizes),
        (key(nest.output), nest.output.name),
    ]


def outermost(nest: LoopNest) -> TextScope:
    """Return the scope of the body of a loop nest, in which its parameters are visible."""
    names = Names().bind_all(names_wanted(nest))
    return TextScope(names, frozenset(), nest.nonnegative_numerators, strict=nest.strict, anchored=ids_of(nest.origins))


# -- the notation of programs, with the names of a scope --------------------------------------------------------------


def show_index(scope: TextScope, expression: Index) -> str:
    """Return the text of an index expression."""
    return index_text(write_index(expression, scope.name), ASCII)


def show_condition(scope: TextScope, predicate: Predicate) -> str:
    """Return the text of a predicate."""
    return condition_text(write_condition(predicate, scope.name), ASCII)


def shown(scope: TextScope, storage: Hashable, indices: Sequence[Index]) -> str:
    """Return the text of a tensor with its extents or of an element with its indices; the name alone for rank 0."""
    name = scope.name(storage)
    return f"{name}[{', '.join(show_index(scope, index) for index in indices)}]" if indices else name
