"""Instructions as declarations: what an instruction computes, where its operands are, its text and its requirements.

An instruction of constant sizes has operands in a declared layout. A *sized* one has sizes as parameters, and operands
in memory whose strides are parameters too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Final, Literal, TypeAlias, get_args

from atl.core.index import ONE, Index, Leaf, Size, Var, index, map_leaves
from atl.core.marks import LetMark
from atl.core.predicate import Predicate, atoms_of, conjunction, equal
from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument, brief
from atl.parsing.parse import parse_predicate
from atl.surface.reindexing import Arrangement, Reindexing
from atl.surface.values import as_index
from lowering.c.scalars import C_TYPES
from lowering.lower import lower_unchecked
from lowering.nest import loopnest as ln
from lowering.nest.tiles import cells

OUT: Final = "out"
"""Name of the result in `Instruction.stored`."""
CORE_MEMORIES: Final = (LetMark.SCRATCHPAD, LetMark.ACCUMULATOR)
"""The marks of lets in the memories of the systolic core."""
ResultKind: TypeAlias = Literal["added", "stored", "either"]
"""The way in which an instruction writes sums to its result; for `either`, its last parameter says if it adds them."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction that adds sums to its first operand, or copies to it; the others are the inputs of its program.

    - `program`: the meaning. Each element of the result is one sum, or one element of an input.
    - `text`: the function of this name, in the language of the target. Its parameters are pointers to the operands.
    - `stored`: the layout of each operand, by the name of the input, or `out`. Others are row-major in memory.
    - `lanes`: the threads along y and x that execute it together. These are then the first two positions of each
      layout, and the others number the registers of a thread. Required for cuda; c has none.
    - `rows_in_memory`: inputs of instructions with lanes that are in shared memory, as rows of adjacent elements. The
      number of elements divides the address of each row. The text gets a pointer and the distance between rows.
    - `rows_of_lanes`: inputs of copies that are in shared memory. They consist of pieces of this many adjacent
      elements, and each piece is at a multiple of this number. The text of a lane gets a pointer to one piece: lane l
      has piece l // rows of row l % rows.
    - `requires`: the architecture, such as sm_80 or avx512vnni. The target's compiler must enable it.

    A program with sizes, or fields below, make it a sized instruction, for C only. Its text gets these parameters: the
    pointer to each operand, followed by its strides; the sizes of the program; and `int add` if the result is `either`.

    - `strides`: for each operand that is not row-major, a condition on its strides. `a0` is the distance in elements
      between neighbours along the first dimension of `a`: `"a1 = 1 ∧ a0 >= k"`.
    - `result`: the sums are `added` to the first operand, or `stored`, or `either`.
    - `aligned`: the alignment of operands in bytes, which is tested in each call.
    - `faster`: a condition on the sizes under which a call is faster than the loops.
    - `libraries`: the libraries that the text calls: `blas`, or a name for the linker.

    An instruction of the target systolic has no text, and also these fields. Its operands in memories have rank 2, and
    need only be adjacent along the second dimension. It stores elements, or adds sums.

    - `memories`: `scratchpad` or `accumulator`, for each operand that is not in the main memory.
    - `emulate`: a function that gets the arrays of the result and of the inputs, changes the first, and returns the
      number of cycles.

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
    text: str = field(default="", repr=False)
    stored: Mapping[str, Arrangement] = field(default_factory=dict, repr=False)
    lanes: tuple[int, ...] = ()
    requires: tuple[str, ...] = ()
    rows_in_memory: Mapping[str, int] = field(default_factory=dict, repr=False)
    rows_of_lanes: Mapping[str, int] = field(default_factory=dict, repr=False)
    strides: Mapping[str, str] = field(default_factory=dict, repr=False)
    result: ResultKind = field(default="added", repr=False)
    aligned: Mapping[str, int] = field(default_factory=dict, repr=False)
    faster: str = field(default="", repr=False)
    libraries: tuple[str, ...] = ()
    memories: Mapping[str, str] = field(default_factory=dict, repr=False)
    emulate: Callable[..., int] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for summary, required in _faults(self):
            raise InvalidArgument(summary, required=required)
        form = self.form
        if self.is_sized:
            _check_sized(self)
            return
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
            read = form.term.source if isinstance(form.term, ln.Load) else None
            if form.sum is not None or not isinstance(read, ln.Cell) or read.pairs != form.result.pairs:
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

    @property
    def is_sized(self) -> bool:
        """True if sizes or strides are parameters of the text, and for each instruction of the systolic core."""
        return (
            bool(self.program.sizes or self.strides or self.aligned or self.faster or self.libraries)
            or self.result != "added"
            or self.target == "systolic"
        )

    def memory(self, name: str) -> LetMark | None:
        """Return the mark of an operand's memory; None is the main memory."""
        return LetMark(self.memories[name]) if name in self.memories else None

    def passes_strides(self, name: str) -> bool:
        """Return whether calls pass the strides of an operand."""
        return name in self.strides or self.target == "systolic"

    @property
    def adds_on_request(self) -> bool:
        """True if the last parameter of the text says whether sums are added to the result."""
        return self.result == "either" and self.form.sum is not None

    @property
    def requirements(self) -> tuple[tuple[str, Predicate], ...]:
        """The conditions of a call on the sizes and strides, each with the name of its operand or ""; cached."""
        return _requirements(self)

    def __hash__(self) -> int:
        return hash((self.name, self.target))

    def __repr__(self) -> str:
        if self.is_sized:
            return f"<Instruction {self.name}: {self.form.kind} of any size, for {self.target}>"
        sums = ln.elements(self.form.result.buffer.extents)
        kind = f"sums of {self.form.sum.high} terms" if self.form.sum is not None else "copies"
        return f"<Instruction {self.name}: {sums} {kind}, for {self.target}>"


