"""Matching: the operands of an instruction in a loop nest, or the reason why the nest is not that of the instruction.

The nest around a marked sum is compared with the declared one. The loops that the result runs over correspond in order:
first the lanes, then the loops directly around the sum. Each operand must be at its declared location, in a buffer from
some address on. This is an equation of indices for the prover, for all iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import assert_never

from atl.core.index import ZERO, Index, Leaf, Var, constant, floordiv, index, map_leaves
from atl.core.marks import CallMark, LoopMark
from atl.core.predicate import Predicate, equal
from atl.errors import IllegalMark
from atl.prove import Facts, Proved, Refuted, prove, proves, simplify
from atl.surface.values import as_index
from lowering.instructions.instruction import OUT, Instruction
from lowering.nest import loopnest as ln
from lowering.nest.loopnest import flat
from lowering.targets.legality import place_of


@dataclass(frozen=True, slots=True)
class Nest:
    """A nest to be matched: `target` += the sum over the loop `sum` of `term`, within `loops`, lanes first."""

    loops: tuple[ln.For, ...]
    sum: ln.For | None
    term: ln.ScalarExpr
    target: ln.Cell
    facts: Facts

    @property
    def all_loops(self) -> tuple[ln.For, ...]:
        """The loops, with that of the sum, if any, at the end."""
        return self.loops if self.sum is None else (*self.loops, self.sum)


class Mismatch(Exception):
    """The difference between a nest and that of an instruction, what is required, and numbers that show it."""

    def __init__(
        self,
        summary: str,
        required: str,
        numbers: Mapping[str, int] | None = None,
        *,
        suggestions: tuple[str, ...] = (),
    ) -> None:
        super().__init__(summary, required, numbers)
        self.summary = summary
        self.required = required
        self.numbers = numbers
        self.suggestions = suggestions


Locate = Callable[[str, ln.Cell], tuple[Index, ...]]
"""The location of a named operand's cell: the lanes of its thread and an address in registers, or one in memory."""


def operands_of(instruction: Instruction, nest: Nest, locate: Locate) -> tuple[ln.CallOperand, ...]:
    """Return the operands, the result first. Raises `Mismatch`."""
    form = instruction.form
    extents = form.places if form.sum is None else (*form.places, form.sum.high)
    for loop, extent in zip(nest.all_loops, extents, strict=True):
        if loop.low != ZERO or loop.high != extent:
            raise Mismatch(
                f"the loop {loop.variable.name} runs from {loop.low} to {loop.high}",
                f"a loop from 0 to {extent}: {instruction.name} runs over {_shown(extents)}",
            )
    if nest.target.buffer.dtype != form.result.buffer.dtype:
        raise Mismatch(
            f"{nest.target.buffer.name} has elements of {nest.target.buffer.dtype}",
            f"elements of {form.result.buffer.dtype}",
        )
    found: list[Mismatch] = []
    for pairs in pairings(form.term, nest.term):
        try:
            return _operands(instruction, nest, locate, ((OUT, form.result, nest.target), *pairs))
        except Mismatch as error:
            found.append(error)
    if not found:
        raise Mismatch("the terms of the sum are of another form", f"the terms of {instruction.program}")
    raise found[0]


def _shown(extents: Sequence[Index]) -> str:
    return " × ".join(map(str, extents))


Pair = tuple[str, ln.Cell, ln.Cell]
"""The name of an operand, its declared cell, and the cell in the nest."""


