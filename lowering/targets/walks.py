"""Whether loops that are marked `merge` or `runs` may run so: whether keys rise and cells are there, by the prover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from atl.checks.safety import has_meaning
from atl.core.index import ZERO, Read
from atl.core.marks import LoopMark
from atl.core.predicate import less, within
from atl.core.program import Program
from atl.core.terms import Expr, Guard, Reshape
from atl.core.traversal import Path, subterm
from atl.errors import IllegalMark
from atl.prove import Answer, Facts, Proved, Refuted, holds
from atl.prove.answer import Model
from lowering.nest.loopnest import For, LoopNest, statements
from lowering.nest.marked_loops.key_order import rises
from lowering.nest.marked_loops.merges import ADJACENT, Finger, Merge, NoMerge, fingers_in, is_merge, merge_at
from lowering.nest.marked_loops.runs import NoRuns, runs_at
from lowering.nest.text_scope import TextScope, show_index
from lowering.targets.support import place_of, raise_all
from lowering.targets.supported import marked_binders


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why a loop may not run as it is marked."""

    summary: str
    required: str
    model: Model | None = None
    suggestions: tuple[str, ...] = ()


def check_merges(program: Program) -> None:
    """Raises `IllegalMark` for sums that are marked `merge` alone, with no other such sum around them or in them."""
    marked = [binder for binder in marked_binders(program) if binder.mark is LoopMark.MERGE]
    raise_all(
        IllegalMark(
            f"the loop {binder.name} is marked merge, and no loop right around it or in it is",
            binder=binder.name,
            mark=binder.mark.value,
            place=binder.place,
            required=f"two or more marked sums, one in the other, with a condition that keys of theirs are equal; "
            f"{ADJACENT}",
            suggestions=(f's.mark("{binder.name}", None) takes the mark away',),
        )
        for binder in marked
        if not _is_beside(binder.path, [other.path for other in marked], program.body)
    )


def _is_beside(path: Path, marked: Sequence[Path], body: Expr) -> bool:
    """Whether a marked sum is right in another one, or one in it."""
    return any(_is_right_in(inner, outer, body) for other in marked for inner, outer in ((path, other), (other, path)))


def _is_right_in(inner: Path, outer: Path, body: Expr) -> bool:
    """Whether nothing stands between two terms but conditions and reshape operators."""
    if len(inner) <= len(outer) or inner[: len(outer)] != outer:
        return False
    between = (subterm(body, inner[:depth]) for depth in range(len(outer) + 1, len(inner)))
    return all(isinstance(term, Guard | Reshape) for term in between)


def _lone(nest: LoopNest, loop: For) -> Iterator[IllegalMark]:
    """What is wrong with a loop of a merge that has become a loop by itself.

    Nothing is, where another loop of the merge is none any more because it has one iteration.
    """
    there = [each for each in statements(nest.body) if isinstance(each, For) and each.mark is LoopMark.MERGE]
    marked = [binder for binder in nest.marks if binder.mark is LoopMark.MERGE]
    if len({each.binder for each in there}) < len(marked):
        return
    yield IllegalMark(
        f"the loop {loop.variable.name} is marked merge, and is lowered to a loop of its own",
        binder=loop.variable.name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=ADJACENT,
        suggestions=(f's.mark("{loop.variable.name}", None) takes the mark away',),
    )


def illegal_walks(nest: LoopNest, loop: For, facts: Facts, scope: TextScope) -> Iterator[IllegalMark]:
    """What is wrong with a loop that is marked `merge`, the outermost of its merge, or `runs`."""
    if is_merge(loop):
        names = " and ".join(each.variable.name for each in fingers_in(loop))
        wrong = _wrong_with_merge(nest, loop, facts, scope)
        who = f"the loops {names} are marked merge"
    elif loop.mark is LoopMark.RUNS:
        wrong = _wrong_with_runs(loop, facts)
        who = f"the loop {loop.variable.name} is marked runs"
    else:
        yield from _lone(nest, loop) if loop.mark is LoopMark.MERGE else ()
        return
    if wrong is None:
        return
    yield IllegalMark(
        f"{who}, and {wrong.summary}",
        binder=loop.variable.name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=wrong.required,
        numbers=None if wrong.model is None else wrong.model.numbers,
        suggestions=(*wrong.suggestions, f's.mark("{loop.variable.name}", None) takes the mark away'),
    )


