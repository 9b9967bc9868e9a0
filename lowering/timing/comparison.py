"""Comparison of schedules of one program at given sizes: results are checked, and times are taken in turns."""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from atl.core.dtypes import is_integer
from atl.core.index import Bound, Index, Size, atoms, value_of
from atl.core.marks import LoopMark
from atl.core.program import Program, checked_program
from atl.core.terms import Expr, Reduce
from atl.core.traversal import children
from atl.errors import ATLError, InvalidArgument, brief
from atl.meaning.arguments import AnyArray, Arguments, bind, index_elements
from atl.meaning.interpret import Pad, denote
from lowering.builds import cache_directory, kernel_flags
from lowering.c_compiler import find_compiler
from lowering.kernel import Kernel, UnbuiltKernel, begin_compile, compile  # noqa: A004 (the public API name)
from lowering.targets.capabilities import marked_binders
from lowering.targets.machine import cores, machine
from lowering.timing.child import run_in_child
from lowering.timing.harness import Sampler, ThreadClock, WallClock, alternate
from lowering.timing.inputs import random_inputs
from lowering.timing.operations import operations
from lowering.timing.rounding import InDouble, Measured, in_double, tolerance

BLOCK: Final = 1 << 20
"""Number of elements compared at a time, so that large results are not copied as a whole."""
LOOKED_AT: Final = 16
"""Maximum number of elements of each block that are compared with a bound on their rounding error."""
UNDERESTIMATED: Final = 10
"""A run is made in a child process, which can be stopped, unless its limit is this multiple of its predicted time."""
SMALL: Final = (67, 64, 35, 32, 19, 16, 11, 8, 5, 4)
"""Limits of sizes for the comparison with the unscheduled program. The odd ones leave partial tiles."""
MOST_OPERATIONS: Final = 3e7
"""Operations of the unscheduled program in that comparison: at most a tenth of a second."""


