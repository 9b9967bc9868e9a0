"""Many kernels in one shared object, or in one program with address and undefined-behaviour sanitizers.

Compiling many small kernels together costs little more than compiling one.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from string import Template
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.index import leaf_values, value_of
from atl.core.program import Program
from atl.meaning.arguments import bind, index_elements
from lowering.builds import build_executable, build_shared, load
from lowering.c.printer import declaration, function_names, print_unit
from lowering.c.scalars import C_TYPES
from lowering.kernel import Kernel
from lowering.kernel_text import Code
from lowering.nest.loopnest import LoopNest
from lowering.pipeline import lower
from lowering.targets.capabilities import check_names

AnyArray: TypeAlias = npt.NDArray[Any]

HANGS: Final = 600.0
"""Timeout of the process in seconds; enough for a slow and busy machine."""
POISON: Final = 0x7F
"""Byte that fills an output before the call: floats of it are huge, so no element is right by chance."""

_KERNEL: Final = re.compile(r"\bkernel_(\d+)\b")


def compile_many(
    programs: Sequence[Program], *, nests: Sequence[LoopNest] | None = None, fast_math: bool = False
) -> list[Kernel]:
    """Compile a kernel for each program into one shared object; `nests` are the lowered programs, if known.

    Raises the errors of `lowering.compile`.
    """
    if not programs:
        return []
    for program in programs:
        check_names(program)
    nests = [lower(program) for program in programs] if nests is None else nests
    names = function_names(nests)
    source = print_unit(nests)
    path = build_shared(source, name="kernels", fast_math=fast_math)
    ffi, library = load(path, "\n".join(map(declaration, nests, names)))
    return [
        Kernel(program, nest, Code(source, path, name, ffi, library))
        for program, nest, name in zip(programs, nests, names, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the `which`-th program of a batch."""

    which: int
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """The failure of a call: a sanitizer's report, a nonzero code, a signal or the time limit."""

    text: str


class Sanitized:
    """Programs compiled together with sanitizers, and run in a separate process.

    Each array has a block of memory of exactly its size, so that an access one element outside is found. The output is
    poisoned before the call. `nests` are the lowered programs, if known.
    """

    def __init__(self, programs: Sequence[Program], nests: Sequence[LoopNest] | None = None) -> None:
        self.programs: Final = tuple(programs)
        nests = tuple(map(lower, programs)) if nests is None else nests
        self.nests: Final = tuple(replace(nest, name=f"kernel_{at}") for at, nest in enumerate(nests))
        runners = map(_runner, range(len(self.nests)), self.nests)
        parts = ["#include <stdint.h>\n", print_unit(self.nests, static=True), *runners, _main(self.nests)]
        self.source: Final = "\n".join(parts)
        self.path: Final = build_executable({"kernels.c": self.source}, name="sanitized", sanitize=True)

    def run(self, calls: Sequence[Call], *, seconds: float = HANGS) -> list[AnyArray | Report]:
        """Return the result of each call, or a report of its failure. Calls after a failed one run too.

        A leak is found at the end of the process, and reported for each call of the leaking kernel. Invalid arguments
        raise the errors of `Kernel`.
        """
        bound = [_bound(self.programs[call.which], self.nests[call.which], call) for call in calls]
        done: list[AnyArray | Report] = []
        while len(done) < len(calls):
            start = len(done)
            packed = b"".join(
                _packed(call.which, arguments) for call, arguments in zip(calls[start:], bound[start:], strict=True)
            )
            answer, failure = self._process(packed, seconds)
            results = _unpacked(answer, [(b.shape, b.dtype) for b in bound[start:]])
            if len(results) == len(calls) - start:
                leaking = {int(number) for number in _KERNEL.findall(failure)}
                done += [
                    Report(failure) if failure and (not leaking or call.which in leaking) else result
                    for call, result in zip(calls[start:], results, strict=True)
                ]
            else:
                done += [*results, Report(failure or "the process ended without a reason")]
        return done

    def _process(self, packed: bytes, seconds: float) -> tuple[bytes, str]:
        """Run a process with these calls; return its output, and the reason of a failure."""
        with tempfile.TemporaryDirectory(prefix="atl-") as directory:
            calls, results = Path(directory) / "calls", Path(directory) / "results"
            calls.write_bytes(packed)
            results.touch()
            try:
                ended = subprocess.run(
                    [self.path, calls, results],
                    capture_output=True,
                    text=True,
                    errors="replace",
                    check=False,
                    timeout=seconds,
                )
                failure = ended.stderr.strip() or f"status {ended.returncode}" if ended.returncode else ""
            except subprocess.TimeoutExpired:
                failure = f"it ran for more than {seconds} s"
            return results.read_bytes(), failure


