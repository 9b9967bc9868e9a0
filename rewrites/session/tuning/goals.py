"""Autotuning of a goal that is under way: a schedule goes on from it, and the goal becomes what was the fastest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

from atl.errors import InvalidArgument, brief
from rewrites.session.tuning.measuring import Measure
from rewrites.session.tuning.search import autotune
from rewrites.session.tuning.space import check_parameters
from rewrites.session.tuning.tuned import Scheduled, Tuned
from rewrites.session.tuning.usual import usual


class Branching(Scheduled, Protocol):
    """A session that can be gone on from in several ways."""

    def branch(self) -> Self:
        """One that starts from the same goal."""


B = TypeVar("B", bound=Branching)


def tuned_from(
    session: B,
    schedule: Callable[..., object] | None,
    choices: Mapping[str, Sequence[Any]] | None,
    sizes: Mapping[str, int],
    budget: float,
    *,
    measure: Measure | None,
    **options: Any,
) -> Tuned[B]:
    """What is the fastest of a schedule that goes on from the goal of a session, with every choice of its parameters.

    `schedule(session, **parameters)` may give a session, or rewrite the one that it is given. Without a schedule the
    `usual` ones are tried. Raises `InvalidArgument`, and what `autotune` raises.
    """
    if (schedule is None) is not (choices is None) or not (schedule is None or callable(schedule)):
        raise InvalidArgument(
            f"schedule={brief(schedule)}, choices={brief(choices)}",
            required="a function of a session and of parameters, with choices of these; or neither",
        )
    tried, numbers = usual(session.goal) if schedule is None or choices is None else (schedule, choices)

    def derived(**parameters: Any) -> B:
        branch = session.branch()
        made = tried(branch, **parameters)
        return made if isinstance(made, type(session)) else branch

    if isinstance(numbers, Mapping) and all(isinstance(name, str) for name in numbers):
        check_parameters(tried, (session,), numbers)
    return autotune(derived, numbers, sizes, budget, measure=measure, start=session.theorem, **options)
