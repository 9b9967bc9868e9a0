"""Tracing of binders through lowering: marked binders, and programs whose loops are renamed to their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from atl.core.marks import LoopMark
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr
from atl.core.traversal import Path, children, names_given
from lowering.targets.capabilities import MarkedBinder

_PREFIX: Final = "\0"
"""Prefix of the names of numbered loops without a mark; no user's name begins with it."""


def numbered(program: Program, binders: tuple[MarkedBinder, ...]) -> Program:
    """Rename each marked loop, and each marked let of a tensor, to its index in `binders`.

    Before it is lowered, the program is rewritten, which changes paths but keeps names and marks together. By its
    number, a loop or a buffer is traced to its original binder, and not to another binder of the same name.
    """
    numbers = {binder.path: str(at) for at, binder in enumerate(binders) if binder.kind != "scalar"}
    return replace(program, body=_named(program.body, numbers)) if numbers else program


def _named(e: Expr, names: Mapping[Path, str]) -> Expr:
    """Rename what is bound at these paths."""
    parts = [child.expr for child in children(e)]
    for position in {path[0] for path in names if path}:
        below = {path[1:]: name for path, name in names.items() if path[:1] == (position,)}
        parts[position] = _named(parts[position], below)
    out = with_children(e, tuple(parts))
    if () in names:
        out = replace(out, **{type(out).form.binders[0].name: names[()]})  # type: ignore[arg-type]
    return out


def number_of_loop(e: Expr) -> int | None:
    """Return the number of a marked loop in a `numbered` program; None for other terms."""
    return int(names_given(e)[0]) if is_loop(e) and not is_unmarked(e) else None


def is_loop(e: Expr) -> bool:
    """Return whether a term is lowered to a loop."""
    marked = type(e).form.mark
    return marked is not None and marked.of is LoopMark


def is_unmarked(loop: Expr) -> bool:
    """Return whether a loop has no mark."""
    marked = type(loop).form.mark
    return marked is None or getattr(loop, marked.field) is LoopMark.NONE


@dataclass(frozen=True, slots=True)
class Traced:
    """A program whose loops without a mark are renamed to their indices in `loops`, which are paths and names."""

    program: Program
    loops: tuple[tuple[Path, str], ...] = ()

    def original(self, name: str) -> tuple[Path | None, str]:
        """Return the path of the original binder of a loop (None if it is not traced), and its original name."""
        return self.loops[int(name[1:])] if name.startswith(_PREFIX) else (None, name)


def traced(program: Program) -> Traced:
    """Rename all loops without a mark, so that they can be traced; `numbered` renames the others."""
    loops: list[tuple[Path, str]] = []

    def renamed(e: Expr, path: Path) -> Expr:
        is_traced = is_loop(e) and is_unmarked(e)
        number = len(loops)
        if is_traced:
            loops.append((path, names_given(e)[0]))
        out = with_children(e, tuple(renamed(child.expr, (*path, at)) for at, child in enumerate(children(e))))
        if not is_traced:
            return out
        return replace(out, **{type(e).form.binders[0].name: f"{_PREFIX}{number}"})  # type: ignore[arg-type]

    return Traced(replace(program, body=renamed(program.body, ())), tuple(loops))
