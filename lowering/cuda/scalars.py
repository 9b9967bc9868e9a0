"""Scalar expressions and stores in CUDA: as in C, except that integers wrap by explicit helper functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from atl.core.dtypes import is_integer
from atl.core.index import Index
from atl.core.operations import INFIX, BinaryOp
from atl.core.predicate import TRUE, Predicate, conjunction, negation
from lowering.c.index import index_text, predicate_text
from lowering.c.scalars import C_TYPES, applied, conversion, helper, scalar_text, storage_text
from lowering.c.text import AND, OR, TERNARY, UNARY, Text, indented
from lowering.gpu.kernels import Copy, Distributed, Memory, Shuffle, Wide, WideLoad, in_registers
from lowering.gpu.passes import lanes_of
from lowering.nest import loopnest as ln
from lowering.nest.text import TextScope


@dataclass(frozen=True, slots=True)
class ThreadScope:
    """A place in a kernel: the names in scope, the thread along each axis of enclosing loops, and memories of buffers.

    `lanes` maps cells that are already loaded to the text of their value and the condition of the load. The value is
    zero if the condition is false.
    """

    scope: TextScope
    threads: Mapping[int, Index]
    memories: Mapping[int, Memory]
    lanes: Mapping[ln.Cell, tuple[str, Predicate]] = field(default_factory=dict)
    shuffles: Mapping[ln.Cell, Shuffle] = field(default_factory=dict)


def print_cell(here: ThreadScope, target: ln.Cell | ln.Scalar) -> Text:
    """Print a cell or variable; for a distributed buffer, the register of this thread."""
    if isinstance(target, ln.Cell):
        where = here.memories.get(target.buffer.uid, "global")
        if isinstance(where, Distributed):
            target = in_registers(target, where, here.threads)
    return storage_text(here.scope, target)


def scalar(here: ThreadScope, e: ln.ScalarExpr) -> Text:
    """Print an expression with the fewest parentheses."""
    match e:
        case ln.Load(source):
            if isinstance(source, ln.Cell) and source in here.lanes:
                return Text(here.lanes[source][0])
            if isinstance(source, ln.Cell) and source in here.shuffles:
                return _shuffled(here, here.shuffles[source])
            return print_cell(here, source)
        case ln.Number(_, dtype) if is_integer(dtype):
            # Cast int64 literals, because helper arguments are converted to the parameter's type.
            text = scalar_text(here.scope, e)
            return text if dtype != "int64" else Text(f"(int64_t){text.at(UNARY)}", UNARY)
        case ln.Number() | ln.FromIndex():
            return scalar_text(here.scope, e)
        case ln.Apply(op, arguments, dtype):
            return _applied(op, [scalar(here, argument) for argument in arguments], dtype)
        case ln.Choose(predicate, ln.Load(ln.Cell() as cell), ln.Number(0)) if (
            here.lanes.get(cell, ("", None))[1] == predicate
        ):
            return Text(here.lanes[cell][0])
        case ln.Choose(predicate, left, right):
            condition = predicate_text(here.scope, predicate)
            then = scalar(_under(here, here.scope.under(predicate)), left)
            other = scalar(_under(here, here.scope.under(negation(predicate))), right)
            return Text(f"{condition.at(OR)} ? {then.at(OR)} : {other.at(TERNARY)}", TERNARY)
        case ln.Convert(argument, dtype):
            inner = scalar(here, argument)
            if argument.dtype == dtype:
                return Text(f"({C_TYPES[dtype]}){inner.at(UNARY)}", UNARY)
            return conversion(inner, argument.dtype, dtype)
    assert_never(e)


def _shuffled(here: ThreadScope, shuffle: Shuffle) -> Text:
    mask, lane = (1 << shuffle.lanes) - 1, index_text(here.scope, shuffle.lane)
    value = storage_text(here.scope, shuffle.register).text
    return Text(f"__shfl_sync({mask:#x}u, {value}, {lane.text})")


def _under(here: ThreadScope, scope: TextScope) -> ThreadScope:
    return replace(here, scope=scope)


def _applied(op: ln.ScalarOp, texts: list[Text], dtype: str) -> Text:
    if is_integer(dtype):
        if op == "neg":
            return Text(f"{helper('sub', dtype)}(0, {texts[0].text})")
        if op in ("add", "sub", "mul"):
            return Text(f"{helper(op, dtype)}({texts[0].text}, {texts[1].text})")
    return applied(op, texts, dtype)


def accumulated(here: ThreadScope, target: ln.Cell | ln.Scalar, op: BinaryOp, value: ln.ScalarExpr) -> str:
    """Print `target = target op value`."""
    into, by = print_cell(here, target).text, scalar(here, value).text
    if op in INFIX and not is_integer(value.dtype):
        return f"{into} {INFIX[op]}= {by};"
    return f"{into} = {_applied(op, [Text(into), scalar(here, value)], value.dtype).text};"


# -- vectorised loops -------------------------------------------------------------------------------------------------


VECTOR_TYPES: Final = {
    ("float32", 4): "float4",
    ("float32", 2): "float2",
    ("float64", 2): "double2",
    ("int32", 4): "int4",
    ("int32", 2): "int2",
    ("int64", 2): "longlong2",
}
"""CUDA types that are loaded and stored by one instruction, aligned to their size."""

LANES: Final = "xyzw"

StoreTest = Callable[[ln.Cell | ln.Scalar], str]
"""A function that returns the test under which a thread makes a store; empty if all threads do."""


def wide_loop(loop: ln.For, wide: Wide, here: ThreadScope, store_test: StoreTest) -> list[str]:
    """Print a vectorised loop: its vector loads, then each lane, or one store of all lanes.

    The threads that make the store also make the loads.
    """
    here = replace(here, scope=here.scope.under(loop.range))
    lines: list[str] = []
    vectors: list[tuple[WideLoad, str]] = []
    scope = here.scope
    for load in wide.loads:
        kind = VECTOR_TYPES[load.cell.buffer.dtype, wide.lanes]
        first = print_cell(here, ln.cell_at(load.cell, loop.variable, loop.low)).text
        value = f"*(const {kind} *)&{first}"
        if load.under:
            condition = predicate_text(here.scope, conjunction(load.under)).at(OR)
            value = f"{condition} ? {value} : {kind}()"
        name, scope = scope.bind(("wide", load.cell), f"{load.cell.buffer.name}{wide.lanes}")
        lines.append(f"const {kind} {name} = {value};")
        vectors.append((load, name))
    here = replace(here, scope=scope)
    values: list[str] = []
    target: ln.Cell | ln.Scalar | None = None
    predicate: Predicate = TRUE
    for lane, at in zip(LANES, lanes_of(loop), strict=False):
        known = {
            ln.cell_at(load.cell, loop.variable, at): (f"{name}.{lane}", conjunction(load.under))
            for load, name in vectors
        }
        predicate, statement = _innermost(ln.at_iteration(loop, at))
        inside = replace(here, lanes=known, scope=here.scope.under(predicate))
        if wide.stores:
            target = target or statement.target
            values.append(scalar(inside, statement.value).text)
        elif isinstance(statement, ln.Accumulate):
            lines.append(accumulated(inside, statement.target, statement.op, statement.value))
        else:
            lines.append(f"{print_cell(inside, statement.target).text} = {scalar(inside, statement.value).text};")
    if isinstance(target, ln.Cell):
        kind, made = VECTOR_TYPES[target.buffer.dtype, wide.lanes], ", ".join(values)
        under = here.scope if predicate == TRUE else here.scope.under(predicate)
        first = print_cell(replace(here, scope=under), target).text
        whole = (name for _, name in vectors if values == [f"{name}.{lane}" for lane in LANES[: wide.lanes]])
        lines.append(f"*({kind} *)&{first} = {next(whole, f'make_{kind}({made})')};")
    tests = [
        store_test(_innermost(loop.body)[1].target),
        "" if predicate == TRUE else predicate_text(here.scope, predicate).at(AND),
    ]
    condition = " && ".join(filter(None, tests))
    return [f"if ({condition}) {{" if condition else "{", *indented(lines), "}"]


def copy_loop(loop: ln.For, copy: Copy, here: ThreadScope, store_test: StoreTest) -> list[str]:
    """Print an asynchronous copy. Without its conditions, no address is computed in the array, and zeros are stored."""
    here = replace(here, scope=here.scope.under(loop.range))
    _, statement = _innermost(ln.at_iteration(loop, loop.low))
    assert isinstance(statement.target, ln.Cell)
    target = f"&{print_cell(here, statement.target).text}"
    source, under = ln.cell_at(copy.load.cell, loop.variable, loop.low), conjunction(copy.load.under)
    if under == TRUE:
        lines = [f"copy_async({target}, &{print_cell(here, source).text}, true);"]
    else:
        name, _ = here.scope.bind(("copied", copy.load.cell), "there")
        address = f"&{print_cell(replace(here, scope=here.scope.under(under)), source).text}"
        lines = [
            f"const bool {name} = {predicate_text(here.scope, under).text};",
            f"copy_async({target}, {name} ? {address} : {here.scope.name(ln.key(source.buffer))}, {name});",
        ]
    test = store_test(statement.target)
    return [f"if ({test}) {{" if test else "{", *indented(lines), "}"]


def _innermost(block: tuple[object, ...]) -> tuple[Predicate, ln.Assign | ln.Accumulate]:
    """Return an iteration's store, and its condition."""
    (statement,) = block
    under: list[Predicate] = []
    while isinstance(statement, ln.If):
        under.append(statement.predicate)
        (statement,) = statement.body
    assert isinstance(statement, ln.Assign | ln.Accumulate)
    return conjunction(under), statement
