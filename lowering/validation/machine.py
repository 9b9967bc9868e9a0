"""An executor of C text: functions become Python closures over a domain of elements.

The machine traps reads and writes outside of blocks, reads of cells without a value, misaligned accesses, leaks and
double frees. OpenMP directives are ignored, so data races are not found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
from pycparser import c_ast

from atl.core.operations import UnaryOp
from atl.errors import NotInSubset
from lowering.validation.errors import ElementBranch, TextTrap
from lowering.validation.interface import Branch, Known
from lowering.validation.memory import UNSET, ZERO, Address, Block, Heap
from lowering.validation.source import Source, read_source
from lowering.validation.types import (
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NUMBERS,
    UNSIGNED_LONG,
    CType,
    Number,
    Pointer,
    Row,
    Vector,
    Void,
    common,
    promoted,
    wrap,
)
from lowering.validation.values import UNKNOWN, Special, Symbol, Values

Frame: TypeAlias = list[Any]
Run: TypeAlias = Callable[[Frame], Any]
STEPS: Final = 150_000
"""Largest number of iterations and calls in a run."""


_MATH: Final[dict[str, UnaryOp]] = {
    "fabs": "abs", "sqrt": "sqrt", "floor": "floor", "rint": "round", "exp": "exp", "log": "log", "tanh": "tanh",
    "erf": "erf", "sin": "sin", "cos": "cos", "log1p": "log1p", "expm1": "expm1",
}  # fmt: skip
_LIMITS: Final = {
    "INT32_MIN": (-(2**31), INT), "INT32_MAX": (2**31 - 1, INT), "INT64_MIN": (-(2**63), LONG),
    "INT64_MAX": (2**63 - 1, LONG), "PTRDIFF_MAX": (2**63 - 1, LONG), "SIZE_MAX": (2**64 - 1, UNSIGNED_LONG),
}  # fmt: skip


class _Signal:
    """The end of a statement that does not continue with the next one."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: Any = None) -> None:
        self.kind = kind
        self.value = value


_BREAK: Final = _Signal("break")
_CONTINUE: Final = _Signal("continue")
_RETURN: Final = _Signal("return")


@dataclass(slots=True)
class _Typed:
    """A compiled expression: its type, its code, its value if that is constant, and its place if it has one."""

    of: CType
    run: Run
    constant: int | None = None
    place: Callable[[Frame], Address] | None = None
    slot: int | None = None
    lane_of: tuple[int, Run] | None = None


@dataclass(slots=True)
class _Variable:
    slot: int
    of: CType
    boxed: bool = False


@dataclass(slots=True)
class Function:
    """A compiled function."""

    name: str
    parameters: list[tuple[str, CType]]
    result: CType
    slots: int = 0
    body: Callable[[Frame], Any] | None = None
    defaults: list[int] = field(default_factory=list)


