"""The kernels of PolyBench/C 4.2 as programs, without schedules, with the sizes and initial arrays of its data sets.

PolyBench's kernels overwrite their arrays. A program returns those arrays that PolyBench prints.
"""

from __future__ import annotations

from typing import Final

from examples.polybench import blas, medley, products, solvers, statistics, stencils
from examples.polybench.benchmark import DATA_SETS, Benchmark, Sizes

MODULES: Final = (statistics, blas, products, solvers, medley, stencils)
BENCHMARKS: Final = {each.name: each for module in MODULES for each in module.BENCHMARKS}

__all__ = ["BENCHMARKS", "DATA_SETS", "Benchmark", "Sizes"]
