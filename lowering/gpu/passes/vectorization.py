"""Vector accesses: loops marked `vector`, all of whose iterations a thread loads or stores at once (8 or 16 bytes).

The elements must be consecutive, the first address a multiple of their number, and each condition true for all of
them or for none. The prover decides, for instance from a declared assumption that rows are a multiple of four long
(`given k % 4 == 0`). Accesses without a proof are made element by element.
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
from lowering.gpu.kernels import Barrier, Branch, Memory, Repeat, Run, Step, Steps, Wide, WideLoad
from lowering.nest import loopnest as ln

WIDTHS: Final = (8, 16)
"""Sizes in bytes of vector accesses."""
WIDEST: Final = max(WIDTHS)
"""Alignment in bytes that suffices for every vector access."""


def vectorize(steps: Steps, facts: Facts, memories: Mapping[int, Memory]) -> tuple[Steps, Mapping[int, Wide]]:
    """Make conditions in vectorised loops independent of the iteration; return the steps and the loops by `uid`."""
    found = _Vectorization(memories)
    return found.steps(steps, facts), found.loops


@dataclass(slots=True)
class _Vectorization:
    memories: Mapping[int, Memory]
    loops: dict[int, Wide] = field(default_factory=dict)

    def steps(self, steps: Steps, facts: Facts) -> Steps:
        out: list[Step] = []
        for step in steps:
            match step:
                case Run(ln.For() as loop):
                    (made,) = self._block((loop,), facts)
                    assert isinstance(made, ln.For)
                    out.append(replace(step, statement=made))
                case Repeat(body=body):
                    out.append(replace(step, body=self.steps(body, facts.assume(step.range))))
                case Branch(predicate, body):
                    out.append(replace(step, body=self.steps(body, facts.assume(predicate))))
                case Run() | Barrier() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                    out.append(step)
                case _:
                    assert_never(step)
        return tuple(out)

    def _block(self, block: ln.Block, facts: Facts) -> ln.Block:
        return tuple(self._statement(statement, facts) for statement in block)

    def _statement(self, statement: ln.Statement, facts: Facts) -> ln.Statement:
        match statement:
            case ln.For(mark=LoopMark.VECTOR):
                return self._vector(statement, facts.assume(statement.range))
            case ln.For(body=body):
                return ln.with_body(statement, self._block(body, facts.assume(statement.range)))
            case ln.If(predicate, body):
                return ln.If(predicate, self._block(body, facts.assume(predicate)))
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                return statement
        assert_never(statement)

    def _vector(self, loop: ln.For, facts: Facts) -> ln.For:
        lanes = (loop.high - loop.low).constant
        if lanes is None or len(loop.body) != 1:
            return loop
        made = _Loop(loop, lanes, self.memories)
        statement = made.statement(loop.body[0], facts)
        if statement is None or not (made.loads_of_one_condition() or made.stores):
            return loop
        self.loops[loop.variable.uid] = Wide(lanes, made.loads_of_one_condition(), stores=made.stores)
        return ln.with_body(loop, (statement,))


@dataclass(slots=True)
class _Loop:
    """A loop that may be vectorised: its vector loads, and whether its store is a vector store."""

    loop: ln.For
    lanes: int
    memories: Mapping[int, Memory]
    loads: list[WideLoad] = field(default_factory=list)
    stores: bool = False

    def statement(self, statement: ln.Statement, facts: Facts) -> ln.Statement | None:
        """Return the statement with conditions that do not depend on the iteration; None if it has other conditions."""
        match statement:
            case ln.If(predicate, (inner,)):
                same = self._same(predicate, facts)
                made = None if same is None else self.statement(inner, facts.assume(same))
                return None if same is None or made is None else ln.If(same, (made,))
            case ln.Assign(target, value):
                new = self._scalar(value, facts, ())
                self.stores = isinstance(target, ln.Cell) and self._is_wide(target, facts)
                return None if new is None else ln.Assign(target, new)
            case ln.Accumulate(target, op, value):
                new = self._scalar(value, facts, ())
                return None if new is None else ln.Accumulate(target, op, new)
            case ln.For() | ln.If() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                return None
        assert_never(statement)

    def _scalar(self, e: ln.ScalarExpr, facts: Facts, under: tuple[Predicate, ...]) -> ln.ScalarExpr | None:
        match e:
            case ln.Load(source):
                if isinstance(source, ln.Cell) and self._is_wide(source, facts):
                    self.loads.append(WideLoad(source, under))
                return e
            case ln.Number() | ln.FromIndex():
                return e
            case ln.Apply(_, arguments):
                new = [self._scalar(argument, facts, under) for argument in arguments]
                made = tuple(argument for argument in new if argument is not None)
                return replace(e, arguments=made) if len(made) == len(new) else None
            case ln.Choose(predicate, left, right):
                same = self._same(predicate, facts)
                if same is None:
                    return None
                first = self._scalar(left, facts.assume(same), (*under, same))
                no = negation(same)
                second = self._scalar(right, facts.assume(no), (*under, no))
                return None if first is None or second is None else replace(e, predicate=same, left=first, right=second)
            case ln.Convert(argument):
                inner = self._scalar(argument, facts, under)
                return None if inner is None else replace(e, argument=inner)
        assert_never(e)

    def loads_of_one_condition(self) -> tuple[WideLoad, ...]:
        """Return the vector loads, except cells that are read under several different conditions."""
        loads = dict.fromkeys(self.loads)
        count = Counter(load.cell for load in loads)
        return tuple(load for load in loads if count[load.cell] == 1)

    def _first(self, leaf: Leaf) -> Index:
        return self.loop.low if leaf == self.loop.variable else index(leaf)

    def _same(self, predicate: Predicate, facts: Facts) -> Predicate | None:
        """Return the condition of the first iteration if it is proved equivalent to that of all iterations."""
        first = substitute(predicate, self._first)
        if first == predicate:
            return predicate
        holds = proves(facts.assume(first), predicate) and proves(facts.assume(predicate), first)
        return first if holds else None

    def _is_wide(self, cell: ln.Cell, facts: Facts) -> bool:
        """Return whether the cells of all iterations are consecutive and aligned to their number."""
        if self.memories.get(cell.buffer.uid, "global") not in ("global", "shared"):
            return False
        address = cell.address
        if self.lanes * np.dtype(cell.buffer.dtype).itemsize not in WIDTHS or self.lanes == 1:
            return False
        if factor_of(address, self.loop.variable) != ONE:
            return False
        return is_multiple(map_leaves(address, self._first), self.lanes, facts)


def is_multiple(e: Index, of: int, facts: Facts) -> bool:
    """Return whether an index is proved to be a multiple of a number: each of its terms, or their remaining sum."""
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


def lanes_of(loop: ln.For) -> Iterator[Index]:
    """Yield the values of a loop's variable, one for each lane."""
    for lane in range((loop.high - loop.low).constant or 0):
        yield loop.low + constant(lane)
