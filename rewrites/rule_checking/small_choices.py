"""Small integers for the index metavariables, conditions and extents of a statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice, product
from math import floor, prod
from random import Random
from types import MappingProxyType
from typing import Any, Final

from atl.core.index import Array, Leaf, Var
from atl.core.predicate import Predicate, atoms_of, holds
from rewrites.rule import Kind
from rewrites.rule_checking.choices import Choices, chance, choose
from rewrites.rule_checking.literals import large_indices, literals, near
from rewrites.rule_checking.premises import Search
from rewrites.rule_statement import RuleStatement, axis_numbers, unused_indices

WINDOW: Final = range(-1, 4)
"""Values of index metavariables."""
EXTENTS: Final = range(4)
"""Extents of tensors."""
ELEMENT_EXTENTS: Final = (1, 2, 3)
"""Extents of elements in a search."""
LARGE: Final[dict[range, Sequence[int]]] = {WINDOW: range(-2, 9), EXTENTS: range(7)}
REACH: Final = 10**12
"""A generic function of an index has an independent value at each index from -REACH to REACH."""
SOMETIMES: Final = 40
"""Percentage of numbers in a varied choice that come from the literals of a rule, or are large."""
REDRAWN: Final = 5
"""Maximum number of times that a varied choice is drawn again, because it does not satisfy the premises.

It is small, because a choice that still violates them is only skipped.
"""
MOST_EXTENT: Final = 10_000_000
"""Maximum extent of a tensor in a varied choice.

