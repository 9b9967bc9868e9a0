"""What is compared: a workload, our schedules of it, the rivals, and the limit of the machine that it could reach."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib.util import find_spec
from math import prod
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from atl import Program
from atl.meaning.arguments import bind
from lowering import Kernel, TimedFunction, measure, tolerance
from lowering import compile as compiled
from rewrites import Session, autotune

Array: TypeAlias = npt.NDArray[Any]
Made: TypeAlias = Session | Program


@dataclass(frozen=True)
class Problem:
    """A workload at one size: the inputs, the array that all contestants write into, and what must stand there then.

    `terms` is how many numbers are added for one element, at most: rounding grows with it. `memory` holds `out`.
    """

    size: int
    inputs: tuple[Array, ...]
    out: Array
    reference: Callable[..., Array]
    terms: int
    memory: mmap.mmap

    @cached_property
    def expected(self) -> Array:
        """The result in double precision, by NumPy."""
        exact = (array.astype(np.float64) if array.dtype.kind == "f" else array for array in self.inputs)
        return np.asarray(self.reference(*exact), dtype=np.float64)

    def fault_of(self, run: TimedFunction, *, allocates: bool = False) -> str | None:
        """What is wrong with what a contestant computes; nothing if it is right, up to rounding.

        What allocates gives its result back; all others have it written where it is to stand.
        """
        self.out.fill(np.nan)
        made = run()
        result = np.asarray(made) if allocates else self.out
        if result.shape != self.expected.shape:
            return f"the result has the shape {result.shape}, not {self.expected.shape}"
        # In blocks of rows, so that a large result needs no third copy.
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
        """Write to each page of the result, so that no timed run is the first to touch one."""
        self.memory[:: mmap.PAGESIZE] = bytes(len(range(0, len(self.memory), mmap.PAGESIZE)))

    def give_memory_back(self) -> None:
        """Give the pages of the result back to the system: of all contestants' processes, one has them at a time."""
        self.memory.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, slots=True)
