"""Accesses of loop iterations to cells of buffers and scalar variables that outlive the iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from atl.core.index import ZERO, Var, index
from atl.core.predicate import Predicate, negation, within
from atl.prove import Facts
from lowering.nest import loopnest as ln
from lowering.nest.pseudocode import show_statement
from lowering.nest.races import AccessKind
from lowering.nest.text_scope import TextScope

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


def accesses(loop: ln.For, facts: Facts, scope: TextScope, *, inputs: bool = False) -> Iterator[Access]:
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


def accesses_of(statement: ln.Statement, facts: Facts, scope: TextScope) -> Iterator[Access]:
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
        case ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Clear() | ln.Free():
            return scope
    assert_never(statement)


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
        case ln.Clear(buffer, row=row):
            any_of = tuple(Var(_ANY + at, f"at{at}") for at in range(len(buffer.extents)))
            pairs = tuple((index(at), extent) for at, extent in zip(any_of, buffer.extents, strict=True))
            facts = place.facts.assume(*(within(ZERO, at, extent) for at, extent in pairs))
            if row is not None:
                pairs = ((row, buffer.extents[0]), *pairs[1:])
            cleared = replace(place, facts=facts, loops=(*place.loops, *any_of))
            yield cleared.to(ln.Cell(buffer, pairs), "write", statement)
        case ln.Allocate() | ln.Free():
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
