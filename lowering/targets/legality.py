"""Legality of the annotated loops of a nest, decided by the prover, once for all targets.

The iterations of a loop that is `parallel` or `vector`, or bound to an axis of a GPU, run at the same time. So no
iteration may access a cell that another iteration writes, whether it reads or writes the cell. Buffers and variables
made within an iteration are private to it. The one exception is a scalar variable outside of the loop into which
iterations only fold, by one operation; blocks of a GPU and ranks may not do that either. An `unroll` loop has a
constant extent. Co-iteration and segmented reduction are checked in `co_iteration`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, assert_never

from atl.checks.safety import has_meaning
from atl.checks.scope import initial_facts
from atl.core.dtypes import FLOATS
from atl.core.index import ZERO, Read, Var, index
from atl.core.marks import BLOCKS, CONCURRENT, LANES, THREADS, CallMark, LetMark, LoopMark
from atl.core.predicate import equal, less, within
from atl.core.program import Program
from atl.core.reshape_definitions import Pairs
from atl.core.terms import Expr, Guard, Reshape
from atl.core.traversal import Path, subterm
from atl.errors import IllegalMark, Location, RefusedMark, UnsupportedMark
from atl.prove import Answer, Facts, Proved, Refuted, holds, prove
from atl.prove.facts import Model
from lowering.nest import loopnest as ln
from lowering.nest.accesses import Access, accesses, after, other_run, same_cell_facts
from lowering.nest.execution import REDUCTION_OPS, is_race_free
from lowering.nest.loopnest import For, LoopNest, statements
from lowering.nest.marked_loops import ADJACENT, Finger, Merge, NoMerge, NoRuns, fingers_in, is_merge, merge_at, runs_at
from lowering.nest.obligations import rises
from lowering.nest.text import TextScope, outermost, show_index, show_key
from lowering.targets.capabilities import (
    MarkedBinder,
    Support,
    marked_binders,
    register_errors,
    stack_error,
    stack_errors,
    support_of,
    unsupported,
    unsupported_marks,
)

# -- checks of marks --------------------------------------------------------------------------------------------------


MAX_UNROLLED: Final = 65_534
"""Largest unroll factor that C compilers accept."""
NOT_STRICT: Final = "leave out strict=True"
"""Suggestion for a mark that would change the bits of floats."""


def check_program(program: Program, target: str) -> None:
    """Raise `UnsupportedMark` for the marks of a program that the target does not support.

    Every binder is checked, including binders that no code is generated for.
    """
    raise_all(unsupported_marks(marked_binders(program), target))


def check_storage(program: Program) -> None:
    """Raise `UnsupportedMark` for buffers that are too large for the stack or for registers, as they are marked.

    Call this after sizes were fixed to numbers, since that makes buffers constant in size.
    """
    raise_all((*register_errors(program), *stack_errors(program)))


def check_nest(nest: ln.LoopNest, target: str) -> None:
    """Raise `UnsupportedMark` for marks that the target does not support. Printers check nothing else.

    Both the marks of the original program and those of the nest's statements are checked; for instance, a buffer on the
    stack needs a constant size.
    """
    raise_all(unsupported_marks(nest.marks, target))
    raise_all(_of_statement(statement, nest, support_of(target)) for statement in ln.statements(nest.body))
    raise_all(_within_others(nest, nest.body, ()))
    raise_all(_not_called(nest, nest.body) if target == "c" else ())
    raise_all(_not_carried_out(refused, nest) for refused in nest.refused)


def _not_called(nest: ln.LoopNest, block: ln.Block) -> Iterator[UnsupportedMark]:
    """Yield an error for each marked sum whose instruction C does not have."""
    for statement in block:
        if isinstance(statement, ln.For) and statement.call is not None:
            continue
        if isinstance(statement, ln.For) and isinstance(statement.mark, CallMark):
            yield UnsupportedMark(
                f"the loop {statement.variable.name} is marked {statement.mark.value}, which C does not have",
                binder=statement.variable.name,
                mark=statement.mark.value,
                place=place_of(nest, statement.binder),
                required="an instruction for the target c",
                suggestions=('use target="cuda", which has it',),
            )
        elif isinstance(statement, ln.For | ln.If):
            yield from _not_called(nest, statement.body)


def raise_all(refused: Iterable[RefusedMark | None]) -> None:
    """Raise the first error and attach the others, so that all are reported at once."""
    errors = [error for error in refused if error is not None]
    if not errors:
        return
    first, *others = errors
    if others:
        first.summary += (
            f"; {len(others)} more marks are refused: " if len(others) > 1 else "; another mark is refused: "
        )
        first.summary += ", ".join(f"{error.mark} of {error.binder}" for error in others)
        first.suggestions = tuple(dict.fromkeys(hint for error in errors for hint in error.suggestions))
        first.others = tuple(others)
    raise first


def _of_statement(statement: ln.Statement, nest: ln.LoopNest, support: Support) -> UnsupportedMark | None:
    """Return the error of a statement's mark, if it is not supported."""
    match statement:
        case ln.For(mark=LoopMark.UNROLL) if ((statement.high - statement.low).constant or 0) > MAX_UNROLLED:
            return _too_many(statement, nest)
        case ln.For(mark=CallMark()):
            return None  # matched with the instruction where the loops of the target are known
        case ln.For(variable=variable, mark=mark):
            return unsupported("loop", variable.name, mark, support)
        case ln.Declare(variable=variable, mark=mark):
            return unsupported("scalar", variable.name, mark, support)
        case ln.Allocate(mark=LetMark.STACK, storage="heap"):
            return _exceeds_stack(statement, nest)
        case ln.Allocate(buffer=buffer, mark=mark):
            return unsupported("buffer", buffer.name, mark, support)
        case ln.If() | ln.Assign() | ln.Accumulate() | ln.Clear() | ln.Free() | ln.Gather():
            return None
        case _:
            assert_never(statement)