class Ours:
    """One of our schedules: a line of a workload's table.

    `make` derives it, or gives a program as it was written; `sizes` are keywords of the call, such as tiles, and
    `size_as` those that are the size of the problem; `most` is the largest one at which anybody would wait for it.
    `tiles` are what `make` is called with, and `fixed` gives the sizes that the C compiler knows, of that of a problem.
    `parallel` are the loops that several threads share out, where there are several; without it there is one at work.
    """

    make: Callable[..., Made]
    sizes: Mapping[str, int] = field(default_factory=dict)
    size_as: tuple[str, ...] = ()
    most: int | None = None
    tiles: Mapping[str, int] = field(default_factory=dict)
    fixed: Callable[[int], Mapping[str, int]] | None = None
    parallel: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the function that derives it, with its tiles and the sizes that it is called with."""
        told = [f"{name} = {value}" for name, value in (*self.tiles.items(), *self.sizes.items())]
        told += ["sizes fixed"] if self.fixed is not None else []
        return f"{self.make.__name__} ({', '.join(told)})" if told else self.make.__name__

    def made(self, threads: int = 1) -> tuple[Program, bool]:
        """The program for so many threads, and whether it was derived (or else stands as somebody wrote it)."""
        return _made(self.make, tuple(self.tiles.items()), self.parallel if threads > 1 else ())

    def contestant(self, problem: Problem, threads: int = 1) -> tuple[TimedFunction, bool]:
        """What runs it, and whether it was derived (or else stands as somebody wrote it)."""
        fixed = self.fixed(problem.size) if self.fixed is not None else {}
        marked = self.parallel if threads > 1 else ()
        kernel, derived = _built(self.make, tuple(self.tiles.items()), marked, tuple(fixed.items()))
        given = {**self.sizes, **dict.fromkeys(self.size_as, problem.size)}
        inputs, out, sizes = problem.inputs, problem.out, {k: v for k, v in given.items() if k not in fixed}
        return lambda: kernel(*inputs, out=out, **sizes), derived


_Numbers: TypeAlias = tuple[tuple[str, int], ...]
"""Names with their numbers, as a key."""


# A schedule that is asked for at several sizes, or for several threads, is derived and built once in a process.


@cache
def _derived(make: Callable[..., Made], tiles: _Numbers) -> Made:
    return make(**dict(tiles))


@cache
def _made(make: Callable[..., Made], tiles: _Numbers, marked: tuple[str, ...]) -> tuple[Program, bool]:
    made = _derived(make, tiles)
    if not isinstance(made, Session):
        return made, False
    shared = made.branch()
    for loop in marked:
        shared.mark(loop, "parallel")
    return shared.goal, bool(made.steps)


@cache
def _built(make: Callable[..., Made], tiles: _Numbers, marked: tuple[str, ...], fixed: _Numbers) -> tuple[Kernel, bool]:
    program, derived = _made(make, tiles, marked)
    return compiled(program, sizes=dict(fixed) or None), derived


@dataclass(frozen=True, slots=True)
class Tuning:
    """A schedule of which autotuning finds the numbers: a function of parameters, and the choices of each."""

    schedule: Callable[..., Session]
    choices: Mapping[str, Sequence[Any]]

    @property
    def name(self) -> str:
        """The name of the function, of which the numbers are not known yet."""
        return f"{self.schedule.__name__}, tuned"

    def found(
        self, problem: Problem, seconds: float, watch: Callable[[str], object]
    ) -> tuple[str, TimedFunction] | None:
        """What is the fastest, as far as is known after so many seconds of trying: its name, and what runs it."""
        start = self.schedule(**{name: values[0] for name, values in self.choices.items()}).theorem.lhs
        inputs = {array.name: given for array, given in zip(start.inputs, problem.inputs, strict=True)}
        sizes = bind(start, (), inputs).sizes
        tried = autotune(
            self.schedule,
            self.choices,
            sizes,
            seconds,
            measure=partial(measure, inputs=inputs),
            watch=lambda one: watch(f"tuning {self.schedule.__name__}, {one}"),
        )
        if tried.stopped == "interrupted":
            raise KeyboardInterrupt
        if tried.best is None or tried.session is None:
            return None
        kernel = compiled(tried.session.goal)
        inputs_in_order, out = problem.inputs, problem.out
        return f"{self.schedule.__name__}({tried.best.name}), tuned", lambda: kernel(*inputs_in_order, out=out)


@dataclass(frozen=True, slots=True)
class Rival:
    """The same work by another system: `make(problem, threads)` gives what runs it, and needs these modules.

    `allocates` says of a system that it makes its result anew: it cannot write into an array that is there. `least` is
    the smallest size that it takes.
    """

    name: str
    make: Callable[[Problem, int], TimedFunction]
    needs: tuple[str, ...] = ()
    allocates: bool = False
    least: int = 1

    def lacks(self) -> tuple[str, ...]:
        """The modules that are not installed."""
        return tuple(module for module in self.needs if find_spec(module) is None)


@dataclass(frozen=True, slots=True)
class Limit:
    """What no program can beat: copying or reading so many bytes, or so many operations in fused multiply-adds."""

    kind: Literal["copy", "read", "fma"]
    work: Callable[[Problem], float]


@dataclass(frozen=True, slots=True)
class Workload:
    """A computation with everybody who does it; `quick` is its size in a run of a minute, if it takes part in that.

    `tuned` are schedules of which what autotuning has found takes part too.
    """

    name: str
    says: str
    sizes: tuple[int, ...]
    pose: Callable[[int], Problem]
    ours: tuple[Ours, ...]
    rivals: tuple[Rival, ...]
    limit: Limit
    most: int
    quick: int | None = None
    tuned: tuple[Tuning, ...] = ()


def moved(problem: Problem) -> float:
    """The bytes that any program for this problem must move: all inputs once, and the result."""
    return float(sum(array.nbytes for array in problem.inputs) + problem.out.nbytes)


def numbers(shape: tuple[int, ...], dtype: str = "float32", seed: int = 1) -> Array:
    """Random numbers between 0 and 1: sums of them lose nothing to cancellation, so that they can be compared."""
    made: Array = np.random.default_rng(seed).random(shape, dtype=np.float64).astype(dtype)
    return made


BEHIND_A_PAGE: Final = 16
"""The offset in bytes of the first element of a large NumPy array from the start of a page."""
HUGE: Final = 1 << 22
"""The size in bytes from which on NumPy asks the system for huge pages."""


def pages_for(shape: tuple[int, ...], dtype: str) -> tuple[mmap.mmap, Array]:
    """Return private memory, and an array in it that is aligned as NumPy's are, no better."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = mmap.mmap(-1, BEHIND_A_PAGE + size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory, np.ndarray(shape, dtype, memory, BEHIND_A_PAGE)


def posed(
    reference: Callable[..., Array],
    shapes: Callable[[int], tuple[tuple[int, ...], ...]],
    *,
    terms: Callable[[int], int] = lambda _: 16,
    dtype: str = "float32",
) -> Callable[[int], Problem]:
    """How a problem is made of a size: from the shapes of the inputs, and of the result as the last one."""

    def pose(size: int) -> Problem:
        *inputs, result = shapes(size)
        arrays = tuple(numbers(shape, dtype, seed) for seed, shape in enumerate(inputs, 1))
        memory, out = pages_for(result, dtype)
        return Problem(size, arrays, out, reference, terms(size), memory)

    return pose
