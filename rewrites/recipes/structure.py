"""The structure of a goal that recipes look at: its nests, the loops of each, and what the elements read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Final

from atl.core import index as ix
from atl.core import terms
from atl.core.dtypes import STORED
from atl.core.marks import CallMark
from atl.core.predicate import less
from atl.core.program import Program
from atl.core.traversal import Path, children
from atl.prove import proves
from atl.text.pretty import UNBROKEN
from atl.text.printing import layout_with_heads
from rewrites.cursors.cursor import Cursor, cursor_at, walk
from rewrites.cursors.targets import Target, chosen, named


@dataclass(frozen=True, slots=True)
class Loop:
    """A generation or a reduction: its cursor, its variable in opened indices, and its extent."""

    cursor: Cursor
    variable: ix.Var
    extent: ix.Index

    @property
    def path(self) -> Path:
        """The path of the loop in the goal."""
        return self.cursor.path

    @property
    def trips(self) -> int | None:
        """The number of iterations if it is a constant."""
        return self.extent.constant

    def is_shorter(self, count: int) -> bool:
        """Return whether the loop is proved to have fewer iterations than a number."""
        return proves(self.cursor.scope.facts, less(self.extent, ix.constant(count)))


@dataclass(frozen=True, slots=True)
class Read:
    """An element read of an input or a let: its cursor, the operand's name, and the opened index of each dimension."""

    cursor: Cursor
    name: str
    indices: tuple[ix.Index, ...]

    def factor(self, loop: Loop, dimension: int = -1) -> int | None:
        """Return the factor of a loop's index in one dimension: 0 without it, None if it is not a constant."""
        factor = ix.factor_of(self.indices[dimension], loop.variable)
        return None if factor is None else factor.constant

    @property
    def is_stored(self) -> bool:
        """True if the elements are of a type that is only stored, so that they are converted before use."""
        return self.cursor.term.type.dtype in STORED

    def depends_on(self, loop: Loop, before: int | None = None) -> bool:
        """Return whether the element depends on a loop, by an index in one of the dimensions before a given one."""
        return any(loop.variable in ix.atoms(index) for index in self.indices[:before])


def loop_at(cursor: Cursor) -> Loop:
    """Return the loop at a cursor."""
    variable, low, high = cursor.loop
    return Loop(cursor, variable, high - low)


def loops_below(cursor: Cursor) -> Iterator[Loop]:
    """Yield the generations from a place on, directly nested up to guards, reshape operators and lets."""
    while True:
        match cursor.term:
            case terms.Gen():
                yield loop_at(cursor)
                cursor = cursor.child(0)
            case terms.Guard() | terms.Reshape():
                cursor = cursor.child(0)
            case terms.Let():
                cursor = cursor.child(1)
            case _:
                return


def reads_below(cursor: Cursor) -> Iterator[Read]:
    """Yield the element reads below a place, in search order."""
    for found in walk(cursor, top_down=True):
        above = found.above
        inner = above is not None and isinstance(above.term, terms.Access)
        if isinstance(found.term, terms.Access) and not inner and (read := as_read(found)) is not None:
            yield read


def as_read(cursor: Cursor) -> Read | None:
    """Return the read of an input or a let at a cursor, or None."""
    indices: list[ix.Index] = []
    at = cursor
    while isinstance(at.term, terms.Access):
        indices.append(at.scope.index(at.term.index))
        at = at.child(0)
    match at.term:
        case terms.Input(array):
            return Read(cursor, array.name, tuple(reversed(indices)))
        case terms.Local(position):
            return Read(cursor, at.names.of_tensor(position), tuple(reversed(indices)))
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops that compute the value of a let, or the result: `name` is the let's, or None."""

    cursor: Cursor
    name: str | None

    @property
    def loops(self) -> Sequence[Loop]:
        """The generations from the outside in."""
        return list(loops_below(self.cursor))


def outer_nests(program: Program) -> list[Nest]:
    """Return the nests of the lets around the result, and that of the result last."""
    found: list[Nest] = []
    cursor = cursor_at(program, ())
    while isinstance(cursor.term, terms.Let):
        found.append(Nest(cursor.child(0), cursor.called[0]))
        cursor = cursor.child(1)
    return [*found, Nest(cursor, None)]


def everywhere(program: Program) -> Iterator[Cursor]:
    """Yield the cursors of a program, from the outside in."""
    return walk(cursor_at(program, ()), top_down=True)


def has_call(term: terms.Expr) -> bool:
    """Return whether an instruction computes loops of a term. Recipes leave such nests as they are."""
    marked = isinstance(term, terms.Gen | terms.Reduce) and isinstance(term.mark, CallMark)
    return marked or any(has_call(child.expr) for child in children(term))


def uncalled_places(program: Program) -> Iterator[Cursor]:
    """Yield the cursors of a program, from the outside in, without nests with calls and the lets of these nests."""
    called = {nest.cursor.path for nest in outer_nests(program) if has_call(nest.cursor.term)}
    for cursor in everywhere(program):
        inside = any(cursor.path[:length] in called for length in range(len(cursor.path) + 1))
        if not inside and (*cursor.path, 0) not in called:
            yield cursor


def below(cursor: Cursor) -> Iterator[Cursor]:
    """Yield the cursors below a place, without the place itself."""
    return islice(walk(cursor, top_down=True), 1, None)


DEEPEST: Final = 3
"""Maximum number of nested loops that a pattern names."""


def target_of(program: Program, path: Path) -> Target:
    """Return a readable target for a place: a name or a pattern if that is its first place, or else the path."""
    cursor = cursor_at(program, path)
    if cursor.called:
        first = next(named(program, cursor.called[0], top_down=True), None)
        if first is not None and first.path == path:
            return cursor.called[0]
    pattern, layout = "_", layout_with_heads(program, width=UNBROKEN)
    for _ in range(DEEPEST):
        if not isinstance(cursor.term, terms.Gen | terms.Reduce):
            break
        start, stop = layout.heads[cursor.path]
        pattern = f"{pattern[:-1]}{layout.text[start:stop]} _"
        first = next(chosen(program, pattern, top_down=True), None)
        if first is not None and first.path == path:
            return pattern
        cursor = cursor.child(0)
    return path


def unused_name(program: Program, name: str) -> str:
    """Return a name for a new buffer that no binder, input or size of the program has."""
    taken = {called for cursor in everywhere(program) for called in cursor.called}
    taken |= {array.name for array in program.inputs} | set(program.sizes)
    return next(tried for k in count() if (tried := f"{name}{k}" if k else name) not in taken)
