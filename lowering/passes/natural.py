"""Which quotients of a loop nest round towards zero as they round down: those with natural numerators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TypeAlias, assert_never

from atl.checks.scope import known_at_the_start
from atl.core.index import Index
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero, negation, non_negative
from atl.prove import Facts, Proved, prove
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Apply,
    Assign,
    Block,
    Cell,
    Choose,
    Clear,
    Conditions,
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
    numerators,
    under,
)


def with_natural_numerators(nest: LoopNest) -> LoopNest:
    """The loop nest whose `natural` has every numerator that is proved not to be negative where it stands."""
    start = _Inside(known_at_the_start(nest.assumptions, nest.inputs))
    everything = chain(((start, extent) for extent in nest.output.extents), _in_block(start, nest.body))
    asked = {
        (inside.conditions, numerator): inside
        for inside, expression in everything
        for numerator in numerators(expression)
    }
    natural = frozenset(
        (conditions, numerator)
        for (conditions, numerator), inside in asked.items()
        if isinstance(prove(inside.facts, non_negative(numerator), thorough=False), Proved)
    )
    return replace(nest, natural=natural)


@dataclass(frozen=True)
class _Inside:
    """The inside of a loop or a branch: `predicate` holds there, by its range or its test; `outside` is around it."""

    start: Facts
    outside: _Inside | None = None
    predicate: Predicate | None = None

    def under(self, predicate: Predicate) -> _Inside:
        return _Inside(self.start, self, predicate)

    # Most places have no quotient; then nothing is asked about them.

    @cached_property
    def conditions(self) -> Conditions:
        if self.outside is None or self.predicate is None:
            return frozenset()
        return under(self.outside.conditions, self.predicate)

    @cached_property
    def facts(self) -> Facts:
        if self.outside is None or self.predicate is None:
            return self.start
        return self.outside.facts.assume(self.predicate)


Expressions: TypeAlias = Iterator[tuple[_Inside, Index]]
"""Index expressions with the places where they stand."""


def _in_block(inside: _Inside, block: Block) -> Expressions:
    for statement in block:
        yield from _in_statement(inside, statement)


def _in_statement(inside: _Inside, statement: Statement) -> Expressions:
    match statement:
        case For(_, low, high, body):
            yield inside, low
            yield inside, high
            yield from _in_block(inside.under(statement.range), body)
        case If(predicate, body):
            yield from _in_predicate(inside, predicate)
            yield from _in_block(inside.under(predicate), body)
        case Assign(target, value) | Accumulate(target, _, value):
            yield from _in_storage(inside, target)
            yield from _in_scalar(inside, value)
        case Declare(_, initial):
            yield from _in_scalar(inside, initial)
        case Allocate(buffer, capacity):
            yield inside, capacity
            yield from ((inside, extent) for extent in buffer.extents)
        case Clear(buffer, count):
            yield inside, count
            yield from ((inside, extent) for extent in buffer.extents)
        case Free():
            return
        case _:
            assert_never(statement)


def _in_storage(inside: _Inside, at: Cell | Scalar) -> Expressions:
    if isinstance(at, Cell):
        for pair in at.pairs:
            yield from ((inside, expression) for expression in pair)


def _in_scalar(inside: _Inside, e: ScalarExpr) -> Expressions:
    match e:
        case Number():
            return
        case Load(source):
            yield from _in_storage(inside, source)
        case FromIndex(index):
            yield inside, index
        case Apply(_, arguments):
            for argument in arguments:
                yield from _in_scalar(inside, argument)
        case Choose(predicate, left, right):
            yield from _in_predicate(inside, predicate)
            yield from _in_scalar(inside.under(predicate), left)
            yield from _in_scalar(inside.under(negation(predicate)), right)
        case Convert(argument):
            yield from _in_scalar(inside, argument)
        case _:
            assert_never(e)


def _in_predicate(inside: _Inside, predicate: Predicate) -> Expressions:
    """A part is tested only where those to the left of it hold, or in a disjunction where they do not."""
    match predicate:
        case NonNegative(expression) | Zero(expression) | NonZero(expression):
            yield inside, expression
        case All(parts):
            for part in parts:
                yield from _in_predicate(inside, part)
                inside = inside.under(part)
        case Any(parts):
            for part in parts:
                yield from _in_predicate(inside, part)
                inside = inside.under(negation(part))
        case _:
            assert_never(predicate)
