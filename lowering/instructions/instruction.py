"""Instructions as declarations: what an instruction computes, where its operands are, its text and its requirements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Final

from atl.core.index import Index, Leaf, Var, index, map_leaves
from atl.core.program import Program
from atl.errors import InvalidArgument, brief
from atl.surface.reindexing import Arrangement, Reindexing
from atl.surface.values import as_index
from lowering.lower import lower_unchecked
from lowering.nest import loopnest as ln

OUT: Final = "out"
"""Name of the result in `Instruction.stored`."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction that adds sums to its first operand, or copies to it; the others are the inputs of its program.

    - `program`: one sum or one element of an input for each element of the result, of constant size: the meaning.
    - `text`: the function of this name, in the language of the target. Its parameters are pointers to the operands.
    - `stored`: the layout of each operand, by the name of the input, or `out`. Others are row-major in memory.
    - `lanes`: the threads along y and x that execute it together. These are then the first two positions of each
      layout, and the others number the registers of a thread. Required for cuda; c has none.
    - `rows_in_memory`: inputs of instructions with lanes that are in shared memory, as rows of adjacent elements. The
      number of elements divides the address of each row. The text gets a pointer and the distance between rows.
    - `rows_of_lanes`: inputs of copies that are in shared memory, as pieces of this many adjacent elements, at any
      multiples of it. The text of a lane gets a pointer to one piece: lane l has piece l // rows of row l % rows.
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
    rows_in_memory: Mapping[str, int] = field(default_factory=dict, repr=False)
    rows_of_lanes: Mapping[str, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for summary, required in _faults(self):
            raise InvalidArgument(summary, required=required)
        form = self.form
        for name, reindexing in form.stored.items():
            if name in self.rows_in_memory or name in self.rows_of_lanes:
                continue
            if tuple(extent.constant for extent in reindexing.places[: len(self.lanes)]) != self.lanes:
                raise InvalidArgument(
                    f"{name} is stored at {_extents(reindexing.places)}",
                    required=f"first positions with the extents of the lanes, {self.lanes}",
                )
        if form.stored[OUT].inverse is None:
            raise InvalidArgument(
                f"the layout of the result of {self.name} has no inverse",
                required="a layout that gives the element at each position",
            )
        for name in self.rows_in_memory:
            if len(form.stored[name].places) != 2:
                raise InvalidArgument(
                    f"{name} is stored at {_extents(form.stored[name].places)}, and its rows are in memory",
                    required="an input of rank 2",
                )
        for name, count in self.rows_of_lanes.items():
            shape = [extent.constant or 0 for extent in form.stored[name].shape]
            match form.term:
                case ln.Load(ln.Cell() as read):
                    is_copy = form.sum is None and read.pairs == form.result.pairs
                case _:
                    is_copy = False
            if not is_copy:
                summary, required = f"{self.name} does not copy the elements of {name}", "⊞[i < 16] ⊞[j < 16] a[i, j]"
                raise InvalidArgument(summary, required=required)
            if len(shape) != 2 or shape[1] % count or shape[0] * shape[1] // count > prod(self.lanes):
                raise InvalidArgument(
                    f"{name} has {' × '.join(map(str, shape))} elements, of which each lane has {count} of a row",
                    required="rows of whole pieces, at most one for each lane",
                )
        own_places = form.places[len(self.lanes) :]
        if (self.lanes and not own_places) or any(extent.constant == 1 for extent in own_places):
            raise InvalidArgument(
                f"the result of {self.name} is stored at {_extents(form.places)}",
                required="a position for the registers of a lane, of extent 2 or more"
                if self.lanes
                else "extents of 2 or more: loops with one iteration are removed. Write a scalar for a single sum",
            )

    @property
    def form(self) -> DeclaredNest:
        """The loop nest of the program and the layouts of the operands, cached."""
        return _form(self)

    def __hash__(self) -> int:
        return hash((self.name, self.target))

    def __repr__(self) -> str:
        sums = ln.elements(self.form.result.buffer.extents)
        kind = f"sums of {self.form.sum.high} terms" if self.form.sum is not None else "copies"
        return f"<Instruction {self.name}: {sums} {kind}, for {self.target}>"


def _faults(instruction: Instruction) -> Iterator[tuple[str, str]]:
    """Yield the faults of each field and what is required; what follows a fault relies on there being none."""
    i, name = instruction, instruction.name
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        yield f"an instruction named {brief(name)}", "an identifier"
    if not isinstance(i.program, Program):
        yield f"the program of {name} is {brief(i.program)}", 'a program: atl.parse("…")'
    if i.target not in ("c", "cuda"):
        yield f"target={brief(i.target)}", "'c' or 'cuda'"
    if not isinstance(i.text, str) or not re.search(rf"\b{name}\s*\(", i.text):
        yield f"the text of {name} does not define it", f"a function named {name}"
    inputs = [array.name for array in i.program.inputs]
    if OUT in inputs:
        yield f"an input of {name} is named {OUT}", f"another name: the result is {OUT}"
    if not isinstance(i.stored, Mapping):
        yield f"stored={brief(i.stored)}", "a mapping from names of operands to layouts"
    for each, arrangement in i.stored.items():
        if each not in (OUT, *inputs):
            yield f"stored={{{brief(each)}: …}}: {name} has no such operand", ", ".join(sorted((OUT, *inputs)))
        if not callable(getattr(arrangement, "stored", None)):
            yield f"stored={{{each!r}: {brief(arrangement)}}}", "a layout, such as layouts.fragments.LEFT"
    if not isinstance(i.lanes, tuple) or len(i.lanes) > 2 or not all(map(_is_positive, i.lanes)):
        yield f"lanes={brief(i.lanes)}", "a tuple of one or two positive numbers: the threads along y and x, or x"
    for word, rows in (("rows_in_memory", i.rows_in_memory), ("rows_of_lanes", i.rows_of_lanes)):
        if not isinstance(rows, Mapping):
            yield f"{word}={brief(rows)}", "a mapping from names of inputs to numbers of elements"
    if bool(i.lanes) != (i.target == "cuda") or ((i.rows_in_memory or i.rows_of_lanes) and not i.lanes):
        word, rows = ("rows_of_lanes", i.rows_of_lanes) if i.rows_of_lanes else ("rows_in_memory", i.rows_in_memory)
        yield (
            f"{name} has target={i.target!r}, lanes={i.lanes} and {word}={brief(rows)}",
            "lanes for the target cuda, and none for c; rows in memory of instructions with lanes only",
        )
    for word, rows in (("rows_in_memory", i.rows_in_memory), ("rows_of_lanes", i.rows_of_lanes)):
        for each, count in rows.items():
            if each not in inputs:
                yield f"{word}={{{brief(each)}: …}}: {name} has no such input", ", ".join(sorted(inputs))
            if not _is_positive(count):
                yield f"{word}={{{each!r}: {brief(count)}}}", "a positive number of elements"
    form, example = (r"[A-Za-z]\w*", "avx512vnni") if i.target == "c" else (r"sm_\d+", "sm_80")
    if not isinstance(i.requires, tuple) or not all(isinstance(e, str) and re.fullmatch(form, e) for e in i.requires):
        yield f"requires={brief(i.requires)}", f'a tuple of architectures, such as ("{example}",)'


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


@dataclass(frozen=True, slots=True)
class DeclaredNest:
    """The declared nest: `result` += the sum over the loop `sum` of `term`, where the result runs over `loops`.

    Without a `sum`, the result is `term`.
    """

    loops: tuple[ln.For, ...]
    sum: ln.For | None
    term: ln.ScalarExpr
    result: ln.Cell
    stored: Mapping[str, Reindexing]

    @property
    def places(self) -> tuple[Index, ...]:
        """The extents of the result as it is stored, which are those of the loops that a call covers."""
        return self.stored[OUT].places

    def location(self, name: str, cell: ln.Cell, at: tuple[Index, ...], term: Index | None) -> tuple[Index, ...]:
        """Return the positions of an operand's cell, given the loops of a call and the index of its sum."""
        elements = self.stored[OUT].inverse
        assert elements is not None
        values = {loop.variable: as_index(value) for loop, value in zip(self.loops, elements(*at), strict=True)}
        if self.sum is not None and term is not None:
            values[self.sum.variable] = term

        def value(leaf: Leaf) -> Index:
            return values[leaf] if isinstance(leaf, Var) else index(leaf)

        return tuple(map(as_index, self.stored[name].to(*(map_leaves(position, value) for position, _ in cell.pairs))))


@cache
def _form(instruction: Instruction) -> DeclaredNest:
    program, name = instruction.program, instruction.name
    required = "a sum for each element of the result, of constant size: ⊞[i < 16] Σ[p < 2] a[i, p] * b[p]"
    shapes = [*(array.shape for array in program.inputs), program.body.type.shape]
    if any(extent.constant is None for shape in shapes for extent in shape):
        raise InvalidArgument(f"the operands of {name} have no constant extents", required=required)
    loops: list[ln.For] = []
    block = lower_unchecked(program).body
    while len(block) == 1 and isinstance(block[0], ln.For):
        loops.append(block[0])
        block = block[0].body
    found: tuple[ln.Cell, ln.ScalarExpr, ln.For | None] | None = None
    match block:
        case (ln.Assign(ln.Cell() as result, ln.Load(ln.Cell()) as term),) if loops:
            found = result, term, None
        case (
            ln.Declare(total),
            ln.For(low=low, body=(ln.Accumulate(ln.Scalar() as folded, "add", term),)) as summed,
            ln.Assign(ln.Cell() as result, ln.Load(stored)),
        ) if folded == stored == total and low.constant == 0:
            found = result, term, summed
    if found is None:
        raise InvalidArgument(f"the program of {name} is not a sum of scalars", required=required)
    cell, value, loop = found
    arrangements = {OUT: program.body.type.shape, **{array.name: array.shape for array in program.inputs}}
    layouts = {
        each: instruction.stored[each].stored(shape) if each in instruction.stored else _in_order(shape)
        for each, shape in arrangements.items()
    }
    return DeclaredNest(tuple(loops), loop, value, cell, layouts)


def _in_order(shape: tuple[Index, ...]) -> Reindexing:
    """Return row-major storage."""
    return Reindexing(shape, shape, lambda *at: at, lambda *at: at)


def _extents(places: tuple[Index, ...]) -> str:
    return f"[{', '.join(map(str, places))}]"
