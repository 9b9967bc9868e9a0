"""Comparison of schedules of one program at given sizes: results are checked, and times are taken in turns."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.dtypes import is_integer
from atl.core.index import Bound, Index, Size, atoms, value_of
from atl.core.marks import LoopMark
from atl.core.program import Program, checked_program
from atl.core.terms import Expr, Reduce
from atl.core.traversal import children
from atl.errors import InvalidArgument, brief
from atl.meaning.arguments import AnyArray, bind, index_elements
from atl.meaning.interpret import Pad, denote
from lowering.builds import cache_directory, recorded_plan
from lowering.c_compiler import find_compiler
from lowering.kernel import Kernel, compile  # noqa: A004 (the public API name)
from lowering.targets.capabilities import marked_binders
from lowering.timing.harness import ThreadClock, WallClock, alternate
from lowering.timing.inputs import random_inputs
from lowering.timing.rounding import InDouble, in_double, tolerance

BLOCK: Final = 1 << 20
"""Number of elements compared at a time, so that large results are not copied as a whole."""
LOOKED_AT: Final = 16
"""Maximum number of elements of each block that are compared with a bound on their rounding error."""


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
    >>> comparison.fault_of(candidate) is None
    True
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
class BuiltSchedule:
    """A built schedule. Schedules with the same `identity` have the same machine code."""

    kernel: Kernel
    run: Callable[[], object]
    identity: str
    threaded: bool


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
        program = self._program = _of_arrays(program)
        self._fast_math = fast_math
        self._arrays = [np.asarray(call.arrays[array.name], order="C") for array in program.inputs]
        self._sizes: dict[str, Any] = {**named}
        self._start = compile(program, fast_math=fast_math)
        shape = tuple(_value(extent, call.sizes, call.arrays) for extent in program.shape)
        self._out = np.empty(shape, program.body.type.dtype)
        self._exact = is_integer(str(self._out.dtype))
        self._tolerance = 0.0 if self._exact else tolerance(self._out.dtype, self._terms(program))
        plan = recorded_plan(self._start.path)
        self.conditions: Final[Mapping[str, str]] = {
            "machine": f"{platform.node()}, {_processor()}",
            "compiler": str(find_compiler()),
            "flags": "" if plan is None else " ".join(part for part in plan.commands[0] if part.startswith("-")),
        }
        """Conditions of a measurement besides the program and its sizes."""
        self.folder: Final[Path] = cache_directory() / "tuned"
        """Folder for cached times."""

    @cached_property
    def _expected(self) -> AnyArray:
        """The result of the unscheduled program, which may be slow, and is not needed if all times are cached."""
        made: AnyArray = self._start(*self._arrays, **self._sizes)
        return made

    @cached_property
    def _scale(self) -> float:
        """The average magnitude of elements."""
        finite = self._expected[np.isfinite(self._expected)]
        return float(np.abs(finite).mean()) if finite.size else 0.0

    def candidate(self, program: Program) -> BuiltSchedule:
        """Build a schedule. Raises the errors of `compile`."""
        kernel = compile(_of_arrays(program), fast_math=self._fast_math)
        threaded = any(binder.mark is LoopMark.PARALLEL for binder in marked_binders(program))
        threads = os.environ.get("OMP_NUM_THREADS", "") or str(os.cpu_count())
        identity = f"{kernel.path.name}, {threads} threads" if threaded else kernel.path.name
        return BuiltSchedule(kernel, lambda: kernel(*self._arrays, out=self._out, **self._sizes), identity, threaded)

    def fault_of(self, candidate: BuiltSchedule) -> str | None:
        """Return a description of a wrong element of a schedule's result, or None if the result is right.

        A schedule may have cancellation where the program has none. So larger deviations in float32 are judged in
        double precision. There is no wider type for float64, where they are errors.
        """
        self._out.fill(-1 if self._exact else np.nan)
        candidate.run()
        off = list(self._differing(self._out, self._expected))
        wrong = None
        if off and self._out.dtype == np.float32:
            wrong = self._beyond_rounding(candidate.kernel.program, off)
        elif off:
            wrong = int(off[0][-1]), self._out, self._expected
        if wrong is None:
            return None
        at, found, right = wrong
        place = ", ".join(map(str, self._place(at)))
        found, right = found.reshape(-1)[at], right.reshape(-1)[at]
        return f"the element at ({place}) is {found:.9g}, but {right:.9g} without the schedule"

    def _differing(self, result: AnyArray, expected: AnyArray) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the elements whose error exceeds the rounding error, by block, the largest error last."""
        flat, right = result.reshape(-1), expected.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            a, b = flat[start : start + BLOCK], right[start : start + BLOCK]
            with np.errstate(invalid="ignore"):  # infinity minus infinity
                away = np.abs(a - b)
            near = away <= self._tolerance * (np.abs(b) + self._scale)
            off = np.flatnonzero(~((a == b) | near | (np.isnan(a) & np.isnan(b))))
            if len(off):
                yield start + off[np.argsort(away[off])]

    def _beyond_rounding(
        self, program: Program, off: Sequence[npt.NDArray[np.int64]]
    ) -> tuple[int, AnyArray, AnyArray] | None:
        """Return an element that is wrong in double precision, or wrong by more than rounding, with both results.

        The bound on rounding errors is computed for some of the deviating elements, including the worst.
        """
        result = compile(in_double(program), fast_math=self._fast_math)(*self._wide_arrays, **self._sizes)
        for each in self._differing(result, self._expected_in_double):
            return int(each[-1]), result, self._expected_in_double
        meaning, terms = denote(program, self._call.sizes, self._call.arrays, InDouble()), self._terms(program)
        for at in (int(at) for each in off for at in each[np.linspace(0, len(each) - 1, LOOKED_AT).astype(int)]):
            element = meaning.at(self._place(at))
            value, size = (0.0, 0.0) if isinstance(element, Pad) else element
            away = abs(float(self._out.reshape(-1)[at]) - value)
            if not (np.isfinite(size) and away <= tolerance(self._out.dtype, terms) * size):
                return at, self._out, self._expected_in_double
        return None

    @cached_property
    def _expected_in_double(self) -> AnyArray:
        """The result of the unscheduled program in double precision."""
        made: AnyArray = compile(in_double(self._program))(*self._wide_arrays, **self._sizes)
        return made

    @cached_property
    def _wide_arrays(self) -> list[AnyArray]:
        """The inputs in double precision."""
        return [each.astype("float64") if each.dtype == np.float32 else each for each in self._arrays]

    def _place(self, at: int) -> tuple[int, ...]:
        return tuple(map(int, np.unravel_index(at, self._out.shape)))

    def _terms(self, program: Program) -> int:
        return _terms(program.body, lambda extent: _extent(extent, self._call.sizes, self._call.arrays))

    def time_pair(
        self, new: BuiltSchedule, best: BuiltSchedule, *, rounds: int, seconds: float
    ) -> Sequence[tuple[float, float]]:
        """Time two schedules in turns: milliseconds of both in each undisturbed round. Raises `KeyboardInterrupt`."""
        clock = WallClock() if new.threaded or best.threaded else ThreadClock()
        samples = alternate({"new": new.run, "best": best.run}, rounds=rounds, seconds=seconds, clock=clock)
        if samples.interrupted:
            raise KeyboardInterrupt
        pairs = zip(samples.times["new"], samples.times["best"], strict=True)
        return [(a, b) for a, b in pairs if a is not None and b is not None]


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
