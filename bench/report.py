"""Reports of results: a table for each case, a JSON file of all rows, a plot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bench import one_calls
from bench.errors import ExtraMissing, WrongFile
from bench.outcome import Entry, LeftOut, Outcome, Row

ROOFLINES: Final = {"copy": "a loop that copies as many bytes", "read": "a loop that reads as many bytes",
                 "fma": "as many operations in fused multiply-adds"}  # fmt: skip
PICTURES: Final = (".svg", ".png", ".pdf")
NAME: Final = 58


def table(outcome: Outcome) -> str:
    """Return the table of a case: the roofline, the baselines and our schedules by time, and what was left out."""
    return "\n".join(_lines(outcome))


def _lines(outcome: Outcome) -> Iterator[str]:
    threads = (
        "one thread, CPU time" if outcome.case.threads == 1 else f"{outcome.case.threads} threads, wall-clock time"
    )
    yield f"{outcome.case}: {outcome.description}; {threads}"
    several = "  speed-up" if outcome.case.threads > 1 else ""
    yield f"  {'':{NAME}}{'ms':>10}{'of roofline':>10}{several}  best baseline ÷ ours [10-90 %]"
    yield f"  {f'roofline: {ROOFLINES[outcome.roofline]}':{NAME}}{_number(outcome.roofline_ms)}"
    for entry in sorted((entry for entry in outcome.entries if not entry.ours), key=_by_time):
        yield _line(entry, "allocates its result" if entry.allocates else "", several=bool(several))
    best = {row.schedule: row for row in outcome.rows if row.best}
    for entry in sorted((entry for entry in outcome.entries if entry.ours), key=_by_time):
        derived = None if entry.deriving_s is None else f"derived in {entry.deriving_s:.1f} s"
        note = "; ".join(filter(None, (_compared(best.get(entry.name)), derived)))
        yield _line(entry, note, mark="*", several=bool(several))
    if any(entry.ours and not entry.derived for entry in outcome.entries):
        yield "  (as written: a program without a schedule)"
    yield from (_missing(one) for one in outcome.left_out)
    if outcome.interrupted:
        yield "  INTERRUPTED: results so far"


def _by_time(entry: Entry) -> tuple[bool, float]:
    return entry.ms is None, entry.ms or 0.0


def _number(value: float | None) -> str:
    return f"{'-':>10}" if value is None else f"{value:10.3f}" if value < 100 else f"{value:10.0f}"


def _line(entry: Entry, note: str, mark: str = " ", *, several: bool) -> str:
    name = f"{entry.name}, as written" if entry.ours and not entry.derived else entry.name
    of_roofline = f"{'-':>10}" if entry.roofline_ratio is None else f"{100 * entry.roofline_ratio:8.0f} %"
    faster = "" if not several else f"{'-':>10}" if entry.speed_up is None else f"{entry.speed_up:10.2f}"
    none = " no valid sample" if not entry.samples else ""
    return f"{mark} {name:{NAME}}{_number(entry.ms)}{of_roofline}{faster}  {note}{none}".rstrip()


def _compared(row: Row | None) -> str:
    if row is None or row.ratio is None or row.spread is None:
        return "no baseline" if row is None else ""
    return f"{row.ratio:.2f} [{row.spread[0]:.2f}-{row.spread[1]:.2f}] to {row.baseline}"


def _missing(one: LeftOut) -> str:
    whose = "our " if one.ours else ""
    match one.why:
        case "absent":
            return f"  absent: {one.name}: {one.detail}"
        case "size":
            return f"  left out: {whose}{one.name}: {one.detail}"
        case "crashed":
            return f"  {whose}{one.name} crashed: {one.detail}"
        case "failed":
            return f"  FAILED, not timed: {whose}{one.name}: {one.detail}"
        case "wrong":
            return f"  WRONG, not timed: {whose}{one.name}: {one.detail}"


def written(outcomes: Sequence[Outcome], environment: dict[str, Any], *, complete: bool) -> dict[str, Any]:
    """Return the content of the `--json` file: `rows` has each of our schedules against each baseline.

    `one_call` has the rows of the table of one call, and their means.
    """
    parts = ("rows", "one_calls")
    return {
        "environment": environment,
        "complete": complete,
        "rows": [row for outcome in outcomes for row in outcome.as_json()["rows"]],
        "cases": [{k: v for k, v in outcome.as_json().items() if k not in parts} for outcome in outcomes],
        "one_call": one_calls.written(outcomes),
    }


def save(path: Path, content: dict[str, Any]) -> None:
    """Write the file of `--json`."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def need_writable(path: Path) -> None:
    """Raise `WrongFile` if a file cannot be written, before anything is measured."""
    there = path.exists()
    try:
        path.open("ab").close()
    except OSError:
        raise WrongFile(
            f"the file {path} cannot be written", required="the path of a file in an existing directory"
        ) from None
    if not there:
        path.unlink()


def need_matplotlib(path: Path) -> None:
    """Raise `ExtraMissing` or `WrongFile` if a plot cannot be drawn, before anything is measured."""
    if path.suffix not in PICTURES:
        raise WrongFile(f"unknown picture format: {path}", required=f"a name that ends in {', '.join(PICTURES)}")
    if find_spec("matplotlib") is None:
        raise ExtraMissing(
            "--plot needs matplotlib, which is not installed",
            required="the extra bench",
            suggestions=("pip install '.[bench]' in the checkout",),
        )


def plot(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Plot the ratio of each baseline to our fastest schedule as a bar with its spread. Above 1 we are faster."""
    from matplotlib.figure import Figure

    bars = [row for outcome in outcomes for row in _of_the_fastest(outcome)]
    figure = Figure(figsize=(9, 1.2 + 0.26 * max(1, len(bars))), layout="constrained")
    axes = figure.subplots()
    places = range(len(bars))
    values = [row.ratio or 0.0 for row in bars]
    spreads = [row.spread or (0.0, 0.0) for row in bars]
    errors = [[max(0.0, v - low) for v, (low, _) in zip(values, spreads, strict=True)],
              [max(0.0, high - v) for v, (_, high) in zip(values, spreads, strict=True)]]  # fmt: skip
    colours = ["#2a6f97" if row.best else "#a9c6d9" for row in bars]
    axes.barh(places, values, xerr=errors, color=colours, error_kw={"lw": 0.8})
    axes.set_yticks(places, [f"{row.workload}@{row.size}  {row.baseline}" for row in bars], fontsize=7)
    axes.invert_yaxis()
    axes.axvline(1, color="black", lw=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("time of the baseline ÷ time of our fastest schedule (best baseline dark, higher is better for us)")
    figure.savefig(path)


def _of_the_fastest(outcome: Outcome) -> list[Row]:
    ours = min((entry for entry in outcome.entries if entry.ours), key=_by_time, default=None)
    rows = [row for row in outcome.rows if ours is not None and row.schedule == ours.name and row.ratio is not None]
    return sorted(rows, key=lambda row: row.ratio or 0.0)
