"""Passes over loop nests: what is worked out about a nest before it is printed or run, by proof or by looking at it.

A pass is a function from a loop nest to one that stores the same values to the same cells of the output, whatever the
sizes and arrays that the nest's assumptions allow. So it keeps the footprint of a nest too (Theorem 2): the cells that
hold a value at the end. `lower` runs them all, in this order; printers, obligations and the loop-nest interpreter see
the nest after the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from lowering.nest.loopnest import LoopNest
from lowering.passes.co_iteration import with_strict_keys
from lowering.passes.conditions import with_conditions_joined
from lowering.passes.dead_stores import without_dead_stores
from lowering.passes.guard_to_bound import with_guards_as_bounds
from lowering.passes.nonnegative_division import with_nonnegative_numerators
from lowering.passes.reduction_fusion import with_fused_reductions
from lowering.passes.simplification import simplified
from lowering.passes.single_stores import with_single_stores
from lowering.passes.storage.buffer_reuse import with_lets_in_output_rows, with_reused_buffers
from lowering.passes.storage.early_frees import with_early_frees
from lowering.passes.storage.registers import with_tiles_in_registers
from lowering.passes.storage.stack import with_stack_budget
from lowering.passes.storage.storage_folding import with_folded_storage
from lowering.passes.streams import with_cache_lines
from lowering.passes.trivial_loops import without_trivial_loops
from lowering.passes.unswitching import with_unswitched_loops

Pass: TypeAlias = Callable[[LoopNest], LoopNest]

PASSES: Final[tuple[Pass, ...]] = (
    without_dead_stores,  # first: what is left out need not be simplified
    with_folded_storage,  # before anything is moved: it takes apart what computes a let and what reads it
    with_stack_budget,  # before the loops and branches are moved that its frees and allocations stand in
    simplified,
    with_unswitched_loops,  # of what is left to be tested
    with_tiles_in_registers,  # after the tests that are the same in all iterations have left the loops written out
    with_fused_reductions,  # after the tiles, whose loops are written out statement by statement
    with_conditions_joined,  # after both, for they may leave a branch with one statement
    with_guards_as_bounds,  # of what is tested around whole bodies
    without_trivial_loops,  # after tests have become bounds, for it makes tests of bounds
    with_single_stores,  # of loops as they will run; what is stored once is like any other store from here on
    with_reused_buffers,  # of loops as they will run
    with_lets_in_output_rows,  # of the output, if nothing stands there yet
    with_early_frees,  # after all that leaves statements out
    with_strict_keys,  # of loops as they will run
    with_cache_lines,  # of loops as they will run: no later pass changes them
    with_nonnegative_numerators,  # last: it speaks of the very expressions that are printed and run
)


_FOR_CPUS: Final = (
    with_stack_budget,
    with_unswitched_loops,
    with_tiles_in_registers,
    with_guards_as_bounds,
    without_trivial_loops,
    with_reused_buffers,
    with_lets_in_output_rows,
    with_cache_lines,
)
PASSES_OF: Final[Mapping[str, tuple[Pass, ...]]] = {
    "c": PASSES,
    "cuda": tuple(run for run in PASSES if run not in _FOR_CPUS),
}
"""Those for each target. Where the buffers of a GPU are is said where its kernels are made, each of which is given a
buffer once; and its loops keep their extents and their tests, for those of threads have constant extents, and run one
iteration in each thread."""


def after_passes(nest: LoopNest, passes: Sequence[Pass] = PASSES) -> LoopNest:
    """The loop nest after all of these passes."""
    for run in passes:
        nest = run(nest)
    return nest
