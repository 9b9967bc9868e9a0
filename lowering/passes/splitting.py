"""Loop splitting: a loop in a step of a recurrence is cut where its conditions change.

    for i in 0..n:                                   u[s, 0] = u[s - 1, 0]
        u[s, i] = (f(i) if 1 <= i < n - 1       →    for i in 1..n - 1:
                   else u[s - 1, i])                     u[s, i] = f(i)
                                                     u[s, n - 1] = u[s - 1, n - 1]

C compilers do not vectorise the choice. Outside of recurrences, tactics split loops. A step cannot be split by tactics
without the rows around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final, assert_never

from atl.checks.safety import has_meaning
from atl.checks.scope import initial_facts, reads
from atl.core.index import ONE, Index, Var, imax, imin, index
from atl.core.marks import LoopMark
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero, at_most
from atl.prove import Facts, holds, proves
from lowering.nest import loopnest as ln
from lowering.nest.tiles import step
from lowering.passes.control_flow import tests_in
from lowering.passes.simplification import in_a_block, simplified_block, sizes_a_hoisted_buffer

MOST_CUTS: Final = 4
"""Maximum number of places at which a loop is cut."""


def with_split_loops(nest: ln.LoopNest) -> ln.LoopNest:
    """Cut the loops over rows of recurrences, and the loops in their steps, where conditions in them change.

    Marked loops are not cut.
    """
    splitting = partial(_split, nest.recurrences)
    facts = initial_facts(nest.assumptions, nest.inputs)
    body = tuple(s for one in nest.body for s in splitting(facts, one, inside=False))
    return replace(nest, body=body, recurrences=frozenset())


def _split(recurrences: frozenset[Var], facts: Facts, statement: ln.Statement, *, inside: bool) -> ln.Block:
    """Split the loops of a statement, outer ones first; `inside` is true in a step."""
    match statement:
        case ln.For(variable, low, high, body):
            is_rows = variable in recurrences
            splits = (inside or is_rows) and statement.mark is LoopMark.NONE
            ranges = _pieces(facts, statement) if splits else [(low, high)]
            cuts = len(ranges) > 1
            pieces = [replace(statement, low=a, high=b) for a, b in ranges] if cuts else [statement]
            out: list[ln.Statement] = []
            for piece in pieces:
                here = facts.assume(piece.range)
                inner = simplified_block(here, body) if cuts else body
                made = tuple(s for one in inner for s in _split(recurrences, here, one, inside=inside or is_rows))
                if cuts and piece.high - piece.low == ONE and not sizes_a_hoisted_buffer(piece):
                    out += in_a_block(ln.at_iteration(ln.with_body(piece, made), piece.low))
                elif made:
                    out.append(ln.with_body(piece, made))
            return simplified_block(facts, tuple(out)) if cuts else tuple(out)
        case ln.If(predicate, body):
            here = facts.assume(predicate)
            inner = tuple(s for one in body for s in _split(recurrences, here, one, inside=inside))
            return (ln.with_body(statement, inner),)
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return (statement,)
    assert_never(statement)


def _pieces(facts: Facts, loop: ln.For) -> list[tuple[Index, Index]]:
    """Return the ranges of a loop in which the choices in it do not change, in ascending order."""
    inner = frozenset(s.variable.uid for s in ln.statements(loop.body) if isinstance(s, ln.For))
    found: list[Index] = []
    for predicate in dict.fromkeys(_choices(loop.body)):
        for cut in _changes(facts, loop, predicate, inner):
            if not (cut in found or proves(facts, at_most(cut, loop.low)) or proves(facts, at_most(loop.high, cut))):
                at = next((k for k, other in enumerate(found) if proves(facts, at_most(cut, other))), len(found))
                found.insert(at, cut)
    if len(found) > MOST_CUTS:
        return [(loop.low, loop.high)]
    pieces: list[tuple[Index, Index]] = []
    start = begin = loop.low
    before: Index | None = None  # the previous cut if `begin` is that cut without a clamp; else None
    for cut in found:
        begin = cut if proves(facts, at_most(start, cut)) else imax(start, cut)
        end = begin if proves(facts, at_most(begin, loop.high)) else imin(begin, loop.high)
        # No clamps are needed: if `before` is after the end of the loop, it is also after `cut`: the range is empty.
        if before is not None and proves(facts, at_most(cut, loop.high)):
            pieces.append((before, cut))
        else:
            pieces.append((start, end))
        before = begin if begin == cut else None
        start = end
    return [*pieces, (begin, loop.high)]


def _choices(block: ln.Block) -> Iterator[Predicate]:
    """Yield the conditions of selections and of pairs of opposite branches, at any depth."""
    for at, statement in enumerate(block):
        match statement:
            case ln.If(predicate, body):
                if at + 1 < len(block) and ln.opposite(statement, block[at + 1]):
                    yield predicate
                yield from _choices(body)
            case ln.For(body=body):
                yield from _choices(body)
            case ln.Assign(_, value) | ln.Accumulate(_, _, value) | ln.Declare(_, value):
                yield from tests_in(value)
            case ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


def _changes(facts: Facts, loop: ln.For, predicate: Predicate, inner: frozenset[int]) -> Iterator[Index]:
    """Yield the first iterations at which a part of a condition has another value than before."""
    match predicate:
        case All(parts) | Any(parts):
            for part in parts:
                yield from _changes(facts, loop, part, inner)
        case NonNegative(e) | Zero(e) | NonZero(e):
            factor = step(e, loop.variable)
            if factor not in (1, -1):
                return
            value = (index(loop.variable) * factor - e) * factor  # where e is zero
            if value.free & inner or any(reads(value)) or not has_meaning(value, partial(holds, facts)):
                return
            if not isinstance(predicate, NonNegative) or factor == 1:
                yield value
            if not isinstance(predicate, NonNegative) or factor == -1:
                yield value + 1
        case _:
            assert_never(predicate)
