"""Rewriting: rules as equations, a small kernel that makes theorems, and interactive sessions.

>>> import atl
>>> n = atl.sizes("n")
>>> f = atl.tensor("f", n)
>>> pipeline = atl.program("pipeline", [f], atl.let(atl.gen(n, lambda i: 2 * f[i]), lambda buf: atl.gen(
...     n, lambda i: atl.guard(i >= 1, buf[i - 1]) + buf[i])))
>>> s = atl.reschedule(pipeline)
>>> s.fuse("buf")
pipeline (f : float32[n]) : float32[n] :=
  ⊞[i < n] [1 <= i] · 2 * f[i - 1] + 2 * f[i]
>>> s.done()
pipeline = pipeline, by 3 steps
"""

from atl.parameters import check_calls as _check_calls
from rewrites.cursors.targets import Handle
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply, NoMatch, Undetermined
from rewrites.kernel import Theorem
from rewrites.rule import Rule
from rewrites.rules import RULES as rules  # noqa: N811 (the public name)
from rewrites.session.proof_trace import CallTrace, ProofTrace, StepTrace, proof_trace
from rewrites.session.schedule import Schedule
from rewrites.session.session import Session, reschedule
from rewrites.session.tuning import Tuned, autotune
from rewrites.tactics.sparse.operands import Operand

__all__ = [
    "CallTrace",
    "Derivation",
    "DoesNotApply",
    "Handle",
    "NoMatch",
    "Operand",
    "ProofTrace",
    "Rule",
    "Schedule",
    "Session",
    "StepTrace",
    "Theorem",
    "Tuned",
    "Undetermined",
    "autotune",
    "proof_trace",
    "reschedule",
    "rules",
]

_check_calls(globals())
