"""The benchmark with several threads: speed-up over one thread in the same rounds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench import report
from bench.command import in_own_process
from bench.outcome import ALONE, ROOFLINE, Candidate, Case, Outcome, concluded
from bench.overview import fastest, table
from bench.threads import Pools
from lowering import Samples

WORKLOAD_MODULE = "proofs_tests.architecture.faulty_workloads"


@pytest.fixture
def pools() -> Iterator[Pools]:
    """Return the libraries' thread pools, and restore their sizes after the test."""
    found = Pools()
    before = max((pool["num_threads"] for pool in found.info()), default=1)
    yield found
    found.use(before)


def test_libraries_use_the_given_number_of_threads(pools: Pools) -> None:
    for threads in (1, 2, 1):
        pools.use(threads)
        assert {pool["num_threads"] for pool in pools.info()} == {threads}


@pytest.mark.long
def test_candidates_run_with_one_thread_too() -> None:
    """The baseline fails if the libraries use another number of threads."""
    found, _ = in_own_process(Case("threaded", 100, 2, rounds=4, seconds=2), lambda _: None, WORKLOAD_MODULE)
    assert (found.faults, found.left_out) == ((), ())
    assert [entry.name for entry in found.entries] == ["with threads", "doubled_in_tiles (by = 4, sizes fixed)"]
    assert all(entry.speed_up is not None for entry in found.entries)


def test_table_and_file_have_speed_ups() -> None:
    who = (Candidate("mine", ours=True, derived=True), Candidate("theirs", ours=False))
    times: dict[str, list[float | None]] = {
        "mine": [2.0, 1.0], "mine" + ALONE: [3.8, 1.9], "theirs": [4.0, 4.0], ROOFLINE: [1.0, 1.0]
    }  # fmt: skip
    found = concluded(Case("w", 7, threads=2), "says", ("fma", 1.0), who, Samples(times), ())
    (row,) = found.rows
    assert (row.speed_up, row.baseline_speed_up) == (1.9, None)
    assert Outcome.from_json(found.as_json()) == found
    (line,) = table(fastest(found.as_json()["rows"])).splitlines()[2:]
    assert line.endswith("| 1.90, – |")
    shown = report.table(found)
    assert "speed-up" in shown
    assert "      1.90  " in shown
    assert "speed-up" not in report.table(concluded(Case("w", 7), "says", ("fma", 1.0), who, Samples(times), ()))


@pytest.mark.long
def test_no_speed_up_without_threadpoolctl() -> None:
    found, _ = in_own_process(Case("unsettable", 100, 2, rounds=1), lambda _: None, WORKLOAD_MODULE)
    assert [entry.speed_up for entry in found.entries] == [None, None]
