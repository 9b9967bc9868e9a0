"""Zeros that are not read: guards in the rows of a recurrence become conditions of the stores.

    for r in 1..k + 1:                                     for r in 1..k + 1:
        for i in 0..m:                                         for i in 0..m:
            w[r, i] = (w[r - 1, i - 1] + w[r - 1, i + 1]   →       if r <= i < m - r:
                       if r <= i < m - r else 0.0)                     w[r, i] = w[r - 1, i - 1] + w[r - 1, i + 1]

A window of a stencil shrinks in each step, and the elements beyond it are padding. They need no zeros if every read is
proved to be of an element within. The conditions become bounds of the loops later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Index, Leaf, Var, index
from atl.core.predicate import FALSE, Predicate, at_most, conjunction, equal, negation, substitute
from atl.prove import Facts, proves
from lowering.nest import loopnest as ln
from lowering.nest.accesses import Access, accesses_of, with_inner_block
from lowering.nest.text import outermost
from lowering.nest.tiles import stores_to


def without_unread_zeros(nest: ln.LoopNest) -> ln.LoopNest:
    """Store no zeros to the padding of the rows of recurrences, where no zero is read."""
    facts = initial_facts(nest.assumptions, nest.inputs)
    return replace(nest, body=_block(nest, facts, nest.body))


def _block(nest: ln.LoopNest, facts: Facts, block: ln.Block) -> ln.Block:
    out = [with_inner_block(facts, statement, partial(_block, nest)) for statement in block]
    for at, begun in enumerate(out):
        if isinstance(begun, ln.Allocate | ln.Clear) and not begun.zeroed and begun.buffer.role == "local":
            region = tuple(out[at + 1 :])
            if _reads_no_zeros(nest, facts, region, begun.buffer):
                out[at + 1 :] = _without_zeros(region, begun.buffer)
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Store:
    """A store to a cell: the conditions around it, the loops, and the positions in each dimension.

    With `has_zeros`, zeros are stored where the last condition is false. With `is_zero`, only zeros are stored.
    """

    conditions: tuple[Predicate, ...]
    loops: tuple[Var, ...]
    positions: tuple[Index, ...]
    has_zeros: bool
    is_zero: bool

    def conditions_of(self, cell: Sequence[Index]) -> tuple[Predicate, Predicate] | None:
        """Return when the store is to this cell: the condition on its row, and on the rest. None if it is not found."""
        places: dict[Leaf, Index] = {}
        row: list[Predicate] = []
        for at, (position, wanted) in enumerate(zip(self.positions, cell, strict=True)):
            variable = next((v for v in self.loops if (position - index(v)).constant is not None), None)
            if variable is not None and variable not in places:
                places[variable] = wanted - (position - index(variable))
            elif at == 0 and position.constant == 0:
                row.append(at_most(wanted, position))
            else:
                row.append(equal(wanted, position))
        if len(places) != len(self.loops):
            return None

        def on_leaf(leaf: Leaf) -> Index:
            return places.get(leaf, index(leaf))

        made = [substitute(condition, on_leaf) for condition in self.conditions]
        return conjunction(row), conjunction(made)


def _reads_no_zeros(nest: ln.LoopNest, facts: Facts, region: ln.Block, buffer: ln.Buffer) -> bool:
    """Return whether each read of the buffer is proved to be of an element that is not a zero of padding.

    No element is assigned twice (`lowering.nest.obligations`), so an element that another statement stores is
    not one of these zeros.
    """
    stores: list[_Store] = []
    for store in _stores(region, buffer, (), ()):
        if store is None:
            return False
        stores.append(store)
    if not any(store.has_zeros or store.is_zero for store in stores):
        return False
    stores = [store for store in stores if not store.is_zero]
    if not any(loop in nest.recurrences for store in stores for loop in store.loops):
        return False
    reads = [
        access
        for statement in region
        for access in accesses_of(outermost(nest), facts, statement)
        if access.how == "read" and isinstance(access.storage, ln.Cell) and access.storage.buffer == buffer
    ]
    return all(_is_stored(read, stores) for read in reads)


def _is_stored(read: Access, stores: Sequence[_Store]) -> bool:
    """Return whether the element that is read is proved to be stored, by one of these stores."""
    assert isinstance(read.storage, ln.Cell)
    cell = [position for position, _ in read.storage.pairs]
    facts = read.facts
    for at, store in enumerate(stores):
        found = store.conditions_of(cell)
        if found is None:
            return False
        row, rest = found
        if at == len(stores) - 1:
            return proves(facts, FALSE) or proves(facts, conjunction((row, rest)))
        here = facts.assume(row)
        if not (proves(here, FALSE) or proves(here, rest)):
            return False
        facts = facts.assume(negation(row))
    return False


def _stores(
    block: ln.Block, buffer: ln.Buffer, conditions: tuple[Predicate, ...], loops: tuple[Var, ...]
) -> Iterator[_Store | None]:
    """Yield the stores to a buffer, or None for one that is not an assignment."""
    for statement in block:
        match statement:
            case ln.For(variable, body=body):
                if stores_to(statement, buffer):
                    yield from _stores(body, buffer, (*conditions, statement.range), (*loops, variable))
            case ln.If(predicate, body):
                yield from _stores(body, buffer, (*conditions, predicate), loops)
            case ln.Assign(ln.Cell(of, pairs), value) if of == buffer:
                guard = _guard(value)
                known = conditions if guard is None else (*conditions, guard[0])
                positions = tuple(position for position, _ in pairs)
                yield _Store(known, loops, positions, guard is not None, _is_zero(value))
            case ln.Accumulate(ln.Cell(of)) if of == buffer:
                yield None
            case ln.Clear(of) if of == buffer:
                yield None
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


def _is_zero(value: ln.ScalarExpr) -> bool:
    return isinstance(value, ln.Number) and value.value == 0


def _guard(value: ln.ScalarExpr) -> tuple[Predicate, ln.ScalarExpr] | None:
    """Return the condition and the value of a choice between a value and zero."""
    if isinstance(value, ln.Choose) and _is_zero(value.right):
        return value.predicate, value.left
    return None


def _without_zeros(block: ln.Block, buffer: ln.Buffer) -> ln.Block:
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.For(body=body) | ln.If(body=body):
                if inner := _without_zeros(body, buffer):
                    out.append(ln.with_body(statement, inner))
            case ln.Assign(ln.Cell(of), value) if of == buffer and _is_zero(value):
                pass
            case ln.Assign(ln.Cell(of) as target, value) if of == buffer and (found := _guard(value)) is not None:
                out.append(ln.If(found[0], (ln.Assign(target, found[1]),)))
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)
