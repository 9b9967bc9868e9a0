"""Formulas of a reindexing at a place of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature

from atl.checks.scope import Scope
from atl.core.index import Index, Leaf, Var, bound, index, map_leaves
from atl.core.predicate import Predicate, equal, substitute
from atl.errors import InvalidArgument, brief
from atl.prove import Facts, Proved, prove
from atl.surface.reindexing import Reindexing
from atl.text.printing import show_index
from rewrites.tactics.reindexing.wellformed import check_reindexing


def reindexing_at(layout: object, shape: tuple[Index, ...], facts: Facts, *, copies: bool = False) -> Reindexing:
    """Return the layout of a tensor of this shape, proved injective, or only within its extents if `copies`.

    Raises `InvalidArgument` for an object that is not a layout or for another shape, and the errors of
    `check_reindexing`.
    """
    made = layout if isinstance(layout, Reindexing) else _stored(layout, shape, copies=copies)
    if len(made.shape) != len(shape):
        raise InvalidArgument(
            f"the layout is for tensors with {len(made.shape)} dimensions, this one has {len(shape)}",
            required="a layout with one index for each dimension",
        )
    for own, extent in zip(made.shape, shape, strict=True):
        if not isinstance(prove(facts, equal(own, extent)), Proved):
            raise InvalidArgument(
                f"the layout is for {_by(made.shape)} elements, the tensor has {_by(shape)}",
                required=f"{show_index(own)} = {show_index(extent)}",
                suggestions=("a layout that is a function of the shape: s.store(name, layouts.column_major)",),
            )
    check_reindexing(made, facts, copies=copies)
    return made


def _takes_a_shape(function: Callable[..., object]) -> bool:
    try:
        signature(function).bind(())
    except (TypeError, ValueError):
        return False
    return True


def _by(shape: tuple[Index, ...]) -> str:
    return " x ".join(map(show_index, shape))


def _stored(layout: object, shape: tuple[Index, ...], *, copies: bool) -> Reindexing:
    if callable(layout) and not hasattr(layout, "stored") and _takes_a_shape(layout):
        layout = layout(shape)
    stored = None if isinstance(layout, type) else getattr(layout, "stored", None)
    made = stored(shape, copies=copies) if callable(stored) else None
    if not isinstance(made, Reindexing):
        raise InvalidArgument(
            f"{brief(layout)} is not a layout",
            required="a layout: one of `layouts`, or a Reindexing",
            suggestions=('s.interchange("i") swaps a loop with the one inside it',) if type(layout) is str else (),
        )
    return made


# -- binders ----------------------------------------------------------------------------------------------------------


def over_bound(formulas: Sequence[Index], variables: Sequence[Var]) -> tuple[Index, ...]:
    """Replace variables by the innermost bound indices, the last variable at position 0."""
    places: dict[Leaf, Index] = {each: bound(len(variables) - 1 - k) for k, each in enumerate(variables)}

    def leaf(at: Leaf) -> Index:
        return places[at] if at in places else index(at)

    return tuple(map_leaves(formula, leaf) for formula in formulas)


def substitute_leaf(place: Var, wanted: Index, leaf: Leaf) -> Index:
    """Replace the leaf `place` by an expression."""
    return wanted if leaf == place else index(leaf)


def closed_formula(expression: Index, scope: Scope, inside: Sequence[Var]) -> Index:
    """Return the expression as written at a place of this scope, under binders of these variables."""
    return map_leaves(expression, partial(_leaf, scope, inside))


def closed_predicate(predicate: Predicate, scope: Scope, inside: Sequence[Var]) -> Predicate:
    """Return the predicate as written at a place of this scope, under binders of these variables."""
    return substitute(predicate, partial(_leaf, scope, inside))


def _leaf(scope: Scope, inside: Sequence[Var], leaf: Leaf) -> Index:
    if leaf in inside:
        return bound(len(inside) - 1 - inside.index(leaf))
    outside = [each.atom for each in scope.indices]
    return bound(len(inside) + len(outside) - 1 - outside.index(leaf)) if leaf in outside else index(leaf)
