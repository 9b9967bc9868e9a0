"""Tests of an instruction's text against its program, in a child process.

The text is called with all sizes from 1 to 6, some larger ones and the largest allowed, those around numbers in the
text and around powers of two, and with the strides that the declaration allows, from a set of usual and unusual ones.
Each operand lies between pages that cannot be accessed: at the end of its memory, or some elements after the beginning.
Other elements of this memory are NaN, or the largest integer, and must not change. Most elements are small integers, so
results are exact. For each choice of sizes up to 6 there is a call with fractions. Its results must agree to the
precision of the element types, not only to that of float32.

The first of two builds traps undefined behaviour, such as an index beyond a local array.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.dtypes import FLOATS, TYPES, range_of
from atl.core.index import Array, Size, leaf_values, value_at
from atl.core.marks import LetMark
from atl.core.predicate import Predicate, atoms_of, holds
from atl.core.program import Program
from atl.errors import InvalidArgument, brief
from atl.meaning.vectorised import evaluate_fast
from atl.surface.values import as_index
from lowering.builds import build_shared, load
from lowering.c.helpers import preamble
from lowering.c.scalars import C_TYPES
from lowering.c_compiler import find_compiler, predefined_macros
from lowering.calls.processes import in_child
from lowering.core.emulator import At, Core, Issued
from lowering.instructions.instruction import OUT, Instruction, stride_name
from lowering.instructions.libraries import find_library
from lowering.instructions.registry import definition_of
from lowering.instructions.systolic import MEMORIES, CoreMemory

AnyArray = npt.NDArray[Any]

_ALL_STRIDES: Final = 3
"""Largest size for which all combinations of strides are tested."""
_MORE: Final = (7, 16, 33, 130)
"""Further sizes, one at a time."""
_SINGLE: Final = (8, 32, 64, 100, 128, 256, 512, 1000, 1024, 2048, 4096, 10_000)
"""Further sizes that are tested with few strides, besides those in the text."""
_SINGLE_ELEMENTS: Final = 100_000
"""Maximum product of such sizes."""
_SINGLE_CASES: Final = 200
"""Maximum number of choices of such sizes."""
_LIMIT: Final = 300
"""Largest size that is tested because the declaration limits a size to it."""
_SEARCHED: Final = 4096
"""Largest size that is tried if the declaration allows none of the usual sizes."""
_FEW: Final = 10**7
"""Maximum product of such sizes."""
_SEARCHED_CASES: Final = 8
"""Maximum number of choices of such sizes."""
_PAGE: Final = mmap.PAGESIZE
_TRAPS: Final = ("-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check: the number of calls, and the first fault that was found, if any."""

    name: str
    calls: int
    fault: str = ""

    def __str__(self) -> str:
        if self.fault:
            return f"{self.name}: {self.fault}"
        return f"{self.name}: {self.calls} calls agree with the program"


def check_instruction(instruction: Instruction, *, largest: int = 6) -> Checked:
    """Compare the text of an instruction of CPUs with its program, in a child process.

    For an instruction of the systolic core, the function that emulates it is compared, without a child process.
    All sizes up to `largest` are tested; if the declaration allows none of them, larger ones. Raises `InvalidArgument`
    for an instruction that this machine cannot run, and if no sizes or strides are found that the declaration allows;
    `LibraryMissing`, and `CompilerFailed` with the message of the compiler.

    >>> import atl
    >>> own = atl.Instruction(
    ...     "copy",
    ...     atl.parse("copy (x : float32[n]) : float32[n] := ⊞[i < n] x[i]"),
    ...     "c",
    ...     "static void copy(float *out, const float *x, int64_t n) { for (int i = 0; i <= n; i++) out[i] = x[i]; }",
    ...     result="stored",
    ... )
    >>> print(check_instruction(own))
    copy: accesses memory beyond an operand or traps (signal 11) for n = 1
    """
    if not isinstance(instruction, Instruction):
        raise InvalidArgument(f"{brief(instruction)} is not an instruction", required="an atl.Instruction")
    if instruction.target == "cuda":
        raise InvalidArgument(
            f"{instruction.name} is for {instruction.target}",
            required="an instruction for the target 'c' or 'systolic'",
        )
    if not isinstance(largest, int) or isinstance(largest, bool) or largest < 1:
        raise InvalidArgument(f"largest={brief(largest)}", required="a size, 1 or more: largest=6")
    if instruction.target == "systolic":
        return _checked(instruction, emulated(instruction, largest))
    macros = predefined_macros(find_compiler())
    for feature in instruction.requires:
        if f"__{feature.upper()}__" not in macros:
            raise InvalidArgument(f"{instruction.name} requires {feature}", required="a processor that has it")
    # Undefined behaviour is found first: what a build without traps does then depends on the compiler and its flags.
    trapping = _checked(instruction, _in_child(instruction, _build(instruction, _TRAPS), largest))
    if trapping.fault:
        return trapping
    plain = _in_child(instruction, _build(instruction, ()), largest)
    return Checked(instruction.name, trapping.calls + plain.calls, plain.fault)


