"""Functions of the standard library of C and builtins of compilers."""

from __future__ import annotations

from typing import Any, Final

from atl.core.operations import UnaryOp
from lowering.validation.code import Frame, Typed, line_of, refused
from lowering.validation.errors import TextTrap
from lowering.validation.memory import ZERO, Block
from lowering.validation.operations import Operations
from lowering.validation.types import (
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    UNSIGNED_LONG,
    CType,
    Number,
    Pointer,
    Row,
    Vector,
    Void,
    wrap,
)

_MATH: Final[dict[str, UnaryOp]] = {
    "fabs": "abs", "sqrt": "sqrt", "floor": "floor", "rint": "round", "exp": "exp", "log": "log", "tanh": "tanh",
    "erf": "erf", "sin": "sin", "cos": "cos", "log1p": "log1p", "expm1": "expm1",
}  # fmt: skip


class Library:
    """Calls of functions that the text does not define."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.machine = operations.scope.machine
        self.values = operations.values

    def called(self, node: Any, name: str, arguments: list[Typed]) -> Typed:
        machine, values, line = self.machine, self.values, line_of(node)
        bare = name.removesuffix("f")
        if name in ("INT64_C", "UINT64_C"):
            of = LONG if name == "INT64_C" else UNSIGNED_LONG
            return Typed(of, self.operations.converted(arguments[0], of, node), arguments[0].constant)
        if bare in _MATH or name in _MATH:
            of = DOUBLE if name in _MATH else FLOAT
            op, argument = _MATH[name if name in _MATH else bare], self.operations.converted(arguments[0], of, node)
            return Typed(of, lambda frame: values.unary(op, of, argument(frame)))
        if name in ("fma", "fmaf"):
            of = DOUBLE if name == "fma" else FLOAT
            x, y, z = (self.operations.converted(each, of, node) for each in arguments)
            return Typed(of, lambda frame: values.fused(of, x(frame), y(frame), z(frame)))
        match name:
            case "aligned_alloc" | "malloc" | "calloc":
                sizes = [self.operations.converted(each, UNSIGNED_LONG, node) for each in arguments]

                def allocate(frame: Frame) -> Any:
                    counts = [size(frame) for size in sizes]
                    alignment = counts[0] if name == "aligned_alloc" else 16
                    size = counts[-1] if name != "calloc" else counts[0] * counts[1]
                    made = machine.heap.allocate(size, alignment, line)
                    if made is not None and name == "calloc":
                        made.block.fill = ZERO
                    return made

                return Typed(Pointer(None), allocate)
            case "free":
                pointer = arguments[0].run
                return Typed(Void(), lambda frame: machine.heap.free(pointer(frame), line))
            case "memset":
                return self._filled(node, arguments)
            case "memcpy":
                return self._copied(node, arguments)
            case "omp_get_thread_num":
                return Typed(INT, lambda _: 0)
            case "__builtin_add_overflow" | "__builtin_mul_overflow":
                return self._checked_arithmetic(node, name, arguments)
            case "__builtin_ctzll" | "__builtin_popcountll":
                bits = self.operations.converted(arguments[0], UNSIGNED_LONG, node)
                if name == "__builtin_ctzll":

                    def zeros(frame: Frame) -> int:
                        word = bits(frame)
                        if not word:
                            raise TextTrap("undefined", f"{name}(0)", line)
                        return int(word & -word).bit_length() - 1

                    return Typed(INT, zeros)
                return Typed(INT, lambda frame: bits(frame).bit_count())
            case "__builtin_shufflevector":
                return self._shuffled(node, arguments)
            case "__builtin_assume_aligned":
                return arguments[0]
            case "__builtin_expect":
                return arguments[0]
            case _:
                raise refused(node, f"of {name}")

    def _filled(self, node: Any, arguments: list[Typed]) -> Typed:
        pointer, byte = arguments[0].run, arguments[1].constant
        size = self.operations.converted(arguments[2], UNSIGNED_LONG, node)
        if byte != 0:
            raise refused(node, "(memset with another byte than 0)")
        line, to = line_of(node), _pointed(arguments[0].of)

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

        return Typed(arguments[0].of, fill)

    def _copied(self, node: Any, arguments: list[Typed]) -> Typed:
        to, source = arguments[0].run, arguments[1].run
        size = self.operations.converted(arguments[2], UNSIGNED_LONG, node)
        line, values = line_of(node), self.values
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

        return Typed(arguments[0].of, copy)

    def _checked_arithmetic(self, node: Any, name: str, arguments: list[Typed]) -> Typed:
        x, y = (self.operations.converted(each, UNSIGNED_LONG, node) for each in arguments[:2])
        of = arguments[2].of
        if not isinstance(of, Pointer) or of.to is not UNSIGNED_LONG:
            raise refused(node, f"({name} of another type than size_t)")
        target, adds, line = arguments[2].run, "add" in name, line_of(node)

        def run(frame: Frame) -> int:
            a, b, address = x(frame), y(frame), target(frame)
            exact = a + b if adds else a * b
            block = address.block
            at = block.index(address.offset, UNSIGNED_LONG, 1, 8, line, writes=True)
            block.cells[at] = wrap(exact, UNSIGNED_LONG)
            return int(exact > UNSIGNED_LONG.high)

        return Typed(INT, run)

    def _shuffled(self, node: Any, arguments: list[Typed]) -> Typed:
        x, y, *numbers = arguments
        if not isinstance(x.of, Vector):
            raise refused(node, "(a shuffle of numbers)")
        lanes = [each.constant for each in numbers]
        chosen = [each for each in lanes if each is not None and 0 <= each < 2 * x.of.lanes]
        if len(chosen) < len(lanes):
            raise refused(node, "(a shuffle by other numbers than constant ones of lanes)")
        left, right = x.run, y.run

        def run(frame: Frame) -> Any:
            both = (*left(frame), *right(frame))
            return tuple([both[each] for each in chosen])

        return Typed(Vector(x.of.of, len(chosen), x.of.alignment), run)


def _pointed(of: CType) -> Number | None:
    """Return the type of the cells to which a pointer points, if it is known."""
    to = of.to if isinstance(of, Pointer) else of.of if isinstance(of, Row) else None
    return to.of if isinstance(to, Vector) else to if isinstance(to, Number) else None
