"""Cursors: a path into a program, the subterm there, and lazily the facts and the names in scope."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from atl.checks.safety import safe_scope_of_child
from atl.checks.scope import Scope, outermost, scope_of_child
from atl.checks.wellformed import inspects_subterms
from atl.core.index import Index, Var
from atl.core.node import is_position
from atl.core.program import Program
from atl.core.terms import Expr, Gen, Let, Rec, Reduce
from atl.core.traversal import Path, binds, children, names_bound, names_given
from atl.errors import InvalidArgument, brief
from atl.text.index_notation import Names
from atl.text.printing import text_at


class Cursor:
    """A subterm with its path in a program. Facts and names are computed on first use."""

    def __init__(self, program: Program, path: Path, term: Expr, above: Cursor | None) -> None:
        self.program = program
        self.path = path
        self.term = term
        self.above = above

    def child(self, position: int) -> Cursor:
        """Return the cursor of a direct part."""
        return Cursor(self.program, (*self.path, position), children(self.term)[position].expr, self)

    def spine(self) -> list[Cursor]:
        """Return the cursors from the whole program down to this one."""
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
        """The facts of `scope` without those about elements that may be out of range (`safe_scope_of_child`)."""
        if self.above is None:
            return outermost(self.program)
        return safe_scope_of_child(self.above.term, self.path[-1], self.above.safe_scope)

    @cached_property
    def is_inspected(self) -> bool:
        """True if an enclosing term depends on more than the type of this one."""
        return self.above is not None and (inspects_subterms(self.above.term) or self.above.is_inspected)

    @property
    def loop(self) -> tuple[Var, Index, Index]:
        """The variable and the bounds of the loop or recurrence at this cursor, as seen inside of it."""
        assert isinstance(self.term, Gen | Reduce | Rec)
        variable = Var(len(self.scope.indices), self.term.name)
        return variable, self.scope.index(self.term.low), self.scope.index(self.term.high)

    @cached_property
    def names(self) -> Names:
        """The printed names of the indices and let-bound tensors in scope."""
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
        """The names bound by this node: the printed names first, then the names as written."""
        given = names_given(self.term)
        if not given:
            return ()
        # Work on a copy: `self.names` must not change.
        names = Names((*self.program.sizes, *(array.name for array in self.program.inputs)))
        for taken in (*self.names.indices, *self.names.tensors):
            names.fresh(taken)
        return tuple(dict.fromkeys((*map(names.fresh, given), *given)))

    def __repr__(self) -> str:
        return f"{list(self.path)}  {text_at(self.program, self.path)}"


def cursor_at(program: Program, path: Path) -> Cursor:
    """Return the cursor at a path."""
    cursor = Cursor(program, (), program.body, None)
    for position in checked_path(program, path):
        cursor = cursor.child(position)
    return cursor


def checked_path(program: Program, path: Path) -> Path:
    """Return the path if it exists in the program. Raises `InvalidArgument` otherwise."""
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
    """Yield the cursors at and below a path: children before their parent from left to right, or parents first.

    If children come first, the body of a let comes before its value (section 3 of the reference, search order).
    """
    yield from walk(cursor_at(program, below), top_down=top_down)


def walk(cursor: Cursor, *, top_down: bool = False) -> Iterator[Cursor]:
    """Yield this cursor and all below it, in the order of `cursors`."""
    pending = [(cursor, False)]
    while pending:
        at, visited = pending.pop()  # `visited`: its parts were yielded
        if top_down or visited:
            yield at
        if not visited:
            if not top_down:
                pending.append((at, True))
            pending += ((at.child(each), False) for each in reversed(positions(at.term, top_down=top_down)))


def positions(term: Expr, *, top_down: bool = False) -> tuple[int, ...]:
    """Return the positions of the direct parts in search order."""
    found = tuple(range(len(children(term))))
    return found[::-1] if isinstance(term, Let) and not top_down else found


def binders(program: Program) -> Iterator[Cursor]:
    """Yield the generations, reductions and lets, from the outside in and from left to right."""
    return (cursor for cursor in cursors(program, top_down=True) if binds(cursor.term))