def measure(
    program: Program,
    sizes: Mapping[str, int],
    *,
    inputs: Mapping[str, AnyArray] | None = None,
    fast_math: bool = False,
) -> KernelComparison:
    """Return a comparison of schedules of a program at these sizes, as `s.autotune` uses it.

    Inputs are random unless they are passed. `functools.partial(lowering.measure, fast_math=True)` measures kernels
    built with `fast_math`. Before timing, the result of a schedule is compared with that of the unscheduled program, up
    to rounding, which grows with the number of terms. Larger deviations in float32 are judged in float64: the error
    must be within a bound on the rounding error, which is relative to the magnitudes of the terms.

    Times are CPU time of this thread in milliseconds, or wall time for loops marked `parallel`.

    >>> import atl
    >>> from lowering import measure
    >>> twice = atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
    >>> comparison = measure(twice, {"n": 1000})
    >>> candidate = comparison.candidate(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] + x[i]"))
    >>> comparison.judgement_of(candidate).outcome
    'right'
    >>> pairs = comparison.time_pair(candidate, comparison.candidate(twice), rounds=3, seconds=1)
    >>> all(a > 0 and b > 0 for a, b in pairs)
    True
    """
    checked_program(program)
    if not isinstance(sizes, Mapping) or not all(type(value) is int and value >= 0 for value in sizes.values()):
        raise InvalidArgument(f"sizes={brief(sizes)}", required='a dictionary from names to numbers: sizes={"n": 1000}')
    unknown = [name for name in sizes if name not in program.sizes]
    if unknown:
        raise InvalidArgument(
            f"{program.name} has no size {', '.join(map(str, unknown))}",
            required=f"values for the sizes {', '.join(program.sizes) or '(none)'}",
        )
    return KernelComparison(
        program, dict(sizes), random_inputs(program, sizes) if inputs is None else inputs, fast_math
    )


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a result: `note` says what is wrong with it, or what was not judged within the time limit."""

    outcome: Literal["right", "wrong", "unjudged"]
    note: str = ""


RIGHT: Final = Judgement("right")


@dataclass(frozen=True, slots=True)
class BuiltSchedule:
    """A built schedule. Schedules with the same `identity` have the same machine code."""

    kernel: Kernel
    run: Callable[[], object]
    identity: str
    threaded: bool


@dataclass(frozen=True, slots=True)
class UnbuiltSchedule:
    """A schedule for which the C compiler has not run."""

    unbuilt: UnbuiltKernel
    comparison: KernelComparison

    def build(self) -> None:
        """Run the C compiler, in any thread. Raises `CompilerFailed`."""
        self.unbuilt.build()

    def finish(self) -> BuiltSchedule:
        """Return the schedule, built now if it was not. Raises `CompilerFailed`."""
        return self.comparison.loaded(self.unbuilt.kernel())


def conditions(*, fast_math: bool = False) -> Mapping[str, str]:
    """Return the conditions of a measurement besides the program and its sizes: machine, compiler, flags."""
    compiler = find_compiler()
    return {
        "machine": f"{platform.node()}, {_processor()}",
        "model": str(machine()),
        "compiler": str(compiler),
        "flags": " ".join(kernel_flags(compiler, fast_math=fast_math)),
    }


def times_folder() -> Path:
    """Return the folder for tables of times."""
    return cache_directory() / "tuned"


def _of_arrays(program: Program) -> Program:
    """Return the program with one result, and with the arrays of sparse operands as inputs."""
    return replace(program.whole, packed=())


class KernelComparison:
    """A comparison of schedules of one program at given sizes and inputs, by results and times."""

    def __init__(
        self, program: Program, sizes: dict[str, int], inputs: Mapping[str, AnyArray], fast_math: bool
    ) -> None:
        named = {name: value for name, value in sizes.items() if name in program.sizes}
        call = self._call = bind(program.whole, (), {**inputs, **named})
        self._original = program
        program = self._program = _of_arrays(program)
        self._fast_math = fast_math
        self._arrays = [np.asarray(call.arrays[array.name], order="C") for array in program.inputs]
        self._sizes: dict[str, Any] = {**named}
        shape = tuple(_value(extent, call.sizes, call.arrays) for extent in program.shape)
        self._out = np.empty(shape, program.body.type.dtype)
        self._exact = is_integer(str(self._out.dtype))
        self._tolerance = 0.0 if self._exact else tolerance(self._out.dtype, self._terms(program))
        self._judge: Kernel | None = None
        self._last: tuple[BuiltSchedule, AnyArray] | None = None
        self._too_short = 0.0  # seconds in which the interpreter computes too few elements
        self._result_of_start: AnyArray | None = None
        self._result_of_judge: AnyArray | None = None
        self.conditions: Final[Mapping[str, str]] = conditions(fast_math=fast_math)
        """Conditions of a measurement besides the program and its sizes."""
        self.folder: Final[Path] = times_folder()
        """Folder for cached times."""
        self.builds_ahead: Final = cores() > 1
        """True if a core is free for the C compiler while another one is timed."""

    # -- schedules ----------------------------------------------------------------------------------------------------

    def begin(self, program: Program) -> UnbuiltSchedule:
        """Lower a schedule to C text. Raises the errors of `compile` before the C compiler runs."""
        return UnbuiltSchedule(begin_compile(_of_arrays(program), fast_math=self._fast_math), self)

    def candidate(self, program: Program) -> BuiltSchedule:
        """Build a schedule. Raises the errors of `compile`."""
        return self.begin(program).finish()

    def loaded(self, kernel: Kernel) -> BuiltSchedule:
        """Return the schedule of a kernel."""
        threaded = any(binder.mark is LoopMark.PARALLEL for binder in marked_binders(kernel.program))
        threads = os.environ.get("OMP_NUM_THREADS", "") or str(os.cpu_count())
        identity = f"{kernel.path.name}, {threads} threads" if threaded else kernel.path.name
        return BuiltSchedule(kernel, lambda: self._run(kernel, self._out), identity, threaded)

    @cached_property
    def _start(self) -> BuiltSchedule:
        """The unscheduled program, built when it is needed."""
        return self.candidate(self._original)

    def is_start(self, candidate: BuiltSchedule) -> bool:
        """Return whether a schedule is the machine code of the unscheduled program. Raises the errors of `compile`."""
        return candidate.identity == self._start.identity

    def _run(self, kernel: Kernel, out: AnyArray) -> object:
        return kernel(*self._arrays, out=out, **self._sizes)

    # -- single runs --------------------------------------------------------------------------------------------------

    @cached_property
    def predicted_ms(self) -> float:
        """A low prediction of the time of the unscheduled program."""
        return self._predicted_ms(self._program)

    def _predicted_ms(self, program: Program) -> float:
        """Return a low prediction of the time of a program: a nanosecond for each operation."""
        return operations(program, self._call.sizes, self._call.arrays) / 1e6

    def run_once(self, candidate: BuiltSchedule, seconds: float) -> float | None:
        """Run a schedule once; return its milliseconds, or None if it was stopped after these seconds.

        It runs in a child process if it might take longer, by its own operations or those of the unscheduled program.
        Parallel loops are not stopped, since their threads do not exist in a child.
        """
        predicted = max(self.predicted_ms, self._predicted_ms(candidate.kernel.program))
        in_this_process = candidate.threaded or predicted * UNDERESTIMATED <= seconds * 1e3
        out = self._out if in_this_process else self._shared
        out.fill(-1 if self._exact else np.nan)
        self._last = None
        if in_this_process:
            clock = WallClock() if candidate.threaded else ThreadClock()
            begun = clock.now()
            candidate.run()
            taken: int | None = clock.now() - begun
        else:
            taken = run_in_child(lambda: self._run(candidate.kernel, out), seconds)
        if taken is None:
            return None
        self._last = candidate, out
        return taken / 1e6

    def run_start(self, seconds: float = math.inf) -> float | None:
        """Run the unscheduled program once, to compare schedules with its result; return the milliseconds.

        For a short run these are the mean of several. A run that may take longer is stopped after `seconds`: then the
        result is None. Parallel loops are not stopped.
        """
        if not self._start.threaded and self.predicted_ms * UNDERESTIMATED > seconds * 1e3:
            taken = run_in_child(lambda: self._run(self._start.kernel, self._shared), seconds)
            if taken is None:
                return None
            self._last = None
            self._result_of_start = self._shared.copy()
            return taken / 1e6
        result, ms = np.empty_like(self._out), None
        clock = WallClock() if self._start.threaded else ThreadClock()
        sampler = Sampler(lambda: self._run(self._start.kernel, result), clock)
        while ms is None:
            ms, _ = sampler.sample()
        self._result_of_start = result
        return ms

    @cached_property
    def _shared(self) -> AnyArray:
        """An array for results of child processes."""
        memory = mmap.mmap(-1, max(1, self._out.nbytes))
        return np.frombuffer(memory, self._out.dtype, self._out.size).reshape(self._out.shape)

    # -- results ------------------------------------------------------------------------------------------------------

    def judge_by(self, candidate: BuiltSchedule, seconds: float = math.inf) -> Judgement:
        """Judge other schedules by this one in double precision, if it is right itself.

        It is compared with the unscheduled program, in double precision too, at sizes that take little time. If the
        assumptions exclude these, some elements are compared with the reference interpreter, for these seconds at most.
        Raises the errors of `compile`.
        """
        until = monotonic() + seconds
        judge = compile(in_double(candidate.kernel.program), fast_math=self._fast_math)
        small = self._small()
        if small is None:
            result = judge(*self._wide_arrays, **self._sizes)
            some = np.unique(np.linspace(0, result.size - 1, LOOKED_AT).astype(int)) if result.size else np.arange(0)
            found = self._by_interpreter(judge.program, self._call, result, result, [some], until)
            if found.outcome == "right":
                self._judge, self._result_of_judge = judge, result
            return found
        found = self._judged_at(small, judge, in_double(self._program), until)
        if found.outcome == "right":
            self._judge, self._result_of_judge = judge, None
        return found

    def _judged_at(self, small: Arguments, kernel: Kernel, expected: Program, until: float) -> Judgement:
        """Compare the result of a kernel at small sizes with that of an unscheduled program in double precision."""
        sizes = {name: value for name, value in small.sizes.items() if name in self._program.sizes}
        arrays = [np.asarray(small.arrays[array.name], order="C") for array in self._program.inputs]
        wide = [_widened(each) for each in arrays]
        result = kernel(*(arrays if kernel.program.inputs == self._program.inputs else wide), **sizes)
        right = compile(expected)(*wide, **sizes)
        found = self._by_interpreter(kernel.program, small, result, right, list(self._differing(result, right)), until)
        return found if found is RIGHT else replace(found, note=f"{found.note}, at {_sizes_written(small)}")

    def _small(self) -> Arguments | None:
        """Return random inputs of sizes at which the unscheduled program takes little time, or None."""
        for limit in SMALL:
            sizes = {name: min(value, limit) for name, value in self._call.sizes.items()}
            try:
                inputs = random_inputs(self._original.whole, sizes)
                call = bind(self._original.whole, (), {**inputs, **sizes})
                if operations(self._program, call.sizes, call.arrays) <= MOST_OPERATIONS:
                    return call
            except ATLError:
                continue
        return None

    def judgement_of(self, candidate: BuiltSchedule, seconds: float = math.inf) -> Judgement:
        """Judge a schedule's result; a note describes a wrong element.

        A schedule may have cancellation where the program has none. So larger deviations in float32 are judged in
        double precision, and all by a bound on the rounding error, which is relative to the magnitudes of the terms.

        The reference interpreter computes that bound, for these seconds at most, and the largest deviation first. If
        they do not suffice, a schedule that is right in double precision is judged at small sizes for as long again,
        and the note says so.
        """
        if self._last is None or self._last[0] is not candidate:
            self.run_once(candidate, math.inf)
        assert self._last is not None
        result, expected = self._last[1], self._expected
        off = list(self._differing(result, expected))
        if off and result.dtype == np.float32:
            if self._judge is None and (found := self.judge_by(candidate, seconds)).outcome != "right":
                return found
            expected = self._expected_in_double
            kernel = compile(in_double(candidate.kernel.program), fast_math=self._fast_math)
            wide = kernel(*self._wide_arrays, **self._sizes)
            for each in self._differing(wide, expected):
                return Judgement("wrong", _fault(_place(each[-1], wide), wide, expected))
        program, until = candidate.kernel.program, monotonic() + (0 if seconds <= self._too_short else seconds)
        found = self._by_interpreter(program, self._call, result, expected, off, until)
        if found.outcome == "unjudged":
            self._too_short = max(self._too_short, seconds)
        if found.outcome != "unjudged" or result.dtype != np.float32 or (small := self._small()) is None:
            return found
        at_small = self._judged_at(small, candidate.kernel, in_double(self._program), monotonic() + seconds)
        if at_small is not RIGHT:
            return at_small
        return Judgement("right", f"{found.note}; right in double precision, and at {_sizes_written(small)}")

    @property
    def _expected(self) -> AnyArray:
        """The result of the unscheduled program, or that of the judge in double precision if there is one only."""
        if self._result_of_start is None and self._judge is None:
            self.run_start()
        return self._expected_in_double if self._result_of_start is None else self._result_of_start

    @property
    def _expected_in_double(self) -> AnyArray:
        """The result of the judge, in double precision."""
        if self._result_of_judge is None:
            assert self._judge is not None
            self._result_of_judge = self._judge(*self._wide_arrays, **self._sizes)
        return self._result_of_judge

    @cached_property
    def _wide_arrays(self) -> list[AnyArray]:
        """The inputs in double precision."""
        return [_widened(each) for each in self._arrays]

    def _by_interpreter(
        self,
        program: Program,
        call: Arguments,
        result: AnyArray,
        expected: AnyArray,
        off: Sequence[npt.NDArray[np.int64]],
        until: float,
    ) -> Judgement:
        """Judge deviating elements of a schedule by the bound on rounding errors, until `monotonic()` is `until`.

        The reference interpreter computes the unscheduled program, and the bound for the schedule, at some of the
        elements, the one with the largest error first.
        """
        scalars = InDouble(until)
        right, bounds = (denote(each, call.sizes, call.arrays, scalars) for each in (self._program, program))
        some = [at for each in off for at in each[np.linspace(0, len(each) - 1, LOOKED_AT).astype(int)]]
        places = list(dict.fromkeys(_place(at, result) for at in some))
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            places.sort(key=lambda place: -np.nan_to_num(abs(result[place] - expected[place]), nan=np.inf))
        for judged, place in enumerate(places):
            try:
                is_near = _is_near(result[place], right.at(place), bounds.at(place), result.dtype)
            except TimeoutError:
                note = f"{judged} of {len(places)} elements with large rounding errors were judged in the time limit"
                return Judgement("unjudged", note)
            if not is_near:
                return Judgement("wrong", _fault(place, result, expected))
        return RIGHT

    def _differing(self, result: AnyArray, expected: AnyArray) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the elements whose error exceeds the rounding error, by block, the largest error last."""
        flat, right = result.reshape(-1), expected.reshape(-1)
        finite = right[np.isfinite(right)]
        scale = float(np.abs(finite).mean()) if finite.size else 0.0
        for start in range(0, flat.size, BLOCK):
            a, b = flat[start : start + BLOCK], right[start : start + BLOCK]
            with np.errstate(invalid="ignore"):  # infinity minus infinity
                away = np.abs(a - b)
            near = away <= self._tolerance * (np.abs(b) + scale)
            off = np.flatnonzero(~((a == b) | near | (np.isnan(a) & np.isnan(b))))
            if len(off):
                yield start + off[np.argsort(away[off])]

    def _terms(self, program: Program) -> int:
        return _terms(program.body, lambda extent: _extent(extent, self._call.sizes, self._call.arrays))

    # -- times --------------------------------------------------------------------------------------------------------

    def time_pair(
        self, new: BuiltSchedule, best: BuiltSchedule, *, rounds: int, seconds: float
    ) -> Sequence[tuple[float, float]]:
        """Time two schedules in turns: milliseconds of both in each undisturbed round. Raises `KeyboardInterrupt`."""
        self._last = None
        clock = WallClock() if new.threaded or best.threaded else ThreadClock()
        samples = alternate({"new": new.run, "best": best.run}, rounds=rounds, seconds=seconds, clock=clock)
        if samples.interrupted:
            raise KeyboardInterrupt
        pairs = zip(samples.times["new"], samples.times["best"], strict=True)
        return [(a, b) for a, b in pairs if a is not None and b is not None]