def pairings(declared: ln.ScalarExpr, found: ln.ScalarExpr) -> Iterator[tuple[Pair, ...]]:
    """Yield the ways in which the reads of two expressions correspond: factors may be exchanged."""
    match declared:
        case ln.Load(one):
            if isinstance(found, ln.Load) and declared.dtype == found.dtype:
                other = found.source
                if isinstance(one, ln.Cell) and isinstance(other, ln.Cell):
                    yield ((one.buffer.name, one, other),)
        case ln.Number() | ln.FromIndex():
            if declared == found:
                yield ()
        case ln.Convert(operand, dtype):
            if isinstance(found, ln.Convert) and found.dtype == dtype:
                yield from pairings(operand, found.argument)
        case ln.Apply(op, arguments, dtype):
            if isinstance(found, ln.Apply) and (found.op, found.dtype) == (op, dtype):
                others = found.arguments
                orders = [others] if op not in ("add", "mul") else [others, others[::-1]]
                for order in orders:
                    yield from _all_pairings(arguments, order)
        case ln.Choose():
            pass
        case _:
            assert_never(declared)


def _all_pairings(declared: tuple[ln.ScalarExpr, ...], found: tuple[ln.ScalarExpr, ...]) -> Iterator[tuple[Pair, ...]]:
    if not declared:
        yield ()
        return
    for first in pairings(declared[0], found[0]):
        for rest in _all_pairings(declared[1:], found[1:]):
            yield (*first, *rest)


def _operands(
    instruction: Instruction, nest: Nest, locate: Locate, pairs: tuple[Pair, ...]
) -> tuple[ln.CallOperand, ...]:
    operands: dict[str, ln.CallOperand] = {}
    for name, declared, cell in pairs:
        operand = _operand(instruction, nest, locate, (name, declared, cell))
        if operands.setdefault(name, operand) != operand:
            raise Mismatch(f"the operand {name} is read at two places", "one place")
        if name != OUT and cell.buffer.storage == nest.target.buffer.storage:
            raise Mismatch(f"{cell.buffer.name} is both the result and the operand {name}", "a result in other storage")
    return tuple(operands[name] for name in (OUT, *(array.name for array in instruction.program.inputs)))


def _operand(instruction: Instruction, nest: Nest, locate: Locate, pair: Pair) -> ln.CallOperand:
    """Prove that an operand is at its declared location."""
    name, declared, cell = pair
    form, lanes = instruction.form, len(instruction.lanes)
    at = tuple(index(loop.variable) for loop in nest.loops)
    wanted = form.location(name, declared, at, None if nest.sum is None else index(nest.sum.variable))
    extents = form.stored[name].places
    *threads, address = locate(name, cell)
    if name in instruction.rows_of_lanes:
        return _piece_of_lane(instruction, nest, pair, address, wanted)
    first = _at(address, dict.fromkeys((loop.variable for loop in nest.all_loops), 0))
    stride = None
    if name in instruction.rows_in_memory:
        lanes = 0
        stride = _at(address, _second_row(nest, wanted)) - first
        local = stride * wanted[0] + wanted[1]
        for aligned in (first, stride):
            by = constant(instruction.rows_in_memory[name])
            if not proves(nest.facts, equal(aligned - floordiv(aligned, by) * by, ZERO)):
                raise Mismatch(
                    f"rows of {cell.buffer.name} begin at {first}, at a distance of {stride}",
                    f"multiples of {by} elements, proved",
                )
    else:
        local = flat(tuple(zip(wanted[lanes:], extents[lanes:], strict=True)))
    for axis, found, required in (
        *zip((f"along {axis}" for axis in "yx"[2 - lanes :]), threads, wanted[:lanes], strict=True),
        ("at the address", address - first, local),
    ):
        answer = prove(nest.facts, equal(found, required))
        if isinstance(answer, Proved):
            continue
        where = "lane" if axis != "at the address" else "register" if lanes else "element"
        summary = f"{cell.buffer.name} is not the operand {name} of {instruction.name}"
        stated = f"{where} {axis} {required} of {name}; it is {found}"
        if not isinstance(answer, Refuted):
            raise Mismatch(summary, f"{stated} (not proved equal)")
        numbers = dict(answer.model.numbers)
        value = answer.model.value
        raise Mismatch(summary, f"{stated}: {value(required)}, not {value(found)}", numbers)
    return ln.CallOperand(cell.buffer, first, () if stride is None else (stride,))


