"""Programs with lets marked `ring`, over a picture v of n x m."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

import numpy as np

import atl
from lowering.lower import lower_unchecked
from lowering.nest.interpreter import AnyArray
from lowering.nest.loopnest import LoopNest

ROWS: Final = "⊞[x < m] v[y, x] * 2"
PROGRAMS: Final = {
    "rows of two": "let b | ring := ⊞[y < n + 1] ⊞[x < m] [y < n] · v[y, x] in ⊞[y < n] ⊞[x < m] b[y, x] + b[y + 1, x]",
    "one row": f"let b | ring := ⊞[y < n] {ROWS} in ⊞[y < n] ⊞[x < m] b[y, x] + 1",
    "the row before": f"let b | ring := ⊞[y < n] {ROWS} in ⊞[y < n] ⊞[x < m] ([1 <= y] · b[y - 1, x]) + b[y, x]",
    "a row that stays two behind": f"let b | ring := ⊞[y < n] {ROWS} in ⊞[y < n] ⊞[x < m] [2 <= y] · b[y - 2, x]",
    "a window of a sum": (
        "let b | ring := ⊞[y < n + 4] ⊞[x < m] [y < n] · v[y, x] in ⊞[y < n] ⊞[x < m] Σ[r < 5] b[y + r, x]"
    ),
    "two rows an iteration": (
        "let b | ring := ⊞[y < 2*n + 1] ⊞[x < m] [y < n] · v[y, x] in\n"
        "⊞[y < n] ⊞[x < m] b[2*y, x] + b[2*y + 1, x] * b[2*y + 2, x]"
    ),
    "every third row": ("let b | ring := ⊞[y < 3*n] ⊞[x < m] [y < n] · v[y, x] in ⊞[y < n] ⊞[x < m] b[3*y + 1, x]"),
    "elements in a row": (
        "⊞[y < n] let b | ring := ⊞[x < m + 2] [1 <= x <= m] · v[y, x - 1] in ⊞[x < m] b[x] + b[x + 1] + b[x + 2]"
    ),
    "one let after the other": (
        "let b | ring := ⊞[y < n + 4] ⊞[x < m] [2 <= y < n + 2] · v[y - 2, x] in\n"
        "let c | ring := ⊞[y < n + 2] ⊞[x < m] b[y, x] + b[y + 1, x] * b[y + 2, x] in\n"
        "⊞[y < n] ⊞[x < m] c[y, x] + c[y + 1, x] + c[y + 2, x]"
    ),
    "the first of two": (
        "let b | ring := ⊞[y < n + 4] ⊞[x < m] [2 <= y < n + 2] · v[y - 2, x] in\n"
        "let c := ⊞[y < n + 2] ⊞[x < m] b[y, x] + b[y + 1, x] + b[y + 2, x] in\n"
        "⊞[y < n] ⊞[x < m] c[y, x] + c[y + 1, x] + c[y + 2, x]"
    ),
    "the second of two": (
        "let b := ⊞[y < n + 4] ⊞[x < m] [2 <= y < n + 2] · v[y - 2, x] in\n"
        "let c | ring := ⊞[y < n + 2] ⊞[x < m] b[y, x] + b[y + 1, x] + b[y + 2, x] in\n"
        "⊞[y < n] ⊞[x < m] c[y, x] + c[y + 1, x] + c[y + 2, x]"
    ),
    "parts of different kinds": (
        f"let b | ring := (⊞[y < 1] ⊞[x < m] 7.0) ++ (⊞[y < n] {ROWS}) ++ (⊞[y < 1] ⊞[x < m] 9.0) in\n"
        "⊞[y < n] ⊞[x < m] b[y, x] + b[y + 1, x] * b[y + 2, x]"
    ),
    "rows of padding": (
        f"let b | ring := padr 1 padl 2 ⊞[y < n] {ROWS} in ⊞[y < n + 1] ⊞[x < m] b[y, x] + b[y + 1, x] + b[y + 2, x]"
    ),
    "a transpose": (
        "let b | ring := transpose ⊞[x < m] ⊞[y < n] v[y, x] in ⊞[y < n] ⊞[x < m] ([1 <= y] · b[y - 1, x]) - b[y, x]"
    ),
    "sums to a row": (
        "let b | ring := ⊞[y < n] ⊞[x < m] Σ[z < x] v[y, z] in ⊞[y < n] ⊞[x < m] ([1 <= y] · b[y - 1, x]) - b[y, x]"
    ),
    "a sum of pictures": (
        "let b | ring := Σ[k < 3] ⊞[y < n] ⊞[x < m] v[y, x] * 2 in ⊞[y < n] ⊞[x < m] ([1 <= y] · b[y - 1, x]) - b[y, x]"
    ),
    "a row with a buffer": (
        "let b | ring := ⊞[y < n] let t := ⊞[x < m] 3 * v[y, x] in ⊞[x < m] t[m - 1 - x] in\n"
        "⊞[y < n] ⊞[x < m] ([1 <= y] · b[y - 1, x]) - b[y, x]"
    ),
    "the nearest rows": (
        f"let b | ring := ⊞[y < n] {ROWS} in ⊞[y < n] ⊞[x < m] b[max(y - 1, 0), x] + b[y, x] + b[min(y + 1, n - 1), x]"
    ),
    "blocks of rows": (
        "let b | ring := ⊞[y < n + 1] ⊞[x < m] [y < n] · v[y, x] in truncr (4*⌈n / 4⌉ - n) flatten ⊞[yo < ⌈n / 4⌉]\n"
        "⊞[yi < 4] [4*yo + yi < n] · ⊞[x < m] b[4*yo + yi, x] + b[4*yo + yi + 1, x]"
    ),
    "a ring for each block": (
        "truncr (4*⌈n / 4⌉ - n) flatten ⊞[yo < ⌈n / 4⌉ | parallel]\n"
        "let b | ring := ⊞[y < 5] ⊞[x < m] [4*yo + y < n] · v[4*yo + y, x] in\n"
        "⊞[yi < 4] [4*yo + yi < n] · ⊞[x < m] b[yi, x] + b[yi + 1, x]"
    ),
    "columns at once": (
        "let b | ring := ⊞[y < n] ⊞[x < m | vector] v[y, x] in\n⊞[y < n] ⊞[x < m | vector] ([1 <= y] · b[y - 1, x])"
    ),
}


def program(body: str) -> atl.Program:
    return atl.parse(f"t (v : float32[n, m])\n    given 1 <= n, 1 <= m :=\n  {body}")


def random_program(draw: Random) -> atl.Program:
    """Return a program with a ring read in windows of rows, often with a second ring computed from it."""
    step, guard = draw.choice((1, 1, 1, 2, 3)), draw.choice(("", f"[{draw.randrange(3)} <= x] · "))
    longer, shift = draw.randrange(5), draw.randrange(3)
    inside = f"[{shift} <= y < n + {shift}] · "
    rows = f"⊞[y < {step}*n + {longer}] ⊞[x < m] {inside}v[y - {shift}, x]"
    read = _window(draw, "b", f"{step}*y" if step > 1 else "y", longer)
    if step > 1 or draw.random() < 0.5:
        return program(f"let b | ring := {rows} in\n⊞[y < n] ⊞[x < m] {guard}({read})")
    fewer = draw.randrange(longer + 1)
    second = _window(draw, "b", "y", longer - fewer)
    read = _window(draw, "c", "y", fewer)
    return program(
        f"let b | ring := {rows} in\nlet c | ring := ⊞[y < n + {fewer}] ⊞[x < m] {guard}({second}) in\n"
        f"⊞[y < n] ⊞[x < m] {read}"
    )


def _window(draw: Random, of: str, row: str, beyond: int) -> str:
    """Return an expression of some rows around a row, at most `beyond` after it; rows before it are guarded."""
    reads = []
    for _ in range(draw.randrange(1, 4)):
        offset = draw.randrange(-2, beyond + 1)
        guard = f"[{-offset} <= {row}] · " if offset < 0 else ""
        reads.append(f"({guard}{of}[{row} {'-' if offset < 0 else '+'} {abs(offset)}, x])")
    if beyond and draw.random() < 0.3:
        reads.append(f"(Σ[r < {beyond + 1}] {of}[{row} + r, x])")
    if draw.random() < 0.2:
        reads.append(f"{of}[max({row} - 1, 0), x]")
    return draw.choice((" + ", " - ", " * ")).join(reads)


def picture(n: int, m: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(n * 16 + m).integers(-9, 9, (n, m)).astype(np.float32)


def ring_nests() -> Iterator[tuple[LoopNest, Mapping[str, int], Mapping[str, AnyArray]]]:
    """Yield the programs lowered but before any pass, with sizes and a picture."""
    no_window = f"let b | ring := ⊞[y < n] {ROWS} in ⊞[y < n] ⊞[x < m] b[y, x] + b[0, x]"
    for body in (*PROGRAMS.values(), no_window):
        yield lower_unchecked(program(body)), {"n": 5, "m": 3}, {"v": picture(5, 3)}