def _exceeds_stack(statement: ln.Allocate, nest: ln.LoopNest) -> UnsupportedMark:
    """Return the error of a buffer marked `stack` that does not fit, alone or together with others."""
    buffer = statement.buffer
    return stack_error(buffer.name, statement.mark, statement.capacity, buffer.dtype, place_of(nest, statement.let))


def _not_carried_out(refused: ln.FailedMark, nest: ln.LoopNest) -> UnsupportedMark:
    return UnsupportedMark(
        f"the buffer {refused.name} is marked {refused.mark.value}; {refused.summary}",
        binder=refused.name,
        mark=refused.mark.value,
        place=place_of(nest, refused.let),
        required=refused.required,
        suggestions=refused.suggestions,
    )


def _too_many(loop: ln.For, nest: ln.LoopNest) -> UnsupportedMark:
    name, count = loop.variable.name, (loop.high - loop.low).constant
    return UnsupportedMark(
        f"the loop {name} is marked {loop.mark.value}, but has {count} iterations",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=f"at most {MAX_UNROLLED} iterations",
        suggestions=(f's.tile("{name}", 8) moves the mark to the loop within a tile',),
    )


# -- loops within loops -----------------------------------------------------------------------------------------------


def _within_others(nest: ln.LoopNest, block: ln.Block, around: tuple[ln.For, ...]) -> Iterator[UnsupportedMark]:
    """Yield the errors of marked loops and allocations inside other marked loops (`around`, outermost first)."""
    for statement in block:
        match statement:
            case ln.For(mark=mark, body=body):
                lanes = next((loop for loop in around if loop.mark in LANES), None)
                over = next((loop for loop in around if loop.mark is LoopMark.PARALLEL), lanes)
                if mark is LoopMark.PARALLEL and over is not None:
                    required = "a parallel loop that is not inside another parallel or vectorised loop"
                    yield _loop_within(statement, over, nest, required)
                if mark is LoopMark.STREAM and lanes is not None:
                    required = "a streamed loop that is not inside another vectorised loop"
                    yield _loop_within(statement, lanes, nest, required)
                yield from _within_others(nest, body, around if mark is LoopMark.NONE else (*around, statement))
            case ln.If(body=body):
                yield from _within_others(nest, body, around)
            case ln.Allocate(storage="heap"):
                vector = next((loop for loop in around if loop.mark in LANES), None)
                if vector is not None:
                    yield _heap_within(statement, vector, nest)
            case ln.Allocate() | ln.Declare() | ln.Assign() | ln.Accumulate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


def _loop_within(loop: ln.For, over: ln.For, nest: ln.LoopNest, required: str) -> UnsupportedMark:
    name, outer = loop.variable.name, over.variable.name
    return UnsupportedMark(
        f"the loop {name} is marked {loop.mark.value}, but is inside the loop {outer} marked {over.mark.value}",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=required,
        suggestions=(f's.mark("{name}", None)', f's.mark("{outer}", None)'),
    )


def _heap_within(statement: ln.Allocate, loop: ln.For, nest: ln.LoopNest) -> UnsupportedMark:
    name, buffer = loop.variable.name, statement.buffer.name
    return UnsupportedMark(
        f"the loop {name} is marked {loop.mark.value}, but each of its iterations allocates {buffer} on the heap",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=f"buffers on the stack; {buffer} is too large, has no constant size, or is marked otherwise",
        suggestions=(f's.mark("{name}", None) removes the mark',),
    )


