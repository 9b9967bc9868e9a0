"""Schedules of one program, compared at some sizes: each is built, its result is checked, and two take turns."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from lowering.compiled import Kernel, compile  # noqa: A004 (the contract's name)
from lowering.compiler import find_compiler
from lowering.targets.capabilities import marked_binders
from lowering.timing.harness import ThreadClock, WallClock, alternate
from lowering.timing.inputs import random_inputs
from lowering.timing.rounding import InDouble, in_double, tolerance
from lowering.toolchain import cache_directory, recorded_plan

BLOCK: Final = 1 << 20
"""So many elements are compared at a time: a large result needs no third copy."""
LOOKED_AT: Final = 16
"""The most elements of each block that are compared with the rounding of the magnitudes they add up."""


def measure(
    program: Program,
    sizes: Mapping[str, int],
    *,
    inputs: Mapping[str, AnyArray] | None = None,
    fast_math: bool = False,
) -> KernelContest:
    """A contest of schedules of a program at these sizes, as `s.autotune` takes it.

    The inputs are random, or the ones given; `functools.partial(lowering.measure, fast_math=True)` is a measure of
    kernels that are built so. What a schedule computes is compared with the program as it stands, before it is timed:
    up to rounding, which grows with the number of terms that are added. Where float32 is further off, both are compared
    in float64, and what the schedule gives must be within the rounding of the magnitudes that it adds up.

    Times are CPU time of this thread in milliseconds, or time on the wall where a loop is marked `parallel`.

    >>> import atl
    >>> from lowering import measure
    >>> twice = atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
    >>> contest = measure(twice, {"n": 1000})
    >>> entrant = contest.entrant(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] + x[i]"))
    >>> contest.fault_of(entrant) is None
    True
    >>> all(a > 0 and b > 0 for a, b in contest.race(entrant, contest.entrant(twice), rounds=3, seconds=1))
    True
    """
    checked_program(program)
    if not isinstance(sizes, Mapping) or not all(type(value) is int and value >= 0 for value in sizes.values()):
        raise InvalidArgument(f"sizes={brief(sizes)}", required='a dictionary from names to numbers: sizes={"n": 1000}')
    unknown = [name for name in sizes if name not in program.sizes]
    if unknown:
        raise InvalidArgument(
            f"{program.name} has no size {', '.join(map(str, unknown))}",
            required=f"numbers for the sizes {', '.join(program.sizes) or 'of the program, of which it has none'}",
        )
    return KernelContest(program, dict(sizes), random_inputs(program, sizes) if inputs is None else inputs, fast_math)


@dataclass(frozen=True, slots=True)
class BuiltSchedule:
    """A schedule, built. Two of the same `identity` are the same machine code."""

    kernel: Kernel
    run: Callable[[], object]
    identity: str
    threaded: bool


class KernelContest:
    """Schedules of one program with its inputs, at some sizes; what they write is compared, and then timed."""

    def __init__(
        self, program: Program, sizes: dict[str, int], inputs: Mapping[str, AnyArray], fast_math: bool
    ) -> None:
        program = self._program = program.whole
        named = {name: value for name, value in sizes.items() if name in program.sizes}
        call = self._call = bind(program, (), {**inputs, **named})
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
        """What a time depends on besides the program and its sizes."""
        self.folder: Final[Path] = cache_directory() / "tuned"
        """Where a table of times may be kept."""

    @cached_property
    def _expected(self) -> AnyArray:
        """What the program as it stands computes. It may be slow: where all times are remembered it does not run."""
        made: AnyArray = self._start(*self._arrays, **self._sizes)
        return made

    @cached_property
    def _scale(self) -> float:
        """How large elements are, on average."""
        finite = self._expected[np.isfinite(self._expected)]
        return float(np.abs(finite).mean()) if finite.size else 0.0

    def entrant(self, program: Program) -> BuiltSchedule:
        """The program built. Raises what `compile` raises."""
        kernel = compile(program.whole, fast_math=self._fast_math)
        threaded = any(binder.mark is LoopMark.PARALLEL for binder in marked_binders(program))
        threads = os.environ.get("OMP_NUM_THREADS", "") or str(os.cpu_count())
        identity = f"{kernel.path.name}, {threads} threads" if threaded else kernel.path.name
        return BuiltSchedule(kernel, lambda: kernel(*self._arrays, out=self._out, **self._sizes), identity, threaded)

    def fault_of(self, entrant: BuiltSchedule) -> str | None:
        """What is wrong with the result of a schedule; nothing if it is that of the program, up to rounding.

        A schedule may cancel where the program does not. So float32 that is further off is judged in double precision:
        of float64 nothing wider is at hand, and what is further off is wrong.
        """
        self._out.fill(-1 if self._exact else np.nan)
        entrant.run()
        off = list(self._differing(self._out, self._expected))
        wrong = None
        if off and self._out.dtype == np.float32:
            wrong = self._beyond_rounding(entrant.kernel.program, off)
        elif off:
            wrong = int(off[0][-1]), self._out, self._expected
        if wrong is None:
            return None
        at, found, right = wrong
        place = ", ".join(map(str, self._place(at)))
        found, right = found.reshape(-1)[at], right.reshape(-1)[at]
        return f"the element at ({place}) is {found:.9g}, and {right:.9g} by the program as it stands"

    def _differing(self, result: AnyArray, expected: AnyArray) -> Iterator[npt.NDArray[np.int64]]:
        """Where a result is further from the expected one than the rounding of its elements, the furthest last."""
        flat, right = result.reshape(-1), expected.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            a, b = flat[start : start + BLOCK], right[start : start + BLOCK]
            with np.errstate(invalid="ignore"):  # infinity less infinity
                away = np.abs(a - b)
            near = away <= self._tolerance * (np.abs(b) + self._scale)
            off = np.flatnonzero(~((a == b) | near | (np.isnan(a) & np.isnan(b))))
            if len(off):
                yield start + off[np.argsort(away[off])]

    def _beyond_rounding(
        self, program: Program, off: Sequence[npt.NDArray[np.int64]]
    ) -> tuple[int, AnyArray, AnyArray] | None:
        """Where a schedule is wrong in double precision, or in single by more than rounding; with both results.

        Rounding is asked about at some of the places that are off, the furthest among them.
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
        """What the program as it stands computes in double precision."""
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

    def race(
        self, new: BuiltSchedule, best: BuiltSchedule, *, rounds: int, seconds: float
    ) -> Sequence[tuple[float, float]]:
        """Milliseconds of both, of each round in which neither was disturbed. Raises `KeyboardInterrupt`."""
        clock = WallClock() if new.threaded or best.threaded else ThreadClock()
        samples = alternate({"new": new.run, "best": best.run}, rounds=rounds, seconds=seconds, clock=clock)
        if samples.interrupted:
            raise KeyboardInterrupt
        pairs = zip(samples.times["new"], samples.times["best"], strict=True)
        return [(a, b) for a, b in pairs if a is not None and b is not None]


