"""Whether an index expression means something at a place: what it divides by is positive, what it reads is there."""

from __future__ import annotations

from collections.abc import Iterable

from atl.checks.scope import reads
from atl.core.index import ZERO, Index
from atl.core.predicate import less, within
from atl.core.traversal import divisors
from atl.prove import Facts, Proved, prove


def are_meaningful(facts: Facts, expressions: Iterable[Index]) -> bool:
    """Whether all expressions are proved to mean something: then they may be computed earlier than they stand."""
    return all(
        isinstance(prove(facts, needed, thorough=False), Proved)
        for e in expressions
        for needed in (
            *(less(ZERO, divisor) for divisor in divisors(e)),
            *(
                within(ZERO, position, extent)
                for read in reads(e)
                for position, extent in zip(read.indices, read.array.shape, strict=True)
            ),
        )
    )
