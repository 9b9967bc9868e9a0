"""Marks on the loops and lets of random programs: all that C supports, where they are legal."""

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
from lowering.nest.loopnest import LoopNest
from lowering.pipeline import lower
from lowering.targets.capabilities import marked_binders
from lowering.targets.legality import check_nest
from proofs_tests.nests.co_iteration.programs import walk_case
from proofs_tests.programs.choices import Choices, Seeded, chance, weighted
from proofs_tests.programs.generate import Case, Made, Rejected, case

PERCENT: Final = 75
"""Share of programs for which marks are drawn; some of them have no loop or let to mark."""
WALKS: Final = 15
"""Share of merges and runs among programs that always have marks."""
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
    """A random case with marks, and the numbers of drawn and refused marks of each kind."""

    made: Made
    drawn: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    nest: LoopNest | None = None
    """Loop nest of the case, if already known."""


def drawn_case(choices: Choices, *, always: bool = False) -> Drawn:
    """Return a random case with marks; with `always`, reject a case without legal marks.

    With `always`, some cases are merges and runs, which other random programs lack.
    """
    if always and chance(choices, WALKS):
        return _kept(walk_case(choices))
    made = case(choices)
    if not isinstance(made, Case) or not chance(choices, 100 if always else PERCENT):
        return Drawn(made)
    chosen = {path: weighted(choices, _marks_of(at)) for path, at in _binders(made.program.body, ())}
    return _kept(replace(made, program=_marked(made.program, chosen)), always=always)


def _kept(made: Case, *, always: bool = True) -> Drawn:
    """Return the case without refused marks."""
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
    """Return a random case with legal marks on some of its loops and lets."""
    return drawn_case(choices, always=always).made


def marked_case_by_seed(seed: int, number: int, *, always: bool = False) -> Made:
    """Return the marked case with this number in the run with this seed."""
    return marked_case(Seeded.by(f"{seed}:{number}"), always=always)


def _counted(program: Program) -> Counter[str]:
    return Counter(marked.mark.value for marked in marked_binders(program))


def legal(program: Program) -> Program:
    """Return the program without the marks that lowering or C refuse."""
    return lowered(program)[0]


def lowered(program: Program) -> tuple[Program, LoopNest | None]:
    """Return the program without refused marks, and its nest, if it has no other fault.

    Marks refused together are removed together, except merges: one may become legal when another is removed.
    """
    while True:
        try:
            nest = lower(program)
            check_nest(nest, "c")
        except RefusedMark as refused:
            others = [each for each in refused.others if each.mark != LoopMark.MERGE.value]
            gone = {(each.binder, each.mark) for each in (refused, *others)}
        except Exception:  # noqa: BLE001 (other faults are examined later, as for every program)
            return program, None
        else:
            return program, nest
        dropped = [binder.path for binder in marked_binders(program) if (binder.name, binder.mark.value) in gone]
        assert dropped, f"{gone} are not marks of the program"
        program = _marked(program, dict.fromkeys(dropped))


def with_marks(program: Program, of: Mapping[Path, str]) -> Program:
    """Mark loops and lets by their paths.

    >>> import atl
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> with_marks(atl.program("twice", [x], atl.gen(x.shape[0], lambda i: 2 * x[i])), {(): "vector"})
    twice (x : float32[n]) : float32[n] :=
      ⊞[i < n | vector] 2 * x[i]
    """
    return _marked(program, {path: loop_mark(m) if m in marks(LoopMark) else let_mark(m) for path, m in of.items()})


def _marked(program: Program, of: Mapping[Path, Mark | None]) -> Program:
    """Set or remove (None) these marks."""
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
    raise AssertionError(f"{mark} cannot mark a {out.form.word}")


def loops_of(program: Program) -> list[Path]:
    """Return the paths of all loops of a program, outer loops first."""
    return [path for path, at in _binders(program.body, ()) if isinstance(at, Gen | Reduce)]


def _binders(e: Expr, path: Path) -> Iterator[tuple[Path, Gen | Reduce | Let]]:
    if isinstance(e, Gen | Reduce | Let):
        yield path, e
    for at, child in enumerate(children(e)):
        yield from _binders(child.expr, (*path, at))
