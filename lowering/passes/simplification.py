"""Loop nests with index expressions and predicates made smaller by what is known at their places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import is_
from typing import Final, assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Index
from atl.core.marks import LoopMark
from atl.core.predicate import FALSE, TRUE, Predicate, negation
from atl.prove import Facts, simplify, simplify_predicate
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Apply,
    Assign,
    Block,
    Cell,
    Choose,
    Clear,
    Convert,
    Declare,
    For,
    Free,
    FromIndex,
    If,
    Load,
    LoopNest,
    Number,
    Scalar,
    ScalarExpr,
    Statement,
    statements,
    with_body,
)
from lowering.nest.substitution import at_iteration


def simplified(nest: LoopNest) -> LoopNest:
    """The loop nest with every index expression and predicate simplified, and without the branches that are decided.

    A loop of one iteration, such as `for i in 0..1`, becomes that iteration. One that is marked stays, for its mark,
    and one whose variable is in the extents of a buffer that was hoisted out of it.

    The pairs of a cell are simplified one by one. That is enough for its flat address: simplifying replaces quotients,
    minima and maxima and leaves sums and products alone, so that the address of simplified pairs is the simplified
    address. The extents of buffers stay as they were declared.
    """
    return replace(nest, body=_block(initial_facts(nest.assumptions, nest.inputs), nest.body))


def until_settled(nest: LoopNest, once: Callable[[Facts, Block], Block]) -> LoopNest:
    """A simplified nest after so many runs of a pass that one more would change nothing; each is simplified again.

    What the pass has left as it was, the very object, was simplified before.
    """
    facts = initial_facts(nest.assumptions, nest.inputs)
    body = nest.body
    while (changed := once(facts, body)) is not body:
        body = _block(facts, changed, frozenset(map(id, statements(body))))
    return replace(nest, body=body)


def each_replaced(block: Block, by: Callable[[Statement], Block]) -> Block:
    """The block with others in place of each statement; the very same one, where each is replaced by itself."""
    others = [by(statement) for statement in block]
    if all(len(new) == 1 and new[0] is old for new, old in zip(others, block, strict=True)):
        return block
    return tuple(statement for new in others for statement in new)


# -- statements -------------------------------------------------------------------------------------------------------

NONE: Final[frozenset[int]] = frozenset()


def simplified_block(facts: Facts, block: Block) -> Block:
    """The statements simplified by what is known where they stand."""
    return _block(facts, block)


def _block(facts: Facts, block: Block, done: frozenset[int] = NONE) -> Block:
    """The statements simplified; those with these ids were already."""
    return tuple(
        kept
        for statement in block
        for kept in ((statement,) if id(statement) in done else _statement(facts, statement, done))
    )


def _statement(facts: Facts, statement: Statement, done: frozenset[int]) -> Block:
    match statement:
        case For(_, low, high, body, mark):
            loop = _with_range(statement, simplify(facts, low), simplify(facts, high))
            once = loop.low.constant is not None and loop.high == loop.low + 1
            if once and mark is LoopMark.NONE and not _sizes_what_is_outside(statement):
                return in_a_block(_block(facts, at_iteration(loop, loop.low)))
            inner = _block(facts.assume(loop.range), body, done)
            return (with_body(loop, inner),) if inner else ()
        case If(predicate, body):
            return _branch(facts, predicate, body, done)
        case Assign(target, value):
            into, made = _storage(facts, target), _scalar(facts, value)
            return (statement if into is target and made is value else Assign(into, made),)
        case Accumulate(target, op, value):
            into, made = _storage(facts, target), _scalar(facts, value)
            return (statement if into is target and made is value else Accumulate(into, op, made),)
        case Declare(variable, initial, mark):
            made = _scalar(facts, initial)
            return (statement if made is initial else Declare(variable, made, mark),)
        case Allocate(_, capacity):
            return (replace(statement, capacity=simplify(facts, capacity)),)
        case Clear(_, count, _, row):
            row = None if row is None else simplify(facts, row)
            return (replace(statement, count=simplify(facts, count), row=row),)
        case Free():
            return (statement,)
    assert_never(statement)


def _with_range(loop: For, low: Index, high: Index) -> For:
    return loop if low is loop.low and high is loop.high else replace(loop, low=low, high=high)


def _sizes_what_is_outside(loop: For) -> bool:
    """Whether the loop's variable is in the extents of a buffer from outside, which is emptied in each iteration."""
    return any(
        loop.variable.uid in extent.free
        for inside in statements(loop.body)
        if isinstance(inside, Clear)
        for extent in inside.buffer.extents
    )


def _branch(facts: Facts, predicate: Predicate, body: Block, done: frozenset[int]) -> Block:
    simpler = simplify_predicate(facts, predicate)
    if simpler == FALSE:
        return ()
    inner = _block(facts.assume(simpler), body, done)
    if simpler == TRUE:
        return in_a_block(inner)
    return (If(simpler, inner),) if inner else ()


def in_a_block(inner: Block) -> Block:
    """The statements without what they stood in; a block of its own where declarations would reach what follows."""
    return (If(TRUE, inner),) if any(isinstance(inside, Declare | Allocate) for inside in inner) else inner


# -- scalars ----------------------------------------------------------------------------------------------------------


def _storage(facts: Facts, at: Cell | Scalar) -> Cell | Scalar:
    if isinstance(at, Scalar):
        return at
    pairs = tuple((simplify(facts, position), simplify(facts, extent)) for position, extent in at.pairs)
    same = all(a is b and n is m for (a, n), (b, m) in zip(pairs, at.pairs, strict=True))
    return at if same else Cell(at.buffer, pairs)  # what stays the very object need not be looked at again


def _scalar(facts: Facts, e: ScalarExpr) -> ScalarExpr:
    match e:
        case Number():
            return e
        case Load(source):
            read = _storage(facts, source)
            return e if read is source else Load(read)
        case FromIndex(index, dtype):
            return FromIndex(simplify(facts, index), dtype)
        case Apply(op, arguments, dtype):
            made = tuple(_scalar(facts, argument) for argument in arguments)
            return e if all(map(is_, made, arguments)) else Apply(op, made, dtype)
        case Choose(predicate, left, right):
            simpler = simplify_predicate(facts, predicate)
            if simpler == TRUE:
                return _scalar(facts, left)
            if simpler == FALSE:
                return _scalar(facts, right)
            there, elsewhere = facts.assume(simpler), facts.assume(negation(simpler))
            return Choose(simpler, _scalar(there, left), _scalar(elsewhere, right))
        case Convert(argument, dtype):
            return Convert(_scalar(facts, argument), dtype)
    assert_never(e)
