"""Schedules chosen by measuring: candidates derived by the rules, timed by what the caller brings, kept in a table."""

from rewrites.session.tuning.search import autotune
from rewrites.session.tuning.tuned import Tuned

__all__ = ["Tuned", "autotune"]
