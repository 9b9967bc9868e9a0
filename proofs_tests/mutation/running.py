"""The tests of a room against its mutants: collected once, run once to see who reaches which line, then a child each.

A child plants its mutant and runs the tests that reach the changed line until one fails: first those that have found
another mutant of the function, then the fastest. It is limited by what it uses, so that other work on the machine does
not change the verdict.
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
from proofs_tests.mutation.planting import nothing_is_remembered, planted
from proofs_tests.mutation.reaching import Lines, reaching
from proofs_tests.mutation.rooms import HERE

Timed: TypeAlias = tuple[pytest.Item, float]
"""A test, and the seconds that it takes where nothing is planted."""
Verdict: TypeAlias = Literal["killed", "survived", "timeout", "unreached", "not planted"]

SECONDS: Final = 30.0
"""So long the tests that are asked for one mutant take together, without it."""
PATIENCE: Final = 6.0
"""A mutant with which a test takes so many times as long runs for ever."""
AT_LEAST: Final = 5
"""So many seconds of its processor each test has; a mutant is not judged by how busy the machine is."""
TO_PLANT: Final = 60
"""So many a fault takes at most before the first test: all that was remembered is forgotten."""
AT_MOST: Final = 600.0
"""One that waits for something is left after so many seconds in which it uses no processor."""
ROOM: Final = 4 << 30
"""So much more memory than there was may be used by a mutant."""
_CODES: Final[dict[int, Verdict]] = {
    10: "killed",
    11: "survived",
    12: "not planted",
    13: "unreached",
    -signal.SIGXCPU: "timeout",
    -signal.SIGKILL: "timeout",
}


class Verdicts:
    """What is known of mutants, on disk: a line each, with a hash of the function that is changed."""

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
                if self._known.get((key, of)) != "killed":  # which it stays
                    self._known[key, of] = verdict

    def of(self, mutant: Mutant) -> Verdict | None:
        """The verdict, if the function has not changed since."""
        return self._known.get((mutant.key, self._hash(mutant)))

    def _hash(self, mutant: Mutant) -> str:
        return self._hashes[mutant.file, mutant.function]

    def keep(self, mutant: Mutant, verdict: Verdict, by: str) -> None:
        """Notes a verdict, and the test that found the mutant."""
        self._known[mutant.key, self._hash(mutant)] = verdict
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps([mutant.key, self._hash(mutant), verdict, by], ensure_ascii=False) + "\n")


@dataclass(frozen=True, slots=True)
class _Child:
    """A process that judges a mutant, the end of the pipe that it writes to, and until when it is waited for.

    `used` is what it had used of the processor when that was said: where others have it, it is waited for longer.
    """

    number: int
    mutant: Mutant
    said: int
    until: float
    used: int = 0


class Runner:
    """A plugin of pytest that runs, in the place of all tests once, some of them for each mutant."""

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
        self._found_by: Counter[tuple[str, str]] = Counter()
        """How often a test has found a mutant of a function: it is asked first for the next one."""
        self._at_work: dict[int, _Child] = {}
        self.broken: list[str] = []

    def pytest_configure(self) -> None:
        """A case that fails is enough: nobody reads the smallest one."""
        from hypothesis import Phase, settings  # here: pytest warns of what was imported before it

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutants", phases=phases, report_multiple_bugs=False)
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes that a test has failed."""
        self._failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs each test once, and then those that reach it for each mutant."""
        if session.testsfailed:  # a file that cannot be imported finds nothing, which is no survival
            self.broken.append("some that cannot be collected")
            return True
        seen = self._seen(session.items)
        self.broken += seen.broken
        if self.broken:
            return True
        _imported(seen.modules)
        gc.collect()
        gc.freeze()  # a child that collects what its parent holds has to copy it
        syntax = "", Syntax("")
        for number, mutant in enumerate(self._mutants, 1):
            if mutant.file != syntax[0]:
                syntax = mutant.file, Syntax(self._texts[mutant.file])
            before = mutant.with_an_earlier_part
            nothing_there = before is not None and self._verdicts.of(before) == "unreached"
            items = [] if nothing_there else self._chosen(session.items, mutant, seen)
            if items:
                self._send(number, mutant, syntax[1], [(item, seen.seconds[item.nodeid]) for item in items])
            else:
                self._judged(number, mutant, "unreached", "")
        while self._at_work:
            self._receive()
        return True

    def _chosen(self, tests: Sequence[pytest.Item], mutant: Mutant, seen: Seen) -> list[pytest.Item]:
        """The fastest tests that reach the mutant, for as long as is allowed; first those that are known to find."""
        found = [item for item in tests if (mutant.file, mutant.line) in seen.lines[item.nodeid]]
        chosen: list[pytest.Item] = []
        left = self._seconds
        for item in sorted(found, key=lambda item: seen.seconds[item.nodeid]):
            if chosen and seen.seconds[item.nodeid] > left:
                break
            chosen.append(item)
            left -= seen.seconds[item.nodeid]
        function = f"{mutant.file}::{mutant.function}"
        return sorted(chosen, key=lambda item: -self._found_by[function, item.nodeid])

    # -- which test reaches what -------------------------------------------------------------------------------------

    def _seen(self, tests: Sequence[pytest.Item]) -> Seen:
        """What each test reaches, and how long it takes: looked at by processes of their own."""
        pipes: list[int] = []
        for worker in range(self._workers):
            asked, said = os.pipe()
            if os.fork() == 0:
                code = 1
                try:
                    with os.fdopen(said, "wb") as stream:
                        pickle.dump(self._seen_here(tests[worker :: self._workers]), stream)
                    code = 0
                finally:
                    os._exit(code)
            os.close(said)
            pipes.append(asked)
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
            nothing_is_remembered()  # by which it would reach less than in a process of its own
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

    # -- what becomes of a mutant ------------------------------------------------------------------------------------

    def _send(self, number: int, mutant: Mutant, syntax: Syntax, items: Sequence[Timed]) -> None:
        """Has a mutant judged by a process of its own, once there is room for one."""
        while len(self._at_work) >= self._workers:
            self._receive()
        sys.stdout.flush()
        asked, said = os.pipe()
        child = os.fork()
        if child == 0:
            self._in_the_child(mutant, syntax, items, said)
        os.close(said)
        self._at_work[child] = _Child(number, mutant, asked, time.monotonic() + AT_MOST)

    def _receive(self) -> None:
        """Waits for a process that has judged its mutant, or that is waited for no longer."""
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
                    with os.fdopen(child.said, "rb") as stream:
                        by = stream.read().decode()
                    verdict = _CODES.get(os.waitstatus_to_exitcode(status), "killed")
                    self._judged(child.number, child.mutant, verdict, by)
                    return
            time.sleep(0.005)

    def _judged(self, number: int, mutant: Mutant, verdict: Verdict, by: str) -> None:
        self._verdicts.keep(mutant, verdict, by)
        if by:
            self._found_by[f"{mutant.file}::{mutant.function}", by] += 1
        if verdict != "killed":
            place = f"{mutant.file}:{mutant.line}"
            print(f"{number}/{len(self._mutants)} {verdict}: {place} {mutant.change}", file=sys.stderr, flush=True)

    def _in_the_child(self, mutant: Mutant, syntax: Syntax, items: Sequence[Timed], said: int) -> None:
        code = 10
        try:
            _limited_in_memory()
            _limited(TO_PLANT)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            if not planted(mutant, syntax.changed(mutant)):
                code = 12
            else:
                self._failed = False
                for item, usual in items:
                    _limited(AT_LEAST + PATIENCE * usual)
                    self._run(item)
                    if self._failed:
                        os.write(said, item.nodeid.encode())
                        break
                else:
                    code = 13 if mutant.part is not None and not ALIKE.met else 11
        finally:
            os._exit(code)

    @staticmethod
    def _run(item: pytest.Item) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


@dataclass(slots=True)
class Seen:
    """Of tests: the lines that each reaches, its seconds, those that fail, and the modules that they import."""

    lines: dict[str, Lines]
    seconds: dict[str, float]
    broken: list[str]
    modules: set[str]

    def add(self, other: Seen) -> None:
        """Adds what was seen of other tests."""
        self.lines.update(other.lines)
        self.seconds.update(other.seconds)
        self.broken += other.broken
        self.modules |= other.modules


def _imported(modules: Iterable[str]) -> None:
    """Imports what tests will, once for all of them. The threads of egglog do not survive a fork."""
    for name in sorted(module for module in modules if module.partition(".")[0] != "egglog"):
        with suppress(Exception):  # what only a test makes to be imported
            import_module(name)


def _used() -> float:
    """The seconds of processors that this process, and what it has started and waited for, has used."""
    return sum(os.times()[:4])


def _used_by(process: int) -> int:
    """What a process, and what it has started and waited for, has used of the processor, in ticks."""
    told = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, told[11:15]))


def _limited(seconds: float) -> None:
    """Ends this process when it has used the processor for so long from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 1, most))


def _limited_in_memory() -> None:
    """Gives this process no more than `ROOM`."""
    held = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, held + ROOM))
