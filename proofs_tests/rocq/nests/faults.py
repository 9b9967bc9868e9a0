"""Faults planted in loop nests before export, which Rocq must refuse.

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
from lowering.nest import loopnest as ln
from proofs_tests.rocq.nests import assembled
from rewrites.kernel import reflexivity
from rewrites.rocq.certificates import derivation
from rewrites.rocq.nests.kernels import text_by_theorem, text_of

Fault = Callable[[ln.Statement], ln.Statement | None]
"""Returns a faulty version of a statement, or None if the fault does not apply."""


def nests() -> Iterator[tuple[Program, ln.LoopNest]]:
    """Yield small programs with their nests, which contain statements for all faults."""
    for program in _programs():
        yield program, lower(program)
    a, b = atl.tensor("A", *atl.sizes("n m k")), atl.tensor("B", *atl.sizes("m k"))
    n, m, k = a.shape
    body = atl.gen(n, lambda i: atl.sum(m, lambda j: atl.sum(k, lambda p: a[i, j, p] * b[j, p])))
    nested = atl.program("nested", [a, b], body)
    yield nested, lower(nested, strict=True)


def _programs() -> Iterator[Program]:
    n, m, k = atl.sizes("n m k")
    f, a, b = atl.tensor("f", n), atl.tensor("A", n, k), atl.tensor("B", k, m)
    yield atl.program("product", [a, b], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: a[i, p] * b[p, j])))
    stage = atl.gen(n, lambda j: 2 * f[j])
    body = atl.let(stage, lambda buf: atl.gen(n, lambda i: atl.guard(i >= 1, buf[i - 1]) + buf[i]), name="buf")
    yield atl.program("pipeline", [f], body)
    yield atl.program("shift", [f], atl.gen(n, lambda i: atl.guard(i >= 2, f[i - 2])))
    yield atl.program("copy", [a], atl.gen(n, k, lambda i, p: a[i, p]))
    yield atl.program("outer", [a, b], atl.sum(k, lambda p: atl.gen(n, m, lambda i, j: a[i, p] * b[p, j])))


def _in_first(block: ln.Block, fault: Fault) -> ln.Block | None:
    """Return the block with the fault in the first suitable statement."""
    for place, statement in enumerate(block):
        changed = fault(statement)
        if changed is None and isinstance(statement, ln.For | ln.If):
            body = _in_first(statement.body, fault)
            changed = None if body is None else replace(statement, body=body)
        if changed is not None:
            return (*block[:place], changed, *block[place + 1 :])
    return None


def _moved(at: ln.Cell, by: int) -> ln.Cell:
    (first, extent), *rest = at.pairs
    return replace(at, pairs=((first + by, extent), *rest))


def _another_index(statement: ln.Statement) -> ln.Statement | None:
    match statement:
        case ln.Assign(ln.Cell() as target) | ln.Accumulate(ln.Cell() as target):
            return replace(statement, target=_moved(target, 1))
        case (
            ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free()
            | ln.Gather()
        ):  # fmt: skip
            return None
        case _:
            assert_never(statement)


def _another_load(statement: ln.Statement) -> ln.Statement | None:
    match statement:
        case ln.Assign(value=value) | ln.Accumulate(value=value):
            moved = _with_moved_load(value)
            return None if moved is None else replace(statement, value=moved)
        case ln.For() | ln.If() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return None
        case _:
            assert_never(statement)


def _with_moved_load(e: ln.ScalarExpr) -> ln.ScalarExpr | None:
    match e:
        case ln.Load(source):
            return ln.Load(_moved(source, 1)) if isinstance(source, ln.Cell) else None
        case ln.Apply(_, arguments):
            for place, argument in enumerate(arguments):
                moved = _with_moved_load(argument)
                if moved is not None:
                    return replace(e, arguments=(*arguments[:place], moved, *arguments[place + 1 :]))
            return None
        case ln.Number() | ln.FromIndex() | ln.Choose() | ln.Convert():
            return None
        case _:
            assert_never(e)


def _no_guard(statement: ln.Statement) -> ln.Statement | None:
    if isinstance(statement, ln.If):
        return replace(statement, predicate=TRUE)
    if isinstance(statement, ln.Assign):
        unguarded = _without_choice(statement.value)
        return None if unguarded is None else replace(statement, value=unguarded)
    return None


def _without_choice(e: ln.ScalarExpr) -> ln.ScalarExpr | None:
    if isinstance(e, ln.Choose):
        return e.left
    if isinstance(e, ln.Apply):
        tried = [_without_choice(argument) for argument in e.arguments]
        if any(tried):
            return replace(e, arguments=tuple(new or old for new, old in zip(tried, e.arguments, strict=True)))
    return None


def _loops(change: Callable[[ln.For], ln.For]) -> Fault:
    return lambda statement: change(statement) if isinstance(statement, ln.For) else None


def _no_sum(statement: ln.Statement) -> ln.Statement | None:
    return ln.Assign(statement.target, statement.value) if isinstance(statement, ln.Accumulate) else None


def _inner_sum_left_out(statement: ln.Statement) -> ln.Statement | None:
    """Compute the inner sum of nested sums, but do not add it."""
    if isinstance(statement, ln.For) and isinstance(statement.body[0], ln.Declare):
        return replace(statement, body=statement.body[:-1]) if isinstance(statement.body[-1], ln.Accumulate) else None
    return None


def _another_start(statement: ln.Statement) -> ln.Statement | None:
    return replace(statement, initial=ln.Number(1, "float32")) if isinstance(statement, ln.Declare) else None


def _another_number(statement: ln.Statement) -> ln.Statement | None:
    if (
        isinstance(statement, ln.Assign)
        and not isinstance(statement.target, ln.Scalar)
        and not isinstance(statement.value, ln.Load)
    ):
        return replace(statement, value=ln.Number(3, "float32"))
    return None


def _too_few_locations(statement: ln.Statement) -> ln.Statement | None:
    return replace(statement, capacity=statement.capacity - 1) if isinstance(statement, ln.Allocate) else None


def _other_extents(statement: ln.Statement) -> ln.Statement | None:
    if not isinstance(statement, ln.Allocate):
        return None
    first, *rest = statement.buffer.extents
    return replace(statement, buffer=replace(statement.buffer, extents=(first - 1, *rest)))


def _freed_twice(statement: ln.Statement) -> ln.Statement | None:
    return ln.For(Var(99, "twice"), ZERO, index(2), (statement,)) if isinstance(statement, ln.Free) else None


def _longer_rows(statement: ln.Statement) -> ln.Statement | None:
    if not isinstance(statement, ln.Assign) or not isinstance(statement.value, ln.Load):
        return None
    source = statement.value.source
    if not isinstance(source, ln.Cell) or source.buffer.role != "input":
        return None
    extents = (*source.buffer.extents[:-1], source.buffer.extents[-1] + 1)
    pairs = tuple((at, extent) for (at, _), extent in zip(source.pairs, extents, strict=True))
    return replace(statement, value=ln.Load(ln.Cell(replace(source.buffer, extents=extents), pairs)))


FAULTS: Final[dict[str, Fault]] = {
    "a store to the next element": _another_index,
    "a load from the next element": _another_load,
    "a guard that is left out": _no_guard,
    "one iteration more": _loops(lambda loop: replace(loop, high=loop.high + 1)),
    "one iteration less": _loops(lambda loop: replace(loop, high=loop.high - 1)),
    "the first iteration left out": _loops(lambda loop: replace(loop, low=loop.low + 1)),
    "a sum that is not added up": _no_sum,
    "another start of a sum": _another_start,
    "an inner sum that is left out": _inner_sum_left_out,
    "another number": _another_number,
    "fewer locations than elements": _too_few_locations,
    "extents of a smaller tensor": _other_extents,
    "storage that is freed twice": _freed_twice,
    "an input with longer rows": _longer_rows,
}
"""The faults, each planted in the first suitable statement."""


@dataclass(frozen=True, slots=True)
class Planted:
    """Return a nest with a fault, as a file."""

    name: str
    text: str


def wrong_nests() -> Iterator[Planted]:
    """Yield nests with a fault, except those for which no proof can be written."""
    for program, nest in nests():
        for what, wrong in _wrong(nest):
            for proof, write in (("a proof of it", text_of), ("the theorem", text_by_theorem)):
                try:
                    text = write(derivation(reflexivity(program)), wrong)
                except InvalidArgument:
                    continue
                yield Planted(f"{program.name} by {proof}: {what}", text)
    for what, program, wrong in assembled.wrong():
        name = f"{program.name}, {program.assembly.format}" if program.assembly is not None else program.name
        yield Planted(f"assembled {name}: {what}", text_of(derivation(reflexivity(program)), wrong))


def _wrong(nest: ln.LoopNest) -> Iterator[tuple[str, ln.LoopNest]]:
    for what, fault in FAULTS.items():
        body = _in_first(nest.body, fault)
        if body is not None:
            yield what, replace(nest, body=body)
    if not nest.complete:
        yield "an output that is not cleared", replace(nest, complete=True)
