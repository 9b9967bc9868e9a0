"""Programs over a vector x of n elements, with lets that make room for what is computed from them, or cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

import atl
from lowering.lower import lower_unchecked
from lowering.nest.loopnest import LoopNest
from lowering.nest.machine import AnyArray

T: Final = "let t := ⊞[i < n] 2 * x[i] in "
TABLE: Final = "let t := ⊞[i < n] ⊞[j < n] x[i] * x[j] in "
NESTED: Final = "let t := (let u := ⊞[i < n] 2 * x[i] in ⊞[i < n] u[i] + 1) in "
BELOW: Final = "let u := ⊞[i < n] ⊞[j < n] t[i, j] + [i + 1 < n] · t[i + 1, j] in "
TURNED: Final = "let u := ⊞[i < n] ⊞[j < n] t[j, i] in "
SHARED: Final = {
    "element by element": (T + "⊞[i < n] t[i] * t[i]", []),
    "the element after": (T + "⊞[i < n] t[i] + [i + 1 < n] · t[i + 1]", []),
    "what comes": (T + "⊞[i < n] Σ[i <= j < n] t[j]", []),
    "one after the other": (T + "let u := ⊞[i < n] t[i] + 1 in ⊞[i < n] u[i] * u[i]", []),
    "into another let": (T + "let u := ⊞[i < n] t[i] + 1 in ⊞[i < n] Σ[j < n] u[j]", ["t"]),
    "from within a let": (NESTED + "⊞[i < n] Σ[j < n] t[j]", ["t"]),
    "lanes": (T + "⊞[i < n | vector] t[i] * t[i]", []),
    "rows": (TABLE + BELOW + "⊞[i < n] Σ[j < n] u[j, i]", ["t"]),
    "padding with zeros of its own": ("let t := padr 1 ⊞[i < n - 1] x[i] in ⊞[i < n] t[i] + 1", []),
    "one of two": (T + "let u := ⊞[i < n] 3 * x[i] in ⊞[i < n] t[i] * u[i]", ["u"]),
}
"""Each with the buffers that are left."""
APART: Final = {
    "the element before": (T + "⊞[i < n] t[i] + [1 <= i] · t[i - 1]", ["t"]),
    "in reverse": (T + "⊞[i < n] t[n - 1 - i]", ["t"]),
    "all of it": (T + "⊞[i < n] Σ[j < n] t[j]", ["t"]),
    "the element after, at once": (T + "⊞[i < n | vector] select(i + 1 < n, t[i + 1], t[i])", ["t"]),
    "read again, by shape": (T + "let u := ⊞[i < n] t[i] + 1 in ⊞[i < n] Σ[j < n] u[j] * t[i]", ["t", "u"]),
    "shorter, by shape": ("let t := ⊞[i < n + 1] 2 * x[min(i, n - 1)] in ⊞[i < n] t[i]", ["t"]),
    "zeroed, by shape": ("let t := truncr 1 padr 2 ⊞[i < n - 1] x[i] in ⊞[i < n] t[i] + 1", ["t"]),
    "into padding, by shape": (T + "padr 1 ⊞[i < n - 1] t[i]", ["t"]),
    "rows": (TABLE + TURNED + "⊞[i < n] Σ[j < n] u[j, 0] * u[j, i]", ["t", "u"]),
}
COPIES: Final = {
    "to the result": (T + "t", []),
    "of an input": ("let t := x in ⊞[i < n] t[i] + t[n - 1 - i]", []),
    "to a let": (T + "let u := t in ⊞[i < n] Σ[j < n] u[j]", ["u"]),
    "of an input, element by element": ("let t := ⊞[i < n] x[i] in ⊞[i < n] Σ[j < n] t[j]", []),
    "of a copy of an input": ("let t := x in let u := t in ⊞[i < n] Σ[j < n] u[j]", []),
}


def program(body: str) -> atl.Program:
    return atl.parse(f"t (x : float32[n]) : float32[n]\n    given 1 <= n :=\n  {body}")


def vector(n: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(n).integers(-9, 9, n).astype(np.float32)


def sharing_nests() -> Iterator[tuple[LoopNest, Mapping[str, int], Mapping[str, AnyArray]]]:
    """The programs as they are lowered, before any pass, with a size and a vector."""
    for body, _ in (*SHARED.values(), *APART.values(), *COPIES.values()):
        yield lower_unchecked(program(body)), {"n": 5}, {"x": vector(5)}
