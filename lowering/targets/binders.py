"""Marked binders followed through lowering: each is called by its number while an equal program is made of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from atl.checks.targets import MarkedBinder
from atl.core.marks import LoopMark
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr
from atl.core.traversal import Path, children, names_given


def numbered(program: Program, binders: tuple[MarkedBinder, ...]) -> Program:
    """The program in which each marked loop, and each marked let of a tensor, is called by its number among these.

    An equal program is made of it before it is lowered, with other paths; names and marks stay together there. So a
    loop or a buffer is traced back to its own binder, and not to another one of the same name.
    """
    numbers = {binder.path: str(at) for at, binder in enumerate(binders) if binder.kind != "scalar"}
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


def number_of_loop(e: Expr) -> int | None:
    """The number of a term of a `numbered` program among the binders, if it is a loop with a mark."""
    marked = type(e).form.mark
    if marked is None or marked.of is not LoopMark or getattr(e, marked.field) is LoopMark.NONE:
        return None
    return int(names_given(e)[0])
