"""Introduction of Kronecker deltas: an element as a sum over all elements, and as a read of a scattered value."""

from __future__ import annotations

from atl.core.index import ZERO, Index
from atl.core.traversal import Path
from rewrites.derivation import Derivation
from rewrites.rule_arguments import Argument, Function


def to_delta_sum(work: Derivation, at: Path, extent: Index, wanted: Index, element: Function, name: str) -> None:
    """Rewrite e(a) → Σ[i < n] [i = a] · e(i), where a is within n."""
    arguments: dict[str, Argument] = {"lo": ZERO, "hi": extent, "a": wanted, "e": element}
    work.apply(work.rule("sum_delta_within"), at, arguments, reverse=True)
    work.rename(at, name)


def merge_sum_guards(work: Derivation, at: Path, count: int) -> None:
    """Merge the guards of `count` nested sums: Σ[i] [p] · Σ[j] [q] · e → Σ[i] Σ[j] [p ∧ q] · e."""
    inside = (*at, 0)
    for _ in range(count - 1):
        work.rewrite("sum_guard", inside)
        inside = (*inside, 0)
        work.rewrite("guard_guard", inside)


def to_place(work: Derivation, at: Path, extent: Index, place: Index, wanted: Index) -> None:
    """Rewrite [k = i] · e → (place n i e)[k]."""
    arguments: dict[str, Argument] = {"n": extent, "i": place, "e": work.term((*at, 0)), "k": wanted}
    work.apply(work.rule("place_access"), at, arguments, reverse=True)
