"""In which order a buffer is stored, and with how much room between its rows; what fills it stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atl.core.terms import Gen, Let
from atl.core.traversal import Path
from atl.errors import InvalidArgument, brief
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics.loops import as_bound
from rewrites.tactics.simplification import lets_called, reduce_accesses
from rewrites.tactics.storage.staging import stage_at


def store_transposed(work: Derivation, name: Target) -> None:
    """Stores a let of rank two or more with its last two dimensions exchanged; the loops that fill it stay as they are.

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

    _stored_anew(work, name, stored)


def pad_rows(work: Derivation, name: Target, by: Any = 1) -> None:
    """Stores a let of rank two or more with room for `by` more elements after each row, which nobody reads.

    let x := e in … x[i, j] …  →  let x := transpose padr 1 transpose e in … x[i, j] …, where rows are longer by 1

    So the elements of a column lie in different banks of the shared memory of a GPU: without it, those of a column of
    rows of 32 numbers are all in one. The loops that fill the let stay as they are.

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
            raise InvalidArgument(f"rows padded by {brief(by)}", required="a number from 1 on")
        work.rewrite("transpose_transpose", matrix, reverse=True)
        columns = (*matrix, 0)
        work.rewrite("truncr_padr", columns, reverse=True, k=more)
        padded = (*columns, 0)
        work.rewrite("transpose_transpose", padded, reverse=True)
        return (*padded, 0)

    _stored_anew(work, name, stored)


def _stored_anew(work: Derivation, name: Target, stored: Callable[[Path], Path]) -> None:
    """Binds another form of a let's value in its place; `stored` makes it of a matrix, and tells the path of it."""

    def bound(let: Cursor) -> None:
        assert isinstance(let.term, Let)
        path, called, mark = let.path, let.term.name, let.term.mark
        matrix = (*path, 0)
        while work.term(matrix).type.rank > 2:
            # The outer dimensions stay, and are those of loops.
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

    work.try_each(lets_called(work, name), bound)
