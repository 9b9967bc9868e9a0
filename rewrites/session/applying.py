"""Bases of sessions: calls for a GPU, and tactics of a user, which are functions of public calls, recorded as one."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from atl.errors import ATLError, InvalidArgument, brief
from rewrites import tactics as built_in
from rewrites.cursors.targets import Target, within
from rewrites.derivation import Derivation
from rewrites.errors import unknown_name
from rewrites.kernel import Theorem
from rewrites.session import display
from rewrites.session.call import Call
from rewrites.session.diagnosis import attach_call_site
from rewrites.user_rules.tactics import name_of, tactics

P = ParamSpec("P")
S = TypeVar("S", bound="Applies")
G = TypeVar("G", bound="OnGpu")


class Applies(ABC):
    """What makes calls, with the call by which a tactic of a user's own makes several as one."""

    @property
    @abstractmethod
    def theorem(self) -> Theorem:
        """What has been proved so far."""

    @property
    @abstractmethod
    def steps(self) -> Sequence[Call]:
        """The calls made so far."""

    @abstractmethod
    def branch(self: S) -> S:
        """One of its own that goes on from here."""

    @abstractmethod
    def recorded(self: S, call: Call) -> S:
        """Adds a call that began at the present goal."""

    @overload
    def apply(self: S, tactic: Callable[Concatenate[S, P], object], *arguments: P.args, **options: P.kwargs) -> S: ...
    @overload
    def apply(self: S, tactic: str, *arguments: Any, **options: Any) -> S: ...
    def apply(self: S, tactic: Any, *arguments: Any, **options: Any) -> S:
        """Carries out a tactic of one's own, a function of a session or the name of one under `@tactic`, as one call.

        What it is refused leaves the session as it was. `rewrites.user_rules.tactic` says how one is made; one under `@tactic`
        may be called by its name as well: `s.tile_rows("i", 8)`.

        >>> import atl
        >>> from rewrites import reschedule
        >>> x = atl.tensor("x", 64)
        >>> s = reschedule(atl.program("double", [x], atl.gen(64, lambda i: 2 * x[i])))
        >>> def in_blocks(s, by):
        ...     s.tile("i", by).mark("io", "parallel")
        >>> s.apply(in_blocks, 8).steps
          0  in_blocks(8)   -- ...
        """
        with attach_call_site():
            text, theorems, notes = carried_out(tactic_of(tactic), self.branch(), arguments, options)
        if not theorems:
            return self
        return self.recorded(Call(text, self.theorem, tuple(theorems), tuple(notes)))


def tactic_of(tactic: object) -> Callable[..., object]:
    """The tactic that is meant, by itself or by its name. Raises `InvalidArgument`."""
    known = tactics()
    if isinstance(tactic, str):
        if tactic not in known:
            raise unknown_name(
                "tactic of your own", tactic, known, required="the name of a function under @tactic, or the function"
            )
        return known[tactic]
    if not callable(tactic):
        raise InvalidArgument(f"{brief(tactic)} is no tactic", required="a function of a session: def tactic(s, …)")
    return tactic


def carried_out(
    tactic: Callable[..., object], on: Applies, arguments: Sequence[Any], options: Mapping[str, Any]
) -> tuple[str, list[Theorem], list[str]]:
    """The text of the call, the theorems that it went through after that of the session, and what there is to say.

    `on` is a session of its own: what is refused there leaves the one that asks as it was.
    """
    name = name_of(tactic)
    try:
        inspect.signature(tactic).bind(on, *arguments, **options)
    except TypeError as error:
        raise InvalidArgument(
            f"{name} does not take what is given: {error}",
            required=f"def {name}{inspect.signature(tactic)}, of which the session comes first",
        ) from None
    except ValueError:
        pass  # of what is written in C nothing is known
    before = list(on.steps)
    made = len(before)
    try:
        given = tactic(on, *arguments, **options)
    except ATLError as error:
        done = len(on.steps) - made
        error.summary += f", after {done} call{'s' if done > 1 else ''} of {name}" if done > 0 else ""
        raise
    if inspect.isawaitable(given) or inspect.isgenerator(given) or inspect.isasyncgen(given):
        close = getattr(given, "close", None)
        if close is not None:
            close()  # a coroutine that nobody awaits warns
        raise InvalidArgument(
            f"{name} has not run: it gives {brief(given)}", required="a plain function, without yield, async or await"
        )
    if list(on.steps[:made]) != before:
        raise InvalidArgument(
            f"{name} takes back calls that it has not made", required="s.undo() of its own calls only"
        )
    written = [display.written(value) for value in arguments]
    written += [f"{key}={display.written(value)}" for key, value in options.items()]
    theorems: list[Theorem] = []
    for call in on.steps[made:]:
        # The first theorem of a call says what was said before it, perhaps with other marks.
        theorems = [*theorems[:-1], *call.theorems]
    return f"{name}({', '.join(written)})", theorems, [note for call in on.steps[made:] for note in call.notes]


class OnGpu(ABC):
    """What carries out tactics, with the calls for a GPU."""

    @abstractmethod
    def do(self: G, tactic: Callable[Concatenate[Derivation, P], object], *arguments: P.args, **options: P.kwargs) -> G:
        """Carries out a tactic as one call."""

    def gpu_map(self: G, name: Target | Sequence[Target], by: Any, *, in_: Target | None = None) -> G:
        """Runs loops in tiles, a block for each, and the loops within as its threads; the last one along x."""
        return self.do(built_in.gpu_map, within(name, in_), by)

    def coalesce(self: G, what: Target) -> G:
        """Gives the threads along x to the loop along which what is read lies side by side in memory."""
        return self.do(built_in.coalesce, what)

    def stage_shared(self: G, what: Target, *, at: Target, name: str | None = None) -> G:
        """Copies what a block reads of an operand to a tile in shared memory, by all of its threads."""
        return self.do(built_in.stage_shared, what, at=at, name=name)

    def stage_registers(self: G, what: Target, *, at: Target, name: str | None = None) -> G:
        """Keeps a sum, or what is read, in the registers of the threads, within each iteration of a loop."""
        return self.do(built_in.stage_registers, what, at=at, name=name)

    def pad_rows(self: G, name: Target, by: Any = 1) -> G:
        """Stores a let with room for so many more elements after each row, which nobody reads."""
        return self.do(built_in.pad_rows, name, by)

    def store_transposed(self: G, name: Target) -> G:
        """Stores a let with its last two dimensions exchanged."""
        return self.do(built_in.store_transposed, name)
