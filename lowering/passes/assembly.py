"""Assembly of a sparse result: the proofs that choose how its rows are stored, and the statements that end rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from atl.checks.scope import initial_facts
from atl.core.index import ZERO, Index
from atl.core.marks import LoopMark
from atl.core.predicate import less
from atl.core.program import Assembly
from atl.prove import Facts, Proved, holds
from lowering.nest import loopnest as ln
from lowering.nest.assembly import column_of, is_union, row_of, stores
from lowering.nest.marked_loops import Finger, Merge, is_merge, merge_at
from lowering.nest.obligations import rises
from lowering.nest.tiles import stores_to


def with_assembled_rows(nest: ln.LoopNest) -> ln.LoopNest:
    """Add the statements that end the rows of an assembled output.

    Rows come one after another if each outer loop with stores has one row in each iteration, proved to increase, and
    the rows of each loop are proved to precede those of the next one. Otherwise they are counted, also if nothing is
    stored.
    """
    if nest.assembly is None:
        return nest
    analysis = _Analysis(nest.output, nest.assembly, nest.strict_keys)
    facts = initial_facts(nest.assumptions, nest.inputs)
    rows = analysis.rows(nest.body, facts)
    if rows is None or not rows.found:
        repeats = analysis.repeats(nest.body, facts)
        return replace(nest, body=(*nest.body, ln.Gather(nest.output, None, "counted", repeats)))
    kinds = [analysis.kind(row.block, row.facts) for row in rows.found]
    kind: ln.RowStorageKind = "gathered" if "gathered" in kinds else "union" if "union" in kinds else "appended"
    ends = {id(row.loop): ln.Gather(nest.output, row.index, kind) for row in rows.found}
    if rows.is_vector:
        return replace(nest, body=(*nest.body, *ends.values()))
    return replace(nest, body=_ended(nest.body, ends))


def _ended(block: ln.Block, ends: dict[int, ln.Gather]) -> ln.Block:
    """Add a statement to the end of each loop over rows."""
    return tuple(
        ln.with_body(each, (*each.body, ends[id(each)]))
        if isinstance(each, ln.For) and id(each) in ends
        else ln.with_body(each, _ended(each.body, ends))
        if isinstance(each, ln.If)
        else each
        for each in block
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """The statements that store the entries of a row, with the facts there, and the loop over such rows, if any."""

    index: Index
    block: ln.Block
    facts: Facts
    loop: ln.For | None = None


@dataclass(frozen=True, slots=True)
class _Rows:
    """The loops over rows of a nest, in order. A vector is one row, and has no loop over rows."""

    found: Sequence[_Row]
    is_vector: bool = False


@dataclass(frozen=True, slots=True)
class _Chain:
    """A loop, or a merge, whose iterations store at most one element each, in increasing columns; or a single store."""

    column: Index
    facts: Facts


@dataclass(frozen=True, slots=True)
class _Analysis:
    """Proofs about the stores to an output."""

    output: ln.Buffer
    assembly: Assembly
    strict_keys: frozenset[object]

    # -- rows ---------------------------------------------------------------------------------------------------------

    def rows(self, block: ln.Block, facts: Facts) -> _Rows | None:
        """Return the loops over rows, if rows come one after another."""
        if len(self.assembly.order) == 1:
            return _Rows([_Row(ZERO, block, facts)], is_vector=True)
        found = self._loops(block, facts)
        if found is None:
            return None
        for number, one in enumerate(found):
            for other in found[number + 1 :]:
                if not holds(one.facts.assume(*other.facts.predicates), less(one.index, other.index)):
                    return None
        return _Rows(found)

    def _loops(self, block: ln.Block, facts: Facts) -> list[_Row] | None:
        out: list[_Row] = []
        for statement in block:
            if not stores_to(statement, self.output):
                continue
            match statement:
                case ln.If(predicate, body):
                    inner = self._loops(body, facts.assume(predicate))
                    if inner is None:
                        return None
                    out += inner
                case ln.For(mark=LoopMark.NONE | LoopMark.UNROLL | LoopMark.PARALLEL):
                    row = self._row(statement, facts)
                    if row is None:
                        return None
                    out.append(row)
                case (
                    ln.For() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free()
                    | ln.Gather()
                ):  # fmt: skip
                    return None
                case _:
                    assert_never(statement)
        return out

    def _row(self, loop: ln.For, facts: Facts) -> _Row | None:
        """Return the row of a loop's iterations, if it is the same for all stores in it, and increases."""
        first, *others = {row_of(cell.pairs, self.assembly) for cell in stores(loop.body, self.output)}
        if others or first.free != {loop.variable.uid}:
            return None
        if not isinstance(rises(Finger(loop, (first,)), facts, strict=True), Proved):
            return None
        return _Row(first, loop.body, facts.assume(loop.range), loop)

    # -- columns ------------------------------------------------------------------------------------------------------

    def kind(self, block: ln.Block, facts: Facts) -> Literal["appended", "union", "gathered"]:
        """Return how a row is stored whose entries a block stores."""
        parts = [each for each in block if stores_to(each, self.output)]
        chains = [self._chain(each, facts) for each in parts]
        found = [each for each in chains if each is not None]
        if len(found) < len(chains):
            return "gathered"
        if all(
            holds(one.facts.assume(*other.facts.predicates), less(one.column, other.column))
            for number, one in enumerate(found)
            for other in found[number + 1 :]
        ):
            return "appended"
        return "union" if is_union(block, self.output) else "gathered"

    def _chain(self, statement: ln.Statement, facts: Facts, around: Finger | None = None) -> _Chain | None:
        """Return the columns that a statement stores, if it stores each at most once and they are proved to increase.

        `around` is the loop around the statement whose position determines the column.
        """
        match statement:
            case ln.Assign(ln.Cell() as cell) | ln.Accumulate(ln.Cell() as cell, "add" | "sub"):
                column = column_of(cell.pairs, self.assembly)
                if around is None:
                    return _Chain(column, facts)
                increases = rises(replace(around, key=(column,)), facts, strict=True)
                return _Chain(column, facts) if isinstance(increases, Proved) else None
            case ln.If(predicate, body):
                return self._only(body, facts.assume(predicate), around)
            case ln.For() if around is not None:
                return None
            case ln.For() if is_merge(statement):
                merge = merge_at(statement)
                if not isinstance(merge, Merge) or any(each.variable not in self.strict_keys for each in merge.fingers):
                    return None
                inside = facts.assume(*merge.ranges, *merge.conditions)
                return self._only(merge.body, inside, merge.fingers[0])
            case ln.For(mark=LoopMark.NONE | LoopMark.UNROLL):
                return self._only(statement.body, facts.assume(statement.range), Finger(statement, (ZERO,)))
            case ln.For() | ln.Assign() | ln.Accumulate():
                return None
            case ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                raise AssertionError("the statement does not store to the output")
            case _:
                assert_never(statement)

    def _only(self, block: ln.Block, facts: Facts, around: Finger | None) -> _Chain | None:
        parts = [each for each in block if stores_to(each, self.output)]
        return self._chain(parts[0], facts, around) if len(parts) == 1 else None

    # -- counted rows -------------------------------------------------------------------------------------------------

    def repeats(self, block: ln.Block, facts: Facts) -> Literal["none", "adjacent", "any"]:
        """Return which cells of counted rows may be stored several times.

        If the columns come one after another, as in a transposition, the stores to a row are sorted by their column.
        """
        if len(self.assembly.order) != 2:
            return "any"
        turned = replace(self, assembly=replace(self.assembly, order=self.assembly.order[::-1]))
        columns = turned.rows(block, facts)
        if columns is None:
            return "any"
        once = all(turned.kind(each.block, each.facts) == "appended" for each in columns.found)
        return "none" if once else "adjacent"
