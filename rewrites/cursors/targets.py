"""The places that `at=` and `around=` choose in a goal."""

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
    """What whoever found a place knows of it, by which it is followed: sessions have their own kind."""

    def now(self, label: str) -> Path:
        """The path of the place as it is now; `label` is what errors call it. Raises `DoesNotApply` once it is gone."""


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """A place that is followed through later rewrites: `s.rw(…, at=handle)`.

    `path` is where it is now. Raises `DoesNotApply` once a rewrite has taken the place away.
    """

    label: str
    origin: Followed = field(repr=False)
    """Where it was found: another session than that one, and than its branches, refuses it."""

    @property
    def path(self) -> Path:
        """The place as it is now."""
        return self.origin.now(self.label)

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not isinstance(self.origin, Followed):
            raise InvalidArgument(f"a handle on {brief(self.label)}", required="what s.find(…) gives")

    def __copy__(self) -> Handle:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> Handle:
        return self

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            f"the handle {self.label} is not pickled: it is a place of one session",
            required="its label, by which another session finds such a place",
            suggestions=(f"s.find({self.label!r}) in the session that is to go on",),
        )

    def __repr__(self) -> str:
        try:
            path = self.path
            return f"Handle({self.label!r}, at {list(path) if isinstance(path, tuple) else brief(path)})"
        except ATLError:
            return f"Handle({self.label!r}, gone)"


@dataclass(frozen=True, slots=True)
class Within:
    """The places that `what` chooses inside of the let or loop that `outer` chooses: `s.tile("i", 8, in_="buf")`.

    Inside of a let is its value and not its body.
    """

    what: Target
    outer: Target

    def __str__(self) -> str:
        return f"{self.what} in {self.outer}"

    def __repr__(self) -> str:
        return f"s.find({self.what!r}, in_={self.outer!r})"


Target: TypeAlias = Path | str | Handle | Within
"""A path, the name of a binder or a let, a pattern in the printed notation, a handle, or one of these in a let."""


@overload
def within(what: Target, outer: Target | None) -> Target: ...
@overload
def within(what: Target | Sequence[Target], outer: Target | None) -> Target | Sequence[Target]: ...
def within(what: Any, outer: Any) -> Any:
    """Return the same choice, or each of a list of them, inside of `outer`; all of the goal where that is None."""
    if outer is None:
        return what
    if isinstance(what, list | tuple) and not all(type(position) is int for position in what):
        return [Within(each, outer) for each in what]
    return Within(what, outer)


def chosen(program: Program, what: Target, *, top_down: bool = False) -> Iterator[Cursor]:
    """The places that are meant, in the order of a search."""
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
                f"{brief(what)} chooses no place",
                required='a path, the name of a binder, a pattern such as "⊞[_ < n] _", or a handle from s.find(…)',
            )


def _is_inside(path: Path, outer: Cursor) -> bool:
    """Whether a place is in the value of a let, or below any other node."""
    top = (*outer.path, 0) if isinstance(outer.term, Let) else outer.path
    return path[: len(top)] == top and path != outer.path


def named(program: Program, name: str, *, top_down: bool = False) -> Iterator[Cursor]:
    """The binders that are printed with this name; where nothing is, those that were given it."""
    found = [cursor for cursor in cursors(program, top_down=top_down) if name in cursor.called]
    printed = [cursor for cursor in found if cursor.called[0] == name]
    shown = printed or any(array.name == name for array in program.inputs)
    yield from printed if shown else found


def one(program: Program, what: Target) -> Cursor:
    """The first place that is meant, from the outside in. Raises `DoesNotApply` with what there is to choose from."""
    return every(program, what)[0]


def every(program: Program, what: Target) -> list[Cursor]:
    """The places that are meant, from the outside in. Raises `DoesNotApply` with what there is to choose from."""
    found = list(chosen(program, what, top_down=True))
    if not found:
        raise nothing_chosen(program, what)
    return found


def nothing_chosen(program: Program, what: Target, *, operand: bool = False) -> DoesNotApply:
    """What to say when nothing in the goal is meant; an `operand` may be an input too."""
    inside = "in the goal"
    within = list(cursors(program, top_down=True))
    if isinstance(what, Within):
        around = every(program, what.outer)
        inside = f"inside of {what.outer}"
        within = [cursor for cursor in within if any(_is_inside(cursor.path, each) for each in around)]
        what = what.what
    if isinstance(what, str) and not is_name(what):
        return nothing_fits(what, inside, within)
    names = [cursor.called[0] for cursor in within if binds(cursor.term)]
    names += [array.name for array in program.inputs] if operand else []
    label = what if isinstance(what, str) else brief(what)
    return DoesNotApply(
        f"nothing {inside} is bound as {label}",
        required=f"the name of {'an input, ' if operand else ''}a gen, a sum or a let: {known_names(names)}"
        if names
        else f"a binder {inside}",
        suggestions=unknown_name("binder", label, names, required="").suggestions,
    )


def places(program: Program, at: Target | None, around: Target | None, *, top_down: bool = False) -> Iterable[Cursor]:
    """The places at which to try: those that `around` fits, within those that `at` chooses; without both, all."""
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
    """The paths that are not below another one of them."""
    return [path for path in paths if not any(path != o and path[: len(o)] == o for o in paths)]
