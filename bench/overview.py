"""Overview of results: a bar and a table row for each workload, from the files of `--json`.

    python -m bench.overview rows.json … --plot docs/speed.png > table.md

For each workload and size it compares our fastest schedule with the fastest baseline. With `--figure-8-3` it compares
the two schedules of Fig. 8.3 with those of Halide.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

Line: TypeAlias = dict[str, Any]
"""A row of the file."""


def fastest(rows: Iterable[Line]) -> list[Line]:
    """Return one row per workload, size and number of threads: our fastest schedule against the fastest baseline."""
    compared: dict[tuple[str, int, int], list[Line]] = {}
    for row in rows:
        if row["ours_ms"] and row["ratio"]:
            compared.setdefault((row["workload"], row["size"], row["threads"]), []).append(row)
    return [min(group, key=lambda row: (row["ours_ms"], row["ratio"])) for group in compared.values()]


FIGURE_8_3: Final = (("blur_in_two_stages", "Halide two-stage"), ("blur_in_tiles", "Halide tiled 64x64"))
"""Our schedules of the blur and Halide's, in the pairs of Fig. 8.3."""


def figure_8_3(rows: Iterable[Line]) -> list[Line]:
    """Return the rows that compare the pairs of Fig. 8.3, by pair and number of threads."""
    found = [row for row in rows if (row["schedule"], row["baseline"]) in FIGURE_8_3 and row["ratio"]]
    return sorted(found, key=lambda row: (row["size"], row["schedule"] == FIGURE_8_3[1][0], row["threads"]))


def table(lines: Sequence[Line]) -> str:
    """Return the lines as a Markdown table."""
    head = (
        "| work | our schedule | ms | of roofline | best baseline | baseline ÷ ours [10–90 %] | speed-ups |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {_name(line)} | `{line['schedule']}` | {line['ours_ms']:.3f} | {_of_roofline(line)} |"
        f" {line['baseline']} | {line['ratio']:.2f} [{line['spread'][0]:.2f}–{line['spread'][1]:.2f}] |"
        f" {_speed_ups(line)} |\n"
        for line in lines
    )


def _of_roofline(line: Line) -> str:
    """Return the time at the roofline over ours, in percent; a dash if the roofline was not measured."""
    return f"{100 * line['roofline_ratio']:.0f} %" if line["roofline_ratio"] else "–"


def _speed_ups(line: Line) -> str:
    """Return the speed-ups of several threads over one, of ours and of the baseline; empty for one thread."""
    speed_ups = [f"{line[key]:.2f}" if line.get(key) else "–" for key in ("speed_up", "baseline_speed_up")]
    return ", ".join(speed_ups) if line["threads"] > 1 else ""


def plot(path: Path, lines: Sequence[Line]) -> None:
    """Plot the ratios as bars with their spread. A bar that ends right of 1 beats all baselines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.8 + 0.3 * len(lines)), layout="constrained")
    axes = figure.subplots()
    ratios = [line["ratio"] for line in lines]
    errors = [
        [ratio - line["spread"][0] for ratio, line in zip(ratios, lines, strict=True)],
        [line["spread"][1] - ratio for ratio, line in zip(ratios, lines, strict=True)],
    ]
    axes.barh(range(len(lines)), ratios, xerr=errors, color="#2a6f97", error_kw={"lw": 0.8})
    axes.set_yticks(range(len(lines)), [f"{_name(line)}  ({line['baseline']})" for line in lines], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color="black", lw=1)
    axes.set_xlabel("time of the best baseline ÷ ours (right of the line we are faster)")
    figure.savefig(path)


def _name(line: Line) -> str:
    threads = f", {line['threads']} threads" if line["threads"] > 1 else ""
    return f"{line['workload']} {line['size']}{threads}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m bench.overview", description="Summarise benchmark results.")
    parser.add_argument("files", nargs="+", type=Path, metavar="ROWS.json", help="files written by `atl bench --json`")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="plot the ratios, as SVG or PNG")
    parser.add_argument("--figure-8-3", action="store_true", help="compare the pairs of Fig. 8.3 only")
    options = parser.parse_args(arguments)
    rows = (row for file in options.files for row in json.loads(file.read_text(encoding="utf-8"))["rows"])
    lines = figure_8_3(rows) if options.figure_8_3 else fastest(rows)
    if options.plot is not None:
        plot(options.plot, lines)
    sys.stdout.write(table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
