"""One call of a session, checks of what calls are given, and handles: places followed through calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from atl.core.program import Program
from atl.core.traversal import Path, names_given, subterm
from atl.errors import ATLError, InvalidArgument, Location, Source, brief
from rewrites.cursors.cursor import binders
from rewrites.cursors.targets import Handle
from rewrites.derivation import path_after
from rewrites.errors import DoesNotApply, unknown_name
from rewrites.kernel import Step, Theorem


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call in a session: its text, what had been proved when it was made, and the theorems that it went through.

    A call of n steps has n + 1 theorems. The first says what `before` says, perhaps with other names and marks:
    `s.mark("i", "parallel")` is a call of no step, whose one theorem is `before` with a mark on its right side.
    """

    text: str
    before: Theorem
    theorems: tuple[Theorem, ...]
    notes: tuple[str, ...] = ()
    """What a tactic has to say of what it made, such as that a buffer grows with a size."""

    @property
    def theorem(self) -> Theorem:
        """What was proved by it."""
        return self.theorems[-1]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The kernel's steps of this call."""
        return self.theorem.steps_after(self.before)

    def traced(self) -> list[tuple[Step, Program, Program]]:
        """Each step with the programs before and after it."""
        pairs = zip(self.theorems, self.theorems[1:], strict=False)
        return [(step, a.rhs, b.rhs) for step, (a, b) in zip(self.steps, pairs, strict=True)]

    def __repr__(self) -> str:
        """One line: the text, the rules by which it was done if they are others, and what there is to say of it."""
        steps = self.steps
        if len(steps) == 1 and self.text.startswith("rw("):
            return self.text
        counted: dict[str, int] = {}
        for step in steps:
            name = f"{step.rule.name}{'⁻¹' if step.reverse else ''}"
            counted[name] = counted.get(name, 0) + 1
        by = ", ".join(f"{name} ×{times}" if times > 1 else name for name, times in counted.items())
        many = f"{len(steps)} step{'' if len(steps) == 1 else 's'}: {by}"
        return f"{self.text}   -- {'; '.join((many if by else 'no step', *self.notes))}"


def check_takes(tactic: Callable[..., object], arguments: Sequence[object], options: Mapping[str, object]) -> None:
    """Raises `InvalidArgument` unless a tactic takes a derivation and these arguments."""
    try:
        inspect.signature(tactic).bind(None, *arguments, **options)
    except TypeError as error:
        raise InvalidArgument(
            f"{getattr(tactic, '__name__', 'the tactic')} does not take what is given: {error}",
            required="a function of one argument more than are given, which comes first: def tactic(work, …)",
        ) from None
    except ValueError:
        pass  # of what is written in C nothing is known


def check_flags(**flags: object) -> None:
    """Raises `InvalidArgument` for a flag that is neither true nor false."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise InvalidArgument(f"{name}={brief(value)}", required=f"{name}=True or {name}=False")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a handle was found: in a session with this start, after these calls, at this path.

    `calls` are those of that session as they come and go, by which the place is followed.
    """

    start: Theorem
    trail: tuple[Call, ...]
    path: Path
    calls: Sequence[Call]

    def now(self, label: str) -> Path:
        """Where the place is in the session in which it was found. Raises `DoesNotApply` as `place_in` does."""
        return self.after(self.calls, label)

    def after(self, calls: Sequence[Call], label: str) -> Path:
        """Where the place is in a session with the same start and these calls."""
        if tuple(calls[: len(self.trail)]) != self.trail:
            raise DoesNotApply(
                f"the place {label} was found after calls that have been undone, or that another branch made",
                required="a place of this goal",
                suggestions=(_again(label),),
            )
        path = self.path
        for number, call in enumerate(calls[len(self.trail) :], len(self.trail)):
            path = _after(call, number, label, path)
        return path


