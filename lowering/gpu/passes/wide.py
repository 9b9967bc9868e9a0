"""Loops marked `vector`, of which each thread reads or stores all iterations at once: 8 or 16 bytes side by side.

That takes elements that lie side by side, from an address that is a multiple of as many, and conditions that hold for
all of them or for none. The prover decides: where rows are long by a multiple of four, say, which a program states of
its sizes (`given k % 4 == 0`). What is not proved is read and stored element by element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

import numpy as np

from atl.core.index import ONE, ZERO, AnyAtom, Index, Leaf, constant, factor_of, index, map_leaves, polynomial
from atl.core.marks import LoopMark
from atl.core.predicate import Predicate, equal, negation, substitute
from atl.prove import Facts, proves
from lowering.gpu.kernels import Barrier, Branch, Repeat, Run, Step, Steps, Where, Wide, WideLoad
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Apply,
    Assign,
    Block,
    Cell,
    Choose,
    Clear,
    Convert,
    Declare,
    For,
    Free,
    FromIndex,
    If,
    Load,
    Number,
    ScalarExpr,
    Statement,
    with_body,
)

WIDTHS: Final = (8, 16)
"""So many bytes a thread reads or stores at once, if it is more than one element."""
WIDEST: Final = max(WIDTHS)
"""What is aligned to so many bytes can be read or stored in each of these ways."""


def widened(steps: Steps, facts: Facts, places: Mapping[int, Where]) -> tuple[Steps, Mapping[int, Wide]]:
    """The steps with conditions that are the same in all iterations of a wide loop, and these loops by their `uid`."""
    found = _Widened(places)
    return found.steps(steps, facts), found.loops


@dataclass(slots=True)
class _Widened:
    places: Mapping[int, Where]
    loops: dict[int, Wide] = field(default_factory=dict)

    def steps(self, steps: Steps, facts: Facts) -> Steps:
        out: list[Step] = []
        for step in steps:
            match step:
                case Run(For() as loop):
                    (made,) = self._block((loop,), facts)
                    assert isinstance(made, For)
                    out.append(replace(step, statement=made))
                case Repeat(body=body):
                    out.append(replace(step, body=self.steps(body, facts.assume(step.range))))
                case Branch(predicate, body):
                    out.append(replace(step, body=self.steps(body, facts.assume(predicate))))
                case Run() | Barrier() | Declare() | Allocate() | Clear() | Free():
                    out.append(step)
                case _:
                    assert_never(step)
        return tuple(out)

    def _block(self, block: Block, facts: Facts) -> Block:
        return tuple(self._statement(statement, facts) for statement in block)

    def _statement(self, statement: Statement, facts: Facts) -> Statement:
        match statement:
            case For(mark=LoopMark.VECTOR):
                return self._vector(statement, facts.assume(statement.range))
            case For(body=body):
                return with_body(statement, self._block(body, facts.assume(statement.range)))
            case If(predicate, body):
                return If(predicate, self._block(body, facts.assume(predicate)))
            case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                return statement
        assert_never(statement)

    def _vector(self, loop: For, facts: Facts) -> For:
        lanes = (loop.high - loop.low).constant
        if lanes is None or len(loop.body) != 1:
            return loop
        made = _Loop(loop, lanes, self.places)
        statement = made.statement(loop.body[0], facts)
        if statement is None or not (made.loads_of_one_condition() or made.stores):
            return loop
        self.loops[loop.variable.uid] = Wide(lanes, made.loads_of_one_condition(), stores=made.stores)
        return with_body(loop, (statement,))


@dataclass(slots=True)
class _Loop:
    """A loop that may be wide: what it reads so, and whether it stores so."""

    loop: For
    lanes: int
    places: Mapping[int, Where]
    loads: list[WideLoad] = field(default_factory=list)
    stores: bool = False

    def statement(self, statement: Statement, facts: Facts) -> Statement | None:
        """The statement with conditions in which the loop's variable does not occur; None where it has others."""
        match statement:
            case If(predicate, (inner,)):
                same = self._same(predicate, facts)
                made = None if same is None else self.statement(inner, facts.assume(same))
                return None if same is None or made is None else If(same, (made,))
            case Assign(target, value):
                new = self._scalar(value, facts, ())
                self.stores = isinstance(target, Cell) and self._is_wide(target, facts)
                return None if new is None else Assign(target, new)
            case Accumulate(target, op, value):
                new = self._scalar(value, facts, ())
                return None if new is None else Accumulate(target, op, new)
            case For() | If() | Declare() | Allocate() | Clear() | Free():
                return None
        assert_never(statement)

    def _scalar(self, e: ScalarExpr, facts: Facts, under: tuple[Predicate, ...]) -> ScalarExpr | None:
        match e:
            case Load(source):
                if isinstance(source, Cell) and self._is_wide(source, facts):
                    self.loads.append(WideLoad(source, under))
                return e
            case Number() | FromIndex():
                return e
            case Apply(_, arguments):
                new = [self._scalar(argument, facts, under) for argument in arguments]
                made = tuple(argument for argument in new if argument is not None)
                return replace(e, arguments=made) if len(made) == len(new) else None
            case Choose(predicate, left, right):
                same = self._same(predicate, facts)
                if same is None:
                    return None
                first = self._scalar(left, facts.assume(same), (*under, same))
                no = negation(same)
                second = self._scalar(right, facts.assume(no), (*under, no))
                return None if first is None or second is None else replace(e, predicate=same, left=first, right=second)
            case Convert(argument):
                inner = self._scalar(argument, facts, under)
                return None if inner is None else replace(e, argument=inner)
        assert_never(e)

    def loads_of_one_condition(self) -> tuple[WideLoad, ...]:
        """What is read at once, each once: what is read under several conditions is another thing in each."""
        loads = dict.fromkeys(self.loads)
        count = Counter(load.cell for load in loads)
        return tuple(load for load in loads if count[load.cell] == 1)

    def _first(self, leaf: Leaf) -> Index:
        return self.loop.low if leaf == self.loop.variable else index(leaf)

    def _same(self, predicate: Predicate, facts: Facts) -> Predicate | None:
        """The condition of the first iteration, if it is proved to be that of all."""
        first = substitute(predicate, self._first)
        if first == predicate:
            return predicate
        holds = proves(facts.assume(first), predicate) and proves(facts.assume(predicate), first)
        return first if holds else None

    def _is_wide(self, cell: Cell, facts: Facts) -> bool:
        """Whether the cells of all iterations lie side by side, from a multiple of as many on."""
        if self.places.get(cell.buffer.uid, "global") not in ("global", "shared"):
            return False
        address = cell.address
        if self.lanes * np.dtype(cell.buffer.dtype).itemsize not in WIDTHS or self.lanes == 1:
            return False
        if factor_of(address, self.loop.variable) != ONE:
            return False
        return is_multiple(map_leaves(address, self._first), self.lanes, facts)


def is_multiple(e: Index, of: int, facts: Facts) -> bool:
    """Whether an index is proved to be a multiple of a number: by each of its terms, or in what is left of them."""
    rest = {}
    known: dict[AnyAtom, bool] = {}
    for atoms, coefficient in e.terms:
        if coefficient % of == 0:
            continue
        for atom in atoms:
            if atom not in known:
                known[atom] = _is_zero(index(atom) % of, facts)
        if not any(known[atom] for atom in atoms):
            rest[atoms] = coefficient
    return not rest or _is_zero(polynomial(rest) % of, facts)


def _is_zero(e: Index, facts: Facts) -> bool:
    return e == ZERO or proves(facts, equal(e, ZERO))


def lanes_of(loop: For) -> Iterator[Index]:
    """The values of a loop's variable, one for each lane."""
    for lane in range((loop.high - loop.low).constant or 0):
        yield loop.low + constant(lane)
