"""Passes over loop nests, in the order in which `lower` runs them.

A pass is a function from loop nests to loop nests. For all sizes and arrays that the assumptions of the nest allow, it
preserves the cells of the output that are stored, and their values. So it preserves the footprint of the nest, too
(Theorem 2). Printers, obligations and the loop-nest interpreter work on the nest after the last pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from atl.core.marks import CallMark
from lowering.instructions.calls import with_calls
from lowering.nest.loopnest import Allocate, Clear, For, LoopNest, statements
from lowering.passes.assembly import with_assembled_rows
from lowering.passes.buffers import (
    with_early_frees,
    with_external_rows,
    with_lets_in_output_rows,
    with_reused_buffers,
    with_row_in_output,
    with_stack_budget,
)
from lowering.passes.control_flow import (
    with_conditions_joined,
    with_guards_as_bounds,
    with_unswitched_loops,
    without_trivial_loops,
)
from lowering.passes.recurrences import with_kept_rows, with_kept_rows_on_gpu
from lowering.passes.registers import with_tiles_in_registers
from lowering.passes.simplification import simplified, with_cache_lines, with_nonnegative_numerators, with_strict_keys
from lowering.passes.splitting import with_split_loops
from lowering.passes.storage_folding import with_folded_storage
from lowering.passes.stores import with_fused_reductions, with_single_stores, without_dead_stores
from lowering.passes.unread_zeros import without_unread_zeros
from lowering.passes.workspaces import with_emptied_workspaces

Pass: TypeAlias = Callable[[LoopNest], LoopNest]

PASSES: Final[tuple[Pass, ...]] = (
    without_dead_stores,  # first: dead stores need not be simplified
    with_folded_storage,  # before code motion: it separates the statements that compute a let from its reads
    with_stack_budget,  # before code motion of the loops and branches around allocations and frees
    simplified,
    without_unread_zeros,  # before rows are kept: it relates reads of rows to the stores of all rows
    with_kept_rows,  # before loops over rows are split; after the simplification of conditions and rows
    with_split_loops,  # before unswitching, which copies loops for each outcome of the conditions of outer loops
    with_unswitched_loops,  # after simplification, which decides some conditions
    with_tiles_in_registers,  # after unswitching, so that unrolled loops do not repeat invariant conditions
    with_fused_reductions,  # after the unrolling of the loops over tiles
    with_conditions_joined,  # after passes that may leave a branch with a single statement
    with_guards_as_bounds,  # after conditions around whole loop bodies are joined
    without_trivial_loops,  # after guards have become bounds, since it turns bounds into guards
    with_single_stores,  # on loops in their final form; later passes see plain stores
    with_row_in_output,  # on loops in their final form; before another let uses the output
    with_reused_buffers,  # on loops in their final form
    with_lets_in_output_rows,  # after buffer reuse, which may use the output first
    with_early_frees,  # after all passes that remove statements
    with_emptied_workspaces,  # on loops in their final form; before rows end, since their end is the last statement
    with_strict_keys,  # on loops in their final form
    with_assembled_rows,  # after strict keys, by which columns are proved to increase
    with_cache_lines,  # on loops in their final form
    with_calls,  # on loops in their final form
    with_external_rows,  # on statements in their final form, which it records
    with_nonnegative_numerators,  # last: it refers to the expressions that are printed and run
)


_FOR_CPUS: Final = (
    with_stack_budget,
    with_split_loops,
    with_unswitched_loops,
    with_tiles_in_registers,
    with_guards_as_bounds,
    without_trivial_loops,
    with_row_in_output,
    with_reused_buffers,
    with_lets_in_output_rows,
    with_emptied_workspaces,
    with_assembled_rows,
    with_cache_lines,
    with_calls,
    with_external_rows,
)
_ON_GPUS: Final[Mapping[Pass, Pass]] = {with_kept_rows: with_kept_rows_on_gpu}
PASSES_OF: Final[Mapping[str, tuple[Pass, ...]]] = {
    "c": PASSES,
    "cuda": tuple(_ON_GPUS.get(run, run) for run in PASSES if run not in _FOR_CPUS),
    "systolic": (without_dead_stores, simplified, with_conditions_joined, with_nonnegative_numerators),
}
"""The passes for each target. For a GPU, kernel outlining places the buffers, and each kernel has a buffer once. Its
loops keep their bounds and conditions: loops over threads have constant extents and one iteration per thread. The
instructions of a systolic core replace loops as they are."""


def _has_buffers(nest: LoopNest) -> bool:
    return any(isinstance(each, Allocate | Clear) for each in statements(nest.body))


def _has_recurrences(nest: LoopNest) -> bool:
    return bool(nest.recurrences)


def _has_calls(nest: LoopNest) -> bool:
    return any(isinstance(each, For) and isinstance(each.mark, CallMark) for each in statements(nest.body))


APPLIES: Final[Mapping[Pass, Callable[[LoopNest], bool]]] = {
    with_folded_storage: _has_buffers,
    with_stack_budget: _has_buffers,
    without_unread_zeros: _has_recurrences,
    with_kept_rows: _has_recurrences,
    with_kept_rows_on_gpu: _has_recurrences,
    with_split_loops: _has_recurrences,
    with_tiles_in_registers: _has_buffers,
    with_reused_buffers: _has_buffers,
    with_lets_in_output_rows: _has_buffers,
    with_early_frees: _has_buffers,
    with_emptied_workspaces: _has_buffers,
    with_assembled_rows: lambda nest: nest.assembly is not None,
    with_calls: _has_calls,
}
"""Conditions without which a pass would return the nest as it is."""


def after_passes(nest: LoopNest, passes: Sequence[Pass] = PASSES) -> LoopNest:
    """Run the passes on a loop nest, except for those that do not apply to it."""
    for run in passes:
        if run not in APPLIES or APPLIES[run](nest):
            nest = run(nest)
    return nest
