"""Tactics: each searches for kernel steps, and documents before → after."""

from rewrites.tactics.annotations import mark, rename
from rewrites.tactics.factoring import factor_out
from rewrites.tactics.gpu import coalesce, gpu_map, pad_rows, stage_registers, stage_shared, store_transposed
from rewrites.tactics.indices import simpl_index
from rewrites.tactics.loops import flatten_loops, split_loop
from rewrites.tactics.nests.accumulation import accumulate
from rewrites.tactics.nests.interchange import interchange
from rewrites.tactics.nests.loop_marks import parallelize, unroll, vectorize
from rewrites.tactics.nests.tails import tails
from rewrites.tactics.nests.tiling import tile
from rewrites.tactics.nests.unroll_and_jam import unroll_and_jam
from rewrites.tactics.normal_form import normalize
from rewrites.tactics.reindexing.reordering import reorder
from rewrites.tactics.reindexing.storing import store
from rewrites.tactics.simplification import inline, reduce_accesses, simpl_guard, solve_for_index
from rewrites.tactics.storage.binding import lbind
from rewrites.tactics.storage.borders import pad
from rewrites.tactics.storage.packing import pack
from rewrites.tactics.storage.staging import fuse, hoist, stage

__all__ = [
    "accumulate",
    "coalesce",
    "factor_out",
    "flatten_loops",
    "fuse",
    "gpu_map",
    "hoist",
    "inline",
    "interchange",
    "lbind",
    "mark",
    "normalize",
    "pack",
    "pad",
    "pad_rows",
    "parallelize",
    "reduce_accesses",
    "rename",
    "reorder",
    "simpl_guard",
    "simpl_index",
    "solve_for_index",
    "split_loop",
    "stage",
    "stage_registers",
    "stage_shared",
    "store",
    "store_transposed",
    "tails",
    "tile",
    "unroll",
    "unroll_and_jam",
    "vectorize",
]  # fmt: skip
