"""Whether the loops of a nest may run as they are marked: one answer for all targets, by the prover.

The iterations of a loop that is `parallel` or `vector`, or bound to an axis of a GPU, run at the same time. So none of
them may touch a cell that another one changes; to read what an earlier one has written is no more legal than to write
it twice. Buffers and variables that an iteration makes are its own. What all iterations may change together is a scalar
variable outside of the loop, into which they do nothing but fold by one operation; the blocks of a GPU may not do that
either. An `unroll`ed loop has a constant extent. Loops that walk through keys are looked at in `walks`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from atl.checks.scope import known_at_the_start
from atl.core.index import Var, index
from atl.core.marks import AT_ONCE, BLOCKS, THREADS, LetMark, LoopMark
from atl.core.predicate import equal
from atl.core.program import Program
from atl.core.reshape_definitions import Pairs
from atl.core.traversal import Path, subterm
from atl.errors import IllegalMark
from atl.prove import Facts, Proved, Refuted, prove
from atl.prove.answer import Model
from lowering.nest.accesses import Access, accesses, after
from lowering.nest.aliasing import other_run, same_cell_facts
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Cell,
    Clear,
    Declare,
    FailedMark,
    For,
    Free,
    If,
    LoopNest,
    NoLines,
    Scalar,
    accessed,
    statements,
)
from lowering.nest.marked_loops.merges import fingers_in
from lowering.nest.races import REDUCTION_OPS, is_race_free
from lowering.nest.text_scope import TextScope, outermost, show_index
from lowering.targets.support import place_of, raise_all
from lowering.targets.supported import MarkedBinder
from lowering.targets.walks import illegal_walks


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses of a loop's iterations, of which the first changes what both touch; `model` is where, if known."""

    loop: For
    one: Access
    another: Access
    model: Model | None


def check_legal(nest: LoopNest) -> None:
    """Raises `IllegalMark` for the loops of a nest that may not run as marked, and the lets that can be no rings."""
    raise_all(_no_ring(nest, refused) for refused in nest.refused if refused.mark is LetMark.RING)
    if any(isinstance(statement, For) and statement.mark is not LoopMark.NONE for statement in statements(nest.body)):
        raise_all(illegal_marks(nest))


def illegal_marks(nest: LoopNest) -> Iterator[IllegalMark]:
    """The marks of the loops of a nest that are not legal, each told at its loop."""
    facts = known_at_the_start(nest.assumptions, nest.inputs)
    within: set[Var] = set()  # the loops of merges that were looked at with those around them
    for loop, known, scope in _marked_loops(nest.body, facts, outermost(nest)):
        if loop.variable not in within:
            yield from illegal_walks(nest, loop, known, scope)
            within.update(inner.variable for inner in fingers_in(loop))
        if loop.mark is LoopMark.UNROLL and (loop.high - loop.low).constant is None:
            yield _not_constant(nest, loop, scope)
        if isinstance(loop.lines, NoLines):
            yield _no_lines(nest, loop, loop.lines)
        if loop.mark in AT_ONCE:
            found = conflict(loop, known, scope)
            if found is not None:
                yield _met(nest, found)


def _marked_loops(block: Block, facts: Facts, scope: TextScope) -> Iterator[tuple[For, Facts, TextScope]]:
    """The loops with a mark, what is known around each, and the names in sight there."""
    for statement in block:
        match statement:
            case For(variable, body=body):
                if statement.mark is not LoopMark.NONE:
                    yield statement, facts, scope
                yield from _marked_loops(body, facts.assume(statement.range), scope.bind(variable, variable.name)[1])
            case If(predicate, body):
                yield from _marked_loops(body, facts.assume(predicate), scope)
            case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                scope = after(scope, statement)
            case _:
                assert_never(statement)


# -- what iterations meet in ------------------------------------------------------------------------------------------


def conflict(loop: For, facts: Facts, scope: TextScope) -> Conflict | None:
    """Two accesses for which it is not proved that no two iterations of the loop meet in them, if there are any.

    Those that are proved to meet, with numbers, come before those of which nothing is proved.
    """
    touched: dict[Hashable, list[Access]] = {}
    for access in accesses(loop, facts, scope):
        touched.setdefault(accessed(access.storage), []).append(access)
    unknown: Conflict | None = None
    for held in touched.values():
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
    """Each pair of accesses of which one changes what the other one touches; the one that does comes first."""
    for at, one in enumerate(held):
        for another in held[at:]:
            if one.how != "read":
                yield one, another
            elif another.how != "read":
                yield another, one


def _both(one: Access, another: Access) -> Facts:
    """What holds where two accesses to the same buffer or variable meet in a cell."""
    return same_cell_facts(_pairs_of(one), one.facts, _pairs_of(another), another.facts, another.loops)


def _pairs_of(access: Access) -> Pairs:
    return access.storage.pairs if isinstance(access.storage, Cell) else ()


