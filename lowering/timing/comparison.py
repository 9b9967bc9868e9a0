"""Comparison of schedules of one program at given sizes: results are checked, and times are taken in turns."""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from atl.core.dtypes import is_float, is_integer
from atl.core.index import Bound, Index, Size, atoms, value_of
from atl.core.marks import LoopMark
from atl.core.program import Program, checked_program
from atl.core.terms import Expr, Reduce
from atl.core.traversal import children
from atl.errors import ATLError, InvalidArgument, NoErrorBound, brief
from atl.meaning.arguments import AnyArray, Arguments, bind, index_elements
from atl.meaning.interpret import Pad, denote
from lowering.builds import cache_directory, kernel_flags
from lowering.c_compiler import find_compiler
from lowering.kernel import Kernel, UnbuiltKernel, begin_compile, compile  # noqa: A004 (the public API name)
from lowering.results import have_different_dtypes
from lowering.targets.capabilities import marked_binders
from lowering.targets.machine import cores, machine
from lowering.timing.child import run_in_child
from lowering.timing.harness import Sampler, ThreadClock, WallClock, alternate
from lowering.timing.inputs import random_inputs
from lowering.timing.operations import operations
from lowering.timing.rounding import InDouble, in_double, tolerance

BLOCK: Final = 1 << 20
"""Number of elements compared at a time, so that large results are not copied as a whole."""
LOOKED_AT: Final = 16
"""Maximum number of elements that are compared with the reference interpreter."""
TIMES_OF_BOUND: Final = 10
"""Time of a bound on rounding errors, as a multiple of the predicted time of its kernel."""
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
    to rounding, which grows with the number of terms. Larger deviations must be within `error_bound` of both kernels,
    also when float32 is replaced by float64.

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


Outputs: TypeAlias = tuple[AnyArray, ...]
"""The arrays that a run fills: one for each result of different element types, otherwise one of all elements."""


def _with_joined_results(program: Program) -> Program:
    """Return the program with results of one type in one array."""
    return program if have_different_dtypes(program) else program.whole


def _of_arrays(program: Program) -> Program:
    """Return the program with the arrays of sparse operands as inputs, and with results of one type in one array."""
    return replace(_with_joined_results(program), packed=())


def _outputs_of(made: Any) -> Outputs:
    """Return copies of the arrays that a call returns."""
    return tuple(map(np.array, made)) if isinstance(made, tuple) else (np.array(made),)