def place_of(nest: ln.LoopNest, path: Path | None) -> Location | None:
    """Return the location of a marked binder in the program that a nest was lowered from."""
    return next((binder.place for binder in nest.marks if binder.path == path), None)


# -- co-iteration and segmented reduction -----------------------------------------------------------------------------


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

    A partner that disappeared because it has one iteration is allowed.
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
        problem = _merge_problem(nest, loop, facts, scope) or _merge_reorders(nest, loop)
        subject = f"the loops {names} are marked merge"
    elif loop.mark is LoopMark.RUNS:
        problem = _runs_problem(loop, facts) or _runs_reorder(nest, loop)
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
    """Check the ranges of inner loops, which are computed before the outer loops unless the outer loops are empty."""
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
        known = partial(holds, facts.assume(finger.loop.range))
        if not all(has_meaning(key, known) for key in finger.key):
            return Problem(
                f"the key {show_key(scope, finger)} may be undefined at some position of its range",
                "keys that can be read at each position, independently of other conditions",
            )
    return None


def _order_problem(nest: LoopNest, merge: Merge, facts: Facts, scope: TextScope) -> Problem | None:
    """Check that keys are nondecreasing, and strictly increasing in all loops but one."""
    loose = [finger for finger in merge.fingers if finger.variable not in nest.strict_keys]
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
    key = show_key(scope, finger)
    model = answer.model if isinstance(answer, Refuted) else None
    verb = "are not proved to be" if model is None else "need not be"
    return Problem(f"the keys {key} of {finger.variable.name} {verb} {order}", required, model, _declare(finger))


def _declare(finger: Finger) -> tuple[str, ...]:
    """Return suggestions for keys that are the elements of an array."""
    atom = finger.key[-1].atom
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
    inside = partial(holds, facts.assume(loop.range, *(each.range for each in runs.within)))
    name = runs.cell.buffer.name
    for position, extent in runs.cell.pairs:
        if not has_meaning(position, inside) or not inside(within(ZERO, position, extent)):
            return Problem(
                f"its keys are not proved to be positions of {name}: a run is added to {name} even if conditions "
                "exclude all of its terms",
                "keys within their tensor at each position of the range",
            )
    return None


def _merge_reorders(nest: LoopNest, loop: For) -> Problem | None:
    """Return the reason why one loop adds floats in another order than nested sums, for strict code.

    If at most one position of each inner finger matches, each inner sum has at most one term.
    """
    merge = merge_at(loop)
    if not nest.in_order or isinstance(merge, NoMerge) or not _adds_floats(merge.body):
        return None
    repeated = next((finger for finger in merge.fingers[1:] if finger.variable not in nest.strict_keys), None)
    if repeated is None:
        return None
    return Problem(
        f"the keys of {repeated.variable.name} may repeat, so that its floats are not summed first, as in the program",
        "strictly increasing keys in all loops but the outermost, because strict code keeps the order of each sum",
        None,
        (*_declare(repeated), NOT_STRICT),
    )


def _runs_reorder(nest: LoopNest, loop: For) -> Problem | None:
    """Return the reason why sums of runs are computed in another order than the program, for strict code."""
    if not nest.in_order or not _adds_floats(loop.body):
        return None
    return Problem(
        "it sums the floats of a run before it adds them to their element",
        "no runs of floats, because strict code keeps the order of each sum",
        None,
        (NOT_STRICT,),
    )


def _adds_floats(block: ln.Block) -> bool:
    return any(isinstance(each, ln.Accumulate) and each.value.dtype in FLOATS for each in ln.statements(block))


# -- iterations that run at the same time -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses of a cell in different iterations. `one` writes; `model` has the numbers, if known."""

    loop: ln.For
    one: Access
    another: Access
    model: Model | None


def check_legal(nest: ln.LoopNest) -> None:
    """Raise `IllegalMark` for loops that may not run as annotated, and for lets that cannot be circular buffers."""
    raise_all(_no_ring(nest, refused) for refused in nest.refused if refused.mark is LetMark.RING)
    if any(
        isinstance(statement, ln.For) and statement.mark is not LoopMark.NONE for statement in ln.statements(nest.body)
    ):
        raise_all(illegal_marks(nest))


