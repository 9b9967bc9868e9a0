"""Consistency of a nest's storage: each id denotes one buffer or scalar, as the names in Rocq require."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from atl.core.program import Program
from atl.errors import InvalidArgument
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Apply,
    Assign,
    Buffer,
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
)
from rewrites.rocq.nests.plan import hoisted_in

Held = Buffer | Scalar


def check_storage(nest: LoopNest, program: Program) -> None:
    """Raise `InvalidArgument` if an id denotes two things, or a statement does not fit the role of its storage."""
    known: dict[int, Held] = {nest.output.uid: nest.output}
    for at in statements(nest.body):
        for held in mentioned(at):
            if _described(known.setdefault(held.uid, held)) != _described(held):
                raise InvalidArgument(
                    f"{held.name} and {known[held.uid].name} have the same id {held.uid}",
                    required="a different id for each buffer",
                )
            if isinstance(held, Buffer) and held.role == "local" and not held.extents:
                raise InvalidArgument(f"{held.name} is a buffer of rank 0", required="a scalar variable instead")
        _check_role(at)
    allocated = hoisted_in(statements(nest.body))
    for at in statements(nest.body):
        if isinstance(at, Clear) and at.buffer.uid not in allocated:
            raise InvalidArgument(
                f"{at.buffer.name} is cleared but never allocated", required="an allocation before it"
            )
    if nest.output.dtype != program.type.dtype:
        raise InvalidArgument(
            f"{nest.output.name} holds {nest.output.dtype}", required=f"the program's {program.type.dtype}"
        )


def _described(held: Held) -> Buffer | Scalar:
    """Return the storage without its extents, which Rocq checks at each access."""
    return replace(held, extents=()) if isinstance(held, Buffer) else held


def _check_role(at: Statement) -> None:
    match at:
        case Assign(Cell(buffer)) | Accumulate(Cell(buffer)):
            if buffer.role == "input":
                raise InvalidArgument(f"a store to the input {buffer.name}", required="inputs that are only read")
        case Allocate(buffer) | Clear(buffer) | Free(buffer):
            if buffer.role != "local":
                raise InvalidArgument(
                    f"{buffer.name}, which is not a local tensor, is allocated, cleared or freed",
                    required="allocations of local tensors only",
                )
        case Assign() | Accumulate() | Declare() | For() | If():
            return
        case _:
            assert_never(at)


def mentioned(at: Statement) -> Iterator[Held]:
    """Yield the storage that a statement mentions, without its body."""
    match at:
        case Assign(target, value) | Accumulate(target, _, value):
            yield target.buffer if isinstance(target, Cell) else target
            yield from _sources(value)
        case Declare(variable, initial):
            yield variable
            yield from _sources(initial)
        case Allocate(buffer) | Clear(buffer) | Free(buffer):
            yield buffer
        case For() | If():
            return
        case _:
            assert_never(at)


def _sources(e: ScalarExpr) -> Iterator[Held]:
    match e:
        case Number() | FromIndex():
            return
        case Load(source):
            yield source.buffer if isinstance(source, Cell) else source
        case Apply(_, arguments):
            for argument in arguments:
                yield from _sources(argument)
        case Choose(_, left, right):
            yield from _sources(left)
            yield from _sources(right)
        case Convert(argument):
            yield from _sources(argument)
        case _:
            assert_never(e)
