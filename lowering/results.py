"""Results of different element types: a buffer for each, in place of one array of a type that holds all of them.

The body of the program converts each result to the common type, and has their elements one after the other. They are
lowered without that conversion. A store belongs to a result if its address is proved to be among the elements of that
result.

    cast(float64, ⊞[i < n] Σ[j < m] K[i, j]) ++ cast(float64, A)

    for i in 0..n:
        total = 0
        for j in 0..m:
            total += K[i, j]
        out[i] = total             →    count[i] = total
    for i in 0..n:
        out[i + n] = A[i]          →    a[i] = A[i]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Index
from atl.core.predicate import negation, within
from atl.core.program import Program, bounds, is_joined_exactly
from atl.core.traversal import Path
from atl.errors import InvalidArgument
from atl.prove import Facts, proves
from lowering.nest import loopnest as ln
from lowering.passes.buffers import (
    with_external_rows,
    with_lets_in_output_rows,
    with_reused_buffers,
    with_row_in_output,
)

OF_ONE_TYPE: Final = (with_row_in_output, with_reused_buffers, with_lets_in_output_rows, with_external_rows)
"""The passes that store other tensors in the output, which must then have their element type."""


def have_different_dtypes(program: Program) -> bool:
    """Return whether the results of a program have different element types."""
    return any(each.dtype not in (None, program.dtype) for each in program.results)


def with_result_buffers(
    nest: ln.LoopNest, met: Collection[Path], program: Program
) -> tuple[ln.LoopNest, Collection[Path]] | None:
    """Return the nest, before the passes, with a buffer for each result, and the marked loops in it.

    Return None in these cases: a place in the output is not proved to be in one result; a sum is added to a result of
    another type; a result is read again, like rows of a recurrence, although its values are converted when they are
    stored; a result of int64 would be converted from float64.
    """
    ids = ln.unused_ids(nest)
    parts = [
        _Part(ln.Buffer(next(ids), each.name, each.dtype or program.dtype, (end - start,), "output"), start, end)
        for each, start, end in bounds(program.results)
    ]
    split = _Split(nest.output, parts, is_joined_exactly(program))
    try:
        body = split.block(nest.body, initial_facts(nest.assumptions, nest.inputs))
    except _NotSplit:
        return None
    if split.read & split.converted:
        return None
    return replace(nest, body=body, results=tuple(part.buffer for part in parts)), met


def not_separated(program: Program) -> InvalidArgument:
    """Return the error for results that no single array holds, and that have no separate buffers."""
    kinds = ", ".join(f"{each.name} is {each.type_in(program).dtype}" for each in program.results)
    wide = next(each.name for each in program.results if each.dtype == "int64")
    return InvalidArgument(
        f"the results of {program.name} need separate arrays, since no element type holds the values of all: {kinds}",
        required="the target C, and a goal in which each result is computed and stored by separate statements",
        suggestions=(f'return atl.cast("int32", {wide}), if its values are small', "write a program for each result"),
    )


class _NotSplit(Exception):
    """The results are not separable."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A result: its buffer, and the start and the end of its elements in the output."""

    buffer: ln.Buffer
    start: Index
    end: Index


@dataclass(frozen=True, slots=True)
class _Split:
    output: ln.Buffer
    parts: Sequence[_Part]
    is_exact: bool
    """True if the type of the output holds the values of all results."""
    read: set[ln.Buffer] = field(default_factory=set)
    """The results of which elements are read."""
    converted: set[ln.Buffer] = field(default_factory=set)
    """The results that store values of another type."""

    def block(self, block: ln.Block, facts: Facts) -> ln.Block:
        return tuple(self._statement(statement, facts) for statement in block)

    def _statement(self, statement: ln.Statement, facts: Facts) -> ln.Statement:
        match statement:
            case ln.For(body=body):
                return ln.with_body(statement, self.block(body, facts.assume(statement.range)))
            case ln.If(predicate, body):
                return ln.with_body(statement, self.block(body, facts.assume(predicate)))
            case ln.Assign(target, value):
                to, value = self._place(target, facts), self._scalar(value, facts)
                return ln.Assign(to, value if to is target else self._in_type(value, _stored(to)))
            case ln.Accumulate(target, op, value):
                to, value = self._place(target, facts), self._scalar(value, facts)
                if to is not target:
                    self.read.add(_stored(to))
                    if value.dtype != _stored(to).dtype:
                        raise _NotSplit
                return ln.Accumulate(to, op, value)
            case ln.Declare(_, initial):
                return replace(statement, initial=self._scalar(initial, facts))
            case ln.Clear(buffer) if buffer == self.output:
                raise _NotSplit
            case ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                return statement
        assert_never(statement)

    def _place(self, at: ln.Cell | ln.Scalar, facts: Facts) -> ln.Cell | ln.Scalar:
        if isinstance(at, ln.Scalar) or at.buffer != self.output:
            return at
        address = at.address
        for part in self.parts:
            if proves(facts, within(part.start, address, part.end)):
                return ln.Cell(part.buffer, ((address - part.start, part.end - part.start),))
        raise _NotSplit

    def _scalar(self, e: ln.ScalarExpr, facts: Facts) -> ln.ScalarExpr:
        match e:
            case ln.Number() | ln.FromIndex():
                return e
            case ln.Load(source):
                place = self._place(source, facts)
                if place is not source:
                    self.read.add(_stored(place))
                return ln.Load(place)
            case ln.Apply(op, arguments, dtype):
                return ln.Apply(op, tuple(self._scalar(argument, facts) for argument in arguments), dtype)
            case ln.Choose(predicate, left, right):
                otherwise = facts.assume(negation(predicate))
                return ln.Choose(predicate, self._scalar(left, facts.assume(predicate)), self._scalar(right, otherwise))
            case ln.Convert(argument, dtype):
                return ln.Convert(self._scalar(argument, facts), dtype)
        assert_never(e)

    def _in_type(self, e: ln.ScalarExpr, to: ln.Buffer) -> ln.ScalarExpr:
        """Return the value in the type of its result, which holds the value in the common type exactly."""
        if e.dtype == to.dtype:
            return e
        if isinstance(e, ln.Convert) and e.dtype == self.output.dtype and e.argument.dtype == to.dtype:
            return e.argument
        if not self.is_exact and to.dtype == "int64":
            raise _NotSplit
        self.converted.add(to)
        common = e if e.dtype == self.output.dtype else ln.Convert(e, self.output.dtype)
        return common if to.dtype == self.output.dtype else ln.Convert(common, to.dtype)


def _stored(at: ln.Cell | ln.Scalar) -> ln.Buffer:
    """Return the result in which a place is."""
    assert isinstance(at, ln.Cell)
    return at.buffer
