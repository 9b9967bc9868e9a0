"""Evaluation of theorems: both sides must be equal in every call that the program accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.dtypes import is_integer, range_of
from atl.core.index import AnyAtom, Array, Index, Read, atoms, leaf_values, value_of
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
"""Limit on each extent. The limit on the number of elements is four times as large."""
DRAWS: Final = 14
"""Maximum number of random calls for a theorem."""
RUNS: Final = 3
"""Maximum number of calls that are evaluated."""

AnyArray = npt.NDArray[Any]


@dataclass(slots=True)
class Verdict:
    """Number of evaluated calls, reasons for skipped ones, and the fault, if any."""

    runs: int = 0
    discarded: list[str] = field(default_factory=list)
    wrong: str | None = None


def compare_sides(lhs: Program, rhs: Program, choices: Choices) -> Verdict:
    """Evaluate both sides in random calls. An error of the interpreter is a fault too."""
    verdict = Verdict()
    for sizes in _sizes(lhs, rhs, choices):
        if verdict.runs == RUNS:
            break
        call = _call(lhs, sizes, choices)
        if call is None:
            verdict.discarded.append("no call")
            continue
        try:
            wrong = _compared(lhs, rhs, sizes, call)
        except (NotExact, OutOfMemory, TooLarge) as error:
            verdict.discarded.append(type(error).__name__)
            continue
        except Exception as error:  # noqa: BLE001 (whatever it is, it is wrong)
            wrong = f"{type(error).__name__}: {error}"
        verdict.runs += 1
        if wrong is not None:
            shown = {name: held.tolist() for name, held in call.arrays.items()}
            verdict.wrong = f"at {sizes}, {shown}: {wrong}"
            break
    return verdict


def _sizes(lhs: Program, rhs: Program, choices: Choices) -> list[dict[str, int]]:
    """Return sizes that satisfy the assumptions on sizes."""
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
        return holds(part, leaf_values(sizes), lambda of, at: 0)
    except ZeroDivisionError:
        return False


def _call(program: Program, sizes: Mapping[str, int], choices: Choices) -> Arguments | None:
    """Return a call with these sizes, or None if `bind` refuses the random arrays."""
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
    """No array satisfies the declaration at these sizes."""


def _drawn(
    array: Array, sizes: Mapping[str, int], before: Mapping[str, AnyArray], choices: Choices, *, realisable: bool
) -> AnyArray:
    def value(expression: Index) -> int:
        return value_of(expression, leaf_values(sizes), lambda of, at: _element(before[of.name], at))

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
    low = max(low, range_of(array.dtype)[0])
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
    """Return an array that satisfies its declaration at these sizes. Raise `NoArray` if none exists."""
    return _drawn(array, sizes, before, choices, realisable=True)


def _increasing(low: int, high: int, count: int, choices: Choices) -> list[int]:
    left = list(range(low, high))
    if len(left) < count:
        raise NoArray
    while len(left) > count:
        left.pop(choices.integer(0, len(left) - 1))
    return left


def _element(held: AnyArray, at: tuple[int, ...]) -> int:
    return int(held[at]) if all(0 <= i < n for i, n in zip(at, held.shape, strict=True)) else 0


def _compared(lhs: Program, rhs: Program, sizes: Mapping[str, int], call: Arguments) -> str | None:
    """Return a difference between the sides. Elements are symbols if a value is irrational."""
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
