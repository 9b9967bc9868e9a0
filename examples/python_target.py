"""A printer of loop nests as Python with NumPy scalars: the example of a target in CONTRIBUTING.md."""

from __future__ import annotations

from typing import assert_never

from atl.core.index import Index
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero
from lowering.c.text import indented
from lowering.nest import loopnest as ln
from lowering.nest.text import TextScope, outermost, show_index

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_FUNCTIONS = {"neg": "-", "min": "min", "max": "max", "abs": "abs"}


def print_python(nest: ln.LoopNest) -> str:
    """Print a nest as a Python function of its inputs, its sizes and `out`, with the names of `print_nest`."""
    scope = outermost(nest)
    names = [*(array.name for array in nest.inputs), *nest.sizes, scope.name(ln.key(nest.output))]
    lines = [f"{names[-1]}[...] = 0", *_block(scope, nest.body), f"return {names[-1]}"]
    head = ["from math import inf", "", "import numpy as np", "", "ceildiv = lambda a, b: -(-a // b)", "", ""]
    return "\n".join([*head, f"def {nest.name}({', '.join(names)}):", *indented(lines), ""])


def _block(scope: TextScope, block: ln.Block) -> list[str]:
    lines: list[str] = []
    for statement in block:
        match statement:
            case ln.Declare(variable, initial):
                first = _scalar(scope, initial)
                name, scope = scope.bind(ln.key(variable), variable.name)
                lines.append(f"{name} = {first}")
            case ln.Allocate(buffer):
                extents = "".join(f"{show_index(scope, extent)}, " for extent in buffer.allocated_extents)
                name, scope = scope.bind(ln.key(buffer), buffer.name)
                lines.append(f"{name} = np.zeros(({extents}), np.{buffer.dtype})")
            case ln.For(variable, low, high, body):
                ends = f"{show_index(scope, low)}, {show_index(scope, high)}"
                name, inside = scope.bind(variable, variable.name)
                lines += [f"for {name} in range({ends}):", *indented(_block(inside, body))]
            case ln.If(predicate, body):
                lines += [f"if {_condition(scope, predicate)}:", *indented(_block(scope, body))]
            case ln.Assign(target, value):
                lines.append(f"{_stored(scope, target)} = {_scalar(scope, value)}")
            case ln.Accumulate(target, op, value):
                into = _stored(scope, target)
                lines.append(f"{into} = {_applied(op, [into, _scalar(scope, value)])}")
            case ln.Clear(buffer):
                where = (
                    "..." if statement.row_start is None else show_index(scope, statement.row_start.memory_pairs[0][0])
                )
                lines.append(f"{scope.name(ln.key(buffer))}[{where}] = 0")
            case ln.Free() | ln.Gather():
                pass  # Python frees memory itself; an assembled result is dense here
            case _:
                assert_never(statement)
    return lines


def _stored(scope: TextScope, target: ln.Cell | ln.Scalar) -> str:
    if isinstance(target, ln.Scalar):
        return scope.name(ln.key(target))
    return f"{scope.name(ln.key(target.buffer))}[{_positions(scope, [at for at, _ in target.memory_pairs])}]"


def _positions(scope: TextScope, at: list[Index]) -> str:
    return ", ".join(show_index(scope, position) for position in at) or "()"


def _scalar(scope: TextScope, e: ln.ScalarExpr) -> str:
    match e:
        case ln.Number(value, dtype):
            return f"np.{dtype}({value!r})"
        case ln.Load(source):
            return _stored(scope, source)
        case ln.FromIndex(index, dtype):
            return f"np.{dtype}({show_index(scope, index)})"
        case ln.Apply(op, arguments):
            return _applied(op, [_scalar(scope, argument) for argument in arguments])
        case ln.Choose(predicate, left, right):
            return f"({_scalar(scope, left)} if {_condition(scope, predicate)} else {_scalar(scope, right)})"
        case ln.Convert(argument, dtype):
            return f"np.{dtype}({_scalar(scope, argument)})"
        case _:
            assert_never(e)


def _applied(op: str, arguments: list[str]) -> str:
    if op in _SIGNS:
        return f"({arguments[0]} {_SIGNS[op]} {arguments[1]})"
    return f"{_FUNCTIONS.get(op, f'np.{op}')}({', '.join(arguments)})"


def _condition(scope: TextScope, predicate: Predicate) -> str:
    match predicate:
        case NonNegative(expression):
            return f"{show_index(scope, expression)} >= 0"
        case Zero(expression):
            return f"{show_index(scope, expression)} == 0"
        case NonZero(expression):
            return f"{show_index(scope, expression)} != 0"
        case All(parts):
            return f"({' and '.join(_condition(scope, part) for part in parts) or 'True'})"
        case Any(parts):
            return f"({' or '.join(_condition(scope, part) for part in parts) or 'False'})"
        case _:
            assert_never(predicate)
