"""The program that an exported kernel is checked with: without marks, in plain loops."""

from __future__ import annotations

from dataclasses import replace

from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr
from atl.core.traversal import children
from lowering.lower import lower
from lowering.nest.loopnest import LoopNest


def unmarked(program: Program) -> Program:
    """The program without any marks: it means the same."""
    known: dict[int, Expr] = {}

    def visit(e: Expr) -> Expr:
        if id(e) not in known:
            made = with_children(e, tuple(visit(child.expr) for child in children(e)))
            form = type(e).form.mark
            if form is not None and getattr(made, form.field).value:
                made = replace(made, **{form.field: form.of("")})  # type: ignore[arg-type]
            known[id(e)] = made
        return known[id(e)]

    return replace(program, body=visit(program.body))


def plain_nest(program: Program, name: str) -> LoopNest:
    """The loops of a program without marks, by Fig. 4.1 to the letter, under another name."""
    return replace(lower(unmarked(program), registers=False), name=name)
