"""Formulas of a reindexing at a place of a program, and proofs of bounds and injectivity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from itertools import product as combinations
from math import prod
from typing import Final, TypeAlias

from atl.checks.scope import Scope
from atl.checks.wellformed import positive_divisors
from atl.core.index import ZERO, Index, Leaf, Size, Var, bound, index, map_leaves
from atl.core.predicate import Predicate, at_most, atoms_of, conjunction, equal, less, substitute, within
from atl.errors import InvalidArgument, brief
from atl.prove import Facts, Model, Proved, Refuted, Unknown, prove
from atl.surface.reindexing import Packing, Reindexing
from atl.text.printing import show_index, show_predicate
from rewrites.errors import NotInjective

# -- variables --------------------------------------------------------------------------------------------------------


_ELEMENTS: Final = (1 << 57) + (1 << 20)
_OTHERS: Final = _ELEMENTS + (1 << 10)
_PLACES: Final = _ELEMENTS + (2 << 10)
_KEYS: Final = _ELEMENTS + (3 << 10)


def element_variables(names: Sequence[str]) -> list[Var]:
    """Return variables for the indices of an element."""
    return [Var(_ELEMENTS + k, name) for k, name in enumerate(names)]


def other_variables(names: Sequence[str]) -> list[Var]:
    """Return variables for the indices of a second element."""
    return [Var(_OTHERS + k, f"{name}'") for k, name in enumerate(names)]


def place_variables(names: Sequence[str]) -> list[Var]:
    """Return variables for the digits of a place."""
    return [Var(_PLACES + k, name) for k, name in enumerate(names)]


def segment_variables() -> tuple[Index, Index, Index]:
    """Return variables for the keys of two segments and for a position."""
    one, other, position = (index(Var(_KEYS + k, name)) for k, name in enumerate(("key", "later", "position")))
    return one, other, position


# -- well-formedness --------------------------------------------------------------------------------------------------


MAX_ELEMENTS: Final = 2**14
"""Maximum size of a tensor whose elements are searched for a collision at a counterexample's sizes."""
_MakeError: TypeAlias = Callable[[Model], NotInjective]


def check_reindexing(made: Reindexing, facts: Facts, *, copies: bool = False) -> None:
    """Prove that every element has a separate place within the extents: bounds, and `back(to(x)) = x`.

    With `copies`, elements may share a place, and only the bounds are proved.

    Raises `NotInjective` with two colliding elements, a lost element, or the unproved condition.
    """
    for goal in _extent_goals(made):
        _need(facts, goal, "that the places have extents", partial(_without_extents, goal))
    variables = element_variables(made.names[0])
    at = [index(variable) for variable in variables]
    inside = facts.assume(*(within(ZERO, x, extent) for x, extent in zip(at, made.shape, strict=True)))
    if made.inverse is None and not copies:
        _check_pairs(made, inside, variables)
    what = f"that each element {'has a place within the extents' if copies else 'has a separate place'}"
    for goal in (*_place_goals(made, at), *(() if copies or made.inverse is None else _inverse_goals(made, at))):
        _need(inside, goal, what, partial(_not_injective, made, variables, goal, copies=copies))
    if made.packing is not None:
        _check_packing(made, made.packing, facts, at)


def _need(facts: Facts, goal: Predicate, what: str, make_error: _MakeError) -> None:
    match prove(facts, goal):
        case Proved():
            pass
        case Refuted(model):
            raise make_error(model)
        case Unknown():
            raise NotInjective(f"it is not proved {what}", required=show_predicate(goal), suggestions=_stating(goal))


def _check_pairs(made: Reindexing, inside: Facts, variables: Sequence[Var]) -> None:
    """Prove injectivity directly for two arbitrary elements, which is slower and less complete than with an inverse."""
    others = other_variables([variable.name for variable in variables])
    one, two = ([index(variable) for variable in each] for each in (variables, others))
    limits = [within(ZERO, x, extent) for x, extent in zip(two, made.shape, strict=True)]
    same_place = [equal(p, q) for p, q in zip(made.place(one), made.place(two), strict=True)]
    goal = conjunction([equal(x, y) for x, y in zip(one, two, strict=True)])
    what = "that each element has a separate place"
    _need(inside.assume(*limits, *same_place), goal, what, partial(_not_injective, made, variables, goal, copies=False))


def _check_packing(made: Reindexing, packing: Packing, facts: Facts, at: Sequence[Index]) -> None:
    """Prove that segments contain their elements, are within the places, and do not overlap."""
    one, other, position = segment_variables()
    element = facts.assume(*(within(ZERO, x, extent) for x, extent in zip(at, made.shape, strict=True)))
    segments = facts.assume(within(ZERO, one, made.places[0]))
    later = segments.assume(less(one, other), less(other, made.places[0]))
    questions = [
        (element, packing.contains(*made.place(at)), "that each element is within its segment"),
        (
            segments.assume(packing.contains(one, position)),
            within(ZERO, packing.at(one, position), packing.places),
            "that each segment is within the places",
        ),
        (later, packing.disjoint(one, other), "that each segment ends before the next begins"),
    ]
    for known, goal, what in questions:
        _need(known, goal, what, partial(_wrong_segments, goal, what))