def _wrong_with_merge(nest: LoopNest, loop: For, facts: Facts, scope: TextScope) -> Wrong | None:
    merge = merge_at(loop)
    if isinstance(merge, NoMerge):
        return Wrong(merge.summary, merge.required)
    for finger in merge.fingers:
        _, scope = scope.bind(finger.variable, finger.variable.name)
    return (
        _wrong_with_ranges(merge, facts)
        or _wrong_with_meaning(merge, facts, scope)
        or _wrong_with_order(nest, merge, facts, scope)
    )


def _wrong_with_ranges(merge: Merge, facts: Facts) -> Wrong | None:
    """The ranges of inner loops are computed outside of the outer ones, if those are not empty."""
    for finger in merge.fingers:
        ends = (finger.loop.low, finger.loop.high)
        if not all(has_meaning(end, partial(holds, facts)) for end in ends):
            return Wrong(
                f"the range of {finger.variable.name} may have no meaning outside of conditions around it",
                "a range that can be computed before the loops are run",
            )
        facts = facts.assume(less(*ends))
    return None


def _wrong_with_meaning(merge: Merge, facts: Facts, scope: TextScope) -> Wrong | None:
    """Keys are read at all positions, before any condition in the loops is tested."""
    for finger in merge.fingers:
        if not has_meaning(finger.key, partial(holds, facts.assume(finger.loop.range))):
            return Wrong(
                f"the key {show_index(scope, finger.key)} may have no meaning at all positions of its range",
                "keys that can be read at each position, whatever other conditions say",
            )
    return None


def _wrong_with_order(nest: LoopNest, merge: Merge, facts: Facts, scope: TextScope) -> Wrong | None:
    """Keys never fall, and repeat for one finger at most."""
    loose = [finger for finger in merge.fingers if finger.variable not in nest.strict]
    for finger in loose:
        answer = rises(finger, facts, strict=False)
        if not isinstance(answer, Proved):
            return _unordered(
                finger, scope, answer, "rise", "keys that never fall, and of all loops but one rise strictly"
            )
    if len(loose) < 2:
        return None
    first = loose[0]
    answer = rises(first, facts, strict=True)
    both = " and ".join(finger.variable.name for finger in loose)
    return _unordered(first, scope, answer, "rise strictly", f"keys that rise strictly, but for one of {both}")


def _unordered(finger: Finger, scope: TextScope, answer: Answer, how: str, required: str) -> Wrong:
    key = show_index(scope, finger.key)
    model = answer.model if isinstance(answer, Refuted) else None
    summary = f"the keys {key} of {finger.variable.name} {'are not proved to' if model is None else 'need not'} {how}"
    return Wrong(summary, required, model, _declare(finger))


def _declare(finger: Finger) -> tuple[str, ...]:
    """How to say that keys rise, where they are the elements of an array."""
    atom = finger.key.atom
    if not isinstance(atom, Read):
        return ()
    begin = finger.loop.low.atom
    order = f'("strict", {begin.array.name})' if isinstance(begin, Read) else '"strict"'
    return (
        f"declare it of {atom.array.name}: atl.tensor(…, order={order})",
        "choose a format whose entries are sorted: s.sparsify(…, CSR.sorted())",
    )


def _wrong_with_runs(loop: For, facts: Facts) -> Wrong | None:
    runs = runs_at(loop)
    if isinstance(runs, NoRuns):
        return Wrong(runs.summary, runs.required)
    inside = partial(holds, facts.assume(loop.range))
    name = runs.cell.buffer.name
    for position, extent in runs.cell.pairs:
        if not has_meaning(position, inside) or not inside(within(ZERO, position, extent)):
            return Wrong(
                f"it is not proved that all of its positions are added to elements of {name}: a run is, whatever "
                "conditions say of each of its terms",
                "keys within their tensor at each position of the range",
            )
    return None