def _terms(e: Expr, extent: Callable[[Index], int]) -> int:
    """How many numbers are added for one element, at most: rounding grows with it."""
    most = max((_terms(child.expr, extent) for child in children(e)), default=1)
    return most * max(1, extent(e.high - e.low)) if isinstance(e, Reduce) else most


def _extent(e: Index, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> int:
    """The extent of a loop, or the largest size where it depends on other loops."""
    if any(isinstance(atom, Bound) for atom in atoms(e)):
        return max(sizes.values(), default=1)
    return _value(e, sizes, arrays)


def _value(e: Index, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> int:
    return value_of(e, lambda leaf: sizes[leaf.name] if isinstance(leaf, Size) else 0, index_elements(arrays))


@lru_cache(maxsize=1)
def _processor() -> str:
    """Return a digest of what this processor calls itself and can do."""
    # Cores may differ within one machine, so every core's line counts; speeds and counters do not.
    telling = ("model name", "flags", "Features", "CPU implementer", "CPU variant", "CPU part", "isa", "uarch", "cpu\t")
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    features = sorted({line for line in lines if line.startswith(telling)})
    text = "\n".join((sys.platform, platform.machine(), *(features or [platform.processor()])))
    return hashlib.sha256(text.encode()).hexdigest()[:24]
