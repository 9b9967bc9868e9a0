"""Finds the lines that each test reaches, by the package coverage if installed, else by a trace function."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import Any, Protocol, TypeAlias

Lines: TypeAlias = set[tuple[str, int]]


class Reaching(Protocol):
    """Records the lines that tests reach."""

    def of(self, test: str) -> AbstractContextManager[None]:
        """Attribute the code in the block to this test."""

    def lines(self) -> Mapping[str, Lines]:
        """Return the lines that each test has reached."""


def reaching(files: Mapping[str, str]) -> Reaching:
    """Return the fastest available recorder for `files`, names by path on disk."""
    return _Traced(files) if find_spec("coverage") is None else _Covered(files)


class _Traced:
    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self._found: dict[str, Lines] = {}

    @contextmanager
    def of(self, test: str) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(_tracer(self._files, self._found.setdefault(test, set())))
        try:
            yield
        finally:
            sys.settrace(before)

    def lines(self) -> Mapping[str, Lines]:
        return self._found


class _Covered:
    def __init__(self, files: Mapping[str, str]) -> None:
        from coverage import Coverage

        self._files = files
        self._found: dict[str, Lines] = {}
        self._coverage = Coverage(data_file=None, include=list(files), config_file=False)
        self._coverage.set_option("run:disable_warnings", ["no-data-collected"])

    @contextmanager
    def of(self, test: str) -> Iterator[None]:
        self._found.setdefault(test, set())
        self._coverage.start()
        self._coverage.switch_context(test)
        try:
            yield
        finally:
            self._coverage.stop()

    def lines(self) -> Mapping[str, Lines]:
        data = self._coverage.get_data()
        for place, file in self._files.items():
            for line, tests in data.contexts_by_lineno(place).items():
                for test in tests:
                    self._found.setdefault(test, set()).add((file, line))
        return self._found


def _tracer(files: Mapping[str, str], lines: Lines) -> Any:
    def within(frame: FrameType, event: str, _: object) -> Any:
        if event in ("line", "call"):
            lines.add((files[frame.f_code.co_filename], frame.f_lineno))
        return within

    def entered(frame: FrameType, event: str, argument: object) -> Any:
        return within(frame, event, argument) if frame.f_code.co_filename in files else None

    return entered
