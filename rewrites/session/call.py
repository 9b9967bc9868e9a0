"""Calls of a session, checks of their arguments, and handles: places that are tracked through later calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from atl.core.program import Program
from atl.core.traversal import Path, names_given, subterm
from atl.errors import InvalidArgument, brief
from atl.parameters import wrong_arguments
from rewrites.cursors.cursor import binders
from rewrites.cursors.targets import Handle
from rewrites.derivation import path_after
from rewrites.errors import DoesNotApply
from rewrites.kernel import Step, Theorem
from rewrites.tactics.tactic import Tactic


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of a session: its text, the theorem before it, and the theorems it went through.

    A call of n steps has n + 1 theorems. The first one equals `before` up to names and marks: `s.mark("i", "parallel")`
    is a call of zero steps whose only theorem is `before` with a mark on its right-hand side.
    """

    text: str
    before: Theorem
    theorems: tuple[Theorem, ...]
    notes: tuple[str, ...] = ()
    """Notes of the tactic to the user, such as that a buffer grows with a size."""

    @property
    def theorem(self) -> Theorem:
        """The theorem proved after this call."""
        return self.theorems[-1]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The kernel steps of this call."""
        return self.theorem.steps_after(self.before)

    def traced(self) -> list[tuple[Step, Program, Program]]:
        """Return each step with the programs before and after it."""
        pairs = zip(self.theorems, self.theorems[1:], strict=False)
        return [(step, a.rhs, b.rhs) for step, (a, b) in zip(self.steps, pairs, strict=True)]

    def __repr__(self) -> str:
        """Return one line: the text, the rules used (unless the text is that rule), and the notes."""
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


def check_tactic_arguments(
    tactic: Callable[..., object], arguments: Sequence[object], options: Mapping[str, object]
) -> None:
    """Raise `InvalidArgument` unless the tactic accepts a derivation followed by these arguments."""
    try:
        inspect.signature(tactic).bind(None, *arguments, **options)
    except TypeError as error:
        if isinstance(tactic, Tactic):
            raise wrong_arguments(f"s.{tactic.__name__}", tactic, (None, *arguments), options, receiver=True) from None
        raise InvalidArgument(
            f"{getattr(tactic, '__name__', 'the tactic')} does not accept these arguments: {error}",
            required="a function whose first parameter is the derivation: def tactic(work, …)",
        ) from None
    except ValueError:
        pass  # functions written in C have no signature


def check_flags(**flags: object) -> None:
    """Raise `InvalidArgument` for a flag that is not a bool."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise InvalidArgument(f"{name}={brief(value)}", required=f"{name}=True or {name}=False")


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a handle: the start of its session, the calls before it, and its path at that time.

    `calls` is the live list of calls of that session; it grows and shrinks with the session.
    """

    start: Theorem
    trail: tuple[Call, ...]
    path: Path
    calls: Sequence[Call]

    def now(self, label: str) -> Path:
        """Return the current path of the place in its own session. Raises `DoesNotApply` like `locate`."""
        return self.path_after_calls(self.calls, label)

    def path_after_calls(self, calls: Sequence[Call], label: str) -> Path:
        """Return the path of the place in a session with the same start and these calls."""
        if tuple(calls[: len(self.trail)]) != self.trail:
            raise DoesNotApply(
                f"the handle {label} was created after calls that were undone or made in another branch",
                required="a place of this goal",
                suggestions=(_again(label),),
            )
        path = self.path
        for number, call in enumerate(calls[len(self.trail) :], len(self.trail)):
            path = _after(call, number, label, path)
        return path


def locate(start: Theorem, calls: Sequence[Call], handle: Handle) -> Path:
    """Return the path of a handle's place in the session with this start and these calls.

    A branch shares its parent's calls and thus its handles. Raises `DoesNotApply` in three cases: the handle belongs to
    another session, it was created after calls that this session does not have, or its place no longer exists.
    """
    origin = handle.origin
    if not isinstance(origin, Origin) or origin.start is not start:
        raise DoesNotApply(
            f"the handle {handle.label} belongs to another session",
            required="a handle of this session or of the session it was branched from",
            suggestions=(_again(handle.label),),
        )
    return origin.path_after_calls(calls, handle.label)


def _again(label: str) -> str:
    return f"find it here: s.find({label!r})"


def _after(call: Call, number: int, label: str, path: Path) -> Path:
    names = names_given(subterm(call.before.rhs.body, path))
    moved, gone = path_after(call.traced(), path)
    if moved is None and names and _sole_binder_named(call.before.rhs, names) == path:
        moved = _sole_binder_named(call.theorem.rhs, names)
    if moved is None:
        assert gone is not None
        raise DoesNotApply(
            f"the place {label} no longer exists: {gone.rule.name} removed it, in {call.text}",
            required="a place of this goal",
            suggestions=(f"s.undo() back to before call {number}",),
        )
    return moved


def _sole_binder_named(program: Program, names: tuple[str, ...]) -> Path | None:
    """Return the only binder with these names: a tactic may remove a binder and create it again."""
    found = [cursor.path for cursor in binders(program) if names_given(cursor.term) == names]
    return found[0] if len(found) == 1 else None
