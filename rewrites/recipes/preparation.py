"""Recipes that prepare a goal for the others: elements instead of vectors, unrolled taps, reciprocals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from atl.core import index as ix
from atl.core import terms
from atl.core.marks import LetMark
from rewrites.cursors.cursor import Cursor, cursor_at, walk
from rewrites.errors import DoesNotApply
from rewrites.recipes.contractions import POINTWISE, Contraction, contractions
from rewrites.recipes.declaration import recipe, schedule_each
from rewrites.recipes.structure import (
    Loop,
    Nest,
    Read,
    below,
    everywhere,
    has_call,
    loop_at,
    outer_nests,
    reads_below,
    target_of,
    uncalled_places,
    unused_name,
)

PHASES: Final = 4
"""Maximum number of phases of a loop that are separated."""
TAPS: Final = 9
"""Maximum number of terms of a sum that is unrolled."""
MAX_READS: Final = 72
"""Maximum number of reads in the unrolled terms."""
COEFFICIENTS: Final = 3
"""Least number of vectors that are worth keeping in registers for all iterations of a loop."""


@recipe()
def elements(s: Any) -> None:
    """Compute elements instead of vectors: (⊞[i] a) ⊕ b → ⊞[i] a + b[i], Σ[k] ⊞[i] e → ⊞[i] Σ[k] e."""
    before = len(s.steps)
    if any(_is_vector(cursor) for cursor in uncalled_places(s.goal)):
        s.normalize()
        while (found := next(_scalars_read_once(s.goal), None)) is not None:
            s.inline(target_of(s.goal, found.path))
    while (found := next(_sums_of_vectors(s.goal), None)) is not None:
        s.interchange(target_of(s.goal, found.path))
    if len(s.steps) == before:
        raise DoesNotApply("the goal already computes elements", required="arithmetic on vectors, or a sum of vectors")


def _is_vector(cursor: Cursor) -> bool:
    """Return whether a place computes with vectors, or reads an element of one that is computed there."""
    if isinstance(cursor.term, terms.Access):
        return not isinstance(cursor.child(0).term, terms.Access | terms.Input | terms.Local)
    return isinstance(cursor.term, terms.Binary | terms.Unary) and cursor.term.type.rank > 0


def _scalars_read_once(program: Any) -> Iterator[Cursor]:
    """Yield the lets of scalars that are read at one place, not in a loop inside."""
    for cursor in uncalled_places(program):
        if isinstance(cursor.term, terms.Let) and cursor.term.value.type.rank == 0:
            name = cursor.called[0]
            uses = [
                each
                for each in below(cursor.child(1))
                if isinstance(each.term, terms.Local) and each.names.of_tensor(each.term.position) == name
            ]
            loops = terms.Gen | terms.Reduce
            if len(uses) == 1 and not any(isinstance(at.term, loops) for at in uses[0].spine()[len(cursor.path) + 1 :]):
                yield cursor


def _sums_of_vectors(program: Any) -> Iterator[Cursor]:
    for cursor in uncalled_places(program):
        if isinstance(cursor.term, terms.Reduce) and cursor.term.type.rank:
            body = cursor.child(0)
            while isinstance(body.term, terms.Guard):
                body = body.child(0)
            if isinstance(body.term, terms.Gen):
                yield cursor


@recipe()
def bind_outside(s: Any) -> None:
    """Bind a let inside the value of a let first: let x := (let y := e in b) in c → let y := e in let x := b in c.

    So are sums of products inside a let of a number: ⊞[i] let y := f(Σ e) in b → let x := ⊞[i] Σ e in ⊞[i] let y := … .
    """
    before = len(s.steps)
    while (found := next(_sums_in_numbers(s.goal), None)) is not None:
        s.stage(target_of(s.goal, found.path), name=unused_name(s.goal, "sums"))
    while (found := next(_lets_in_values(s.goal), None)) is not None:
        name = found.child(0).called[0]
        if sum(name in each.called for each in everywhere(s.goal)) > 1:
            s.rename((*found.path, 0), unused_name(s.goal, name))
        s.rw("let_let", at=target_of(s.goal, found.path))
    if len(s.steps) == before:
        raise DoesNotApply("no let is bound inside the value of a let", required="let x := (let y := e in b) in c")


def _sums_in_numbers(program: Any) -> Iterator[Cursor]:
    """Yield the sums of products that rows share, in loops, and there in the value of a let of a number."""
    for found in contractions(program):
        around = found.sum.spine()[:-1]
        inside = around[len(found.loops[0].path) :]
        in_number = any(
            isinstance(each.term, terms.Let) and found.sum.path[len(each.path)] == 0 and not each.term.value.type.rank
            for each in inside
        )
        if in_number and found.row is not None and not any(isinstance(each.term, terms.Reduce) for each in around):
            yield found.sum


def _lets_in_values(program: Any) -> Iterator[Cursor]:
    """Yield the lets around the result whose value is a let without a mark."""
    for nest in outer_nests(program):
        around, value = nest.cursor.above, nest.cursor.term
        in_value = nest.name is not None and isinstance(value, terms.Let) and value.mark is LetMark.NONE
        if in_value and around is not None and not has_call(value):
            yield around


@recipe(rows=lambda context: list(dict.fromkeys(rows for rows, _ in context.machine.register_tiles(context.dtype))))
def bind_sums(s: Any, *, rows: int) -> None:
    """Bind sums in the terms of a sum: ⊞[i] Σ[k] f(Σ e) → ⊞[io] let x := ⊞[ii] ⊞[k] Σ e in ⊞[ii] Σ[k] f(x).

    Then `tile_sums` computes them as a product of matrices, for `rows` rows together. Sums that are the same in a whole
    loop are bound outside of all loops, so that each is computed once: ⊞[i] ⊞[j] Σ[k] (Σ e(i, k)) * c(k, j) →
    let x := ⊞[i] ⊞[k] Σ e(i, k) in ⊞[i] ⊞[j] Σ[k] x[i, k] * c(k, j).
    """
    before = len(s.steps)
    while (repeated := next(_repeated_sums(s.goal), None)) is not None:
        s.stage(target_of(s.goal, repeated.path), name=unused_name(s.goal, "sums"))
    while (found := next(_sums_in_terms(s.goal, rows), None)) is not None:
        inner, path = found.loops[-1], found.sum.path
        if inner.trips is None:
            s.tile(target_of(s.goal, inner.path), rows)
            continue
        s.stage(path, at=found.loops[-2].path, name=unused_name(s.goal, "sums"))
    if len(s.steps) == before:
        raise DoesNotApply("no term of a sum has a product of matrices", required="⊞[i] Σ[k] f(Σ[p] a[i, p] * b[k, p])")


def _repeated_sums(program: Any) -> Iterator[Cursor]:
    """Yield the sums in the terms of another sum that are the same in all iterations of a loop around both."""
    for found in contractions(program):
        spine = found.sum.spine()[:-1]
        start = next(at for at, each in enumerate(spine) if each.path == found.loops[0].path)
        inside = [each for each in spine[start:] if not isinstance(each.term, POINTWISE)]
        if not isinstance(inside[-1].term, terms.Reduce) or not all(
            isinstance(each.term, terms.Gen | terms.Reduce) for each in inside
        ):
            continue
        repeats = any(not any(read.depends_on(loop) for read in found.reads) for loop in found.loops)
        if repeats and _is_fixed([*map(loop_at, inside), *found.sums]):
            yield found.sum


def _is_fixed(loops: Iterable[Loop]) -> bool:
    """Return whether the extents of loops are the same in all iterations of the loops around."""
    return not any(isinstance(atom, ix.Var | ix.Read) for each in loops for atom in ix.atoms(each.extent))


def _sums_in_terms(program: Any, rows: int) -> Iterator[Contraction]:
    """Yield the sums a(i, p) * b(k, p) in the terms of a sum over k directly in a loop over i, of any length or `rows`.

    The numbers of their terms are the same for all i and k.
    """
    for found in contractions(program):
        row, spine = found.loops[-1], found.sum.spine()[:-1]
        around = [each for each in spine if isinstance(each.term, terms.Gen | terms.Reduce | terms.Let | terms.Rec)]
        if len(around) < 2 or around[-2].path != row.path or not isinstance(around[-1].term, terms.Reduce):
            continue
        term = loop_at(around[-1])
        tiled = row.trips == rows and len(found.loops) > 1
        is_product = {(read.depends_on(row), read.depends_on(term)) for read in found.reads} == {
            (True, False),
            (False, True),
        }
        if is_product and _is_fixed([term, *found.sums]) and term.trips is None and (row.trips is None or tiled):
            yield found


@recipe()
def unroll_taps(s: Any) -> None:
    """Unroll sums of a few terms, such as the taps of a filter: Σ[t < 3] e(t) → e(0) + e(1) + e(2).

    Taps of a sum over channels are left, if rows share an operand: `tile_sums` computes those in register tiles.
    """
    if not unroll_all_taps(s):
        raise DoesNotApply("no sum has a small constant number of terms", required=f"a sum of at most {TAPS} terms")


def unroll_all_taps(s: Any) -> bool:
    """Unroll sums of a few terms, and return whether there were any."""
    before = len(s.steps)
    while (found := next(_taps(s.goal), None)) is not None:
        s.unroll(target_of(s.goal, found.path))
    return len(s.steps) > before


def _taps(program: Any) -> Iterator[Cursor]:
    """Yield the reductions of few terms whose elements move along with a loop around them, the inner ones first."""
    tiled = {
        loop.path
        for found in contractions(program)
        if found.row is not None and any(loop.trips is None or loop.trips > TAPS for loop in found.sums)
        for loop in found.sums
    }
    for cursor in reversed(list(uncalled_places(program))):
        if isinstance(cursor.term, terms.Reduce) and not cursor.term.type.rank and cursor.path not in tiled:
            loop = loop_at(cursor)
            reads = list(reads_below(cursor))
            few = loop.trips is not None and loop.trips <= TAPS and loop.trips * len(reads) <= MAX_READS
            if few and any(_moves_along(read, loop) for read in reads):
                yield cursor


def _moves_along(read: Read, loop: Loop) -> bool:
    """Return whether an element is read at the sum of a loop's index and another one, as through a window."""
    indices = [{atom for atom in ix.atoms(index) if isinstance(atom, ix.Var)} for index in read.indices]
    return any(loop.variable in variables and len(variables) > 1 for variables in indices)


