"""Facts under which two accesses to a buffer, in different iterations, are to the same cell."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, assert_never

from atl.core.index import Bound, Index, Leaf, Size, Var, index, map_leaves
from atl.core.predicate import conjunction, equal
from atl.core.predicate import substitute as substitute_predicate
from atl.core.reshape_definitions import Pairs
from atl.prove import Facts

_OTHER: Final = 1 << 30
"""Offset of the ids of the second iteration's variables."""


def same_cell_facts(one: Pairs, facts: Facts, another: Pairs, known: Facts, loops: Collection[Var]) -> Facts:
    """Return the facts that hold where two accesses, each with its pairs and facts, are to the same cell.

    The second access is in another iteration of `loops`, whose variables are renamed by `other_run`.
    """
    own = {variable.uid for variable in loops}

    def renamed(leaf: Leaf) -> Index:
        return other_run(leaf) if isinstance(leaf, Var) and leaf.uid in own else index(leaf)

    pairs = zip(one, another, strict=True)
    same = conjunction(equal(a, map_leaves(b, renamed)) for (a, _), (b, _) in pairs)
    return facts.assume(*(substitute_predicate(fact, renamed) for fact in known.predicates)).assume(same)


def other_run(variable: Leaf) -> Index:
    """Return the variable of a loop in another iteration. Sizes are the same there."""
    match variable:
        case Var(uid, name):
            return index(Var(uid + _OTHER, f"{name}'"))
        case Size() | Bound():
            return index(variable)
        case _:
            assert_never(variable)
