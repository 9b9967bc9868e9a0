"""Runs tests on mutants: collected once, run once to record the lines that each reaches, then a child per mutant.

A child plants its mutant and runs the tests that reach the changed line until one fails: first those that have killed
another mutant of the function, then the fastest. Limits are in processor time, so that load does not change verdicts.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pytest

from proofs_tests.mutation.edits import ALIKE, Mutant, Syntax, functions
from proofs_tests.mutation.packages import HERE
from proofs_tests.mutation.planting import clear_memos, planted
from proofs_tests.mutation.reaching import Lines, reaching

Timed: TypeAlias = tuple[pytest.Item, float]
"""A test, and its seconds without a mutant."""
Verdict: TypeAlias = Literal["killed", "survived", "timeout", "unreached", "no component", "not planted"]
"""The result for a mutant. The values that are compared have "no component" if the ignored one does not exist."""

SECONDS: Final = 30.0
"""Maximum total seconds of the tests for one mutant."""
PATIENCE: Final = 6.0
"""A test that takes this many times as long counts as an infinite loop."""
AT_LEAST: Final = 5
"""Minimum limit of a test, in seconds of processor time."""
TO_PLANT: Final = 60
"""Limit for planting a mutant and clearing memos, in seconds."""
AT_MOST: Final = 600.0
"""Limit for a child that uses no processor time, in seconds."""
MEMORY: Final = 4 << 30
"""Additional memory that a mutant may use, in bytes."""
_CODES: Final[dict[int, Verdict]] = {
    10: "killed",
    11: "survived",
    12: "not planted",
    13: "no component",
    -signal.SIGXCPU: "timeout",
    -signal.SIGKILL: "timeout",
}


class Verdicts:
    """Verdicts on disk, one line each, with a hash of the changed function."""

    def __init__(self, path: Path, texts: Mapping[str, str]) -> None:
        self._path = path
        self._hashes = {
            (file, name): sha256(function.encode()).hexdigest()[:12]
            for file, text in texts.items()
            for name, function in functions(text).items()
        }
        self._known: dict[tuple[str, str], Verdict] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                key, of, verdict, _ = json.loads(line)
                if self._known.get((key, of)) != "killed":  # killed mutants remain killed
                    self._known[key, of] = verdict

    def of(self, mutant: Mutant) -> Verdict | None:
        """Return the verdict, if the function has not changed since."""
        return self._known.get((mutant.key, self._hash(mutant)))

    def _hash(self, mutant: Mutant) -> str:
        return self._hashes[mutant.file, mutant.function]

    def keep(self, mutant: Mutant, verdict: Verdict, by: str) -> None:
        """Store a verdict, and the test that killed the mutant."""
        self._known[mutant.key, self._hash(mutant)] = verdict
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps([mutant.key, self._hash(mutant), verdict, by], ensure_ascii=False) + "\n")


@dataclass(frozen=True, slots=True)
class _Child:
    """A process that tests a mutant, the reading end of its pipe, and the end of its time limit.

    `used` is its processor time when the limit was set; the limit is extended if it has used more since.
    """

    number: int
    mutant: Mutant
    pipe: int
    until: float
    used: int = 0


class Runner:
    """A pytest plugin that runs selected tests for each mutant instead of all tests once."""

    def __init__(
        self,
        mutants: Sequence[Mutant],
        texts: Mapping[str, str],
        verdicts: Verdicts,
        *,
        seconds: float = SECONDS,
        workers: int = 1,
    ) -> None:
        self._seconds = seconds
        self._workers = workers
        self._mutants = mutants
        self._texts = texts
        self._verdicts = verdicts
        self._failed = False
        self._kills: Counter[tuple[str, str]] = Counter()
        """Number of mutants of a function that a test has killed; such tests run first."""
        self._at_work: dict[int, _Child] = {}
        self.broken: list[str] = []

    def pytest_configure(self) -> None:
        """Turn off shrinking, since nobody reads the failing case."""
        from hypothesis import Phase, settings  # pytest warns about earlier imports

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutants", phases=phases, report_multiple_bugs=False)
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record that a test has failed."""
        self._failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run each test once, and then for each mutant the tests that reach it."""
        if session.testsfailed:  # an import error is not survival
            self.broken.append("collection errors")
            return True
        seen = self._seen(session.items)
        self.broken += seen.broken
        if self.broken:
            return True
        _imported(seen.modules)
        gc.collect()
        gc.freeze()  # avoids copying pages in children
        syntax = "", Syntax("")
        for number, mutant in enumerate(self._mutants, 1):
            if mutant.file != syntax[0]:
                syntax = mutant.file, Syntax(self._texts[mutant.file])
            before = mutant.with_an_earlier_part
            missing = before is not None and self._verdicts.of(before) == "no component"
            items = [] if missing else self._chosen(session.items, mutant, seen)
            if missing:
                self._record(number, mutant, "no component", "")
            elif items:
                self._send(number, mutant, syntax[1], [(item, seen.seconds[item.nodeid]) for item in items])
            else:
                self._record(number, mutant, "unreached", "")
        while self._at_work:
            self._receive()
        return True

    def _chosen(self, tests: Sequence[pytest.Item], mutant: Mutant, seen: Seen) -> list[pytest.Item]:
        """Return the fastest tests that reach the mutant within the limit, ordered by kills."""
        found = [item for item in tests if (mutant.file, mutant.line) in seen.lines[item.nodeid]]
        chosen: list[pytest.Item] = []
        left = self._seconds
        for item in sorted(found, key=lambda item: seen.seconds[item.nodeid]):
            if chosen and seen.seconds[item.nodeid] > left:
                break
            chosen.append(item)
            left -= seen.seconds[item.nodeid]
        function = f"{mutant.file}::{mutant.function}"
        return sorted(chosen, key=lambda item: -self._kills[function, item.nodeid])

    def _seen(self, tests: Sequence[pytest.Item]) -> Seen:
        """Run all tests in worker processes; return the lines that each reaches and its time."""
        pipes: list[int] = []
        for worker in range(self._workers):
            reader, writer = os.pipe()
            if os.fork() == 0:
                code = 1
                try:
                    with os.fdopen(writer, "wb") as stream:
                        pickle.dump(self._seen_here(tests[worker :: self._workers]), stream)
                    code = 0
                finally:
                    os._exit(code)
            os.close(writer)
            pipes.append(reader)
        seen = Seen({}, {}, [], set())
        for pipe in pipes:
            with os.fdopen(pipe, "rb") as stream:
                seen.add(pickle.load(stream))
            os.wait()
        return seen

    def _seen_here(self, tests: Sequence[pytest.Item]) -> Seen:
        look = reaching({str(HERE / file): file for file in self._texts})
        before = set(sys.modules)
        seen = Seen({}, {}, [], set())
        for item in tests:
            clear_memos()  # else it would reach less than in a fresh process
            begun = _used()
            with look.of(item.nodeid):
                self._run(item)
            seen.seconds[item.nodeid] = _used() - begun
            if self._failed:
                seen.broken.append(item.nodeid)
                self._failed = False
        seen.lines.update(look.lines())
        seen.modules.update(set(sys.modules) - before)
        return seen

    def _send(self, number: int, mutant: Mutant, syntax: Syntax, items: Sequence[Timed]) -> None:
        """Test a mutant in a child process, once a worker is free."""
        while len(self._at_work) >= self._workers:
            self._receive()
        sys.stdout.flush()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self._in_the_child(mutant, syntax, items, writer)
        os.close(writer)
        self._at_work[child] = _Child(number, mutant, reader, time.monotonic() + AT_MOST)

    def _receive(self) -> None:
        """Wait until a child ends or exceeds its limit."""
        while True:
            for pid, child in list(self._at_work.items()):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if not ended and time.monotonic() > child.until:
                    if (used := _used_by(pid)) > child.used:
                        self._at_work[pid] = replace(child, until=time.monotonic() + AT_MOST, used=used)
                        continue
                    os.kill(pid, signal.SIGKILL)
                    ended, status = os.waitpid(pid, 0)
                if ended:
                    del self._at_work[pid]
                    with os.fdopen(child.pipe, "rb") as stream:
                        by = stream.read().decode()
                    verdict = _CODES.get(os.waitstatus_to_exitcode(status), "killed")
                    self._record(child.number, child.mutant, verdict, by)
                    return
            time.sleep(0.005)

    def _record(self, number: int, mutant: Mutant, verdict: Verdict, by: str) -> None:
        self._verdicts.keep(mutant, verdict, by)
        if by:
            self._kills[f"{mutant.file}::{mutant.function}", by] += 1
        if verdict != "killed":
            place = f"{mutant.file}:{mutant.line}"
            print(f"{number}/{len(self._mutants)} {verdict}: {place} {mutant.change}", file=sys.stderr, flush=True)

    def _in_the_child(self, mutant: Mutant, syntax: Syntax, items: Sequence[Timed], writer: int) -> None:
        code = 10
        try:
            _limited_in_memory()
            _limited(TO_PLANT)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            if not planted(mutant, syntax.changed(mutant)):
                code = 12
            else:
                self._failed = False
                for item, usual in items:
                    _limited(AT_LEAST + PATIENCE * usual)
                    self._run(item)
                    if self._failed:
                        os.write(writer, item.nodeid.encode())
                        break
                else:
                    code = 13 if mutant.part is not None and not ALIKE.used else 11
        finally:
            os._exit(code)

    @staticmethod
    def _run(item: pytest.Item) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


@dataclass(slots=True)
class Seen:
    """A run of tests: lines and seconds of each, failures, and imported modules."""

    lines: dict[str, Lines]
    seconds: dict[str, float]
    broken: list[str]
    modules: set[str]

    def add(self, other: Seen) -> None:
        """Add the results of other tests."""
        self.lines.update(other.lines)
        self.seconds.update(other.seconds)
        self.broken += other.broken
        self.modules |= other.modules


def _imported(modules: Iterable[str]) -> None:
    """Import the modules of the tests once. The threads of egglog do not survive a fork."""
    for name in sorted(module for module in modules if module.partition(".")[0] != "egglog"):
        with suppress(Exception):  # modules that a test creates
            import_module(name)


def _used() -> float:
    """Return the processor time of this process and its finished children, in seconds."""
    return sum(os.times()[:4])


def _used_by(process: int) -> int:
    """Return the processor time of a process and its finished children, in ticks."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def _limited(seconds: float) -> None:
    """End this process after this much more processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 1, most))


def _limited_in_memory() -> None:
    """Limit this process to `MEMORY` more bytes."""
    held = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
