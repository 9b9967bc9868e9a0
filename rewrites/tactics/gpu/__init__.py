"""Tactics for GPU kernels."""

from rewrites.tactics.gpu.mapping import coalesce, gpu_map, stage_registers, stage_shared
from rewrites.tactics.gpu.storage import pad_rows, store_transposed

__all__ = ["coalesce", "gpu_map", "pad_rows", "stage_registers", "stage_shared", "store_transposed"]