class KernelComparison:
    """A comparison of schedules of one program at given sizes and inputs, by results and times."""

    def __init__(
        self, program: Program, sizes: dict[str, int], inputs: Mapping[str, AnyArray], fast_math: bool
    ) -> None:
        named = {name: value for name, value in sizes.items() if name in program.sizes}
        call = self._call = bind(_with_joined_results(program), (), {**inputs, **named})
        self._original = program
        program = self._program = _of_arrays(program)
        self._fast_math = fast_math
        self._arrays = [np.asarray(call.arrays[array.name], order="C") for array in program.inputs]
        self._sizes: dict[str, Any] = {**named}
        each = [(of.name, of.shape, of.dtype) for of in program.results] or [("", program.shape, program.dtype)]
        self._names = [name for name, _, _ in each]
        shapes = (tuple(_value(extent, call.sizes, call.arrays) for extent in shape) for _, shape, _ in each)
        self._outs = tuple(
            np.empty(shape, dtype or program.dtype) for shape, (_, _, dtype) in zip(shapes, each, strict=True)
        )
        terms = self._terms(program)
        self._tolerances = [tolerance(out.dtype, terms) if is_float(str(out.dtype)) else 0.0 for out in self._outs]
        self._judge: Kernel | None = None
        self._last: tuple[BuiltSchedule, Outputs] | None = None
        self._result_of_start: Outputs | None = None
        self._result_of_judge: Outputs | None = None
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
        return BuiltSchedule(kernel, lambda: self._run(kernel, self._outs), identity, threaded)

    @cached_property
    def _start(self) -> BuiltSchedule:
        """The unscheduled program, built when it is needed."""
        return self.candidate(self._original)

    def is_start(self, candidate: BuiltSchedule) -> bool:
        """Return whether a schedule is the machine code of the unscheduled program. Raises the errors of `compile`."""
        return candidate.identity == self._start.identity

    def _run(self, kernel: Kernel, outs: Outputs) -> None:
        if kernel.nest.results or len(outs) == 1:
            kernel(*self._arrays, out=outs if kernel.nest.results else outs[0], **self._sizes)
            return
        for out, made in zip(outs, kernel(*self._arrays, **self._sizes), strict=True):
            out[...] = made

    # -- single runs --------------------------------------------------------------------------------------------------

    @cached_property
    def predicted_ms(self) -> float:
        """A prediction of the time of the unscheduled program, which is low unless it runs in vectors."""
        return self._predicted_ms(self._program)

    def _predicted_ms(self, program: Program) -> float:
        """Return a prediction of the time of a program, low for scalar code: a nanosecond for each operation."""
        return operations(program, self._call.sizes, self._call.arrays) / 1e6

    def run_once(self, candidate: BuiltSchedule, seconds: float) -> float | None:
        """Run a schedule once; return its milliseconds, or None if it was stopped after these seconds.

        It runs in a child process if it might take longer, by its own operations or those of the unscheduled program.
        Parallel loops are not stopped, since their threads do not exist in a child.
        """
        predicted = max(self.predicted_ms, self._predicted_ms(candidate.kernel.program))
        in_this_process = candidate.threaded or predicted * UNDERESTIMATED <= seconds * 1e3
        outs = self._outs if in_this_process else self._shared
        for out in outs:
            out.fill(np.nan if is_float(str(out.dtype)) else -1 if is_integer(str(out.dtype)) else True)
        self._last = None
        if in_this_process:
            clock = WallClock() if candidate.threaded else ThreadClock()
            begun = clock.now()
            candidate.run()
            taken: int | None = clock.now() - begun
        else:
            taken = run_in_child(lambda: self._run(candidate.kernel, outs), seconds)
        if taken is None:
            return None
        self._last = candidate, outs
        return taken / 1e6

    def run_start(self, seconds: float = math.inf) -> float | None:
        """Run the unscheduled program once, to compare schedules with its result; return the milliseconds.

        For a short run these are the mean of several. A run that may take longer is stopped after `seconds`: then the
        result is None. Parallel loops are not stopped.
        """
        if not self._start.threaded and self.predicted_ms * UNDERESTIMATED > seconds * 1e3:
            shared = self._shared  # allocated here, because the memory that a child allocates is its own
            taken = run_in_child(lambda: self._run(self._start.kernel, shared), seconds)
            if taken is None:
                return None
            if taken / 1e9 * UNDERESTIMATED > seconds:
                self._last = None
                self._result_of_start = _outputs_of(shared)
                return taken / 1e6
            # It was short, so that it need not be stopped; the first run in a child is slow.
        result, ms = tuple(map(np.empty_like, self._outs)), None
        clock = WallClock() if self._start.threaded else ThreadClock()
        sampler = Sampler(lambda: self._run(self._start.kernel, result), clock)
        while ms is None:
            ms, _ = sampler.sample()
        self._result_of_start = result
        return ms

    @cached_property
    def _shared(self) -> Outputs:
        """Arrays for results of child processes."""
        memories = (mmap.mmap(-1, max(1, out.nbytes)) for out in self._outs)
        return tuple(
            np.frombuffer(memory, out.dtype, out.size).reshape(out.shape)
            for memory, out in zip(memories, self._outs, strict=True)
        )

    # -- results ------------------------------------------------------------------------------------------------------

    def judge_by(self, candidate: BuiltSchedule, seconds: float = math.inf) -> Judgement:
        """Judge other schedules by this one, if it is right itself.

        It is compared with the unscheduled program at sizes that take little time. If the assumptions exclude these,
        some elements are compared with the reference interpreter, for these seconds at most. Raises the errors of
        `compile`.
        """
        until = monotonic() + seconds
        kernel = candidate.kernel
        result = _outputs_of(kernel(*self._arrays, **self._sizes))
        small = self._small()
        found = self._by_interpreter(kernel, result, until) if small is None else self._judged_at(small, kernel)
        if found.outcome == "right":
            self._judge, self._result_of_judge = kernel, result
        return found

    def _judged_at(self, small: Arguments, kernel: Kernel) -> Judgement:
        """Compare the result of a kernel at small sizes with that of the unscheduled program."""
        sizes = {name: value for name, value in small.sizes.items() if name in self._program.sizes}
        arrays = [np.asarray(small.arrays[array.name], order="C") for array in self._program.inputs]
        result, expected = (_outputs_of(each(*arrays, **sizes)) for each in (kernel, self._start.kernel))
        if self._agree(result, expected):
            return RIGHT
        found = judged(kernel, self._start.kernel, arrays, sizes, result, expected, fast_math=self._fast_math)
        return found if found is RIGHT else replace(found, note=f"{found.note}, at {_sizes_written(small)}")

    def _small(self) -> Arguments | None:
        """Return random inputs of sizes at which the unscheduled program takes little time, or None."""
        for limit in SMALL:
            sizes = {name: min(value, limit) for name, value in self._call.sizes.items()}
            try:
                inputs = random_inputs(self._original, sizes)
                call = bind(self._program, (), {**inputs, **sizes})
                if operations(self._program, call.sizes, call.arrays) <= MOST_OPERATIONS:
                    return call
            except ATLError:
                continue
        return None

    def judgement_of(self, candidate: BuiltSchedule, seconds: float = math.inf) -> Judgement:
        """Judge a schedule's result; a note describes a wrong element.

        Elements that differ by more than usual rounding errors are judged by the bounds on the errors of both kernels.
        Computing these takes longer than the kernels. If it would take more than these seconds, nothing is judged.
        """
        if self._last is None or self._last[0] is not candidate:
            self.run_once(candidate, math.inf)
        assert self._last is not None
        result, expected = self._last[1], self._expected
        if self._agree(result, expected):
            return RIGHT
        kernel, other = candidate.kernel, self._judge or self._start.kernel
        if not any(self._tolerances):
            exact = tuple(np.zeros(out.shape) for out in result)
            return Judgement("wrong", _difference(self._names, result, expected, exact, exact) or "")
        predicted = sum(self._predicted_ms(each.program) for each in (kernel, other)) * TIMES_OF_BOUND
        if predicted <= seconds * 1e3:
            return judged(kernel, other, self._arrays, self._sizes, result, expected, fast_math=self._fast_math)
        return Judgement("unjudged", f"its error bound takes more than {seconds:.3g} s")

    @property
    def _expected(self) -> Outputs:
        """The result of the unscheduled program, or that of the judge if the program was not run."""
        if self._result_of_start is None and self._judge is None:
            self.run_start()
        expected = self._result_of_judge if self._result_of_start is None else self._result_of_start
        assert expected is not None
        return expected

    def _by_interpreter(self, kernel: Kernel, results: Outputs, until: float) -> Judgement:
        """Compare some elements with the reference interpreter, from the first to the last, until `monotonic()`."""
        right = denote(self._program, self._call.sizes, self._call.arrays, InDouble(until))
        bounds = _outputs_of(kernel.error_bound(*self._arrays, **self._sizes))
        before = 0
        for name, result, bound in zip(self._names, results, bounds, strict=True):
            some = np.unique(np.linspace(0, result.size - 1, LOOKED_AT).astype(int)) if result.size else np.arange(0)
            for checked, at in enumerate(some):
                place = _place(at, result)
                try:
                    value = right.at((before + int(at),) if self._program.results else place)
                except TimeoutError:
                    return Judgement("unjudged", f"{checked} of {len(some)} elements were judged in the time limit")
                expected = 0.0 if isinstance(value, Pad) else value
                away = abs(float(result[place]) - float(expected))
                # The interpreter rounds, too, by at most the same bound.
                if not (away <= 2 * bound[place] or result[place] == expected or np.isnan(expected)):
                    return Judgement("wrong", _fault(name, place, result[place], expected))
            before += result.size
        return RIGHT

    def _agree(self, results: Outputs, expected: Outputs) -> bool:
        """Return whether the results differ by rounding errors at most."""
        return all(map(_near, results, expected, self._tolerances))

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