def illegal_marks(nest: ln.LoopNest) -> Iterator[IllegalMark]:
    """Yield an error for each loop whose mark is not legal."""
    facts = initial_facts(nest.assumptions, nest.inputs)
    within: set[Var] = set()  # loops checked together with the merge around them
    for loop, known, scope in _marked_loops(nest.body, facts, outermost(nest)):
        if loop.variable not in within:
            yield from illegal_keyed_loops(nest, loop, known, scope)
            within.update(inner.variable for inner in fingers_in(loop))
        if loop.mark is LoopMark.UNROLL and (loop.high - loop.low).constant is None:
            yield _not_constant(nest, loop, scope)
        if isinstance(loop.lines, ln.NoLines):
            yield _no_lines(nest, loop, loop.lines)
        if loop.mark in CONCURRENT:
            found = conflict(loop, known, scope)
            if found is not None:
                yield _data_race(nest, found)
            into = _folded_float(loop) if nest.in_order else None
            if into is not None:
                yield _out_of_order(nest, loop, into)


def _folded_float(loop: ln.For) -> ln.Scalar | None:
    """Return a float variable from outside of a loop into which its iterations fold, if there is one."""
    inner = {made.variable for made in ln.statements(loop.body) if isinstance(made, ln.Declare)}
    into = (each.target for each in ln.statements(loop.body) if isinstance(each, ln.Accumulate))
    floats = (to for to in into if isinstance(to, ln.Scalar) and to.dtype in FLOATS)
    return next((to for to in floats if to not in inner), None)


def _out_of_order(nest: ln.LoopNest, loop: ln.For, into: ln.Scalar) -> IllegalMark:
    name, mark = loop.variable.name, loop.mark.value
    return IllegalMark(
        f"the loop {name} is marked {mark}, which computes {into.name} in another order than the program",
        binder=name,
        mark=mark,
        place=place_of(nest, loop.binder),
        required=f"{mark} loops over results only, because strict code keeps the order of each sum",
        suggestions=(f's.mark("{name}", None) removes the mark', NOT_STRICT),
    )


def _marked_loops(block: ln.Block, facts: Facts, scope: TextScope) -> Iterator[tuple[ln.For, Facts, TextScope]]:
    """Yield the annotated loops with the facts and the names in scope around each."""
    for statement in block:
        match statement:
            case ln.For(variable, body=body):
                if statement.mark is not LoopMark.NONE:
                    yield statement, facts, scope
                yield from _marked_loops(body, facts.assume(statement.range), scope.bind(variable, variable.name)[1])
            case ln.If(predicate, body):
                yield from _marked_loops(body, facts.assume(predicate), scope)
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                scope = after(scope, statement)
            case _:
                assert_never(statement)


# -- data races -------------------------------------------------------------------------------------------------------


def conflict(loop: ln.For, facts: Facts, scope: TextScope) -> Conflict | None:
    """Return two accesses that may be a data race between iterations of the loop, or None if proved absent.

    A race with numbers is preferred to accesses for which nothing is proved.
    """
    by_storage: dict[Hashable, list[Access]] = {}
    for access in accesses(scope, facts, loop):
        by_storage.setdefault(ln.accessed(access.storage), []).append(access)
    unknown: Conflict | None = None
    for held in by_storage.values():
        for one, another in _pairs(held):
            if is_race_free(loop.mark, one.how, another.how):
                continue
            same = prove(_both(one, another), equal(index(loop.variable), other_run(loop.variable)))
            if isinstance(same, Refuted):
                return Conflict(loop, one, another, same.model)
            if not isinstance(same, Proved):
                unknown = unknown or Conflict(loop, one, another, None)
    return unknown


def _pairs(held: list[Access]) -> Iterator[tuple[Access, Access]]:
    """Yield the pairs of accesses of which at least one writes, a writing one first."""
    for at, one in enumerate(held):
        for another in held[at:]:
            if one.how != "read":
                yield one, another
            elif another.how != "read":
                yield another, one


def _both(one: Access, another: Access) -> Facts:
    """Return the facts under which two accesses to the same buffer or variable touch the same cell."""
    return same_cell_facts(_pairs_of(one), one.facts, _pairs_of(another), another.facts, another.loops)


def _pairs_of(access: Access) -> Pairs:
    return access.storage.pairs if isinstance(access.storage, ln.Cell) else ()


# -- marks whose loop is gone after lowering ---------------------------------------------------------------------------


def check_lowered(program: Program, nest: ln.LoopNest, lowered: Collection[Path]) -> None:
    """Raise `IllegalMark` for the marked loops of a program that are not loops of the nest.

    Terms that are read element by element are computed by the loops that read them. Equal sums with the same mark are
    computed once. `lowered` are the paths of the loops that lowering visited.
    """
    marked = [binder for binder in nest.marks if binder.kind == "loop"]
    there = [(binder.mark, subterm(program.body, binder.path)) for binder in marked if binder.path in lowered]
    raise_all(
        _not_a_loop(binder)
        for binder in marked
        if binder.path not in lowered and (binder.mark, subterm(program.body, binder.path)) not in there
    )


