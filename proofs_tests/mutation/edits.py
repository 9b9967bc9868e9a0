"""Mutants of a file: small changes to its syntax, each of which some test should detect.

A comparison is negated or weakened, a condition dropped or forced, an operand dropped, a constant incremented, a
checking statement deleted, a result replaced by None. A loop runs for its first element only, or skips it; a comparison
ignores one component; a call loses an argument, or returns its argument. Messages are not changed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias

from atl.core.node import Node

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
_OTHER_WORD: Final = {"any": "all", "all": "any", "min": "max", "max": "min", "at_most": "less", "less": "at_most"}
_GIVEN_BACK: Final = frozenset({"negation", "predicate", "shape", "shift", "substitute"})
"""Functions and methods with a result of the type of their first argument."""
PARTS: Final = 5
"""Number of components that comparisons ignore, one at a time: those of a program."""
IGNORED: Final = "ignored"
"""Last word of such a change, after the number of the component."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change at a line of a function, given by its dotted name in the file."""

    file: str
    function: str
    line: int
    change: str
    number: int
    """Index among the equal changes of the function."""
    place: int
    """Index among the changes of the file."""

    @property
    def key(self) -> str:
        """Key for verdicts, independent of line numbers."""
        return f"{self.file}::{self.function}::{self.change}::{self.number}"

    @property
    def part(self) -> int | None:
        """Component that a comparison ignores, if the change is of this kind."""
        before, _, last = self.change.rpartition(" ")
        return int(before.rpartition(" ")[2]) if last == IGNORED else None

    @property
    def with_an_earlier_part(self) -> Mutant | None:
        """The mutant that ignores the previous component; if no values have that one, none have this."""
        if not self.part:
            return None
        change = self.change.removesuffix(f"{self.part} {IGNORED}") + f"{self.part - 1} {IGNORED}"
        return replace(self, change=change, place=self.place - 1)


def mutants(file: str, text: str) -> list[Mutant]:
    """Return all mutants of a file, function by function."""
    seen: dict[tuple[str, str], int] = {}
    out = []
    for place, (function, line, change, _) in enumerate(_edits(ast.parse(text))):
        number = seen[function, change] = seen.get((function, change), -1) + 1
        out.append(Mutant(file, function, line, change, number, place))
    return out


def functions(text: str) -> dict[str, str]:
    """Return the text of the functions of a file without comments, by dotted name."""
    return {name: ast.unparse(node) for name, node in _functions(ast.parse(text))}


class Alike:
    """A comparison that ignores one component of two values."""

    def __init__(self) -> None:
        self.used = False
        """True once two values with this component have been compared."""

    def __call__(self, left: Any, right: Any, part: int) -> Any:
        """Return `right` if the values differ at most in this component, else `left`."""
        ours, others = _parts(left), _parts(right)
        if type(left) is not type(right) or not part < len(ours) == len(others):
            return left
        self.used = True
        ours[part] = others[part]
        return right if ours == others else left


def _parts(value: Any) -> list[Any]:
    """Return the components that equality compares; none for an atomic value."""
    if isinstance(value, Node):
        key: Any = value.identity.key
        value = key[1]
    elif is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value) if field.compare]
    return list(value) if isinstance(value, tuple | list) else []


ALIKE: Final = Alike()
NAMES: Final[dict[str, Any]] = {"alike": ALIKE, "islice": islice}
"""Names that mutants use."""


class Syntax:
    """The syntax of a file, for a single change per process."""

    def __init__(self, text: str) -> None:
        self._tree = ast.parse(text)
        self._edits = [edit for *_, edit in _edits(self._tree)]

    def changed(self, mutant: Mutant) -> ast.Module:
        """Return the changed syntax."""
        self._edits[mutant.place]()
        return ast.fix_missing_locations(self._tree)


