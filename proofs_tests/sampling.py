"""Selection of a few cases of a test for `make test`. The other cases have the marker `long`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import pytest
from _pytest.mark import ParameterSet

ONE_IN: Final = 23
"""Sampling rate of `make test`. The number is prime, so that cases of several parameters are mixed."""
IN_LONG: Final = 19
"""Sampling rate of `make test-all` for the cases that `make test` leaves out."""
MARKS: Final = pytest.StashKey[dict[str, frozenset[str]]]()
"""Key of the marks of all collected tests, before deselection, in the stash of pytest's configuration."""


def few_and_rest(count: int) -> list[ParameterSet]:
    """Return the numbers below `count` as two cases of a random test, the first few and the rest. The rest is long."""
    few = -(-count // ONE_IN)
    return [
        pytest.param(range(few), id="few"),
        pytest.param(range(few, count), id="rest", marks=pytest.mark.long),
    ]


def sample(items: Iterable[pytest.Item]) -> None:
    """Mark most cases of `sampled` tests as long: all but one in `ONE_IN` of each test.

    Of the other cases of a test marked `thinned(n)`, all but one in n are slow. Without the mark, n is 19 for a
    `sampled` test.
    """
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        sampled, thinned = item.get_closest_marker("sampled"), item.get_closest_marker("thinned")
        if sampled is not None:
            seen[f"sampled {test}"] += 1
            if seen[f"sampled {test}"] % ONE_IN == 1:
                continue
            item.add_marker("long")
        if sampled is not None or (thinned is not None and item.get_closest_marker("long") is not None):
            seen[test] += 1
            if seen[test] % (IN_LONG if thinned is None else thinned.args[0]) != 1:
                item.add_marker("slow")
