"""Sums of whole arrays, such as dot products, in several vector registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from atl.core import index as ix
from atl.core import terms
from atl.core.program import Program
from atl.text.printing import show_index
from rewrites.cursors.cursor import Cursor
from rewrites.recipes.contractions import is_pointwise, scalar_monoid, vector_widths
from rewrites.recipes.declaration import recipe, schedule_each
from rewrites.recipes.structure import loop_at, reads_below, target_of, uncalled_places, unused_name


def _whole_array(program: Program) -> Iterator[Cursor]:
    """Yield the innermost sums of whole arrays that read them along their last dimensions.

    A sum that is an operand in another loop is not one: the sums of several iterations do not wait for each other.
    """
    for cursor in uncalled_places(program):
        if scalar_monoid(cursor) != "sum" or not is_pointwise(cursor.child(0)):
            continue
        outermost = cursor
        while outermost.above is not None and scalar_monoid(outermost.above) == "sum":
            outermost = outermost.above
        if any(isinstance(each.term, terms.Gen | terms.Reduce) for each in outermost.spine()[:-1]):
            continue
        loop = loop_at(cursor)
        _, low, _ = cursor.loop
        factors = [read.factor(loop) for read in reads_below(cursor) if read.depends_on(loop)]
        is_constant = low == ix.ZERO and not any(isinstance(atom, ix.Var) for atom in ix.atoms(loop.extent))
        if is_constant and loop.trips is None and factors and set(factors) == {1}:
            yield cursor


@recipe(width=vector_widths)
def accumulate_vectors(s: Any, *, width: int) -> None:
    """Sum up an array in several vector registers: Σ[p < n] e → let acc := Σpo ⊞[pi < 64] e in Σpi acc[pi] + Σ …

    This suits dot products, norms and sums. One register would wait for each addition to end. The terms after the last
    whole tile are added one by one. Maxima and minima of whole arrays are fast without a schedule.
    """

    def schedule(s: Any, found: Cursor) -> None:
        path, extent = found.path, loop_at(found).extent
        above = next((each for each in found.spine()[-2::-1] if isinstance(each.term, terms.Reduce)), None)
        s.split_loop(target_of(s.goal, path), show_index(width * (extent // width), ascii=True))
        path = (*path, 0)
        s.tile(target_of(s.goal, path), width).interchange(target_of(s.goal, path))
        name = unused_name(s.goal, "acc")
        place = {} if above is None else {"at": target_of(s.goal, above.path)}
        s.stage(target_of(s.goal, (*path, 0)), name=name, **place)
        s.interchange(target_of(s.goal, (*s.find(name).path, 0))).mark(name, "registers")

    schedule_each(s, _whole_array, schedule, "a sum of elements in a row, as of x[p] * y[p]")
