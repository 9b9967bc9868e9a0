"""Handles in sessions: where a place that was found is now, and whether it is a place of this session at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atl.core.program import Program
from atl.core.traversal import Path, names_given, subterm
from rewrites.derivation import path_after
from rewrites.errors import NoSite
from rewrites.kernel import Theorem
from rewrites.places.choosing import Handle
from rewrites.places.site import binders
from rewrites.session.call import Call


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
        """Where the place is in the session in which it was found. Raises `NoSite` as `place_in` does."""
        return self.after(self.calls, label)

    def after(self, calls: Sequence[Call], label: str) -> Path:
        """Where the place is in a session with the same start and these calls."""
        if tuple(calls[: len(self.trail)]) != self.trail:
            raise NoSite(
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

    A branch has the calls of its parent, and so its handles. Raises `NoSite` for a handle of another session, for one
    found after calls that have been undone or that this session has not made, and for a place that is gone.
    """
    origin = handle.origin
    if not isinstance(origin, Origin) or origin.start is not start:
        raise NoSite(
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
        raise NoSite(
            f"the place {label} is gone: {gone.rule.name} took it away, in {call.text}",
            required="a place of this goal",
            suggestions=(f"s.undo() goes back; call {number} is the one",),
        )
    return moved


def _named_so(program: Program, names: tuple[str, ...]) -> Path | None:
    """The only binder that was given these names: a tactic may take a binder away and make it anew."""
    found = [site.path for site in binders(program) if names_given(site.term) == names]
    return found[0] if len(found) == 1 else None
