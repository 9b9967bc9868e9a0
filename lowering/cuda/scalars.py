"""Scalar expressions and stores in CUDA: as in C, except that integers wrap by explicit helper functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from atl.core.dtypes import is_integer
from atl.core.index import Index
from atl.core.predicate import Predicate, negation
from atl.core.terms import BinaryOp
from atl.text.index_notation import INFIX
from lowering.c.index import predicate_text
from lowering.c.scalars import C_TYPES, applied, helper, scalar_text, storage_text
from lowering.c.text import OR, TERNARY, UNARY, Text
from lowering.gpu.kernels import Distributed, Memory, in_registers
from lowering.nest.loopnest import Apply, Cell, Choose, Convert, FromIndex, Load, Number, Scalar, ScalarExpr
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
    lanes: Mapping[Cell, tuple[str, Predicate]] = field(default_factory=dict)


def print_cell(here: ThreadScope, target: Cell | Scalar) -> Text:
    """Print a cell or variable; for a distributed buffer, the register of this thread."""
    if isinstance(target, Cell):
        where = here.memories.get(target.buffer.uid, "global")
        if isinstance(where, Distributed):
            target = in_registers(target, where, here.threads)
    return storage_text(here.scope, target)


def scalar(here: ThreadScope, e: ScalarExpr) -> Text:
    """Print an expression with the fewest parentheses."""
    match e:
        case Load(source):
            if isinstance(source, Cell) and source in here.lanes:
                return Text(here.lanes[source][0])
            return print_cell(here, source)
        case Number(_, dtype) if is_integer(dtype):
            # Cast int64 literals, because helper arguments are converted to the parameter's type.
            text = scalar_text(here.scope, e)
            return text if dtype == "int32" else Text(f"(int64_t){text.at(UNARY)}", UNARY)
        case Number() | FromIndex():
            return scalar_text(here.scope, e)
        case Apply(op, arguments, dtype):
            return _applied(op, [scalar(here, argument) for argument in arguments], dtype)
        case Choose(predicate, Load(Cell() as cell), Number(0)) if here.lanes.get(cell, ("", None))[1] == predicate:
            return Text(here.lanes[cell][0])
        case Choose(predicate, left, right):
            condition = predicate_text(here.scope, predicate)
            then = scalar(_under(here, here.scope.under(predicate)), left)
            other = scalar(_under(here, here.scope.under(negation(predicate))), right)
            return Text(f"{condition.at(OR)} ? {then.at(OR)} : {other.at(TERNARY)}", TERNARY)
        case Convert(argument, dtype):
            return Text(f"({C_TYPES[dtype]}){scalar(here, argument).at(UNARY)}", UNARY)
    assert_never(e)


def _under(here: ThreadScope, scope: TextScope) -> ThreadScope:
    return replace(here, scope=scope)


def _applied(op: str, texts: list[Text], dtype: str) -> Text:
    if is_integer(dtype):
        if op == "neg":
            return Text(f"{helper('sub', dtype)}(0, {texts[0].text})")
        if op in ("add", "sub", "mul"):
            return Text(f"{helper(op, dtype)}({texts[0].text}, {texts[1].text})")
    return applied(op, texts, dtype)  # type: ignore[arg-type]


def accumulated(here: ThreadScope, target: Cell | Scalar, op: BinaryOp, value: ScalarExpr) -> str:
    """Print `target = target op value`."""
    into, by = print_cell(here, target).text, scalar(here, value).text
    if op in INFIX and not is_integer(value.dtype):
        return f"{into} {INFIX[op]}= {by};"
    return f"{into} = {helper(op, value.dtype)}({into}, {by});"
