"""The mutants of a file: small changes to its syntax, each of which some test should notice.

A comparison is turned or weakened, a condition is dropped or forced, one side of and/or is forgotten, a constant moves
by one, a statement that checks or raises is left out, a result is replaced by nothing. Words of messages stay.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

Edit: TypeAlias = Callable[[], None]

_COMPARED: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_OTHER_WORD: Final = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change in a function of a file: `function` is its dotted name there, `line` where the change is."""

    file: str
    function: str
    line: int
    change: str
    number: int
    """Which of the changes of the function that are called so."""
    place: int
    """Which of the changes of the file it is."""

    @property
    def key(self) -> str:
        """What it is remembered by: it does not move when lines are added elsewhere."""
        return f"{self.file}::{self.function}::{self.change}::{self.number}"


def mutants(file: str, text: str) -> list[Mutant]:
    """All mutants of a file, function by function."""
    seen: dict[tuple[str, str], int] = {}
    out = []
    for place, (function, line, change, _) in enumerate(_edits(ast.parse(text))):
        number = seen[function, change] = seen.get((function, change), -1) + 1
        out.append(Mutant(file, function, line, change, number, place))
    return out


def functions(text: str) -> dict[str, str]:
    """The functions of a file by their dotted names, each as text without comments."""
    return {name: ast.unparse(node) for name, node in _functions(ast.parse(text))}


class Syntax:
    """The syntax of a file, in which one change can be made, once: a process of its own has all of them to itself."""

    def __init__(self, text: str) -> None:
        self._tree = ast.parse(text)
        self._edits = [edit for *_, edit in _edits(self._tree)]

    def changed(self, mutant: Mutant) -> ast.Module:
        """The syntax with the change."""
        self._edits[mutant.place]()
        return ast.fix_missing_locations(self._tree)


def _edits(tree: ast.Module) -> Iterator[tuple[str, int, str, Edit]]:
    for function, node in _functions(tree):
        for line, change, edit in _changes(node):
            yield function, line, change, edit


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a module and the methods of its classes; what is nested in them is part of them."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{part.name}", part) for part in node.body if isinstance(part, ast.FunctionDef))


def _changes(function: ast.FunctionDef) -> Iterator[tuple[int, str, Edit]]:
    for node in _below(function):
        for change, target, name, value in _of(node):
            yield _line(node, change, function), change, partial(setattr, target, name, value)


def _line(node: ast.AST, change: str, function: ast.FunctionDef) -> int:
    """Where a change is seen: a part of a comprehension or of a match has no line of its own, a function two."""
    if isinstance(node, ast.FunctionDef):
        return next(part.lineno for part in node.body if change.startswith(ast.unparse(part).splitlines()[0][:60]))
    inside = node.target if isinstance(node, ast.comprehension) else getattr(node, "pattern", node)
    return int(getattr(inside, "lineno", function.body[0].lineno))


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """What is run of a function: no annotations, no docstring, no words of what is raised."""
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        parts: list[ast.AST] = list(node.body) if isinstance(node, ast.FunctionDef) else [node.body]
        if isinstance(node, ast.FunctionDef):
            yield node
    elif isinstance(node, ast.Raise):
        yield node
        return
    elif isinstance(node, ast.AnnAssign):
        yield node
        parts = [node.value] if node.value is not None else []
    else:
        yield node
        parts = list(ast.iter_child_nodes(node))
    for part in parts:
        yield from _below(part)


Change: TypeAlias = tuple[str, ast.AST, str, object]


def _of(node: ast.AST) -> Iterator[Change]:
    """The changes of one node: in words, and the field of a node that gets another value."""
    said = ast.unparse(node).split("\n")[0][:70] if isinstance(node, ast.expr | ast.stmt) else ""
    match node:
        case ast.Compare(ops=[op]):
            for other in _COMPARED[type(op)]:
                yield f"{said}: {type(op).__name__} becomes {other.__name__}", node, "ops", [other()]
        case ast.Compare(ops=[*ops]):
            for place, op in enumerate(ops):
                for other in _COMPARED[type(op)]:
                    changed = [*ops[:place], other(), *ops[place + 1 :]]
                    yield f"{said}: {type(op).__name__} {place} becomes {other.__name__}", node, "ops", changed
        case ast.BoolOp(op=op, values=values):
            yield f"{said}: and/or exchanged", node, "op", ast.Or() if isinstance(op, ast.And) else ast.And()
            for place in range(len(values)):
                yield f"{said}: part {place} forgotten", node, "values", _without(values, place)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"{said}: not forgotten", node, "operand", ast.UnaryOp(op=ast.Not(), operand=operand)
        case ast.If() | ast.While():
            yield f"if {ast.unparse(node.test)[:60]}: never", node, "test", ast.Constant(value=False)
            if isinstance(node, ast.If):
                yield f"if {ast.unparse(node.test)[:60]}: always", node, "test", ast.Constant(value=True)
        case ast.IfExp():
            yield f"{said}: never", node, "test", ast.Constant(value=False)
            yield f"{said}: always", node, "test", ast.Constant(value=True)
        case ast.BinOp(op=op) if type(op) in _COMPUTED and not _is_text(node):
            yield f"{said}: another operation", node, "op", _COMPUTED[type(op)]()
        case ast.Constant(value=bool(value)):
            yield f"{value}: negated", node, "value", not value
        case ast.Constant(value=int(value)):
            yield f"{value}: one more", node, "value", value + 1
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield f"{said}: nothing", node, "value", ast.Constant(value=None)
        case ast.comprehension(ifs=[*conditions]) if conditions:
            for place in range(len(conditions)):
                yield f"condition {ast.unparse(conditions[place])[:60]} dropped", node, "ifs", _left(conditions, place)
        case ast.Call(func=ast.Name(id=name) as called) if name in _OTHER_WORD:
            yield f"{said}: {_OTHER_WORD[name]}", called, "id", _OTHER_WORD[name]
        case ast.match_case(guard=ast.expr() as guard):
            yield f"guard {ast.unparse(guard)[:60]} dropped", node, "guard", None
        case _:
            pass
    yield from _left_out(node)


def _left_out(node: ast.AST) -> Iterator[Change]:
    """Statements of a block that are left out: what checks, raises or writes."""
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        if not isinstance(block, list):
            continue
        for place, statement in enumerate(block):
            if isinstance(statement, ast.Raise | ast.AugAssign) or (
                isinstance(statement, ast.Expr)
                and not isinstance(statement.value, ast.Constant)
                and not ast.unparse(statement).startswith("assert_never(")  # which mypy has seen that nothing comes to
            ):
                left = [*block[:place], ast.Pass(), *block[place + 1 :]]
                yield f"{ast.unparse(statement).splitlines()[0][:60]}: left out", node, name, left


def _without(values: list[ast.expr], place: int) -> list[ast.expr]:
    left = _left(values, place)
    return left if len(left) > 1 else [left[0], left[0]]


def _left(values: list[ast.expr], place: int) -> list[ast.expr]:
    return [*values[:place], *values[place + 1 :]]


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str)
        for side in (node.left, node.right)
    )
