"""Reports on sparse kernels: a line for each comparison, geometric means, a plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path

from bench.sparse.comparison import PREPARED, Line

TACO = "TACO-shaped C"
"""Built with generic flags and with `-march=native`; the faster one counts in each comparison."""


PYAMG = "pyamg"
"""Prefix of the names of pyamg's matrices, which are small and averaged separately."""


def shown(lines: Sequence[Line]) -> str:
    """Return a comparison in one line: our time, and for each other candidate the ratios of medians and minima."""
    ours = next((line for line in lines if line.name == "ours"), None)
    if ours is None:
        return "no valid sample"
    baselines = (f"{line.name} {line.ratio:.2f}/{line.of_minima:.2f}" for line in lines if line is not ours)
    return f"{ours.format:9} {ours.matrix:24} {ours.entries:9} entries {ours.ms:9.3f} ms   {'  '.join(baselines)}"


def best_of(lines: Iterable[Line]) -> list[Line]:
    """Return the lines of baselines, with only the faster build of TACO-shaped C for each comparison."""
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
    """Return the geometric mean.

    >>> round(geometric([2.0, 8.0]), 12)
    4.0
    """
    return exp(sum(map(log, values)) / len(values))


def grouped(lines: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    """Group the lines by format and baseline, with pyamg's matrices in separate groups."""
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in best_of(lines):
        form = f"{line.format}, {PYAMG}" if line.matrix.startswith(PYAMG) else line.format
        groups.setdefault((form, line.name), []).append(line)
    return dict(sorted(groups.items(), key=lambda group: PYAMG in group[0][0]))


def means(lines: Iterable[Line]) -> str:
    """Return a table of geometric means over the matrices of each format: medians, minima, and the least median.

    A C baseline is a bare function, while our kernel is called from Python with argument checks. The last column
    compares with our prepared calls.
    """
    head = f"{'medians':>9}{'minima':>9}{'least':>9}{'comparisons':>10}{'prepared calls':>17}"
    rows = [f"\n{'baseline ÷ ours, geometric means':48}{head}"]
    for (form, baseline), group in grouped(lines).items():
        ratios = [line.ratio for line in group]
        minima = [line.of_minima for line in group]
        columns = f"{geometric(ratios):9.2f}{geometric(minima):9.2f}{min(ratios):9.2f}{len(group):10}"
        prepared = f"{geometric([line.of_prepared for line in group]):17.2f}" if baseline == TACO else ""
        rows.append(f"{form:18}{baseline:30}{columns}{prepared}")
    return "\n".join(rows)


def plot(path: Path, lines: Iterable[Line]) -> None:
    """Plot a row for each format and baseline: a point for each matrix, and a bar at the geometric mean."""
    from matplotlib.figure import Figure

    groups = grouped(lines)
    figure = Figure(figsize=(8, 1.0 + 0.32 * max(1, len(groups))), layout="constrained")
    axes = figure.subplots()
    for place, group in enumerate(groups.values()):
        ratios = [line.ratio for line in group]
        axes.plot(ratios, [place] * len(group), "o", color="#2a6f97", alpha=0.5, markersize=5)
        axes.plot([geometric(ratios)], [place], "|", color="#c1121f", markersize=16, markeredgewidth=2.5)
    axes.axvline(1, color="black", lw=0.8)
    axes.set_yticks(range(len(groups)), [f"{form}, {baseline}" for form, baseline in groups], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    ticks = (0.5, 0.7, 1, 1.5, 2, 3, 5)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("time of the baseline ÷ our time (points are matrices, bars geometric means)")
    figure.savefig(path, dpi=130)
