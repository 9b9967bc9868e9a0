"""The tests of a room against its mutants: collected once, run once to see who reaches which line, then a child each.

A child plants its mutant and runs the tests that reach the changed line, the fastest first, until one fails.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal, TypeAlias

import pytest

from proofs_tests.mutation.edits import Mutant
from proofs_tests.mutation.planting import planted
from proofs_tests.mutation.rooms import HERE

Verdict: TypeAlias = Literal["killed", "survived", "timeout", "unreached", "not planted"]

SECONDS: Final = 30.0
"""So long the tests that are asked for one mutant take together, without it."""
PATIENCE: Final = 6.0
"""A mutant that takes so many times as long runs for ever."""
_CODES: Final[dict[int, Verdict]] = {10: "killed", 11: "survived", 12: "not planted"}


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
        for number, mutant in enumerate(self._mutants, 1):
            items = self._chosen(session, mutant, reached, seconds)
            verdict: Verdict = "unreached"
            if items:
                verdict = self._judged(mutant, items, sum(seconds[item.nodeid] for item in items))
            self._verdicts.keep(mutant, verdict, "")
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
        """The tests that reach the mutant, the fastest first, for as long as is allowed."""
        found = [item for item in session.items if (mutant.file, mutant.line) in reached[item.nodeid]]
        chosen: list[pytest.Item] = []
        left = self._seconds
        for item in sorted(found, key=lambda item: seconds[item.nodeid]):
            if chosen and seconds[item.nodeid] > left:
                break
            chosen.append(item)
            left -= seconds[item.nodeid]
        return chosen

    def _reached(self, session: pytest.Session) -> tuple[dict[str, set[tuple[str, int]]], dict[str, float]]:
        """The lines of the mutants' files that each test reaches, and how long it takes."""
        files = {str(HERE / file): file for file in self._texts}
        reached: dict[str, set[tuple[str, int]]] = {}
        seconds: dict[str, float] = {}
        for item in session.items:
            lines: set[tuple[str, int]] = set()
            sys.settrace(_tracer(files, lines))
            begun = time.perf_counter()
            try:
                self._run(item)
            finally:
                sys.settrace(None)
            reached[item.nodeid], seconds[item.nodeid] = lines, time.perf_counter() - begun
            if self._failed:
                self.broken.append(item.nodeid)
                self._failed = False
        return reached, seconds

    def _judged(self, mutant: Mutant, items: Sequence[pytest.Item], usual: float) -> Verdict:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            self._in_the_child(mutant, items)
        end = time.monotonic() + 20 + PATIENCE * usual
        while time.monotonic() < end:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return _CODES.get(os.waitstatus_to_exitcode(status), "killed")
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "timeout"

    def _in_the_child(self, mutant: Mutant, items: Sequence[pytest.Item]) -> None:
        code = 10
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            if not planted(mutant, self._texts[mutant.file]):
                code = 12
            else:
                self._failed = False
                for item in items:
                    self._run(item)
                    if self._failed:
                        break
                else:
                    code = 11
        finally:
            os._exit(code)

    @staticmethod
    def _run(item: pytest.Item) -> None:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


def _tracer(files: Mapping[str, str], lines: set[tuple[str, int]]) -> Any:
    def within(frame: FrameType, event: str, _: object) -> Any:
        if event in ("line", "call"):
            lines.add((files[frame.f_code.co_filename], frame.f_lineno))
        return within

    def entered(frame: FrameType, event: str, argument: object) -> Any:
        return within(frame, event, argument) if frame.f_code.co_filename in files else None

    return entered
