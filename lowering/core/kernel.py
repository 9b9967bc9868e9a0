"""Programs compiled for the systolic core, called with arrays. The core is emulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, assert_never

import numpy as np
import numpy.typing as npt

from atl.core.index import Array, Index, Leaf, Size, Var, value_of
from atl.core.predicate import Predicate, holds
from atl.core.program import Program
from atl.errors import InvalidArgument
from atl.meaning.arguments import bind
from atl.text.printing import show_predicate
from lowering.calls.compiled import Compiled, check_parts
from lowering.core.emulator import At, Core, Issued
from lowering.core.matching import CoreNest, core_nest
from lowering.instructions.instruction import OUT
from lowering.instructions.systolic import CLEAR, TARGET
from lowering.nest import loopnest as ln
from lowering.pipeline import lower


class CoreKernel(Compiled):
    """A program for the systolic core, called with arrays. A call emulates the core.

    `instructions(n=…)` are those for given sizes. After a call, `cycles` has the cycles that each instruction took.

    >>> import atl, numpy as np
    >>> from examples.systolic import product
    >>> kernel = product().compile(target="systolic")
    >>> kernel(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    >>> kernel.cycles["systolic_product"]
    767
    """

    def __init__(self, program: Program, made: CoreNest) -> None:
        check_parts('compile(program, target="systolic")', (program, Program), (made, CoreNest))
        super().__init__(program)
        self.made: Final = made
        self.cycles: dict[str, int] = {}

    @property
    def nest(self) -> ln.LoopNest:
        """The loop nest, in which loops with a `call` are instructions."""
        return self.made.nest

    def instructions(self, /, **sizes: int) -> tuple[Issued, ...]:
        """Return the instructions for these sizes, in order. Raises `InvalidArgument` for sizes that no call has."""
        if sorted(sizes) != sorted(self.program.sizes) or not all(type(each) is int for each in sizes.values()):
            raise InvalidArgument(
                f"instructions({', '.join(f'{name}={value!r}' for name, value in sizes.items())})",
                required=f"a number for each of {', '.join(self.program.sizes)}",
            )
        of = self.program.assumptions
        broken = next((each for each in of if not holds(each, _values(sizes, {}), _element)), None)
        if broken is not None or min(sizes.values(), default=0) < 0:
            raise InvalidArgument(
                f"instructions({', '.join(f'{name}={value}' for name, value in sizes.items())})",
                required="sizes of at least 0" if broken is None else show_predicate(broken),
            )
        return tuple(_issued(self.made, sizes))

    def __call__(self, /, *arrays: object, **named: object) -> npt.NDArray[Any]:
        """Run the program on the emulated core. Raises `ArgumentError`, `ArrayError` and `AssumptionError`."""
        call = bind(self.program, arrays, named)
        values: dict[Leaf, int] = {}
        shape = tuple(value_of(extent, _values(call.sizes, values), _element) for extent in self.program.shape)
        out = np.zeros(shape, self.program.dtype)
        main = {name: np.ascontiguousarray(array).reshape(-1) for name, array in call.arrays.items()}
        core = Core({**main, OUT: out.reshape(-1)}, self.made.memories, self.made.instructions)
        for issued in _issued(self.made, call.sizes):
            core.execute(issued)
        self.cycles = core.cycles
        return out


def compile_for_core(program: Program) -> CoreKernel:
    """Compile a program for the systolic core.

    Raises `NoInstruction` for loops that no instruction computes, `UnsafeAccess` and `UnsafeTruncation`.
    """
    if program.results or program.assembly is not None:
        raise InvalidArgument(f"{program.name} has several results, or a sparse one", required="one dense result")
    return CoreKernel(program, core_nest(lower(program, registers=False, target=TARGET)))


# -- issuing ----------------------------------------------------------------------------------------------------------


def _values(sizes: Mapping[str, int], variables: Mapping[Leaf, int]) -> Any:
    return lambda leaf: sizes[leaf.name] if isinstance(leaf, Size) else variables[leaf]


def _element(array: Array, at: tuple[int, ...]) -> int:
    raise InvalidArgument(
        f"a loop or condition reads {array.name}{list(at)}", required="loops and conditions over sizes on the core"
    )


def _issued(made: CoreNest, sizes: Mapping[str, int]) -> Iterator[Issued]:
    variables: dict[Var, int] = {}

    def leaf(each: Leaf) -> int:
        if isinstance(each, Size):
            return sizes[each.name]
        assert isinstance(each, Var)
        return variables[each]

    def value(index: Index) -> int:
        return value_of(index, leaf, _element)

    def true(predicate: Predicate) -> bool:
        return holds(predicate, leaf, _element)

    def at(operand: ln.CallOperand) -> At:
        buffer, address = operand.buffer.storage, value(operand.address)
        tile = made.tiles.get(buffer.uid)
        if tile is None:
            name = OUT if buffer.role == "output" else buffer.name
            return At(name, None, address=address, strides=tuple(map(value, operand.strides)))
        return At(buffer.name, tile.memory, address // tile.width, tile.first + address % tile.width)

    def run(block: ln.Block) -> Iterator[Issued]:
        for statement in block:
            match statement:
                case ln.For(call=ln.InstructionCall() as call):
                    if true(call.condition):
                        yield Issued(call.function, tuple(map(at, call.operands)), tuple(map(value, call.values)))
                case ln.For(variable, low, high, body):
                    for number in range(value(low), value(high)):
                        variables[variable] = number
                        yield from run(body)
                case ln.If(predicate, body):
                    if true(predicate):
                        yield from run(body)
                case ln.Clear(buffer):
                    tile = made.tiles.get(buffer.uid)
                    if tile is not None:  # the result is zero at first
                        cleared = At(buffer.name, tile.memory, 0, tile.first)
                        yield Issued(CLEAR, (cleared,), (value(buffer.extents[0]), tile.width))
                case ln.Allocate() | ln.Free():
                    pass
                case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Gather():
                    raise AssertionError(statement)
                case _:
                    assert_never(statement)

    yield from run(made.nest.body)
