"""Recurrences in blocks of rows. Sums over the rows of earlier blocks are computed for a whole block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from atl.core.index import ONE, ZERO, Bound, Index, atoms, bound, factor_of, imax, imin, shift
from atl.core.predicate import NonNegative, at_most, conjuncts
from atl.core.substitution import free_positions
from atl.core.terms import Access, Concat, Gen, Local, Rec, Reduce, Reshape
from atl.core.traversal import Path
from atl.errors import InvalidArgument
from atl.prove import lower_bound, upper_bound
from atl.text.printing import place_of, show_index
from rewrites.cursors.cursor import Cursor
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.rule_arguments import Argument, Function
from rewrites.tactics import arg
from rewrites.tactics.indices import closed
from rewrites.tactics.loops import as_bound, rebase
from rewrites.tactics.recurrences import find_recurrence
from rewrites.tactics.simplification import guard_reads, simplify_guards
from rewrites.tactics.storage import binding
from rewrites.tactics.storage.staging import guards_between, loops_around, loops_between, over_index
from rewrites.tactics.tactic import tactic

INIT: Final = 0
ROW: Final = 1
"""Positions of the parts of a recurrence."""


@tactic
def block_rows(work: Derivation, rows: arg.Recurrence, by: arg.Factor) -> None:
    """Compute a recurrence in blocks of `by` rows; sums over the rows of earlier blocks are computed for a whole block.

    rec[i < n] x in … Σ[j < i] L[i, j] * x[j]  →
    … rec[io < ⌈n/k⌉] xo in let panel := ⊞[ii < k] Σ[j < io*k] … in … rec[ii < k] x in … panel[ii] + Σ[j < ii] …

    The panels are ordinary sums of products, which other tactics tile. The last block may be shorter. The recurrence
    must begin without rows. `rows` names the recurrence or its tensor, which keeps its name in the blocks; so the
    blocks can be computed in smaller blocks by a second call.

    >>> s = reschedule(atl.parse(
    ...     "solve (L : float32[n, n], b : float32[n]) : float32[n] "
    ...     ":= rec[i < n] x from padding(float32[0]) in b[i] - Σ[j < i] L[i, j] * x[j]"))
    >>> s.block_rows("x", 8)
    solve (L : float32[n, n], b : float32[n]) : float32[n] :=
      truncr (8*⌈n / 8⌉ - n) flatten
        rec[io < ⌈n / 8⌉] xo from padding(float32[0, 8]) in
          padr (8 - min(n - 8*io, 8))
            let panel := ⊞[ii < min(n - 8*io, 8)] Σ[j < 8*io] L[8*io + ii, j] * xo[j // 8, j % 8] in
            rec[ii < min(n - 8*io, 8)] x from padding(float32[0]) in
              b[8*io + ii] - (panel[ii] + Σ[j < ii] L[8*io + ii, 8*io + j] * x[j])
    """
    cursor = find_recurrence(work, rows)
    size = as_bound(by, cursor)
    _check(work, cursor, size)
    term = cursor.term
    assert isinstance(term, Rec)
    work.rewrite("rec_strips", cursor.path, k=size)
    outer = (*cursor.path, 0, 0)
    inner = (*outer, ROW, 0)
    for path, suffix in ((outer, "o"), (inner, "i")):
        work.rename(path, f"{term.name}{suffix}")
        work.rename(path, term.rows if suffix == "i" else f"{term.rows}o", binder=1)
        work.attempt("gen_empty", (*path, INIT))
    _Block(work, outer, inner, size).separated()


def _check(work: Derivation, cursor: Cursor, size: Index) -> None:
    term = cursor.term
    assert isinstance(term, Rec)
    if not work.can_prove(cursor.path, at_most(ONE, size)):
        raise InvalidArgument(
            f"blocks of {show_index(cursor.scope.index(size))} rows",
            required="a number of rows that is proved positive",
        )
    if term.low != ZERO:
        low = show_index(cursor.scope.index(term.low))
        raise DoesNotApply(
            f"the recurrence begins with {low} rows",
            place=place_of(work.goal, cursor.path),
            required="a recurrence that begins without rows: rec(n, lambda p, y: …)",
        )


class _Block:
    """The recurrence within a block of rows, in a recurrence over blocks of `size` rows."""

    def __init__(self, work: Derivation, outer: Path, inner: Path, size: Index) -> None:
        self.work = work
        self.outer = outer
        self.inner = inner
        self.size = size
        self.panels = 0

    @property
    def row(self) -> Path:
        """The path of the row that is computed."""
        return (*self.inner, ROW)

    def separated(self) -> None:
        """Separate the sums over rows of earlier blocks, and compute each of them for the whole block."""
        work = self.work
        folds = [cursor.path for cursor in work.cursors(self.row) if isinstance(cursor.term, Reduce)]
        for fold in folds:
            cursor = work.cursor(fold)  # folds inside have been split
            if self._reads_rows_by_index(cursor):
                self._split(cursor)
        work.sweep(["concat_access_left", "concat_access_right"], self.row)
        work.sweep(["flatten_access"], self.row)
        while (path := next(self._panels(), None)) is not None:
            self._bind(path)
        if not self.panels:
            work.notes.append("no sum reads all rows of the earlier blocks, so nothing is computed for a whole block")

    def _depth(self, path: Path) -> tuple[int, int]:
        """Return the numbers of indices and tensors that are bound between the row and a place in it."""
        return binding.binders_between(self.work.term(self.row), path[len(self.row) :])

    def _reads_rows_by_index(self, cursor: Cursor) -> bool:
        """Return whether the index of a reduction selects rows of this and of earlier blocks."""
        for at in self.work.cursors(cursor.path):
            if isinstance(at.term, Access) and isinstance(at.term.tensor, Concat):
                left = at.term.tensor.left
                indices, _ = binding.binders_between(cursor.term, at.path[len(cursor.path) :])
                _, tensors = self._depth(at.path)
                if (
                    isinstance(left, Reshape)
                    and left.operand == Local(tensors + 1, left.operand.type)
                    and Bound(indices - 1) in atoms(at.term.index)
                ):
                    return True
        return False

    def _split(self, cursor: Cursor) -> None:
        """Split a reduction at the first row of the block."""
        assert isinstance(cursor.term, Reduce)
        indices, _ = self._depth(cursor.path)
        start = shift(self.size, indices + 2) * bound(indices + 1)
        name, monoid = cursor.term.name, cursor.term.monoid
        if self.work.attempt(f"split_{monoid}", cursor.path, k=start):
            for part in (0, 1):
                rebase(self.work, (*cursor.path, part))
                self.work.rename((*cursor.path, part), name)

    def _panels(self) -> Iterator[Path]:
        """Yield the reductions that read rows of earlier blocks, but no tensor that is bound in this block."""
        for cursor in self.work.cursors(self.row, top_down=True):
            _, tensors = self._depth(cursor.path)
            used = free_positions(cursor.term)[1]
            earlier = tensors + self.panels + 1
            if isinstance(cursor.term, Reduce) and earlier in used and min(used) > tensors:
                yield cursor.path

    def _bind(self, path: Path) -> None:
        """Bind the values of a term for all rows of the block before these."""
        work, at = self.work, path
        for position, name, low, high in self._dimensions(path):
            arguments: dict[str, Argument] = {
                "lo": low,
                "hi": high,
                "k": bound(position) - low,
                "e": Function(("index",), over_index(work.term(at), position)),
            }
            work.apply(work.rule("get_gen"), at, arguments, reverse=True)
            work.rename((*at, 0), name)
            at = (*at, 0)
        binding.bind(work, self.inner, at[len(self.inner) :], "panel")
        simplify_guards(work, (*self.inner, 0))
        guard_reads(work, (*self.inner, 0))  # a branch of a selection may be computed for more rows than before
        self.inner = (*self.inner, 1)
        self.panels += 1

    def _dimensions(self, path: Path) -> list[tuple[int, str, Index, Index]]:
        """Return the loops between the block and a term on which it depends: position, name and bounds, inside out.

        If the bounds depend on another loop between, they are the extremes over it.
        """
        work, cursor = self.work, self.work.cursor(path)
        scope, facts = cursor.scope, work.cursor(self.inner).scope.facts
        around = [at for at in loops_around(cursor) if len(at.path) >= len(self.inner)]
        used = free_positions(cursor.term)[0]
        found = []
        for at, (position, low, high) in zip(around[::-1], loops_between(work, path, self.inner), strict=True):
            if position not in used:
                continue
            first, end = map(scope.index, self._within_guards(path, position, low, high))
            ranges = [each.loop for each in around if each is not at]
            least, most = lower_bound(facts, first, ranges), upper_bound(facts, end, ranges)
            if least is None or most is None:
                raise DoesNotApply(
                    f"no bounds were found for the loop {at.called[0]} over the rows of a block",
                    place=place_of(work.goal, at.path),
                    required="bounds that are linear in the indices of other loops",
                )
            assert isinstance(at.term, Gen | Reduce | Rec)
            found.append((position, at.term.name, closed(least, scope), closed(most, scope)))
        return found

    def _within_guards(self, path: Path, position: int, low: Index, high: Index) -> tuple[Index, Index]:
        """Return the bounds of a loop with those that guards between the block and a place add."""
        for guard in guards_between(self.work, path, self.inner):
            for part in conjuncts(guard):
                if not isinstance(part, NonNegative):
                    continue
                sign = factor_of(part.expression, Bound(position))
                rest = ZERO if sign is None else part.expression - sign * bound(position)
                if sign == ONE:
                    low = imax(low, -rest)
                elif sign == -ONE:
                    high = imin(high, rest + 1)
        return low, high
