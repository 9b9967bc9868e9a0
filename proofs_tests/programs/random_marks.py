"""Marks on the loops and lets of random programs: those that C carries out, each where it is legal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from atl.core.marks import LetMark, LoopMark, Mark, let_mark, loop_mark, marks
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr, Gen, Let, Reduce
from atl.core.traversal import Path, children
from atl.errors import RefusedMark
from lowering.lower import lower
from lowering.nest.loopnest import LoopNest
from lowering.targets.capabilities import marked_binders
from lowering.targets.mark_checks import check_nest
from proofs_tests.nests.walks.programs import walk_case
from proofs_tests.programs.choices import Choices, Seeded, chance, weighted
from proofs_tests.programs.generate import Case, Made, Rejected, case

PERCENT: Final = 75
"""So many of the programs have marks drawn for them; not all of these have a loop or let that may have one."""
WALKS: Final = 15
"""So many of the programs that have marks in any case are merges or runs."""
UNMARKED: Final = Rejected("has no mark that may stand there")

_Weighted: TypeAlias = tuple[tuple[int, Mark], ...]

_LOOPS: Final[_Weighted] = (
    (2, LoopMark.NONE),
    (4, LoopMark.PARALLEL),
    (4, LoopMark.VECTOR),
    (4, LoopMark.STREAM),
    (2, LoopMark.UNROLL),
)
_SCALARS: Final[_Weighted] = ((1, LetMark.NONE), (2, LetMark.REGISTERS), (1, LetMark.STACK))
_BUFFERS: Final[_Weighted] = (
    (1, LetMark.NONE),
    (3, LetMark.REGISTERS),
    (2, LetMark.STACK),
    (1, LetMark.HEAP),
    (4, LetMark.RING),
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A random case with marks, and how many were drawn for it of each kind; what is refused is taken away again."""

    made: Made
    drawn: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    nest: LoopNest | None = None
    """What the case is lowered to, where that is known already."""


def drawn_case(choices: Choices, *, always: bool = False) -> Drawn:
    """A random case, with marks on some of its loops and lets. With `always` it is rejected if none may stand there.

    Some of those that always have marks are merges and runs, which other random programs do not have.
    """
    if always and chance(choices, WALKS):
        return _kept(walk_case(choices))
    made = case(choices)
    if not isinstance(made, Case) or not chance(choices, 100 if always else PERCENT):
        return Drawn(made)
    chosen = {path: weighted(choices, _marks_of(at)) for path, at in _binders(made.program.body, ())}
    return _kept(replace(made, program=_marked(made.program, chosen)), always=always)


def _kept(made: Case, *, always: bool = True) -> Drawn:
    """The case without the marks that are refused."""
    program, nest = lowered(made.program)
    drawn, kept = _counted(made.program), _counted(program)
    if always and not kept:
        return Drawn(UNMARKED, drawn, drawn)
    return Drawn(replace(made, program=program), drawn, drawn - kept, nest)


def _marks_of(at: Gen | Reduce | Let) -> _Weighted:
    if not isinstance(at, Let):
        return _LOOPS
    return _BUFFERS if at.value.type.rank else _SCALARS


def marked_case(choices: Choices, *, always: bool = False) -> Made:
    """A random case, with marks on some of its loops and lets; what is refused there is taken away again."""
    return drawn_case(choices, always=always).made


def marked_case_by_seed(seed: int, number: int, *, always: bool = False) -> Made:
    """The case of this number in the run of this seed, with its marks."""
    return marked_case(Seeded.by(f"{seed}:{number}"), always=always)


def _counted(program: Program) -> Counter[str]:
    return Counter(marked.mark.value for marked in marked_binders(program))


def legal(program: Program) -> Program:
    """The program without the marks that lowering or C refuse."""
    return lowered(program)[0]


def lowered(program: Program) -> tuple[Program, LoopNest | None]:
    """The program without the marks that lowering or C refuse, and its nest, where nothing else is wrong with it.

    What is refused together goes together, but for merges: one may stand where another one is none any more.
    """
    while True:
        try:
            nest = lower(program)
            check_nest(nest, "c")
        except RefusedMark as refused:
            others = [each for each in refused.others if each.mark != LoopMark.MERGE.value]
            gone = {(each.binder, each.mark) for each in (refused, *others)}
        except Exception:  # noqa: BLE001 (whatever else goes wrong is looked at later, as of every program)
            return program, None
        else:
            return program, nest
        dropped = [binder.path for binder in marked_binders(program) if (binder.name, binder.mark.value) in gone]
        assert dropped, f"{gone} are no marks of the program"
        program = _marked(program, dict.fromkeys(dropped))


def with_marks(program: Program, of: Mapping[Path, str]) -> Program:
    """The program with these marks, by the paths of loops and lets.

    >>> import atl
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> with_marks(atl.program("twice", [x], atl.gen(x.shape[0], lambda i: 2 * x[i])), {(): "vector"})
    twice (x : float32[n]) : float32[n] :=
      ⊞[i < n | vector] 2 * x[i]
    """
    return _marked(program, {path: loop_mark(m) if m in marks(LoopMark) else let_mark(m) for path, m in of.items()})


def _marked(program: Program, of: Mapping[Path, Mark | None]) -> Program:
    """The program with these marks; None takes one away."""
    return replace(program, body=_with(program.body, of, ()))


def _with(e: Expr, of: Mapping[Path, Mark | None], path: Path) -> Expr:
    out = with_children(e, tuple(_with(child.expr, of, (*path, at)) for at, child in enumerate(children(e))))
    if path not in of:
        return out
    mark = of[path]
    if isinstance(out, Gen | Reduce) and (mark is None or isinstance(mark, LoopMark)):
        return replace(out, mark=mark or LoopMark.NONE)
    if isinstance(out, Let) and (mark is None or isinstance(mark, LetMark)):
        return replace(out, mark=mark or LetMark.NONE)
    raise AssertionError(f"{mark} is no mark of a {out.form.word}")


def loops_of(program: Program) -> list[Path]:
    """The paths of all loops of a program, the outer ones first."""
    return [path for path, at in _binders(program.body, ()) if isinstance(at, Gen | Reduce)]


def _binders(e: Expr, path: Path) -> Iterator[tuple[Path, Gen | Reduce | Let]]:
    if isinstance(e, Gen | Reduce | Let):
        yield path, e
    for at, child in enumerate(children(e)):
        yield from _binders(child.expr, (*path, at))