def _edits(tree: ast.Module) -> Iterator[tuple[str, int, str, Edit]]:
    for function, node in _functions(tree):
        for line, change, edit in _changes(node):
            yield function, line, change, edit


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions of a module and the methods of its classes, including nested code."""
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
    """Return the line of a change; parts of comprehensions and matches have none, functions two."""
    if isinstance(node, ast.FunctionDef):
        return next(part.lineno for part in node.body if change.startswith(ast.unparse(part).splitlines()[0][:60]))
    inside = node.target if isinstance(node, ast.comprehension) else getattr(node, "pattern", node)
    return int(getattr(inside, "lineno", function.body[0].lineno))


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the executed nodes of a function, without annotations, docstrings and messages."""
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
    """Yield the changes of a node: description, node, field and new value."""
    said = ast.unparse(node).split("\n")[0][:70] if isinstance(node, ast.expr | ast.stmt) else ""
    said = said.replace('"', "'")  # quotes around strings with quotes depend on the Python version
    match node:
        case ast.Compare(ops=[op]):
            for other in _COMPARED[type(op)]:
                yield f"{said}: {type(op).__name__} becomes {other.__name__}", node, "ops", [other()]
            yield from _without_parts(node, said)
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
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[_, *_]) if name in _GIVEN_BACK:
            yield f"{said}: what it is given", node, "func", _expression("lambda given, *_, **__: given")
        case ast.match_case(guard=ast.expr() as guard):
            yield f"guard {ast.unparse(guard)[:60]} dropped", node, "guard", None
        case _:
            pass
    yield from _left_out(node)
    yield from _fewer(node, said)


def _without_parts(compared: ast.Compare, said: str) -> Iterator[Change]:
    """Yield comparisons that ignore one component."""
    left, (op,), (right,) = compared.left, compared.ops, compared.comparators
    if isinstance(op, ast.Eq | ast.NotEq) and not any(_has_no_parts(side) for side in (left, right)):
        for part in range(PARTS):
            yield f"{said}: part {part} {IGNORED}", compared, "left", _called("alike", left, right, ast.Constant(part))


def _has_no_parts(side: ast.expr) -> bool:
    return isinstance(side, ast.Constant) or (
        isinstance(side, ast.Call) and isinstance(side.func, ast.Name) and side.func.id in {"len", "id"}
    )


def _fewer(node: ast.AST, said: str) -> Iterator[Change]:
    """Yield loops, displays and calls with fewer elements or arguments."""
    if isinstance(node, ast.For | ast.comprehension):
        loop = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"[:70]
        yield f"{loop}: the first alone", node, "iter", _called("islice", node.iter, ast.Constant(1))
        rest = _called("islice", node.iter, ast.Constant(1), ast.Constant(None))
        yield f"{loop}: the first passed over", node, "iter", rest
    if isinstance(node, ast.Tuple | ast.List | ast.Set) and any(map(_is_starred, node.elts)):
        for place in range(len(node.elts)):
            yield f"{said}: element {place} dropped", node, "elts", _left(node.elts, place)
    if isinstance(node, ast.Call):
        for place in (place for place, argument in enumerate(node.args) if _is_starred(argument)):
            yield f"{said}: element {place} dropped", node, "args", _left(node.args, place)
        for place, keyword in enumerate(node.keywords):
            if keyword.arg and not isinstance(keyword.value, ast.Constant):
                passed = [*node.keywords[:place], *node.keywords[place + 1 :]]
                yield f"{said}: {keyword.arg} not passed", node, "keywords", passed


def _is_starred(element: ast.expr) -> bool:
    return isinstance(element, ast.Starred)


def _called(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _nothing_given() -> ast.YieldFrom:
    return ast.YieldFrom(ast.Tuple([], ast.Load()))


def _left_out(node: ast.AST) -> Iterator[Change]:
    """Yield blocks without one statement that checks, raises or writes."""
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        if not isinstance(block, list):
            continue
        for place, statement in enumerate(block):
            if isinstance(statement, ast.Raise | ast.AugAssign) or (
                isinstance(statement, ast.Expr)
                and not isinstance(statement.value, ast.Constant)
                and not ast.unparse(statement).startswith("assert_never(")  # unreachable, as mypy has checked
            ):
                kept = statement.value if isinstance(statement, ast.Expr) else None
                # A generator remains a generator, else every test would fail.
                instead = ast.Expr(_nothing_given()) if isinstance(kept, ast.Yield | ast.YieldFrom) else ast.Pass()
                left = [*block[:place], instead, *block[place + 1 :]]
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
