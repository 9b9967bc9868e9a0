"""Well-formedness of reindexings: proofs of bounds and injectivity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product as combinations
from math import prod
from typing import Final, TypeAlias

from atl.checks.wellformed import positive_divisors
from atl.core.index import ZERO, Index, Leaf, Size, Var, index
from atl.core.predicate import Predicate, at_most, atoms_of, conjunction, equal, less, within
from atl.prove import Facts, Model, Proved, Refuted, Unknown, prove
from atl.surface.reindexing import Packing, Reindexing
from atl.text.printing import show_predicate
from rewrites.errors import NotInjective
from rewrites.tactics.reindexing.variables import element_variables, other_variables, segment_variables

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
    """Suggest assumptions for sizes declared with a minimum, which only holds in programs with the size."""
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