def _extent_goals(made: Reindexing) -> Iterator[Predicate]:
    """Yield the conditions on the extents of the places."""
    for extent in made.places:
        yield from (needed.goal for needed in positive_divisors(extent))
    yield from (at_most(ZERO, extent) for extent in made.places)


def _place_goals(made: Reindexing, at: Sequence[Index]) -> Iterator[Predicate]:
    """Yield the conditions on the place of the element at these indices."""
    place = made.place(at)
    for formula in place:
        yield from (needed.goal for needed in positive_divisors(formula))
    yield from (within(ZERO, p, extent) for p, extent in zip(place, made.places, strict=True))


def _inverse_goals(made: Reindexing, at: Sequence[Index]) -> Iterator[Predicate]:
    """Yield the conditions on the inverse."""
    origin = made.origin(made.place(at))
    for formula in origin:
        yield from (needed.goal for needed in positive_divisors(formula))
    yield from (equal(x, came) for x, came in zip(at, origin, strict=True))


def _stating(goal: Predicate) -> tuple[str, ...]:
    """Suggest assumptions that state the minima of sizes: a minimum is known only in programs that use the size."""
    least = {at.name: at.minimum for at in atoms_of(goal) if isinstance(at, Size) and at.minimum}
    stated = [f"{name} >= {value}" for name, value in least.items()]
    return (f"assume conditions on the sizes: reschedule(program, given=[{', '.join(stated) or '…'}])",)


# -- errors -----------------------------------------------------------------------------------------------------------


def _without_extents(goal: Predicate, model: Model) -> NotInjective:
    return NotInjective(
        "the extents of the places are not well-defined",
        required=show_predicate(goal),
        numbers=model.numbers,
        suggestions=_stating(goal),
    )


def _wrong_segments(goal: Predicate, what: str, model: Model) -> NotInjective:
    return NotInjective(
        f"the segments are wrong: it is false {what}", required=show_predicate(goal), numbers=model.numbers
    )


def _not_injective(
    made: Reindexing, variables: Sequence[Var], goal: Predicate, model: Model, *, copies: bool
) -> NotInjective:
    """Return an error with two elements that collide at a counterexample's sizes, or else with the lost element.

    With `copies`, elements may collide.
    """
    extents = [model.value(extent) for extent in made.shape]
    element = tuple(model.leaf(variable) for variable in variables)
    sizes = replace(model, leaves=tuple(each for each in model.leaves if each[0] not in variables)).numbers
    found = None if copies else _collision(made, variables, extents, model)
    if found is not None:
        one, other, place = found
        return NotInjective(
            f"the elements {_shown(one)} and {_shown(other)} would both be stored at {_shown(place)}",
            required=show_predicate(goal),
            numbers=sizes,
        )
    return NotInjective(
        f"the element at {_shown(element)} would be lost: {_what_happens(made, variables, model)}",
        required=show_predicate(goal),
        numbers=sizes,
    )


def _collision(
    made: Reindexing, variables: Sequence[Var], extents: Sequence[int], model: Model
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """Return two elements with the same place, and the place; None if there are none or too many elements."""
    if prod(extents) > MAX_ELEMENTS:
        return None
    formulas = made.place([index(variable) for variable in variables])
    seen: dict[tuple[int, ...], tuple[int, ...]] = {}
    for element in combinations(*map(range, extents)):
        place = _values(formulas, variables, element, model)
        if place is None:
            return None
        if place in seen:
            return seen[place], element, place
        seen[place] = element
    return None


def _what_happens(made: Reindexing, variables: Sequence[Var], model: Model) -> str:
    element = tuple(model.leaf(variable) for variable in variables)
    formulas = made.place([index(variable) for variable in variables])
    place = _values(formulas, variables, element, model)
    if place is None:
        return "a divisor is not positive"
    extents = [model.value(extent) for extent in made.places]
    if not all(0 <= p < extent for p, extent in zip(place, extents, strict=True)):
        return f"its place {_shown(place)} is not within {' x '.join(map(str, extents))}"
    came = _values(made.origin(list(formulas)), variables, element, model)
    return f"its place is {_shown(place)}, which the inverse maps to {'no element' if came is None else _shown(came)}"


def _values(
    formulas: Sequence[Index], variables: Sequence[Var], element: Sequence[int], model: Model
) -> tuple[int, ...] | None:
    """Return the values of formulas at an element; None where they are not well-defined."""
    leaves: dict[Leaf, int] = dict(model.leaves) | dict(zip(variables, element, strict=True))
    placed = Model(tuple(leaves.items()), model.elements)
    try:
        return tuple(placed.value(formula) for formula in formulas)
    except ZeroDivisionError:
        return None


def _shown(at: Sequence[int]) -> str:
    return f"({', '.join(map(str, at))})"


# -- formulas ---------------------------------------------------------------------------------------------------------


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
                f"the layout is for {_extents_text(made.shape)} elements, the tensor has {_extents_text(shape)}",
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


def _extents_text(shape: tuple[Index, ...]) -> str:
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
