"""Candidates of autotuning: all choices of parameters, and the order in which they are tried."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias

from atl.errors import InvalidArgument, brief

Parameters: TypeAlias = Mapping[str, Any]
Choices: TypeAlias = Mapping[str, Sequence[Any]]
MOST: Final = 100_000
"""Maximum number of candidates."""


def candidates(choices: Choices) -> list[dict[str, Any]]:
    """Return every choice of parameter values, the first values first. Raises `InvalidArgument`."""
    required = 'a list of values for each parameter, preferred ones first: choices={"rows": [1, 2, 4]}'
    if not isinstance(choices, Mapping) or not all(isinstance(name, str) for name in choices):
        raise InvalidArgument(f"choices={brief(choices)}", required=required)
    for name, values in choices.items():
        if not isinstance(values, list | tuple | range) or not values:
            raise InvalidArgument(f"the choices {name}={brief(values)}", required=required)
        if len({written(value) for value in values}) < len(values):
            raise InvalidArgument(
                f"the choices {name}={brief(values)} contain a value twice", required="each value once"
            )
    count = prod(len(values) for values in choices.values())
    if count > MOST:
        raise InvalidArgument(f"{count} candidates", required=f"at most {MOST}", suggestions=("leave out some values",))
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


def check_parameters(schedule: Callable[..., object], first: Sequence[object], names: Iterable[str]) -> None:
    """Raise `InvalidArgument` unless a schedule accepts these arguments followed by these keywords."""
    try:
        inspect.signature(schedule).bind(*first, **dict.fromkeys(names))
    except TypeError as error:
        raise InvalidArgument(
            f"the schedule does not take {', '.join(names) or 'no parameters'}: {error}",
            required="choices={…} with the names of the schedule's own parameters",
        ) from None
    except ValueError:
        pass  # functions written in C have no signature


def written(value: object) -> str:
    """Return a parameter value as Python source."""
    return repr(value)


def called(parameters: Parameters, write: Callable[[Any], str] = written) -> str:
    """Return parameters as keyword arguments.

    >>> called({"rows": 4, "order": "yx"})
    "rows=4, order='yx'"
    """
    return ", ".join(f"{name}={write(value)}" for name, value in parameters.items())


def next_of(choices: Choices, untried: Sequence[dict[str, Any]], best: Parameters | None) -> dict[str, Any]:
    """Return the candidate nearest to the best so far; of several the one preferred by the order of choices.

    A step moves any number of parameters at once: a number to the next larger or smaller one, another value to any.
    Of candidates at the same number of steps, the one with the fewest changed parameters comes first.

    >>> choices = {"rows": [8, 4, 6], "columns": [32, 16]}
    >>> next_of(choices, candidates(choices)[2:], {"rows": 8, "columns": 32})
    {'rows': 6, 'columns': 32}
    """
    if best is None:
        return untried[0]
    ranks = {name: _ranks(values) for name, values in choices.items()}

    def distance(each: Parameters) -> tuple[int, int]:
        steps = [abs(ranks[name][written(each[name])] - ranks[name][written(best[name])]) for name in each]
        moves = [step if _are_numbers(choices[name]) else min(1, step) for name, step in zip(each, steps, strict=True)]
        return max(moves, default=0), sum(step > 0 for step in moves)

    return min(untried, key=distance)


def _ranks(values: Sequence[Any]) -> dict[str, int]:
    """Return the position of each value among those of a parameter, by size if they are numbers."""
    ordered = sorted(values) if _are_numbers(values) else values
    return {written(value): rank for rank, value in enumerate(ordered)}


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)
