"""Recipes: schedules as functions of a session, which look for a form in its goal and make the calls that suit it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from itertools import islice
from math import prod
from traceback import extract_tb
from types import FunctionType
from typing import Any, Final, TypeAlias, TypeVar

from atl.core import index as ix
from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument, Source, brief, shortened
from atl.parameters import wrong_arguments
from lowering.targets.machine import Machine
from rewrites.errors import DoesNotApply
from rewrites.tactics.tactic import check_documented, name_of


@dataclass(frozen=True, slots=True)
class Context:
    """The input of a recipe in addition to the goal: the machine, and the sizes if they are known.

    `dtype` is the type in which elements of the result are computed. `parallel` is True if threads may share loops.
    """

    machine: Machine
    dtype: str = "float32"
    sizes: Mapping[str, int] = field(default_factory=dict)
    parallel: bool = False

    def extent(self, expression: ix.Index) -> int | None:
        """Return the value of an extent at the known sizes, or None."""
        leaves = {atom.name for atom in ix.atoms(expression) if isinstance(atom, ix.Size)}
        if not leaves <= self.sizes.keys() or not all(isinstance(atom, SIMPLE) for atom in ix.atoms(expression)):
            return None
        return ix.value_of(expression, lambda leaf: self.sizes[getattr(leaf, "name", "")], lambda *_: 0)

    def elements(self, shape: Sequence[ix.Index]) -> int | None:
        """Return the number of elements of a shape at the known sizes, or None."""
        extents = [self.extent(each) for each in shape]
        return None if None in extents else prod(each for each in extents if each is not None)


SIMPLE: Final = (ix.Size, ix.Quotient, ix.Extremum)
Choices: TypeAlias = Callable[[Context], Sequence[Any]]
"""The values of a parameter in a context; the first is the one that the machine model prefers."""


Scheduling: TypeAlias = Callable[..., object]
"""A function `schedule(s, **parameters)` that makes calls on a session. A parameter `context` gets the `Context`."""
CONTEXT: Final = "context"


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """A named schedule for goals of some form, with the choices of its parameters."""

    schedule: Scheduling
    choices: Mapping[str, Choices]

    @property
    def name(self) -> str:
        """The name of the function."""
        return name_of(self.schedule)

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.schedule.__doc__ or "").strip().split("\n")[0]

    def values(self, name: str, context: Context) -> Sequence[Any]:
        """Return the values of a parameter, the preferred one first.

        Raises `InvalidArgument` if there are none, and for an exception in their function that is not an `ATLError`.
        """
        try:
            found = self.choices[name](context)
        except ATLError:
            raise
        except Exception as error:
            raise self._failure(error) from error
        if not isinstance(found, list | tuple) or not found:
            raise InvalidArgument(
                f"the choices {name}={brief(found)} of the recipe {self.name}",
                required="a function of the context that returns a list of at least one value",
            )
        return found

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.choices)}): {self.summary}"

    def __call__(self, s: Any, context: Context, **parameters: Any) -> Any:
        """Run the recipe on a session. Parameters that are not passed get their preferred values.

        If a call fails, the session is unchanged. Raises the error of the recipe if that is an `ATLError`, and
        `InvalidArgument` for any other exception in it.
        """
        unknown = [name for name in parameters if name not in self.choices]
        if unknown:
            raise InvalidArgument(
                f"the recipe {self.name} has no parameter {', '.join(unknown)}",
                required=f"parameters among {', '.join(self.choices) or '(none)'}",
            )
        preferred = {name: self.values(name, context)[0] for name in self.choices if name not in parameters}
        asked = {CONTEXT: context} if CONTEXT in signature(self.schedule).parameters else {}
        branch = s.branch()
        try:
            self.schedule(branch, **preferred, **parameters, **asked)
        except ATLError:
            raise
        except Exception as error:
            raise self._failure(error) from error
        return s.continue_as(branch)

    def _failure(self, error: Exception) -> InvalidArgument:
        """Return the error for an exception in the recipe, with the innermost line of the recipe's file."""
        _, *frames = extract_tb(error.__traceback__)  # the first is the call of the recipe
        own = [frame for frame in frames if frame.filename == frames[0].filename]
        place = f" at {Source(own[-1].filename, own[-1].lineno or 0)}" if own else ""
        return InvalidArgument(
            f"the recipe {self.name} raised {type(error).__name__}: {shortened(str(error), 200)}{place}",
            required="a function that raises DoesNotApply if the goal does not have its form",
        )


