"""Conversions and operators of C on compiled operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from atl.errors import NotInSubset
from lowering.validation.code import Frame, FunctionScope, Run, Typed, line_of, refused
from lowering.validation.errors import TextTrap
from lowering.validation.memory import UNSET, ZERO, Address
from lowering.validation.types import INT, LONG, CType, Number, Pointer, Row, Vector, Void, common, promoted
from lowering.validation.values import Symbol

COMPARING: Final = frozenset(("<", "<=", ">", ">=", "==", "!="))


class Operations:
    """The operators in one function."""

    def __init__(self, scope: FunctionScope) -> None:
        self.scope = scope
        self.values = scope.machine.values

    # -- conversions --------------------------------------------------------------------------------------------------

    def converted(self, made: Typed, of: CType, node: Any, *, explicit: bool = False) -> Run:
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
            raise refused(node, "(a number as a pointer)")
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
        raise refused(node, "between these types")

    def as_test(self, made: Typed, node: Any) -> Run:
        run, as_test = made.run, self.values.as_test
        if isinstance(made.of, Pointer):
            return lambda frame: int(run(frame) is not None)
        if not isinstance(made.of, Number):
            raise refused(node, "as a condition")
        of = made.of

        def test(frame: Frame) -> Any:
            value = run(frame)
            return int(value != 0) if type(value) is int else as_test(value, of)

        return test

    # -- memory -------------------------------------------------------------------------------------------------------

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

    def storing(self, target: Typed, node: Any) -> Callable[[Frame, Any], None]:
        """Return the code that stores a value, which has the type of the target."""
        line = line_of(node)
        if target.lane_of is not None:
            slot, at = target.lane_of
            assert isinstance(target.of, Number)
            vector = next(v.of for block in self.scope.blocks for v in block.values() if v.slot == slot)
            assert isinstance(vector, Vector)
            lanes = vector.lanes

            def store_lane(frame: Frame, value: Any) -> None:
                number = at(frame)
                check_lane(number, lanes, line)
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
            raise refused(node, "as the target of an assignment")
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
            raise refused(node, "as the target of an assignment")
        number = target.of

        def store(frame: Frame, value: Any) -> None:
            address = place(frame)
            block = address.block
            at = block.index(address.offset, number, 1, number.size, line, writes=True)
            block.cells[at] = value

        return store

    # -- operators ----------------------------------------------------------------------------------------------------

    def both(self, node: Any, op: str, x: Typed, y: Typed) -> Typed:
        left, right, values = self.as_test(x, node), self.as_test(y, node), self.values
        ends, word = int(op == "||"), "or" if op == "||" else "and"
        covered, line = self.scope.covered, line_of(node)
        second = (line, f"{op} {node.coord.column}")
        self.scope.branches.add(second)

        def run(frame: Frame) -> Any:
            first = left(frame)
            if type(first) is int and first == ends:
                return ends
            covered.add(second)
            return values.both(word, first, right(frame))  # type: ignore[arg-type]

        return Typed(INT, run)

    def signed(self, node: Any, op: str, made: Typed) -> Typed:
        run = made.run
        if isinstance(made.of, Vector):
            lane = made.of.of
            each = self._sign_of(op, lane)
            return Typed(made.of, lambda frame: tuple([each(value) for value in run(frame)]))
        if not isinstance(made.of, Number):
            raise refused(node, f"({op})")
        of = promoted(made.of)
        change, converted = self._sign_of(op, of), self.converted(made, of, node)
        constant = None if made.constant is None else change(made.constant)
        return Typed(of, lambda frame: change(converted(frame)), constant)

    def _sign_of(self, op: str, of: Number) -> Callable[[Any], Any]:
        values = self.values
        if op == "+":
            return lambda x: x
        if op == "~":
            return lambda x: values.complement(of, x)
        if of.is_float:
            return lambda x: values.unary("neg", of, x)
        return lambda x: values.minus(of, x)

    def operated(self, node: Any, op: str, x: Typed, y: Typed) -> Typed:
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
            raise refused(node, "of these types")
        of = promoted(x.of) if op in ("<<", ">>") else common(x.of, y.of)
        left = self.converted(x, of, node)
        right = self.converted(y, promoted(y.of) if op in ("<<", ">>") else of, node)
        compute = self._operation(op, of, line_of(node))
        result = INT if op in COMPARING else of
        constant = None
        if x.constant is not None and y.constant is not None and not of.is_float:
            constant = compute(left([]), right([]))
        if op in "+-*" and not of.is_float:
            return Typed(result, self._fast(op, of, left, right, compute), constant)
        return Typed(result, lambda frame: compute(left(frame), right(frame)), constant)

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
        if op in COMPARING:
            return lambda x, y: values.compared(op, of, x, y)
        if of.is_float:
            if op not in "+-*/":
                raise NotInSubset(f"{op} of floats in line {line} of the C text", required="+, -, * or /")
            return lambda x, y: values.floats(op, of, x, y)
        return lambda x, y: values.integers(op, of, x, y, line)

    def _on_pointers(self, node: Any, op: str, x: Typed, y: Typed) -> Typed:
        left, right, line = x.run, y.run, line_of(node)
        if op in ("==", "!="):

            def equal(frame: Frame) -> int:
                a, b = left(frame), right(frame)
                if a is None or b is None:
                    same = (a is None or a == 0) and (b is None or b == 0)
                else:
                    same = a.block is b.block and a.offset == b.offset
                return int(same == (op == "=="))

            return Typed(INT, equal)
        if op in ("+", "-") and isinstance(x.of, Pointer) and isinstance(y.of, Number):
            if x.of.to is None:
                raise refused(node, "of void")
            size, sign = x.of.to.size, 1 if op == "+" else -1
            count = self.converted(y, LONG, node)

            def moved(frame: Frame) -> Any:
                address = left(frame)
                if address is None:
                    raise TextTrap("null", "arithmetic on a null pointer", line)
                return address + sign * count(frame) * size

            return Typed(x.of, moved)
        if op == "+" and isinstance(y.of, Pointer) and isinstance(x.of, Number):
            return self._on_pointers(node, op, y, x)
        raise refused(node, f"({op} of pointers)")

    def _on_vectors(self, node: Any, op: str, x: Typed, y: Typed) -> Typed:
        of = x.of if isinstance(x.of, Vector) else y.of
        assert isinstance(of, Vector)
        for each in (x, y):
            if isinstance(each.of, Vector) and each.of.lanes != of.lanes:
                raise refused(node, "of vectors of different lengths")
        lanes, line = of.lanes, line_of(node)
        left = self._lanes(x, of, node)
        right = self._lanes(y, of, node)
        compute = self._operation(op, of.of, line)
        if op in COMPARING:
            integer = LONG if of.of.size == 8 else INT if of.of.size == 4 else None
            if integer is None:
                raise refused(node, "of these vectors")

            def mask(x: Any, y: Any) -> Any:
                made = compute(x, y)
                return -made if type(made) is int else Symbol(made.value, "bool", mask=True)

            return Typed(
                Vector(integer, lanes, integer.size * lanes),
                lambda frame: tuple([mask(a, b) for a, b in zip(left(frame), right(frame), strict=True)]),
            )
        return Typed(of, lambda frame: tuple([compute(a, b) for a, b in zip(left(frame), right(frame), strict=True)]))

    def _lanes(self, made: Typed, of: Vector, node: Any) -> Run:
        if isinstance(made.of, Vector):
            return made.run
        one, lanes = self.converted(made, of.of, node), of.lanes
        return lambda frame: (one(frame),) * lanes


def check_lane(number: int, lanes: int, line: int) -> None:
    """Raise `TextTrap` if a vector has no lane of this number."""
    if not 0 <= number < lanes:
        raise TextTrap("out of bounds", f"lane {number} of a vector of {lanes}", line)
