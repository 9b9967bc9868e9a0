"""Matching: the operands of an instruction in a loop nest, or the reason why the nest is not that of the instruction.

The nest around a marked sum is compared with the declared one. The loops that the result runs over correspond in order:
first the lanes, then the loops directly around the sum. Each operand must be at its declared location, in a buffer from
some address on. This is an equation of indices for the prover, for all iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from atl.core.index import ZERO, Index, Leaf, Var, index, map_leaves
from atl.core.marks import LoopMark
from atl.core.predicate import Predicate, equal
from atl.errors import IllegalMark
from atl.prove import Facts, Proved, Refuted, prove
from lowering.instructions.instruction import OUT, Instruction
from lowering.nest import loopnest as ln
from lowering.nest.loopnest import flat
from lowering.targets.legality import place_of


@dataclass(frozen=True, slots=True)
class Nest:
    """A nest to be matched: `target` += the sum over the loop `sum` of `term`, within `loops`, lanes first."""

    loops: tuple[ln.For, ...]
    sum: ln.For
    term: ln.ScalarExpr
    target: ln.Cell
    facts: Facts


class NoMatch(Exception):
    """The difference between a nest and that of an instruction, what is required, and numbers that show it."""

    def __init__(self, summary: str, required: str, numbers: Mapping[str, int] | None = None) -> None:
        super().__init__(summary, required, numbers)
        self.summary = summary
        self.required = required
        self.numbers = numbers


Locate = Callable[[ln.Cell], tuple[Index, ...]]
"""The location of a cell: the lanes of its thread, and its address in the registers there or in memory."""


def operands_of(instruction: Instruction, nest: Nest, locate: Locate) -> tuple[ln.CallOperand, ...]:
    """Return the operands, the result first. Raises `NoMatch`."""
    form = instruction.form
    for loop, extent in zip((*nest.loops, nest.sum), (*form.places, form.sum.high), strict=True):
        if loop.low != ZERO or loop.high != extent:
            raise NoMatch(
                f"the loop {loop.variable.name} runs from {loop.low} to {loop.high}",
                f"a loop from 0 to {extent}: {instruction.name} computes {_shown(form.places)} sums of "
                f"{form.sum.high} terms, as they are stored",
            )
    if nest.target.buffer.dtype != form.result.buffer.dtype:
        raise NoMatch(
            f"{nest.target.buffer.name} has elements of {nest.target.buffer.dtype}",
            f"sums of {form.result.buffer.dtype}",
        )
    found: list[NoMatch] = []
    for pairs in _pairings(form.term, nest.term):
        try:
            return _operands(instruction, nest, locate, ((OUT, form.result, nest.target), *pairs))
        except NoMatch as error:
            found.append(error)
    if not found:
        raise NoMatch("the terms of the sum are of another form", f"the terms of {instruction.program}")
    raise found[0]


def _shown(extents: Sequence[Index]) -> str:
    return " × ".join(map(str, extents))


_Pair = tuple[str, ln.Cell, ln.Cell]
"""The name of an operand, its declared cell, and the cell in the nest."""


def _pairings(declared: ln.ScalarExpr, found: ln.ScalarExpr) -> Iterator[tuple[_Pair, ...]]:
    """Yield the ways in which the reads of two expressions correspond: factors may be exchanged."""
    match declared, found:
        case ln.Load(ln.Cell() as one), ln.Load(ln.Cell() as other) if declared.dtype == found.dtype:
            yield ((one.buffer.name, one, other),)
        case (ln.Number(), ln.Number()) | (ln.FromIndex(), ln.FromIndex()) if declared == found:
            yield ()
        case ln.Convert(one, dtype), ln.Convert(other, to) if dtype == to:
            yield from _pairings(one, other)
        case ln.Apply(op, arguments, dtype), ln.Apply(other_op, others, to) if (op, dtype) == (other_op, to):
            orders = [others] if op not in ("add", "mul") else [others, others[::-1]]
            for order in orders:
                yield from _all_pairings(arguments, order)
        case _:
            return


def _all_pairings(declared: tuple[ln.ScalarExpr, ...], found: tuple[ln.ScalarExpr, ...]) -> Iterator[tuple[_Pair, ...]]:
    if not declared:
        yield ()
        return
    for first in _pairings(declared[0], found[0]):
        for rest in _all_pairings(declared[1:], found[1:]):
            yield (*first, *rest)


def _operands(
    instruction: Instruction, nest: Nest, locate: Locate, pairs: tuple[_Pair, ...]
) -> tuple[ln.CallOperand, ...]:
    operands: dict[str, ln.CallOperand] = {}
    for name, declared, cell in pairs:
        operand = _operand(instruction, nest, locate, (name, declared, cell))
        if operands.setdefault(name, operand) != operand:
            raise NoMatch(f"the operand {name} is read at two places", "one place")
        if name != OUT and cell.buffer.storage == nest.target.buffer.storage:
            raise NoMatch(f"{cell.buffer.name} is both the result and the operand {name}", "a result in other storage")
    return tuple(operands[name] for name in (OUT, *(array.name for array in instruction.program.inputs)))


def _operand(instruction: Instruction, nest: Nest, locate: Locate, pair: _Pair) -> ln.CallOperand:
    """Prove that an operand is at its declared location."""
    name, declared, cell = pair
    form, lanes = instruction.form, len(instruction.lanes)
    at = tuple(index(loop.variable) for loop in nest.loops)
    wanted = form.location(name, declared, at, index(nest.sum.variable))
    extents = form.stored[name].places
    *threads, address = locate(cell)
    own = {loop.variable for loop in (*nest.loops, nest.sum)}
    first = _at_zero(address, own)
    local = flat(tuple(zip(wanted[lanes:], extents[lanes:], strict=True)))
    for axis, found, required in (
        *zip((f"along {axis}" for axis in "yx"), threads, wanted[:lanes], strict=False),
        ("at the address", address - first, local),
    ):
        answer = prove(nest.facts, equal(found, required))
        if isinstance(answer, Proved):
            continue
        where = "lane" if axis != "at the address" else "register" if lanes else "element"
        summary = f"{cell.buffer.name} is not the operand {name} of {instruction.name}"
        stated = f"{where} {axis} {required} of {name}; it is {found}"
        if not isinstance(answer, Refuted):
            raise NoMatch(summary, f"{stated} (not proved equal)")
        numbers = dict(answer.model.numbers)
        value = answer.model.value
        raise NoMatch(summary, f"{stated}: {value(required)}, not {value(found)}", numbers)
    return ln.CallOperand(cell.buffer, first)


def _at_zero(e: Index, variables: set[Var]) -> Index:
    """Return the expression where all these variables are zero."""

    def value(leaf: Leaf) -> Index:
        return ZERO if isinstance(leaf, Var) and leaf in variables else index(leaf)

    return map_leaves(e, value)


def refused(nest: ln.LoopNest, loop: ln.For, error: NoMatch) -> IllegalMark:
    """Return the error of a marked sum that its instruction does not compute."""
    name = loop.variable.name
    return IllegalMark(
        f"the loop {name} is marked {loop.mark.value}, but {error.summary}",
        binder=name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=error.required,
        numbers=error.numbers,
        suggestions=(f's.mark("{name}", None) removes the mark',),
    )


# -- marked sums ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Around:
    """The loops around a place, outermost first, the facts there, and the predicates of the branches around it."""

    facts: Facts
    loops: tuple[ln.For, ...] = ()
    branches: tuple[Predicate, ...] = ()

    def within(self, statement: ln.For | ln.If) -> Around:
        """Return the place in the body of a loop or branch."""
        if isinstance(statement, ln.For):
            return replace(self, facts=self.facts.assume(statement.range), loops=(*self.loops, statement))
        predicate = statement.predicate
        return replace(self, facts=self.facts.assume(predicate), branches=(*self.branches, predicate))


@dataclass(frozen=True, slots=True)
class Sum:
    """A marked sum: its loop, its term, the cell that it is added to, and the loops directly around it."""

    loop: ln.For
    term: ln.ScalarExpr
    target: ln.Cell
    covered: tuple[ln.For, ...]

    def nest(self, lanes: tuple[ln.For, ...], around: Around) -> Nest:
        """Return the nest to be matched, with loops over lanes around it."""
        facts = around.facts.assume(self.loop.range)
        return Nest((*lanes, *self.covered), self.loop, self.term, self.target, facts)


def sum_at(instruction: Instruction, loop: ln.For, block: ln.Block, around: Around) -> Sum:
    """Return the sum of a marked loop in a block. Raises `NoMatch` if it is not that of an instruction."""
    match block:
        case (
            ln.Declare(total, ln.Number(0)),
            ln.For(body=(ln.Accumulate(ln.Scalar() as folded, "add", term),)),
            ln.Accumulate(ln.Cell() as target, "add", ln.Load(stored)),
        ) if folded == total == stored:
            pass
        case (ln.For(body=(ln.Accumulate(ln.Cell() as target, "add", term),)),):
            pass
        case _:
            raise NoMatch(
                f"the sum over {loop.variable.name} is not added to an element of a buffer",
                f"a sum of tiles around it, which adds each of them to a buffer: {instruction.name} adds to its result",
            )
    count = len(instruction.form.places) - len(instruction.lanes)
    around_sum = f"the loop{'s' * (count > 1)} over {_shown(instruction.form.places[-count:])} directly around the sum"
    covered = around.loops[len(around.loops) - count :]
    inner = block
    for outer in reversed(covered):
        if outer.body != inner or outer.mark not in (LoopMark.NONE, LoopMark.UNROLL):
            raise NoMatch(
                f"the loop {outer.variable.name} contains more than the sum, or is marked",
                around_sum,
            )
        inner = (outer,)
    if not covered:
        raise NoMatch("there is no loop around the sum", around_sum)
    return Sum(loop, term, target, covered)
