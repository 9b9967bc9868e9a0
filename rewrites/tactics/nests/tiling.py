"""Tiling of one loop or of directly nested loops, generations and sums alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from math import prod
from typing import Any, assert_never, cast

from atl.core.index import ZERO, Bound, Index, Leaf, Size, atoms, bound, index, shift
from atl.core.marks import AnyLoopMark, CallMark, LoopMark
from atl.core.predicate import at_most
from atl.core.substitution import transform
from atl.core.terms import Gen, Guard, Let, Reduce, Reshape, TruncateRight
from atl.core.traversal import Path
from atl.errors import ATLError, InvalidArgument
from atl.text.printing import place_of, show_index
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Handle, Target, restrict
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.rule_arguments import Argument, Function
from rewrites.tactics import arg
from rewrites.tactics.indices import simplify_conditions, simplify_indices
from rewrites.tactics.loops import as_bound, find_loops, first_possible, rebase
from rewrites.tactics.nests.interchange import swap
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.storage.binding import binders_between
from rewrites.tactics.tactic import tactic


@tactic
def tile(work: Derivation, name: arg.Loops, by: arg.Factors, *, in_: arg.Inside = None) -> None:
    """Tile a loop by `by` iterations (loop tiling, strip-mining); the loops of i are called io and ii.

    ⊞[i < n] e(i)  →  truncr (⌈n/k⌉*k - n) (flatten ⊞[io < ⌈n/k⌉] ⊞[ii < k] [io*k + ii < n] · e(io*k + ii))

    A sum becomes two nested sums. A maximum, minimum or product gets a bound instead of a guard, since a false guard
    would count as zero.

    max[i < n] e(i)  →  max[io < ⌈n/k⌉] max[ii < min(k, n - io*k)] e(io*k + ii)

    For several directly nested loops, the loops over tiles come first, then those within tiles: b, i and j become bo,
    io, jo, bi, ii, ji.

    For multi-level tiling, the factors of a loop are a list, outermost first. With [64, 8] for i and 32 for j, the
    loops become io, jo, iio, iii, ji. On each level, adjacent loops are tiled together.

    The marks `parallel` and those of GPU blocks move to the loop over tiles. The marks `vector`, `unroll` and those of
    GPU threads move to the loop within a tile.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    >>> s.tile("i", 8)
    f (x : float32[n]) : float32[n] :=
      truncr (8*⌈n / 8⌉ - n) flatten ⊞[io < ⌈n / 8⌉] ⊞[ii < 8] [8*io + ii < n] · 2 * x[8*io + ii]
    """
    name = restrict(name, in_)
    names = as_targets(name)
    factors = _factors(name, by, len(names))
    inner = [{cursor.path for cursor in find_loops(work, each)} for each in names[1:]]

    def tiled(cursor: Cursor) -> None:
        _check_nested(work, cursor, names, inner)
        _tile_levels(work, cursor.path, factors)
        simplify_guards(work, ())

    first_possible(work, names[0], tiled)


def _factors(name: Target | Sequence[Target], by: Any, count: int) -> list[list[Any]]:
    """Return the factors of each loop, outermost tiles first."""
    alone = count == 1 and (isinstance(name, str | Handle) or _is_path(name))
    each = [by] if alone else list(by) if isinstance(by, list | tuple) else [by] * count
    if count != len(each):
        raise InvalidArgument(f"{count} loops and {len(each)} factors", required="a factor for each loop")
    levels = [list(factors) if isinstance(factors, list | tuple) else [factors] for factors in each]
    if not all(levels):
        raise InvalidArgument(
            "a loop without a factor", required="a factor for each loop, or a list with the outermost first"
        )
    return levels


def _tile_levels(work: Derivation, path: Path, factors: Sequence[Sequence[Any]]) -> None:
    """Tile the loops nested at a path by their first factors, then the inner loops by the remaining factors."""
    sizes = [as_bound(levels[0], work.cursor(path)) for levels in factors]
    if len(sizes) == 1:
        tile_loop(work, path, sizes[0])
    else:
        _Nest(work, path, sizes).tiled()
    within = nested_loops(work, path, 2 * len(sizes))[len(sizes) :]
    rest = [(at, levels[1:]) for at, levels in zip(within, factors, strict=True)]
    # Inner loops first, since tiling them does not move outer nodes.
    for deeper, run in reversed([(key, list(run)) for key, run in groupby(rest, key=lambda loop: bool(loop[1]))]):
        if deeper:
            _tile_levels(work, run[0][0], [levels for _, levels in run])


def nested_loops(work: Derivation, path: Path, count: int) -> list[Path]:
    """Return the first `count` loops from the one at a path on, with guards and reshape operators between."""
    found: list[Path] = []
    while len(found) < count:
        if isinstance(work.term(path), Gen | Reduce):
            found.append(path)
        path = (*path, 0)
    return found


def as_targets(name: Target | Sequence[Target]) -> list[Target]:
    """Convert the argument `name` of a tactic to a list of targets; a tuple of integers is a path."""
    if isinstance(name, str | Handle) or not isinstance(name, list | tuple):
        return [cast("Target", name)]
    if _is_path(name):
        return [tuple(position for position in name if isinstance(position, int))]
    if any(isinstance(position, int) for position in name):
        raise InvalidArgument(
            f"{list(name)} is neither a path nor a list of loops",
            required="positions only, or names, patterns, handles and paths",
        )
    return [each for each in name if not isinstance(each, int)]


def _is_path(name: Target | Sequence[Target]) -> bool:
    return isinstance(name, list | tuple) and all(isinstance(position, int) for position in name)


def _check_nested(work: Derivation, cursor: Cursor, names: Sequence[Target], inner: Sequence[set[Path]]) -> None:
    """Raise `DoesNotApply` unless each loop is directly inside the previous one, with at most guards between."""
    for name, paths in zip(names[1:], inner, strict=False):
        below = cursor.child(0)
        while isinstance(below.term, Guard):
            below = below.child(0)
        if below.path not in paths:
            between = f": the let {below.called[0]} is between them" if isinstance(below.term, Let) else ""
            raise DoesNotApply(
                f"the loop {name} is not directly inside the loop {cursor.called[0]}{between}",
                place=place_of(work.goal, below.path),
                required="directly nested loops, in order",
                suggestions=("s.interchange(…) changes the order of two loops; or tile them one by one",),
            )
        cursor = below


def tile_loop(work: Derivation, path: Path, by: Index) -> Path:
    """Tile the loop at a path; return the path of the loop within a tile."""
    term = work.term(path)
    assert isinstance(term, Gen | Reduce)
    _check_size(work, path, by)
    hint, mark = term.name, term.mark
    if isinstance(term, Reduce):
        rebase(work, path)
        work.rewrite(f"tile_{term.monoid}", path, k=by)
        outer = path
    else:
        work.rewrite("truncr_flatten_split", path, reverse=True, k=by)
        split = (*path, 0, 0)
        work.rewrite("unfold_split", split)
        work.rewrite("get_gen", (*split, 0, 0, 0))
        outer = split
        match work.term(path):
            case Reshape(TruncateRight(amount)) if amount == ZERO:
                work.rewrite("truncr_zero", path)
                outer = (*path, 0)
            case _:
                pass
    inner = (*outer, 0)
    work.rename(outer, f"{hint}o")
    work.rename(inner, f"{hint}i")
    for at, given in zip((outer, inner), marks_of_tiles(mark), strict=True):
        work.mark(at, given)
    return inner


def marks_of_tiles(mark: AnyLoopMark) -> tuple[AnyLoopMark, AnyLoopMark]:
    """Return the marks of the loop over tiles and of the loop within a tile for a loop's mark.

    Ranks, CPU threads and blocks run whole tiles; vector lanes, GPU threads and unrolling apply within a tile.
    """
    match mark:
        case LoopMark.NONE | LoopMark.PARALLEL | LoopMark.MERGE | LoopMark.RUNS:
            return mark, LoopMark.NONE
        case LoopMark.DEVICE_X | LoopMark.DEVICE_Y | LoopMark.DEVICE_Z:
            return mark, LoopMark.NONE
        case LoopMark.BLOCK_X | LoopMark.BLOCK_Y | LoopMark.BLOCK_Z:
            return mark, LoopMark.NONE
        case LoopMark.VECTOR | LoopMark.STREAM | LoopMark.UNROLL | CallMark():
            return LoopMark.NONE, mark
        case LoopMark.THREAD_X | LoopMark.THREAD_Y | LoopMark.THREAD_Z:
            return LoopMark.NONE, mark
        case _:
            assert_never(mark)


def _check_size(work: Derivation, path: Path, by: Index) -> None:
    shown = show_index(work.cursor(path).scope.index(by))
    if by.constant is not None and by.constant < 1:
        raise InvalidArgument(f"a tile of {shown} iterations", required="a tile of at least one iteration")
    if not work.can_prove(path, at_most(index(1), by)):
        known = set(work.goal.sizes)
        new = [at.name for at in atoms(by) if isinstance(at, Size) and at.minimum and at.name not in known]
        known_inside = any(isinstance(at, Bound) for at in atoms(by))
        why = f"; min= of {new[0]} has no effect, since {new[0]} is not a size of {work.goal.name}" if new else ""
        raise DoesNotApply(
            f"a tile of {shown} iterations may be empty",
            required=f"{shown} > 0{why}",
            suggestions=() if known_inside else (f"assume it at the start: reschedule(…, given=[{shown} > 0])",),
        )


def _seen_from(work: Derivation, outer: Path, inside: Path, size: Index) -> Index:
    """Rewrite an index for use at a place inside another one."""
    return shift(size, binders_between(work.term(outer), inside[len(outer) :])[0])


# -- several loops ----------------------------------------------------------------------------------------------------


class _Nest:
    """Tiles directly nested loops: first the loops over tiles in order, then the loops within tiles.

    A sum can be interchanged with any loop inside it. Interchanging two generations leaves a transpose around them, and
    a transpose affects only the outermost two dimensions. So while further loops are tiled, the loops within tiles are
    fused into one loop, which is unfused at the end.
    """

    # Example: three generations i, j and k with tiles of 4. Each line is the child of the line above; guards and
    # truncations are omitted. The arrow marks the path `within` of the loop within tiles, which is called b if it is
    # the fusion of several. Each swap moves it one loop inward.
    #
    #     i tiled     i swapped    j tiled      fused             b swapped         k tiled      unfused
    #
    #     flatten     flatten      flatten      flatten           flatten           flatten      flatten
    #     ⊞[io]       ⊞[io]        ⊞[io]        ⊞[io]             ⊞[io]             ⊞[io]        ⊞[io]
    #     ⊞[ii]  ←    transpose    transpose    transpose         transpose         transpose    transpose
    #     ⊞[j]        ⊞[j]         flatten      flatten           flatten           flatten      flatten
    #     ⊞[k]        transpose    ⊞[jo]        ⊞[jo]             ⊞[jo]             ⊞[jo]        ⊞[jo]
    #                 ⊞[k]         ⊞[ji]  ←     transpose         transpose         transpose    transpose
    #                 ⊞[ii]  ←     transpose    split             split             split        split
    #                              ⊞[k]         ⊞[b < 4*4]  ←     transpose         transpose    transpose
    #                              ⊞[ii]        ⊞[k]              ⊞[k]              flatten      flatten
    #                                                             ⊞[b < 4*4]  ←     ⊞[ko]        ⊞[ko]
    #                                                                               ⊞[ki]  ←     transpose
    #                                                                               ⊞[b]         flatten
    #                                                                                            ⊞[ii]  ←
    #                                                                                            ⊞[ji]
    #                                                                                            ⊞[ki]

    def __init__(self, work: Derivation, path: Path, sizes: Sequence[Index]) -> None:
        self.work = work
        self.path = path
        self.sizes = sizes
        at, self.names, self.marks, self.is_gen = path, list[str](), list[AnyLoopMark](), list[bool]()
        for _ in sizes:
            at = self._past_guards(at)
            term = work.term(at)
            assert isinstance(term, Gen | Reduce)
            self.names.append(term.name)
            self.marks.append(term.mark)
            self.is_gen.append(isinstance(term, Gen))
            at = (*at, 0)
        self.gens = [loop for loop, is_gen in enumerate(self.is_gen) if is_gen]
        self.sums = [loop for loop, is_gen in enumerate(self.is_gen) if not is_gen]

    def tiled(self) -> None:
        """Tile all loops."""
        for done, loop in enumerate(self.sums):
            self._tile_sum(loop, done)
        if self.gens:
            self._restore_order(self._tile_generations())
        self.work.sweep(["guard_guard"], self.path)

    def _past_guards(self, path: Path) -> Path:
        while isinstance(self.work.term(path), Guard | Reshape):
            path = (*path, 0)
        return path

    def _swap(self, path: Path) -> Path:
        """Interchange the loop at a path with the one inside it; return the new path of the loop."""
        outer = self.work.term(path)
        inner = self.work.term(self._past_guards((*path, 0)))
        try:
            return (*swap(self.work, path), 0)
        except ATLError as error:
            pair = [at.name if isinstance(at, Gen | Reduce) else "?" for at in (outer, inner)]
            raise DoesNotApply(
                f"tiling must interchange the loops {pair[0]} and {pair[1]}, but cannot: {error.summary}",
                place=error.place,
                required="generations and sums whose bounds do not depend on each other",
                suggestions=("tile the loops one by one",),
            ) from error

    def _tile_sum(self, loop: int, done: int) -> None:
        """Tile a sum before the generations are tiled, and move the sum within a tile innermost."""
        at = self.path
        for _ in range(loop):
            at = self._past_guards((*at, 0))
        inner = tile_loop(self.work, at, _seen_from(self.work, self.path, at, self.sizes[loop]))
        for _ in range(len(self.sizes) - 1 - loop + done):
            inner = self._swap(inner)

    def _tile_generations(self) -> Path:
        """Tile the generations, outermost first; return the path of the first loop within tiles."""
        last, at, within = self.gens[-1], self.path, self.path
        for loop in range(last + 1):
            at = self._past_guards(at)
            if not self.is_gen[loop]:
                at = (*at, 0)
                continue
            within = tile_loop(self.work, at, _seen_from(self.work, self.path, at, self.sizes[loop]))
            rest = last - loop
            if loop != self.gens[0]:
                within = self._fuse_tiles(within, rest) if rest else self._unfuse_tiles(within)
            at = (*within, 0) if not rest else within
            for _ in range(rest):
                within = self._swap(within)
        return self._sums_outside(within)

    def _fuse_tiles(self, inner: Path, rest: int) -> Path:
        """Fuse the loop within a tile with the one that contains the previous ones: ⊞ii … ⊞b e → … split ⊞[b] e."""
        path = (*inner, 0)
        found = []
        for _ in range(rest):
            path = self._past_guards(path)
            found.append(path)
            path = (*path, 0)
        for loop in reversed(found):
            if isinstance(self.work.term(loop), Gen):
                self.work.rewrite("gen_interchange", loop[:-1], reverse=True)
            else:
                self._swap(loop)
        within = swap(self.work, inner)
        self.work.rewrite("gen_collapse", within)
        return (*within, 0)

    def _unfuse_tiles(self, inner: Path) -> Path:
        """Split the fused loop into the loops within tiles, except the last: ⊞ii ⊞[b] e → … ⊞bi … ⊞ii e."""
        first = swap(self.work, inner)
        for count in range(len(self.gens) - 2, 0, -1):
            sizes = [_seen_from(self.work, self.path, first, self.sizes[loop]) for loop in self.gens[: count + 1]]
            self._split(first, prod(sizes[:-1], start=index(1)), sizes[-1])
            first = (*first, 0)
        at = first
        for loop in self.gens:
            at = self._past_guards(at)
            self.work.rename(at, f"{self.names[loop]}i")
            self.work.mark(at, marks_of_tiles(self.marks[loop])[1])
            at = (*at, 0)
        return first

    def _split(self, path: Path, rows: Index, by: Index) -> None:
        """Split a loop: ⊞[p < n*k] e(p) → flatten ⊞[q < n] ⊞[r < k] e(q*k + r)."""
        term = self.work.term(path)
        assert isinstance(term, Gen)
        arguments: dict[str, Argument] = {
            "n": rows,
            "m": by,
            "e": Function(("index", "index"), transform(term.body, partial(_digits, by))),
        }
        self.work.apply(self.work.rule("flatten_gen_gen"), path, arguments, reverse=True)
        simplify_indices(self.work, (*path, 0))
        simplify_conditions(self.work, (*path, 0))

    def _sums_outside(self, first: Path) -> Path:
        """Move the sums over tiles that follow the last generation out of the generations within tiles."""
        for _ in range(len(self.sizes) - 1 - self.gens[-1]):
            nest = [(*first, *(0,) * depth) for depth in range(len(self.gens))]
            for path in reversed(nest):
                first = self._swap(path)
        return first

    def _restore_order(self, first: Path) -> None:
        """Move each sum within tiles outwards to its original position among the generations."""
        for moved, loop in enumerate(self.sums):
            behind = sum(gen > loop for gen in self.gens)
            start = len(self.gens) + moved
            for depth in range(start - 1, start - 1 - behind, -1):
                self._swap((*first, *(0,) * depth))


def _digits(by: Index, leaf: Leaf, depth: int) -> Index:
    """Express a loop's index by the indices of the two loops that replace it."""
    if not isinstance(leaf, Bound) or leaf.position < depth:
        return index(leaf)
    if leaf.position == depth:
        return shift(by, depth + 2) * bound(depth + 1) + bound(depth)
    return bound(leaf.position + 1)
