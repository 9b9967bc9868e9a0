"""Programs over a vector of n elements, or an n x m table, with lets whose storage may be shared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

import atl
from lowering.lower import lower_unchecked
from lowering.nest.interpreter import AnyArray
from lowering.nest.loopnest import LoopNest

T: Final = "let t := ⊞[i < n] 2 * x[i] in "
TABLE: Final = "let t := ⊞[i < n] ⊞[j < n] x[i] * x[j] in "
NESTED: Final = "let t := (let u := ⊞[i < n] 2 * x[i] in ⊞[i < n] u[i] + 1) in "
OUTLIVED: Final = f"let u := ({T}let v := ⊞[i < n] t[i] + [i + 1 < n] · t[i + 1] in v) in "
BELOW: Final = "let u := ⊞[i < n] ⊞[j < n] t[i, j] + [i + 1 < n] · t[i + 1, j] in "
TURNED: Final = "let u := ⊞[i < n] ⊞[j < n] t[j, i] in "
SHARED: Final = {
    "element by element": (T + "⊞[i < n] t[i] * t[i]", []),
    "the element after": (T + "⊞[i < n] t[i] + [i + 1 < n] · t[i + 1]", []),
    "what comes": (T + "⊞[i < n] Σ[i <= j < n] t[j]", []),
    "one after the other": (T + "let u := ⊞[i < n] t[i] + 1 in ⊞[i < n] u[i] * u[i]", []),
    "into another let": (T + "let u := ⊞[i < n] t[i] + 1 in ⊞[i < n] Σ[j < n] u[j]", ["t"]),
    "from within a let": (NESTED + "⊞[i < n] Σ[j < n] t[j]", ["t"]),
    "from within a let that it outlives": (OUTLIVED + "⊞[i < n] u[i] * u[n - 1 - i]", ["t"]),
    "with padding that is stored": ("let t := padr 1 ⊞[i < n - 1] x[i] in ⊞[i < n] t[i] + 1", []),
    "lanes": (T + "⊞[i < n | vector] t[i] * t[i]", []),
    "rows": (TABLE + BELOW + "⊞[i < n] Σ[j < n] u[j, i]", ["t"]),
    "one of two": (T + "let u := ⊞[i < n] 3 * x[i] in ⊞[i < n] t[i] * u[i]", ["u"]),
}
"""Programs whose lets share storage, with the buffers that remain."""
APART: Final = {
    "the element before": (T + "⊞[i < n] t[i] + [1 <= i] · t[i - 1]", ["t"]),
    "in reverse": (T + "⊞[i < n] t[n - 1 - i]", ["t"]),
    "all of it": (T + "⊞[i < n] Σ[j < n] t[j]", ["t"]),
    "the element after, at once": (T + "⊞[i < n | vector] select(i + 1 < n, t[i + 1], t[i])", ["t"]),
    "read again, by shape": (T + "let u := ⊞[i < n] t[i] + 1 in ⊞[i < n] Σ[j < n] u[j] * t[i]", ["t", "u"]),
    "shorter, by shape": ("let t := ⊞[i < n + 1] 2 * x[min(i, n - 1)] in ⊞[i < n] t[i]", ["t"]),
    "with padding, by shape": ("let t := truncr 1 padr 2 ⊞[i < n - 1] x[i] in ⊞[i < n] t[i] + 1", ["t"]),
    "into padding, by shape": (T + "truncr 1 padr 2 ⊞[i < n - 1] t[i]", ["t"]),
    "rows": (TABLE + TURNED + "⊞[i < n] Σ[j < n] u[j, 0] * u[j, i]", ["t", "u"]),
}
COPIES: Final = {
    "to the result": (T + "t", []),
    "of an input": ("let t := x in ⊞[i < n] t[i] + t[n - 1 - i]", []),
    "to a let": (T + "let u := t in ⊞[i < n] Σ[j < n] u[j]", ["u"]),
    "of an input, element by element": ("let t := ⊞[i < n] x[i] in ⊞[i < n] Σ[j < n] t[j]", []),
    "of a copy of an input": ("let t := x in let u := t in ⊞[i < n] Σ[j < n] u[j]", []),
}

ROW: Final = "⊞[i < n] let t := ⊞[j < m] 2 * x[i, j] in "
ROWS: Final = {
    "element by element": ROW + "⊞[j < m] t[j] * t[j]",
    "the element after": ROW + "⊞[j < m] t[j] + [j + 1 < m] · t[j + 1]",
    "what comes": ROW + "⊞[j < m] Σ[j <= k < m] t[k]",
    "a total of it": ROW + "let s := Σ[j < m] t[j] in ⊞[j < m] t[j] * s",
    "with a dimension of one element": "⊞[i < n] let t := ⊞[k < 1] ⊞[j < m] x[i, j] + 1 in ⊞[j < m] t[0, j] * t[0, j]",
    "in threads": "⊞[i < n | parallel] let t := ⊞[j < m] 2 * x[i, j] in ⊞[j < m] t[j] * t[j]",
    "guarded": "⊞[i < n] let t := ⊞[j < m] [j < n] · x[i, j] in ⊞[j < m] t[j] + 1",
    "one of two": ROW + "let s := ⊞[k < m] Σ[j < m] t[j] * x[i, k] in ⊞[j < m] t[j] * s[j]",
}
"""Programs with a let of each row that shares the storage of the row."""
OWN_ROWS: Final = {
    "the element before": ROW + "⊞[j < m] t[j] + [1 <= j] · t[j - 1]",
    "in reverse": ROW + "⊞[j < m] t[m - 1 - j]",
    "the element after, at once": ROW + "⊞[j < m | vector] select(j + 1 < m, t[j + 1], t[j])",
    "not the whole row": ROW + "⊞[j < m] [j < n] · t[j] * t[j]",
    "shifted": ROW + "⊞[j < m] [1 <= j] · t[j - 1] * t[j]",
    "another input, by shape": ROW + "⊞[j < m] t[j] + x[i, j]",
    "two places": ROW + "padr 1 ⊞[j < m - 1] t[j] * t[j + 1]",
    "a column": "transpose ⊞[j < m] let t := ⊞[i < n] 2 * x[i, j] in ⊞[i < n] t[i] * t[i]",
    "by tiles": ROW
    + "truncr ((m + 3) // 4 * 4 - m) flatten ⊞[jo < (m + 3) // 4] ⊞[ji < 4] [4 * jo + ji < m] · t[4 * jo + ji]",
}
"""Programs with a let of each row that needs separate storage: it is read later, or would leave its elements."""


def table_program(body: str) -> atl.Program:
    return atl.parse(f"t (x : float32[n, m]) : float32[n, m]\n    given 1 <= n, 1 <= m :=\n  {body}")


def table(n: int, m: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(n + m).integers(-9, 9, (n, m)).astype(np.float32)


def program(body: str) -> atl.Program:
    return atl.parse(f"t (x : float32[n]) : float32[n]\n    given 1 <= n :=\n  {body}")


def vector(n: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(n).integers(-9, 9, n).astype(np.float32)


def sharing_nests() -> Iterator[tuple[LoopNest, Mapping[str, int], Mapping[str, AnyArray]]]:
    """Yield the programs lowered but before any pass, with a size and a vector."""
    for body, _ in (*SHARED.values(), *APART.values(), *COPIES.values()):
        yield lower_unchecked(program(body)), {"n": 5}, {"x": vector(5)}
    for body in (*ROWS.values(), *OWN_ROWS.values()):
        yield lower_unchecked(table_program(body)), {"n": 3, "m": 5}, {"x": table(3, 5)}
