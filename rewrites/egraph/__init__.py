"""The e-graph: many equal programs at once, a cost model that picks one, and the kernel that proves the way to it.

Sessions make it of use: `s.equal_to(other)`, `s.saturate(…)`, `s.auto(…)`. egglog is imported when a search begins.
"""

from rewrites.egraph.pricing.costs import code_size, lines, traffic
from rewrites.egraph.schedules import Choice, Saturated, choose, saturate, searched
from rewrites.egraph.search import Limit, Progress

__all__ = [
    "Choice",
    "Limit",
    "Progress",
    "Saturated",
    "choose",
    "code_size",
    "lines",
    "saturate",
    "searched",
    "traffic",
]