@dataclass(frozen=True, slots=True)
class _Bound:
    """A call with bound arguments: arrays and sizes in order, the shape and element type of the result."""

    arrays: tuple[AnyArray, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def _bound(program: Program, nest: LoopNest, call: Call) -> _Bound:
    given = bind(program, (), call.arguments)
    leaf, element = leaf_values(given.sizes), index_elements(given.arrays)
    shape = tuple(value_of(extent, leaf, element) for extent in nest.output.extents)
    arrays = tuple(np.ascontiguousarray(given.arrays[array.name]) for array in nest.inputs)
    return _Bound(arrays, tuple(given.sizes[name] for name in nest.sizes), shape, np.dtype(nest.output.dtype))


def _packed(which: int, call: _Bound) -> bytes:
    """Encode the call for the process: 64-bit numbers, and arrays as their length and their bytes."""
    length = prod(call.shape) * call.dtype.itemsize
    parts = [np.array([which, len(call.sizes), *call.sizes, len(call.arrays)], np.int64).tobytes()]
    for array in call.arrays:
        parts += [np.int64(array.nbytes).tobytes(), array.tobytes()]
    return b"".join([*parts, np.int64(length).tobytes()])


def _unpacked(answer: bytes, wanted: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> list[AnyArray | Report]:
    """Decode the completely written results: for each call the return code of the kernel and its output."""
    results: list[AnyArray | Report] = []
    at = 0
    for shape, dtype in wanted:
        end = at + 8 + prod(shape) * dtype.itemsize
        if end > len(answer):
            break
        status = int(np.frombuffer(answer, np.int64, 1, at)[0])
        values = np.frombuffer(answer, dtype, prod(shape), at + 8).reshape(shape).copy()
        results.append(Report(f"the kernel returned {status}") if status else values)
        at = end
    return results


def _runner(at: int, nest: LoopNest) -> str:
    """Return a C function that calls a kernel with arguments from memory."""
    inputs = [
        f"arrays[{k}]" if array.shape else f"*(const {C_TYPES[array.dtype]} *)arrays[{k}]"
        for k, array in enumerate(nest.inputs)
    ]
    arguments = ", ".join([*inputs, *(f"sizes[{k}]" for k in range(len(nest.sizes))), "out"])
    return f"""\
static int run_{at}(void *const *arrays, const int64_t *sizes, void *out)
{{
    (void)arrays;
    (void)sizes;
    return kernel_{at}({arguments});
}}
"""


_MAIN: Final = Template("""\
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int (*const RUNNERS[])(void *const *, const int64_t *, void *) = {$runners};

static int64_t number(FILE *file)
{
    int64_t value;
    if (fread(&value, sizeof value, 1, file) != 1)
        exit(4);
    return value;
}

/* A block of exactly this many bytes. */
static void *block(int64_t bytes)
{
    void *made = malloc(bytes);
    if (made == NULL)
        exit(5);
    return made;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    FILE *calls = fopen(arguments[1], "rb"), *results = fopen(arguments[2], "wb");
    if (calls == NULL || results == NULL)
        return 3;
    int64_t which;
    while (fread(&which, sizeof which, 1, calls) == 1) {
        int64_t sizes[$most_sizes];
        void *arrays[$most_arrays];
        int64_t number_of_sizes = number(calls);
        for (int64_t k = 0; k < number_of_sizes; k++)
            sizes[k] = number(calls);
        int64_t number_of_arrays = number(calls);
        for (int64_t k = 0; k < number_of_arrays; k++) {
            int64_t bytes = number(calls);
            arrays[k] = block(bytes);
            if (fread(arrays[k], 1, bytes, calls) != (size_t)bytes)
                return 4;
        }
        int64_t length = number(calls);
        void *out = block(length);
        memset(out, $poison, length);
        int64_t status = RUNNERS[which](arrays, sizes, out);
        fwrite(&status, sizeof status, 1, results);
        fwrite(out, 1, length, results);
        fflush(results);
        for (int64_t k = 0; k < number_of_arrays; k++)
            free(arrays[k]);
        free(out);
    }
    return fclose(calls) | fclose(results);
}
""")


def _main(nests: Sequence[LoopNest]) -> str:
    """Return a `main` that makes the calls of one file in order, and writes each result to another."""
    return _MAIN.substitute(
        runners=", ".join(f"run_{at}" for at in range(len(nests))),
        most_sizes=max([1, *(len(nest.sizes) for nest in nests)]),
        most_arrays=max([1, *(len(nest.inputs) for nest in nests)]),
        poison=POISON,
    )
