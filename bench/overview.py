"""What was measured, at a glance: a bar and a line of a table for each workload, from the files of `--json`.

    python -m bench.overview rows.json … --plot docs/speed.png > table.md

Of each workload at each size it is our fastest schedule beside the rival that is the fastest there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Line: TypeAlias = dict[str, Any]
"""A row of the file."""


def fastest(rows: Iterable[Line]) -> list[Line]:
    """Of each workload, size and number of threads: our fastest schedule, beside the rival that it leads least."""
    compared: dict[tuple[str, int, int], list[Line]] = {}
    for row in rows:
        if row["ours_ms"] and row["ratio"]:
            compared.setdefault((row["workload"], row["size"], row["threads"]), []).append(row)
    return [min(group, key=lambda row: (row["ours_ms"], row["ratio"])) for group in compared.values()]


def table(lines: Sequence[Line]) -> str:
    """The lines as Markdown."""
    head = (
        "| work | our schedule | ms | of the limit | best rival | rival ÷ ours [10–90 %] | speed-up, the rival's |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {_name(line)} | `{line['schedule']}` | {line['ours_ms']:.3f} | {_of_limit(line)} |"
        f" {line['rival']} | {line['ratio']:.2f} [{line['spread'][0]:.2f}–{line['spread'][1]:.2f}] |"
        f" {_speed_ups(line)} |\n"
        for line in lines
    )


def _of_limit(line: Line) -> str:
    """Return the time at the limit over ours, in percent; nothing where the limit was not measured."""
    return f"{100 * line['limit_ratio']:.0f} %" if line["limit_ratio"] else "–"


def _speed_ups(line: Line) -> str:
    """By how much several threads are faster than one, for us and for the rival; nothing of one thread."""
    told = [f"{line[key]:.2f}" if line.get(key) else "–" for key in ("speed_up", "rival_speed_up")]
    return ", ".join(told) if line["threads"] > 1 else ""


def plot(path: Path, lines: Sequence[Line]) -> None:
    """The ratios as bars with their spread; where a bar ends right of 1 we are faster than everybody measured."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.8 + 0.3 * len(lines)), layout="constrained")
    axes = figure.subplots()
    ratios = [line["ratio"] for line in lines]
    errors = [
        [ratio - line["spread"][0] for ratio, line in zip(ratios, lines, strict=True)],
        [line["spread"][1] - ratio for ratio, line in zip(ratios, lines, strict=True)],
    ]
    axes.barh(range(len(lines)), ratios, xerr=errors, color="#2a6f97", error_kw={"lw": 0.8})
    axes.set_yticks(range(len(lines)), [f"{_name(line)}  ({line['rival']})" for line in lines], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color="black", lw=1)
    axes.set_xlabel("time of the best rival ÷ ours; right of the line we are faster")
    figure.savefig(path)


def _name(line: Line) -> str:
    threads = f", {line['threads']} threads" if line["threads"] > 1 else ""
    return f"{line['workload']} {line['size']}{threads}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.overview", description="What was measured, at a glance.")
    parser.add_argument("files", nargs="+", type=Path, metavar="ROWS.json", help="what `atl bench --json` wrote")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draws the bars, as SVG or PNG")
    asked = parser.parse_args(arguments)
    lines = fastest(row for file in asked.files for row in json.loads(file.read_text(encoding="utf-8"))["rows"])
    if asked.plot is not None:
        plot(asked.plot, lines)
    sys.stdout.write(table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
