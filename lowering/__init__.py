"""From a program to code that runs: reindexers, loop nests, C and CUDA, building and calling kernels."""

from lowering.c.printer import print_c
from lowering.compiled import Kernel, compile  # noqa: A004 (the contract's name)
from lowering.lower import lower
from lowering.nest.loopnest import LoopNest
from lowering.nest.pseudocode import print_nest

__all__ = ["Kernel", "LoopNest", "compile", "lower", "print_c", "print_nest"]
