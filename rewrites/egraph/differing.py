"""An input for which two programs give different results, looked for at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from random import Random
from typing import Any, Final

import numpy as np

from atl.core import dtypes
from atl.core.declared import is_bool_array
from atl.core.index import Array, Bound, Leaf, Read, Size, Var, atoms, index, value_of
from atl.core.predicate import FALSE, Predicate, at_most, expressions, non_negative
from atl.core.program import Program
from atl.core.terms import Expr, Gen, Reduce
from atl.core.traversal import children, conditions_in, indices_in, subterms
from atl.errors import ATLError
from atl.meaning.interpret import evaluate
from atl.prove import Facts, Refuted, prove
from atl.prove.answer import model_of

TRIES: Final = 40
LARGEST: Final = 7
MOST_ELEMENTS: Final = 4_000
MOST_WORK: Final = 50_000
"""Sizes at which more is computed are passed over: a refusal does not wait for it."""
SHOWN: Final = 8
"""An array of so few elements is shown."""


def differing_input(left: Program, right: Program, *, tries: int = TRIES, seed: int = 0) -> dict[str, int] | None:
    """Numbers for which two programs with the same inputs differ: sizes, elements of short inputs, and where they do.

    None where none was found: 40 times sizes and elements are drawn and both are computed exactly. What is no input of
    one of them, or too large, is passed over.
    """
    left, right = left.whole, right.whole
    random = Random(seed)
    sizes = sorted({*left.sizes, *right.sizes})
    telling = sorted(_telling(left) | _telling(right))
    known = [*left.assumptions, *(non_negative(extent) for array in left.inputs for extent in array.shape)]
    for number in range(tries):
        at = {size: random.randint(0, 1 + LARGEST * number // tries) for size in sizes}
        if telling and number % 2:
            at |= {size: random.choice(telling) for size in sizes if random.random() < 0.5}
        met = _meeting(known, at, random)
        if met is None:
            continue
        at = met
        try:
            if max(_work(program.body, at) for program in (left, right)) > MOST_WORK:
                continue
            given: dict[str, Any] = {array.name: _elements(array, at, random) for array in left.inputs}
            results = [
                evaluate(program, exact=True, **given, **{size: at[size] for size in program.free_sizes})
                for program in (left, right)
            ]
        except (ATLError, MemoryError, ZeroDivisionError):  # the last of sizes that are none
            continue
        first, second = results
        if first.shape != second.shape:
            return at
        wrong = np.argwhere(first != second)
        if len(wrong):
            where = {f"element {dimension}": int(position) for dimension, position in enumerate(wrong[0])}
            return {**at, **_short(given), **where}
    return None


def _meeting(known: Sequence[Predicate], at: dict[str, int], random: Random) -> dict[str, int] | None:
    """Return the sizes `at` if they meet the known conditions, else others that do; None where none are found.

    One of the others, drawn at random, is at least as large as in `at`. While `at` is tried, array elements are 0.
    """
    drawn = model_of([(Size(name), value) for name, value in at.items()], ())
    try:
        if not at or all(map(drawn.satisfies, known)):
            return at
    except ZeroDivisionError:
        pass
    least, value = random.choice(drawn.leaves)
    answer = prove(Facts().assume(*known, at_most(index(value), index(least))), FALSE, thorough=False)
    if not isinstance(answer, Refuted):
        return None
    return at | {leaf.name: value for leaf, value in answer.model.leaves if isinstance(leaf, Size)}


def _work(term: Expr, sizes: Mapping[str, int]) -> int:
    """About how many elements are computed for a term at these sizes."""
    inside = 1 + sum(_work(child.expr, sizes) for child in children(term))
    if not isinstance(term, Gen | Reduce):
        return inside
    extent = term.high - term.low
    closed = not any(isinstance(atom, Bound | Var | Read) for atom in atoms(extent))
    count = value_of(extent, lambda leaf: _size(leaf, sizes), _no_element) if closed else max(sizes.values(), default=1)
    return inside * max(count, 1)


def _size(leaf: Leaf, sizes: Mapping[str, int]) -> int:
    assert isinstance(leaf, Size)
    return sizes[leaf.name]


def _no_element(of: Array, at: tuple[int, ...]) -> int:
    raise MemoryError(f"{of.name}{at} is not known yet")


def _telling(program: Program) -> set[int]:
    """Sizes for which a comparison with a constant of the program may come out otherwise than for small ones."""
    within = (e for term in subterms(program.body) for e in indices_in(term))
    conditions = (p for term in subterms(program.body) for p in conditions_in(term))
    tested = (e for p in (*program.assumptions, *conditions) for e in expressions(p))
    constants = {abs(e.offset) for e in (*within, *tested)}
    return {constant + more for constant in constants if LARGEST <= constant < MOST_ELEMENTS for more in (1, 2)}


def _short(given: Mapping[str, Any]) -> dict[str, int]:
    """The elements of arrays that have few."""
    return {
        f"{name}[{', '.join(map(str, position))}]": int(array[position])
        for name, array in given.items()
        if array.size <= SHOWN
        for position in np.ndindex(array.shape)
    }


def _elements(array: Array, sizes: Mapping[str, int], random: Random) -> Any:
    def value(leaf: Leaf) -> int:
        return _size(leaf, sizes)

    shape = tuple(value_of(extent, value, _no_element) for extent in array.shape)
    count = prod(shape)
    if count > MOST_ELEMENTS:
        raise MemoryError
    low = -4 if array.low is None else value_of(array.low, value, _no_element)
    high = 5 if array.high is None else value_of(array.high, value, _no_element)
    steps = np.arange(shape[-1]) if shape and array.monotonic == "increasing" else np.zeros(1, int)
    high -= max(0, len(steps) - 1)
    if (array.dtype == dtypes.BOOL and not is_bool_array(array)) or high <= low:
        high = low + 1
    flat = [random.randrange(low, high) for _ in range(count)]
    made = np.array(flat).reshape(shape)
    if shape and array.monotonic:
        made = np.sort(made, axis=-1) + steps
    return made.astype(array.dtype if dtypes.is_integer(array.dtype) or is_bool_array(array) else "float64")
