"""Comparison of C text with its program: runs of the text at chosen sizes, over polynomials in the input elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from math import prod
from operator import mul
from random import Random
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.dtypes import BOOL, DEFAULT, TYPES, is_float, is_integer
from atl.core.index import Array, Index, Leaf, Read, Size, atoms, constant, value_at, value_of
from atl.core.predicate import holds
from atl.core.program import Program
from atl.core.terms import Cast, Reduce
from atl.core.traversal import indices_in, subterms
from atl.errors import ATLError, InvalidArgument, NotInSubset, TextDiffers, brief
from atl.meaning.arguments import bind, checked_size, index_elements
from atl.meaning.interpret import PAD, denote
from atl.meaning.polynomials import symbol
from atl.meaning.scalars import Machine as MachineNumbers
from atl.meaning.scalars import Scalars
from lowering.timing.inputs import random_inputs
from lowering.validation.code import STEPS
from lowering.validation.domains import Residues, TextPolynomials, TextTerms, TooManyTerms
from lowering.validation.errors import ElementBranch, TextTrap
from lowering.validation.interface import Branch, Domain, Interface, Validation
from lowering.validation.machine import Machine
from lowering.validation.memory import UNSET, ZERO, Address, Block, Heap
from lowering.validation.types import NUMBERS
from lowering.validation.values import HALVES, Special, Symbol, Values

AnyArray: TypeAlias = npt.NDArray[Any]

SMALLEST_RUNS: Final = 7
"""Number of choices of small sizes that are always tried."""
MOST_LARGE: Final = 3
"""Maximum number of sizes that are tried above the constants of the text, one at a time, while the others are small."""
MOST_RUNS: Final = 20
"""Most runs of one validation."""
WORK: Final = 20_000
"""Number of iterations of the text in all runs, after which no more sizes are tried."""
DRAWS: Final = 2
"""Number of orders of the elements over residues and free terms."""
MOST_TOO_LARGE: Final = 6
"""Number of choices of sizes that may be too large for polynomials or take too many steps."""
MOST_ELEMENTS: Final = 1_500
"""Largest number of elements of an array for sizes that are chosen, if assumptions do not require more."""
MOST_NEEDED: Final = 20_000
"""Largest number of elements of an array that assumptions may require."""
ATTEMPTS: Final = 80
"""Number of choices of sizes, also of those that the program's assumptions exclude."""
FAILURES: Final = 12
"""Most allocations that are made to fail, one after the other, at one choice of sizes."""


def validate(
    of: Interface, sizes: Sequence[Mapping[str, int]] | None = None, *, domain: Domain | None = None
) -> Validation:
    """Execute C text and compare each result with the program's. Raises `TextDiffers` and `NotInSubset`.

    Without `sizes`, they are chosen: small ones, and ones next to the constants of the text, until all branches ran.
    """
    if sizes is not None and not (isinstance(sizes, Sequence) and all(isinstance(each, Mapping) for each in sizes)):
        raise InvalidArgument(f"sizes={brief(sizes)}", required='a list of sizes, such as [{"n": 3}, {"n": 17}]')
    if domain is None and of.strict:
        domain = "free terms"
    if domain == "free terms":
        _check_free_terms(of.program)
    if domain is not None:
        return _in_steps(of, sizes, domain)
    try:
        return _validated(of, sizes, "polynomials")
    except (ElementBranch, TooManyTerms, TextTrap):
        return _in_steps(of, sizes, "residues")


def _check_free_terms(program: Program) -> None:
    """Raise `NotInSubset` for operations that C texts compute in several steps, so that their free terms differ."""
    several: str | None = None
    for e in subterms(program.whole.body):
        if isinstance(e, Cast):
            types = {e.dtype, e.operand.type.dtype}
            if types & {*HALVES} and not types <= {*HALVES, "float32"}:
                several = f"a conversion of {e.operand.type.dtype} to {e.dtype}"
        elif isinstance(e, Reduce) and e.monoid in ("max", "min") and is_integer(e.type.dtype or DEFAULT):
            several = f"a {e.monoid} of integers, which starts with a limit of their type"
    if several is not None:
        raise NotInSubset(
            several,
            required="strict text, each of whose operations is one of the program",
            suggestions=("validate a kernel of this program that is not strict",),
        )


