"""Selection of a few cases of a test for `make test`. The other cases have the marker `long`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final
from zlib import crc32

import pytest
from _pytest.mark import ParameterSet

ONE_IN: Final = 23
"""Sampling rate of `make test`. The number is prime, so that cases of several parameters are mixed."""
IN_LONG: Final = 29
"""Sampling rate of `make test-all` for the cases of `sampled` tests that `make test` leaves out."""
OTHERS_IN_LONG: Final = 3
"""Sampling rate of `make test-all` for the long cases of other tests."""
MARKS: Final = pytest.StashKey[dict[str, frozenset[str]]]()
"""Key of the marks of all collected tests, before deselection, in the stash of pytest's configuration."""


def few_and_rest(count: int) -> list[ParameterSet]:
    """Return the numbers below `count` as two cases of a random test, the first few and the rest. The rest is long."""
    few = -(-count // ONE_IN)
    return [
        pytest.param(range(few), id="few"),
        pytest.param(range(few, count), id="rest", marks=pytest.mark.long),
    ]


def in_part(name: str, part: str) -> bool:
    """Return whether a name is in a part: `1/2` is the first of two parts, `2/2` the second."""
    number, count = map(int, part.split("/")) if re.fullmatch(r"\d+/\d+", part) else (0, 0)
    if not 1 <= number <= count:
        raise pytest.UsageError(f"the part {part!r}; the first of two parts is 1/2")
    return crc32(name.encode()) % count == number - 1


def take_part(items: Iterable[pytest.Item], part: str) -> None:
    """Mark the long tests outside of a part as slow."""
    for item in items:
        if item.get_closest_marker("long") is not None and not in_part(item.nodeid, part):
            item.add_marker("slow")


def sample(items: Iterable[pytest.Item]) -> None:
    """Mark most cases of `sampled` tests as long: all but one in `ONE_IN` of each test.

    Of the long cases of a test, all but one in n are slow: n is that of its mark `thinned(n)`; without this mark,
    `IN_LONG` for a `sampled` test and `OTHERS_IN_LONG` for another.
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
        if item.get_closest_marker("long") is not None:
            usual = OTHERS_IN_LONG if sampled is None else IN_LONG
            if seen[test] % (usual if thinned is None else thinned.args[0]) != 0:
                item.add_marker("slow")
            seen[test] += 1