def place_in(start: Theorem, calls: Sequence[Call], handle: Handle) -> Path:
    """Where a handle's place is in the session with this start and these calls.

    A branch has the calls of its parent, and so its handles. Raises `DoesNotApply` for a handle of another session, for one
    found after calls that have been undone or that this session has not made, and for a place that is gone.
    """
    origin = handle.origin
    if not isinstance(origin, Origin) or origin.start is not start:
        raise DoesNotApply(
            f"the place {handle.label} was found in another session",
            required="a handle of this session, or of the one that it is a branch of",
            suggestions=(_again(handle.label),),
        )
    return origin.after(calls, handle.label)


def _again(label: str) -> str:
    return f"find it here: s.find({label!r})"


def _after(call: Call, number: int, label: str, path: Path) -> Path:
    """Where a place is after a call."""
    names = names_given(subterm(call.before.rhs.body, path))
    moved, gone = path_after(call.traced(), path)
    if moved is None and names and _named_so(call.before.rhs, names) == path:
        moved = _named_so(call.theorem.rhs, names)
    if moved is None:
        assert gone is not None
        raise DoesNotApply(
            f"the place {label} is gone: {gone.rule.name} took it away, in {call.text}",
            required="a place of this goal",
            suggestions=(f"s.undo() goes back; call {number} is the one",),
        )
    return moved


def _named_so(program: Program, names: tuple[str, ...]) -> Path | None:
    """The only binder that was given these names: a tactic may take a binder away and make it anew."""
    found = [cursor.path for cursor in binders(program) if names_given(cursor.term) == names]
    return found[0] if len(found) == 1 else None


# -- arguments that fit no parameters ----------------------------------------------------------------------------------

C = TypeVar("C", bound=type)


def checks_arguments(cls: C) -> C:
    """Make each public method of a class raise `InvalidArgument` for missing, unknown and superfluous arguments."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_"):
            setattr(cls, name, _checking(name, method))
    return cls


def _checking(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    refusal = _refusal
    refused = ATLError

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except TypeError as error:
            trace = error.__traceback__
            if isinstance(error, refused) or trace is None or trace.tb_next is not None:
                raise  # from within the method
            raise refusal(name, method, arguments[1:], options) from None

    # doctest runs the examples of a function that has the globals of the module, so `call` uses no globals of this one.
    checked = FunctionType(call.__code__, method.__globals__, name, None, call.__closure__)
    return wraps(method)(checked)


def _refusal(
    name: str, method: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
) -> InvalidArgument:
    """Return the error of a call whose arguments do not fit the parameters of the method."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    known = [each.name for each in parameters]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    unknown = [option for option in options if option not in known and not takes_any]
    given = {*positional[: len(arguments)], *options}
    required = [each for each in parameters if each.default is each.empty and each.kind in _NEEDED]
    missing = [each.name for each in required if each.name not in given]
    suggestions: tuple[str, ...] = ()
    if unknown:
        summary = f"s.{name} has no parameter {unknown[0]!r}"
        suggestions = unknown_name("parameter", unknown[0], known, required="").suggestions
    elif len(arguments) > len(positional):
        plural = "" if len(positional) == 1 else "s"
        summary = f"s.{name} takes {len(positional) or 'no'} positional argument{plural}, got {len(arguments)}"
        suggestions = _grouped(name, parameters, len(positional), arguments)
    elif missing:
        summary = f"missing argument{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))} of s.{name}"
    else:
        summary = f"s.{name} got {next(each for each in positional if each in options)!r} twice"
    return InvalidArgument(
        summary,
        place=Location(source=Source.caller()),
        required=f"s.{name}{_without_types(parameters)}",
        suggestions=suggestions,
    )


_NEEDED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _without_types(parameters: Sequence[inspect.Parameter]) -> inspect.Signature:
    return inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])


def _grouped(
    name: str, parameters: Sequence[inspect.Parameter], count: int, arguments: Sequence[Any]
) -> tuple[str, ...]:
    """Suggest lists where a method that takes several loops was given each as an argument: tile("i", "j", 8, 8)."""
    if not count or len(arguments) % count or "Sequence[Target]" not in str(parameters[0].annotation):
        return ()
    each = len(arguments) // count
    lists = [repr(list(arguments[at : at + each])) for at in range(0, len(arguments), each)]
    return (f"s.{name}({', '.join(lists)})",)
