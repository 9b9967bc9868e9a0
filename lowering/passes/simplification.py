"""Simplification of conditions and indices, and facts that the prover finds for printers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from operator import is_
from typing import Final, assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Index, Var
from atl.core.marks import LoopMark
from atl.core.predicate import FALSE, TRUE, Predicate, negation, non_negative
from atl.prove import Facts, Proved, holds, simplify, simplify_predicate
from lowering.nest import loopnest as ln
from lowering.nest.accesses import with_inner_block
from lowering.nest.index_expressions import Compared, Computed, Inside, index_expressions
from lowering.nest.loopnest import at_iteration
from lowering.nest.marked_loops import Merge, fingers_in, is_merge, lines_of, merge_at
from lowering.nest.obligations import rises

# -- simplification ---------------------------------------------------------------------------------------------------


def simplified(nest: ln.LoopNest) -> ln.LoopNest:
    """Simplify every index expression and predicate, and remove decided branches.

    A loop of one iteration, such as `for i in 0..1`, is replaced by its body. Marked loops are kept, and so are loops
    whose variable occurs in the extents of a hoisted buffer.

    The positions and extents of a cell are simplified one by one. Its flat address is a sum of products of these, and
    simplification changes only quotients, minima and maxima, so the address is then simplified too. Extents of buffers
    are not changed.
    """
    return replace(nest, body=_block(initial_facts(nest.assumptions, nest.inputs), nest.body))


def until_settled(nest: ln.LoopNest, once: Callable[[Facts, ln.Block], ln.Block]) -> ln.LoopNest:
    """Alternate a pass and simplification until the pass changes nothing.

    Statements that the pass returned as the same objects are not simplified again.
    """
    facts = initial_facts(nest.assumptions, nest.inputs)
    body = nest.body
    while (changed := once(facts, body)) is not body:
        body = _block(facts, changed, frozenset(map(id, ln.statements(body))))
    return replace(nest, body=body)


def each_replaced(block: ln.Block, by: Callable[[ln.Statement], ln.Block]) -> ln.Block:
    """Replace each statement of a block. Return the same block if every statement is replaced by itself."""
    others = [by(statement) for statement in block]
    if all(len(new) == 1 and new[0] is old for new, old in zip(others, block, strict=True)):
        return block
    return tuple(statement for new in others for statement in new)


# -- statements -------------------------------------------------------------------------------------------------------

NONE: Final[frozenset[int]] = frozenset()


def simplified_block(facts: Facts, block: ln.Block) -> ln.Block:
    """Simplify a block by the given facts."""
    return _block(facts, block)


def _block(facts: Facts, block: ln.Block, done: frozenset[int] = NONE) -> ln.Block:
    """Simplify the statements, except those whose object ids are in `done`."""
    return tuple(
        kept
        for statement in block
        for kept in ((statement,) if id(statement) in done else _statement(facts, statement, done))
    )


def _statement(facts: Facts, statement: ln.Statement, done: frozenset[int]) -> ln.Block:
    match statement:
        case ln.For(_, low, high, body, mark):
            loop = _with_range(statement, simplify(facts, low), simplify(facts, high))
            once = loop.low.constant is not None and loop.high == loop.low + 1
            if once and mark is LoopMark.NONE and not sizes_a_hoisted_buffer(statement):
                return in_a_block(_block(facts, at_iteration(loop, loop.low)))
            inner = _block(facts.assume(loop.range), body, done)
            return (ln.with_body(loop, inner),) if inner else ()
        case ln.If(predicate, body):
            return _branch(facts, predicate, body, done)
        case ln.Assign(target, value):
            into, made = _storage(facts, target), _scalar(facts, value)
            return (statement if into is target and made is value else ln.Assign(into, made),)
        case ln.Accumulate(target, op, value):
            into, made = _storage(facts, target), _scalar(facts, value)
            return (statement if into is target and made is value else ln.Accumulate(into, op, made),)
        case ln.Declare(variable, initial, mark):
            made = _scalar(facts, initial)
            return (statement if made is initial else ln.Declare(variable, made, mark),)
        case ln.Allocate(_, capacity):
            return (replace(statement, capacity=simplify(facts, capacity)),)
        case ln.Clear(_, count, _, row, cell):
            cell = None if cell is None else _cell(facts, cell)
            row = None if row is None else simplify(facts, row)
            return (replace(statement, count=simplify(facts, count), row=row, cell=cell),)
        case ln.Free() | ln.Gather():
            return (statement,)
    assert_never(statement)


def _with_range(loop: ln.For, low: Index, high: Index) -> ln.For:
    return loop if low is loop.low and high is loop.high else replace(loop, low=low, high=high)


def sizes_a_hoisted_buffer(loop: ln.For) -> bool:
    """Return whether the loop variable is in the extents of a hoisted buffer, which each iteration clears."""
    return any(
        loop.variable.uid in extent.free
        for inside in ln.statements(loop.body)
        if isinstance(inside, ln.Clear)
        for extent in inside.buffer.extents
    )


def _branch(facts: Facts, predicate: Predicate, body: ln.Block, done: frozenset[int]) -> ln.Block:
    simpler = simplify_predicate(facts, predicate)
    if simpler == FALSE:
        return ()
    inner = _block(facts.assume(simpler), body, done)
    if simpler == TRUE:
        return in_a_block(inner)
    return (ln.If(simpler, inner),) if inner else ()


def in_a_block(inner: ln.Block) -> ln.Block:
    """Return the statements, in a separate block if their declarations would be visible to following statements."""
    return (ln.If(TRUE, inner),) if any(isinstance(inside, ln.Declare | ln.Allocate) for inside in inner) else inner


# -- scalars ----------------------------------------------------------------------------------------------------------


def _storage(facts: Facts, at: ln.Cell | ln.Scalar) -> ln.Cell | ln.Scalar:
    return at if isinstance(at, ln.Scalar) else _cell(facts, at)


def _cell(facts: Facts, at: ln.Cell) -> ln.Cell:
    pairs = tuple((simplify(facts, position), simplify(facts, extent)) for position, extent in at.pairs)
    same = all(a is b and n is m for (a, n), (b, m) in zip(pairs, at.pairs, strict=True))
    return at if same else ln.Cell(at.buffer, pairs)  # the same object need not be simplified again


def _scalar(facts: Facts, e: ln.ScalarExpr) -> ln.ScalarExpr:
    match e:
        case ln.Number():
            return e
        case ln.Load(source):
            read = _storage(facts, source)
            return e if read is source else ln.Load(read)
        case ln.FromIndex(index, dtype):
            return ln.FromIndex(simplify(facts, index), dtype)
        case ln.Apply(op, arguments, dtype):
            made = tuple(_scalar(facts, argument) for argument in arguments)
            return e if all(map(is_, made, arguments)) else ln.Apply(op, made, dtype)
        case ln.Choose(predicate, left, right):
            simpler = simplify_predicate(facts, predicate)
            if simpler == TRUE:
                return _scalar(facts, left)
            if simpler == FALSE:
                return _scalar(facts, right)
            there, elsewhere = facts.assume(simpler), facts.assume(negation(simpler))
            return ln.Choose(simpler, _scalar(there, left), _scalar(elsewhere, right))
        case ln.Convert(argument, dtype):
            return ln.Convert(_scalar(facts, argument), dtype)
    assert_never(e)


# -- strictly increasing keys of merges -------------------------------------------------------------------------------


def with_strict_keys(nest: ln.LoopNest) -> ln.LoopNest:
    """Set `strict_keys` of the nest to the positions of merges whose keys are proved to increase strictly.

    A merge has at most one position that is not in this set. At equal keys, it advances all positions in the set.
    """
    facts = initial_facts(nest.assumptions, nest.inputs)
    return replace(nest, strict_keys=frozenset(_strict(nest.body, facts)))


def _strict(block: ln.Block, facts: Facts, fingers: Collection[Var] = ()) -> Iterator[Var]:
    """Yield the strict positions in a block. `fingers` are the variables of the merge around it."""
    for statement in block:
        match statement:
            case ln.For(body=body):
                own = statement.variable not in fingers
                walk = merge_at(statement) if own and is_merge(statement) else None
                within = [each.variable for each in fingers_in(statement)] if own else fingers
                if isinstance(walk, Merge):
                    for finger in walk.fingers:
                        if isinstance(rises(finger, facts, strict=True), Proved):
                            yield finger.variable
                yield from _strict(body, facts.assume(statement.range), within)
            case ln.If(predicate, body):
                yield from _strict(body, facts.assume(predicate), fingers)
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


# -- cache lines of streams -------------------------------------------------------------------------------------------


def with_cache_lines(nest: ln.LoopNest) -> ln.LoopNest:
    """Set `lines` of the loops marked `stream`: the cache lines that they store, or the reason why they store none."""
    if not any(isinstance(each, ln.For) and each.mark is LoopMark.STREAM for each in ln.statements(nest.body)):
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    return replace(nest, body=_block_with_cache_lines(ln.unused_ids(nest), facts, nest.body))


def _block_with_cache_lines(ids: Iterator[int], facts: Facts, block: ln.Block) -> ln.Block:
    return tuple(
        replace(statement, lines=lines_of(statement, facts, ids))
        if isinstance(statement, ln.For) and statement.mark is LoopMark.STREAM
        else with_inner_block(facts, statement, partial(_block_with_cache_lines, ids))
        for statement in block
    )


# -- non-negative numerators ------------------------------------------------------------------------------------------


def with_nonnegative_numerators(nest: ln.LoopNest) -> ln.LoopNest:
    """Return the loop nest with every numerator that is proved non-negative in `nonnegative_numerators`."""
    known = _Known(initial_facts(nest.assumptions, nest.inputs))
    candidates = {
        (known.conditions(occurrence.inside), numerator): occurrence.inside
        for occurrence in index_expressions(nest)
        for numerator in ln.numerators(_expression(occurrence))
    }
    nonnegative_numerators = frozenset(
        (conditions, numerator)
        for (conditions, numerator), inside in candidates.items()
        if holds(known.facts(inside), non_negative(numerator))
    )
    return replace(nest, nonnegative_numerators=nonnegative_numerators)


def _expression(occurrence: Computed | Compared) -> Index:
    match occurrence:
        case Computed(_, _, expression):
            return expression
        case Compared(_, condition):
            return condition.expression
        case _:
            assert_never(occurrence)


@dataclass(slots=True)
class _Known:
    """The facts and conditions inside of loops and branches, computed on demand."""

    start: Facts
    _conditions: dict[Inside, ln.Conditions] = field(default_factory=dict)
    _facts: dict[Inside, Facts] = field(default_factory=dict)

    def conditions(self, inside: Inside) -> ln.Conditions:
        if inside.outside is None or inside.predicate is None:
            return frozenset()
        if inside not in self._conditions:
            self._conditions[inside] = ln.under(self.conditions(inside.outside), inside.predicate)
        return self._conditions[inside]

    def facts(self, inside: Inside) -> Facts:
        if inside.outside is None or inside.predicate is None:
            return self.start
        if inside not in self._facts:
            self._facts[inside] = self.facts(inside.outside).assume(inside.predicate)
        return self._facts[inside]
