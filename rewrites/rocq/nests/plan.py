"""Plans: the structure of a block as a proof needs it, with the storage that each part fills.

A block fills one piece of storage, and before that the storage it loads from. Statements keep the order of the nest.
The first statements are grouped if they fill storage that the rest loads from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from atl.core.index import Read
from atl.core.predicate import Predicate
from atl.errors import InvalidArgument
from lowering.nest import loopnest as ln
from rewrites.rocq.nests.printing import looks_of

Held: TypeAlias = ln.Buffer | ln.Scalar


@dataclass(frozen=True, slots=True)
class Nothing:
    """The empty block."""


@dataclass(frozen=True, slots=True)
class Looking:
    """The read of an element of an integer array, if `under` holds."""

    under: Predicate
    read: Read


@dataclass(frozen=True, slots=True)
class Simple:
    """A statement without a body."""

    at: ln.Assign | ln.Accumulate | ln.Declare | ln.Allocate | ln.Clear | ln.Free | ln.Gather


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop with the plan of its body."""

    at: ln.For
    body: Plan


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch with the plan of its body."""

    at: ln.If
    body: Plan


@dataclass(frozen=True, slots=True)
class Both:
    """A sequence of two plans. The first fills the storage `local`, if any, for the second."""

    first: Plan
    second: Plan
    local: Held | None = None


Plan: TypeAlias = Nothing | Looking | Simple | Loop | Branch | Both


def plan_of(block: Sequence[ln.Statement], target: int, hoisted: frozenset[int]) -> Plan:
    """Return the plan by which a block fills a storage id; `hoisted` buffers are allocated in an outer block."""
    if not block:
        return Nothing()
    first, rest = block[0], block[1:]
    written = storage_written(first, hoisted)
    if target not in written:
        for uid, held in written.items():
            if any(uid in loaded(statement) for statement in rest):
                last = max(k for k, each in enumerate(block) if uid in storage_written(each, hoisted))
                filling, using = block[: last + 1], block[last + 1 :]
                if any(target in storage_written(each, hoisted) for each in filling):
                    raise InvalidArgument(
                        f"{held.name} is filled by statements that also store a tensor that reads it",
                        required="a nest in which every tensor is filled before it is read",
                    )
                return Both(plan_of(filling, uid, hoisted), plan_of(using, target, hoisted), held)
    alone = _alone(first, target if target in written else None, hoisted)
    return Both(alone, plan_of(rest, target, hoisted)) if rest else alone


def _alone(at: ln.Statement, target: int | None, hoisted: frozenset[int]) -> Plan:
    """Return the plan of one statement, after the reads in its indices and conditions."""
    plan: Plan
    match at:
        case ln.For(body=body):
            plan = Loop(at, plan_of(body, -1 if target is None else target, hoisted))
        case ln.If(body=body):
            plan = Branch(at, plan_of(body, -1 if target is None else target, hoisted))
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            plan = Simple(at)
        case _:
            assert_never(at)
    for under, read in dict.fromkeys(looks_of(at)):
        plan = Both(Looking(under, read), plan)
    return plan


# -- stores and loads -------------------------------------------------------------------------------------------------


def storage_written(at: ln.Statement, hoisted: frozenset[int]) -> dict[int, Held]:
    """Return the storage that a statement changes and that outlives it, without freed storage."""
    match at:
        case ln.For(body=body) | ln.If(body=body):
            inside: dict[int, Held] = {}
            for each in body:
                inside |= storage_written(each, hoisted)
            return {uid: held for uid, held in inside.items() if uid not in begun(body, hoisted)}
        case ln.Assign(target) | ln.Accumulate(target):
            held = target.buffer if isinstance(target, ln.Cell) else target
            return {held.uid: held}
        case ln.Declare(variable):
            return {variable.uid: variable}
        case ln.Allocate(buffer):
            return {} if buffer.uid in hoisted else {buffer.uid: buffer}
        case ln.Clear(buffer):
            return {buffer.uid: buffer}
        case ln.Free() | ln.Gather():
            return {}
        case _:
            assert_never(at)


def begun(block: ln.Block, hoisted: frozenset[int]) -> set[int]:
    """Return the storage whose lifetime begins in a block."""
    found: set[int] = set()
    for at in block:
        match at:
            case ln.Declare(variable):
                found.add(variable.uid)
            case ln.Allocate(buffer) if buffer.uid not in hoisted:
                found.add(buffer.uid)
            case ln.Clear(buffer):
                found.add(buffer.uid)
            case ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Allocate() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(at)
    return found


def loaded(at: ln.Statement) -> set[int]:
    """Return the storage that a statement loads from."""
    match at:
        case ln.For(body=body) | ln.If(body=body):
            return {uid for each in body for uid in loaded(each)}
        case ln.Assign(_, value) | ln.Accumulate(_, _, value) | ln.Declare(_, value):
            return {held.uid for held in sources(value) if isinstance(held, ln.Scalar) or held.role != "input"}
        case ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return set()
        case _:
            assert_never(at)


def sources(e: ln.ScalarExpr) -> Iterator[Held]:
    """Yield the storage that an expression loads from."""
    for part in ln.parts_of(e):
        if isinstance(part, ln.Load):
            yield part.source.buffer if isinstance(part.source, ln.Cell) else part.source


def spares(plan: Plan, uid: int) -> bool:
    """Return whether a plan stores nothing to a storage id."""
    return not any(_held(at) == uid for at in simple(plan))


def adds(plan: Plan, uid: int) -> bool:
    """Return whether a plan stores to a storage id only by accumulation."""
    return all(isinstance(at, ln.Accumulate) for at in simple(plan) if _held(at) == uid)


def assigns(plan: Plan, uid: int) -> bool:
    """Return whether a plan stores to a storage id only by assignment."""
    return all(isinstance(at, ln.Assign) for at in simple(plan) if _held(at) == uid)


def sums(plan: Plan, uid: int) -> bool:
    """Return whether a plan accumulates into a storage id."""
    return any(isinstance(at, ln.Accumulate) for at in simple(plan) if _held(at) == uid)


def assigns_some(plan: Plan, uid: int) -> bool:
    """Return whether a plan assigns to a storage id."""
    return any(isinstance(at, ln.Assign) for at in simple(plan) if _held(at) == uid)


def simple(plan: Plan) -> Iterator[ln.Assign | ln.Accumulate | ln.Declare | ln.Allocate | ln.Clear | ln.Free]:
    """Yield the statements without a body, except ends of rows, which store nothing."""
    match plan:
        case Simple(at):
            if not isinstance(at, ln.Gather):
                yield at
        case Loop(_, body) | Branch(_, body):
            yield from simple(body)
        case Both(first, second):
            yield from simple(first)
            yield from simple(second)
        case Nothing() | Looking():
            return
        case _:
            assert_never(plan)


def _held(at: ln.Assign | ln.Accumulate | ln.Declare | ln.Allocate | ln.Clear | ln.Free) -> int:
    match at:
        case ln.Assign(target) | ln.Accumulate(target):
            return (target.buffer if isinstance(target, ln.Cell) else target).uid
        case ln.Declare(variable):
            return variable.uid
        case ln.Allocate(buffer) | ln.Clear(buffer) | ln.Free(buffer):
            return buffer.uid
        case _:
            assert_never(at)


def hoisted_in(found: Iterable[ln.Statement]) -> dict[int, ln.Allocate]:
    """Return the buffers that are cleared somewhere, each with its allocation."""
    listed = tuple(found)
    cleared = {at.buffer.uid for at in listed if isinstance(at, ln.Clear)}
    return {at.buffer.uid: at for at in listed if isinstance(at, ln.Allocate) and at.buffer.uid in cleared}
