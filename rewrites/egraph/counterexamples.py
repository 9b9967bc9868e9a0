"""Random search for inputs on which two programs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from random import Random
from typing import Any, Final

import numpy as np

from atl.core import dtypes
from atl.core.index import Array, Bound, Index, Leaf, Read, Size, Var, atoms, index, value_of
from atl.core.predicate import FALSE, Predicate, at_most, expressions, non_negative
from atl.core.program import Program, in_order_of_need, is_bool_array, is_strict
from atl.core.terms import Expr, Gen, Reduce
from atl.core.traversal import children, conditions_in, indices_in, subterms
from atl.errors import ATLError
from atl.meaning.interpret import evaluate
from atl.meaning.random_elements import draw_integers
from atl.prove import Facts, Refuted, prove
from atl.prove.facts import model_of

TRIES: Final = 40
LARGEST: Final = 7
MAX_ELEMENTS: Final = 4_000
MAX_WORK: Final = 50_000
"""Maximum amount of work per try, since an error message should not take long."""
MAX_SHOWN: Final = 8
"""Maximum size of an array whose elements are reported."""


def find_counterexample(left: Program, right: Program, *, tries: int = TRIES) -> dict[str, int] | None:
    """Return sizes, elements of short inputs, and a position at which two programs with the same inputs differ.

    Returns None if none was found. It draws sizes and elements 40 times and evaluates both programs exactly. Inputs
    that are invalid for one of the programs, or too large, are skipped.
    """
    left, right = left.whole, right.whole
    random = Random(0)
    sizes = sorted({*left.sizes, *right.sizes})
    boundary = sorted(_boundary_sizes(left) | _boundary_sizes(right))
    known = [*left.assumptions, *(non_negative(extent) for array in left.inputs for extent in array.shape)]
    for number in range(tries):
        at = {size: random.randint(0, 1 + LARGEST * number // tries) for size in sizes}
        if boundary and number % 2:
            at |= {size: random.choice(boundary) for size in sizes if random.random() < 0.5}
        found_sizes = _satisfying_sizes(known, at, random)
        if found_sizes is None:
            continue
        at = found_sizes
        try:
            if max(_work(program.body, at) for program in (left, right)) > MAX_WORK:
                continue
            given = _elements(left, at, random)
            results = [
                evaluate(program, exact=True, **given, **{size: at[size] for size in program.free_sizes})
                for program in (left, right)
            ]
        except (ATLError, MemoryError, ZeroDivisionError):  # the last from invalid sizes
            continue
        first, second = results
        if first.shape != second.shape:
            return at
        wrong = np.argwhere(first != second)
        if len(wrong):
            where = {f"element {dimension}": int(position) for dimension, position in enumerate(wrong[0])}
            return {**at, **_short(given), **where}
    return None


def _satisfying_sizes(known: Sequence[Predicate], at: dict[str, int], random: Random) -> dict[str, int] | None:
    """Return the sizes `at` if they satisfy the known conditions, else others that do; None if none are found.

    One of the others, drawn at random, is at least as large as in `at`. Array elements are 0 in this check.
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
    """Return a rough count of the elements computed for a term at these sizes."""
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
    raise MemoryError(f"{of.name}{at} has not been drawn yet")


def _boundary_sizes(program: Program) -> set[int]:
    """Return sizes just above constants of the program, where comparisons may change their result."""
    within = (e for term in subterms(program.body) for e in indices_in(term))
    conditions = (p for term in subterms(program.body) for p in conditions_in(term))
    tested = (e for p in (*program.assumptions, *conditions) for e in expressions(p))
    constants = {abs(e.offset) for e in (*within, *tested)}
    return {constant + more for constant in constants if LARGEST <= constant < MAX_ELEMENTS for more in (1, 2)}


def _short(given: Mapping[str, Any]) -> dict[str, int]:
    """Return the elements of small arrays."""
    return {
        f"{name}[{', '.join(map(str, position))}]": int(array[position])
        for name, array in given.items()
        if array.size <= MAX_SHOWN
        for position in np.ndindex(array.shape)
    }


def _elements(program: Program, sizes: Mapping[str, int], random: Random) -> dict[str, Any]:
    """Return elements of all inputs. Raises `MemoryError` if there are none, or too many, or bounds are elements."""

    def value(expression: Index) -> int:
        return value_of(expression, lambda leaf: _size(leaf, sizes), _no_element)

    def ends(array: Array) -> tuple[int, int]:
        low = -4 if array.low is None else value(array.low)
        more = value(array.shape[-1]) if array.shape and is_strict(array) else 0
        high = 5 + more if array.high is None else value(array.high)
        return low, low + 1 if array.dtype == dtypes.BOOL and not is_bool_array(array) else max(high, low + 1)

    made: dict[str, Any] = {}
    generator = np.random.default_rng(random.randrange(2**32))
    for array in in_order_of_need(program.inputs):
        shape = tuple(map(value, array.shape))
        if prod(shape) > MAX_ELEMENTS:
            raise MemoryError
        drawn = draw_integers(array, program.inputs, shape, ends, made, generator)
        if drawn is None:
            raise MemoryError
        integral = dtypes.is_integer(array.dtype) or is_bool_array(array)
        made[array.name] = drawn.astype(array.dtype if integral else "float64")
    return made
