"""Rocq refuses a loop nest that is wrong: a fault is planted in the nest itself, before anything is printed.

So the statement, and every hint of the proof, are those of the wrong nest, as a wrong pass would make it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, assert_never

import atl
from atl.core.index import ZERO, Var, index
from atl.core.predicate import TRUE
from atl.core.program import Program
from atl.errors import InvalidArgument
from lowering import lower
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
)
from rewrites.kernel import reflexivity
from rewrites.rocq.certificates import derivation
from rewrites.rocq.nests.kernels import text_of

Fault = Callable[[Statement], Statement | None]
"""A statement as a fault has it, or None where there is nothing of its kind."""


def programs() -> Iterator[Program]:
    """Programs whose nests have between them all that a fault is about, each small."""
    n, m, k = atl.sizes("n m k")
    f, a, b = atl.tensor("f", n), atl.tensor("A", n, k), atl.tensor("B", k, m)
    yield atl.program("product", [a, b], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: a[i, p] * b[p, j])))
    stage = atl.gen(n, lambda j: 2 * f[j])
    body = atl.let(stage, lambda buf: atl.gen(n, lambda i: atl.guard(i >= 1, buf[i - 1]) + buf[i]), name="buf")
    yield atl.program("pipeline", [f], body)
    yield atl.program("shift", [f], atl.gen(n, lambda i: atl.guard(i >= 2, f[i - 2])))
    yield atl.program("copy", [a], atl.gen(n, k, lambda i, p: a[i, p]))
    yield atl.program("outer", [a, b], atl.sum(k, lambda p: atl.gen(n, m, lambda i, j: a[i, p] * b[p, j])))


def _in_first(block: Block, fault: Fault) -> Block | None:
    """The block with the fault in the first statement that it fits."""
    for place, statement in enumerate(block):
        changed = fault(statement)
        if changed is None and isinstance(statement, For | If):
            body = _in_first(statement.body, fault)
            changed = None if body is None else replace(statement, body=body)
        if changed is not None:
            return (*block[:place], changed, *block[place + 1 :])
    return None


def _moved(at: Cell, by: int) -> Cell:
    (first, extent), *rest = at.pairs
    return replace(at, pairs=((first + by, extent), *rest))


def _another_index(statement: Statement) -> Statement | None:
    match statement:
        case Assign(Cell() as target) | Accumulate(Cell() as target):
            return replace(statement, target=_moved(target, 1))
        case For() | If() | Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
            return None
        case _:
            assert_never(statement)


def _another_load(statement: Statement) -> Statement | None:
    match statement:
        case Assign(value=value) | Accumulate(value=value):
            moved = _with_moved_load(value)
            return None if moved is None else replace(statement, value=moved)
        case For() | If() | Declare() | Allocate() | Clear() | Free():
            return None
        case _:
            assert_never(statement)


def _with_moved_load(e: ScalarExpr) -> ScalarExpr | None:
    match e:
        case Load(source):
            return Load(_moved(source, 1)) if isinstance(source, Cell) else None
        case Apply(_, arguments):
            for place, argument in enumerate(arguments):
                moved = _with_moved_load(argument)
                if moved is not None:
                    return replace(e, arguments=(*arguments[:place], moved, *arguments[place + 1 :]))
            return None
        case Number() | FromIndex() | Choose() | Convert():
            return None
        case _:
            assert_never(e)


def _no_guard(statement: Statement) -> Statement | None:
    if isinstance(statement, If):
        return replace(statement, predicate=TRUE)
    if isinstance(statement, Assign):
        unguarded = _without_choice(statement.value)
        return None if unguarded is None else replace(statement, value=unguarded)
    return None


def _without_choice(e: ScalarExpr) -> ScalarExpr | None:
    if isinstance(e, Choose):
        return e.left
    if isinstance(e, Apply):
        tried = [_without_choice(argument) for argument in e.arguments]
        if any(tried):
            return replace(e, arguments=tuple(new or old for new, old in zip(tried, e.arguments, strict=True)))
    return None


def _loops(change: Callable[[For], For]) -> Fault:
    return lambda statement: change(statement) if isinstance(statement, For) else None


def _no_sum(statement: Statement) -> Statement | None:
    return Assign(statement.target, statement.value) if isinstance(statement, Accumulate) else None


def _another_start(statement: Statement) -> Statement | None:
    return replace(statement, initial=Number(1, "float32")) if isinstance(statement, Declare) else None


def _another_number(statement: Statement) -> Statement | None:
    if (
        isinstance(statement, Assign)
        and not isinstance(statement.target, Scalar)
        and not isinstance(statement.value, Load)
    ):
        return replace(statement, value=Number(3, "float32"))
    return None


def _less_room(statement: Statement) -> Statement | None:
    return replace(statement, capacity=statement.capacity - 1) if isinstance(statement, Allocate) else None


def _other_extents(statement: Statement) -> Statement | None:
    if not isinstance(statement, Allocate):
        return None
    first, *rest = statement.buffer.extents
    return replace(statement, buffer=replace(statement.buffer, extents=(first - 1, *rest)))


def _freed_twice(statement: Statement) -> Statement | None:
    return For(Var(99, "twice"), ZERO, index(2), (statement,)) if isinstance(statement, Free) else None


def _longer_rows(statement: Statement) -> Statement | None:
    if not isinstance(statement, Assign) or not isinstance(statement.value, Load):
        return None
    source = statement.value.source
    if not isinstance(source, Cell) or source.buffer.role != "input":
        return None
    extents = (*source.buffer.extents[:-1], source.buffer.extents[-1] + 1)
    pairs = tuple((at, extent) for (at, _), extent in zip(source.pairs, extents, strict=True))
    return replace(statement, value=Load(Cell(replace(source.buffer, extents=extents), pairs)))


FAULTS: Final[dict[str, Fault]] = {
    "a store to the next element": _another_index,
    "a load from the next element": _another_load,
    "a guard that is left out": _no_guard,
    "one iteration more": _loops(lambda loop: replace(loop, high=loop.high + 1)),
    "one iteration less": _loops(lambda loop: replace(loop, high=loop.high - 1)),
    "the first iteration left out": _loops(lambda loop: replace(loop, low=loop.low + 1)),
    "a sum that is not added up": _no_sum,
    "another start of a sum": _another_start,
    "another number": _another_number,
    "less room than elements": _less_room,
    "room for a smaller tensor": _other_extents,
    "storage that is freed twice": _freed_twice,
    "an input with longer rows": _longer_rows,
}
"""What is planted, each in the first statement that it fits."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A nest with a fault, as a file."""

    name: str
    text: str


def wrong_nests() -> Iterator[Planted]:
    """Nests with a fault in each; where no proof can be written for it at all, there is nothing for Rocq to refuse."""
    for program in programs():
        nest = lower(program)
        for what, wrong in _wrong(nest):
            try:
                yield Planted(f"{program.name}: {what}", text_of(derivation(reflexivity(program)), wrong))
            except InvalidArgument:
                continue


def _wrong(nest: LoopNest) -> Iterator[tuple[str, LoopNest]]:
    for what, fault in FAULTS.items():
        body = _in_first(nest.body, fault)
        if body is not None:
            yield what, replace(nest, body=body)
    if not nest.complete:
        yield "an output that is not cleared", replace(nest, complete=True)