def _faults(instruction: Instruction) -> Iterator[tuple[str, str]]:
    """Yield the faults of each field and what is required. The code after each check relies on its success."""
    i, name = instruction, instruction.name
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        yield f"an instruction named {brief(name)}", "an identifier"
    if not isinstance(i.program, Program):
        yield f"the program of {name} is {brief(i.program)}", 'a program: atl.parse("…")'
    if i.target not in ("c", "cuda", "systolic"):
        yield f"target={brief(i.target)}", "'c', 'cuda' or 'systolic'"
    if (i.target == "systolic") != callable(i.emulate):
        yield (
            f"{name} has target={i.target!r} and emulate={brief(i.emulate)}",
            "a function, for systolic only",
        )
    if i.target == "systolic":
        if i.text:
            yield f"the text of {name} is {brief(i.text)}", "emulate=… in place of a text, for the target systolic"
    elif not isinstance(i.text, str) or not re.search(rf"\b{name}\s*\(", i.text):
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
    yield from _faults_of_sized(i, inputs)
    form, example = (r"[A-Za-z]\w*", "avx512vnni") if i.target == "c" else (r"sm_\d+", "sm_80")
    if not isinstance(i.requires, tuple) or not all(isinstance(e, str) and re.fullmatch(form, e) for e in i.requires):
        yield f"requires={brief(i.requires)}", f'a tuple of architectures, such as ("{example}",)'