Elements are computed when they are read, so a large extent takes no memory. `MOST_ELEMENTS` limits those of a side.
"""
DRAWS: Final = 20
"""Maximum number of draws for each wanted choice. Few draws may satisfy the premises; then they are searched for."""
ENOUGH: Final = 20
"""Number of choices of a statement that are compared, with larger numbers if the window has fewer."""


def generic_condition(at: int, indices: tuple[Any, ...]) -> Any:
    """Return a generic condition: below a threshold, or at a single index."""
    return weighted_total(indices) == at if at % 2 else weighted_total(indices) < at


def weighted_total(indices: tuple[Any, ...]) -> Any:
    """Return a sum of indices with different weights."""
    total = indices[0]
    for other in indices[1:]:
        total = total + 2 * other
    return total


def searched_spaces(stated: RuleStatement, of_elements: Sequence[int] = ()) -> dict[str, Sequence[int]]:
    """Return the spaces of numbers for a search: wider ones, and extents of elements if a premise is about these.

    Elements have extents in `of_elements`, if there are any.
    """
    found: dict[str, Sequence[int]] = {name: LARGE.get(of, of) for name, of in spaces_of(stated).items()}
    if of_elements or not all(_is_of_choice(stated, premise) for premise in stated.premises):
        for name, (leading, rank) in with_elements(stated).items():
            found |= {f"{name}.{leading + at}": of_elements or ELEMENT_EXTENTS for at in range(rank)}
    return found


def search_of(stated: RuleStatement, of_elements: Sequence[int] = ()) -> Search:
    """Return a search for choices that satisfy the premises of a statement."""
    return Search(stated, searched_spaces(stated, of_elements), true_at)


def true_at(threshold: int, at: tuple[int, ...]) -> bool:
    """Return the truth of a generic condition."""
    return bool(generic_condition(threshold, at)) if at else threshold > 0


def with_elements(stated: RuleStatement) -> dict[str, tuple[int, int]]:
    """Return the rank and that of the elements, for each metavariable whose elements are not scalars."""
    ranks = stated.rank_of_group
    kinds = {name: kind for name, kind in stated.metavariables.items() if kind.sort == "tensor"}
    found = {name: (kind.rank, ranks.get(kind.group, 0)) for name, kind in kinds.items()}
    return {name: pair for name, pair in found.items() if pair[1]}


def spaces(metavariables: Mapping[str, Kind]) -> dict[str, range]:
    """Return the window of choices: values of indices, thresholds of conditions, and extents of tensors."""
    found: dict[str, range] = {}
    for name, kind in metavariables.items():
        if kind.sort == "index":
            found[name] = WINDOW
        elif kind.sort == "condition":
            found[name] = range(-1, 5) if kind.parameters else range(2)
        else:
            found.update({f"{name}.{k}": EXTENTS for k in range(kind.rank)})
    return found


def spaces_of(stated: RuleStatement) -> dict[str, range]:
    """Return the window of choices of a statement: an index that it does not use is zero."""
    fixed = {**dict.fromkeys(unused_indices(stated), 0), **axis_numbers(stated)}
    every = spaces(stated.metavariables).items()
    return {name: range(fixed[name], fixed[name] + 1) if name in fixed else of for name, of in every}


def size(of: dict[str, range]) -> int:
    """Return the number of choices."""
    return prod(map(len, of.values()))


def choices(
    stated: RuleStatement, most: int, extra: Mapping[str, range] = MappingProxyType({})
) -> Iterator[dict[str, int]]:
    """Yield every choice, or up to `most` random ones that satisfy the premises. `extra` adds names with values."""
    of = {**spaces_of(stated), **extra}
    if size(of) <= most:
        for values in product(*of.values()):
            yield dict(zip(of, values, strict=True))
        return
    random = Random(0)
    chosen = _of_choices(stated)
    possible = {name: _possible(stated, chosen, name, space) for name, space in of.items()}
    if not all(possible.values()):
        return
    drawn = (_drawn(possible, random) for _ in range(most * DRAWS))
    found = 0
    for choice in islice(filter(satisfying(stated), drawn), most):
        found += 1
        yield choice
    if found < most and not extra:
        yield from search_of(stated).choices(random, min(most - found, ENOUGH))


def _of_choices(stated: RuleStatement) -> list[Predicate]:
    return [premise for premise in stated.premises if _is_of_choice(stated, premise)]


def satisfying(stated: RuleStatement) -> Callable[[dict[str, int]], bool]:
    """Return a test of choices: whether they satisfy the premises that depend only on chosen numbers."""
    chosen = _of_choices(stated)
    return lambda choice: _all_hold(stated, chosen, choice)


def _drawn(possible: Mapping[str, Sequence[int]], random: Random) -> dict[str, int]:
    """Draw a number for each name. In half of the choices, tensors have equal extents in each dimension if they can."""
    out = {name: random.choice(values) for name, values in possible.items()}
    if random.randrange(2):
        first: dict[str, int] = {}
        for name, own in list(out.items()):
            _, _, dimension = name.partition(".")
            value = first.setdefault(dimension, own)
            if dimension and value in possible[name]:
                out[name] = value
    return out


def _possible(stated: RuleStatement, premises: Sequence[Predicate], name: str, space: range) -> list[int]:
    """Return the values of one number that satisfy the premises about it alone."""
    alone = [premise for premise in premises if {_name_of(stated, atom) for atom in atoms_of(premise)} == {name}]
    return [value for value in space if _all_hold(stated, alone, {name: value})]


def _name_of(stated: RuleStatement, atom: object) -> str:
    """Return the name of a number in a choice; that of a condition is not compared."""
    if not isinstance(atom, Var):
        return ""
    name, dimension = stated.extents.get(atom.uid, ("", 0))
    return f"{name}.{dimension}" if name else stated.names[atom.uid]


def varied(
    stated: RuleStatement, choice: Mapping[str, int], source: Choices, most: int = MOST_EXTENT
) -> dict[str, int]:
    """Return a choice in which some numbers come from the literals of the statement, up to `most` in size of extents.

    Some indices are large, if elements are made of them. Some extents are the smallest with an element at an index.
    """
    premises = [premise for premise in stated.premises if _is_of_choice(stated, premise)]
    out = _varied(stated, choice, source, most)
    for _ in range(REDRAWN):
        if _all_hold(stated, premises, out):
            break
        out = _varied(stated, choice, source, most)
    return out


def _varied(stated: RuleStatement, choice: Mapping[str, int], source: Choices, most: int) -> dict[str, int]:
    known, large = literals(stated), large_indices(stated)
    out = dict(choice)
    found = spaces_of(stated)
    indices = [name for name, of in found.items() if of == WINDOW]
    for name in indices:
        if large and chance(source, SOMETIMES):
            out[name] = choose(source, large)
        elif known and chance(source, SOMETIMES):
            out[name] = floor(near(source, known, tuple(map(Fraction, out.values()))))
    further = [name for name in indices if out[name] not in WINDOW]
    for name in (name for name, of in found.items() if of == EXTENTS and known):
        if further and chance(source, SOMETIMES):
            drawn = out[choose(source, further)] + 1
            out[name] = drawn if 0 <= drawn <= REACH else out[name]
        elif chance(source, SOMETIMES):
            drawn = floor(near(source, known, tuple(map(Fraction, out.values()))))
            out[name] = drawn if 0 <= drawn <= most else out[name]
    return out


def _is_of_choice(stated: RuleStatement, premise: Predicate) -> bool:
    """Return whether a premise depends only on chosen numbers, not on the extents of elements."""
    variables = (atom.uid for atom in atoms_of(premise) if isinstance(atom, Var))
    extents = (stated.extents[uid] for uid in variables if uid in stated.extents)
    return all(dimension < stated.metavariables[name].rank for name, dimension in extents)


def _all_hold(stated: RuleStatement, premises: Sequence[Predicate], choice: Mapping[str, int]) -> bool:
    def leaf(at: Leaf) -> int:
        assert isinstance(at, Var)
        return choice[_name_of(stated, at)]

    def element(array: Array, at: tuple[int, ...]) -> int:
        threshold = choice[array.name]
        return 0 if true_at(threshold, at) else -1

    try:
        return all(holds(premise, leaf, element) for premise in premises)
    except ZeroDivisionError:
        return False
