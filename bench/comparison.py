"""Workloads: a problem, our schedules for it, the baselines, and the roofline of the machine."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib.util import find_spec
from math import prod
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import Program
from atl.meaning.arguments import bind
from bench.outcome import one_call_name
from lowering import TimedFunction, tolerance

Array: TypeAlias = npt.NDArray[Any]
Made: TypeAlias = atl.Session | Program


@dataclass(frozen=True)
class Problem:
    """A workload at one size: the inputs, the array for the results, and the reference.

    The inputs are arrays or sparse tensors. `terms` bounds the number of terms in the sum for one element, since
    rounding grows with it. `memory` holds `out`.
    """

    size: int
    inputs: tuple[Any, ...]
    out: Array
    reference: Callable[..., Array]
    terms: int
    memory: mmap.mmap

    @property
    def is_sparse(self) -> bool:
        """True if an input is a sparse tensor."""
        return any(isinstance(given, atl.SparseTensor) for given in self.inputs)

    @cached_property
    def expected(self) -> Array:
        """Result in double precision, computed by NumPy."""
        exact = (
            given.astype(np.float64) if isinstance(given, np.ndarray) and given.dtype.kind == "f" else given
            for given in self.inputs
        )
        return np.asarray(self.reference(*exact), dtype=np.float64)

    def fault_of(self, run: TimedFunction, *, allocates: bool = False) -> str | None:
        """Run a candidate and describe the first wrong element; None if all are correct up to rounding.

        A candidate that allocates returns its result. All others write into `out`.
        """
        self.out.fill(np.nan)
        returned = run()
        result = np.asarray(returned) if allocates else self.out
        if result.shape != self.expected.shape:
            return f"the result has the shape {result.shape}, not {self.expected.shape}"
        # Blocks of rows avoid a third copy of a large result.
        scale = float(np.abs(self.expected).mean()) if self.expected.size else 0.0
        allowed = tolerance(self.out.dtype, self.terms)
        for row in range(0, len(result), 256):
            part, right = result[row : row + 256], self.expected[row : row + 256]
            close = np.abs(part - right) <= allowed * (np.abs(right) + scale)
            if not close.all():
                at = tuple(int(k) for k in np.argwhere(~close)[0])
                place = (row + at[0], *at[1:])
                return f"the element at {place} is {float(part[at]):.9g}, not {float(right[at]):.9g}"
        return None

    def take_memory(self) -> None:
        """Write to each page of the result, so that no timed run has page faults."""
        self.memory[:: mmap.PAGESIZE] = bytes(len(range(0, len(self.memory), mmap.PAGESIZE)))

    def give_memory_back(self) -> None:
        """Return the pages of the result to the system, so that only one candidate's process holds them at a time."""
        self.memory.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, slots=True)