class Machine:
    """The functions of a text over one domain. `covered` has the branches that were taken, of `branches`."""

    def __init__(self, text: str, values: Values, known: Mapping[str, Known] | None = None) -> None:
        self.source: Source = read_source(text)
        self.values = values
        self.known = known or {}
        self.functions: dict[str, Function] = {}
        self.constants: dict[str, int] = {}
        self.types: dict[str, CType] = dict(NUMBERS)
        self.branches: set[Branch] = set()
        self.covered: set[Branch] = set()
        self.heap = Heap()
        self.steps = STEPS
        self.used: set[str] = set()
        self.definitions: dict[str, c_ast.FuncDef] = {}
        """The syntax trees of the functions."""
        self._enter_file()

    def _enter_file(self) -> None:
        for node in self.source.tree.ext:
            match node:
                case c_ast.Typedef(name=name):
                    if name in self.source.vectors:
                        of = self.type_of(node.type)
                        size, alignment = self.source.vectors[name]
                        assert isinstance(of, Number)
                        self.types[name] = Vector(of, size // of.size, alignment)
                    elif name not in self.types and name not in self.source.typeofs:
                        self.types[name] = self.type_of(node.type)
                case c_ast.FuncDef():
                    self.definitions[node.decl.name] = node
                case c_ast.Decl(type=c_ast.Enum() as enum):
                    _Compiler(self).enter_enum(enum)
                case c_ast.Decl(type=c_ast.FuncDecl()) | c_ast.StaticAssert():
                    pass
                case _:
                    raise _refused(node, "at the top of the file")

    def function(self, name: str) -> Function:
        """Return a function of the text, compiled when it is first called."""
        found = self.functions.get(name)
        if found is None:
            found = self.functions[name] = _Compiler(self).function(self.definitions[name])
        return found

    def defines(self, name: str) -> bool:
        """Return whether the text defines a function of this name."""
        return name in self.definitions

    def run(self, name: str, arguments: Sequence[Any], heap: Heap) -> Any:
        """Call a function; return its result. Raises `TextTrap`, also for blocks that are not freed."""
        self.heap = heap
        made = self.call(self.function(name), arguments)
        self.heap.check_leaks()
        return made

    def call(self, function: Function, arguments: Sequence[Any]) -> Any:
        """Call a function with values of the types of its parameters."""
        self.steps -= 1
        frame: Frame = [UNSET] * function.slots
        frame[: len(arguments)] = arguments
        assert function.body is not None
        signal = function.body(frame)
        if isinstance(function.result, Void):
            return None
        if signal is None or signal is _RETURN:
            raise TextTrap("undefined", f"{function.name} ends without a result")
        return signal.value

    def type_of(self, node: Any, typeof: Callable[[str], CType] | None = None) -> CType:
        """Return the type that a declaration or a type name states."""
        match node:
            case c_ast.Typename() | c_ast.TypeDecl():
                return self.type_of(node.type, typeof)
            case c_ast.PtrDecl():
                to = self.type_of(node.type, typeof)
                return Pointer(None if isinstance(to, Void) else to)
            case c_ast.IdentifierType(names=names):
                words = [name for name in names if name not in ("signed", "int") or len(names) == 1]
                if words == ["void"]:
                    return Void()
                if len(words) == 1 and words[0] in self.types:
                    return self.types[words[0]]
                if len(words) == 1 and words[0] in self.source.typeofs and typeof is not None:
                    return typeof(words[0])
                raise _refused(node, "as a type")
            case _:
                raise _refused(node, "as a type")


def _refused(node: Any, where: str = "") -> NotInSubset:
    line = getattr(getattr(node, "coord", None), "line", 0)
    kind = type(node).__name__ if node is not None else "nothing"
    return NotInSubset(
        f"{kind} {where} in line {line} of the C text is not in the subset".replace("  ", " "),
        required="the subset of C that docs/validation.md describes",
    )


def _line(node: Any) -> int:
    return int(getattr(getattr(node, "coord", None), "line", 0) or 0)


class _Compiler:
    """The compiler of one function."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.values = machine.values
        self.scopes: list[dict[str, _Variable]] = [{}]
        self.slots = 0
        self.addressed: set[str] = set()
        self.covered, self.branches = machine.covered, machine.branches

    # -- declarations -------------------------------------------------------------------------------------------------

    def function(self, node: c_ast.FuncDef) -> Function:
        self.addressed = _addressed(node.body)
        if "inline" in node.decl.funcspec:  # branches of helpers are not those of the kernel
            self.covered, self.branches = set(), set()
        declared = node.decl.type
        parameters: list[tuple[str, CType]] = []
        for each in declared.args.params if declared.args else []:
            of = self.type_of(each.type)
            if isinstance(of, Void):
                continue
            parameters.append((each.name, of))
        made = Function(node.decl.name, parameters, self.type_of(declared.type))
        self.machine.functions[made.name] = made
        boxes: list[tuple[int, Run]] = []
        for name, of in parameters:
            variable = self.declare(name, of)
            if variable.boxed:
                boxes.append((variable.slot, self._boxing(variable, name)))
        self.result = made.result
        block = self.block(node.body.block_items or [], function=True)

        ending = _ending(block, [slot for slot, _ in boxes])

        def body(frame: Frame) -> Any:
            for slot, boxed in boxes:
                frame[slot] = boxed(frame)
            return ending(frame)

        made.body = body if boxes else block
        made.slots = self.slots
        return made

    def _boxing(self, variable: _Variable, name: str) -> Run:
        slot = variable.slot

        def boxed(frame: Frame) -> Block:
            value = frame[slot]
            block = self._new_block(name, variable.of)
            if value is not UNSET:
                block.cells = list(value) if isinstance(value, tuple) else [value]
            return block

        return boxed

    def _new_block(self, name: str, of: CType, alignment: int = 0) -> Block:
        machine = self.machine
        if isinstance(of, Row):
            cell = of.of.of if isinstance(of.of, Vector) else of.of
        elif isinstance(of, Vector):
            cell = of.of
        elif isinstance(of, Number):
            cell = of
        else:
            raise NotInSubset(f"the address of the pointer {name}", required="addresses of numbers and vectors")
        return Block(name, of.size, machine.heap.place(of.size, alignment or cell.size), cell)

    def declare(self, name: str, of: CType) -> _Variable:
        variable = _Variable(self.slots, of, boxed=name in self.addressed and not isinstance(of, Row))
        self.slots += 1
        self.scopes[-1][name] = variable
        return variable

    def lookup(self, name: str) -> _Variable | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def type_of(self, node: Any) -> CType:
        return self.machine.type_of(node, self._typeof)

    def _typeof(self, name: str) -> CType:
        return self.expression(self.machine.source.typeofs[name]).of

    def enter_enum(self, enum: c_ast.Enum) -> None:
        at = 0
        for each in enum.values.enumerators if enum.values else []:
            if each.value is not None:
                value = self.expression(each.value).constant
                if value is None:
                    raise _refused(each, "without a constant value")
                at = value
            self.machine.constants[each.name] = at
            at += 1

    # -- statements ---------------------------------------------------------------------------------------------------

    def block(self, items: Sequence[Any], *, function: bool = False) -> Callable[[Frame], Any]:
        self.scopes.append({})
        runs: list[Callable[[Frame], Any]] = []
        labels: dict[str, int] = {}
        for item in items:
            statement = item
            while isinstance(statement, c_ast.Label):
                labels[statement.name] = len(runs)
                statement = statement.stmt
            made = self.statement(statement)
            if made is not None:
                runs.append(made)
        blocks = [each.slot for each in self.scopes.pop().values() if each.boxed or isinstance(each.of, Row)]
        if blocks:
            return _ending(self._sequence(runs, labels, function=function), blocks)
        return self._sequence(runs, labels, function=function)

    def _sequence(self, runs: list[Run], labels: Mapping[str, int], *, function: bool) -> Run:
        if labels:
            return _with_labels(runs, labels, self.machine)
        if len(runs) == 1 and not function:
            return runs[0]
        statements = tuple(runs)

        def run(frame: Frame) -> Any:
            for statement in statements:
                signal = statement(frame)
                if signal is not None:
                    return signal
            return None

        return run

    def statement(self, node: Any) -> Callable[[Frame], Any] | None:
        match node:
            case c_ast.Compound():
                return self.block(node.block_items or [])
            case c_ast.Decl(type=c_ast.Enum() as enum):
                self.enter_enum(enum)
                return None
            case c_ast.Decl():
                return self.declaration(node)
            case c_ast.DeclList():
                runs = [run for run in map(self.declaration, node.decls) if run is not None]
                return lambda frame: [run(frame) for run in runs] and None
            case c_ast.If():
                return self.branch(node)
            case c_ast.For() | c_ast.While() | c_ast.DoWhile():
                return self.loop(node)
            case c_ast.Break():
                return lambda _: _BREAK
            case c_ast.Continue():
                return lambda _: _CONTINUE
            case c_ast.Return():
                return self.returned(node)
            case c_ast.Goto():
                signal = _Signal("goto", node.name)
                return lambda _: signal
            case c_ast.EmptyStatement() | c_ast.StaticAssert():
                return None
            case (
                c_ast.Assignment() | c_ast.UnaryOp() | c_ast.FuncCall() | c_ast.Cast() | c_ast.BinaryOp()
                | c_ast.TernaryOp() | c_ast.ExprList()
            ):  # fmt: skip
                run = self.expression(node, unused=True).run

                def evaluated(frame: Frame) -> None:
                    run(frame)

                return evaluated
            case _:
                raise _refused(node, "as a statement")

    def declaration(self, node: c_ast.Decl) -> Callable[[Frame], Any] | None:
        alignment = 0
        if node.align:
            aligned = self.expression(node.align[0].alignment).constant
            alignment = aligned or 0
        if isinstance(node.type, c_ast.ArrayDecl):
            of = self.type_of(node.type.type)
            length = self.expression(node.type.dim).constant if node.type.dim is not None else None
            if length is None or not isinstance(of, Number | Vector):
                raise _refused(node, "of this type")
            return self._array(node, Row(of, length), alignment)
        of = self.type_of(node.type)
        if node.init is None:
            variable = self.declare(node.name, of)
            slot, name = variable.slot, node.name
            if variable.boxed:

                def box(frame: Frame) -> None:
                    frame[slot] = self._new_block(name, of, alignment)

                return box

            def forget(frame: Frame) -> None:
                frame[slot] = UNSET

            return forget
        # In `double *p = f(sizeof *p)`, the name is in scope in its initial value.
        variable = self.declare(node.name, of)
        initial = self.initial(node.init, of)
        slot = variable.slot
        if variable.boxed:
            name = node.name

            def boxed(frame: Frame) -> None:
                block = self._new_block(name, of, alignment)
                value = initial(frame)
                block.cells = list(value) if isinstance(value, tuple) else [value]
                frame[slot] = block

            return boxed

        def assign(frame: Frame) -> None:
            frame[slot] = initial(frame)

        return assign

    def _array(self, node: c_ast.Decl, of: Row, alignment: int) -> Callable[[Frame], Any]:
        slot, name = self.declare(node.name, of).slot, node.name
        cells: list[Run] | None = None
        lanes = of.of.lanes if isinstance(of.of, Vector) else 1
        if node.init is not None:
            if not isinstance(node.init, c_ast.InitList):
                raise _refused(node.init, "as the initial value of an array")
            cells = [self.initial(each, of.of) for each in node.init.exprs]

        def declared(frame: Frame) -> None:
            block = self._new_block(name, of, alignment)
            if cells is not None:
                block.cells = [ZERO] * len(block.cells)
                for at, cell in enumerate(cells):
                    value = cell(frame)
                    block.cells[at * lanes : (at + 1) * lanes] = value if isinstance(value, tuple) else [value]
            frame[slot] = block

        return declared

    def initial(self, node: Any, of: CType) -> Run:
        """Return the code of an initial value, converted to a type."""
        if isinstance(node, c_ast.InitList):
            if not isinstance(of, Vector):
                raise _refused(node, "as the initial value of a number")
            cells = [self.converted(self.expression(each), of.of, node) for each in node.exprs]
            zero = self.values.scalars.constant(0, of.of.dtype) if of.of.is_float else 0
            rest = (zero,) * (of.lanes - len(cells))
            if all(isinstance(each, c_ast.Constant) for each in node.exprs):
                value = (*(cell([]) for cell in cells), *rest)
                return lambda _: value
            return lambda frame: (*[cell(frame) for cell in cells], *rest)
        return self.converted(self.expression(node), of, node)

    def branch(self, node: c_ast.If) -> Callable[[Frame], Any]:
        test = self.truth(node.cond)
        then = self.block([node.iftrue])
        other = self.block([node.iffalse]) if node.iffalse is not None else None
        line, covered = _line(node), self.covered
        taken, skipped = (line, "then"), (line, "else")
        self.branches |= {taken, skipped}

        def run(frame: Frame) -> Any:
            if test(frame):
                covered.add(taken)
                return then(frame)
            covered.add(skipped)
            return other(frame) if other is not None else None

        return run

    def loop(self, node: Any) -> Callable[[Frame], Any]:
        self.scopes.append({})
        start = self.statement(node.init) if isinstance(node, c_ast.For) and node.init is not None else None
        test = self.truth(node.cond) if node.cond is not None else lambda _: True
        following = self.expression(node.next, unused=True).run if isinstance(node, c_ast.For) and node.next else None
        body = self.block([node.stmt])
        blocks = [each.slot for each in self.scopes.pop().values() if each.boxed]
        first = isinstance(node, c_ast.DoWhile)
        machine, covered, ran, line = self.machine, self.covered, (_line(node), "loop"), _line(node)
        self.branches.add(ran)

        def run(frame: Frame) -> Any:
            if start is not None:
                start(frame)
            enters = first
            iterations = 0
            try:
                while enters or test(frame):
                    enters = False
                    covered.add(ran)
                    iterations += 1
                    machine.steps -= 1
                    if machine.steps < 0:
                        raise TextTrap("endless", "too many steps", line)
                    signal = body(frame)
                    if signal is not None and signal is not _CONTINUE:
                        if signal is _BREAK:
                            break
                        return signal
                    if following is not None:
                        following(frame)
            except TextTrap as trap:
                trap.iterations = max(trap.iterations, iterations)
                raise
            return None

        return _ending(run, blocks) if blocks else run

    def returned(self, node: c_ast.Return) -> Callable[[Frame], Any]:
        if node.expr is None:
            return lambda _: _RETURN
        run = self.converted(self.expression(node.expr), self.result, node)
        return lambda frame: _Signal("return", run(frame))

    def truth(self, node: Any) -> Run:
        """Return the code of a condition, which is not one of elements."""
        made, is_true = self.expression(node), self.values.is_true
        run = made.run

        if isinstance(made.of, Pointer):
            return lambda frame: run(frame) is not None

        def test(frame: Frame) -> bool:
            value = run(frame)
            return value != 0 if type(value) is int else is_true(value)

        return test

    # -- expressions --------------------------------------------------------------------------------------------------

    def expression(self, node: Any, *, unused: bool = False) -> _Typed:
        match node:
            case c_ast.Constant():
                return self.constant(node)
            case c_ast.ID(name=name):
                return self.name(node, name)
            case c_ast.BinaryOp(op=op):
                return self.binary(node, op)
            case c_ast.UnaryOp(op=op):
                return self.unary(node, op, unused=unused)
            case c_ast.TernaryOp():
                return self.ternary(node)
            case c_ast.ArrayRef():
                return self.element(node)
            case c_ast.Assignment():
                return self.assignment(node)
            case c_ast.Cast():
                return self.cast(node)
            case c_ast.FuncCall():
                return self.called(node)
            case c_ast.CompoundLiteral():
                of = self.type_of(node.type)
                return _Typed(of, self.initial(node.init, of))
            case c_ast.ExprList():
                parts = [self.expression(each, unused=True).run for each in node.exprs]
                last = self.expression(node.exprs[-1], unused=unused)
                others = parts[:-1]

                def both(frame: Frame) -> Any:
                    for part in others:
                        part(frame)
                    return last.run(frame)

                return _Typed(last.of, both)
            case _:
                raise _refused(node, "as an expression")

    def constant(self, node: c_ast.Constant) -> _Typed:
        text = node.value.lower()
        if "float" in node.type or "double" in node.type:
            of = (
                FLOAT
                if (text.endswith("f") and not text.startswith("0x")) or (text.endswith("f") and "p" in text)
                else DOUBLE
            )
            digits = text.rstrip("fl")
            number = float.fromhex(digits) if digits.startswith("0x") else float(digits)
            value = self.values.literal(float(np.float32(number)) if of is FLOAT else number, of)
            return _Typed(of, lambda _: value)
        if node.type in ("char", "string"):
            raise _refused(node, "of characters")
        digits = text.rstrip("ul")
        whole = int(digits, 0) if digits.startswith("0x") or not digits.startswith("0") else int(digits, 8)
        suffix = text[len(digits) :]
        if "u" in suffix:
            kind = UNSIGNED_LONG if "l" in suffix or whole >= 1 << 32 else NUMBERS["uint32_t"]
        elif "l" in suffix or whole > INT.high:
            kind = NUMBERS["uint32_t"] if digits.startswith("0x") and whole < 1 << 32 and "l" not in suffix else LONG
        else:
            kind = INT
        return _Typed(kind, lambda _: whole, whole)

    def name(self, node: Any, name: str) -> _Typed:
        variable = self.lookup(name)
        if variable is None:
            return self.macro(node, name)
        slot, line = variable.slot, _line(node)
        if isinstance(variable.of, Row):
            return _Typed(variable.of, lambda frame: Address(frame[slot]))
        if variable.boxed:
            of = variable.of
            place: Callable[[Frame], Address] = lambda frame: Address(frame[slot])  # noqa: E731
            return _Typed(of, self.loading(of, place, line), place=place)

        def read(frame: Frame) -> Any:
            value = frame[slot]
            if value is UNSET:
                raise TextTrap("unset", f"{name} has no value", line)
            return value

        def read_lanes(frame: Frame) -> Any:
            value = read(frame)
            if any(lane is UNSET for lane in value):
                raise TextTrap("unset", f"a lane of {name} has no value", line)
            return value

        return _Typed(variable.of, read_lanes if isinstance(variable.of, Vector) else read, slot=slot)

    def macro(self, node: Any, name: str) -> _Typed:
        values = self.values
        if name in self.machine.constants:
            whole = self.machine.constants[name]
            return _Typed(INT, lambda _: whole, whole)
        if name in _LIMITS:
            whole, of = _LIMITS[name]
            return _Typed(of, lambda _: whole, whole)
        match name:
            case "NULL":
                return _Typed(Pointer(None), lambda _: None)
            case "INFINITY":
                infinite = values.literal(float("inf"), FLOAT)
                return _Typed(FLOAT, lambda _: infinite)
            case "NAN":
                nan = values.literal(float("nan"), FLOAT)
                return _Typed(FLOAT, lambda _: nan)
            case _:
                raise _refused(node, f"({name})")

    def element(self, node: c_ast.ArrayRef) -> _Typed:
        base, index, line = self.expression(node.name), self.expression(node.subscript), _line(node)
        at = self.converted(index, LONG, node)
        if isinstance(base.of, Vector):
            return self._lane(node, base, at)
        if isinstance(base.of, Row):
            to: CType | None = base.of.of
        elif isinstance(base.of, Pointer):
            to = base.of.to
        else:
            raise _refused(node, "of a number")
        if to is None:
            raise _refused(node, "of void")
        run, size = base.run, to.size

        def place(frame: Frame) -> Address:
            address, number = run(frame), at(frame)
            if address is None:
                raise TextTrap("null", "an element of a null pointer", line)
            if type(number) is not int:
                raise ElementBranch
            return Address(address.block, address.offset + number * size)

        return _Typed(to, self.loading(to, place, line), place=place)

    def _lane(self, node: Any, base: _Typed, at: Run) -> _Typed:
        assert isinstance(base.of, Vector)
        lanes, line = base.of.lanes, _line(node)
        if base.slot is None:
            run = base.run

            def lane_of(frame: Frame) -> Any:
                vector, number = run(frame), at(frame)
                if not 0 <= number < lanes:
                    raise TextTrap("out of bounds", f"lane {number} of a vector of {lanes}", line)
                return vector[number]

            return _Typed(base.of.of, lane_of)
        slot = base.slot

        def lane(frame: Frame) -> Any:
            number, vector = at(frame), frame[slot]
            if not 0 <= number < lanes:
                raise TextTrap("out of bounds", f"lane {number} of a vector of {lanes}", line)
            value = UNSET if vector is UNSET else vector[number]
            if value is UNSET:
                raise TextTrap("unset", f"lane {number} of a vector has no value", line)
            return value

        return _Typed(base.of.of, lane, lane_of=(slot, at))

    def loading(self, of: CType, place: Callable[[Frame], Address], line: int) -> Run:
        """Return the code that reads a place."""
        values = self.values
        if isinstance(of, Number):
            size = of.size
            zero = values.scalars.constant(0, of.dtype) if of.is_float else 0
            number = of

            def load(frame: Frame) -> Any:
                address = place(frame)
                block = address.block
                at = block.index(address.offset, number, 1, size, line, writes=False)
                value = block.cells[at]
                if value is UNSET:
                    raise TextTrap("unset", f"element {at} of {block.name} is read before it is written", line)
                return zero if value is ZERO else value

            return load
        if isinstance(of, Vector):
            vector, cell = of, of.of
            nothing = values.scalars.constant(0, cell.dtype) if cell.is_float else 0

            def load_vector(frame: Frame) -> Any:
                address = place(frame)
                block = address.block
                at = block.index(address.offset, cell, vector.lanes, vector.alignment, line, writes=False)
                found = block.cells[at : at + vector.lanes]
                for lane, value in enumerate(found):
                    if value is UNSET:
                        raise TextTrap(
                            "unset", f"element {at + lane} of {block.name} is read before it is written", line
                        )
                return tuple([nothing if value is ZERO else value for value in found])

            return load_vector

        def refuse(_: Frame) -> Any:
            raise NotInSubset(f"a read of this type in line {line} of the C text", required="numbers and vectors")

        return refuse

    def storing(self, target: _Typed, node: Any) -> Callable[[Frame, Any], None]:
        """Return the code that stores a value, which has the type of the target."""
        line = _line(node)
        if target.lane_of is not None:
            slot, at = target.lane_of
            assert isinstance(target.of, Number)
            vector = next(v.of for scope in self.scopes for v in scope.values() if v.slot == slot)
            assert isinstance(vector, Vector)
            lanes = vector.lanes

            def store_lane(frame: Frame, value: Any) -> None:
                number = at(frame)
                if not 0 <= number < lanes:
                    raise TextTrap("out of bounds", f"lane {number} of a vector of {lanes}", line)
                held = frame[slot]
                cells = [UNSET] * lanes if held is UNSET else list(held)
                cells[number] = value
                frame[slot] = tuple(cells)

            return store_lane
        if target.slot is not None:
            variable = target.slot

            def assign(frame: Frame, value: Any) -> None:
                frame[variable] = value

            return assign
        if target.place is None:
            raise _refused(node, "as the target of an assignment")
        place = target.place
        if isinstance(target.of, Vector):
            of, cell = target.of, target.of.of

            def store_vector(frame: Frame, value: Any) -> None:
                address = place(frame)
                block = address.block
                at = block.index(address.offset, cell, of.lanes, of.alignment, line, writes=True)
                block.cells[at : at + of.lanes] = value

            return store_vector
        if not isinstance(target.of, Number):
            raise _refused(node, "as the target of an assignment")
        number = target.of

        def store(frame: Frame, value: Any) -> None:
            address = place(frame)
            block = address.block
            at = block.index(address.offset, number, 1, number.size, line, writes=True)
            block.cells[at] = value

        return store

    def assignment(self, node: c_ast.Assignment) -> _Typed:
        target = self.expression(node.lvalue)
        store = self.storing(target, node)
        if node.op == "=":
            value = self.converted(self.expression(node.rvalue), target.of, node)
        else:
            right = self.expression(node.rvalue)
            made = self.operated(node, node.op[:-1], target, right)
            value = self.converted(made, target.of, node)

        def run(frame: Frame) -> Any:
            found = value(frame)
            store(frame, found)
            return found

        return _Typed(target.of, run)

    def ternary(self, node: c_ast.TernaryOp) -> _Typed:
        test, x, y = self.expression(node.cond), self.expression(node.iftrue), self.expression(node.iffalse)
        of: CType
        if isinstance(x.of, Number) and isinstance(y.of, Number):
            of = x.of if x.of is y.of else common(x.of, y.of)
        elif isinstance(x.of, Pointer) and isinstance(y.of, Pointer):
            of = x.of if x.of.to is not None else y.of
        elif x.of == y.of:
            of = x.of
        else:
            raise _refused(node, "of two types")
        left, right = self.converted(x, of, node), self.converted(y, of, node)
        condition = self._as_test(test, node)
        values, covered, line = self.values, self.covered, _line(node)
        yes, no = (line, f"? {node.coord.column}"), (line, f": {node.coord.column}")
        self.branches |= {yes, no}

        def choose(frame: Frame) -> Any:
            chosen = condition(frame)
            if type(chosen) is int:
                if chosen:
                    covered.add(yes)
                    return left(frame)
                covered.add(no)
                return right(frame)
            covered.update((yes, no))
            return values.select(chosen, left(frame), right(frame), of)

        return _Typed(of, choose)

    def _as_test(self, made: _Typed, node: Any) -> Run:
        run, as_test = made.run, self.values.as_test
        if isinstance(made.of, Pointer):
            return lambda frame: int(run(frame) is not None)
        if not isinstance(made.of, Number):
            raise _refused(node, "as a condition")
        of = made.of

        def test(frame: Frame) -> Any:
            value = run(frame)
            return int(value != 0) if type(value) is int else as_test(value, of)

        return test

    def unary(self, node: c_ast.UnaryOp, op: str, *, unused: bool) -> _Typed:
        values = self.values
        if op == "sizeof":
            inner = node.expr
            of = self.type_of(inner) if isinstance(inner, c_ast.Typename) else self.expression(inner).of
            size = of.size
            return _Typed(UNSIGNED_LONG, lambda _: size, size)
        made = self.expression(node.expr)
        line = _line(node)
        match op:
            case "&":
                if made.place is None:
                    raise _refused(node, "of a variable")
                return _Typed(Pointer(made.of), made.place)
            case "*":
                if not isinstance(made.of, Pointer | Row):
                    raise _refused(node, "of a number")
                to = made.of.to if isinstance(made.of, Pointer) else made.of.of
                if to is None:
                    raise _refused(node, "of void")
                run = made.run

                def place(frame: Frame) -> Address:
                    address = run(frame)
                    if address is None:
                        raise TextTrap("null", "the value at a null pointer", line)
                    return address  # type: ignore[no-any-return]

                return _Typed(to, self.loading(to, place, line), place=place)
            case "++" | "--" | "p++" | "p--":
                one = _Typed(INT, lambda _: 1, 1)
                value = self.converted(self.operated(node, "+" if "+" in op else "-", made, one), made.of, node)
                store, before = self.storing(made, node), made.run
                if op.startswith("p") and not unused:

                    def after(frame: Frame) -> Any:
                        old = before(frame)
                        store(frame, value(frame))
                        return old

                    return _Typed(made.of, after)

                def run_step(frame: Frame) -> Any:
                    new = value(frame)
                    store(frame, new)
                    return new

                return _Typed(made.of, run_step)
            case "!":
                test = self._as_test(made, node)
                return _Typed(INT, lambda frame: values.negated(test(frame)))
            case "-" | "+" | "~":
                return self._signed(node, op, made)
            case _:
                raise _refused(node, f"({op})")

    def _signed(self, node: Any, op: str, made: _Typed) -> _Typed:
        run = made.run
        if isinstance(made.of, Vector):
            lane = made.of.of
            each = self._sign_of(op, lane)
            return _Typed(made.of, lambda frame: tuple([each(value) for value in run(frame)]))
        if not isinstance(made.of, Number):
            raise _refused(node, f"({op})")
        of = promoted(made.of)
        change, converted = self._sign_of(op, of), self.converted(made, of, node)
        constant = None if made.constant is None else change(made.constant)
        return _Typed(of, lambda frame: change(converted(frame)), constant)

    def _sign_of(self, op: str, of: Number) -> Callable[[Any], Any]:
        values = self.values
        if op == "+":
            return lambda x: x
        if op == "~":
            return lambda x: values.complement(of, x)
        if of.is_float:
            return lambda x: values.unary("neg", of, x)
        return lambda x: values.minus(of, x)

    def binary(self, node: c_ast.BinaryOp, op: str) -> _Typed:
        x, y = self.expression(node.left), self.expression(node.right)
        if op in ("&&", "||"):
            return self._both(node, op, x, y)
        return self.operated(node, op, x, y)

    def _both(self, node: Any, op: str, x: _Typed, y: _Typed) -> _Typed:
        left, right, values = self._as_test(x, node), self._as_test(y, node), self.values
        ends, word = int(op == "||"), "or" if op == "||" else "and"
        covered, line = self.covered, _line(node)
        second = (line, f"{op} {node.coord.column}")
        self.branches.add(second)

        def run(frame: Frame) -> Any:
            first = left(frame)
            if type(first) is int and first == ends:
                return ends
            covered.add(second)
            return values.both(word, first, right(frame))  # type: ignore[arg-type]

        return _Typed(INT, run)

    def operated(self, node: Any, op: str, x: _Typed, y: _Typed) -> _Typed:
        """Return an operation on two operands, after the usual conversions."""
        if isinstance(x.of, Row):
            x = replace(x, of=Pointer(x.of.of))
        if isinstance(y.of, Row):
            y = replace(y, of=Pointer(y.of.of))
        if isinstance(x.of, Pointer) or isinstance(y.of, Pointer):
            return self._on_pointers(node, op, x, y)
        if isinstance(x.of, Vector) or isinstance(y.of, Vector):
            return self._on_vectors(node, op, x, y)
        if not isinstance(x.of, Number) or not isinstance(y.of, Number):
            raise _refused(node, "of these types")
        of = promoted(x.of) if op in ("<<", ">>") else common(x.of, y.of)
        left = self.converted(x, of, node)
        right = self.converted(y, promoted(y.of) if op in ("<<", ">>") else of, node)
        compute = self._operation(op, of, _line(node))
        result = INT if op in _COMPARING else of
        constant = None
        if x.constant is not None and y.constant is not None and not of.is_float:
            constant = compute(left([]), right([]))
        if op in "+-*" and not of.is_float:
            return _Typed(result, self._fast(op, of, left, right, compute), constant)
        return _Typed(result, lambda frame: compute(left(frame), right(frame)), constant)

    def _fast(self, op: str, of: Number, left: Run, right: Run, compute: Callable[[Any, Any], Any]) -> Run:
        low, high = of.low, of.high

        def add(frame: Frame) -> Any:
            x, y = left(frame), right(frame)
            if type(x) is int and type(y) is int and low <= (made := x + y) <= high:
                return made
            return compute(x, y)

        def multiply(frame: Frame) -> Any:
            x, y = left(frame), right(frame)
            if type(x) is int and type(y) is int and low <= (made := x * y) <= high:
                return made
            return compute(x, y)

        if op == "-":
            return lambda frame: compute(left(frame), right(frame))
        return add if op == "+" else multiply

    def _operation(self, op: str, of: Number, line: int) -> Callable[[Any, Any], Any]:
        values = self.values
        if op in _COMPARING:
            return lambda x, y: values.compared(op, of, x, y)
        if of.is_float:
            if op not in "+-*/":
                raise NotInSubset(f"{op} of floats in line {line} of the C text", required="+, -, * or /")
            return lambda x, y: values.floats(op, of, x, y)
        return lambda x, y: values.integers(op, of, x, y, line)

    def _on_pointers(self, node: Any, op: str, x: _Typed, y: _Typed) -> _Typed:
        left, right, line = x.run, y.run, _line(node)
        if op in ("==", "!="):

            def equal(frame: Frame) -> int:
                a, b = left(frame), right(frame)
                if a is None or b is None:
                    same = (a is None or a == 0) and (b is None or b == 0)
                else:
                    same = a.block is b.block and a.offset == b.offset
                return int(same == (op == "=="))

            return _Typed(INT, equal)
        if op in ("+", "-") and isinstance(x.of, Pointer) and isinstance(y.of, Number):
            if x.of.to is None:
                raise _refused(node, "of void")
            size, sign = x.of.to.size, 1 if op == "+" else -1
            count = self.converted(y, LONG, node)

            def moved(frame: Frame) -> Any:
                address = left(frame)
                if address is None:
                    raise TextTrap("null", "arithmetic on a null pointer", line)
                return address + sign * count(frame) * size

            return _Typed(x.of, moved)
        if op == "+" and isinstance(y.of, Pointer) and isinstance(x.of, Number):
            return self._on_pointers(node, op, y, x)
        raise _refused(node, f"({op} of pointers)")

    def _on_vectors(self, node: Any, op: str, x: _Typed, y: _Typed) -> _Typed:
        of = x.of if isinstance(x.of, Vector) else y.of
        assert isinstance(of, Vector)
        for each in (x, y):
            if isinstance(each.of, Vector) and each.of.lanes != of.lanes:
                raise _refused(node, "of vectors of different lengths")
        lanes, line = of.lanes, _line(node)
        left = self._lanes(x, of, node)
        right = self._lanes(y, of, node)
        compute = self._operation(op, of.of, line)
        if op in _COMPARING:
            integer = LONG if of.of.size == 8 else INT if of.of.size == 4 else None
            if integer is None:
                raise _refused(node, "of these vectors")

            def mask(x: Any, y: Any) -> Any:
                made = compute(x, y)
                return -made if type(made) is int else Symbol(made.value, "bool", mask=True)

            return _Typed(
                Vector(integer, lanes, integer.size * lanes),
                lambda frame: tuple([mask(a, b) for a, b in zip(left(frame), right(frame), strict=True)]),
            )
        return _Typed(of, lambda frame: tuple([compute(a, b) for a, b in zip(left(frame), right(frame), strict=True)]))

    def _lanes(self, made: _Typed, of: Vector, node: Any) -> Run:
        if isinstance(made.of, Vector):
            return made.run
        one, lanes = self.converted(made, of.of, node), of.lanes
        return lambda frame: (one(frame),) * lanes

    def converted(self, made: _Typed, of: CType, node: Any, *, explicit: bool = False) -> Run:
        """Return the code of an expression, converted to a type."""
        run, values = made.run, self.values
        source = made.of
        if isinstance(source, Row):
            source = Pointer(source.of)
        if isinstance(of, Pointer):
            if isinstance(source, Pointer):
                return run
            if made.constant == 0:
                return lambda _: None
            raise _refused(node, "(a number as a pointer)")
        if isinstance(of, Number) and isinstance(source, Number):
            if source is of:
                return run
            number, target = source, of
            if made.constant is not None:
                fixed = values.converted(made.constant, number, target, explicit=explicit)
                return lambda _: fixed
            if not source.is_float and not of.is_float and of.low <= source.low and source.high <= of.high:

                def widened(frame: Frame) -> Any:
                    value = run(frame)
                    return value if type(value) is int else values.converted(value, number, target, explicit=explicit)

                return widened
            return lambda frame: values.converted(run(frame), number, target, explicit=explicit)
        if isinstance(of, Vector) and isinstance(source, Vector):
            if of.lanes == source.lanes and of.of is source.of:
                return run
            if of.lanes == source.lanes and of.of.size == source.of.size and explicit:
                cell, into = source.of, of.of
                return lambda frame: tuple([values.copied(value, cell, into) for value in run(frame)])
        if isinstance(of, Number) and isinstance(source, Pointer) and explicit and of.size == 8:

            def number_of(frame: Frame) -> int:
                address = run(frame)
                return 0 if address is None else address.block.address + address.offset

            return number_of
        if isinstance(of, Void):
            return run
        raise _refused(node, "between these types")

    def cast(self, node: c_ast.Cast) -> _Typed:
        of = self.type_of(node.to_type)
        made = self.expression(node.expr)
        constant = None
        if made.constant is not None and isinstance(of, Number) and not of.is_float:
            constant = wrap(made.constant, of)
        return _Typed(of, self.converted(made, of, node, explicit=True), constant)

    # -- calls --------------------------------------------------------------------------------------------------------

    def called(self, node: c_ast.FuncCall) -> _Typed:
        name = self.machine.source.aliases.get(node.name.name, node.name.name)
        nodes = node.args.exprs if node.args is not None else []
        arguments = [self.expression(each) for each in nodes]
        if self.machine.defines(name):
            return self._own(node, name, arguments)
        return self._library(node, name, arguments)

    def _own(self, node: Any, name: str, arguments: list[_Typed]) -> _Typed:
        machine = self.machine
        function = machine.function(name)
        if len(arguments) != len(function.parameters):
            raise _refused(node, f"of {name} with {len(arguments)} arguments")
        passed = [self.converted(made, of, node) for made, (_, of) in zip(arguments, function.parameters, strict=True)]

        def call(frame: Frame) -> Any:
            return machine.call(function, [each(frame) for each in passed])

        known = machine.known.get(name)
        if known is None or self.values.is_machine:
            return _Typed(function.result, call)
        machine.used.add(name)
        if known.op == "same":
            return self._same(arguments[0], function.result)
        apply = self._known_function(known, function)
        integers = not any(isinstance(of, Number) and of.is_float for _, of in function.parameters)

        def apply_or_call(frame: Frame) -> Any:
            values = [each(frame) for each in passed]
            if integers and all(type(each) is int for each in values):
                return machine.call(function, values)
            return apply(*values)

        return _Typed(function.result, apply_or_call)

    def _same(self, argument: _Typed, of: CType) -> _Typed:
        run, values = argument.run, self.values
        assert isinstance(argument.of, Number)
        dtype = argument.of.dtype
        return _Typed(of, lambda frame: values.element(run(frame), dtype))

    def _known_function(self, known: Known, function: Function) -> Callable[..., Any]:
        values, scalars = self.values, self.values.scalars
        result = function.result
        assert isinstance(result, Number)

        def apply(*operands: Any) -> Any:
            if any(isinstance(each, Special) for each in operands):
                return UNKNOWN
            if known.op == "cast":
                made = scalars.cast(known.dtype, known.source, values.element(operands[0], known.source))
            elif len(operands) == 1:
                made = scalars.unary(known.op, known.dtype, values.element(operands[0], known.dtype))  # type: ignore[arg-type]
            else:
                x, y = (values.element(each, known.dtype) for each in operands)
                made = scalars.binary(known.op, known.dtype, x, y)  # type: ignore[arg-type]
            return made if result.is_float else Symbol(made, known.dtype)

        return apply

    def _library(self, node: Any, name: str, arguments: list[_Typed]) -> _Typed:
        machine, values, line = self.machine, self.values, _line(node)
        bare = name.removesuffix("f")
        if name in ("INT64_C", "UINT64_C"):
            of = LONG if name == "INT64_C" else UNSIGNED_LONG
            return _Typed(of, self.converted(arguments[0], of, node), arguments[0].constant)
        if bare in _MATH or name in _MATH:
            of = DOUBLE if name in _MATH else FLOAT
            op, argument = _MATH[name if name in _MATH else bare], self.converted(arguments[0], of, node)
            return _Typed(of, lambda frame: values.unary(op, of, argument(frame)))
        if name in ("fma", "fmaf"):
            of = DOUBLE if name == "fma" else FLOAT
            x, y, z = (self.converted(each, of, node) for each in arguments)
            return _Typed(of, lambda frame: values.fused(of, x(frame), y(frame), z(frame)))
        match name:
            case "aligned_alloc" | "malloc" | "calloc":
                sizes = [self.converted(each, UNSIGNED_LONG, node) for each in arguments]

                def allocate(frame: Frame) -> Any:
                    counts = [size(frame) for size in sizes]
                    alignment = counts[0] if name == "aligned_alloc" else 16
                    size = counts[-1] if name != "calloc" else counts[0] * counts[1]
                    made = machine.heap.allocate(size, alignment, line)
                    if made is not None and name == "calloc":
                        made.block.fill = ZERO
                    return made

                return _Typed(Pointer(None), allocate)
            case "free":
                pointer = arguments[0].run
                return _Typed(Void(), lambda frame: machine.heap.free(pointer(frame), line))
            case "memset":
                return self._filled(node, arguments)
            case "memcpy":
                return self._copied(node, arguments)
            case "omp_get_thread_num":
                return _Typed(INT, lambda _: 0)
            case "__builtin_add_overflow" | "__builtin_mul_overflow":
                return self._checked_arithmetic(node, name, arguments)
            case "__builtin_ctzll" | "__builtin_popcountll":
                bits = self.converted(arguments[0], UNSIGNED_LONG, node)
                if name == "__builtin_ctzll":

                    def zeros(frame: Frame) -> int:
                        word = bits(frame)
                        if not word:
                            raise TextTrap("undefined", f"{name}(0)", line)
                        return int(word & -word).bit_length() - 1

                    return _Typed(INT, zeros)
                return _Typed(INT, lambda frame: bits(frame).bit_count())
            case "__builtin_shufflevector":
                return self._shuffled(node, arguments)
            case "__builtin_assume_aligned":
                return arguments[0]
            case "__builtin_expect":
                return arguments[0]
            case _:
                raise _refused(node, f"of {name}")

    def _filled(self, node: Any, arguments: list[_Typed]) -> _Typed:
        pointer, byte, size = arguments[0].run, arguments[1].constant, self.converted(arguments[2], UNSIGNED_LONG, node)
        if byte != 0:
            raise _refused(node, "(memset with another byte than 0)")
        line, to = _line(node), _pointed(arguments[0].of)

        def fill(frame: Frame) -> Any:
            address, count = pointer(frame), size(frame)
            block: Block = address.block
            if not count:
                return address
            if block.of is None and to is not None:
                block.typed(to)
            if block.of is None:
                if address.offset or count > block.bytes or block.freed:
                    raise TextTrap("out of bounds", f"{count} bytes of {block.name}, which has {block.bytes}", line)
                block.zeroed = max(block.zeroed, count)
                return address
            cells = -(-count // block.of.size)
            at = block.index(address.offset, block.of, cells, block.of.size, line, writes=True)
            if count % block.of.size:
                raise TextTrap("type", f"{count} bytes of {block.name} are set", line)
            block.cells[at : at + cells] = [ZERO] * cells
            return address

        return _Typed(arguments[0].of, fill)

    def _copied(self, node: Any, arguments: list[_Typed]) -> _Typed:
        to, source, size = arguments[0].run, arguments[1].run, self.converted(arguments[2], UNSIGNED_LONG, node)
        line, values = _line(node), self.values
        kinds = _pointed(arguments[0].of), _pointed(arguments[1].of)

        def copy(frame: Frame) -> Any:
            into, out, count = to(frame), source(frame), size(frame)
            if not count:
                return into
            for address, kind in ((into, kinds[0]), (out, kinds[1])):
                if address is None:
                    raise TextTrap("null", "memcpy of a null pointer", line)
                if address.block.of is None:
                    address.block.typed(kind or out.block.of or into.block.of)
            x, y = into.block.of, out.block.of
            if x.size != y.size or count % x.size:
                raise TextTrap("type", f"{count} bytes of {y.name} are copied as {x.name}", line)
            cells = count // x.size
            first = out.block.index(out.offset, y, cells, y.size, line, writes=False)
            at = into.block.index(into.offset, x, cells, x.size, line, writes=True)
            if into.block is out.block and abs(into.offset - out.offset) < count:
                raise TextTrap("undefined", f"memcpy of {count} bytes of {out.block.name} that overlap", line)
            found = out.block.cells[first : first + cells]
            into.block.cells[at : at + cells] = found if x is y else [values.copied(each, y, x) for each in found]
            return into

        return _Typed(arguments[0].of, copy)

    def _checked_arithmetic(self, node: Any, name: str, arguments: list[_Typed]) -> _Typed:
        x, y = (self.converted(each, UNSIGNED_LONG, node) for each in arguments[:2])
        of = arguments[2].of
        if not isinstance(of, Pointer) or of.to is not UNSIGNED_LONG:
            raise _refused(node, f"({name} of another type than size_t)")
        target, adds, line = arguments[2].run, "add" in name, _line(node)

        def run(frame: Frame) -> int:
            a, b, address = x(frame), y(frame), target(frame)
            exact = a + b if adds else a * b
            block = address.block
            at = block.index(address.offset, UNSIGNED_LONG, 1, 8, line, writes=True)
            block.cells[at] = wrap(exact, UNSIGNED_LONG)
            return int(exact > UNSIGNED_LONG.high)

        return _Typed(INT, run)

    def _shuffled(self, node: Any, arguments: list[_Typed]) -> _Typed:
        x, y, *numbers = arguments
        if not isinstance(x.of, Vector):
            raise _refused(node, "(a shuffle of numbers)")
        lanes = [each.constant for each in numbers]
        chosen = [each for each in lanes if each is not None and 0 <= each < 2 * x.of.lanes]
        if len(chosen) < len(lanes):
            raise _refused(node, "(a shuffle by other numbers than constant ones of lanes)")
        left, right = x.run, y.run

        def run(frame: Frame) -> Any:
            both = (*left(frame), *right(frame))
            return tuple([both[each] for each in chosen])

        return _Typed(Vector(x.of.of, len(chosen), x.of.alignment), run)


def _pointed(of: CType) -> Number | None:
    """Return the type of the cells to which a pointer points, if it is known."""
    to = of.to if isinstance(of, Pointer) else of.of if isinstance(of, Row) else None
    return to.of if isinstance(to, Vector) else to if isinstance(to, Number) else None


def _ending(run: Run, slots: Sequence[int]) -> Run:
    """Return code after which the variables in these slots, whose address may be held, are no more."""

    def ending(frame: Frame) -> Any:
        signal = run(frame)
        for slot in slots:
            block = frame[slot]
            if isinstance(block, Block):
                block.freed = True
        return signal

    return ending


def _with_labels(runs: list[Run], labels: Mapping[str, int], machine: Machine) -> Run:
    """Return the code of statements, some with labels to which gotos lead."""

    def run(frame: Frame) -> Any:
        at = jumps = 0
        while at < len(runs):
            signal = runs[at](frame)
            at += 1
            if signal is not None:
                if signal.kind != "goto" or signal.value not in labels:
                    return signal
                at = labels[signal.value]
                jumps += 1
                machine.steps -= 1
                if machine.steps < 0:
                    trap = TextTrap("endless", f"too many jumps to {signal.value}")
                    trap.iterations = jumps
                    raise trap
        return None

    return run


_COMPARING: Final = frozenset(("<", "<=", ">", ">=", "==", "!="))


def _addressed(node: Any) -> set[str]:
    """Return the names of variables whose address is taken."""
    found = {name for _, child in node.children() for name in _addressed(child)}
    if isinstance(node, c_ast.UnaryOp) and node.op == "&" and isinstance(node.expr, c_ast.ID):
        found.add(node.expr.name)
    return found