def _near(result: AnyArray, expected: AnyArray, tolerance: float) -> bool:
    """Return whether elements differ by at most the tolerance, relative to their and the average magnitude."""
    flat, right = result.reshape(-1), expected.reshape(-1)
    if not tolerance:
        return np.array_equal(flat, right)
    finite = right[np.isfinite(right)]
    scale = float(np.abs(finite).mean()) if finite.size else 0.0
    for start in range(0, flat.size, BLOCK):
        a, b = flat[start : start + BLOCK], right[start : start + BLOCK]
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            near = np.abs(a - b) <= tolerance * (np.abs(b) + scale)
        if not ((a == b) | near | (np.isnan(a) & np.isnan(b))).all():
            return False
    return True


def _fault(name: str, place: tuple[int, ...], result: Any, expected: Any) -> str:
    at = f"({', '.join(map(str, place))})" + (f" of {name}" if name else "")
    return f"the element at {at} is {float(result):.9g}, but {float(expected):.9g} without the schedule"


def _sizes_written(call: Arguments) -> str:
    return ", ".join(f"{name} = {value}" for name, value in call.sizes.items())


def _widened(array: AnyArray) -> AnyArray:
    return array.astype("float64") if array.dtype == np.float32 else array


def judged(
    kernel: Kernel,
    other: Kernel,
    arrays: Sequence[AnyArray],
    sizes: Mapping[str, int],
    result: Outputs | None = None,
    expected: Outputs | None = None,
    *,
    fast_math: bool = False,
) -> Judgement:
    """Judge a kernel by another one of the same formula, and by the bounds on the errors of both.

    The programs are also compared in float64, where the bounds are smaller. This decides alone on elements that have no
    bound in float32, such as a quotient by a difference that may be zero.
    """
    try:
        if result is None or expected is None:
            result, expected = (_outputs_of(each(*arrays, **sizes)) for each in (kernel, other))
        names = [of.name for of in kernel.program.results] or [""]
        known = _bounds(kernel, other, arrays, sizes)
        fault = _difference(names, result, expected, *known)
        if fault is None and any(each.dtype == np.float32 for each in result):
            first, second = (compile(in_double(each.program), fast_math=fast_math) for each in (kernel, other))
            widened = [_widened(each) for each in arrays]
            result, expected = (_outputs_of(each(*widened, **sizes)) for each in (first, second))
            known = _bounds(first, second, widened, sizes)
            fault = _difference(names, result, expected, *known)
    except NoErrorBound as error:
        return Judgement("unjudged", error.summary)
    if fault is not None:
        return Judgement("wrong", fault)
    unknown = sum(map(_without_bound, result, expected, known[0]))
    return Judgement("unjudged", f"{unknown} elements have no error bound") if unknown else RIGHT


