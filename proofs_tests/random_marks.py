"""Marks on the loops of random programs: those that C carries out, each where it is legal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from atl.checks.targets import marked_binders
from atl.core.marks import LoopMark, loop_mark
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr, Gen, Reduce
from atl.core.traversal import Path, children
from atl.errors import RefusedMark
from lowering.c.printer import print_c
from lowering.lower import lower
from proofs_tests.choices import Choices, Seeded, chance, weighted
from proofs_tests.generate import Case, Made, case

PERCENT: Final = 75
"""So many of the programs have marks drawn for their loops; not all of these have a loop that may have one."""

_MARKS: Final[tuple[tuple[int, LoopMark], ...]] = (
    (2, LoopMark.NONE),
    (4, LoopMark.PARALLEL),
    (4, LoopMark.VECTOR),
    (2, LoopMark.UNROLL),
)


def marked_case(choices: Choices) -> Made:
    """A random case, with marks on some of its loops; what is refused there is taken away again."""
    made = case(choices)
    if not isinstance(made, Case) or not chance(choices, PERCENT):
        return made
    drawn = {path: weighted(choices, _MARKS) for path in loops_of(made.program)}
    return replace(made, program=legal(_marked(made.program, drawn)))


def marked_case_by_seed(seed: int, number: int) -> Made:
    """The case of this number in the run of this seed, with its marks."""
    return marked_case(Seeded.by(f"{seed}:{number}"))


def legal(program: Program) -> Program:
    """The program without the marks that lowering or C refuse."""
    while (refused := _refused(program)) is not None:
        marked = marked_binders(program)
        dropped = [
            binder.path for binder in marked if (binder.name, binder.mark.value) == (refused.binder, refused.mark)
        ]
        assert dropped, f"{refused} is about no mark of the program"
        program = _marked(program, dict.fromkeys(dropped, LoopMark.NONE))
    return program


def _refused(program: Program) -> RefusedMark | None:
    try:
        print_c(lower(program))
    except RefusedMark as refused:
        return refused
    except Exception:  # noqa: BLE001 (whatever else goes wrong is looked at later, as of every program)
        return None
    return None


def with_marks(program: Program, marks: Mapping[Path, str]) -> Program:
    """The program with these marks, by the paths of loops.

    >>> import atl
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> with_marks(atl.program("twice", [x], atl.gen(x.shape[0], lambda i: 2 * x[i])), {(): "vector"})
    twice (x : float32[n]) : float32[n] :=
      ⊞[i < n | vector] 2 * x[i]
    """
    return _marked(program, {path: loop_mark(mark) for path, mark in marks.items()})


def _marked(program: Program, marks: Mapping[Path, LoopMark]) -> Program:
    return replace(program, body=_with(program.body, marks, ()))


def _with(e: Expr, marks: Mapping[Path, LoopMark], path: Path) -> Expr:
    out = with_children(e, tuple(_with(child.expr, marks, (*path, at)) for at, child in enumerate(children(e))))
    return replace(out, mark=marks[path]) if path in marks and isinstance(out, Gen | Reduce) else out


def loops_of(program: Program) -> list[Path]:
    """The paths of all loops of a program, the outer ones first."""
    return _loops(program.body, ())


def _loops(e: Expr, path: Path) -> list[Path]:
    found = [path] if isinstance(e, Gen | Reduce) else []
    for at, child in enumerate(children(e)):
        found += _loops(child.expr, (*path, at))
    return found