def _checked(instruction: Instruction, found: Checked) -> Checked:
    if found.calls or found.fault:
        return found
    raise InvalidArgument(
        f"no sizes up to {_SEARCHED} with strides were found that the declaration of {instruction.name} allows",
        required=f"conditions on sizes and strides that hold together for a product of sizes up to {_FEW}",
    )


def _in_child(instruction: Instruction, build: Path, largest: int) -> Checked:
    """Run all cases with one build in a forked process. Shared memory says which case it was running if it ends."""
    described = mmap.mmap(-1, _PAGE)
    answer, status = in_child(lambda: _run(instruction, build, described, largest))
    case = described[:].split(b"\0", 1)[0].decode()
    described.close()
    if status or not answer:  # the text may end the process with status 0
        ended = f"accesses memory beyond an operand or traps (signal {-status})" if status < 0 else "ends the process"
        return Checked(instruction.name, 0, f"{ended} for {case}")
    calls, _, fault = answer.partition(" ")
    return Checked(instruction.name, int(calls), fault)


_DECLARED: Final = "void atl_checked(void **at, const int64_t *number);"


def _build(instruction: Instruction, flags: Sequence[str]) -> Path:
    """Build the text with a function that calls it with arrays of pointers and of numbers."""
    arguments, number = [], 0
    names = (OUT, *(array.name for array in instruction.program.inputs))
    dtypes = (instruction.program.dtype, *(array.dtype for array in instruction.program.inputs))
    ranks = _ranks(instruction)
    for at, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        arguments.append(f"({'const ' if at else ''}{C_TYPES[dtype]} *)at[{at}]")
        if name in instruction.strides:
            arguments += [f"number[{number + k}]" for k in range(ranks[name])]
            number += ranks[name]
    count = len(instruction.program.sizes) + instruction.adds_on_request
    arguments += [f"number[{number + k}]" for k in range(count)]
    unused = "" if number + count else "    (void)number;\n"
    code = (
        f"{_DECLARED}\nvoid atl_checked(void **at, const int64_t *number)\n{{\n{unused}    {instruction.name}"
        f"({', '.join(arguments)});\n}}\n"
    )
    libraries = [find_library(each) for each in instruction.libraries]
    return build_shared(
        f"{preamble(code, [definition_of(instruction)])}\n{code}",
        name="checked",
        compiler=find_compiler(),
        extra_flags=(*(flag for each in libraries for flag in each.compile_flags), *flags),
        link_flags=flags,
        libraries=tuple(argument for each in libraries for argument in each.link_arguments),
    )


def _ranks(instruction: Instruction) -> dict[str, int]:
    program = instruction.program
    return {OUT: len(program.body.type.shape), **{array.name: len(array.shape) for array in program.inputs}}


# -- memory -----------------------------------------------------------------------------------------------------------


