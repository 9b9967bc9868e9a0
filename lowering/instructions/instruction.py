"""Instructions as declarations: what an instruction computes, where its operands are, its text and its requirements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Final

from atl.core.index import Index, Leaf, Var, index, map_leaves
from atl.core.marks import CALL
from atl.core.program import Program
from atl.errors import InvalidArgument, UnknownMark, brief
from atl.surface.reindexing import Arrangement, Reindexing
from atl.surface.values import as_index
from lowering.nest import loopnest as ln

OUT: Final = "out"
"""Name of the result in `Instruction.stored`."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction that adds sums to its first operand; the others are the inputs of its program, in order.

    - `program`: one sum for each element of the result, of constant size. It is the meaning of the instruction.
    - `text`: the function of this name, in the language of the target. Its parameters are pointers to the operands.
    - `stored`: the layout of each operand, by the name of the input, or `out`. Others are row-major in memory.
    - `lanes`: the threads along y and x that execute it together. These are then the first two positions of each
      layout, and the others number the registers of a thread. Without lanes, one thread executes it.
    - `requires`: the architecture, such as sm_80 or avx512vnni. The target's compiler must enable it.

    The instruction computes a sum marked `call NAME`, together with the loops around it that its result runs over.
    Lowering proves that each operand has the declared indices. That the text computes the program is trusted.

    Raises `InvalidArgument`.

    >>> import atl
    >>> text = "dots (a : float32[4, 2], b : float32[2]) : float32[4] := gen[i < 4] sum[p < 2] a[i, p] * b[p]"
    >>> Instruction("dots", atl.parse(text), "c", "static void dots(float *out, const float *a, const float *b) {…}")
    <Instruction dots: 4 sums of 2 terms, for c>
    """

    name: str
    program: Program = field(repr=False)
    target: str
    text: str = field(repr=False)
    stored: Mapping[str, Arrangement] = field(default_factory=dict, repr=False)
    lanes: tuple[int, ...] = ()
    requires: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise InvalidArgument(f"an instruction named {brief(self.name)}", required="an identifier")
        if self.target not in ("c", "cuda"):
            raise InvalidArgument(f"target={brief(self.target)}", required="'c' or 'cuda'")
        if not isinstance(self.text, str) or f"{self.name}(" not in self.text:
            raise InvalidArgument(
                f"the text of {self.name} does not define it", required=f"a function named {self.name}"
            )
        operands = {OUT, *(array.name for array in self.program.inputs)}
        for name in self.stored:
            if name not in operands:
                raise InvalidArgument(
                    f"stored={{{name!r}: …}}: {self.name} has no such operand", required=", ".join(sorted(operands))
                )
        form = self.form
        for name, reindexing in form.stored.items():
            if tuple(extent.constant for extent in reindexing.places[: len(self.lanes)]) != self.lanes:
                raise InvalidArgument(
                    f"{name} is stored at {_extents(reindexing.places)}",
                    required=f"first positions with the extents of the lanes, {self.lanes}",
                )

    @property
    def form(self) -> Form:
        """The loop nest of the program and the layouts of the operands, cached."""
        return _form(self)

    def __hash__(self) -> int:
        return hash((self.name, self.target))

    def __repr__(self) -> str:
        sums = ln.elements(self.form.result.buffer.extents)
        return f"<Instruction {self.name}: {sums} sums of {self.form.sum.high} terms, for {self.target}>"


@dataclass(frozen=True, slots=True)
class Form:
    """The declared nest: `result` += the sum over the loop `sum` of `term`, where the result runs over `loops`."""

    loops: tuple[ln.For, ...]
    sum: ln.For
    term: ln.ScalarExpr
    result: ln.Cell
    stored: Mapping[str, Reindexing]

    @property
    def places(self) -> tuple[Index, ...]:
        """The extents of the result as it is stored, which are those of the loops that a call covers."""
        return self.stored[OUT].places

    def location(self, name: str, cell: ln.Cell, at: tuple[Index, ...], term: Index) -> tuple[Index, ...]:
        """Return the positions of an operand's cell, given the loops of a call and the index of its sum."""
        elements = self.stored[OUT].inverse
        assert elements is not None
        values = {loop.variable: as_index(value) for loop, value in zip(self.loops, elements(*at), strict=True)}
        values[self.sum.variable] = term

        def value(leaf: Leaf) -> Index:
            return values[leaf] if isinstance(leaf, Var) else index(leaf)

        return tuple(map(as_index, self.stored[name].to(*(map_leaves(position, value) for position, _ in cell.pairs))))


