"""Test sizes of an exported kernel: small, odd and even sizes that the program allows."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Final

from atl.core.index import Index, Read, atoms, leaf_values, value_at
from atl.core.predicate import expressions, holds
from atl.core.program import Program, is_strict
from atl.errors import InvalidArgument
from atl.meaning.specialise import LARGEST

CASES: Final = 6
TRIES: Final = 4000
SMALL: Final = (1, 2, 3, 5, 8, 13, 16, 21, 32, 37, 64, 75)
WIDE: Final = (96, 128, 192, 256, 512, 1024, 2048)
"""Larger sizes, for programs with large tiles."""
FEW: Final = 300_000
"""Maximum number of elements of an array in a case."""
_SEED: Final = 7


def cases(program: Program, given: Mapping[str, int] | None) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of each case, in the order of the program: those passed, or generated ones.

    Raises `InvalidArgument` if the passed sizes are not allowed, or if no sizes are found.
    """
    names = program.sizes
    if given is not None:
        wrong = [name for name in given if name not in names] + [name for name in names if name not in given]
        numbers = [value for value in given.values() if type(value) is not int or not 0 <= value <= LARGEST]
        if wrong or numbers or not _allowed(program, given):
            raise InvalidArgument(
                f"{program.name} cannot be checked for sizes={dict(given)}",
                required=f"a number from 0 on for each of {', '.join(names) or 'no sizes'}, under its assumptions",
            )
        return (tuple(given[name] for name in names),)
    found: list[tuple[int, ...]] = []
    for sizes in _candidates(names):
        case = tuple(sizes[name] for name in names)
        if case not in found and _allowed(program, sizes) and _is_small(program, sizes):
            found.append(case)
            if len(found) == (CASES if names else 1):
                break
    if not found:
        raise InvalidArgument(
            f"no small sizes were found that the assumptions of {program.name} allow",
            required="sizes for the check of the kernel",
            suggestions=(f"kernel.write(folder, sizes={{{', '.join(f'{name!r}: …' for name in names)}}})",),
        )
    return tuple(found)


def _candidates(names: tuple[str, ...]) -> Iterator[dict[str, int]]:
    """Yield medium sizes first, then random ones, some of which are large enough for large tiles."""
    yield {name: 17 + 4 * at for at, name in enumerate(names)}
    yield {name: 67 - 3 * at for at, name in enumerate(names)}
    draw = random.Random(_SEED)
    for attempt in range(TRIES):
        choice = SMALL if attempt < TRIES // 2 else (*SMALL, *WIDE)
        yield {name: draw.choice(choice) for name in names}


def _value(expression: Index, sizes: Mapping[str, int]) -> int | None:
    """Return the value of an expression, or None if it depends on elements."""
    if _reads(expression):
        return None
    return value_at(expression, sizes)


def _reads(expression: Index) -> bool:
    return any(isinstance(atom, Read) for atom in atoms(expression))


def _allowed(program: Program, sizes: Mapping[str, int]) -> bool:
    try:
        for assumption in program.assumptions:
            of_sizes = not any(map(_reads, expressions(assumption)))
            if of_sizes and not holds(assumption, leaf_values(sizes), lambda *_: 0):
                return False
        extents = [e for array in program.inputs for e in array.shape] + list(program.shape)
        values = [_value(extent, sizes) for extent in extents]
        return all(value is None or value >= 0 for value in values) and _has_elements(program, sizes)
    except ZeroDivisionError:
        return False


def _has_elements(program: Program, sizes: Mapping[str, int]) -> bool:
    """Return whether each declared range has enough integers for the elements that must differ."""
    for array in program.inputs:
        if array.low is None or array.high is None or not array.shape:
            continue
        low, high = _value(array.low, sizes), _value(array.high, sizes)
        shape = [_value(extent, sizes) for extent in array.shape]
        if low is None or high is None or 0 in shape:
            continue
        distinct = high - low
        for each in array.leading:
            first, end = (None if bound is None else _value(bound, sizes) for bound in (each.low, each.high))
            distinct *= LARGEST if first is None or end is None else end - first
        needed = (shape[-1] or 1) if is_strict(array) and array.between is None else 1
        if high <= low or distinct < needed:
            return False
    return True


def _is_small(program: Program, sizes: Mapping[str, int]) -> bool:
    for shape in (program.shape, *(array.shape for array in program.inputs)):
        count = 1
        for extent in shape:
            count *= _value(extent, sizes) or 1
        if count > FEW:
            return False
    return True