class _Arena:
    """Memory between two pages that cannot be accessed."""

    def __init__(self, size: int) -> None:
        pages = -(-size // _PAGE)
        self._map = mmap.mmap(-1, (pages + 2) * _PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + _PAGE
        self.bytes = pages * _PAGE
        for guard in (self.start - _PAGE, self.start + self.bytes):
            if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(_PAGE), 0) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")
        self.view = np.frombuffer(self._map, np.uint8, self.bytes, _PAGE)


_ARENAS: Final[dict[tuple[int, int], _Arena]] = {}


def _arena(operand: int, size: int) -> _Arena:
    key = operand, -(-max(size, 1) // _PAGE)
    if key not in _ARENAS:
        _ARENAS[key] = _Arena(max(size, 1))
    return _ARENAS[key]


# -- cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand: its element type, and an array of its shape with the addresses of its elements, counted from 0."""

    name: str
    dtype: np.dtype[Any]
    addresses: AnyArray
    strides: tuple[int, ...]
    first: int
    """The address of the element whose indices are 0."""


@dataclass(frozen=True, slots=True)
class _Case:
    sizes: Mapping[str, int]
    operands: tuple[_Operand, ...]
    adds: bool
    offset: int
    """Number of elements between the beginning of the memory and the operand, or -1 for an operand at its end."""
    fractions: bool = False
    """True if elements are fractions, so that operations round."""

    def __str__(self) -> str:
        strides = [
            f"{stride_name(each.name, at)} = {stride}"
            for each in self.operands
            for at, stride in enumerate(each.strides)
        ]
        where = "" if self.offset < 0 else f", operands {self.offset} elements after the beginning of their memory"
        numbers = ", ".join((*(f"{size} = {value}" for size, value in self.sizes.items()), *strides))
        elements = ", elements that are fractions" if self.fractions else ""
        return (numbers or "its only size") + (", add = 1" if self.adds else "") + where + elements


def _sizes(instruction: Instruction, largest: int) -> Iterator[dict[str, int]]:
    """Yield the sizes of the tests that the declaration allows."""
    names = instruction.program.sizes
    limits = {name: _largest_allowed(instruction, name) for name in names}
    more = [
        {**dict.fromkeys(names, small), name: size}
        for name in names
        for small in (1, 5)
        for size in (*_MORE, limits[name], limits[name] - 1)
    ]
    all_large = [dict.fromkeys(names, size) for size in (16, 33)] if names else []
    small = (dict(zip(names, each, strict=True)) for each in product(range(1, largest + 1), repeat=len(names)))
    # With four sizes or more, 6 to the power of their number is too large.
    kept = small if len(names) <= 3 else (each for each in small if sum(each.values()) % 5 == 0)
    found = False
    for sizes in (*kept, *more, *all_large):
        if min(sizes.values(), default=1) >= 1 and _allowed(instruction, sizes):
            found = True
            yield sizes
    if not found:
        yield from _larger_sizes(instruction)


def _single_sizes(instruction: Instruction) -> Iterator[dict[str, int]]:
    """Yield sizes with which a text may do something else: numbers in the text, those around them, and large ones."""
    names = instruction.program.sizes
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", instruction.text, flags=re.DOTALL)
    literal = r"(?<![\w.])(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)[uUlL]*(?![\w.])"
    octal = re.compile(r"0(?=[0-9])")
    stated = {int(octal.sub("0o", each) if octal.match(each) else each, 0) for each in re.findall(literal, text)}
    around = (number + by for number in sorted(stated) for by in (0, 1, -1))
    # First the numbers of the text, so that they are within the budget.
    values = dict.fromkeys((*around, *(number + by for number in _SINGLE for by in (0, 1, -1))))
    choices = ({**dict.fromkeys(names, others), name: value} for value in values for others in (1, 3) for name in names)
    together = (dict.fromkeys(names, value) for value in values) if len(names) > 1 else ()
    seen: set[tuple[int, ...]] = set()
    for sizes in (*choices, *together):
        key = tuple(sizes.values())
        if len(seen) >= _SINGLE_CASES:
            return
        if min(key) < 1 or prod(key) > _SINGLE_ELEMENTS or key in seen or not _allowed(instruction, sizes):
            continue
        seen.add(key)
        yield sizes


def _larger_sizes(instruction: Instruction) -> list[dict[str, int]]:
    """Return some of the smallest sizes that the declaration allows, the smallest product first."""
    names, assumptions = instruction.program.sizes, instruction.program.assumptions
    by_name: list[list[int]] = []
    for name in names:
        alone = [
            each for each in assumptions if {atom for atom in atoms_of(each) if isinstance(atom, Size)} == {Size(name)}
        ]
        allowed = (size for size in range(1, _SEARCHED + 1) if _all_hold(alone, {name: size}))
        by_name.append(list(islice(allowed, _SEARCHED if len(names) == 1 else 24)))
    choices = (dict(zip(names, each, strict=True)) for each in islice(product(*by_name), 20_000))
    allowed_together = [each for each in choices if prod(each.values()) <= _FEW and _all_hold(assumptions, each)]
    return sorted(allowed_together, key=lambda each: prod(each.values()))[:_SEARCHED_CASES]


def _largest_allowed(instruction: Instruction, name: str) -> int:
    """Return the largest size that the declaration allows while other sizes are 1, at most `_LIMIT`."""
    ones = dict.fromkeys(instruction.program.sizes, 1)
    allowed = [size for size in range(1, _LIMIT) if _allowed(instruction, {**ones, name: size})]
    return allowed[-1] if allowed and allowed[-1] < _LIMIT - 1 else 200


def _allowed(instruction: Instruction, sizes: Mapping[str, int]) -> bool:
    return _all_hold(instruction.program.assumptions, sizes)


def _all_hold(conditions: Sequence[Predicate], sizes: Mapping[str, int]) -> bool:
    return all(holds(each, leaf_values(sizes), _no_element) for each in conditions)


def _no_element(_array: Array, _at: tuple[int, ...]) -> int:
    raise AssertionError("conditions of instructions contain no elements")


def _strides(
    instruction: Instruction, name: str, shape: tuple[int, ...], sizes: Mapping[str, int]
) -> list[tuple[int, ...]]:
    """Return strides of an operand that the declaration allows: in any order of its dimensions, with gaps, negative."""
    if name not in instruction.strides:
        return [tuple(prod(shape[at + 1 :]) for at in range(len(shape)))]
    condition = next(each for of, each in instruction.requirements if of == name)
    found: dict[tuple[int, ...], None] = {}
    for order in permutations(range(len(shape))):
        for unit, gap in product((1, 2, -1, 0), (0, 1, 3, -1) if len(shape) < 3 else (0, 1)):
            strides, distance = [0] * len(shape), unit
            for at in reversed(order):
                strides[at] = distance
                distance = distance * shape[at] + gap
            found[tuple(strides)] = None
    # One dimension of which all elements are the same, or that runs backwards.
    changed = [
        tuple(stride * factor if at == one else stride for at, stride in enumerate(each))
        for factor in (0, -1)
        for each in found
        for one in range(len(shape))
    ]

    def is_allowed(strides: tuple[int, ...]) -> bool:
        values = {**sizes, **{stride_name(name, at): stride for at, stride in enumerate(strides)}}
        if not holds(condition, lambda leaf: values[leaf.name] if isinstance(leaf, Size) else 0, _no_element):
            return False
        return name != OUT or len(np.unique(_addresses(shape, strides))) == prod(shape)

    return [each for each in dict.fromkeys((*found, *changed)) if is_allowed(each)]


def _addresses(shape: tuple[int, ...], strides: tuple[int, ...]) -> AnyArray:
    addresses = np.zeros((), np.int64)
    for extent, stride in zip(shape, strides, strict=True):
        addresses = np.add.outer(addresses, stride * np.arange(extent))
    return addresses


def _stored(instruction: Instruction, name: str, shape: tuple[int, ...]) -> AnyArray:
    """Return the addresses of the elements of an operand in a declared layout of constant size."""
    reindexing = instruction.form.stored[name]
    places = [value_at(extent, {}) for extent in reindexing.places]
    addresses = np.zeros(shape, np.int64)
    for at in np.ndindex(*shape):
        position = [value_at(as_index(each), {}) for each in reindexing.to(*at)]
        addresses[at] = np.ravel_multi_index(position, places) if places else 0
    return addresses


def _cases(instruction: Instruction, largest: int) -> Iterator[_Case]:
    program = instruction.program
    shapes = {OUT: program.body.type.shape, **{array.name: array.shape for array in program.inputs}}
    dtypes = {OUT: program.dtype, **{array.name: array.dtype for array in program.inputs}}
    has_sum = instruction.form.sum is not None
    turn = 0
    both = {"either": (False, True), "added": (True,), "stored": (False,)}[instruction.result if has_sum else "stored"]
    usual = ((sizes, 16) for sizes in _sizes(instruction, largest))
    single = ((sizes, 1) for sizes in (_single_sizes(instruction) if program.sizes else ()))
    for sizes, most in (*usual, *single):
        choices: list[list[_Operand]] = []
        for name, extents in shapes.items():
            shape = tuple(value_at(extent, sizes) for extent in extents)
            given = [()] if name in instruction.stored else _strides(instruction, name, shape, sizes)
            made: list[_Operand] = []
            for strides in given:
                stored = name in instruction.stored
                at = _stored(instruction, name, shape) if stored else _addresses(shape, strides)
                passed = strides if name in instruction.strides else ()
                made.append(_Operand(name, np.dtype(dtypes[name]), at - at.min(), passed, int(-at.min())))
            choices.append(made)
        if not all(choices):
            continue
        if most > 1 and max(sizes.values(), default=1) <= _ALL_STRIDES and len(sizes) <= 3:
            combined: Iterator[tuple[_Operand, ...]] = islice(product(*choices), 400)
        else:
            # In turns, so that each of them is tested with some sizes.
            turns = range(turn, turn + min(max(map(len, choices)), most))
            combined = (tuple(each[(k + at) % len(each)] for at, each in enumerate(choices)) for k in turns)
            turn += len(turns)
        for number, operands in enumerate(combined):
            for adds in both:
                yield _Case(sizes, operands, adds, -1 if number % 2 == 0 else number // 2 % 4)
                if len(choices[0]) * len(choices[-1]) == 1:
                    yield _Case(sizes, operands, adds, 0)
        if most > 1 and any(TYPES[dtype].kind == "float" for dtype in dtypes.values()):
            yield _Case(sizes, tuple(each[0] for each in choices), both[0], -1, fractions=True)


# -- instructions of the systolic core --------------------------------------------------------------------------------


def emulated(instruction: Instruction, largest: int, execute: Callable[[Core, Issued], None] = Core.execute) -> Checked:
    """Execute an instruction of the core in all cases. Elements around its operands must not change."""
    program, calls = _Program(instruction.program), 0
    for case in _cases(instruction, largest):
        memories = _memories(instruction, case)
        if all(memory.partitions <= MEMORIES[mark].partitions for mark, memory in memories.items()):
            calls += 1
            if fault := _executed(instruction, case, program, memories, execute):
                return Checked(instruction.name, calls, f"{fault} for {case}")
    return Checked(instruction.name, calls)


def _memories(instruction: Instruction, case: _Case) -> dict[LetMark, CoreMemory]:
    """Return memories in which the operands have different rows and columns, with elements between them."""
    found: dict[LetMark, CoreMemory] = {}
    for number, operand in enumerate(case.operands):
        mark, shape = instruction.memory(operand.name), operand.addresses.shape
        if mark is not None:
            known = found.get(mark, CoreMemory(0, 1))
            rows = _first_partition(number, shape) + shape[0]
            found[mark] = CoreMemory(max(known.partitions, rows), known.elements + shape[1] + 1)
    return found


def _first_partition(number: int, shape: tuple[int, ...]) -> int:
    """Return the first partition of an operand: that of its number, or one at which it fits in the memory."""
    return max(0, min(number, MEMORIES[LetMark.SCRATCHPAD].partitions - shape[0]))


def _executed(
    instruction: Instruction,
    case: _Case,
    program: _Program,
    memories: Mapping[LetMark, CoreMemory],
    execute: Callable[[Core, Issued], None],
) -> str:
    """Execute the instruction once, and return the fault, if any."""
    given = program.inputs(case.sizes, fractions=case.fractions)
    main: dict[str, AnyArray] = {}
    core = Core(main, memories, {instruction.name: instruction})
    operands, views, free = list[At](), list[AnyArray](), dict.fromkeys(memories, 1)
    for number, operand in enumerate(case.operands):
        mark, shape = instruction.memory(operand.name), operand.addresses.shape
        if mark is not None:
            at = At(operand.name, mark, _first_partition(number, shape), free[mark])
            free[mark] += shape[1] + 1
        else:
            main[operand.name] = np.full(int(operand.addresses.max()) + 6, _sentinel(operand.dtype), operand.dtype)
            strides = operand.strides or tuple(prod(shape[at + 1 :]) for at in range(len(shape)))
            at = At(operand.name, None, address=operand.first + 3, strides=strides)
        operands.append(at)
        views.append(core.view(at, shape))
        if operand.name != OUT or case.adds:
            views[-1][...] = 3 if operand.name == OUT else given[operand.name]
    everything = [*core.memories.values(), *main.values()]
    before = [each.copy() for each in everything]
    try:
        execute(core, Issued(instruction.name, tuple(operands), tuple(case.sizes.values())))
    except Exception as error:  # noqa: BLE001 (of the user's function)
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    result = program.result(case.sizes, {each.name: view for each, view in zip(operands[1:], views[1:], strict=True)})
    if fault := _wrong_element(views[0], result, case, program):
        return fault
    views[0][...] = 3 if case.adds else _sentinel(views[0].dtype)
    if not all(_same(*pair) for pair in zip(everything, before, strict=True)):
        return "elements that are not part of the result change"
    return ""


# -- runs -------------------------------------------------------------------------------------------------------------


def _run(instruction: Instruction, build: Path, described: mmap.mmap, largest: int) -> str:
    """Run all cases; return the number of calls, a space, and the first fault, if any."""
    program, calls = _Program(instruction.program), 0
    ffi, library = load(build, _DECLARED)
    for case in _cases(instruction, largest):
        text = str(case).encode()[: _PAGE - 1]
        described[: len(text) + 1] = text + b"\0"
        fault = _called(instruction, ffi, library.atl_checked, case, program)
        calls += 1
        if fault:
            return f"{calls} {fault} for {case}"
    return f"{calls} "


class _Program:
    """The program of an instruction, with random inputs for the last sizes."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: tuple[tuple[Mapping[str, int], bool], dict[str, AnyArray], AnyArray] | None = None

    def inputs(self, sizes: Mapping[str, int], *, fractions: bool) -> dict[str, AnyArray]:
        """Return small integers as inputs, or numbers from 1 to 2, whose sums of products do not cancel."""
        key = sizes, fractions
        if self._known is None or self._known[0] != key:
            random = np.random.default_rng(sum(sizes.values()))
            inputs: dict[str, AnyArray] = {}
            for array in self._program.inputs:
                shape = [value_at(extent, sizes) for extent in array.shape]
                if fractions and TYPES[array.dtype].kind == "float":
                    inputs[array.name] = random.uniform(1, 2, shape).astype(array.dtype)
                else:
                    low = 0 if array.dtype.startswith("u") else -4
                    inputs[array.name] = random.integers(low, 5, shape).astype(array.dtype)
            self._known = key, inputs, self.result(sizes, inputs)
        return self._known[1]

    def result(self, sizes: Mapping[str, int], inputs: Mapping[str, AnyArray]) -> AnyArray:
        """Return the result for these inputs."""
        if (
            self._known is not None
            and self._known[0][0] == sizes
            and all(np.array_equal(inputs[name], known) for name, known in self._known[1].items())
        ):
            return self._known[2]
        shapes = [extent.atom for array in self._program.inputs for extent in array.shape]
        others = {size: sizes[size] for size in self._program.sizes if Size(size) not in shapes}
        return np.asarray(evaluate_fast(self._program, **inputs, **others))

    @property
    def precision(self) -> float:
        """The relative error that is allowed for fractions: some hundred roundings, or two to a half type."""
        types = [TYPES[each] for each in (self._program.dtype, *(array.dtype for array in self._program.inputs))]
        least = min(each.bits for each in types if each.kind == "float")
        return {64: 1e-10, 32: 1e-4, 16: 1e-2}[least]


def _called(instruction: Instruction, ffi: Any, function: Callable[..., None], case: _Case, program: _Program) -> str:
    """Call the text once, and return the fault, if any."""
    given = program.inputs(case.sizes, fractions=case.fractions)
    read: dict[str, AnyArray] = {}
    pointers: list[Any] = []
    arenas: list[_Arena] = []
    wholes: list[AnyArray] = []
    for number, operand in enumerate(case.operands):
        size, count = operand.dtype.itemsize, int(operand.addresses.max()) + 1
        arena = _arena(number, (count + max(case.offset, 0)) * size)
        aligned = max(instruction.aligned.get(operand.name, 1), size)
        first = operand.first * size  # the pointer, which is that of the first element, is aligned
        begin = (case.offset * size + first + aligned - 1) // aligned * aligned - first
        if case.offset < 0 or begin + count * size > arena.bytes:
            begin = (arena.bytes - count * size + first) // aligned * aligned - first
        arena.view[:] = 0xFF
        whole = arena.view[begin : begin + count * size].view(operand.dtype)
        whole[:] = _sentinel(operand.dtype)
        if operand.name != OUT:
            whole[operand.addresses] = given[operand.name]
            read[operand.name] = whole[operand.addresses]  # different for elements at one address
        elif case.adds:
            whole[operand.addresses] = 3
        pointers.append(ffi.cast("void *", arena.start + begin + first))
        arenas.append(arena)
        wholes.append(whole)
    numbers = [stride for operand in case.operands for stride in operand.strides]
    numbers += [case.sizes[size] for size in instruction.program.sizes]
    if instruction.adds_on_request:
        numbers.append(int(case.adds))
    before = [arena.view.copy() for arena in arenas]
    function(ffi.new("void *[]", pointers), ffi.new("int64_t[]", numbers or [0]))
    out = case.operands[0]
    found, result = wholes[0][out.addresses], program.result(case.sizes, read)
    if fault := _wrong_element(found, result, case, program):
        return fault
    wholes[0][out.addresses] = 3 if case.adds else _sentinel(out.dtype)
    for number, operand in enumerate(case.operands):
        if not np.array_equal(arenas[number].view, before[number]):
            what = "memory around the elements of the result" if number == 0 else f"the operand {operand.name}"
            return f"the text changes {what}"
    return ""


def _wrong_element(found: AnyArray, result: AnyArray, case: _Case, program: _Program) -> str:
    """Return which element differs from the result, which is added to 3 if the case adds; "" if all agree."""
    wanted = (result + result.dtype.type(3)).astype(found.dtype) if case.adds else result
    error = program.precision if case.fractions else 1e-4
    if _equal(found, wanted, error):
        return ""
    at = next(at for at in np.ndindex(*found.shape) if not _equal(found[at], wanted[at], error))
    element = f"out[{', '.join(map(str, at))}]" if at else "out"
    return f"{element} is {found[at]}, and the program gives {wanted[at]},"


def _same(found: AnyArray, before: AnyArray) -> bool:
    return np.array_equal(found, before, equal_nan=found.dtype.kind == "f")


def _sentinel(dtype: np.dtype[Any]) -> Any:
    name = dtype.name
    return np.nan if name in FLOATS else range_of(name)[1]


def _equal(found: AnyArray, wanted: AnyArray, error: float) -> bool:
    if found.dtype.kind in "iu":
        return bool(np.array_equal(found, wanted))
    return bool(np.allclose(found.astype("float64"), wanted.astype("float64"), rtol=error, atol=error))