def _not_a_loop(binder: MarkedBinder) -> IllegalMark:
    return IllegalMark(
        f"the loop {binder.name} is marked {binder.mark.value}, but lowering does not make a loop of it",
        binder=binder.name,
        mark=binder.mark.value,
        place=binder.place,
        required="a loop whose elements are stored; elements read by other loops are computed within those loops",
        suggestions=(
            f's.mark("{binder.name}", None) removes the mark',
            "s.normalize() shows the loops after lowering",
        ),
    )


# -- messages ---------------------------------------------------------------------------------------------------------


def _data_race(nest: ln.LoopNest, found: Conflict) -> IllegalMark:
    loop, one = found.loop, found.one
    name, mark = loop.variable.name, loop.mark.value
    if found.model is None:
        where = one.storage.buffer.name if isinstance(one.storage, ln.Cell) else one.storage.name
        what = "element of" if isinstance(one.storage, ln.Cell) else "variable"
        summary = (
            f"the loop {name} is marked {mark}, but two of its iterations may access the same {what} {where} "
            "(data race not excluded)"
        )
        numbers = None
    else:
        first, second = (found.model.value(at) for at in (index(loop.variable), other_run(loop.variable)))
        where = _where(one, found.model)
        summary = (
            f"the loop {name} is marked {mark}, but iterations {first} and {second} both access {where} (data race)"
        )
        numbers = found.model.numbers
    required = f"no iteration accesses what another iteration writes; {_statements(found)}"
    return _illegal(nest, loop, summary, required, numbers, *_instead(loop, one))


def _instead(loop: ln.For, access: Access) -> tuple[str, ...]:
    """Return suggestions for GPU threads or blocks that accumulate into the same cell."""
    name = loop.variable.name
    if access.how not in REDUCTION_OPS and not isinstance(access.statement, ln.Accumulate):
        return ()
    if loop.mark in BLOCKS:
        return (
            f's.interchange("{name}") if outer loops can be blocks',
            f's.split_loop or s.tile of "{name}", with a let of partial sums, one for each block',
        )
    return (f's.interchange("{name}") to sum each element in a scalar',) if loop.mark in THREADS else ()


def _where(access: Access, model: Model) -> str:
    if isinstance(access.storage, ln.Scalar):
        return access.storage.name
    at = ", ".join(str(model.value(position)) for position, _ in access.storage.pairs)
    return f"{access.storage.buffer.name}[{at}]" if at else access.storage.buffer.name


def _statements(found: Conflict) -> str:
    """Return the two statements, for a message."""
    one, another = found.one, found.another
    if one is another:
        return f"`{one.text}` writes it in both"
    verb = "reads" if another.how == "read" else "writes"
    return f"`{one.text}` writes it in one iteration, `{another.text}` {verb} it in the other"


def _no_ring(nest: ln.LoopNest, refused: ln.FailedMark) -> IllegalMark:
    return IllegalMark(
        f"the buffer {refused.name} is marked {refused.mark.value}; {refused.summary}",
        binder=refused.name,
        mark=refused.mark.value,
        place=place_of(nest, refused.let),
        required=refused.required,
        numbers=refused.numbers,
        suggestions=(*refused.suggestions, f's.mark("{refused.name}", None) removes the mark'),
    )


def _no_lines(nest: ln.LoopNest, loop: ln.For, found: ln.NoLines) -> IllegalMark:
    summary = f"the loop {loop.variable.name} is marked {loop.mark.value}, but {found.summary}"
    return _illegal(nest, loop, summary, found.required, None, *found.suggestions)


def _not_constant(nest: ln.LoopNest, loop: ln.For, scope: TextScope) -> IllegalMark:
    name = loop.variable.name
    extent = show_index(scope, loop.high - loop.low)
    summary = f"the loop {name} is marked {loop.mark.value}, but its number of iterations is not constant"
    whole = 's.tile(…).tails(strategy="split") separates full tiles, which have a constant extent'
    instead = (whole,) if loop.mark is LoopMark.UNROLL else ()
    return _illegal(nest, loop, summary, f"a constant extent; it is {extent}", None, *instead)


def _illegal(
    nest: ln.LoopNest, loop: ln.For, summary: str, required: str, numbers: Mapping[str, int] | None, *instead: str
) -> IllegalMark:
    name = loop.variable.name
    return IllegalMark(
        summary,
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=required,
        numbers=numbers,
        suggestions=(*instead, f's.mark("{name}", None) removes the mark'),
    )