def _in_steps(of: Interface, sizes: Sequence[Mapping[str, int]] | None, domain: Domain) -> Validation:
    try:
        return _validated(of, sizes, domain)
    except TextTrap as trap:
        raise NotInSubset(str(trap), required="smaller sizes") from None


def _validated(of: Interface, sizes: Sequence[Mapping[str, int]] | None, domain: Domain) -> Validation:
    ran: list[dict[str, int]] = []
    skipped: list[dict[str, int]] = []
    too_large: TextTrap | TooManyTerms | None = None
    covered: set[Branch] = set()
    branches: set[Branch] = set()
    failed = 0
    draws = 1 if domain == "polynomials" else DRAWS
    executions = [Execution(of, domain_of(domain, draw)) for draw in range(draws)]
    work = 0
    most = None if sizes is not None else _most_elements(of.program)
    for number, chosen in enumerate(_choices(of) if sizes is None else sizes):
        if sizes is None and (len(ran) >= MOST_RUNS or number >= ATTEMPTS or work > WORK):
            break
        if sizes is not None:
            chosen = _checked_sizes(of.program, chosen)  # noqa: PLW2901
        concrete = arguments(of, chosen, number, most)
        if concrete is None:
            if sizes is not None:
                raise InvalidArgument(f"sizes={dict(chosen)}", required="sizes that the program's assumptions allow")
            continue
        try:
            for execution in executions:
                execution.machine.covered.clear()
                execution.compare(chosen, concrete)
        except (TextTrap, TooManyTerms) as error:  # too many steps, or too large polynomials
            too_large = error
            skipped.append(dict(chosen))
            if sizes is not None or len(skipped) > MOST_TOO_LARGE:
                raise
            continue
        for execution in executions:
            work += execution.machine_steps
            failed += execution.fail(chosen, concrete) if execution is executions[0] else 0
            covered |= execution.machine.covered
            branches |= execution.machine.branches
        ran.append(dict(chosen))
        if sizes is None and covered == branches and number + 1 >= SMALLEST_RUNS + min(len(of.sizes), MOST_LARGE):
            break
    if not ran:
        if too_large is not None:
            raise too_large
        raise InvalidArgument(
            f"{of.program.name} was executed at no sizes",
            required="at least one choice of sizes that the program's assumptions allow",
            suggestions=(f"kernel.validate([{{{', '.join(f'{name!r}: …' for name in of.program.sizes)}}}])",),
        )
    assumed = tuple(sorted({*of.calls, *(name for execution in executions for name in execution.machine.used)}))
    return Validation(
        of.name, domain, tuple(ran), frozenset(covered), frozenset(branches), failed, assumed, of.calls, tuple(skipped)
    )


def domain_of(domain: Domain, draw: int = 0) -> Scalars[Any]:
    """Return a new domain of elements."""
    match domain:
        case "polynomials":
            return TextPolynomials()
        case "residues":
            return Residues(draw)
        case "free terms":
            return TextTerms(draw)


# -- sizes and arrays -------------------------------------------------------------------------------------------------


def _checked_sizes(program: Program, chosen: Mapping[str, int]) -> dict[str, int]:
    """Return numbers for the sizes of a program. Raises an error unless there is one for each, and no others."""
    if set(chosen) != set(program.sizes):
        names = ", ".join(program.sizes)
        raise InvalidArgument(
            f"sizes={brief(dict(chosen))}",
            required=f"a number for each of {names}, and no others" if names else "no sizes: all of them are fixed",
        )
    return {name: checked_size(program, name, value) for name, value in chosen.items()}


