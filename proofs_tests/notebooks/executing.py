"""Execution of notebooks: fast in this process, or by a Jupyter kernel as for a reader."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import nbformat
from IPython.core.displayhook import CapturingDisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from traitlets.config import Config

from proofs_tests.notebooks.stored import FOLDER, Cell, Shown, cells_of, differences, shown

LONGEST: Final = 600
"""Timeout of a cell in seconds."""


@contextmanager
def _shell() -> Iterator[InteractiveShell]:
    """Return a shell like a kernel's, without a history; restore the state of this process afterwards."""
    hooks = sys.displayhook, sys.excepthook
    before, environment = Path.cwd(), dict(os.environ)
    os.chdir(FOLDER)
    InteractiveShell.clear_instance()
    try:
        yield InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    finally:
        InteractiveShell.clear_instance()
        sys.displayhook, sys.excepthook = hooks
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)


def compared(path: Path) -> list[str]:
    """Execute a notebook in this process; return the differences from its stored outputs."""
    found: list[str] = []
    with _shell() as shell:
        for cell in cells_of(path):
            found += differences(cell, _run(shell, cell))
    return found


def _run(shell: InteractiveShell, cell: Cell) -> Shown:
    results: list[dict[str, Any]] = []
    shell.display_trap.hook = CapturingDisplayHook(shell, results)
    with capture_output() as caught:
        result = shell.run_cell(cell.source, store_history=True)
    if result.error_before_exec is not None:
        raise result.error_before_exec
    outputs: list[dict[str, Any]] = []
    if caught.stdout and result.error_in_exec is None:
        outputs.append({"output_type": "stream", "name": "stdout", "text": caught.stdout})
    outputs += [{"output_type": "execute_result", "data": each["data"]} for each in results]
    if result.error_in_exec is not None:
        outputs.append({"output_type": "error", "traceback": caught.stdout.rstrip("\n").split("\n")})
    return shown(outputs)


def executed(path: Path) -> nbformat.NotebookNode:
    """Return the notebook with its outputs in a Jupyter kernel."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as sockets:
        # Sockets in the file system: no port that others on the machine could reach.
        manager = {"transport": "ipc", "ip": str(Path(sockets) / "kernel")}
        client = NotebookClient(
            notebook,
            timeout=LONGEST,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": FOLDER}},
            config=Config({"KernelManager": manager}),
        )
        return client.execute(env={**os.environ, "PYTHONPATH": str(FOLDER.parents[1])})


def write(path: Path) -> None:
    """Execute a notebook and store its outputs."""
    notebook = executed(path)
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    nbformat.write(notebook, path)
