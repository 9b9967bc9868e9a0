"""Tactics: each searches for kernel steps, and documents before → after."""

from collections.abc import Mapping
from typing import Any, Final

from rewrites.tactics import (
    annotations,
    calls,
    factoring,
    gpu,
    indices,
    loops,
    normal_form,
    ranks,
    recurrences,
    row_blocks,
    scans,
    simplification,
    tensor_cores,
    time_tiling,
    wavefronts,
)
from rewrites.tactics.nests import accumulation, interchange, loop_marks, tails, tiling
from rewrites.tactics.reindexing import gathering, reordering, storing
from rewrites.tactics.storage import binding, borders, packing, staging
from rewrites.tactics.tactic import Tactic


class Tactics:
    """The tactics, as methods of sessions."""

    accumulate = accumulation.accumulate
    block_rows = row_blocks.block_rows
    block_scan = scans.block_scan
    call = calls.call
    coalesce = gpu.coalesce
    dispatch = calls.dispatch
    distribute = ranks.distribute
    exchange = ranks.exchange
    factor_out = factoring.factor_out
    flatten_loops = loops.flatten_loops
    fuse = staging.fuse
    gather = gathering.gather
    gpu_map = gpu.gpu_map
    hoist = staging.hoist
    induct = recurrences.induct
    inline = simplification.inline
    interchange = interchange.interchange
    lbind = binding.lbind
    mark = annotations.mark
    normalize = normal_form.normalize
    pack = packing.pack
    pad = borders.pad
    pad_rows = gpu.pad_rows
    parallelize = loop_marks.parallelize
    pipeline_steps = time_tiling.pipeline_steps
    recur = recurrences.recur
    reduce_over = ranks.reduce_over
    rename = annotations.rename
    reorder = reordering.reorder
    simpl_guard = simplification.simpl_guard
    simpl_index = indices.simpl_index
    solve_for_index = simplification.solve_for_index
    split_loop = loops.split_loop
    stage = staging.stage
    stage_registers = gpu.stage_registers
    stage_shared = gpu.stage_shared
    store = storing.store
    store_transposed = gpu.store_transposed
    tails = tails.tails
    tile = tiling.tile
    tensor_cores = tensor_cores.tensor_cores
    time_tile = time_tiling.time_tile
    unroll = loop_marks.unroll
    unroll_and_jam = loop_marks.unroll_and_jam
    vectorize = loop_marks.vectorize
    wavefront = wavefronts.wavefront


TACTICS: Final[Mapping[str, Tactic[Any]]] = {
    name: each for name, each in vars(Tactics).items() if isinstance(each, Tactic)
}
"""The tactics by name."""