def _least(program: Program) -> dict[str, int]:
    """Return for each size a small number that the assumptions about it alone allow; 0 if none is found."""

    def allowed(name: str, value: int) -> bool:
        def only(leaf: Leaf | Array) -> int:
            if not isinstance(leaf, Size) or leaf.name != name:
                raise LookupError
            return value

        for assumption in program.assumptions:
            with suppress(LookupError):
                if not holds(assumption, only, lambda array, _: only(array)):
                    return False
        return True

    least = {}
    for name in program.sizes:
        low, high = -1, next((at for at in (0, *(1 << bit for bit in range(31))) if allowed(name, at)), 0)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if allowed(name, middle) else (middle, high)
        least[name] = high
    return least


def _most_elements(program: Program) -> int:
    """Return the largest number of elements of an array for sizes that are chosen."""
    least = _least(program)
    needed = [value_at(count, least) for count in _counts(program)]
    return max((MOST_ELEMENTS, *(2 * each for each in needed if each <= MOST_NEEDED)))


def _choices(of: Interface) -> Iterator[dict[str, int]]:
    """Yield choices of sizes, none below the least that is allowed."""
    least = _least(of.program)
    for chosen in _drawn(of):
        low = {name: least.get(name, 0) for name in chosen}
        yield {name: value if value >= low[name] else low[name] + value for name, value in chosen.items()}


def _drawn(of: Interface) -> Iterator[dict[str, int]]:
    """Yield choices of sizes: small ones first, then ones next to the constants of the text."""
    names = of.sizes
    if not names:
        yield {}
        return
    for size in (3, 2, 1, 0):
        yield dict.fromkeys(names, size)
    for number in range(3):
        yield {name: (2, 5, 3, 4, 1, 6)[(at + number) % 6] for at, name in enumerate(names)}
    random = Random(f"sizes of {of.name}")
    constants = sorted({value for value in _constants(of.text) if 1 < value <= 300})
    large = max((c for c in constants if c <= 64), default=8) + 1
    for name in names[:MOST_LARGE]:  # so that a buffer that is too small is found
        yield {**dict.fromkeys(names, 2), name: large}
    near = sorted({c + d for c in constants for d in (-1, 0, 1)} | {2 * c + 1 for c in constants if c <= 64})
    while True:
        few = random.randrange(4)
        chosen = {}
        for name in names:
            if near and random.randrange(len(names) + 1) == few % (len(names) + 1):
                chosen[name] = random.choice(near)
            else:
                chosen[name] = random.randrange(8)
        yield chosen


def _constants(text: str) -> Iterable[int]:
    word = ""
    for letter in text + " ":
        if letter.isalnum() or letter in "._":
            word += letter
            continue
        if word.isdigit():
            yield int(word)
        word = ""


