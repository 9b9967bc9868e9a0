"""What the bench says of several threads: who is how much faster with them than with one, in the same rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import atl
from bench import measure, report
from bench.contest import Limit, Ours, Problem, Rival, Workload, moved, posed
from bench.measure import measured
from bench.outcome import ALONE, LIMIT, Case, Contestant, Outcome, concluded
from bench.overview import fastest, table
from bench.threads import Pools
from lowering import Samples

MS = 1_000_000


class Clock:
    """It goes on where somebody says so, and by a fifth of a millisecond where it is asked: nobody takes no time."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> int:
        self.time += MS // 5
        return self.time

    def preemptions(self) -> int:
        return 0


@pytest.fixture
def pools() -> Iterator[Pools]:
    """The libraries' threads, which afterwards are as many as before."""
    found = Pools()
    before = max((pool["num_threads"] for pool in found.told()), default=1)
    yield found
    found.use(before)


def doubled() -> atl.Program:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    return atl.program("doubled", [x], 2 * x)


def doubling(*rivals: Rival) -> Workload:
    pose = posed(lambda values: 2 * values, lambda size: ((size,), (size,)))
    says, limit = "twice n numbers", Limit("copy", moved)
    return Workload("doubling", says, (100,), pose, (Ours(doubled),), rivals, limit, most=1000)


def by_threads(clock: Clock, pools: Pools, seen: list[tuple[int, int]]) -> Rival:
    """A rival that takes 300 ms by itself, a third of it however many they are; it notes what the libraries use."""

    def make(problem: Problem, threads: int) -> Callable[[], object]:
        def run() -> None:
            np.multiply(problem.inputs[0], 2, out=problem.out)
            clock.time += 100 * MS + 200 * MS // threads
            seen.extend((threads, pool["num_threads"]) for pool in pools.told()[:1])

        return run

    return Rival("by threads", make)


def test_libraries_use_as_many_threads_as_they_are_told(pools: Pools) -> None:
    for threads in (1, 2, 1):
        pools.use(threads)
        assert {pool["num_threads"] for pool in pools.told()} == {threads}


def test_everybody_takes_turns_with_one_thread_too(pools: Pools) -> None:
    clock, seen = Clock(), list[tuple[int, int]]()
    case = Case("doubling", 100, 2, rounds=4, seconds=100)
    found = measured(doubling(by_threads(clock, pools, seen)), case, watch=lambda _: None, clock=clock)
    (rival,) = (entry for entry in found.entries if not entry.ours)
    assert (rival.ms, rival.speed_up) == (200.2, 300.2 / 200.2)
    # Two runs are of the checks, before the first turn.
    assert {made for made, _ in seen} == {1, 2}
    assert all(made == used for made, used in seen[2:])
    assert len(seen) > 8


def test_the_table_has_each_one_s_speed_up_and_so_has_the_file() -> None:
    who = (Contestant("mine", ours=True, derived=True), Contestant("theirs", ours=False))
    times: dict[str, list[float | None]] = {
        "mine": [2.0, 1.0], "mine" + ALONE: [3.8, 1.9], "theirs": [4.0, 4.0], LIMIT: [1.0, 1.0]
    }  # fmt: skip
    found = concluded(Case("w", 7, threads=2), "says", ("fma", 1.0), who, Samples(times), ())
    (row,) = found.rows
    assert (row.speed_up, row.rival_speed_up) == (1.9, None)
    assert Outcome.from_json(found.as_json()) == found
    (line,) = table(fastest(found.as_json()["rows"])).splitlines()[2:]
    assert line.endswith("| 1.90, – |")
    shown = report.table(found)
    assert "speed-up" in shown
    assert "      1.90  " in shown
    assert "speed-up" not in report.table(concluded(Case("w", 7), "says", ("fma", 1.0), who, Samples(times), ()))


def test_without_what_sets_the_threads_nobody_has_a_speed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "settable", lambda: False)
    found = measured(doubling(), Case("doubling", 100, 2, rounds=1), watch=lambda _: None, clock=Clock())
    assert [entry.speed_up for entry in found.entries] == [None]