def _faults_of_sized(i: Instruction, inputs: list[str]) -> Iterator[tuple[str, str]]:
    memories = [each.value for each in CORE_MEMORIES]
    if not isinstance(i.memories, Mapping) or not all(each in memories for each in i.memories.values()):
        yield f"memories={brief(i.memories)}", f"a mapping from names of operands to {' or '.join(map(repr, memories))}"
    if bool(i.memories) != (i.target == "systolic") or not set(i.memories) <= {OUT, *inputs}:
        yield (
            f"{i.name} has target={i.target!r} and memories={brief(dict(i.memories))}",
            f"memories of {', '.join(sorted((OUT, *inputs)))} for the target systolic, and none for others",
        )
    for what, given, of in (("strides", i.strides, str), ("aligned", i.aligned, int)):
        if not isinstance(given, Mapping):
            yield f"{what}={brief(given)}", "a mapping from names of operands"
        for each, value in given.items():
            if each not in (OUT, *inputs):
                yield f"{what}={{{brief(each)}: …}}: {i.name} has no such operand", ", ".join(sorted((OUT, *inputs)))
            if not isinstance(value, of) or isinstance(value, bool):
                yield f"{what}={{{each!r}: {brief(value)}}}", "a condition such as 'a1 = 1'" if of is str else "bytes"
    for each, value in i.aligned.items():
        if value < 1 or value & (value - 1):
            yield f"aligned={{{each!r}: {value}}}", "a power of two: the number of bytes"
    if i.result not in get_args(ResultKind):
        yield f"result={brief(i.result)}", " or ".join(map(repr, get_args(ResultKind)))
    if not isinstance(i.faster, str):
        yield f"faster={brief(i.faster)}", 'a condition on the sizes, such as "n >= 16"'
    if not isinstance(i.libraries, tuple) or not all(
        isinstance(each, str) and re.fullmatch(r"[A-Za-z]\w*", each) for each in i.libraries
    ):
        yield f"libraries={brief(i.libraries)}", 'a tuple of names of libraries, such as ("blas",)'


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

    @property
    def all_loops(self) -> tuple[ln.For, ...]:
        """The loops, with that of the sum, if any, at the end."""
        return self.loops if self.sum is None else (*self.loops, self.sum)

    @property
    def kind(self) -> str:
        """A word for what is computed."""
        if self.sum is not None:
            return "sums"
        return "copies" if isinstance(self.term, ln.Load) else "elements"

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
    required = "a sum for each element of the result: ⊞[i < 16] Σ[p < 2] a[i, p] * b[p]"
    loops: list[ln.For] = []
    block = lower_unchecked(program).body
    while len(block) == 1 and isinstance(block[0], ln.For):
        loops.append(block[0])
        block = block[0].body
    found: tuple[ln.Cell, ln.ScalarExpr, ln.For | None] | None = None
    match block:
        case (ln.Assign(ln.Cell() as result, term),) if loops and (
            instruction.is_sized or (isinstance(term, ln.Load) and isinstance(term.source, ln.Cell))
        ):
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


# -- sized instructions -----------------------------------------------------------------------------------------------


def _check_sized(instruction: Instruction) -> None:
    """Raise `InvalidArgument` unless the sizes of a call, and the strides of its operands, follow from its loops."""
    name, form = instruction.name, instruction.form
    if instruction.target == "cuda" or instruction.lanes or instruction.stored:
        raise InvalidArgument(
            f"{name} has sizes or strides, and target={instruction.target!r}, lanes or layouts in stored=",
            required="target 'c' or 'systolic' with operands in memory, or a program of constant sizes",
        )
    variables = [loop.variable for loop in form.all_loops]
    extents = [loop.high for loop in form.all_loops]
    for loop in form.all_loops:
        if loop.low.constant != 0 or not (loop.high.constant or isinstance(loop.high.atom, Size)):
            raise InvalidArgument(
                f"the loop {loop.variable.name} of {name} runs from {loop.low} to {loop.high}",
                required="loops from 0 to a size or a positive constant",
            )
    for size in instruction.program.sizes:
        if index(Size(size)) not in extents:
            raise InvalidArgument(f"no loop of {name} runs to the size {size}", required=f"a loop from 0 to {size}")
    for cell in (form.result, *cells(form.term)):
        at = [position.atom for position, _ in cell.pairs]
        if len(set(at)) != len(at) or any(position not in variables for position in at):
            raise InvalidArgument(
                f"{cell.buffer.name} is read at [{', '.join(str(position) for position, _ in cell.pairs)}] by {name}",
                required="elements whose indices are loop variables: a[i, p]",
            )
    read = {cell.buffer.name for cell in cells(form.term)}
    for array in instruction.program.inputs:
        if array.name not in read:
            raise InvalidArgument(
                f"{name} does not read {array.name}", required="an element of each input in each term"
            )
    assert instruction.requirements is not None
    if instruction.target == "c":
        _check_parameters(instruction)
        return
    if (form.sum is None) != (instruction.result == "stored"):
        raise InvalidArgument(
            f"{name} has result={instruction.result!r}, and computes {form.kind}",
            required="elements that are 'stored', or sums that are 'added'",
        )
    for cell in (form.result, *cells(form.term)):
        if cell.buffer.name in instruction.memories and len(cell.pairs) != 2:
            raise InvalidArgument(
                f"{cell.buffer.name} of {name} has rank {len(cell.pairs)}", required="rank 2: partitions and elements"
            )