def arguments(
    of: Interface, sizes: Mapping[str, int], seed: int = 0, most: int | None = None
) -> dict[str, AnyArray] | None:
    """Return arrays of these sizes that meet the program's declarations; None if there are none."""
    program = of.program
    try:
        if most is not None and any(value_at(e, sizes) > most for e in _counts(program)):
            return None
        arrays = random_inputs(program, sizes, seed)
        for array in program.inputs:  # integers from -3 to 3 where any are allowed
            if is_integer(array.dtype) and array.low is None and array.high is None and not array.monotonic:
                low = 0 if array.dtype == "uint8" else -3
                drawn = np.random.default_rng(seed + 7).integers(low, 4, arrays[array.name].shape)
                arrays[array.name] = np.asarray(drawn).astype(array.dtype)
        free = {name: sizes[name] for name in program.free_sizes}
        bound = bind(program, (), {**arrays, **free})
    except (ATLError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return None if any(bound.sizes[name] != sizes[name] for name in program.sizes) else bound.arrays


def _counts(program: Program) -> Iterator[Index]:
    """Yield the numbers of elements of the inputs and of the result that depend on sizes alone."""
    for shape in (program.shape, *(array.shape for array in program.inputs)):
        if not any(isinstance(atom, Read) for extent in shape for atom in atoms(extent)):
            yield reduce(mul, shape, constant(1))


def _index_arrays(program: Program) -> frozenset[str]:
    """Return the names of inputs whose elements are used as indices, or that have declared properties."""
    inside = (expression for part in subterms(program.body) for expression in indices_in(part))
    places = (*inside, *program.shape, *(e for array in program.inputs for e in array.shape))
    read = {atom.array.name for expression in places for atom in atoms(expression) if isinstance(atom, Read)}
    declared = {
        array.name
        for array in program.inputs
        if array.dtype != BOOL and (array.low is not None or array.high is not None or array.monotonic)
    }
    return frozenset(read | declared)


def symbolic(program: Program, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Return the arrays with a symbol for each element, except in arrays of indices."""
    indices = _index_arrays(program)
    made = {}
    for name, array in arrays.items():
        if name in indices:
            made[name] = array
            continue
        symbols = np.empty(array.shape, dtype=object)
        for at in np.ndindex(array.shape):
            symbols[at] = symbol(f"{name}[{', '.join(map(str, at))}]" if at else name)
        made[name] = symbols
    return made


# -- runs -------------------------------------------------------------------------------------------------------------


class Execution:
    """Runs of a text over one domain."""

    def __init__(self, of: Interface, scalars: Scalars[Any]) -> None:
        self.of = of
        self.scalars = scalars
        self.values = Values(scalars)
        self.machine = Machine(of.text, self.values, of.known)
        self.machine_steps = 0

    def run(
        self, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray], *, fails: int | None = None
    ) -> tuple[Any, list[Block]]:
        """Call the function; return its result and the blocks of the outputs. Raises `TextTrap`."""
        of, heap = self.of, Heap(fails)
        passed: list[Any] = []
        for array in of.inputs:
            cells = [self._cell(raw, array.dtype) for raw in arrays[array.name].reshape(-1)]
            if not array.shape:
                passed.append(cells[0])
                continue
            passed.append(Address(self._block(heap, array.name, array.dtype, cells, read_only=True)))
        passed += [sizes[name] for name in of.sizes]
        outputs = [
            self._block(heap, name, dtype, [UNSET] * prod(_numbers(shape, sizes, arrays)))
            for name, dtype, shape in _outputs(of)
        ]
        self.machine.steps = STEPS
        status = self.machine.run(of.name, [*passed, *map(Address, outputs)], heap)
        self.machine_steps = STEPS - self.machine.steps
        return status, outputs

    def _block(self, heap: Heap, name: str, dtype: str, cells: list[Any], *, read_only: bool = False) -> Block:
        number = NUMBERS[TYPES[dtype].c]
        block = Block(name, len(cells) * number.size, heap.place(len(cells) * number.size), number)
        block.dtype, block.cells, block.read_only = dtype, cells, read_only
        return block

    def _cell(self, raw: Any, dtype: str) -> Any:
        scalars, values = self.scalars, self.values
        if values.is_machine:
            if dtype in HALVES:
                return int(np.asarray(raw).view(np.uint16))
            return scalars.element(raw, dtype) if is_float(dtype) else int(raw)
        if isinstance(raw, np.generic):
            raw = raw.item()
            if dtype in HALVES:
                return Symbol(scalars.element(raw, dtype), dtype)
            return scalars.element(raw, dtype) if is_float(dtype) else int(raw)
        if isinstance(raw, int):
            return raw
        element = scalars.element(raw, dtype)
        if dtype == BOOL:
            return values.test(element)
        return element if is_float(dtype) and dtype not in HALVES else Symbol(element, dtype)

    def result(self, blocks: Sequence[Block]) -> list[Any]:
        """Return the elements of the outputs in the domain, in the common type. Raises `TextTrap` if one is not set."""
        common = self.of.dtype
        made: list[Any] = []
        for dtype, cell in ((block.dtype, cell) for block in blocks for cell in block.cells):
            if cell is UNSET:
                raise TextTrap("unset", f"element {len(made)} of the result is not written")
            if self.values.is_machine and dtype in HALVES:
                element = np.uint16(0 if cell is ZERO else cell).view(dtype)
            else:
                element = self.values.element(cell, dtype)
            made.append(element if dtype == common else self.scalars.cast(common, dtype, element))
        return made

    def compare(self, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> None:
        """Compare the result of a call with the program's. Raises `TextDiffers`."""
        of = self.of
        elements = symbolic(of.program, arrays)
        if isinstance(self.scalars, TextPolynomials):
            self.scalars.work = 0
        try:
            status, out = self.run(sizes, elements)
            if status != 0:
                raise TextTrap("status", f"the function returns {status}, not 0")
            found = self.result(out)
        except TextTrap as trap:
            if trap.kind == "endless" and trap.iterations <= self._explained(sizes, arrays):
                raise
            raise self._differs(trap.args[0], sizes) from None
        meaning = denote(of.program, sizes, elements, self.scalars)
        zero = self.scalars.constant(0, of.dtype)
        for number, at in enumerate(np.ndindex(meaning.shape)):
            wanted = meaning.at(at)
            wanted = zero if wanted is PAD else wanted
            got = found[number]
            if isinstance(got, Special) or got != wanted:
                place = f"out[{', '.join(map(str, at))}]" if at else "out"
                raise self._differs(f"{place} is {brief(got, 200)}, not {brief(wanted, 200)}", sizes)

    def _explained(self, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> int:
        """Return a number of iterations that no bound of a loop of sizes, indices and constants is likely to exceed."""
        indices = [arrays[name] for name in _index_arrays(self.of.program) if arrays[name].size]
        factors = [1 + size for size in sizes.values()] + [1 + int(np.abs(each).max()) for each in indices]
        return max((1, *_constants(self.of.text))) ** 2 * prod(factors)

    def fail(self, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> int:
        """Let each allocation fail; return their number. Raises `TextDiffers` for leaks and a wrong result."""
        allocations = self.machine.heap.count
        elements = symbolic(self.of.program, arrays)
        for number in range(1, min(allocations, FAILURES) + 1):
            try:
                status, _ = self.run(sizes, elements, fails=number)
                if status == 0:
                    raise TextTrap("status", f"allocation {number} fails, but the function returns 0")
            except TextTrap as trap:
                raise self._differs(f"{trap.args[0]}, if allocation {number} fails", sizes) from None
        return min(allocations, FAILURES)

    def _differs(self, what: str, sizes: Mapping[str, int]) -> TextDiffers:
        return TextDiffers(
            f"the C text of {self.of.name} differs from its program: {what}",
            required="text that computes the program, without invalid accesses",
            numbers=dict(sizes),
            suggestions=("please report this: a kernel is wrong, or its validation",),
        )


def _outputs(of: Interface) -> list[tuple[str, str, tuple[Index, ...]]]:
    """Return the name, element type and shape of each array that a call fills."""
    if not of.own_buffers:
        return [("out", of.dtype, of.program.shape)]
    return [(each.name, each.dtype or of.dtype, each.shape) for each in of.program.results]


def _numbers(shape: tuple[Index, ...], sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> tuple[int, ...]:
    """Return the numbers of a shape in a call."""

    def size(leaf: Leaf) -> int:
        assert isinstance(leaf, Size)
        return sizes[leaf.name]

    return tuple(value_of(extent, size, index_elements(arrays)) for extent in shape)


def executed(of: Interface, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> AnyArray:
    """Run a text on arrays of numbers, each operation rounded to its type; return the result. Raises `TextTrap`."""
    execution = Execution(of, MachineNumbers())
    status, out = execution.run(sizes, arrays)
    if status != 0:
        raise TextTrap("status", f"the function returns {status}, not 0")
    return np.array(execution.result(out), dtype=of.dtype).reshape(_numbers(of.program.shape, sizes, arrays))
