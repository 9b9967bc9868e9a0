"""The e-graph: many equal programs at once, a cost model that picks one, and the kernel that proves the way to it.

Sessions make it of use: `s.equal_to(other)`, `s.saturate(…)`, `s.auto(…)`. egglog is imported when a search begins.
"""

from rewrites.egraph.pricing.costs import CodeSize, Lines, Traffic
from rewrites.egraph.schedules import Choice, Saturated, choose, saturate, searched
from rewrites.egraph.search import Limit, Progress

__all__ = [
    "Choice",
    "CodeSize",
    "Limit",
    "Lines",
    "Progress",
    "Saturated",
    "Traffic",
    "choose",
    "saturate",
    "searched",
]
