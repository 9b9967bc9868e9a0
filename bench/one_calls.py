"""Table at the end of a run: each call of `s.optimize()` against the best baseline and the best hand schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import geometric_mean
from typing import Any, Final

from bench.outcome import OneCallRow, Outcome

NAME: Final = 41


@dataclass(frozen=True, slots=True)
class Mean:
    """Geometric means of the ratios of one call over the dense cases. Each counts the `cases` of `of` with a ratio."""

    call: str
    of: int
    baseline_ratio: float | None
    baseline_cases: int
    hand_ratio: float | None
    hand_cases: int


def means(rows: Sequence[OneCallRow]) -> list[Mean]:
    """Return the means of each call. A case is a workload at a size. Cases with a sparse operand do not count."""
    found = []
    for call in dict.fromkeys(row.call for row in rows):
        dense = [row for row in rows if row.call == call and row.dense]
        baseline = [row.baseline_ratio for row in dense if row.baseline_ratio]
        hand = [row.hand_ratio for row in dense if row.hand_ratio]
        found.append(
            Mean(
                call, len(dense),
                geometric_mean(baseline) if baseline else None, len(baseline),
                geometric_mean(hand) if hand else None, len(hand),
            )
        )  # fmt: skip
    return found


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the table, with one line for each workload, size and call, and the means."""
    return "\n".join(_lines([row for outcome in outcomes for row in outcome.one_calls]))


def _lines(rows: Sequence[OneCallRow]) -> Iterator[str]:
    yield "one call of s.optimize(), against the best baseline and the best hand schedule; above 1 it is faster"
    yield f"  {'':{NAME}}{'ms':>10}{'call, s':>9}{'baseline ÷':>12}{'hand ÷':>9}  baseline; hand schedule"
    for row in rows:
        others = "; ".join(name or "none" for name in (row.baseline, row.hand))
        numbers = f"{_number(row.ms, 3, 10)}{_number(row.deriving_s, 1)}"
        ratios = f"{_number(row.baseline_ratio, 2, 12)}{_number(row.hand_ratio, 2)}"
        yield f"  {f'{row.workload}@{row.size} {row.call}':{NAME}}{numbers}{ratios}  {others}"
    for mean in means(rows):
        ratios = f"{_number(mean.baseline_ratio, 2, 12)}{_number(mean.hand_ratio, 2)}"
        of = f"{mean.baseline_cases} and {mean.hand_cases} of {mean.of} dense cases"
        yield f"  {f'geometric mean, {mean.call}':{NAME}}{'':19}{ratios}  {of}"


def _number(value: float | None, digits: int, width: int = 9) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.{digits}f}"


def written(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the table as JSON values."""
    rows = [row for outcome in outcomes for row in outcome.one_calls]
    return {"rows": [asdict(row) for row in rows], "means": [asdict(mean) for mean in means(rows)]}
