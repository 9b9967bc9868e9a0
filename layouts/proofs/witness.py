"""Witnesses: indices in a layout's coordinates, and numbers for symbolic sizes, at which a property fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random
from typing import Final

from atl.core.index import Index, Leaf, Size, atoms, index, leaf_values
from atl.core.predicate import FALSE, expressions, holds
from atl.prove import Model, Refuted, prove
from layouts.axe.layout import Axe
from layouts.errors import CannotTabulate
from layouts.foundation.facts import Known
from layouts.foundation.function import Chain, Function, IndexFunction
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import Coordinate
from layouts.foundation.tuples import leaves
from layouts.foundation.variables import witness_variables

SAMPLES: Final = 120
"""Number of assignments of symbolic sizes that are tried."""
SMALL: Final = 4_096
"""Largest size of a layout that is tabulated for each assignment."""


def named(digits: Sequence[int], name: str) -> list[tuple[Leaf, int]]:
    """Return digits as values of variables: `i0`, `i1`, …, or `i` for a single digit."""
    return list(zip(witness_variables(len(digits), name), map(int, digits), strict=True))


def refuted(function: Function, *indices: tuple[str, int]) -> Refuted:
    """Return the refutation with these flat indices of the function, each with a name."""
    leaves_: list[tuple[Leaf, int]] = []
    for name, at in indices:
        leaves_ += named(function.box.digits(at), name)
    return Refuted(Model(tuple(leaves_)))


def sizes_of(*functions: Function) -> list[str]:
    """Return the names of the sizes that occur in functions or their facts."""
    found: dict[str, None] = {}
    for function in functions:
        for expression in _expressions(function):
            found.update(dict.fromkeys(atom.name for atom in atoms(expression) if isinstance(atom, Size)))
    return sorted(found)


def _expressions(function: Function) -> Iterator[Index]:
    for fact in function.known.facts.predicates:
        yield from expressions(fact)
    match function:
        case Layout():
            for extent, stride in (*function.modes, (1, function.offset)):
                for part in (extent, *(stride if isinstance(stride, Coordinate) else (stride,))):
                    if isinstance(part, Index):
                        yield part
        case Axe():
            yield from function.symbolic()
        case Chain(outer=outer, inner=inner):
            yield from _expressions(outer)
            yield from _expressions(inner)
        case IndexFunction():
            yield from map(index, function.sizes())
            yield from (extent for extent in leaves(function.shape) if isinstance(extent, Index))
        case _:
            pass


def samples(known: Known, *functions: Function) -> Iterator[dict[str, int]]:
    """Return numbers for the sizes of functions and facts that satisfy the facts, small ones first."""
    spoken = (atom for fact in known.facts.predicates for part in expressions(fact) for atom in atoms(part))
    names = sorted({*sizes_of(*functions), *(atom.name for atom in spoken if isinstance(atom, Size))})
    if not names:
        return

    def satisfies(sizes: dict[str, int]) -> bool:
        leaf = leaf_values(sizes)
        try:
            return all(holds(fact, leaf, lambda _array, _at: 0) for fact in known.facts.predicates)
        except ZeroDivisionError:
            return False

    if isinstance(example := prove(known.facts, FALSE, thorough=False), Refuted):
        found = {name: example.model.leaf(Size(name)) for name in names}
        if satisfies(found):
            yield found
    tried = 0
    for sizes in _choices(names):
        if satisfies(sizes):
            yield sizes
            tried += 1
        if tried >= SAMPLES:
            return


def _choices(names: list[str]) -> Iterator[dict[str, int]]:
    few = range(1, 9) if len(names) <= 2 else range(1, 4)
    if len(names) <= 4:
        for values in product(few, repeat=len(names)):
            yield dict(zip(names, values, strict=True))
    random = Random(0)
    for _ in range(20 * SAMPLES):
        yield {name: random.choice((1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)) for name in names}


def first_sampled(look: Callable[..., Refuted | None], known: Known, *functions: Function) -> Refuted | None:
    """Return the first refutation that `look` finds at numbers that satisfy the facts."""
    for sizes in samples(known, *functions):
        try:
            placed = [function.where(**sizes) for function in functions]
            if any(not function.has_table or (function.table_size or 0) > SMALL for function in placed):
                continue
            found = look(*placed)
        except (CannotTabulate, ValueError, ZeroDivisionError):  # such as a formula that divides by one of the sizes
            continue
        if found is not None:
            leaves_ = [(Size(name), value) for name, value in sizes.items()]
            return Refuted(Model((*leaves_, *found.model.leaves)))
    return None
