"""Tactics for GPU kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from math import inf

from atl.core.index import ONE, Bound, factor_of
from atl.core.marks import BLOCKS, THREADS, AnyLoopMark, LetMark, LoopMark
from atl.core.terms import Access, Gen, Guard, Let, Reduce, Reshape
from atl.core.traversal import Path
from atl.errors import InvalidArgument, brief
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target, chosen, nothing_chosen, restrict
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.loops import as_bound, first_possible
from rewrites.tactics.nests.accumulation import accumulate
from rewrites.tactics.nests.tiling import as_targets, nested_loops, tile, tile_loop
from rewrites.tactics.operand_reads import operand_name, reads_of
from rewrites.tactics.simplification import find_lets, reduce_accesses, simplify_guards
from rewrites.tactics.storage.packing import pack_operand
from rewrites.tactics.storage.staging import stage, stage_at
from rewrites.tactics.tactic import tactic

# -- loops ------------------------------------------------------------------------------------------------------------


@tactic
def gpu_map(work: Derivation, name: arg.Loops, by: arg.Factors, *, in_: arg.Inside = None) -> None:
    """Tile loops and map the tiles to thread blocks: loops over tiles become blocks, loops within tiles become threads.

    ⊞[i < n] ⊞[j < m] e  →  … ⊞[io < _ | block.y] … ⊞[jo < _ | block.x] ⊞[ii < a | thread.y] ⊞[ji < b | thread.x] e

    At most three directly nested loops are mapped; the last one runs along x. `by` are the tile sizes. A list [64, 4]
    for a loop makes blocks of 64 iterations, of which each thread runs 4 adjacent ones.

    >>> s = reschedule(atl.parse("f (x : float32[n, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] 2 * x[i, j]"))
    >>> s.gpu_map(["i", "j"], [8, 32])
    f (x : float32[n, m]) : float32[n, m] :=
      truncr (8*⌈n / 8⌉ - n) flatten ⊞[io < ⌈n / 8⌉ | block.y] transpose truncr (32*⌈m / 32⌉ - m)
      flatten ⊞[jo < ⌈m / 32⌉ | block.x] transpose ⊞[ii < 8 | thread.y] ⊞[ji < 32 | thread.x]
      [32*jo + ji < m ∧ 8*io + ii < n] · 2 * x[8*io + ii, 32*jo + ji]
    """
    name = restrict(name, in_)
    names = as_targets(name)
    if not 1 <= len(names) <= len(BLOCKS):
        raise InvalidArgument(f"{len(names)} loops", required=f"one loop to {len(BLOCKS)}, the last one along x")
    factors = list(by) if len(names) > 1 and isinstance(by, list | tuple) else [by]
    if len(factors) != len(names):
        raise InvalidArgument(f"by={brief(by)} for {len(names)} loops", required="a factor for each loop, in a list")
    levels = [len(factor) if isinstance(factor, list | tuple) else 1 for factor in factors]

    def mapped(cursor: Cursor) -> None:
        tile(work, [cursor.path, *names[1:]] if len(names) > 1 else cursor.path, by)
        marks = _marks_of_levels(levels)
        for path, mark in zip(nested_loops(work, cursor.path, len(marks)), marks, strict=True):
            if mark is not LoopMark.NONE:
                work.mark(path, mark)

    first_possible(work, names[0], mapped)


def _marks_of_levels(levels: Sequence[int]) -> list[AnyLoopMark]:
    """Return the marks of tiled loops in the order of `tile`, given the number of tile levels of each loop."""
    axes = list(range(len(levels)))[::-1]
    marks: list[AnyLoopMark] = [BLOCKS[axis] for axis in axes]
    # Adjacent loops with a second level are tiled together: first their threads, then the loops within a thread.
    for _, run in groupby(zip(axes, levels, strict=True), key=lambda loop: loop[1] > 1):
        together = list(run)
        marks += [THREADS[axis] for axis, _ in together]
        marks += [LoopMark.NONE] * sum(count - 1 for _, count in together)
    return marks


@tactic
def coalesce(work: Derivation, what: arg.Element) -> None:
    """Map the x threads to the loop along which a read is contiguous in memory (memory coalescing).

    ⊞[i < 32 | thread.x] ⊞[j < 8 | thread.y] A[i, j]  →  ⊞[i < 32 | thread.y] ⊞[j < 8 | thread.x] A[i, j]

    The read is an element, selected by a pattern. The loop that had the x threads gets the mark of the new one.

    >>> s = reschedule(atl.parse(
    ...     "f (A : float32[n, 8]) : float32[n, 8] "
    ...     ":= ⊞[b < n | block.x] ⊞[i < 8 | thread.x] A[b, i] + Σ[j < 8] A[b, j]"))
    >>> s.coalesce("A[b, j]")
    f (A : float32[n, 8]) : float32[n, 8] :=
      ⊞[b < n | block.x] ⊞[i < 8] A[b, i] + Σ[j < 8 | thread.x] A[b, j]
    """
    found = list(chosen(work.goal, what, top_down=True))
    if not found:
        raise nothing_chosen(work.goal, what, operand=True)
    elements = [cursor for cursor in found if isinstance(cursor.term, Access) and not cursor.term.type.rank]
    if not elements:
        raise DoesNotApply(
            f"{what} is not an element",
            place=place_of(work.goal, found[0].path),
            required="a pattern such as A[_, _]",
        )
    for cursor in elements:
        loop = _contiguous_loop(cursor)
        if loop is None:
            raise DoesNotApply(
                f"no loop runs along the last index of {what}",
                place=place_of(work.goal, cursor.path),
                required="a loop inside a block whose index has coefficient 1 in that index",
            )
        _along_x(work, cursor, loop)


def _contiguous_loop(cursor: Cursor) -> Cursor | None:
    """Return the loop around an element along which adjacent memory is read."""
    assert isinstance(cursor.term, Access)
    around = [at for at in cursor.spine()[:-1] if isinstance(at.term, Gen | Reduce)][::-1]
    for position, at in enumerate(around):
        assert isinstance(at.term, Gen | Reduce)
        if at.term.mark not in BLOCKS and factor_of(cursor.term.index, Bound(position)) == ONE:
            return at
    return None


def _along_x(work: Derivation, cursor: Cursor, loop: Cursor) -> None:
    assert isinstance(loop.term, Gen | Reduce)
    mark = loop.term.mark
    for at in cursor.spine()[:-1]:
        if isinstance(at.term, Gen | Reduce) and at.term.mark is LoopMark.THREAD_X:
            work.mark(at.path, mark)
    work.mark(loop.path, LoopMark.THREAD_X)


# -- storage ----------------------------------------------------------------------------------------------------------


@tactic
def stage_shared(work: Derivation, what: arg.Operand, *, at: arg.Around, name: arg.NewName | None = None) -> None:
    """Copy the part of an operand that a block reads per iteration of a loop to shared memory (cache_read "shared").

    ⊞[io < _ | block.x] … A[16*io + ii, p] …  →
    ⊞[io < _ | block.x] let Ap | shared := … ⊞[p < _ | thread.x] [_] · A[16*io + ii, p] in … Ap[ii, p] …

    All threads of the block fill the tile. The operand is packed in reading order (`pack`): guards on the operand
    become zeros in the tile and are removed from the computation. The x threads fill along the loop that is contiguous
    in memory, the y threads along the longest other loop. A loop that may be longer than the block is tiled. If reads
    differ by a shift, such as x[i] and x[i + 1], only the first is copied; use `pad` for a tile with a border.

    >>> s = reschedule(atl.parse(
    ...     "f (x : float32[n, 16], y : float32[16, n]) : float32[n] := ⊞[i < n] Σ[p < 16] x[i, p] * y[p, i]"))
    >>> _ = s.gpu_map("i", 16)
    >>> s.stage_shared("x", at="io")
    f (x : float32[n, 16], y : float32[16, n]) : float32[n] :=
      truncr (16*⌈n / 16⌉ - n) flatten ⊞[io < ⌈n / 16⌉ | block.x]
        let xp | shared :=
          ⊞[ii < 16] ⊞[p < 16 | thread.x] [16*io + ii < n] · x[16*io + ii, p]
        in
        ⊞[ii < 16 | thread.x] [16*io + ii < n] · Σ[p < 16] xp[ii, p] * y[p, 16*io + ii]
    """
    threads = threads_of(work)
    if not threads:
        raise DoesNotApply(
            "no loop is mapped to threads", required='loops mapped to threads: s.gpu_map("i", 32), or marks, first'
        )
    _need_name(name)
    called = name or f"{operand_name(reads_of(work, what, ())[0])}p"
    pack_operand(work, what, at, name=called, converted=False)
    let = find_lets(work, called)[-1]
    _check_shared(work, let)
    work.mark(let.path, LetMark.SHARED)
    map_fill_to_threads(work, let, threads)


def _check_shared(work: Derivation, let: Cursor) -> None:
    """Raise `DoesNotApply` if the tile cannot be shared by all threads of a block."""
    assert isinstance(let.term, Let)
    called, place = let.term.name, place_of(work.goal, let.path)
    if not let.term.value.type.rank:
        raise DoesNotApply(
            f"{called} is a single element, since each iteration reads one element",
            place=place,
            required="at=… with a loop outside the loops that read the tile",
        )
    around = [at.term for at in let.spine()[:-1] if isinstance(at.term, Gen | Reduce)]
    threads = next((loop for loop in around if loop.mark in THREADS), None)
    if threads is None:
        return
    block = next((loop.name for loop in reversed(around) if loop.mark in BLOCKS), None)
    total = next((loop.name for loop in around if isinstance(loop, Reduce) and loop.mark not in THREADS), None)
    advice = [f'at="{block}"'] if block else []
    if block and total:
        advice.append(f's.stage_registers("{total}", at="{block}") first: the sum is then outside the threads')
    raise DoesNotApply(
        f"{called} would be inside the thread loop {threads.name}, so that each thread would have its own copy",
        place=place,
        required="a place outside all thread loops, since the threads of a block fill the tile together",
        suggestions=tuple(advice),
    )


def _need_name(name: object) -> None:
    if name is not None and type(name) is not str:
        raise InvalidArgument(f"name={brief(name)}", required="a name, as a string, or None")


def threads_of(work: Derivation) -> dict[AnyLoopMark, int]:
    """Return the number of threads of a block along each axis."""
    found: dict[AnyLoopMark, int] = {}
    for cursor in work.cursors(()):
        if isinstance(cursor.term, Gen | Reduce) and cursor.term.mark in THREADS:
            count = (cursor.term.high - cursor.term.low).constant
            found[cursor.term.mark] = max(found.get(cursor.term.mark, 1), count or 1)
    return found


def map_fill_to_threads(work: Derivation, let: Cursor, threads: dict[AnyLoopMark, int]) -> None:
    """Map the loops that fill a let to the threads of a block."""
    fill: list[tuple[Path, float]] = []
    path = (*let.path, 0)
    while isinstance(term := work.term(path), Gen | Guard | Reshape):
        if isinstance(term, Gen):
            work.mark(path, LoopMark.NONE)
            count = (term.high - term.low).constant
            fill.append((path, inf if count is None else count))
        path = (*path, 0)
    reads = [cursor for cursor in work.cursors(path) if isinstance(cursor.term, Access) and not cursor.term.type.rank]
    first = next((loop.path for cursor in reads if (loop := _contiguous_loop(cursor)) is not None), None)
    along = next((each for each in fill if each[0] == first), fill[-1] if fill else None)
    rest = sorted((each for each in fill if each is not along), key=lambda each: -each[1])
    axes = [mark for mark in THREADS if threads.get(mark, 1) > 1]
    assigned = list(zip(([along] if along else []) + rest, axes, strict=False))
    # Inner loops first, since tiling them does not move outer nodes.
    for (at, most), mark in sorted(assigned, key=lambda each: -len(each[0][0])):
        inner = at
        if most > threads[mark]:
            inner = tile_loop(work, at, as_bound(threads[mark], work.cursor(at)))
        work.mark(inner, mark)
    simplify_guards(work, (*let.path, 0))


@tactic
def stage_registers(work: Derivation, what: arg.Term, *, at: arg.Around, name: arg.NewName | None = None) -> None:
    """Keep a sum or a read operand in thread registers within each iteration of a loop (cache_write, cache_read
    "local").

    ⊞[ii < 4] ⊞[ji < 4] Σp e  →  let acc | registers := Σp ⊞[ii < 4] ⊞[ji < 4] e in ⊞[ii < 4] ⊞[ji < 4] acc[ii, ji]

    Sums are accumulated in the buffer (`accumulate`); anything else is staged (`stage`). Lowering distributes the
    elements over the threads, the same way at every access.

    >>> s = reschedule(atl.parse(
    ...     "f (x : float32[n, m]) : float32[n] := ⊞[i < n] Σ[j < m] x[i, j]")).gpu_map("i", [64, 2])
    >>> s.stage_registers("j", at="io")
    f (x : float32[n, m]) : float32[n] :=
      truncr (64*⌈n / 64⌉ - n) flatten ⊞[io < ⌈n / 64⌉ | block.x]
        let acc | registers :=
          Σ[j < m] ⊞[iio < 32 | thread.x] ⊞[iii < 2] [64*io + 2*iio + iii < n] ·
            x[64*io + 2*iio + iii, j]
        in
        flatten ⊞[iio < 32 | thread.x] ⊞[iii < 2] [64*io + 2*iio + iii < n] · acc[iio, iii]
    """
    sums = [
        cursor for cursor in chosen(work.goal, what) if isinstance(cursor.term, Reduce) and cursor.term.monoid == "sum"
    ]
    _need_name(name)
    called = name or ("acc" if sums else "kept")
    if sums:
        accumulate(work, what, at=at, name=called)
    else:
        stage(work, what, at=at, name=called)
    work.mark(find_lets(work, called)[-1].path, LetMark.REGISTERS)


# -- storage of buffers -----------------------------------------------------------------------------------------------


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
