"""The prover: the one place that decides facts about indices.

`prove(facts, goal)` answers `Proved`, `Refuted` with concrete numbers that were checked, or `Unknown`, which never
counts as proved.
"""

from atl.prove.answer import Answer, Model, Proved, Refuted, Statistics, Unknown
from atl.prove.bounds import lower_bound, upper_bound
from atl.prove.facts import Facts
from atl.prove.prover import contradictory, forget, prove, statistics
from atl.prove.simplify import simplify, simplify_predicate

__all__ = [
    "Answer",
    "Facts",
    "Model",
    "Proved",
    "Refuted",
    "Statistics",
    "Unknown",
    "contradictory",
    "forget",
    "lower_bound",
    "prove",
    "simplify",
    "simplify_predicate",
    "statistics",
    "upper_bound",
]
