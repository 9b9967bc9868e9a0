"""The prover: decides predicates on indices under assumptions.

`prove(facts, goal)` returns `Proved`, `Refuted` with numbers that were checked, or `Unknown`. `Unknown` never counts as
proved.

    >>> from atl.core.index import ZERO, Var, index, size
    >>> from atl.core.predicate import less, within
    >>> n, m, i, j = size("n"), size("m"), index(Var(1, "i")), index(Var(2, "j"))
    >>> inside = Facts().assume(within(ZERO, i, n), within(ZERO, j, m))
    >>> prove(inside, less(i * m + j, n * m))
    Proved(layer='linear', vacuous=False)
    >>> print(simplify(inside, (i * m + j) // m), upper_bound(Facts(), i // 4, [(Var(1, "i"), ZERO, n)]), sep="; ")
    i; ⌈n / 4⌉ - 1
    >>> answer = prove(inside, less(i + 1, n))
    >>> isinstance(answer, Refuted) and answer.model.numbers
    {'m': 1, 'n': 1, 'i': 0, 'j': 0}
"""

from atl.prove.bounds import lower_bound, upper_bound
from atl.prove.facts import Answer, Facts, Model, Proved, Refuted, Statistics, Unknown
from atl.prove.prover import (
    contradictory,
    forget,
    holds,
    prove,
    proves,
    simplify,
    simplify_predicate,
    statistics,
    without_smt,
)

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
    "holds",
    "lower_bound",
    "prove",
    "proves",
    "simplify",
    "simplify_predicate",
    "statistics",
    "upper_bound",
    "without_smt",
]
