"""Conversion of injective scatters to plain stores, without clearing the buffer if all cells are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from atl.checks.scope import initial_facts
from atl.core.index import ZERO, Index, Leaf, Read, Var, atoms, index, map_leaves
from atl.core.predicate import equal, within
from atl.core.predicate import substitute as substitute_predicate
from atl.core.reshape_definitions import Pairs
from atl.prove import Facts, proves, without_smt
from lowering.nest import loopnest as ln
from lowering.nest.accesses import Access, accesses_of
from lowering.nest.aliasing import other_run, same_cell_facts
from lowering.nest.text_scope import TextScope, outermost
from lowering.passes.preimages import Preimage, preimage


def with_single_stores(nest: ln.LoopNest) -> ln.LoopNest:
    """Replace `a[f(i)] += e` by `a[f(i)] = e` if f is proved injective.

    This requires that no other statement stores to the buffer, which was cleared before. So a generation that runs in
    another order, with `place` for each element, is stored like one in the usual order. If every cell is also proved to
    be stored, the buffer is not cleared.
    """
    added = _added_once(nest)
    if not added:
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    scope = outermost(nest)
    single: dict[int, bool] = {}
    places = [*_cleared(facts, nest.body), *([] if nest.complete else [_Cleared(nest.output, facts, nest.body)])]
    for place in places:
        store = added.get(place.buffer)
        if store is not None and (reaching := _reached_once(place, store, scope)) is not None:
            single[id(store)] = _reaches_all(place, reaching)
    if not single:
        return nest
    full = {buffer for buffer, store in added.items() if single.get(id(store))}
    complete = nest.complete or nest.output in full
    return replace(nest, body=_block(nest.body, frozenset(single), full), complete=complete)


@dataclass(frozen=True, slots=True)
class _Cleared:
    """A cleared buffer, and the statements that follow."""

    buffer: ln.Buffer
    facts: Facts
    after: ln.Block


@dataclass(frozen=True, slots=True)
class _Reaching:
    """A store that reaches each cell at most once, and the iteration that reaches a given cell, if found."""

    access: Access
    preimage: Preimage | None


def _added_once(nest: ln.LoopNest) -> Mapping[ln.Buffer, ln.Accumulate]:
    """Return the buffers to which a single statement adds and no other statement stores."""
    stores: dict[ln.Buffer, list[ln.Assign | ln.Accumulate]] = {}
    cleared: dict[ln.Buffer, int] = {nest.output: 1}
    for statement in ln.statements(nest.body):
        if isinstance(statement, ln.Assign | ln.Accumulate) and isinstance(statement.target, ln.Cell):
            stores.setdefault(statement.target.buffer, []).append(statement)
        elif isinstance(statement, ln.Allocate | ln.Clear) and (statement.zeroed or isinstance(statement, ln.Clear)):
            in_row = isinstance(statement, ln.Clear) and statement.row is not None
            cleared[statement.buffer] = cleared.get(statement.buffer, 0) + (2 if in_row else 1)
    return {
        buffer: store
        for buffer, (store, *others) in stores.items()
        if not others and isinstance(store, ln.Accumulate) and store.op == "add" and cleared.get(buffer) == 1
    }


def _cleared(facts: Facts, block: ln.Block) -> Iterator[_Cleared]:
    for position, statement in enumerate(block):
        match statement:
            case ln.Allocate(buffer, zeroed=True) | ln.Clear(buffer, zeroed=True):
                yield _Cleared(buffer, facts, block[position + 1 :])
            case ln.For(body=body):
                yield from _cleared(facts.assume(statement.range), body)
            case ln.If(predicate, body):
                yield from _cleared(facts.assume(predicate), body)
            case ln.Allocate() | ln.Clear() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Free():
                pass
            case _:
                assert_never(statement)


# -- injectivity ------------------------------------------------------------------------------------------------------


def _reached_once(place: _Cleared, store: ln.Accumulate, scope: TextScope) -> _Reaching | None:
    """Return the store if different iterations of the loops around it are proved to reach different cells."""
    access = next((a for s in place.after for a in accesses_of(s, place.facts, scope) if _is(a, store)), None)
    if access is None:
        return None
    pairs = _pairs(access)
    free = frozenset().union(*(position.free for position, _ in pairs))
    if not all(loop.uid in free for loop in access.loops):
        return None
    found = preimage([position for position, _ in pairs], access.loops)
    if found is not None and _leads_back(access, found):
        return _Reaching(access, found)
    facts = same_cell_facts(pairs, access.facts, pairs, access.facts, access.loops)
    # For array elements only their declared order helps, so a thorough search would be in vain.
    thorough = not any(isinstance(atom, Read) for position, _ in pairs for atom in atoms(position))
    with without_smt():
        return _Reaching(access, found) if _are_one(facts, list(access.loops), thorough=thorough) else None


def _leads_back(access: Access, found: Preimage) -> bool:
    """Return whether the preimage is an inverse: then no other iteration reaches the cell of an iteration."""
    cells = {cell.atom: position for cell, (position, _) in zip(found.cell, _pairs(access), strict=True)}

    def leaf(at: Leaf) -> Index:
        return cells.get(at) or index(at)

    came = ((v, map_leaves(value, leaf)) for v, value in found.iteration.items())
    return all(proves(access.facts, equal(index(v), value), thorough=False) for v, value in came)


def _are_one(facts: Facts, loops: list[Var], *, thorough: bool) -> bool:
    """Return whether two iterations are proved equal, one variable after the other in any order."""
    while loops:
        here = next((v for v in loops if proves(facts, equal(index(v), other_run(v)), thorough=thorough)), None)
        if here is None:
            return False
        facts = facts.assume(equal(index(here), other_run(here)))
        loops = [each for each in loops if each != here]
    return True


def _is(access: Access, store: ln.Accumulate) -> bool:
    return access.how == "write" and access.statement is store


def _pairs(access: Access) -> Pairs:
    return access.storage.pairs if isinstance(access.storage, ln.Cell) else ()


# -- surjectivity -----------------------------------------------------------------------------------------------------


def _reaches_all(place: _Cleared, reaching: _Reaching) -> bool:
    """Return whether each cell is proved to be reached, by the iteration that the preimage gives for it."""
    access, found = reaching.access, reaching.preimage
    pairs = _pairs(access)
    if found is None or len(place.buffer.extents) != len(pairs):
        return False
    limits = [within(ZERO, at, extent) for at, extent in zip(found.cell, place.buffer.extents, strict=True)]
    facts = place.facts.assume(*limits)

    def leaf(at: Leaf) -> Index:
        return found.iteration.get(at) or index(at) if isinstance(at, Var) else index(at)

    # The facts in the loops but not before them: their ranges, and the conditions around the store.
    known = frozenset(place.facts.predicates)
    runs = [substitute_predicate(fact, leaf) for fact in access.facts.predicates if fact not in known]
    there = [equal(map_leaves(position, leaf), at) for (position, _), at in zip(pairs, found.cell, strict=True)]
    return all(proves(facts, goal, thorough=False) for goal in (*runs, *there))


# -- the nest ---------------------------------------------------------------------------------------------------------


def _block(block: ln.Block, single: frozenset[int], full: set[ln.Buffer]) -> ln.Block:
    return tuple(_statement(statement, single, full) for statement in block)


def _statement(statement: ln.Statement, single: frozenset[int], full: set[ln.Buffer]) -> ln.Statement:
    match statement:
        case ln.For(body=body) | ln.If(body=body):
            inner = _block(body, single, full)
            return statement if inner == body else ln.with_body(statement, inner)
        case ln.Accumulate(target, _, value):
            return ln.Assign(target, value) if id(statement) in single else statement
        case ln.Allocate(buffer) | ln.Clear(buffer):
            return replace(statement, zeroed=False) if buffer in full and statement.zeroed else statement
        case ln.Assign() | ln.Declare() | ln.Free():
            return statement
    assert_never(statement)