@recipe()
def split_phases(s: Any) -> None:
    """Separate the phases of a loop that reads x[i // 2]: ⊞[i < 2*n] e(i // 2, i % 2) → ⊞[io < n] e(io, 0) ++ e(io, 1).

    Then reads are contiguous. This suits upsampling by 2, 3 or 4.
    """
    before = len(s.steps)
    while (found := next(_phases(s.goal), None)) is not None:
        cursor, phases = found
        s.tile(target_of(s.goal, cursor.path), phases)
        tiled = [
            each for each in walk(cursor_at(s.goal, cursor.path), top_down=True) if isinstance(each.term, terms.Gen)
        ]
        inner = s.find(tiled[1].path)
        s.simpl_index()
        s.unroll(target_of(s.goal, inner.path))
    if len(s.steps) == before:
        raise DoesNotApply("no inner loop reads x[i // 2]", required=f"an index i // c, c from 2 to {PHASES}")


def _phases(program: Any) -> Iterator[tuple[Cursor, int]]:
    """Yield the inner loops whose index is divided by a small constant in a read, with that constant."""
    for cursor in uncalled_places(program):
        if not isinstance(cursor.term, terms.Gen) or any(isinstance(each.term, terms.Gen) for each in below(cursor)):
            continue
        loop = loop_at(cursor)
        for read in reads_below(cursor) if loop.trips is None else ():
            for atom in (atom for index in read.indices for atom in ix.atoms(index)):
                if isinstance(atom, ix.Quotient) and loop.variable in ix.atoms(atom.numerator):
                    divisor = atom.denominator.constant
                    if divisor is not None and divisor <= PHASES:
                        yield cursor, divisor


