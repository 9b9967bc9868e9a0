"""The binders of a program that have a mark, each with its place: what a target is asked to carry out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, assert_never

from atl.core.forms import TensorBinder
from atl.core.marks import LetMark, LoopMark, Mark
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr
from atl.core.traversal import Path, children, names_given
from atl.errors import Location
from atl.text.printing import place_of

Kind: TypeAlias = Literal["loop", "scalar", "buffer"]
"""What a marked binder makes: a loop, or a place for a number or for a tensor."""


@dataclass(frozen=True, slots=True)
class MarkedBinder:
    """A binder with a mark: its path in the program, what it makes, its name and its mark."""

    path: Path
    kind: Kind
    name: str
    mark: Mark
    program: Program = field(repr=False)

    @property
    def place(self) -> Location:
        """Where it stands, for carets."""
        return place_of(self.program, self.path)


def marked_binders(program: Program) -> tuple[MarkedBinder, ...]:
    """The binders of a program that have a mark, from the outside in: those too that nothing is lowered from."""
    known: dict[int, bool] = {}

    def has_marks(e: Expr) -> bool:
        if id(e) not in known:
            known[id(e)] = _mark_of(e) is not None or any(has_marks(child.expr) for child in children(e))
        return known[id(e)]

    def visit(e: Expr, path: Path) -> Iterator[MarkedBinder]:
        mark = _mark_of(e)
        if mark is not None:
            yield MarkedBinder(path, _kind(e, mark), names_given(e)[0], mark, program)
        for position, child in enumerate(children(e)):
            if has_marks(child.expr):
                yield from visit(child.expr, (*path, position))

    return tuple(visit(program.body, ()))


def _mark_of(e: Expr) -> Mark | None:
    marked = type(e).form.mark
    if marked is None:
        return None
    mark: Mark = getattr(e, marked.field)
    return mark if mark.value else None


def _kind(e: Expr, mark: Mark) -> Kind:
    match mark:
        case LoopMark():
            return "loop"
        case LetMark():
            values = [getattr(e, binder.value) for binder in type(e).form.binders if isinstance(binder, TensorBinder)]
            return "buffer" if any(value.type.rank for value in values) else "scalar"
        case _:
            assert_never(mark)


def numbered(program: Program, binders: tuple[MarkedBinder, ...]) -> Program:
    """The program in which each marked let of a tensor is called by its number among these binders.

    An equal program is made of it before it is lowered, with other paths; names and marks stay together there. So a
    buffer is traced back to its own let, and not to another one of the same name.
    """
    numbers = {binder.path: str(at) for at, binder in enumerate(binders) if binder.kind == "buffer"}
    return replace(program, body=_named(program.body, numbers)) if numbers else program


def _named(e: Expr, names: Mapping[Path, str]) -> Expr:
    """The term with other names for what is bound at these paths."""
    parts = [child.expr for child in children(e)]
    for position in {path[0] for path in names if path}:
        below = {path[1:]: name for path, name in names.items() if path[:1] == (position,)}
        parts[position] = _named(parts[position], below)
    out = with_children(e, tuple(parts))
    if () in names:
        out = replace(out, **{type(out).form.binders[0].name: names[()]})  # type: ignore[arg-type]
    return out
