"""Compilation of programs to loop nests, C and CUDA, and kernels that are built, called and timed."""

from atl.parameters import check_calls as _check_calls
from lowering.builds import build_shared, find_compiler, recorded_plan
from lowering.builds import load as load_shared
from lowering.c.printer import print_c
from lowering.core.kernel import CoreKernel
from lowering.device.detection import GpuEnvironment, detect_gpu
from lowering.device.device import Device, DeviceArray
from lowering.gpu.gpu_kernel import Gpu, GpuKernel
from lowering.instructions import Instruction, declare_instruction
from lowering.instructions.checking import check_instruction
from lowering.instructions.registry import instruction
from lowering.kernel import Kernel, KernelOfRanks, check, compile  # noqa: A004 (the public API name)
from lowering.nest.loopnest import LoopNest
from lowering.nest.text import print_nest
from lowering.origins import TracedLoop, TracedText, trace
from lowering.pipeline import lower
from lowering.rounding.error_bound import ErrorBound, ErrorComparison
from lowering.targets.machine import Machine, machine
from lowering.timing.comparison import measure
from lowering.timing.harness import (
    Clock,
    Sampler,
    Samples,
    Spread,
    ThreadClock,
    TimedFunction,
    Turn,
    WallClock,
    alternate,
    ratio,
    spread,
    take_turns,
)
from lowering.timing.inputs import random_inputs
from lowering.timing.kernel_time import KernelTime
from lowering.timing.rounding import tolerance

__all__ = [
    "Clock",
    "CoreKernel",
    "Device",
    "DeviceArray",
    "ErrorBound",
    "ErrorComparison",
    "Gpu",
    "GpuEnvironment",
    "GpuKernel",
    "Instruction",
    "Kernel",
    "KernelOfRanks",
    "KernelTime",
    "LoopNest",
    "Machine",
    "Sampler",
    "Samples",
    "Spread",
    "ThreadClock",
    "TimedFunction",
    "TracedLoop",
    "TracedText",
    "Turn",
    "WallClock",
    "alternate",
    "build_shared",
    "check",
    "check_instruction",
    "compile",
    "declare_instruction",
    "detect_gpu",
    "find_compiler",
    "instruction",
    "load_shared",
    "lower",
    "machine",
    "measure",
    "print_c",
    "print_nest",
    "random_inputs",
    "ratio",
    "recorded_plan",
    "spread",
    "take_turns",
    "tolerance",
    "trace",
]

_check_calls(globals())
