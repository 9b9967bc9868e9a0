"""Few cases of a test for `make test`, and the others for `make test-all`: the marker `long` tells them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import pytest
from _pytest.mark import ParameterSet

ONE_IN: Final = 23
"""`make test` runs one case in so many. The number is prime, so that cases of several parameters are mixed."""
MARKS: Final = pytest.StashKey[dict[str, frozenset[str]]]()
"""The marks of each test that was collected, before any were left out, in the stash of pytest's configuration."""


def few_and_rest(count: int) -> list[ParameterSet]:
    """Return the numbers below `count` as two cases of a random test, the first few and the rest; the rest is long."""
    few = -(-count // ONE_IN)
    return [
        pytest.param(range(few), id="few"),
        pytest.param(range(few, count), id="rest", marks=pytest.mark.long),
    ]


def sample(items: Iterable[pytest.Item]) -> None:
    """Mark cases of the tests that are marked `sampled` as long, all but one in `ONE_IN` of each test.

    Of the others of a test marked `thinned(n)` all but one in n are slow.
    """
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if item.get_closest_marker("sampled") is not None:
            seen[f"sampled {test}"] += 1
            if seen[f"sampled {test}"] % ONE_IN == 1:
                continue
            item.add_marker("long")
        if (thinned := item.get_closest_marker("thinned")) is not None:
            seen[test] += 1
            if seen[test] % thinned.args[0] != 1:
                item.add_marker("slow")
