"""Autotuning: candidate schedules are derived by rules, timed by a `measure`, and recorded in a table."""

from rewrites.session.tuning.search import autotune
from rewrites.session.tuning.tuned import Tuned

__all__ = ["Tuned", "autotune"]