@recipe()
def multiply_by_reciprocals(s: Any) -> None:
    """Divide once per row instead of once per element: a(j) / d → a(j) * (1 / d) if d does not depend on the loop j."""
    found = [cursor.path for cursor in uncalled_places(s.goal) if _divides_by_invariant(cursor)]
    if not found:
        raise DoesNotApply("no divisor is the same for a whole loop", required="a quotient in a loop")
    for path in reversed(found):
        s.rw("mul_one", around=(*path, 0), reverse=True).rw("mul_div", around=path)


def _divides_by_invariant(cursor: Cursor) -> bool:
    if not (isinstance(cursor.term, terms.Binary) and cursor.term.op == "div") or cursor.term.type.rank:
        return False
    around = [each for each in cursor.spine() if isinstance(each.term, terms.Gen | terms.Reduce)]
    if not around:
        return False
    inner = loop_at(around[-1])
    varies = [any(read.depends_on(inner) for read in reads_below(cursor.child(k))) for k in (0, 1)]
    return varies == [True, False]


@recipe(width=lambda context: tuple(vectors * context.machine.lanes(context.dtype) for vectors in (2, 1, 4)))
def keep_coefficients(s: Any, *, width: int) -> None:
    """Keep coefficients in registers for a whole loop: ⊞[x] ⊞[c] a(x, c) * w(c) → ⊞[co] ⊞[x] ⊞[ci < width] a * w.

    This suits filters of each channel, with the channels last: the coefficients of `width` channels serve all columns.
    """

    def schedule(s: Any, nest: Nest) -> None:
        column, channel = nest.loops[-2:]
        outer = s.find(column.path)
        s.tile(target_of(s.goal, channel.path), width).interchange(target_of(s.goal, outer.path))

    schedule_each(
        s,
        lambda program: (nest for nest in outer_nests(program) if _has_coefficients(nest, width)),
        schedule,
        f"{COEFFICIENTS} coefficients such as w[0, c] in each element, which depend on the inner of two loops only",
    )


def _has_coefficients(nest: Nest, width: int) -> bool:
    """Return whether elements in two loops are computed from vectors of which some serve a whole outer loop."""
    loops = nest.loops
    if (
        len(loops) < 2
        or has_call(nest.cursor.term)
        or any(isinstance(cursor.term, terms.Reduce | terms.Let) for cursor in walk(nest.cursor))
    ):
        return False
    column, channel = loops[-2:]
    reads = {(read.name, read.indices): read for read in reads_below(channel.cursor)}.values()
    coefficients = [read for read in reads if not read.depends_on(column)]
    return (
        column.trips is None
        and (channel.trips is None or channel.trips > width)
        and COEFFICIENTS <= len(coefficients) < len(reads)
        and all(read.factor(channel) == 1 for read in reads)
    )
