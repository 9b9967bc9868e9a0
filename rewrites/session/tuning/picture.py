"""A picture of candidates by their times: horizontal bars with the ends of their intervals. SVG, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

LINE: Final = 18
LETTER: Final = 7
BARS: Final = 420
GAP: Final = 12


@dataclass(frozen=True, slots=True)
class Bar:
    """A candidate: what it is called, its time, and between which ends that lies; the chosen one is drawn dark."""

    name: str
    time: float
    low: float
    high: float
    chosen: bool = False


def drawn(title: str, bars: Sequence[Bar], left_out: Sequence[str]) -> str:
    """The bars from the shortest to the longest, and below them those of which no time is known."""
    ordered = sorted(bars, key=lambda bar: bar.time)
    longest = max(bar.high for bar in ordered)
    text = GAP + LETTER * max(len(bar.name) for bar in ordered)
    body = [f'<text x="{GAP}" y="{LINE}">{escape(title)}</text>']
    y = LINE + GAP
    for bar in ordered:
        scale = BARS / longest
        x = text + GAP
        ink = "#345" if bar.chosen else "#a9c6d9"
        body.append(f'<text x="{text}" y="{y + 13}" text-anchor="end">{escape(bar.name)}</text>')
        body.append(f'<rect x="{x}" y="{y + 2}" width="{bar.time * scale:.1f}" height="{LINE - 5}" fill="{ink}"/>')
        ends = f"M{x + bar.low * scale:.1f} {y + 8} H{x + bar.high * scale:.1f}"
        body.append(f'<path d="{ends}" stroke="#a33" stroke-width="2"/>')
        body.append(f'<text x="{x + bar.high * scale + 5:.1f}" y="{y + 13}">{bar.time:.2f}</text>')
        y += LINE
    for line in left_out:
        body.append(f'<text x="{GAP}" y="{y + 13}" fill="#777">{escape(line)}</text>')
        y += LINE
    width = max([text + BARS + 6 * GAP, *(2 * GAP + LETTER * len(line) for line in (title, *left_out))])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + GAP}" font-family="monospace" '
        f'font-size="11">\n' + "\n".join(body) + "\n</svg>\n"
    )