def _piece_of_lane(
    instruction: Instruction, nest: Nest, pair: Pair, address: Index, wanted: Sequence[Index]
) -> ln.CallOperand:
    """Prove that an operand of a copy consists of pieces of adjacent elements; return the piece of a lane."""
    name, _, cell = pair
    count, (row, column) = constant(instruction.rows_of_lanes[name]), wanted
    rows = instruction.form.stored[name].shape[0]
    variables = [loop.variable for loop in nest.loops]

    def first_of(row: Index, piece: Index) -> Index:
        """Return the address of the first element of a piece."""
        places = map(as_index, instruction.form.stored[OUT].to(row, count * piece))
        values: dict[Leaf, Index] = dict(zip(variables, places, strict=True))
        return map_leaves(address, lambda leaf: values[leaf] if leaf in values else index(leaf))

    piece = floordiv(column, count)
    answer = prove(nest.facts, equal(address, first_of(row, piece) + column - count * piece))
    if not isinstance(answer, Proved):
        required = first_of(row, piece) + column - count * piece
        raise Mismatch(
            f"rows of {cell.buffer.name} do not consist of {count} adjacent elements",
            f"element {column} of a row at the address {required}; it is {address}",
            dict(answer.model.numbers) if isinstance(answer, Refuted) else None,
        )
    lane = flat(tuple((index(v), constant(e)) for v, e in zip(variables, instruction.lanes, strict=False)))
    pieces = floordiv(instruction.form.stored[name].shape[1], count)
    number = floordiv(lane, rows)
    address = simplify(nest.facts, first_of(lane - number * rows, number - floordiv(number, pieces) * pieces))
    if not proves(nest.facts, equal(address - floordiv(address, count) * count, ZERO)):
        raise Mismatch(
            f"the {count} elements of {cell.buffer.name} of a lane begin at {address}",
            f"a multiple of {count} elements, proved",
        )
    return ln.CallOperand(cell.buffer, address)


def _at(e: Index, values: Mapping[Var, int]) -> Index:
    """Return the expression where variables have these values."""

    def value(leaf: Leaf) -> Index:
        return constant(values[leaf]) if isinstance(leaf, Var) and leaf in values else index(leaf)

    return map_leaves(e, value)


def _second_row(nest: Nest, element: Sequence[Index]) -> dict[Var, int]:
    """Return the iteration in which the element of an operand is the first one of its second row."""
    variables = [loop.variable for loop in nest.all_loops]
    for numbers in product(*(range((loop.high - loop.low).constant or 0) for loop in nest.all_loops)):
        values = dict(zip(variables, numbers, strict=True))
        if [_at(position, values).constant for position in element] == [1, 0]:
            return values
    raise Mismatch("the operand has a single row", "an operand of two rows or more")


def refused(nest: ln.LoopNest, loop: ln.For, error: Mismatch) -> IllegalMark:
    """Return the error of a marked sum that its instruction does not compute."""
    name = loop.variable.name
    return IllegalMark(
        f"the loop {name} is marked {loop.mark.value}, but {error.summary}",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=error.required,
        numbers=error.numbers,
        suggestions=(f's.mark("{name}", None) removes the mark', *error.suggestions),
    )


# -- marked sums ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Around:
    """The loops around a place, outermost first, the facts there, and the predicates of the branches around it."""

    facts: Facts
    loops: tuple[ln.For, ...] = ()
    branches: tuple[Predicate, ...] = ()
    outside: Around | None = None

    def within(self, statement: ln.For | ln.If) -> Around:
        """Return the place in the body of a loop or branch."""
        if isinstance(statement, ln.For):
            facts, loops = self.facts.assume(statement.range), (*self.loops, statement)
            return replace(self, facts=facts, loops=loops, outside=self)
        predicate = statement.predicate
        return replace(self, facts=self.facts.assume(predicate), branches=(*self.branches, predicate), outside=self)

    def outwards(self, levels: int) -> Around:
        """Return the place around this many loops and branches."""
        found = self
        for _ in range(levels):
            assert found.outside is not None
            found = found.outside
        return found


