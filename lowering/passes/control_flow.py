"""Passes over the branches and bounds of loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final, assert_never

from atl.checks.safety import has_meaning
from atl.checks.scope import initial_facts, reads
from atl.core import predicate as pred
from atl.core.index import Extremum, Index, Quotient, Size, Var, atoms, ceildiv, constant, floordiv, imax, imin, index
from atl.core.marks import LoopMark
from atl.core.predicate import conjunction, negation
from atl.prove import Facts, holds, simplify, simplify_predicate
from lowering.nest import loopnest as ln
from lowering.nest.accesses import with_inner_block
from lowering.nest.loopnest import at_iteration
from lowering.nest.tiles import Tiles, over_lanes, step, tiles_of
from lowering.passes.simplification import each_replaced, simplified_block, until_settled
from lowering.targets.capabilities import FULLY_UNROLLED

# -- nested conditions ------------------------------------------------------------------------------------------------


def with_conditions_joined(nest: ln.LoopNest) -> ln.LoopNest:
    """Replace `if p: if q: s` by `if p and q: s`.

    Two consecutive statements with opposite conditions are kept: they are the two branches of one test.
    """
    return replace(nest, body=_joined_block(nest.body))


def _joined_block(block: ln.Block) -> ln.Block:
    return tuple(_joined_statement(statement, is_branch=_is_branch(block, at)) for at, statement in enumerate(block))


def _is_branch(block: ln.Block, at: int) -> bool:
    """Return whether the statement before or after this one has the opposite condition."""
    statement = block[at]
    return isinstance(statement, ln.If) and (
        (at > 0 and ln.opposite(block[at - 1], statement))
        or (at + 1 < len(block) and ln.opposite(statement, block[at + 1]))
    )


def _joined_statement(statement: ln.Statement, *, is_branch: bool) -> ln.Statement:
    match statement:
        case ln.For(body=body):
            return ln.with_body(statement, _joined_block(body))
        case ln.If(predicate, body):
            while not is_branch and predicate != pred.TRUE and len(body) == 1 and isinstance(body[0], ln.If):
                predicate, body = conjunction((predicate, body[0].predicate)), body[0].body
            return ln.If(predicate, _joined_block(body))
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return statement
    assert_never(statement)


# -- guards as bounds -------------------------------------------------------------------------------------------------


def with_guards_as_bounds(nest: ln.LoopNest) -> ln.LoopNest:
    """Replace `for i in a..b: if l <= i: s` by `for i in max(a, l)..b: s`, and likewise for upper bounds.

    The guard must cover the whole body and be linear in the loop variable. Bounds are computed before the loop, so they
    must be proved to be defined there. Bounds do not read array elements: adding to an element may overflow where a
    comparison does not.

    Loops marked `unroll` or `merge` are kept. So are short innermost loops, and short loops over a window that slides
    with an outer loop, because C compilers unroll these and use masks.
    """
    return until_settled(nest, _bounded_block)


def _bounded_block(facts: Facts, block: ln.Block) -> ln.Block:
    return each_replaced(block, lambda statement: (_bounded_statement(facts, statement),))


def _bounded_statement(facts: Facts, statement: ln.Statement) -> ln.Statement:
    match statement:
        case ln.For():
            loop = _tightened(facts, statement)
            inner = _bounded_block(facts.assume(loop.range), loop.body)
            return loop if inner is loop.body else ln.with_body(loop, inner)
        case ln.If(predicate, body):
            inner = _bounded_block(facts.assume(predicate), body)
            return statement if inner is body else ln.If(predicate, inner)
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return statement
    assert_never(statement)


def _tightened(facts: Facts, loop: ln.For) -> ln.For:
    if len(loop.body) != 1 or loop.mark in (LoopMark.UNROLL, LoopMark.MERGE) or _is_written_out(loop):
        return loop
    branch = loop.body[0]
    if not isinstance(branch, ln.If):
        return loop
    low, high = [loop.low], [loop.high]
    left: list[pred.Predicate] = []
    for part in pred.conjuncts(branch.predicate):
        first, end = bounds_of(facts, loop, part)
        low += first
        high += end
        if not first and not end:
            left.append(part)
    if len(low) == len(high) == 1:
        return loop
    inner = (replace(branch, predicate=conjunction(left)),) if left else branch.body
    return replace(loop, low=imax(*low), high=imin(*high), body=inner)


def bounds_of(facts: Facts, loop: ln.For, test: pred.Predicate) -> tuple[list[Index], list[Index]]:
    """Return lower and upper bounds that are equivalent to a condition, if it is linear in the loop variable.

    Both are empty for other conditions.
    """
    if not isinstance(test, pred.NonNegative):
        return [], []
    factor = step(test.expression, loop.variable)
    if not factor:
        return [], []
    rest = test.expression - index(loop.variable) * factor
    if any(reads(rest)) or _slides(loop, rest) or not has_meaning(rest, partial(holds, facts)):
        return [], []
    if factor > 0:
        return [ceildiv(-rest, constant(factor))], []
    return [], [floordiv(rest, constant(-factor)) + 1]


def _is_written_out(loop: ln.For) -> bool:
    return _is_short(loop) and not any(isinstance(inside, ln.For) for inside in ln.statements(loop.body))


def _is_short(loop: ln.For) -> bool:
    length = (loop.high - loop.low).constant
    return length is not None and length <= FULLY_UNROLLED


def _slides(loop: ln.For, rest: Index) -> bool:
    """Return whether a short loop covers a window that moves with an outer loop by less than its length."""
    length = loop.high - loop.low
    return _is_short(loop) and any(
        abs(factor) < (length.constant or 0)
        for monomial, factor in rest.terms
        if any(isinstance(atom, Var) for atom in monomial)
    )


# -- trivial loops ----------------------------------------------------------------------------------------------------


def without_trivial_loops(nest: ln.LoopNest) -> ln.LoopNest:
    """Replace `for i in l..h: s(i)` by `if l < h: s(l)`, if the loop has at most one iteration.

    This applies to unmarked innermost loops over assignments and accumulations, such as those for the first and last
    cell of a row, which compilers would vectorise. The variable is replaced by l or h - 1, whichever is a polynomial of
    sizes and variables. A loop is kept if neither is.
    """
    facts = initial_facts(nest.assumptions, nest.inputs)
    return replace(nest, body=_block_without_trivial(facts, nest.body, tiles=tiles_of(nest)))


def _block_without_trivial(facts: Facts, block: ln.Block, *, tiles: Tiles) -> ln.Block:
    return tuple(_without_trivial(facts, statement, tiles) for statement in block)


def _without_trivial(facts: Facts, statement: ln.Statement, tiles: Tiles) -> ln.Statement:
    if isinstance(statement, ln.For) and all(isinstance(s, ln.Assign | ln.Accumulate) for s in statement.body):
        return _as_branch(facts, statement, tiles) or statement
    return with_inner_block(facts, statement, partial(_block_without_trivial, tiles=tiles))


def _as_branch(facts: Facts, loop: ln.For, tiles: Tiles) -> ln.If | None:
    """Return the only iteration of a loop as a branch, or None if the loop may have more iterations."""
    if loop.mark is not LoopMark.NONE or over_lanes(loop, tiles):
        return None
    # Without a minimum, maximum or quotient, the bounds cannot differ by 0 or 1 without being decided.
    if not any(isinstance(atom, Extremum | Quotient) for bound in (loop.low, loop.high) for atom in atoms(bound)):
        return None
    if not holds(facts, pred.at_most(loop.high, loop.low + 1)):
        return None
    test = simplify_predicate(facts, _below(loop.low, loop.high))
    inside = facts.assume(test)
    for value in (simplify(inside, loop.low), simplify(inside, loop.high - 1)):
        if _is_polynomial(value):
            return ln.If(test, simplified_block(inside, at_iteration(loop, value)))
    return None


def _is_polynomial(value: Index) -> bool:
    return all(isinstance(atom, Size | Var) for atom in atoms(value))


def _below(low: Index, high: Index) -> pred.Predicate:
    """Return low < high, with minima and maxima expanded to comparisons of their operands, which are simpler."""
    if isinstance(of := high.atom, Extremum):
        every, parts = of.kind == "min", [_below(low, choice) for choice in of.choices]
    elif isinstance(of := low.atom, Extremum):
        every, parts = of.kind == "max", [_below(choice, high) for choice in of.choices]
    else:
        return pred.less(low, high)
    return conjunction(parts) if every else pred.disjunction(parts)


# -- loop unswitching -------------------------------------------------------------------------------------------------


MOST_TESTS: Final = 2
"""Maximum number of inner conditions that leave an innermost loop, since each of them duplicates the loop."""


def with_unswitched_loops(nest: ln.LoopNest) -> ln.LoopNest:
    """Replace `for i: if p: s` by `if p: for i: s`, where p is loop-invariant.

    The invariant parts of a conjunction leave the loop, and so do conditions that all statements of the loop share, and
    pairs of opposite conditions. An innermost loop is also unswitched on other conditions in it, including those of
    selections; it is then duplicated, once for each outcome.

    A condition outside of a loop is also evaluated if the loop has no iterations. So its divisors must be proved
    positive, and its reads in bounds, outside of the loop. The condition is then known within the loop.
    """
    return until_settled(nest, _unswitched_block)


def _unswitched_block(facts: Facts, block: ln.Block) -> ln.Block:
    return each_replaced(block, partial(_unswitched_statement, facts))


def _unswitched_statement(facts: Facts, statement: ln.Statement) -> ln.Block:
    match statement:
        case ln.For(body=body):
            inner = _unswitched_block(facts.assume(statement.range), body)
            return _loop(facts, statement if inner is body else ln.with_body(statement, inner))
        case ln.If(predicate, body):
            inner = _unswitched_block(facts.assume(predicate), body)
            return (statement if inner is body else ln.If(predicate, inner),)
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return (statement,)
    assert_never(statement)


def _loop(facts: Facts, loop: ln.For) -> ln.Block:
    """Unswitch a loop whose body was processed. Loops marked `merge` are kept."""
    if loop.mark is LoopMark.MERGE:
        return (loop,)
    shared = _shared(facts, loop)
    if shared:
        predicate = conjunction(shared)
        inner = tuple(_without(statement, shared) for statement in loop.body)
        return (ln.If(predicate, _loop(facts.assume(predicate), ln.with_body(loop, _spliced(inner)))),)
    tests: dict[pred.Predicate, pred.Predicate] = {}
    for predicate in _tests_of(loop.body):
        for test in _invariant_parts(facts, loop, predicate):
            tests.setdefault(_same(test), test)
    if not tests or len(tests) > MOST_TESTS:
        return (loop,)
    test = next(iter(tests.values()))
    return tuple(
        ln.If(outcome, _loop(facts.assume(outcome), ln.with_body(loop, body)))
        for outcome in (test, negation(test))
        if (body := _decided(loop.body, outcome))
    )


def _tests_of(body: ln.Block) -> Iterator[pred.Predicate]:
    """Yield the conditions that may leave the loop: that of its two branches, or those in an innermost loop."""
    first = body[0]
    if isinstance(first, ln.If) and len(body) == 2 and ln.opposite(first, body[1]):
        yield first.predicate
    elif not any(isinstance(inside, ln.For | ln.Allocate | ln.Clear) for inside in ln.statements(body)):
        yield from _tests(body)


def _invariant_parts(facts: Facts, loop: ln.For, predicate: pred.Predicate) -> Iterator[pred.Predicate]:
    """Yield the loop-invariant parts of the predicate."""
    if _is_invariant(facts, loop, predicate):
        yield predicate
        return
    match predicate:
        case pred.All(parts) | pred.Any(parts):
            for part in parts:
                yield from _invariant_parts(facts, loop, part)
        case pred.NonNegative() | pred.Zero() | pred.NonZero():
            pass
        case _:
            assert_never(predicate)


def _same(test: pred.Predicate) -> pred.Predicate:
    """Return one representative for a condition and its negation."""
    return min(test, negation(test), key=pred.predicate_order)


def _shared(facts: Facts, loop: ln.For) -> tuple[pred.Predicate, ...]:
    """Return the loop-invariant conditions that all statements of a loop share."""
    under = [pred.conjuncts(statement.predicate) for statement in loop.body if isinstance(statement, ln.If)]
    if len(under) < len(loop.body) or not under:
        return ()
    shared = [part for part in under[0] if all(part in other for other in under[1:])]
    found: list[pred.Predicate] = []
    for part in shared:
        if _is_invariant(facts, loop, part):
            found.append(part)
            facts = facts.assume(part)
    return tuple(found)


def _is_invariant(facts: Facts, loop: ln.For, predicate: pred.Predicate) -> bool:
    """Return whether a condition is not constant, is loop-invariant, and is defined outside of the loop."""
    return (
        predicate not in (pred.TRUE, pred.FALSE)
        and not any(loop.variable.uid in e.free for e in pred.expressions(predicate))
        and all(has_meaning(e, partial(holds, facts)) for e in pred.expressions(predicate))
    )


def _without(statement: ln.Statement, shared: tuple[pred.Predicate, ...]) -> ln.Statement:
    assert isinstance(statement, ln.If)
    return replace(
        statement,
        predicate=conjunction(part for part in pred.conjuncts(statement.predicate) if part not in shared),
    )


def _spliced(block: ln.Block) -> ln.Block:
    """Inline the bodies of true conditions, unless their declarations would be visible to other statements."""
    out: list[ln.Statement] = []
    for statement in block:
        is_true = isinstance(statement, ln.If) and statement.predicate == pred.TRUE
        inside = statement.body if isinstance(statement, ln.If) and is_true else (statement,)
        alone = len(block) == 1 or not any(isinstance(inner, ln.Declare | ln.Allocate) for inner in inside)
        out += inside if alone else (statement,)
    return tuple(out)


# -- inner conditions -------------------------------------------------------------------------------------------------


def _tests(block: ln.Block) -> Iterator[pred.Predicate]:
    """Yield the conditions in a block, the outer ones first."""
    for statement in block:
        match statement:
            case ln.If(predicate, body):
                yield predicate
                yield from _tests(body)
            case ln.Assign(_, value) | ln.Accumulate(_, _, value) | ln.Declare(_, value):
                yield from tests_in(value)
            case ln.For() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


def tests_in(e: ln.ScalarExpr) -> Iterator[pred.Predicate]:
    """Yield the conditions of the selections in an expression, the outer ones first."""
    match e:
        case ln.Choose(predicate, left, right):
            yield predicate
            yield from tests_in(left)
            yield from tests_in(right)
        case ln.Apply(_, arguments):
            for argument in arguments:
                yield from tests_in(argument)
        case ln.Convert(argument):
            yield from tests_in(argument)
        case ln.Number() | ln.Load() | ln.FromIndex():
            pass
        case _:
            assert_never(e)


def _decided(block: ln.Block, outcome: pred.Predicate) -> ln.Block:
    """Specialise a block to the known outcome of a condition."""
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.If(predicate, body):
                left = _known(predicate, outcome)
                inner = _decided(body, outcome)
                if left != pred.FALSE and inner:
                    out.append(ln.If(left, inner))
            case ln.Assign(_, value) | ln.Accumulate(_, _, value):
                out.append(replace(statement, value=_chosen(value, outcome)))
            case ln.Declare(_, initial):
                out.append(replace(statement, initial=_chosen(initial, outcome)))
            case ln.For(body=body):
                if inner := _decided(body, outcome):
                    out.append(replace(statement, body=inner))
            case ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                out.append(statement)
            case _:
                assert_never(statement)
    return _spliced(tuple(out))


def _chosen(e: ln.ScalarExpr, outcome: pred.Predicate) -> ln.ScalarExpr:
    match e:
        case ln.Choose(predicate, left, right):
            test = _known(predicate, outcome)
            if test == pred.TRUE:
                return _chosen(left, outcome)
            if test == pred.FALSE:
                return _chosen(right, outcome)
            return ln.Choose(test, _chosen(left, outcome), _chosen(right, outcome))
        case ln.Apply(op, arguments, dtype):
            return _applied(op, tuple(_chosen(argument, outcome) for argument in arguments), arguments, dtype)
        case ln.Convert(argument, dtype):
            return ln.Convert(_chosen(argument, outcome), dtype)
        case ln.Number() | ln.Load() | ln.FromIndex():
            return e
    assert_never(e)


def _applied(
    op: ln.ScalarOp, arguments: tuple[ln.ScalarExpr, ...], before: tuple[ln.ScalarExpr, ...], dtype: str
) -> ln.ScalarExpr:
    """Apply the operation, dropping selected zeros from sums."""
    chosen = [
        isinstance(old, ln.Choose) and new == ln.Number(0, dtype) for old, new in zip(before, arguments, strict=True)
    ]
    if op == "add" and any(chosen):
        return arguments[0] if chosen[1] else arguments[1]
    return ln.Apply(op, arguments, dtype)


def _known(predicate: pred.Predicate, outcome: pred.Predicate) -> pred.Predicate:
    """Simplify a predicate by the known outcome of a condition."""
    if predicate == outcome:
        return pred.TRUE
    if predicate == negation(outcome):
        return pred.FALSE
    match predicate:
        case pred.All(parts):
            return conjunction(_known(part, outcome) for part in parts)
        case pred.Any(parts):
            return pred.disjunction(_known(part, outcome) for part in parts)
        case pred.NonNegative() | pred.Zero() | pred.NonZero():
            return predicate
    assert_never(predicate)
