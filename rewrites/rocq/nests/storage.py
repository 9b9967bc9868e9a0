"""Consistency of a nest's storage: each id denotes one buffer or scalar, as the names in Rocq require."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from atl.core.program import Program
from atl.errors import InvalidArgument
from lowering.nest import loopnest as ln
from rewrites.rocq.nests.plan import Held, hoisted_in, sources


def check_storage(nest: ln.LoopNest, program: Program) -> None:
    """Raise `InvalidArgument` if an id denotes two things, or a statement does not fit the role of its storage."""
    known: dict[int, Held] = {nest.output.uid: nest.output}
    for at in ln.statements(nest.body):
        for held in mentioned(at):
            if _described(known.setdefault(held.uid, held)) != _described(held):
                raise InvalidArgument(
                    f"{held.name} and {known[held.uid].name} have the same id {held.uid}",
                    required="a different id for each buffer",
                )
            if isinstance(held, ln.Buffer) and held.role == "local" and not held.extents:
                raise InvalidArgument(f"{held.name} is a buffer of rank 0", required="a scalar variable instead")
        _check_role(at)
    allocated = hoisted_in(ln.statements(nest.body))
    for at in ln.statements(nest.body):
        if isinstance(at, ln.Clear) and at.buffer.uid not in allocated:
            raise InvalidArgument(
                f"{at.buffer.name} is cleared but never allocated", required="an allocation before it"
            )
    if nest.output.dtype != program.type.dtype:
        raise InvalidArgument(
            f"{nest.output.name} holds {nest.output.dtype}", required=f"the program's {program.type.dtype}"
        )


def _described(held: Held) -> ln.Buffer | ln.Scalar:
    """Return the storage without its extents, which Rocq checks at each access."""
    return replace(held, extents=()) if isinstance(held, ln.Buffer) else held


def _check_role(at: ln.Statement) -> None:
    match at:
        case ln.Assign(ln.Cell(buffer)) | ln.Accumulate(ln.Cell(buffer)):
            if buffer.role == "input":
                raise InvalidArgument(f"a store to the input {buffer.name}", required="inputs that are only read")
        case ln.Allocate(buffer) | ln.Clear(buffer) | ln.Free(buffer):
            if buffer.role != "local":
                raise InvalidArgument(
                    f"{buffer.name}, which is not a local tensor, is allocated, cleared or freed",
                    required="allocations of local tensors only",
                )
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.For() | ln.If() | ln.Gather():
            return
        case _:
            assert_never(at)


def mentioned(at: ln.Statement) -> Iterator[Held]:
    """Yield the storage that a statement mentions, without its body."""
    match at:
        case ln.Assign(target, value) | ln.Accumulate(target, _, value):
            yield target.buffer if isinstance(target, ln.Cell) else target
            yield from sources(value)
        case ln.Declare(variable, initial):
            yield variable
            yield from sources(initial)
        case ln.Allocate(buffer) | ln.Clear(buffer) | ln.Free(buffer) | ln.Gather(buffer):
            yield buffer
        case ln.For() | ln.If():
            return
        case _:
            assert_never(at)
