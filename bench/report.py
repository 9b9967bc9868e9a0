"""What was measured, for people: a table for each case, a file of all rows, a picture."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bench.errors import ExtraMissing, WrongFile
from bench.outcome import Entry, LeftOut, Outcome, Row

LIMITS: Final = {"copy": "a loop that copies as many bytes", "read": "a loop that reads as many bytes",
                 "fma": "as many operations in fused multiply-adds"}  # fmt: skip
PICTURES: Final = (".svg", ".png", ".pdf")
NAME: Final = 58


def table(outcome: Outcome) -> str:
    """A case as lines of text: the limit, the rivals, our schedules from the fastest to the slowest, who is missing."""
    return "\n".join(_lines(outcome))


def _lines(outcome: Outcome) -> Iterator[str]:
    threads = (
        "one thread, CPU time" if outcome.case.threads == 1 else f"{outcome.case.threads} threads, time on the wall"
    )
    yield f"{outcome.case}: {outcome.says}; {threads}"
    several = "  speed-up" if outcome.case.threads > 1 else ""
    yield f"  {'':{NAME}}{'ms':>10}{'of limit':>10}{several}  best rival ÷ ours [10-90 %]"
    yield f"  {f'limit: {LIMITS[outcome.limit]}':{NAME}}{_number(outcome.limit_ms)}"
    for entry in sorted((entry for entry in outcome.entries if not entry.ours), key=_by_time):
        yield _line(entry, "makes its result anew" if entry.allocates else "", several=bool(several))
    best = {row.schedule: row for row in outcome.rows if row.best}
    for entry in sorted((entry for entry in outcome.entries if entry.ours), key=_by_time):
        yield _line(entry, _compared(best.get(entry.name)), mark="*", several=bool(several))
    if any(entry.ours and not entry.derived for entry in outcome.entries):
        yield "  (as written: a program of which no schedule was derived)"
    yield from (_missing(one) for one in outcome.left_out)
    if outcome.interrupted:
        yield "  INTERRUPTED: what was measured until then is shown"


def _by_time(entry: Entry) -> tuple[bool, float]:
    return entry.ms is None, entry.ms or 0.0


def _number(value: float | None) -> str:
    return f"{'-':>10}" if value is None else f"{value:10.3f}" if value < 100 else f"{value:10.0f}"


def _line(entry: Entry, said: str, mark: str = " ", *, several: bool) -> str:
    name = f"{entry.name}, as written" if entry.ours and not entry.derived else entry.name
    of_limit = f"{'-':>10}" if entry.limit_ratio is None else f"{100 * entry.limit_ratio:8.0f} %"
    faster = "" if not several else f"{'-':>10}" if entry.speed_up is None else f"{entry.speed_up:10.2f}"
    none = " no clean sample" if not entry.samples else ""
    return f"{mark} {name:{NAME}}{_number(entry.ms)}{of_limit}{faster}  {said}{none}".rstrip()


def _compared(row: Row | None) -> str:
    if row is None or row.ratio is None or row.spread is None:
        return "no rival to compare with" if row is None else ""
    return f"{row.ratio:.2f} [{row.spread[0]:.2f}-{row.spread[1]:.2f}] to {row.rival}"


def _missing(one: LeftOut) -> str:
    whose = "our " if one.ours else ""
    match one.why:
        case "absent":
            return f"  absent: {one.name}, since {one.said}"
        case "size":
            return f"  left out: {whose}{one.name}; {one.said}"
        case "crashed":
            return f"  {whose}{one.name} crashed: {one.said}"
        case "failed":
            return f"  FAILED, so not timed: {whose}{one.name}: {one.said}"
        case "wrong":
            return f"  WRONG, so not timed: {whose}{one.name}: {one.said}"


def written(outcomes: Sequence[Outcome], environment: dict[str, Any], *, complete: bool) -> dict[str, Any]:
    """Everything as `--json` writes it: `rows`, each of our schedules beside each rival, and what they come from."""
    return {
        "environment": environment,
        "complete": complete,
        "rows": [row for outcome in outcomes for row in outcome.as_json()["rows"]],
        "cases": [{k: v for k, v in outcome.as_json().items() if k != "rows"} for outcome in outcomes],
    }


def save(path: Path, content: dict[str, Any]) -> None:
    """Writes the file of `--json`."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def need_writable(path: Path) -> None:
    """Raises `WrongFile` where a file cannot be written: before anything is measured."""
    there = path.exists()
    try:
        path.open("ab").close()
    except OSError:
        raise WrongFile(
            f"the file {path} cannot be written", required="the path of a file in a folder that is there"
        ) from None
    if not there:
        path.unlink()


def need_matplotlib(path: Path) -> None:
    """Raises `ExtraMissing` or `WrongFile` where nothing can be drawn: before anything is measured."""
    if path.suffix not in PICTURES:
        raise WrongFile(f"the picture {path} has no kind", required=f"a name that ends in {', '.join(PICTURES)}")
    if find_spec("matplotlib") is None:
        raise ExtraMissing(
            "--plot draws with matplotlib, which is not installed",
            required="the extra bench",
            suggestions=("pip install '.[bench]' in the checkout",),
        )


def plot(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Draws the best of ours beside every rival: a bar for each ratio, above 1 where we are faster, with its spread."""
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
    axes.set_yticks(places, [f"{row.workload}@{row.size}  {row.rival}" for row in bars], fontsize=7)
    axes.invert_yaxis()
    axes.axvline(1, color="black", lw=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("time of the rival ÷ time of our fastest schedule; the best rival is dark; higher is better for us")
    figure.savefig(path)


def _of_the_fastest(outcome: Outcome) -> list[Row]:
    ours = min((entry for entry in outcome.entries if entry.ours), key=_by_time, default=None)
    rows = [row for row in outcome.rows if ours is not None and row.schedule == ours.name and row.ratio is not None]
    return sorted(rows, key=lambda row: row.ratio or 0.0)
