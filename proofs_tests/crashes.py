"""Code that may crash: its run in a child process, and the traceback of a crashed test process in its report."""

from __future__ import annotations

import faulthandler
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

import pytest

from lowering.calls import processes

LINES: Final = 25
"""Number of lines of a traceback that are reported: the innermost calls come first."""


def in_child(call: Callable[[], str]) -> str:
    """Return the text that a call returns in a forked process, or how the process ended.

    A kernel with a planted fault may write out of bounds, and this process would crash later, in another test.
    """
    text, ended = processes.in_child(call)
    assert ended <= 0, "the call raised an error, which is printed above"
    return text or (f"ended by signal {-ended}" if ended else "")


def traceback_file(run: str, process: str) -> Path:
    """Return the file in which a test process of a run writes the traceback of a crash."""
    return Path(tempfile.gettempdir()) / f"atl-crash-{run}-{process}.txt"


class Crashes:
    """Plugin of pytest that writes tracebacks to a file and reads it when a process of pytest-xdist has crashed."""

    def __init__(self) -> None:
        self._file: TextIO | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Write tracebacks to a file if this is a process of pytest-xdist. Pytest's own plugin writes to stderr."""
        worker: dict[str, str] | None = getattr(session.config, "workerinput", None)
        if worker is not None:
            self._file = traceback_file(worker["testrunuid"], worker["workerid"]).open("w+", encoding="utf-8")
            faulthandler.enable(self._file)

    def pytest_sessionfinish(self) -> None:
        """Delete the file of a process that ends without a crash."""
        if self._file is not None:
            faulthandler.disable()
            self._file.close()
            Path(self._file.name).unlink(missing_ok=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, report: Any) -> None:
        """Add the traceback to the report."""
        worker = report.node.workerinput
        file = traceback_file(worker["testrunuid"], worker["workerid"])
        if file.exists():
            lines = file.read_text(encoding="utf-8").splitlines()
            file.unlink()
            # A crash of a child process may come first.
            last = max((at for at, line in enumerate(lines) if line.startswith("Fatal")), default=0)
            report.longrepr = "\n".join([str(report.longrepr), *lines[last : last + LINES]])


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin, if this module is given to pytest by `-p`."""
    config.pluginmanager.register(Crashes())
