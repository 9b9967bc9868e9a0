"""Compare sparse kernels with baselines, and print geometric means for each format."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bench import report as files
from bench.environment import environment
from bench.measure import pinned
from bench.sparse import report
from bench.sparse.comparison import (
    FORMS,
    Comparison,
    Line,
    WrongResult,
    lines_of,
    matricised,
    matrix_times_sparse,
    measured,
    product,
    sampled,
    tensor_times_sparse,
    tensor_times_vector,
)
from bench.sparse.matrices import EXAMPLES, MATRICES, example, tensor
from lowering import ThreadClock

Posed = tuple[str, str, Callable[[], tuple[int, Comparison]]]

COUNTS = (10**5, 10**6, 10**7)
QUICK = (10**5,)
TENSORS = ((1e-3, 1000), (1e-4, 1000), (1e-5, 1000), (1e-6, 2000))
VECTORS = {"SpMSpV": (1e-2, 1e-3, 1e-4), "SpTSpV": (1e-1, 1e-2, 1e-3)}
"""Densities of sparse vectors: 10 to 1,000 entries for 10^6 entries of a matrix, 1 to 100 for a tensor."""
DIAGONALS = ("banded", "finite elements")
"""Matrices with few diagonals. For others, DIA would store nearly all elements."""
BLOCKS = ("banded", "blocks", "finite elements")
"""Matrices with adjacent entries. For others, the blocks would contain mostly zeros."""


def comparisons(formats: Sequence[str], counts: Sequence[int], *, quick: bool) -> Iterator[Posed]:
    """Yield the selected comparisons: kernel, matrix, and a function that returns its entries and setup."""
    for name in (each for each in FORMS if each in formats):
        for kind, make in MATRICES.items():
            if (name == "DIA" and kind not in DIAGONALS) or (name == "BCSR" and kind not in BLOCKS):
                continue
            yield from ((name, f"{kind} {count:.0e}", partial(_product, name, make, count)) for count in counts)
        if not quick and name != "DIA":
            yield from ((name, f"{report.PYAMG} {kind}", partial(_example, name, kind)) for kind in EXAMPLES)
    if "SDDMM" in formats:
        for kind, make in MATRICES.items():
            yield from (("SDDMM", f"{kind} {count:.0e}", partial(_sampled, make, count)) for count in counts[:2])
    for density in VECTORS["SpMSpV"] if "SpMSpV" in formats else ():
        for kind, make in MATRICES.items():
            for count in counts[:2]:
                yield "SpMSpV", f"{kind} {count:.0e}, {density:g}", partial(_by_sparse, make, count, density)
    for density in VECTORS["SpTSpV"] if "SpTSpV" in formats else ():
        for part, side in TENSORS[2:] if quick else TENSORS:
            merged = partial(tensor_times_sparse, density=density)
            yield "SpTSpV", f"density {part:.0e}, {density:g}", partial(_of_tensor, merged, part, side)
    for name, pose in (("TTV", tensor_times_vector), ("MTTKRP", matricised)):
        if name in formats:
            for density, side in TENSORS[2:] if quick else TENSORS:
                yield name, f"density {density:.0e}", partial(_of_tensor, pose, density, side)


def _product(name: str, make: Callable[[int], Any], count: int) -> tuple[int, Comparison]:
    matrix = make(count)
    return matrix.nnz, product(name, matrix)


def _example(name: str, kind: str) -> tuple[int, Comparison]:
    matrix = example(kind)
    return matrix.nnz, product(name, matrix)


def _sampled(make: Callable[[int], Any], count: int) -> tuple[int, Comparison]:
    matrix = make(count)
    return matrix.nnz, sampled(matrix)


def _by_sparse(make: Callable[[int], Any], count: int, density: float) -> tuple[int, Comparison]:
    matrix = make(count)
    return matrix.nnz, matrix_times_sparse(matrix, density)


def _of_tensor(pose: Callable[[Any], Comparison], density: float, side: int) -> tuple[int, Comparison]:
    made = tensor(density, side)
    return len(made.data), pose(made)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 1 if a result was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.sparse", description=__doc__)
    every = [*FORMS, "SpMSpV", "SDDMM", "TTV", "SpTSpV", "MTTKRP"]
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"some of {', '.join(every)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small matrices only: about a minute")
    parser.add_argument("--entries", type=lambda text: int(float(text)), action="append", help="non-zeros: 1e5, 1e6 …")
    parser.add_argument("--seconds", type=float, help="measuring time of each comparison")
    parser.add_argument("--json", type=Path, help="result file")
    parser.add_argument("--plot", type=Path, help="plot the ratios")
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.formats if name not in every]:
        parser.error(f"unknown format or kernel {unknown[0]!r}; choose from {', '.join(every)}")
    for path in filter(None, (chosen.json, chosen.plot)):
        files.need_writable(path)
    if chosen.plot is not None:
        files.need_matplotlib(chosen.plot)
    counts = chosen.entries or (QUICK if chosen.quick else COUNTS)
    seconds = chosen.seconds or (0.6 if chosen.quick else 5.0)
    pinned()
    lines: list[Line] = []
    wrong = False
    for form, matrix, make in comparisons(chosen.formats or every, counts, quick=chosen.quick):
        try:
            entries, comparison = make()
        except ModuleNotFoundError as missing:
            print(f"{form:9} {matrix:24} SKIPPED: {missing.name} is not installed", flush=True)
            continue
        try:
            samples = measured(comparison, ThreadClock(), seconds=seconds, rounds=301)
        except WrongResult as error:
            print(f"WRONG: the result of {error} differs in {form}, {matrix}", file=sys.stderr)
            wrong = True
            continue
        found = lines_of(samples, form, matrix, entries)
        lines += found
        print(report.shown(found), flush=True)
        if chosen.json is not None:
            files.save(chosen.json, {"environment": environment(), "lines": [asdict(line) for line in lines]})
    print(report.means(lines))
    if chosen.plot is not None:
        report.plot(chosen.plot, lines)
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
