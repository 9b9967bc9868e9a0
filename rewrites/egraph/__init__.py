"""Equality saturation: an e-graph of equal programs, cost models that pick one, and kernel proofs of the result.

Used by `s.equal_to(other)`, `s.saturate(…)` and `s.auto(…)`. egglog is imported when a search begins.
"""

from rewrites.egraph.pricing.costs import code_size, lines, traffic
from rewrites.egraph.schedules import Choice, Saturated, choose, find_schedules, saturate
from rewrites.egraph.search import Limit, Progress

__all__ = [
    "Choice",
    "Limit",
    "Progress",
    "Saturated",
    "choose",
    "code_size",
    "find_schedules",
    "lines",
    "saturate",
    "traffic",
]
