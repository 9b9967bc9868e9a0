"""Rewriting: rules as equations, a kernel that alone makes theorems, and interactive sessions above it.

>>> import atl
>>> from rewrites import reschedule
>>> n = atl.sizes("n")
>>> f = atl.tensor("f", n)
>>> pipeline = atl.program("pipeline", [f], atl.let(atl.gen(n, lambda i: 2 * f[i]), lambda buf: atl.gen(
...     n, lambda i: atl.guard(i >= 1, buf[i - 1]) + buf[i])))
>>> s = reschedule(pipeline)
>>> s.fuse("buf")
pipeline (f : float32[n]) : float32[n] :=
  ⊞[i < n] [1 <= i] · 2 * f[i - 1] + 2 * f[i]
>>> s.done()
pipeline = pipeline, by 3 steps
"""

from rewrites.certificates.certificate import load
from rewrites.derivation import Derivation
from rewrites.errors import NoMatch, NoSite, Undetermined
from rewrites.kernel import Theorem
from rewrites.places.choosing import Handle
from rewrites.rule import Rule
from rewrites.rules import RULES as rules  # noqa: N811 (the contract's name)
from rewrites.session.account import Account, CallAccount, StepAccount, account
from rewrites.session.session import Session, reschedule
from rewrites.session.tuning import Tuned, autotune
from rewrites.tactics.sparse.operands import Operand

__all__ = [
    "Account",
    "CallAccount",
    "Derivation",
    "Handle",
    "NoMatch",
    "NoSite",
    "Operand",
    "Rule",
    "Session",
    "StepAccount",
    "Theorem",
    "Tuned",
    "Undetermined",
    "account",
    "autotune",
    "load",
    "reschedule",
    "rules",
]
