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
from lowering.nest.accesses import Access, accesses_of, after, with_inner_blocks
from lowering.nest.text import TextScope, outermost
from lowering.nest.tiles import stores_to


def without_unread_zeros(nest: ln.LoopNest) -> ln.LoopNest:
    """Store no zeros to the padding of the rows of recurrences, where no zero is read."""
    facts = initial_facts(nest.assumptions, nest.inputs)
    notes: list[ln.StorageNote] = []
    body = _block(nest, notes, outermost(nest), facts, nest.body)
    return replace(nest, body=body, storage_notes=(*nest.storage_notes, *notes))


def _block(nest: ln.LoopNest, notes: list[ln.StorageNote], scope: TextScope, facts: Facts, block: ln.Block) -> ln.Block:
    """Drop the unread zeros of the buffers in a block, and note the reason for each buffer."""
    out = list(with_inner_blocks(scope, facts, block, partial(_block, nest, notes))[0])
    for at, begun in enumerate(out):
        scope = after(scope, begun)
        if isinstance(begun, ln.Allocate | ln.Clear) and not begun.zeroed and begun.buffer.role == "local":
            region = tuple(out[at + 1 :])
            stores = _stores_with_zeros(nest, region, begun.buffer)
            if stores is None:
                continue
            read = _read_of_zero(scope, facts, region, begun.buffer, stores)
            if read is None:
                out[at + 1 :] = _without_zeros(region, begun.buffer)
                text = "zeros of padding are not stored; every read is proved to be of an element that a step computes"
            else:
                text = f"zeros of padding are stored, since `{read.text}` may read one"
            notes.append(ln.StorageNote(begun.buffer.name, text))
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


def _stores_with_zeros(nest: ln.LoopNest, region: ln.Block, buffer: ln.Buffer) -> list[_Store] | None:
    """Return the stores of values to a buffer in recurrences, if zeros of padding are stored to it, too."""
    stores: list[_Store] = []
    for store in _stores(region, buffer, (), ()):
        if store is None:
            return None
        stores.append(store)
    if not any(store.has_zeros or store.is_zero for store in stores):
        return None
    stores = [store for store in stores if not store.is_zero]
    return stores if any(loop in nest.recurrences for store in stores for loop in store.loops) else None


def _read_of_zero(
    scope: TextScope, facts: Facts, region: ln.Block, buffer: ln.Buffer, stores: Sequence[_Store]
) -> Access | None:
    """Return a read of the buffer that is not proved to be of an element other than a zero of padding, if any.

    No element is assigned twice (`lowering.nest.obligations`), so an element that another statement stores is
    not one of these zeros.
    """
    for statement in region:
        for access in accesses_of(scope, facts, statement):
            cell = access.storage
            is_read = access.how == "read" and isinstance(cell, ln.Cell) and cell.buffer == buffer
            if is_read and not _is_stored(access, stores):
                return access
        scope = after(scope, statement)
    return None


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