T = TypeVar("T")


def schedule_each(
    s: Any, find: Callable[[Program], Iterable[T]], schedule: Callable[[Any, T], object], required: str
) -> None:
    """Schedule each part of the goal that `find` yields, on a branch; a scheduled part is not found again.

    Parts that a tactic refuses are left as they are. Raises `DoesNotApply` if all are, or if there are none.
    """
    refused: list[DoesNotApply] = []
    scheduled = False
    for _ in list(find(s.goal)):
        found = next(islice(find(s.goal), len(refused), None), None)
        if found is None:
            break
        branch = s.branch()
        try:
            schedule(branch, found)
        except DoesNotApply as error:
            refused.append(error)
        else:
            s.continue_as(branch)
            scheduled = True
    if not scheduled:
        raise refused[0] if refused else DoesNotApply(f"the goal lacks {required}", required=required)


def _check_parameters(schedule: Scheduling, choices: Mapping[str, Choices]) -> None:
    """Raise `InvalidArgument` unless a recipe can be called with a session, its choices, and the context if it asks."""
    if CONTEXT in choices:
        raise InvalidArgument(
            f"the choices {CONTEXT}= of the recipe {name_of(schedule)}",
            required=f"another name: the parameter {CONTEXT} gets the Context",
        )
    asked = dict.fromkeys([*choices, *([CONTEXT] if CONTEXT in signature(schedule).parameters else [])])
    try:
        signature(schedule).bind(None, **asked)
    except TypeError:
        label = f"the recipe {name_of(schedule)}"
        raise wrong_arguments(label, schedule, (None,), asked, receiver=False) from None


def recipe(**choices: Choices) -> Callable[[Scheduling], Recipe]:
    """Declare a function as a recipe; the keywords give the choices of its parameters.

    The function looks for a form in `s.goal`, makes calls on the session `s`, and raises `DoesNotApply` if the goal
    does not have that form. Every call is checked by the kernel, so a recipe cannot prove anything false.
    `s.optimize(recipes=[mine, *atl.RECIPES])` runs it before the built-in ones. Each choice is a function of the
    `Context` that returns the values of a parameter, the preferred one first. Raises `InvalidArgument`.

    >>> import atl
    >>> @atl.recipe(by=lambda context: (4 * context.machine.lanes(context.dtype), 64))
    ... def in_lanes(s, by):
    ...     \"\"\"Vectorize a single loop: ⊞[i < n] e → ⊞[io < _] ⊞[ii < by | vector] e.\"\"\"
    ...     s.vectorize("i", by, tails="split")
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> s = atl.reschedule(atl.program("twice", [x], 2 * x))
    >>> s.optimize(recipes=[in_lanes]).steps[-1].text.startswith("vectorize('i', ")
    True
    """

    for name, values in choices.items():
        if not callable(values):
            raise InvalidArgument(
                f"the choices {name}={brief(values)} of a recipe",
                required="a function of the context that returns the values of the parameter, the preferred one first",
                suggestions=(f"@atl.recipe({name}=lambda context: (8, 16))",),
            )

    def declare(schedule: Scheduling) -> Recipe:
        if not isinstance(schedule, FunctionType):
            raise InvalidArgument(f"{brief(schedule)} is not a recipe", required="@recipe() on a function of a session")
        check_documented(schedule, "recipe")
        _check_parameters(schedule, choices)
        return Recipe(schedule, choices)

    return declare
