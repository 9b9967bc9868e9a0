"""The normal form before lowering (§4.3.2): scalar arithmetic inside of loops, accesses reduced, guards joined, lets lifted."""

from __future__ import annotations

from rewrites.derivation import Derivation
from rewrites.tactics.simplification import OF_ACCESSES, simplify_guards

POINTWISE = ("add_tensors",)
LETS_LIFTED = ()
GUARDS = ("guard_guard",)


def normalize(work: Derivation) -> None:
    """a + b of tensors → ⊞[i < n] a[i] + b[i]; (⊞[i < n] e)[k] → e[k]; [p] · [q] · e → [p ∧ q] · e; lets rise to statements."""
    names = [name for name in (*POINTWISE, *OF_ACCESSES, *GUARDS, *LETS_LIFTED) if name in work.rules]
    work.exhaust(names)
    simplify_guards(work)
