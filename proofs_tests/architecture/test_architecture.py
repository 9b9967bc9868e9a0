"""Tests of the repository itself: cycles among imports, and the weight of `import atl`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from proofs_tests.architecture.tree import HERE, PACKAGES, lay_out

HEAVY = ("cffi", "egglog", "matplotlib", "prompt_toolkit", "rich", "shtab", "skimage", "sympy", "z3")
"""Modules that `import atl` must not import."""


def cycle_of(packages: Iterable[str]) -> list[str]:
    """Return the modules of a cycle of imports, those within functions and for type checkers included; or nothing."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    # `atl` names the other packages for type checkers; objects print, draw and save themselves.
    lazy = {
        "atl",
        "atl.core.node",
        "layouts.foundation.function",
        "rewrites.outputs",
        "rewrites.rule",
        "sparse.tensors",
    }
    used = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules if name not in lazy}
    try:
        TopologicalSorter(used).prepare()
    except CycleError as error:
        return [*error.args[1]]
    return []


@pytest.mark.long
def test_no_module_imports_itself_by_way_of_others() -> None:
    assert cycle_of(PACKAGES) == []


@pytest.mark.parametrize("late", ["", "def late():\n    ", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "])
def test_a_cycle_of_imports_is_found(late: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = f"planted_{len(late)}"
    lay_out(
        tmp_path,
        {
            f"{package}/__init__.py": "",
            f"{package}/a.py": f"from {package}.b import g",
            f"{package}/b.py": f"{late}from {package} import a",
            f"{package}/c.py": f"import {package}.a",
        },
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {*cycle_of([package])} == {f"{package}.a", f"{package}.b"}


def heavy_imports(root: Path, module: str) -> list[str]:
    """Return the heavy modules that a fresh interpreter has imported after importing only this module."""
    program = f"import sys; sys.path.insert(0, {str(root)!r}); import {module}; print(*sys.modules)"
    command = [sys.executable, "-I", "-c", program]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in HEAVY if name in imported]


def test_importing_atl_imports_nothing_heavy() -> None:
    assert heavy_imports(HERE, "atl") == []


def test_a_heavy_import_is_found(tmp_path: Path) -> None:
    lay_out(tmp_path, {"z3.py": "", "atl/__init__.py": "from atl import prove", "atl/prove.py": "import z3"})
    assert heavy_imports(tmp_path, "atl") == ["z3"]