@cache
def _form(instruction: Instruction) -> Form:
    program, name = instruction.program, instruction.name
    required = "a sum for each element of the result, of constant size: ⊞[i < 16] Σ[p < 2] a[i, p] * b[p]"
    shapes = [*(array.shape for array in program.inputs), program.body.type.shape]
    if any(extent.constant is None for shape in shapes for extent in shape):
        raise InvalidArgument(f"the operands of {name} have no constant extents", required=required)
    loops: list[ln.For] = []
    block: ln.Block = import_module("lowering.lower").lower_unchecked(program).body  # which imports this package
    while len(block) == 1 and isinstance(block[0], ln.For):
        loops.append(block[0])
        block = block[0].body
    match block:
        case (
            ln.Declare(total),
            ln.For(low=low, body=(ln.Accumulate(ln.Scalar() as folded, "add", term),)) as summed,
            ln.Assign(ln.Cell() as result, ln.Load(stored)),
        ) if folded == stored == total and low.constant == 0:
            pass
        case _:
            raise InvalidArgument(f"the program of {name} is not a sum of scalars", required=required)
    arrangements = {OUT: program.body.type.shape, **{array.name: array.shape for array in program.inputs}}
    layouts = {
        each: instruction.stored[each].stored(shape) if each in instruction.stored else _in_order(shape)
        for each, shape in arrangements.items()
    }
    return Form(tuple(loops), summed, term, result, layouts)


def _in_order(shape: tuple[Index, ...]) -> Reindexing:
    """Return row-major storage."""
    return Reindexing(shape, shape, lambda *at: at, lambda *at: at)


def _extents(places: tuple[Index, ...]) -> str:
    return f"[{', '.join(map(str, places))}]"


# -- registry ---------------------------------------------------------------------------------------------------------


BUILT_IN: Final = ("lowering.instructions.tensor_cores", "lowering.instructions.dot_products")
"""Modules that declare instructions in `INSTRUCTIONS`."""
_declared: dict[str, Instruction] = {}


def declare(instruction: Instruction) -> Instruction:
    """Make an instruction known by its name, so that sums may be marked with it; return it.

    Raises `InvalidArgument` if another instruction has this name.
    """
    if not isinstance(instruction, Instruction):
        raise InvalidArgument(f"{brief(instruction)} is not an instruction", required="an atl.Instruction")
    known = instructions().get(instruction.name)
    if known is not None and known != instruction:
        raise InvalidArgument(f"there is another instruction named {instruction.name}", required="a new name")
    _declared[instruction.name] = instruction
    return instruction


def instructions() -> Mapping[str, Instruction]:
    """Return the declared instructions by name."""
    built_in = (each for module in BUILT_IN for each in import_module(module).INSTRUCTIONS)
    return {**{each.name: each for each in built_in}, **_declared}


def instruction_named(name: str) -> Instruction:
    """Return a declared instruction. Raises `UnknownMark`."""
    known = instructions()
    if name not in known:
        near = get_close_matches(name, known, 1, 0.5)
        raise UnknownMark(
            f"there is no instruction {brief(name)}",
            required=f"one of {', '.join(known)}, or one of your own: atl.declare(atl.Instruction(…))",
            suggestions=(f'did you mean "{CALL}{near[0]}"?',) if near else (),
        )
    return known[name]