# -- marks of which lowering has left no loop -------------------------------------------------------------------------


def check_met(program: Program, nest: LoopNest, met: Collection[Path]) -> None:
    """Raises `IllegalMark` for the marked loops of a program that lowering has not met, in making this nest of it.

    What is read element by element is computed by the loops that read it. Equal sums with one mark are computed once.
    """
    marked = [binder for binder in nest.marks if binder.kind == "loop"]
    there = [(binder.mark, subterm(program.body, binder.path)) for binder in marked if binder.path in met]
    raise_all(
        _left_out(binder)
        for binder in marked
        if binder.path not in met and (binder.mark, subterm(program.body, binder.path)) not in there
    )


def _left_out(binder: MarkedBinder) -> IllegalMark:
    return IllegalMark(
        f"the loop {binder.name} is marked {binder.mark.value}, and is no loop of its own when the program is lowered",
        binder=binder.name,
        mark=binder.mark.value,
        place=binder.place,
        required="a loop that computes what is stored; elements that others read are computed in the loops that do so",
        suggestions=(
            f's.mark("{binder.name}", None) takes the mark away',
            "s.normalize() shows the loops that there are",
        ),
    )


# -- what is said -----------------------------------------------------------------------------------------------------


def _met(nest: LoopNest, found: Conflict) -> IllegalMark:
    loop, one = found.loop, found.one
    name, mark = loop.variable.name, loop.mark.value
    if found.model is None:
        where = one.storage.buffer.name if isinstance(one.storage, Cell) else one.storage.name
        summary = f"the loop {name} is marked {mark}, and it is not proved that its iterations never meet in {where}"
        numbers = None
    else:
        first, second = (found.model.value(at) for at in (index(loop.variable), other_run(loop.variable)))
        where = _where(one, found.model)
        summary = f"the loop {name} is marked {mark}, and its iterations {first} and {second} meet in {where}"
        numbers = found.model.numbers
    required = f"no iteration touches what another one changes; {_how(found)}"
    return _illegal(nest, loop, summary, required, numbers, *_instead(loop, one))


def _instead(loop: For, access: Access) -> tuple[str, ...]:
    """What else can be done where threads or blocks of a GPU add to what they have in common."""
    name = loop.variable.name
    if access.how not in REDUCTION_OPS and not isinstance(access.statement, Accumulate):
        return ()
    if loop.mark in BLOCKS:
        return (
            f's.interchange("{name}") where loops outside of it can be blocks',
            f's.split_loop or s.tile of "{name}", and a let of partial sums, one for each block',
        )
    return (f's.interchange("{name}") for a sum in each element, in a scalar',) if loop.mark in THREADS else ()


def _where(access: Access, model: Model) -> str:
    if isinstance(access.storage, Scalar):
        return access.storage.name
    at = ", ".join(str(model.value(position)) for position, _ in access.storage.pairs)
    return f"{access.storage.buffer.name}[{at}]" if at else access.storage.buffer.name


def _how(found: Conflict) -> str:
    """The two places."""
    one, another = found.one, found.another
    if one is another:
        return f"`{one.text}` changes it in both"
    does = "reads" if another.how == "read" else "changes"
    return f"`{one.text}` changes it in the one, `{another.text}` {does} it in the other"


def _no_ring(nest: LoopNest, refused: FailedMark) -> IllegalMark:
    return IllegalMark(
        f"the buffer {refused.name} is marked {refused.mark.value}; {refused.summary}",
        binder=refused.name,
        mark=refused.mark.value,
        place=place_of(nest, refused.let),
        required=refused.required,
        numbers=refused.numbers,
        suggestions=(*refused.suggestions, f's.mark("{refused.name}", None) takes the mark away'),
    )


def _no_lines(nest: LoopNest, loop: For, found: NoLines) -> IllegalMark:
    summary = f"the loop {loop.variable.name} is marked {loop.mark.value}, and {found.summary}"
    return _illegal(nest, loop, summary, found.required, None, *found.suggestions)


def _not_constant(nest: LoopNest, loop: For, scope: TextScope) -> IllegalMark:
    name = loop.variable.name
    extent = show_index(scope, loop.high - loop.low)
    summary = f"the loop {name} is marked {loop.mark.value}, and it is not known how many iterations it has"
    whole = 's.tile(…).tails(strategy="split") has full tiles first, which can be'
    instead = (whole,) if loop.mark is LoopMark.UNROLL else ()
    return _illegal(nest, loop, summary, f"a constant extent; it is {extent}", None, *instead)


def _illegal(
    nest: LoopNest, loop: For, summary: str, required: str, numbers: Mapping[str, int] | None, *instead: str
) -> IllegalMark:
    name = loop.variable.name
    return IllegalMark(
        summary,
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=required,
        numbers=numbers,
        suggestions=(*instead, f's.mark("{name}", None) takes the mark away'),
    )
