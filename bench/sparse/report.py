"""What was measured of sparse kernels, for people: a line for each contest, geometric means, a picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path

from bench.sparse.contest import PREPARED, Line

TACO = "TACO-shaped C"
"""With its flags for any processor and for this one; in each contest the faster one counts."""


PYAMG = "pyamg"
"""What the names of its matrices begin with: they are small, and have means of their own."""


def shown(lines: Sequence[Line]) -> str:
    """One contest on one line: our time, and the ratio of each other one, of medians / of minima."""
    ours = next((line for line in lines if line.name == "ours"), None)
    if ours is None:
        return "no clean sample"
    rivals = (f"{line.name} {line.ratio:.2f}/{line.of_minima:.2f}" for line in lines if line is not ours)
    return f"{ours.format:9} {ours.matrix:24} {ours.entries:9} entries {ours.ms:9.3f} ms   {'  '.join(rivals)}"


def best_of(lines: Iterable[Line]) -> list[Line]:
    """The lines of rivals, of TACO-shaped C only the one that was faster in each contest."""
    kept: dict[tuple[str, str, str], Line] = {}
    for line in lines:
        if line.name in ("ours", PREPARED):
            continue
        name = TACO if line.name.startswith(TACO) else line.name
        key = (line.format, line.matrix, name)
        if key not in kept or line.ms < kept[key].ms:
            kept[key] = replace(line, name=name)
    return list(kept.values())


def geometric(values: Sequence[float]) -> float:
    """The geometric mean.

    >>> round(geometric([2.0, 8.0]), 12)
    4.0
    """
    return exp(sum(map(log, values)) / len(values))


def grouped(lines: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    """The lines of each format and rival; those of pyamg's matrices apart."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in best_of(lines):
        form = f"{line.format}, {PYAMG}" if line.matrix.startswith(PYAMG) else line.format
        groups.setdefault((form, line.name), []).append(line)
    return dict(sorted(groups.items(), key=lambda group: PYAMG in group[0][0]))


def means(lines: Iterable[Line]) -> str:
    """A table of the geometric means over the matrices of each format: of medians, of minima, and the least median.

    A rival in C is a function called by itself, ours is a kernel called in Python with all that a call looks at; the
    last column compares the prepared calls.
    """
    head = f"{'medians':>9}{'minima':>9}{'least':>9}{'contests':>10}{'prepared calls':>17}"
    rows = [f"\n{'rival ÷ ours, geometric means':48}{head}"]
    for (form, rival), group in grouped(lines).items():
        ratios = [line.ratio for line in group]
        minima = [line.of_minima for line in group]
        said = f"{geometric(ratios):9.2f}{geometric(minima):9.2f}{min(ratios):9.2f}{len(group):10}"
        prepared = f"{geometric([line.of_prepared for line in group]):17.2f}" if rival == TACO else ""
        rows.append(f"{form:18}{rival:30}{said}{prepared}")
    return "\n".join(rows)


def plot(path: Path, lines: Iterable[Line]) -> None:
    """A row for each format and rival: a point for each matrix, and a bar at the geometric mean; right of 1 we win."""
    from matplotlib.figure import Figure

    groups = grouped(lines)
    figure = Figure(figsize=(8, 1.0 + 0.32 * max(1, len(groups))), layout="constrained")
    axes = figure.subplots()
    for place, group in enumerate(groups.values()):
        ratios = [line.ratio for line in group]
        axes.plot(ratios, [place] * len(group), "o", color="#2a6f97", alpha=0.5, markersize=5)
        axes.plot([geometric(ratios)], [place], "|", color="#c1121f", markersize=16, markeredgewidth=2.5)
    axes.axvline(1, color="black", lw=0.8)
    axes.set_yticks(range(len(groups)), [f"{form}, {rival}" for form, rival in groups], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    ticks = (0.5, 0.7, 1, 1.5, 2, 3, 5)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("time of the rival ÷ time of ours; points are matrices, bars geometric means")
    figure.savefig(path, dpi=130)
