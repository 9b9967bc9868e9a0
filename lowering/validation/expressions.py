"""Expressions of C, compiled to closures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from pycparser import c_ast

from lowering.validation.code import Frame, Function, FunctionScope, Run, Typed, line_of, refused
from lowering.validation.errors import ElementBranch, TextTrap
from lowering.validation.interface import Known
from lowering.validation.library import Library
from lowering.validation.memory import UNSET, Address
from lowering.validation.operations import Operations, check_lane
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
    common,
    wrap,
)
from lowering.validation.values import UNKNOWN, Special, Symbol

_LIMITS: Final = {
    "INT32_MIN": (-(2**31), INT), "INT32_MAX": (2**31 - 1, INT), "INT64_MIN": (-(2**63), LONG),
    "INT64_MAX": (2**63 - 1, LONG), "PTRDIFF_MAX": (2**63 - 1, LONG), "SIZE_MAX": (2**64 - 1, UNSIGNED_LONG),
}  # fmt: skip


class Expressions:
    """The expressions in one function."""

    def __init__(self, scope: FunctionScope) -> None:
        self.scope, self.machine = scope, scope.machine
        self.values = scope.machine.values
        self.operations = Operations(scope)
        self.library = Library(self.operations)

    def type_of(self, node: Any) -> CType:
        return self.machine.type_of(node, self._typeof)

    def _typeof(self, name: str) -> CType:
        return self.expression(self.machine.source.typeofs[name]).of

    def expression(self, node: Any, *, unused: bool = False) -> Typed:
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
                return Typed(of, self.initial(node.init, of))
            case c_ast.ExprList():
                parts = [self.expression(each, unused=True).run for each in node.exprs]
                last = self.expression(node.exprs[-1], unused=unused)
                others = parts[:-1]

                def both(frame: Frame) -> Any:
                    for part in others:
                        part(frame)
                    return last.run(frame)

                return Typed(last.of, both)
            case _:
                raise refused(node, "as an expression")

    def initial(self, node: Any, of: CType) -> Run:
        """Return the code of an initial value, converted to a type."""
        if isinstance(node, c_ast.InitList):
            if not isinstance(of, Vector):
                raise refused(node, "as the initial value of a number")
            cells = [self.operations.converted(self.expression(each), of.of, node) for each in node.exprs]
            zero = self.values.scalars.constant(0, of.of.dtype) if of.of.is_float else 0
            rest = (zero,) * (of.lanes - len(cells))
            if all(isinstance(each, c_ast.Constant) for each in node.exprs):
                value = (*(cell([]) for cell in cells), *rest)
                return lambda _: value
            return lambda frame: (*[cell(frame) for cell in cells], *rest)
        return self.operations.converted(self.expression(node), of, node)

    def constant(self, node: c_ast.Constant) -> Typed:
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
            return Typed(of, lambda _: value)
        if node.type in ("char", "string"):
            raise refused(node, "of characters")
        digits = text.rstrip("ul")
        whole = int(digits, 0) if digits.startswith("0x") or not digits.startswith("0") else int(digits, 8)
        suffix = text[len(digits) :]
        if "u" in suffix:
            kind = UNSIGNED_LONG if "l" in suffix or whole >= 1 << 32 else NUMBERS["uint32_t"]
        elif "l" in suffix or whole > INT.high:
            kind = NUMBERS["uint32_t"] if digits.startswith("0x") and whole < 1 << 32 and "l" not in suffix else LONG
        else:
            kind = INT
        return Typed(kind, lambda _: whole, whole)

    def name(self, node: Any, name: str) -> Typed:
        variable = self.scope.lookup(name)
        if variable is None:
            return self.macro(node, name)
        slot, line = variable.slot, line_of(node)
        if isinstance(variable.of, Row):
            return Typed(variable.of, lambda frame: Address(frame[slot]))
        if variable.boxed:
            of = variable.of
            place: Callable[[Frame], Address] = lambda frame: Address(frame[slot])  # noqa: E731
            return Typed(of, self.operations.loading(of, place, line), place=place)

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

        return Typed(variable.of, read_lanes if isinstance(variable.of, Vector) else read, slot=slot)

    def macro(self, node: Any, name: str) -> Typed:
        values = self.values
        if name in self.machine.constants:
            whole = self.machine.constants[name]
            return Typed(INT, lambda _: whole, whole)
        if name in _LIMITS:
            whole, of = _LIMITS[name]
            return Typed(of, lambda _: whole, whole)
        match name:
            case "NULL":
                return Typed(Pointer(None), lambda _: None)
            case "INFINITY":
                infinite = values.literal(float("inf"), FLOAT)
                return Typed(FLOAT, lambda _: infinite)
            case "NAN":
                nan = values.literal(float("nan"), FLOAT)
                return Typed(FLOAT, lambda _: nan)
            case _:
                raise refused(node, f"({name})")

    def element(self, node: c_ast.ArrayRef) -> Typed:
        base, index, line = self.expression(node.name), self.expression(node.subscript), line_of(node)
        at = self.operations.converted(index, LONG, node)
        if isinstance(base.of, Vector):
            return self._lane(node, base, at)
        if isinstance(base.of, Row):
            to: CType | None = base.of.of
        elif isinstance(base.of, Pointer):
            to = base.of.to
        else:
            raise refused(node, "of a number")
        if to is None:
            raise refused(node, "of void")
        run, size = base.run, to.size

        def place(frame: Frame) -> Address:
            address, number = run(frame), at(frame)
            if address is None:
                raise TextTrap("null", "an element of a null pointer", line)
            if type(number) is not int:
                raise ElementBranch
            return Address(address.block, address.offset + number * size)

        return Typed(to, self.operations.loading(to, place, line), place=place)

    def _lane(self, node: Any, base: Typed, at: Run) -> Typed:
        assert isinstance(base.of, Vector)
        lanes, line = base.of.lanes, line_of(node)
        if base.slot is None:
            run = base.run

            def lane_of(frame: Frame) -> Any:
                vector, number = run(frame), at(frame)
                check_lane(number, lanes, line)
                return vector[number]

            return Typed(base.of.of, lane_of)
        slot = base.slot

        def lane(frame: Frame) -> Any:
            number, vector = at(frame), frame[slot]
            check_lane(number, lanes, line)
            value = UNSET if vector is UNSET else vector[number]
            if value is UNSET:
                raise TextTrap("unset", f"lane {number} of a vector has no value", line)
            return value

        return Typed(base.of.of, lane, lane_of=(slot, at))

    def assignment(self, node: c_ast.Assignment) -> Typed:
        target = self.expression(node.lvalue)
        store = self.operations.storing(target, node)
        if node.op == "=":
            value = self.operations.converted(self.expression(node.rvalue), target.of, node)
        else:
            right = self.expression(node.rvalue)
            made = self.operations.operated(node, node.op[:-1], target, right)
            value = self.operations.converted(made, target.of, node)

        def run(frame: Frame) -> Any:
            found = value(frame)
            store(frame, found)
            return found

        return Typed(target.of, run)

    def ternary(self, node: c_ast.TernaryOp) -> Typed:
        test, x, y = self.expression(node.cond), self.expression(node.iftrue), self.expression(node.iffalse)
        of: CType
        if isinstance(x.of, Number) and isinstance(y.of, Number):
            of = x.of if x.of is y.of else common(x.of, y.of)
        elif isinstance(x.of, Pointer) and isinstance(y.of, Pointer):
            of = x.of if x.of.to is not None else y.of
        elif x.of == y.of:
            of = x.of
        else:
            raise refused(node, "of two types")
        left, right = self.operations.converted(x, of, node), self.operations.converted(y, of, node)
        condition = self.operations.as_test(test, node)
        values, covered, line = self.values, self.scope.covered, line_of(node)
        yes, no = (line, f"? {node.coord.column}"), (line, f": {node.coord.column}")
        self.scope.branches |= {yes, no}

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

        return Typed(of, choose)

    def unary(self, node: c_ast.UnaryOp, op: str, *, unused: bool) -> Typed:
        values = self.values
        if op == "sizeof":
            inner = node.expr
            of = self.type_of(inner) if isinstance(inner, c_ast.Typename) else self.expression(inner).of
            size = of.size
            return Typed(UNSIGNED_LONG, lambda _: size, size)
        made = self.expression(node.expr)
        line = line_of(node)
        match op:
            case "&":
                if made.place is None:
                    raise refused(node, "of a variable")
                return Typed(Pointer(made.of), made.place)
            case "*":
                if not isinstance(made.of, Pointer | Row):
                    raise refused(node, "of a number")
                to = made.of.to if isinstance(made.of, Pointer) else made.of.of
                if to is None:
                    raise refused(node, "of void")
                run = made.run

                def place(frame: Frame) -> Address:
                    address = run(frame)
                    if address is None:
                        raise TextTrap("null", "the value at a null pointer", line)
                    return address  # type: ignore[no-any-return]

                return Typed(to, self.operations.loading(to, place, line), place=place)
            case "++" | "--" | "p++" | "p--":
                one = Typed(INT, lambda _: 1, 1)
                changed = self.operations.operated(node, "+" if "+" in op else "-", made, one)
                value = self.operations.converted(changed, made.of, node)
                store, before = self.operations.storing(made, node), made.run
                if op.startswith("p") and not unused:

                    def after(frame: Frame) -> Any:
                        old = before(frame)
                        store(frame, value(frame))
                        return old

                    return Typed(made.of, after)

                def run_step(frame: Frame) -> Any:
                    new = value(frame)
                    store(frame, new)
                    return new

                return Typed(made.of, run_step)
            case "!":
                test = self.operations.as_test(made, node)
                return Typed(INT, lambda frame: values.negated(test(frame)))
            case "-" | "+" | "~":
                return self.operations.signed(node, op, made)
            case _:
                raise refused(node, f"({op})")

    def enter_enum(self, enum: c_ast.Enum) -> None:
        at = 0
        for each in enum.values.enumerators if enum.values else []:
            if each.value is not None:
                value = self.expression(each.value).constant
                if value is None:
                    raise refused(each, "without a constant value")
                at = value
            self.machine.constants[each.name] = at
            at += 1

    def binary(self, node: c_ast.BinaryOp, op: str) -> Typed:
        x, y = self.expression(node.left), self.expression(node.right)
        if op in ("&&", "||"):
            return self.operations.both(node, op, x, y)
        return self.operations.operated(node, op, x, y)

    def cast(self, node: c_ast.Cast) -> Typed:
        of = self.type_of(node.to_type)
        made = self.expression(node.expr)
        constant = None
        if made.constant is not None and isinstance(of, Number) and not of.is_float:
            constant = wrap(made.constant, of)
        return Typed(of, self.operations.converted(made, of, node, explicit=True), constant)

    # -- calls --------------------------------------------------------------------------------------------------------

    def called(self, node: c_ast.FuncCall) -> Typed:
        name = self.machine.source.aliases.get(node.name.name, node.name.name)
        nodes = node.args.exprs if node.args is not None else []
        arguments = [self.expression(each) for each in nodes]
        if self.machine.defines(name):
            return self._own(node, name, arguments)
        return self.library.called(node, name, arguments)

    def _own(self, node: Any, name: str, arguments: list[Typed]) -> Typed:
        machine = self.machine
        function = machine.function(name)
        if len(arguments) != len(function.parameters):
            raise refused(node, f"of {name} with {len(arguments)} arguments")
        pairs, converted = zip(arguments, function.parameters, strict=True), self.operations.converted
        passed = [converted(made, of, node) for made, (_, of) in pairs]

        def call(frame: Frame) -> Any:
            return machine.call(function, [each(frame) for each in passed])

        known = machine.known.get(name)
        if known is None or self.values.is_machine:
            return Typed(function.result, call)
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

        return Typed(function.result, apply_or_call)

    def _same(self, argument: Typed, of: CType) -> Typed:
        run, values = argument.run, self.values
        assert isinstance(argument.of, Number)
        dtype = argument.of.dtype
        return Typed(of, lambda frame: values.element(run(frame), dtype))

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