def _bounds(
    kernel: Kernel, other: Kernel, arrays: Sequence[AnyArray], sizes: Mapping[str, int]
) -> tuple[Outputs, Outputs]:
    """Return how much the results of two kernels of a formula may differ, and the bounds of the second one."""
    first, second = (_outputs_of(each.error_bound(*arrays, **sizes)) for each in (kernel, other))
    return tuple(np.asarray(a + b) for a, b in zip(first, second, strict=True)), second


def _without_bound(result: AnyArray, expected: AnyArray, bound: AnyArray) -> int:
    """Return how many elements differ and have no bound on their error."""
    same = (result == expected) | (np.isnan(result) & np.isnan(expected))
    return int(np.count_nonzero(np.isinf(bound) & ~same))


def _difference(
    names: Sequence[str], results: Outputs, expected: Outputs, allowed: Outputs, of_expected: Outputs
) -> str | None:
    """Describe the element that differs most in the first result that differs by more than is allowed."""
    found = map(_differing, names, results, expected, allowed, of_expected)
    return next((fault for fault in found if fault is not None), None)


def _differing(name: str, result: AnyArray, expected: AnyArray, allowed: AnyArray, of_expected: AnyArray) -> str | None:
    """Describe the element that differs most from the expected one, if one differs by more than is allowed."""
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        away = np.abs(result.astype(np.float64) - expected.astype(np.float64))
    near = (away <= allowed) & (np.isfinite(result) | ~np.isfinite(of_expected))
    unknown = np.isnan(away) & np.isinf(of_expected)
    same = (result == expected) | (np.isnan(result) & np.isnan(expected)) | near | unknown
    wrong = np.flatnonzero(~same.reshape(-1))
    if not len(wrong):
        return None
    worst = wrong[int(np.argmax(np.nan_to_num(away.reshape(-1)[wrong], nan=np.inf)))]
    place = _place(worst, result)
    return _fault(name, place, result[place], expected[place])


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
