"""Storage order and row padding of buffers; the loops that fill a buffer do not change."""

from __future__ import annotations

from collections.abc import Callable

from atl.core.terms import Gen, Let
from atl.core.traversal import Path
from atl.errors import InvalidArgument, brief
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.loops import as_bound
from rewrites.tactics.simplification import find_lets, reduce_accesses
from rewrites.tactics.storage.staging import stage_at
from rewrites.tactics.tactic import tactic


@tactic
def store_transposed(work: Derivation, name: arg.Let) -> None:
    """Store a let of rank two or more with its last two dimensions exchanged; the loops that fill it do not change.

    let x := e in … x[i, j] …  →  let x := transpose e in … x[j, i] …

    >>> s = reschedule(atl.parse(
    ...     "f (A : float32[4, 8]) : float32[8] := "
    ...     "let x := ⊞[i < 4] ⊞[j < 8] 2 * A[i, j] in Σ[i < 4] ⊞[j < 8] x[i, j]"))
    >>> s.store_transposed("x")
    f (A : float32[4, 8]) : float32[8] :=
      let x := transpose ⊞[i < 4] ⊞[j < 8] 2 * A[i, j] in Σ[i < 4] ⊞[j < 8] x[j, i]
    """

    def stored(matrix: Path) -> Path:
        work.rewrite("transpose_transpose", matrix, reverse=True)
        return (*matrix, 0)

    _rebind(work, name, stored)


@tactic
def pad_rows(work: Derivation, name: arg.Let, by: arg.Count = 1) -> None:
    """Store a let of rank two or more with `by` unused elements after each row, to avoid shared-memory bank conflicts.

    let x := e in … x[i, j] …  →  let x := transpose padr 1 transpose e in … x[i, j] …, with rows longer by 1

    Elements of a column then lie in different banks; without padding, a column of rows of 32 numbers is in one bank.
    The loops that fill the let do not change.

    >>> s = reschedule(atl.parse(
    ...     "f (A : float32[4, 8]) : float32[8] := "
    ...     "let x := ⊞[i < 4] ⊞[j < 8] 2 * A[i, j] in Σ[i < 4] ⊞[j < 8] x[i, j]"))
    >>> s.pad_rows("x")
    f (A : float32[4, 8]) : float32[8] :=
      let x := transpose padr 1 transpose ⊞[i < 4] ⊞[j < 8] 2 * A[i, j] in Σ[i < 4] ⊞[j < 8] x[i, j]
    """

    def stored(matrix: Path) -> Path:
        more = as_bound(by, work.cursor(matrix))
        if (more.constant or 0) < 1:
            raise InvalidArgument(f"rows padded by {brief(by)}", required="a positive number")
        work.rewrite("transpose_transpose", matrix, reverse=True)
        columns = (*matrix, 0)
        work.rewrite("truncr_padr", columns, reverse=True, k=more)
        padded = (*columns, 0)
        work.rewrite("transpose_transpose", padded, reverse=True)
        return (*padded, 0)

    _rebind(work, name, stored)


def _rebind(work: Derivation, name: Target, stored: Callable[[Path], Path]) -> None:
    """Bind another form of a let's value; `stored` rewrites a matrix to that form and returns its path."""

    def bound(let: Cursor) -> None:
        assert isinstance(let.term, Let)
        path, called, mark = let.path, let.term.name, let.term.mark
        matrix = (*path, 0)
        while work.term(matrix).type.rank > 2:
            # The outer dimensions are unchanged, and become loops.
            if not isinstance(work.term(matrix), Gen):
                work.rewrite("gen_eta", matrix, reverse=True)
            matrix = (*matrix, 0)
        if work.term(matrix).type.rank < 2:
            raise DoesNotApply(
                f"{called} has {'no' if not let.term.value.type.rank else 'a single'} row",
                place=place_of(work.goal, path),
                required="a let of rank two or more",
            )
        stage_at(work, stored(matrix), path, called)
        work.mark(path, mark)
        work.rewrite("unfold_let", (*path, 1))
        reduce_accesses(work, (*path, 1))

    work.try_each(find_lets(work, name), bound)