@dataclass(frozen=True, slots=True)
class Sum:
    """A marked sum: its loop, its term, the cell that it is added to, and the loops directly around it."""

    loop: ln.For | None
    term: ln.ScalarExpr
    target: ln.Cell
    covered: tuple[ln.For, ...]

    @property
    def direct(self) -> ln.For:
        """The loop of the sum, which adds each term to the cell."""
        assert self.loop is not None
        return replace(self.loop, body=(ln.Accumulate(self.target, "add", self.term),))

    def nest(self, lanes: tuple[ln.For, ...], around: Around) -> Nest:
        """Return the nest to be matched, with loops over lanes around it."""
        facts = around.facts.assume(*(each.range for each in self.covered), *([self.loop.range] if self.loop else []))
        return Nest((*lanes, *self.covered), self.loop, self.term, self.target, facts)


def sum_at(instruction: Instruction, loop: ln.For, block: ln.Block, around: Around) -> Sum:
    """Return the sum of a marked loop in a block. Raises `Mismatch` if it is not that of an instruction."""
    if instruction.form.sum is None:
        return _copy_at(instruction, loop, around)
    match block:
        case (
            ln.Declare(total, ln.Number(0)),
            ln.For(body=(ln.Accumulate(ln.Scalar() as folded, "add", term),)),
            ln.Accumulate(ln.Cell() as target, "add", ln.Load(stored)),
        ) if folded == total == stored:
            return Sum(loop, term, target, _covered(instruction, block, around.loops))
        case (ln.For(body=(ln.Accumulate(ln.Cell() as target, "add", term),)) as added,) if added is loop:
            return Sum(loop, term, target, _covered(instruction, block, around.loops))
    raise Mismatch(
        f"the sum over {loop.variable.name} is not added to an element of a buffer",
        f"{_added(instruction)}: the outer sum adds tensors to a buffer",
    )


def _copy_at(instruction: Instruction, loop: ln.For, around: Around) -> Sum:
    """Return the copy in a marked loop, which is the innermost one."""
    copied = loop.body[0] if len(loop.body) == 1 else None
    if isinstance(copied, ln.Assign) and isinstance(copied.target, ln.Cell):
        covered = _covered(instruction, loop.body, (*around.loops, loop))
        return Sum(None, copied.value, copied.target, covered)
    raise Mismatch(f"the loop {loop.variable.name} does not copy elements", "the innermost loop of a copy")


def _covered(instruction: Instruction, block: ln.Block, around: tuple[ln.For, ...]) -> tuple[ln.For, ...]:
    """Return the loops directly around a block that an instruction covers. Raises `Mismatch`."""
    own_places = instruction.form.places[len(instruction.lanes) :]
    around_sum = f"the loop{'s' * (len(own_places) > 1)} over {_shown(own_places)} directly around the sum"
    covered = around[len(around) - len(own_places) :]
    inner = block
    for outer in reversed(covered):
        own = isinstance(outer.mark, CallMark) and instruction.form.sum is None and outer is covered[-1]
        if outer.body != inner or not (own or outer.mark in (LoopMark.NONE, LoopMark.UNROLL)):
            raise Mismatch(
                f"the loop {outer.variable.name} contains more than the sum, or is marked",
                around_sum,
            )
        inner = (outer,)
    if len(covered) < len(own_places):
        raise Mismatch("there are too few loops around the sum", around_sum)
    return covered


def _added(instruction: Instruction) -> str:
    """Return the text of loops in which an instruction adds its sums to a buffer."""
    summed, places = instruction.form.sum, instruction.form.places[len(instruction.lanes) :]
    loops = "".join(f"⊞[{name} < {extent}] " for name, extent in zip("ijkl", places, strict=False)) or "⊞[i < n] "
    terms = "" if summed is None else str(summed.high)
    return f"Σ[r < q] {loops}Σ[p < {terms} | call {instruction.name}] …"
