"""Places of a program: a path, the subterm, and, when asked for, what is known and what things are called there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from atl.checks.safety import safe_scope_of_child
from atl.checks.scope import Scope, outermost, scope_of_child
from atl.core.index import Index, Var
from atl.core.node import is_position
from atl.core.program import Program
from atl.core.terms import Expr, Gen, Let, Reduce
from atl.core.traversal import Path, binds, children, names_bound, names_given
from atl.errors import InvalidArgument, brief
from atl.text.names import Names
from atl.text.printing import text_at


class Cursor:
    """A subterm and where it stands. Facts and names are worked out only when they are asked for."""

    def __init__(self, program: Program, path: Path, term: Expr, above: Cursor | None) -> None:
        self.program = program
        self.path = path
        self.term = term
        self.above = above

    def child(self, position: int) -> Cursor:
        """The place of a direct part."""
        return Cursor(self.program, (*self.path, position), children(self.term)[position].expr, self)

    def spine(self) -> list[Cursor]:
        """The places from the whole program down to this one."""
        out: list[Cursor] = []
        at: Cursor | None = self
        while at is not None:
            out.append(at)
            at = at.above
        return out[::-1]

    @cached_property
    def scope(self) -> Scope:
        """The facts that binders, guards and assumptions put in scope here."""
        if self.above is None:
            return outermost(self.program)
        return scope_of_child(self.above.term, self.path[-1], self.above.scope)

    @cached_property
    def safe_scope(self) -> Scope:
        """As `scope`, without what is said of elements that are not proved to be there (`safe_scope_of_child`)."""
        if self.above is None:
            return outermost(self.program)
        return safe_scope_of_child(self.above.term, self.path[-1], self.above.safe_scope)

    @property
    def loop(self) -> tuple[Var, Index, Index]:
        """The variable of the loop that stands here, and where its range begins and ends, as they are seen inside."""
        assert isinstance(self.term, Gen | Reduce)
        variable = Var(len(self.scope.indices), self.term.name)
        return variable, self.scope.index(self.term.low), self.scope.index(self.term.high)

    @cached_property
    def names(self) -> Names:
        """What the printer calls indices and let-bound tensors here."""
        names = Names((*self.program.sizes, *(array.name for array in self.program.inputs)))
        for outer, inner in zip(self.spine(), self.spine()[1:], strict=False):
            indices, tensors = names_bound(outer.term, inner.path[-1])
            for name in indices:
                names.bind_index(name)
            for name in tensors:
                names.bind_tensor(name)
        return names

    @property
    def called(self) -> tuple[str, ...]:
        """The names of what is bound here: as they are printed, and as they were given."""
        given = names_given(self.term)
        if not given:
            return ()
        # The names of this place are kept: the printed ones are only looked up.
        names = Names((*self.program.sizes, *(array.name for array in self.program.inputs)))
        for taken in (*self.names.indices, *self.names.tensors):
            names.fresh(taken)
        return tuple(dict.fromkeys((*map(names.fresh, given), *given)))

    def __repr__(self) -> str:
        return f"{list(self.path)}  {text_at(self.program, self.path)}"


def cursor_at(program: Program, path: Path) -> Cursor:
    """The place at the end of a path."""
    cursor = Cursor(program, (), program.body, None)
    for position in checked_path(program, path):
        cursor = cursor.child(position)
    return cursor


def checked_path(program: Program, path: Path) -> Path:
    """The path, if it leads to a part of the program. Raises `InvalidArgument`."""
    at = program.body
    for position in path if isinstance(path, tuple | list) else (None,):
        if not is_position(position) or position >= len(children(at)):
            raise InvalidArgument(
                f"the goal has no part at {brief(list(path) if isinstance(path, tuple) else path)}",
                required="positions of parts, from the outside in, each counted from 0",
                suggestions=('name the place: at="i" for a binder, at="⊞[_ < n] _" for a pattern',),
            )
        at = children(at)[position].expr
    return path


def cursors(program: Program, *, below: Path = (), top_down: bool = False) -> Iterator[Cursor]:
    """The places of a program from `below` on: children first and from left to right, or nodes first.

    Of a let the body comes before the binding when children come first (section 3 of the reference, search order).
    """
    yield from walk(cursor_at(program, below), top_down=top_down)


def walk(cursor: Cursor, *, top_down: bool = False) -> Iterator[Cursor]:
    """This place and all below it, in one of the two orders."""
    if top_down:
        yield cursor
    for position in positions(cursor.term, top_down=top_down):
        yield from walk(cursor.child(position), top_down=top_down)
    if not top_down:
        yield cursor


def positions(term: Expr, *, top_down: bool = False) -> tuple[int, ...]:
    """The positions of the direct parts in the order of a search."""
    found = tuple(range(len(children(term))))
    return found[::-1] if isinstance(term, Let) and not top_down else found


def binders(program: Program) -> Iterator[Cursor]:
    """The generations, reductions and lets, from the outside in and from left to right."""
    return (cursor for cursor in cursors(program, top_down=True) if binds(cursor.term))
