"""Legality of the annotated loops of a nest, decided by the prover, once for all targets.

The iterations of a loop that is `parallel` or `vector`, or bound to an axis of a GPU, run at the same time. So no
iteration may access a cell that another iteration writes, whether it reads or writes the cell. Buffers and variables
made within an iteration are private to it. The one exception is a scalar variable outside of the loop into which
iterations only fold, by one operation; blocks of a GPU may not do that either. An `unroll` loop has a constant extent.
Co-iteration and segmented reduction are checked in `co_iteration`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Var, index
from atl.core.marks import BLOCKS, CONCURRENT, THREADS, LetMark, LoopMark
from atl.core.predicate import equal
from atl.core.program import Program
from atl.core.reshape_definitions import Pairs
from atl.core.traversal import Path, subterm
from atl.errors import IllegalMark
from atl.prove import Facts, Proved, Refuted, prove
from atl.prove.answer import Model
from lowering.nest import loopnest as ln
from lowering.nest.accesses import Access, accesses, after
from lowering.nest.aliasing import other_run, same_cell_facts
from lowering.nest.marked_loops.merges import fingers_in
from lowering.nest.races import REDUCTION_OPS, is_race_free
from lowering.nest.text_scope import TextScope, outermost, show_index
from lowering.targets.capabilities import MarkedBinder
from lowering.targets.co_iteration import illegal_keyed_loops
from lowering.targets.mark_checks import place_of, raise_all


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
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                scope = after(scope, statement)
            case _:
                assert_never(statement)


# -- data races -------------------------------------------------------------------------------------------------------


def conflict(loop: ln.For, facts: Facts, scope: TextScope) -> Conflict | None:
    """Return two accesses that may be a data race between iterations of the loop, or None if proved absent.

    A race with numbers is preferred to accesses for which nothing is proved.
    """
    by_storage: dict[Hashable, list[Access]] = {}
    for access in accesses(loop, facts, scope):
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


# -- marks for which there is no loop after lowering ------------------------------------------------------------------


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