def _place(at: Any, result: AnyArray) -> tuple[int, ...]:
    return tuple(int(k) for k in np.unravel_index(at, result.shape))


def _fault(place: tuple[int, ...], result: AnyArray, expected: AnyArray) -> str:
    at = ", ".join(map(str, place))
    return f"the element at ({at}) is {result[place]:.9g}, but {expected[place]:.9g} without the schedule"


def _sizes_written(call: Arguments) -> str:
    return ", ".join(f"{name} = {value}" for name, value in call.sizes.items())


def _widened(array: AnyArray) -> AnyArray:
    return array.astype("float64") if array.dtype == np.float32 else array


def _is_near(found: Any, right: Measured | Pad, bound: Measured | Pad, dtype: npt.DTypeLike) -> bool:
    """Return whether a result differs from the right value by rounding only."""
    value = 0 if isinstance(right, Pad) else right[0]
    _, size, roundings = (0.0, 0.0, 0) if isinstance(bound, Pad) else bound
    if found == value or (np.isnan(found) and np.isnan(value)):
        return True
    return not is_integer(str(np.dtype(dtype))) and bool(
        np.isfinite(size) and abs(float(found) - value) <= tolerance(dtype, roundings) * size
    )


def _terms(e: Expr, extent: Callable[[Index], int]) -> int:
    """Return the maximum number of terms of an element, with which rounding errors grow."""
    most = max((_terms(child.expr, extent) for child in children(e)), default=1)
    return most * max(1, extent(e.high - e.low)) if isinstance(e, Reduce) else most


def _extent(e: Index, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> int:
    """Return the extent of a loop, or the largest size if it depends on other loops."""
    if any(isinstance(atom, Bound) for atom in atoms(e)):
        return max(sizes.values(), default=1)
    return _value(e, sizes, arrays)


def _value(e: Index, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> int:
    return value_of(e, lambda leaf: sizes[leaf.name] if isinstance(leaf, Size) else 0, index_elements(arrays))


@lru_cache(maxsize=1)
def _processor() -> str:
    """Return a digest of the name and features of this processor."""
    # Cores may differ within one machine, so every core's line counts; speeds and counters do not.
    telling = ("model name", "flags", "Features", "CPU implementer", "CPU variant", "CPU part", "isa", "uarch", "cpu\t")
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    features = sorted({line for line in lines if line.startswith(telling)})
    text = "\n".join((sys.platform, platform.machine(), *(features or [platform.processor()])))
    return hashlib.sha256(text.encode()).hexdigest()[:24]
