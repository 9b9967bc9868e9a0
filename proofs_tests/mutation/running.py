"""The tests of a room against its mutants: collected once, run once to see who reaches which line, then a child each.

A child plants its mutant and runs the tests that reach the changed line until one fails: first those that have found
another mutant of the function, then the fastest. It is limited by what it uses, so that other work on the machine does
not change the verdict.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pytest

from proofs_tests.mutation.edits import Mutant, Syntax
from proofs_tests.mutation.planting import nothing_is_remembered, planted
from proofs_tests.mutation.reaching import Lines, reaching
from proofs_tests.mutation.rooms import HERE

Verdict: TypeAlias = Literal["killed", "survived", "timeout", "unreached", "not planted"]

SECONDS: Final = 30.0
"""So long the tests that are asked for one mutant take together, without it."""
PATIENCE: Final = 6.0
"""A mutant that takes so many times as long runs for ever."""
AT_LEAST: Final = 5
"""So many seconds of its processor each has; it is not judged by how busy the machine is."""
AT_MOST: Final = 600.0
"""One that waits for something, and uses no processor, is left after so many seconds."""
ROOM: Final = 4 << 30
"""So much more memory than there was may be used by a mutant."""
_CODES: Final[dict[int, Verdict]] = {
    10: "killed",
    11: "survived",
    12: "not planted",
    -signal.SIGXCPU: "timeout",
    -signal.SIGKILL: "timeout",
}


class Verdicts:
    """What is known of mutants, on disk: a line each, with a hash of the function's file."""

    def __init__(self, path: Path, texts: Mapping[str, str]) -> None:
        self._path = path
        self._hashes = {file: sha256(text.encode()).hexdigest()[:12] for file, text in texts.items()}
        self._known: dict[tuple[str, str], Verdict] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                key, of, verdict, _ = json.loads(line)
                self._known[key, of] = verdict

    def of(self, mutant: Mutant) -> Verdict | None:
        """The verdict, if the file has not changed since."""
        return self._known.get((mutant.key, self._hashes[mutant.file]))

    def keep(self, mutant: Mutant, verdict: Verdict, by: str) -> None:
        """Notes a verdict, and the test that found the mutant."""
        self._known[mutant.key, self._hashes[mutant.file]] = verdict
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps([mutant.key, self._hashes[mutant.file], verdict, by], ensure_ascii=False) + "\n")


class Runner:
    """A plugin of pytest that runs, in the place of all tests once, some of them for each mutant."""

    def __init__(
        self, mutants: Sequence[Mutant], texts: Mapping[str, str], verdicts: Verdicts, seconds: float = SECONDS
    ) -> None:
        self._seconds = seconds
        self._mutants = mutants
        self._texts = texts
        self._verdicts = verdicts
        self._failed = False
        self._found_by: Counter[tuple[str, str]] = Counter()
        """How often a test has found a mutant of a function: it is asked first for the next one."""
        self.broken: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes that a test has failed."""
        self._failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs each test once, and then those that reach it for each mutant."""
        if session.testsfailed:  # a file that cannot be imported finds nothing, which is no survival
            self.broken.append("some that cannot be collected")
            return True
        reached, seconds = self._reached(session)
        if self.broken:
            return True
        gc.collect()
        gc.freeze()  # a child that collects what its parent holds has to copy it
        syntax = "", Syntax("")
        for number, mutant in enumerate(self._mutants, 1):
            if mutant.file != syntax[0]:
                syntax = mutant.file, Syntax(self._texts[mutant.file])
            items = self._chosen(session, mutant, reached, seconds)
            verdict, by = self._judged(mutant, syntax[1], items, seconds) if items else ("unreached", "")
            self._verdicts.keep(mutant, verdict, by)
            if verdict != "killed":
                print(
                    f"{number}/{len(self._mutants)} {verdict}: {mutant.file}:{mutant.line} {mutant.change}", flush=True
                )
        return True

    def _chosen(
        self,
        session: pytest.Session,
        mutant: Mutant,
        reached: Mapping[str, set[tuple[str, int]]],
        seconds: Mapping[str, float],
    ) -> list[pytest.Item]:
        """The fastest tests that reach the mutant, for as long as is allowed; first those that are known to find."""
        found = [item for item in session.items if (mutant.file, mutant.line) in reached[item.nodeid]]
        chosen: list[pytest.Item] = []
        left = self._seconds
        for item in sorted(found, key=lambda item: seconds[item.nodeid]):
            if chosen and seconds[item.nodeid] > left:
                break
            chosen.append(item)
            left -= seconds[item.nodeid]
        function = f"{mutant.file}::{mutant.function}"
        return sorted(chosen, key=lambda item: -self._found_by[function, item.nodeid])

    def _reached(self, session: pytest.Session) -> tuple[Mapping[str, Lines], dict[str, float]]:
        """The lines of the mutants' files that each test reaches, and how long it takes."""
        look = reaching({str(HERE / file): file for file in self._texts})
        seconds: dict[str, float] = {}
        for item in session.items:
            nothing_is_remembered()  # by which it would reach less than in a process of its own
            begun = _used()
            with look.of(item.nodeid):
                self._run(item)
            seconds[item.nodeid] = _used() - begun
            if self._failed:
                self.broken.append(item.nodeid)
                self._failed = False
        return look.lines(), seconds

    def _judged(
        self, mutant: Mutant, syntax: Syntax, items: Sequence[pytest.Item], seconds: Mapping[str, float]
    ) -> tuple[Verdict, str]:
        """What becomes of a mutant, and by which test."""
        sys.stdout.flush()
        asked, said = os.pipe()
        child = os.fork()
        if child == 0:
            allowed = AT_LEAST + PATIENCE * sum(seconds[item.nodeid] for item in items)
            self._in_the_child(mutant, syntax, items, said, allowed)
        os.close(said)
        end = time.monotonic() + AT_MOST
        ended, status = os.waitpid(child, os.WNOHANG)
        while not ended and time.monotonic() < end:
            time.sleep(0.002)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        with os.fdopen(asked, "rb") as stream:
            by = stream.read().decode()
        if by:
            self._found_by[f"{mutant.file}::{mutant.function}", by] += 1
        return _CODES.get(os.waitstatus_to_exitcode(status), "killed"), by

    def _in_the_child(
        self, mutant: Mutant, syntax: Syntax, items: Sequence[pytest.Item], said: int, allowed: float
    ) -> None:
        code = 10
        try:
            _limited(allowed)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            if not planted(mutant, syntax.changed(mutant)):
                code = 12
            else:
                self._failed = False
                for item in items:
                    self._run(item)
                    if self._failed:
                        os.write(said, item.nodeid.encode())
                        break
                else:
                    code = 11
        finally:
            os._exit(code)

    @staticmethod
    def _run(item: pytest.Item) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


def _used() -> float:
    """The seconds of processors that this process, and what it has started and waited for, has used."""
    return sum(os.times()[:4])


def _limited(seconds: float) -> None:
    """Ends this process when it has used the processor for so long, and gives it no more than `ROOM`."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    allowed = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (allowed, allowed + 5))
    held = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, held + ROOM))
