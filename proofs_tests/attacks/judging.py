"""What an accepted theorem is held to: both sides mean the same, in every call that the program takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.dtypes import is_integer
from atl.core.index import AnyAtom, Array, Index, Leaf, Read, Size, atoms, value_of
from atl.core.predicate import Predicate, expressions, holds
from atl.core.program import Program
from atl.errors import ArgumentError, ArrayError, AssumptionError, NotExact, OutOfMemory, TooLarge
from atl.meaning.arguments import Arguments, bind
from atl.meaning.interpret import denote
from atl.meaning.polynomials import Polynomials, symbol
from atl.meaning.scalars import Exact, Scalars
from proofs_tests.programs.choices import Choices, chance, choose

LARGEST_SIZE: Final = 3
LARGEST_ELEMENT: Final = 4
LARGEST_EXTENT: Final = 60
"""What has more elements along a dimension, or in all, than this and four times this is not looked at."""
DRAWS: Final = 14
"""How many calls are drawn for a theorem at most."""
RUNS: Final = 3
"""How many of them are run."""

AnyArray = npt.NDArray[Any]


@dataclass(slots=True)
class Judged:
    """How often both sides were run and equal; why not; and what is wrong, if anything is."""

    runs: int = 0
    discarded: list[str] = field(default_factory=list)
    wrong: str | None = None


def judge(lhs: Program, rhs: Program, choices: Choices) -> Judged:
    """Runs both sides in calls that are drawn. An error of the interpreter is wrong too: what has no meaning equals
    nothing."""
    judged = Judged()
    for sizes in _sizes(lhs, rhs, choices):
        if judged.runs == RUNS:
            break
        call = _call(lhs, sizes, choices)
        if call is None:
            judged.discarded.append("no call")
            continue
        try:
            wrong = _compared(lhs, rhs, sizes, call)
        except (NotExact, OutOfMemory, TooLarge) as error:
            judged.discarded.append(type(error).__name__)
            continue
        except Exception as error:  # noqa: BLE001 (whatever it is, it is wrong)
            wrong = f"{type(error).__name__}: {error}"
        judged.runs += 1
        if wrong is not None:
            shown = {name: held.tolist() for name, held in call.arrays.items()}
            judged.wrong = f"at {sizes}, {shown}: {wrong}"
            break
    return judged


def _sizes(lhs: Program, rhs: Program, choices: Choices) -> list[dict[str, int]]:
    """Sizes that meet what is assumed of sizes alone."""
    names = list(dict.fromkeys((*lhs.sizes, *rhs.sizes)))
    plain = [part for part in lhs.assumptions if not any(isinstance(of, Read) for of in _atoms(part))]
    every = list(product(range(LARGEST_SIZE + 1), repeat=len(names)))
    found: list[dict[str, int]] = []
    while every and len(found) < DRAWS:
        at = choices.integer(0, len(every) - 1)
        every[at], every[-1] = every[-1], every[at]
        sizes = dict(zip(names, every.pop(), strict=True))
        if all(_met(part, sizes) for part in plain):
            found.append(sizes)
    return found


def _atoms(part: Predicate) -> Iterator[AnyAtom]:
    for expression in expressions(part):
        yield from atoms(expression)


def _met(part: Predicate, sizes: Mapping[str, int]) -> bool:
    try:
        return holds(part, _leaf(sizes), lambda of, at: 0)
    except ZeroDivisionError:
        return False


def _call(program: Program, sizes: Mapping[str, int], choices: Choices) -> Arguments | None:
    """A call with these sizes, if the program takes the arrays that are drawn: what it takes, `bind` says."""
    arrays: dict[str, AnyArray] = {}
    realisable = chance(choices, 80)
    try:
        for array in program.inputs:
            arrays[array.name] = _drawn(array, sizes, arrays, choices, realisable=realisable)
        free = {name: sizes[name] for name in program.free_sizes}
        return bind(program, [], {**arrays, **free}, exact=True)
    except (ArgumentError, ArrayError, AssumptionError, NoArray, ZeroDivisionError, KeyError):
        return None


class NoArray(Exception):
    """No array has this shape."""


def _drawn(
    array: Array, sizes: Mapping[str, int], before: Mapping[str, AnyArray], choices: Choices, *, realisable: bool
) -> AnyArray:
    def value(expression: Index) -> int:
        return value_of(expression, _leaf(sizes), lambda of, at: _element(before[of.name], at))

    shape = tuple(value(extent) for extent in array.shape)
    if any(not 0 <= extent <= LARGEST_EXTENT for extent in shape):
        raise NoArray
    if not is_integer(array.dtype):
        made = np.empty(shape, dtype=object)
        for at in np.ndindex(*shape):
            made[at] = Fraction(choices.integer(-9, 9), choose(choices, (1, 1, 2, 3)))
        return made
    low, high = -2, LARGEST_ELEMENT + 1
    if realisable:
        low = low if array.low is None else value(array.low)
        high = max(high, low + 2) if array.high is None else value(array.high)
        low = min(low, high - 2) if array.low is None else low
    if prod(shape) and high <= low:
        raise NoArray
    whole = np.empty(shape, dtype=array.dtype)
    for at in np.ndindex(*shape):
        whole[at] = choices.integer(low, high - 1)
    if array.monotonic and realisable and array.shape:
        for row in np.ndindex(*shape[:-1]):
            whole[row] = _increasing(low, high if array.high is not None else high + shape[-1], shape[-1], choices)
    return whole


def lawful_array(array: Array, sizes: Mapping[str, int], before: Mapping[str, AnyArray], choices: Choices) -> AnyArray:
    """An array that holds what is declared of it, at these sizes. Raises `NoArray` where there is none."""
    return _drawn(array, sizes, before, choices, realisable=True)


def _increasing(low: int, high: int, count: int, choices: Choices) -> list[int]:
    left = list(range(low, high))
    if len(left) < count:
        raise NoArray
    while len(left) > count:
        left.pop(choices.integer(0, len(left) - 1))
    return left


def _leaf(sizes: Mapping[str, int]) -> Any:
    def leaf(at: Leaf) -> int:
        return sizes[at.name] if isinstance(at, Size) else 0

    return leaf


def _element(held: AnyArray, at: tuple[int, ...]) -> int:
    return int(held[at]) if all(0 <= i < n for i, n in zip(at, held.shape, strict=True)) else 0


def _compared(lhs: Program, rhs: Program, sizes: Mapping[str, int], call: Arguments) -> str | None:
    """What differs between the sides. Where a root, say, is not rational, elements are symbols."""
    try:
        return _differ(lhs, rhs, sizes, call.arrays, Exact())
    except NotExact:
        return _differ(lhs, rhs, sizes, dict(_symbols(call.arrays)), Polynomials())


def _symbols(arrays: Mapping[str, AnyArray]) -> Iterator[tuple[str, AnyArray]]:
    for name, held in arrays.items():
        if held.dtype != object:
            yield name, held
            continue
        made = np.empty(held.shape, dtype=object)
        for at in product(*map(range, held.shape)):
            made[at] = symbol(f"{name}{list(at)}")
        yield name, made


def _differ(
    lhs: Program, rhs: Program, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray], scalars: Scalars[Any]
) -> str | None:
    left, right = denote(lhs, sizes, arrays, scalars), denote(rhs, sizes, arrays, scalars)
    if left.shape != right.shape:
        return f"the shapes {left.shape} and {right.shape}"
    if any(extent < 0 for extent in left.shape):
        return f"the shape {left.shape}"
    if prod(left.shape) > 4 * LARGEST_EXTENT:
        raise TooLarge("too many elements to look at", required="fewer")
    mine, other = left.to_numpy(object), right.to_numpy(object)
    return None if bool(np.all(mine == other)) else f"{mine.tolist()} and {other.tolist()}"[:400]