def _check_parameters(instruction: Instruction) -> None:
    """Raise `InvalidArgument` unless the text defines a function with the parameters of a call, in order and by type.

    A compiler may only warn of a pointer to other elements, and a call would then access memory beyond an operand.
    """
    program, name = instruction.program, instruction.name
    expected = [("*", C_TYPES[instruction.program.dtype], OUT)]
    expected += [("", "int64_t", each) for each in _strides_passed(instruction, OUT, len(program.body.type.shape))]
    for array in program.inputs:
        expected.append(("*", C_TYPES[array.dtype], array.name))
        expected += [("", "int64_t", each) for each in _strides_passed(instruction, array.name, len(array.shape))]
    expected += [("", "int64_t", size) for size in program.sizes]
    if instruction.adds_on_request:
        expected.append(("", "int", "add"))
    required = f"{name}({', '.join(f'{kind} {star}{of}' for star, kind, of in expected)})"
    found = re.search(rf"\b{name}\s*\(([^()]*)\)\s*\{{", instruction.text)
    if found is None:
        raise InvalidArgument(f"the text of {name} does not define it", required=f"a definition of {required}")
    parameters = [parameter.strip() for parameter in found[1].split(",")]
    if len(parameters) != len(expected):
        raise InvalidArgument(
            f"the text of {name} takes {len(parameters)} parameters, and calls have {len(expected)}", required=required
        )
    for parameter, (star, kind, of) in zip(parameters, expected, strict=True):
        words = re.findall(r"\w+", parameter)
        if parameter.count("*") != len(star) or not ({kind, "void"} if star else {kind}) & set(words[:-1]):
            raise InvalidArgument(
                f"the parameter {parameter} of {name} has another type than the argument {of}", required=required
            )


def _strides_passed(instruction: Instruction, name: str, rank: int) -> list[str]:
    return [stride_name(name, at) for at in range(rank)] if name in instruction.strides else []


def stride_name(operand: str, dimension: int) -> str:
    """Return the name of a stride in conditions: `a0`."""
    return f"{operand}{dimension}"


@cache
def _requirements(instruction: Instruction) -> tuple[tuple[str, Predicate], ...]:
    program = instruction.program
    sizes = {Size(each) for each in program.sizes}
    found: list[tuple[str, Predicate]] = [("", assumption) for assumption in program.assumptions]
    shapes = {OUT: program.body.type.shape, **{array.name: array.shape for array in program.inputs}}
    for name, shape in shapes.items():
        strides = [index(Size(stride_name(name, at))) for at in range(len(shape))]
        if name in instruction.strides:
            own = {Size(stride_name(name, at)) for at in range(len(shape))}
            if own & sizes:
                raise InvalidArgument(
                    f"a size of {instruction.name} has the name of a stride of {name}", required="other names of sizes"
                )
            found.append((name, _condition(instruction, f"strides of {name}", instruction.strides[name], own | sizes)))
            continue
        if name in instruction.memories:
            found.append((name, equal(strides[-1], ONE)))
            continue
        row_major, distance = [], ONE
        for stride, extent in zip(reversed(strides), reversed(shape), strict=True):
            row_major.append(equal(stride, distance))
            distance = distance * extent
        found.append((name, conjunction(reversed(row_major))))
    if instruction.faster:
        found.append(("", _condition(instruction, "sizes", instruction.faster, sizes)))
    return tuple(found)


def _condition(instruction: Instruction, what: str, text: str, known: set[Size]) -> Predicate:
    try:
        predicate = parse_predicate(text)
    except ATLError as error:
        raise InvalidArgument(
            f"the condition on the {what} of {instruction.name}, {brief(text)}, cannot be read: {error.summary}",
            required="a condition such as 'a1 = 1 ∧ a0 >= k'",
        ) from None
    for atom in atoms_of(predicate):
        if isinstance(atom, Size) and atom not in known:
            raise InvalidArgument(
                f"the condition on the {what} of {instruction.name} contains {atom.name}",
                required=f"a condition on {', '.join(sorted(each.name for each in known))}",
            )
    return predicate


def _in_order(shape: tuple[Index, ...]) -> Reindexing:
    """Return row-major storage."""
    return Reindexing(shape, shape, lambda *at: at, lambda *at: at)


def _extents(places: tuple[Index, ...]) -> str:
    return f"[{', '.join(map(str, places))}]"
