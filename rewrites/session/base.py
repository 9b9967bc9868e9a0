"""The base class of sessions, which runs user-defined tactics."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from atl.errors import ATLError, InvalidArgument, brief
from rewrites.errors import unknown_name
from rewrites.kernel import Theorem
from rewrites.session import display
from rewrites.session.call import Call
from rewrites.session.diagnosis import attach_call_site
from rewrites.tactics.tactic import name_of
from rewrites.user_rules.tactics import tactics

P = ParamSpec("P")
S = TypeVar("S", bound="SessionBase")


class SessionBase(ABC):
    """A session that can run a user-defined tactic, which makes several calls, as one call."""

    @property
    @abstractmethod
    def theorem(self) -> Theorem:
        """The theorem proved so far."""

    @property
    @abstractmethod
    def steps(self) -> Sequence[Call]:
        """The calls made so far."""

    @abstractmethod
    def branch(self: S) -> S:
        """Return an independent session that continues from here."""

    @abstractmethod
    def record_call(self: S, call: Call) -> S:
        """Append a call that started at the current goal."""

    @overload
    def apply(self: S, tactic: Callable[Concatenate[S, P], object], *arguments: P.args, **options: P.kwargs) -> S: ...
    @overload
    def apply(self: S, tactic: str, *arguments: Any, **options: Any) -> S: ...
    def apply(self: S, tactic: Any, *arguments: Any, **options: Any) -> S:
        """Run a user-defined tactic as one call: a function of a session, or the name of one registered with `@tactic`.

        If the tactic fails, the session is unchanged. `rewrites.user_rules.tactic` describes how to write one. A tactic
        registered with `@tactic` is also a method: `s.tile_rows("i", 8)`.

        >>> import atl
        >>> from atl import reschedule
        >>> x = atl.tensor("x", 64)
        >>> s = reschedule(atl.program("double", [x], atl.gen(64, lambda i: 2 * x[i])))
        >>> def in_blocks(s, by):
        ...     s.tile("i", by).mark("io", "parallel")
        >>> s.apply(in_blocks, 8).steps
          0  in_blocks(8)   -- ...
        """
        with attach_call_site():
            text, theorems, notes = run_user_tactic(find_tactic(tactic), self.branch(), arguments, options)
        if not theorems:
            return self
        return self.record_call(Call(text, self.theorem, tuple(theorems), tuple(notes)))


def find_tactic(tactic: object) -> Callable[..., object]:
    """Return the tactic for a function or a name. Raises `InvalidArgument`."""
    known = tactics()
    if isinstance(tactic, str):
        if tactic not in known:
            raise unknown_name(
                "user-defined tactic", tactic, known, required="the name of a function under @tactic, or the function"
            )
        return known[tactic]
    if not callable(tactic):
        raise InvalidArgument(f"{brief(tactic)} is not a tactic", required="a function of a session: def tactic(s, …)")
    return tactic


def run_user_tactic(
    tactic: Callable[..., object], on: SessionBase, arguments: Sequence[Any], options: Mapping[str, Any]
) -> tuple[str, list[Theorem], list[str]]:
    """Run a tactic and return the text of the call, the theorems after the session's own, and the notes.

    `on` is a branch, so that a failure leaves the caller's session unchanged.
    """
    name = name_of(tactic)
    try:
        inspect.signature(tactic).bind(on, *arguments, **options)
    except TypeError as error:
        raise InvalidArgument(
            f"wrong arguments for {name}: {error}",
            required=f"def {name}{inspect.signature(tactic)}, whose first parameter is the session",
        ) from None
    except ValueError:
        pass  # functions written in C have no signature
    before = list(on.steps)
    made = len(before)
    try:
        result = tactic(on, *arguments, **options)
    except ATLError as error:
        done = len(on.steps) - made
        error.summary += f", after {done} call{'s' if done > 1 else ''} of {name}" if done > 0 else ""
        raise
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        close = getattr(result, "close", None)
        if close is not None:
            close()  # a coroutine that is never awaited warns
        raise InvalidArgument(
            f"{name} did not run: it returned {brief(result)}",
            required="a plain function, without yield, async or await",
        )
    if list(on.steps[:made]) != before:
        raise InvalidArgument(
            f"{name} undid calls that it did not make", required="s.undo() only for calls made by the tactic"
        )
    theorems: list[Theorem] = []
    for call in on.steps[made:]:
        # The first theorem of a call equals the last one of the call before, up to marks.
        theorems = [*theorems[:-1], *call.theorems]
    notes = [note for call in on.steps[made:] for note in call.notes]
    return display.call_text(name, arguments, options), theorems, notes
