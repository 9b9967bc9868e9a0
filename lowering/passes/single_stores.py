"""Scatters whose cells are each stored once: plain stores, and no zeros before them where all cells are reached."""

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
from lowering.nest.accesses import Access, accesses_of
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Buffer,
    Cell,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Statement,
    statements,
    with_body,
)
from lowering.nest.meeting import meeting, other
from lowering.nest.text_scope import TextScope, outermost
from lowering.passes.preimages import Preimage, preimage


def with_single_stores(nest: LoopNest) -> LoopNest:
    """The loop nest with `a[f(i)] = e` in place of `a[f(i)] += e` where no two iterations are proved to reach one cell.

    That is asked where nothing else stores to the buffer, which was empty before. So a generation that runs in another
    order, each element stored where it belongs, is stored as one in its own order is. Where moreover every cell is
    proved to be reached, the buffer is not cleared first.
    """
    added = _added_once(nest)
    if not added:
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    scope = outermost(nest)
    single: dict[int, bool] = {}
    places = [*_emptied(facts, nest.body), *([] if nest.complete else [_Emptied(nest.output, facts, nest.body)])]
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
class _Emptied:
    """A buffer that is empty, and the statements after that."""

    buffer: Buffer
    facts: Facts
    after: Block


@dataclass(frozen=True, slots=True)
class _Reaching:
    """A store of which no two runs reach one cell, and which of them reaches a given one, where that was found."""

    access: Access
    preimage: Preimage | None


def _added_once(nest: LoopNest) -> Mapping[Buffer, Accumulate]:
    """The buffers to which one statement adds, and no other one stores."""
    stores: dict[Buffer, list[Assign | Accumulate]] = {}
    emptied: dict[Buffer, int] = {nest.output: 1}
    for statement in statements(nest.body):
        if isinstance(statement, Assign | Accumulate) and isinstance(statement.target, Cell):
            stores.setdefault(statement.target.buffer, []).append(statement)
        elif isinstance(statement, Allocate | Clear) and (statement.zeroed or isinstance(statement, Clear)):
            in_row = isinstance(statement, Clear) and statement.row is not None
            emptied[statement.buffer] = emptied.get(statement.buffer, 0) + (2 if in_row else 1)
    return {
        buffer: store
        for buffer, (store, *others) in stores.items()
        if not others and isinstance(store, Accumulate) and store.op == "add" and emptied.get(buffer) == 1
    }


def _emptied(facts: Facts, block: Block) -> Iterator[_Emptied]:
    for position, statement in enumerate(block):
        match statement:
            case Allocate(buffer, zeroed=True) | Clear(buffer, zeroed=True):
                yield _Emptied(buffer, facts, block[position + 1 :])
            case For(body=body):
                yield from _emptied(facts.assume(statement.range), body)
            case If(predicate, body):
                yield from _emptied(facts.assume(predicate), body)
            case Allocate() | Clear() | Assign() | Accumulate() | Declare() | Free():
                pass
            case _:
                assert_never(statement)


# -- no cell twice ----------------------------------------------------------------------------------------------------


def _reached_once(place: _Emptied, store: Accumulate, scope: TextScope) -> _Reaching | None:
    """The store as an access, if two runs of the loops around it are proved to reach different cells."""
    access = next((a for s in place.after for a in accesses_of(s, place.facts, scope) if _is(a, store)), None)
    if access is None:
        return None
    pairs = _pairs(access)
    speaks_of = frozenset().union(*(position.free for position, _ in pairs))
    if not all(loop.uid in speaks_of for loop in access.loops):
        return None
    found = preimage([position for position, _ in pairs], access.loops)
    if found is not None and _leads_back(access, found):
        return _Reaching(access, found)
    facts = meeting(pairs, access.facts, pairs, access.facts, access.loops)
    # What is read of arrays is declared to rise or is not: there is no long search to be made.
    thorough = not any(isinstance(atom, Read) for position, _ in pairs for atom in atoms(position))
    with without_smt():
        return _Reaching(access, found) if _are_one(facts, list(access.loops), thorough=thorough) else None


def _leads_back(access: Access, found: Preimage) -> bool:
    """Whether the way back from the cell of an iteration leads to that iteration: then no other one reaches it."""
    cells = {cell.atom: position for cell, (position, _) in zip(found.cell, _pairs(access), strict=True)}

    def leaf(at: Leaf) -> Index:
        return cells.get(at) or index(at)

    came = ((v, map_leaves(value, leaf)) for v, value in found.iteration.items())
    return all(proves(access.facts, equal(index(v), value), thorough=False) for v, value in came)


def _are_one(facts: Facts, loops: list[Var], *, thorough: bool) -> bool:
    """Whether the runs are one: the variables are shown to be equal one after the other, in whatever order."""
    while loops:
        here = next((v for v in loops if proves(facts, equal(index(v), other(v)), thorough=thorough)), None)
        if here is None:
            return False
        facts = facts.assume(equal(index(here), other(here)))
        loops = [each for each in loops if each != here]
    return True


def _is(access: Access, store: Accumulate) -> bool:
    return access.how == "write" and access.statement is store


def _pairs(access: Access) -> Pairs:
    return access.storage.pairs if isinstance(access.storage, Cell) else ()


# -- every cell -------------------------------------------------------------------------------------------------------


def _reaches_all(place: _Emptied, reaching: _Reaching) -> bool:
    """Whether each cell is proved to be reached: by an iteration that is found from its indices, and then checked."""
    access, found = reaching.access, reaching.preimage
    pairs = _pairs(access)
    if found is None or len(place.buffer.extents) != len(pairs):
        return False
    limits = [within(ZERO, at, extent) for at, extent in zip(found.cell, place.buffer.extents, strict=True)]
    facts = place.facts.assume(*limits)

    def leaf(at: Leaf) -> Index:
        return found.iteration.get(at) or index(at) if isinstance(at, Var) else index(at)

    # What is known in the loops and not before them: their ranges, and the tests around the store.
    known = frozenset(place.facts.predicates)
    runs = [substitute_predicate(fact, leaf) for fact in access.facts.predicates if fact not in known]
    there = [equal(map_leaves(position, leaf), at) for (position, _), at in zip(pairs, found.cell, strict=True)]
    return all(proves(facts, goal, thorough=False) for goal in (*runs, *there))


# -- the nest ---------------------------------------------------------------------------------------------------------


def _block(block: Block, single: frozenset[int], full: set[Buffer]) -> Block:
    return tuple(_statement(statement, single, full) for statement in block)


def _statement(statement: Statement, single: frozenset[int], full: set[Buffer]) -> Statement:
    match statement:
        case For(body=body) | If(body=body):
            inner = _block(body, single, full)
            return statement if inner == body else with_body(statement, inner)
        case Accumulate(target, _, value):
            return Assign(target, value) if id(statement) in single else statement
        case Allocate(buffer) | Clear(buffer):
            return replace(statement, zeroed=False) if buffer in full and statement.zeroed else statement
        case Assign() | Declare() | Free():
            return statement
    assert_never(statement)
