"""Targets: the values of `at=` and `around=`, and the places of a goal that they choose."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeAlias, overload, runtime_checkable

from atl.core.program import Program
from atl.core.terms import Let
from atl.core.traversal import Path, binds
from atl.errors import ATLError, InvalidArgument, brief
from rewrites.cursors.cursor import Cursor, cursor_at, cursors, walk
from rewrites.cursors.near_miss import nothing_fits
from rewrites.cursors.text_pattern import fits, is_name, pattern
from rewrites.errors import DoesNotApply, known_names, unknown_name


@runtime_checkable
class Followed(Protocol):
    """Interface for following a place through rewrites. Sessions implement it."""

    def now(self, label: str) -> Path:
        """Return the current path; `label` is its name in errors. Raises `DoesNotApply` if the place was removed."""


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """A place that is followed through later rewrites: `s.rw(…, at=handle)`.

    `path` is its current path. Reading it raises `DoesNotApply` if a rewrite has removed the place.
    """

    label: str
    origin: Followed = field(repr=False)
    """The session in which the place was found. Only this session and its branches accept the handle."""

    @property
    def path(self) -> Path:
        """The current path of the place."""
        return self.origin.now(self.label)

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not isinstance(self.origin, Followed):
            raise InvalidArgument(f"invalid handle on {brief(self.label)}", required="a handle returned by s.find(…)")

    def __copy__(self) -> Handle:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> Handle:
        return self

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            f"the handle {self.label} cannot be pickled: it belongs to one session",
            required="its label, with which another session can find the place",
            suggestions=(f"s.find({self.label!r}) in the other session",),
        )

    def __repr__(self) -> str:
        try:
            path = self.path
            return f"Handle({self.label!r}, at {list(path) if isinstance(path, tuple) else brief(path)})"
        except ATLError:
            return f"Handle({self.label!r}, gone)"


@dataclass(frozen=True, slots=True)
class Within:
    """The target `what` restricted to the inside of the let or loop `outer`: `s.tile("i", 8, in_="buf")`.

    The inside of a let is its value, not its body.
    """

    what: Target
    outer: Target

    def __str__(self) -> str:
        return f"{self.what} in {self.outer}"

    def __repr__(self) -> str:
        return f"s.find({self.what!r}, in_={self.outer!r})"


Target: TypeAlias = Path | str | Handle | Within
"""A path, the name of a loop, sum or let, a pattern in the printed notation, a handle, or one of these in a let."""


@overload
def restrict(what: Target, outer: Target | None) -> Target: ...
@overload
def restrict(what: Target | Sequence[Target], outer: Target | None) -> Target | Sequence[Target]: ...
def restrict(what: Any, outer: Any) -> Any:
    """Restrict a target, or each of a list of targets, to the inside of `outer`; None means no restriction."""
    if outer is None:
        return what
    if isinstance(what, list | tuple) and not all(type(position) is int for position in what):
        return [Within(each, outer) for each in what]
    return Within(what, outer)


def chosen(program: Program, what: Target, *, top_down: bool = False) -> Iterator[Cursor]:
    """Yield the places of a target, in search order."""
    match what:
        case Handle():
            yield cursor_at(program, what.path)
        case Within(inner, outer):
            around = every(program, outer)
            yield from (
                cursor
                for cursor in chosen(program, inner, top_down=top_down)
                if any(_is_inside(cursor.path, each) for each in around)
            )
        case str() if is_name(what) and (found := list(named(program, what, top_down=top_down))):
            yield from found
        case str():
            wanted = pattern(what)
            yield from (cursor for cursor in cursors(program, top_down=top_down) if fits(wanted, cursor))
        case tuple() | list() if all(type(position) is int for position in what):
            yield cursor_at(program, tuple(what))
        case _:
            raise InvalidArgument(
                f"{brief(what)} is not a target",
                required='a path, the name of a binder, a pattern such as "⊞[_ < n] _", or a handle from s.find(…)',
            )


def _is_inside(path: Path, outer: Cursor) -> bool:
    """Return whether a path is inside the value of a let, or below any other node."""
    top = (*outer.path, 0) if isinstance(outer.term, Let) else outer.path
    return path[: len(top)] == top and path != outer.path


def named(program: Program, name: str, *, top_down: bool = False) -> Iterator[Cursor]:
    """Yield the binders that are printed with this name; if there are none, those written with it."""
    found = [cursor for cursor in cursors(program, top_down=top_down) if name in cursor.called]
    printed = [cursor for cursor in found if cursor.called[0] == name]
    shown = printed or any(array.name == name for array in program.inputs)
    yield from printed if shown else found


def one(program: Program, what: Target) -> Cursor:
    """Return the first place of a target, from the outside in. Raises `DoesNotApply` with the possible names."""
    return every(program, what)[0]


def every(program: Program, what: Target) -> list[Cursor]:
    """Return the places of a target, from the outside in. Raises `DoesNotApply` with the possible names."""
    found = list(chosen(program, what, top_down=True))
    if not found:
        raise nothing_chosen(program, what)
    return found


def nothing_chosen(program: Program, what: Target, *, operand: bool = False) -> DoesNotApply:
    """Return the error for a target without places; with `operand` inputs are possible names too."""
    inside = "in the goal"
    within = list(cursors(program, top_down=True))
    if isinstance(what, Within):
        around = every(program, what.outer)
        inside = f"inside of {what.outer}"
        within = [cursor for cursor in within if any(_is_inside(cursor.path, each) for each in around)]
        what = what.what
    if isinstance(what, str) and not is_name(what):
        return nothing_fits(what, inside, within)
    names = [name for cursor in within if binds(cursor.term) for name in cursor.called]
    names += [array.name for array in program.inputs] if operand else []
    label = what if isinstance(what, str) else brief(what)
    return DoesNotApply(
        f"no {'input, ' if operand else ''}loop, sum or let {inside} is named {label}",
        required=f"one of the names {known_names(names)}" if names else f"a loop, sum or let {inside}",
        suggestions=unknown_name("binder", label, names, required="").suggestions,
    )


def places(program: Program, at: Target | None, around: Target | None, *, top_down: bool = False) -> Iterable[Cursor]:
    """Yield the places to try: those of `around` inside those of `at`, or all places below `at`."""
    within: list[Path] = [()] if at is None else [cursor.path for cursor in chosen(program, at, top_down=top_down)]
    if not within:
        raise nothing_chosen(program, at or "")
    if around is None:
        return _all_below(program, within, top_down)
    exact = [
        cursor
        for cursor in chosen(program, around, top_down=top_down)
        if any(cursor.path[: len(above)] == above for above in within)
    ]
    if not exact:
        raise nothing_chosen(program, around)
    return exact


def _all_below(program: Program, within: list[Path], top_down: bool) -> Iterator[Cursor]:
    for path in topmost(within):
        yield from walk(cursor_at(program, path), top_down=top_down)


def topmost(paths: Collection[Path]) -> list[Path]:
    """Return the paths that are not below another of these paths."""
    return [path for path in paths if not any(path != o and path[: len(o)] == o for o in paths)]
