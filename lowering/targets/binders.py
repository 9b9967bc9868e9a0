"""Marked binders followed through lowering: each is called by its number while an equal program is made of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from atl.core.marks import LoopMark
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr
from atl.core.traversal import Path, children, names_given
from lowering.targets.supported import MarkedBinder

_TRACED: Final = "\0"
"""What the name of a loop begins with that is called by its number: no name of a person's does."""


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
    return int(names_given(e)[0]) if is_loop(e) and not is_unmarked(e) else None


def is_loop(e: Expr) -> bool:
    """Whether a term is one that a loop is made of."""
    marked = type(e).form.mark
    return marked is not None and marked.of is LoopMark


def is_unmarked(loop: Expr) -> bool:
    """Whether a loop has no mark."""
    marked = type(loop).form.mark
    return marked is None or getattr(loop, marked.field) is LoopMark.NONE


@dataclass(frozen=True, slots=True)
class Traced:
    """A program whose loops without a mark are each called by their number among `loops`: its path, and its name."""

    program: Program
    loops: tuple[tuple[Path, str], ...] = ()

    def found(self, name: str) -> tuple[Path | None, str]:
        """The path of the binder that a loop is called after, and the name that it was given."""
        return self.loops[int(name[1:])] if name.startswith(_TRACED) else (None, name)


def traced(program: Program) -> Traced:
    """The program with all loops followed that have no mark: `numbered` does so for the others."""
    loops: list[tuple[Path, str]] = []

    def followed(e: Expr, path: Path) -> Expr:
        followed_here = is_loop(e) and is_unmarked(e)
        number = len(loops)
        if followed_here:
            loops.append((path, names_given(e)[0]))
        out = with_children(e, tuple(followed(child.expr, (*path, at)) for at, child in enumerate(children(e))))
        if not followed_here:
            return out
        return replace(out, **{type(e).form.binders[0].name: f"{_TRACED}{number}"})  # type: ignore[arg-type]

    return Traced(replace(program, body=followed(program.body, ())), tuple(loops))
