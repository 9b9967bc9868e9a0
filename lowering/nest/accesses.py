"""Accesses of loop iterations to memory, and whether two may be to the same cell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, assert_never

from atl.core.index import ZERO, Bound, Index, Leaf, Size, Var, constant, index, map_leaves
from atl.core.marks import CONCURRENT
from atl.core.predicate import FALSE, Predicate, conjunction, equal, less, negation, within
from atl.core.predicate import substitute as substitute_predicate
from atl.core.reshape_definitions import Pairs
from atl.prove import Facts, Proved, Refuted, prove
from atl.prove.facts import Model
from lowering.nest import loopnest as ln
from lowering.nest.execution import AccessKind
from lowering.nest.loopnest import Block, Buffer, Cell, For, accessed, key, statements
from lowering.nest.text import TextScope, show_statement

# -- aliasing ---------------------------------------------------------------------------------------------------------


_OTHER: Final = 1 << 30
"""Offset of the ids of the second iteration's variables."""


def same_cell_facts(one: Pairs, facts: Facts, another: Pairs, known: Facts, loops: Collection[Var]) -> Facts:
    """Return the facts that hold where two accesses, each with its pairs and facts, are to the same cell.

    The second access is in another iteration of `loops`, whose variables are renamed by `other_run`.
    """
    own = {variable.uid for variable in loops}

    def renamed(leaf: Leaf) -> Index:
        return other_run(leaf) if isinstance(leaf, Var) and leaf.uid in own else index(leaf)

    pairs = zip(one, another, strict=True)
    same = conjunction(equal(a, map_leaves(b, renamed)) for (a, _), (b, _) in pairs)
    return facts.assume(*(substitute_predicate(fact, renamed) for fact in known.predicates)).assume(same)


def other_run(variable: Leaf) -> Index:
    """Return the variable of a loop in another iteration. Sizes are the same there."""
    match variable:
        case Var(uid, name):
            return index(Var(uid + _OTHER, f"{name}'"))
        case Size() | Bound():
            return index(variable)
        case _:
            assert_never(variable)


# -- accesses ---------------------------------------------------------------------------------------------------------


_ANY: Final = 1 << 29
"""First id of the variables that denote an arbitrary cell of a cleared buffer."""


@dataclass(frozen=True, slots=True)
class Access:
    """An access to storage, with the facts known there, the loops around it from the analysed one on, and its scope."""

    storage: ln.Cell | ln.Scalar
    how: AccessKind
    facts: Facts
    loops: tuple[Var, ...]
    statement: ln.Statement
    scope: TextScope = field(repr=False)

    @property
    def text(self) -> str:
        """The statement as the pseudocode of the loop nest shows it."""
        return show_statement(self.scope, self.statement)


def accesses(scope: TextScope, facts: Facts, loop: ln.For, *, inputs: bool = False) -> Iterator[Access]:
    """Yield the accesses of an iteration to storage that other iterations share.

    Storage that the iteration allocates is excluded, and so are inputs unless `inputs` is set.
    """
    own = {
        ln.key(made.buffer if isinstance(made, ln.Allocate) else made.variable)
        for made in ln.statements(loop.body)
        if isinstance(made, ln.Allocate | ln.Declare)
    }
    _, inside = scope.bind(loop.variable, loop.variable.name)
    place = _Context(facts.assume(loop.range), (loop.variable,), inside)
    for access in _in_block(place, loop.body):
        is_input = isinstance(access.storage, ln.Cell) and access.storage.buffer.role == "input"
        if (inputs or not is_input) and ln.accessed(access.storage) not in own:
            yield access


def accesses_of(scope: TextScope, facts: Facts, statement: ln.Statement) -> Iterator[Access]:
    """Yield all accesses of a statement, also to storage that it allocates. Their loops are those within it."""
    yield from _in_statement(_Context(facts, (), scope), statement)


@dataclass(frozen=True, slots=True)
class _Context:
    facts: Facts
    loops: tuple[Var, ...]
    scope: TextScope

    def under(self, predicate: Predicate) -> _Context:
        return replace(self, facts=self.facts.assume(predicate))

    def to(self, storage: ln.Cell | ln.Scalar, how: AccessKind, statement: ln.Statement) -> Access:
        return Access(storage, how, self.facts, self.loops, statement, self.scope)


def _in_block(place: _Context, block: ln.Block) -> Iterator[Access]:
    for statement in block:
        yield from _in_statement(place, statement)
        place = replace(place, scope=after(place.scope, statement))


def after(scope: TextScope, statement: ln.Statement) -> TextScope:
    """Return the scope of the next statement of a block, in which declarations of this one are visible."""
    match statement:
        case ln.Declare(variable):
            return scope.bind(ln.key(variable), variable.name)[1]
        case ln.Allocate(buffer):
            return scope.bind(ln.key(buffer), buffer.name)[1]
        case ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Clear() | ln.Free() | ln.Gather():
            return scope
    assert_never(statement)


def with_inner_block(facts: Facts, statement: ln.Statement, run: Callable[[Facts, Block], Block]) -> ln.Statement:
    """Apply a pass to the body of a loop or branch, with the facts that hold there; keep other statements."""
    match statement:
        case ln.For(body=body):
            return ln.with_body(statement, run(facts.assume(statement.range), body))
        case ln.If(predicate, body):
            return ln.with_body(statement, run(facts.assume(predicate), body))
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return statement
    assert_never(statement)