class Ours:
    """One of our schedules of a workload.

    `make(**tiles)` returns a session, or a program without a schedule. `sizes` are keyword arguments of the kernel, and
    `size_parameters` names those that equal the size of the problem. `fixed` maps that size to the sizes that are
    compile-time constants. `parallel` names the loops that several threads share. Above `max_size` the schedule takes
    too long and is not measured.
    """

    make: Callable[..., Made]
    sizes: Mapping[str, int] = field(default_factory=dict)
    size_parameters: tuple[str, ...] = ()
    max_size: int | None = None
    tiles: Mapping[str, int] = field(default_factory=dict)
    fixed: Callable[[int], Mapping[str, int]] | None = None
    parallel: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the function that derives the schedule, with its tiles and sizes."""
        parameters = [f"{name} = {value}" for name, value in (*self.tiles.items(), *self.sizes.items())]
        parameters += ["sizes fixed"] if self.fixed is not None else []
        return f"{self.make.__name__} ({', '.join(parameters)})" if parameters else self.make.__name__

    def made(self, threads: int = 1) -> tuple[Program, bool]:
        """Return the program for a number of threads, and True if a schedule was derived."""
        return _made(self.make, tuple(self.tiles.items()), self.parallel if threads > 1 else ())

    def candidate(self, problem: Problem, threads: int = 1) -> tuple[TimedFunction, bool]:
        """Return a function that runs the kernel, and True if a schedule was derived."""
        fixed = self.fixed(problem.size) if self.fixed is not None else {}
        marked = self.parallel if threads > 1 else ()
        kernel, derived = _built(self.make, tuple(self.tiles.items()), marked, tuple(fixed.items()))
        inputs, out = problem.inputs, problem.out
        sizes = {k: v for k, v in self.keywords(problem).items() if k not in fixed}
        return lambda: kernel(*inputs, out=out, **sizes), derived

    def keywords(self, problem: Problem) -> dict[str, int]:
        """Return the keyword arguments of the kernel for a problem."""
        return {**self.sizes, **dict.fromkeys(self.size_parameters, problem.size)}

    def start(self, problem: Problem) -> tuple[Program, dict[str, int]]:
        """Return the program without a schedule, and its keyword arguments for a problem.

        For a sparse problem, it is the goal after `sparsify`, the first call of the schedule.
        """
        made = _derived(self.make, tuple(self.tiles.items()))
        if not isinstance(made, atl.Session):
            program = made
        else:
            program = made.steps[0].theorem.rhs if problem.is_sparse else made.theorem.lhs
        return program, {k: v for k, v in self.keywords(problem).items() if k in program.free_sizes}


_Numbers: TypeAlias = tuple[tuple[str, int], ...]
"""Pairs of a name and a number, as a hashable key."""


# A process derives and builds each schedule once, also for several sizes and numbers of threads.


@cache
def _derived(make: Callable[..., Made], tiles: _Numbers) -> Made:
    return make(**dict(tiles))


@cache
def _made(make: Callable[..., Made], tiles: _Numbers, marked: tuple[str, ...]) -> tuple[Program, bool]:
    made = _derived(make, tiles)
    if not isinstance(made, atl.Session):
        return made, False
    shared = made.branch()
    for loop in marked:
        shared.mark(loop, "parallel")
    return shared.goal, bool(made.steps)


@cache
def _built(
    make: Callable[..., Made], tiles: _Numbers, marked: tuple[str, ...], fixed: _Numbers
) -> tuple[atl.Kernel, bool]:
    program, derived = _made(make, tiles, marked)
    return atl.compile(program, sizes=dict(fixed) or None), derived


@dataclass(frozen=True, slots=True)
class Tuning:
    """A schedule with parameters that autotuning chooses, and the choices of each parameter."""

    schedule: Callable[..., atl.Session]
    choices: Mapping[str, Sequence[Any]]

    @property
    def name(self) -> str:
        """Name of the function, before its parameters are known."""
        return f"{self.schedule.__name__}, tuned"

    def found(
        self, problem: Problem, seconds: float, watch: Callable[[str], object]
    ) -> tuple[str, TimedFunction] | None:
        """Tune for some seconds. Return the name of the fastest schedule, and a function that runs it."""
        start = self.schedule(**{name: values[0] for name, values in self.choices.items()}).theorem.lhs
        inputs = {array.name: values for array, values in zip(start.inputs, problem.inputs, strict=True)}
        sizes = bind(start, (), inputs).sizes
        tried = atl.autotune(
            self.schedule,
            self.choices,
            sizes,
            seconds,
            measure=partial(atl.measure, inputs=inputs),
            watch=lambda one: watch(f"tuning {self.schedule.__name__}, {one}"),
        )
        if tried.stopped == "interrupted":
            raise KeyboardInterrupt
        if tried.best is None or tried.session is None:
            return None
        kernel = atl.compile(tried.session.goal)
        inputs_in_order, out = problem.inputs, problem.out
        return f"{self.schedule.__name__}({tried.best.name}), tuned", lambda: kernel(*inputs_in_order, out=out)


@dataclass(frozen=True, slots=True)
class OneCall:
    """`s.optimize()` of a program: by the model of the machine, or with `seconds`, measured within that time.

    `keywords` are the sizes that the inputs do not determine.
    """

    program: Program
    keywords: Mapping[str, int]
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """Name of the candidate, with the time budget."""
        return one_call_name(self.seconds)

    def candidate(
        self, problem: Problem, threads: int, watch: Callable[[str], object]
    ) -> tuple[TimedFunction, bool, float]:
        """Return a function that runs the kernel, True if a recipe fitted, and the seconds that the call took."""
        session, call = atl.reschedule(self.program), bind(self.program, problem.inputs, self.keywords)
        begun = monotonic()
        if self.seconds:
            with TemporaryDirectory(prefix="atl-") as folder:  # without the results of earlier runs
                session.optimize(
                    call.sizes,
                    self.seconds,
                    parallel=threads > 1,
                    folder=folder,
                    measure=partial(atl.measure, inputs=call.arrays),
                    watch=lambda one: watch(f"tuning {self.name}, {one}"),
                )
        else:
            session.optimize(call.sizes, parallel=threads > 1)
        took = monotonic() - begun
        report = session.report
        if report is not None and report.tuned is not None and report.tuned.stopped == "interrupted":
            raise KeyboardInterrupt
        kernel, inputs, out, sizes = atl.compile(session.goal), problem.inputs, problem.out, self.keywords
        return lambda: kernel(*inputs, out=out, **sizes), bool(session.steps), took


@dataclass(frozen=True, slots=True)
class Baseline:
    """The same work by another system: `make(problem, threads)` returns a function that runs it.

    `needs` lists the Python modules that it imports. A baseline that `allocates` returns a new array, because it cannot
    write into an existing one. `min_size` is the smallest size that it supports.
    """

    name: str
    make: Callable[[Problem, int], TimedFunction]
    needs: tuple[str, ...] = ()
    allocates: bool = False
    min_size: int = 1

    def lacks(self) -> tuple[str, ...]:
        """Return the modules that are not installed."""
        return tuple(module for module in self.needs if find_spec(module) is None)


@dataclass(frozen=True, slots=True)
class Roofline:
    """A lower bound of the time: copying or reading `work` bytes, or `work` operations in fused multiply-adds."""

    kind: Literal["copy", "read", "fma"]
    work: Callable[[Problem], float]


@dataclass(frozen=True, slots=True)
class Workload:
    """A computation with our schedules and the baselines.

    `quick` is its size in a quick run; None leaves it out of that run. `tuned` lists schedules with tuned parameters.
    """

    name: str
    description: str
    sizes: tuple[int, ...]
    pose: Callable[[int], Problem]
    ours: tuple[Ours, ...]
    baselines: tuple[Baseline, ...]
    roofline: Roofline
    max_size: int
    quick: int | None = None
    tuned: tuple[Tuning, ...] = ()


def moved(problem: Problem) -> float:
    """Return the bytes that any program for this problem must move: all inputs once, and the result."""
    return float(sum(array.nbytes for array in problem.inputs) + problem.out.nbytes)


def numbers(shape: tuple[int, ...], dtype: str = "float32", seed: int = 1) -> Array:
    """Return random numbers between 0 and 1. Sums of them have no cancellation, so they can be compared."""
    made: Array = np.random.default_rng(seed).random(shape, dtype=np.float64).astype(dtype)
    return made


NUMPY_OFFSET: Final = 16
"""Offset in bytes of the first element of a large NumPy array from the start of a page."""
HUGE: Final = 1 << 22
"""Size in bytes from which NumPy requests huge pages."""


def pages_for(shape: tuple[int, ...], dtype: str) -> tuple[mmap.mmap, Array]:
    """Return private memory, and an array in it with the alignment of NumPy's arrays."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = mmap.mmap(-1, NUMPY_OFFSET + size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory, np.ndarray(shape, dtype, memory, NUMPY_OFFSET)


def posed(
    reference: Callable[..., Array],
    shapes: Callable[[int], tuple[tuple[int, ...], ...]],
    *,
    terms: Callable[[int], int] = lambda _: 16,
    dtype: str = "float32",
    scales: Sequence[float] | None = None,
) -> Callable[[int], Problem]:
    """Return a function from a size to a problem. `shapes` gives the shapes of the inputs, then of the result.

    The elements of the inputs are between 0 and 1, or between 0 and the numbers in `scales`, one for each input.
    """

    def pose(size: int) -> Problem:
        *inputs, result = shapes(size)
        largest = scales or (1.0,) * len(inputs)
        arrays = tuple(
            numbers(shape, dtype, seed) * np.dtype(dtype).type(scale)
            for seed, (shape, scale) in enumerate(zip(inputs, largest, strict=True), 1)
        )
        memory, out = pages_for(result, dtype)
        return Problem(size, arrays, out, reference, terms(size), memory)

    return pose
