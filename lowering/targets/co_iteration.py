"""Legality of co-iteration (`merge`) and segmented reduction (`runs`): order and safety of keys, by the prover."""

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
from lowering.targets.capabilities import marked_binders
from lowering.targets.mark_checks import place_of, raise_all


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why a loop may not run as annotated."""

    summary: str
    required: str
    model: Model | None = None
    suggestions: tuple[str, ...] = ()


def check_merges(program: Program) -> None:
    """Raise `IllegalMark` for sums marked `merge` without another such sum directly around or inside them."""
    marked = [binder for binder in marked_binders(program) if binder.mark is LoopMark.MERGE]
    raise_all(
        IllegalMark(
            f"the loop {binder.name} is marked merge, but no loop directly around or inside it is",
            binder=binder.name,
            mark=binder.mark.value,
            place=binder.place,
            required=f"two or more nested sums with this mark, and a condition that their keys are equal; {ADJACENT}",
            suggestions=(f's.mark("{binder.name}", None) removes the mark',),
        )
        for binder in marked
        if not _has_partner(binder.path, [other.path for other in marked], program.body)
    )


def _has_partner(path: Path, marked: Sequence[Path], body: Expr) -> bool:
    """Return whether a marked sum is directly inside or around the sum at a path."""
    return any(
        _is_directly_in(inner, outer, body) for other in marked for inner, outer in ((path, other), (other, path))
    )


def _is_directly_in(inner: Path, outer: Path, body: Expr) -> bool:
    """Return whether there are only conditions and reshape operators between two terms."""
    if len(inner) <= len(outer) or inner[: len(outer)] != outer:
        return False
    between = (subterm(body, inner[:depth]) for depth in range(len(outer) + 1, len(inner)))
    return all(isinstance(term, Guard | Reshape) for term in between)


def _single_loop(nest: LoopNest, loop: For) -> Iterator[IllegalMark]:
    """Yield an error for a loop marked `merge` whose partners were not lowered to adjacent loops.

    There is no error if a partner disappeared because it has one iteration.
    """
    loops = [each for each in statements(nest.body) if isinstance(each, For) and each.mark is LoopMark.MERGE]
    marked = [binder for binder in nest.marks if binder.mark is LoopMark.MERGE]
    if len({each.binder for each in loops}) < len(marked):
        return
    yield IllegalMark(
        f"the loop {loop.variable.name} is marked merge, but is lowered to a separate loop",
        binder=loop.variable.name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=ADJACENT,
        suggestions=(f's.mark("{loop.variable.name}", None) removes the mark',),
    )


def illegal_keyed_loops(nest: LoopNest, loop: For, facts: Facts, scope: TextScope) -> Iterator[IllegalMark]:
    """Yield the error of a loop that is marked `runs`, or is the outermost loop of a `merge`."""
    if is_merge(loop):
        names = " and ".join(each.variable.name for each in fingers_in(loop))
        problem = _merge_problem(nest, loop, facts, scope)
        subject = f"the loops {names} are marked merge"
    elif loop.mark is LoopMark.RUNS:
        problem = _runs_problem(loop, facts)
        subject = f"the loop {loop.variable.name} is marked runs"
    else:
        yield from _single_loop(nest, loop) if loop.mark is LoopMark.MERGE else ()
        return
    if problem is None:
        return
    yield IllegalMark(
        f"{subject}, but {problem.summary}",
        binder=loop.variable.name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=problem.required,
        numbers=None if problem.model is None else problem.model.numbers,
        suggestions=(*problem.suggestions, f's.mark("{loop.variable.name}", None) removes the mark'),
    )


def _merge_problem(nest: LoopNest, loop: For, facts: Facts, scope: TextScope) -> Problem | None:
    merge = merge_at(loop)
    if isinstance(merge, NoMerge):
        return Problem(merge.summary, merge.required)
    for finger in merge.fingers:
        _, scope = scope.bind(finger.variable, finger.variable.name)
    return (
        _range_problem(merge, facts) or _key_problem(merge, facts, scope) or _order_problem(nest, merge, facts, scope)
    )


def _range_problem(merge: Merge, facts: Facts) -> Problem | None:
    """Check the ranges of inner loops, which are computed before the outer loops, unless those are empty."""
    for finger in merge.fingers:
        ends = (finger.loop.low, finger.loop.high)
        if not all(has_meaning(end, partial(holds, facts)) for end in ends):
            return Problem(
                f"the range of {finger.variable.name} may be undefined outside of conditions around it",
                "a range that can be computed before the loops",
            )
        facts = facts.assume(less(*ends))
    return None


def _key_problem(merge: Merge, facts: Facts, scope: TextScope) -> Problem | None:
    """Check the keys, which are read at all positions, before any condition in the loops is tested."""
    for finger in merge.fingers:
        if not has_meaning(finger.key, partial(holds, facts.assume(finger.loop.range))):
            return Problem(
                f"the key {show_index(scope, finger.key)} may be undefined at some position of its range",
                "keys that can be read at each position, independently of other conditions",
            )
    return None


def _order_problem(nest: LoopNest, merge: Merge, facts: Facts, scope: TextScope) -> Problem | None:
    """Check that keys are nondecreasing, and strictly increasing in all loops but one."""
    loose = [finger for finger in merge.fingers if finger.variable not in nest.strict]
    for finger in loose:
        answer = rises(finger, facts, strict=False)
        if not isinstance(answer, Proved):
            return _unordered(
                finger, scope, answer, "nondecreasing", "nondecreasing keys, strictly increasing in all loops but one"
            )
    if len(loose) < 2:
        return None
    first = loose[0]
    answer = rises(first, facts, strict=True)
    both = " and ".join(finger.variable.name for finger in loose)
    return _unordered(first, scope, answer, "strictly increasing", f"strictly increasing keys in one of {both}")


def _unordered(finger: Finger, scope: TextScope, answer: Answer, order: str, required: str) -> Problem:
    key = show_index(scope, finger.key)
    model = answer.model if isinstance(answer, Refuted) else None
    verb = "are not proved to be" if model is None else "need not be"
    return Problem(f"the keys {key} of {finger.variable.name} {verb} {order}", required, model, _declare(finger))


def _declare(finger: Finger) -> tuple[str, ...]:
    """Return suggestions for keys that are the elements of an array."""
    atom = finger.key.atom
    if not isinstance(atom, Read):
        return ()
    begin = finger.loop.low.atom
    order = f'("increasing", {begin.array.name})' if isinstance(begin, Read) else '"increasing"'
    return (
        f"declare the order of {atom.array.name}: atl.tensor(…, monotonic={order})",
        "choose a format whose entries are sorted: s.sparsify(…, CSR.sorted())",
    )


def _runs_problem(loop: For, facts: Facts) -> Problem | None:
    runs = runs_at(loop)
    if isinstance(runs, NoRuns):
        return Problem(runs.summary, runs.required)
    inside = partial(holds, facts.assume(loop.range))
    name = runs.cell.buffer.name
    for position, extent in runs.cell.pairs:
        if not has_meaning(position, inside) or not inside(within(ZERO, position, extent)):
            return Problem(
                f"its keys are not proved to be positions of {name}: a run is added to {name} even if conditions "
                "exclude all of its terms",
                "keys within their tensor at each position of the range",
            )
    return None
