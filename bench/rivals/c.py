"""C written by hand, in shapes that are known to be good, built by the compiler and with the flags of our kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from bench.contest import Problem
from lowering import Run, build_shared, load_shared

ARRAYS: Final = {"float32": "float[]", "float64": "double[]"}


def built(
    source: str, name: str, declared: str, *, threads: int, extra: tuple[str, ...] = ()
) -> Callable[..., Callable[[], Any]]:
    """A function of C: called with arrays and numbers it gives what runs it on them, which keeps the arrays alive."""
    several = ("-fopenmp",) if threads > 1 else ()
    path = build_shared(source, name=name, extra_flags=(*extra, *several), link_flags=several)
    ffi, library = load_shared(path, declared)
    function = getattr(library, name)

    def bound(*values: object) -> Callable[[], Any]:
        kept = [
            ffi.from_buffer(ARRAYS[value.dtype.name], value) if isinstance(value, np.ndarray) else value
            for value in values
        ]

        def run() -> Any:
            # The function does not keep its library, nor cffi what it is called with.
            return function(*kept) if library else None

        return run

    return bound


def by_hand(name: str, source: str) -> Callable[[Problem, int], Run]:
    """What runs a function of C that takes the inputs, the result and the size of a problem.

    REAL in the source is the type of the elements.
    """

    def make(problem: Problem, threads: int) -> Run:
        real = {"float32": "float", "float64": "double"}[problem.out.dtype.name]
        parameters = ", ".join([f"const {real} *"] * len(problem.inputs))
        declared = f"void {name}({parameters}, {real} *, int64_t);"
        function = built("#include <stdint.h>\n" + source.replace("REAL", real), name, declared, threads=threads)
        return function(*problem.inputs, problem.out, problem.size)

    return make