def with_inner_blocks(
    scope: TextScope, facts: Facts, block: Block, run: Callable[[TextScope, Facts, Block], Block]
) -> tuple[Block, list[TextScope]]:
    """Apply a pass to the bodies of a block's loops and branches; return its statements, and the scope after each."""
    out: list[ln.Statement] = []
    scopes: list[TextScope] = []
    for statement in block:
        scope = after(scope, statement)
        inside = scope.bind(statement.variable, statement.variable.name)[1] if isinstance(statement, For) else scope
        out.append(with_inner_block(facts, statement, partial(run, inside)))
        scopes.append(scope)
    return tuple(out), scopes


def _in_statement(place: _Context, statement: ln.Statement) -> Iterator[Access]:
    match statement:
        case ln.For(variable, body=body):
            _, scope = place.scope.bind(variable, variable.name)
            inside = replace(place.under(statement.range), loops=(*place.loops, variable), scope=scope)
            yield from _in_block(inside, body)
        case ln.If(predicate, body):
            yield from _in_block(place.under(predicate), body)
        case ln.Assign(target, value):
            yield from _in_scalar(place, value, statement)
            yield place.to(target, "write", statement)
        case ln.Accumulate(target, op, value):
            yield from _in_scalar(place, value, statement)
            yield place.to(target, op if isinstance(target, ln.Scalar) else "write", statement)
        case ln.Declare(_, initial):
            yield from _in_scalar(place, initial, statement)
        case ln.Clear(cell=ln.Cell() as cell):
            yield place.to(cell, "write", statement)
        case ln.Clear(buffer, row=row):
            any_of = tuple(Var(_ANY + at, f"at{at}") for at in range(len(buffer.extents)))
            pairs = tuple((index(at), extent) for at, extent in zip(any_of, buffer.extents, strict=True))
            facts = place.facts.assume(*(within(ZERO, at, extent) for at, extent in pairs))
            if row is not None:
                pairs = ((row, buffer.extents[0]), *pairs[1:])
            cleared = replace(place, facts=facts, loops=(*place.loops, *any_of))
            yield cleared.to(ln.Cell(buffer, pairs), "write", statement)
        case ln.Allocate() | ln.Free() | ln.Gather():
            return
        case _:
            assert_never(statement)


def _in_scalar(place: _Context, e: ln.ScalarExpr, statement: ln.Statement) -> Iterator[Access]:
    match e:
        case ln.Load(source):
            yield place.to(source, "read", statement)
        case ln.Number() | ln.FromIndex():
            return
        case ln.Apply(_, arguments):
            for argument in arguments:
                yield from _in_scalar(place, argument, statement)
        case ln.Choose(predicate, left, right):
            yield from _in_scalar(place.under(predicate), left, statement)
            yield from _in_scalar(place.under(negation(predicate)), right, statement)
        case ln.Convert(argument):
            yield from _in_scalar(place, argument, statement)
        case _:
            assert_never(e)


# -- storage shared by two tensors ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OverwrittenRead:
    """A read of a cell that may follow a store to it. `model` is a counterexample, if one is known.

    `at_once` is the concurrent loop, if the store precedes the read only because iterations may run in any order.
    """

    read: Access
    store: Access
    model: Model | None
    at_once: For | None


def find_overwritten_read(done: Sequence[Access], read: Buffer, stored: Buffer, block: Block) -> OverwrittenRead | None:
    """Return a read of buffer `read` that may follow a store to buffer `stored` at the same indices, if any.

    `done` are the accesses of a loop in the order of its text, and `block` is its body. The buffers have one shape.
    """
    at_once = {s.variable.uid: s for s in statements(block) if isinstance(s, For) and s.mark in CONCURRENT}
    unknown: OverwrittenRead | None = None
    for at, reading in enumerate(done):
        if reading.how != "read" or not _is_of(reading, read):
            continue
        for before, storing in enumerate(done):
            if storing.how == "read" or accessed(storing.storage) != key(stored):
                continue
            for facts, loop in _earlier(storing, reading, at_once, textually=before < at):
                answer = prove(facts, FALSE)
                if isinstance(answer, Refuted):
                    return OverwrittenRead(reading, storing, answer.model, loop)
                if not isinstance(answer, Proved):
                    unknown = unknown or OverwrittenRead(reading, storing, None, loop)
    return unknown


def _earlier(
    storing: Access, reading: Access, at_once: Mapping[int, For], *, textually: bool
) -> Iterator[tuple[Facts, For | None]]:
    """Yield the facts of each case in which both accesses are to one cell and the store precedes the read.

    The store is in an earlier iteration of a common loop, or in the same iteration and earlier in the text. For a
    concurrent loop, which is then returned with the facts, it may also be in a later iteration.
    """
    facts = same_cell_facts(_pairs(storing), storing.facts, _pairs(reading), reading.facts, reading.loops)
    for one, another in zip(storing.loops, reading.loops, strict=False):
        if one != another:
            break
        here, there = index(one), other_run(one)
        yield facts.assume(less(here, there)), None
        if one.uid in at_once:
            yield facts.assume(less(there, here)), at_once[one.uid]
        facts = facts.assume(equal(here, there))
    if textually:
        yield facts, None


def _is_of(access: Access, buffer: Buffer) -> bool:
    return isinstance(access.storage, Cell) and access.storage.buffer == buffer


def _pairs(access: Access) -> Pairs:
    """Return the pairs that identify the accessed element in memory; one row that is computed in place shares it."""
    if not isinstance(access.storage, Cell):
        return ()
    buffer = access.storage.buffer
    return access.storage.pairs[1:] if buffer.in_place and buffer.rows == 1 else access.storage.pairs


def pairs_in_memory(cell: Cell) -> Pairs:
    """Return the pairs that identify the location of a cell. Some rows of a circular buffer have one location."""
    rows = cell.buffer.rows
    if not rows:
        return cell.pairs
    (row, _), *rest = cell.pairs
    return (row % rows, constant(rows)), *rest
