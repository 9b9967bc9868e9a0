"""Imports: no cycles, a light `import atl`, and names that are resolved lazily."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import grimp
import pytest

import atl
from atl.errors import LibraryMissing, NoSuchAttribute
from proofs_tests.architecture.tree import HERE, PACKAGES, lay_out

HEAVY = ("cffi", "egglog", "matplotlib", "prompt_toolkit", "rich", "shtab", "skimage", "sympy", "z3")
"""Modules that `import atl` must not import."""


def cycle_of(packages: Iterable[str]) -> list[str]:
    """Return the modules of an import cycle, or []. Imports in functions and for type checkers count."""
    graph = grimp.build_graph(*packages, cache_dir=None)
    # `atl` imports the other packages for type checkers. Objects print, draw and save themselves.
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
def test_imports_have_no_cycles() -> None:
    assert cycle_of(PACKAGES) == []


@pytest.mark.parametrize("late", ["", "def late():\n    ", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "])
def test_import_cycle_is_found(late: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def imported_with(root: Path, module: str) -> set[str]:
    """Return the modules that a new interpreter imports with this one."""
    program = f"import sys; sys.path.insert(0, {str(root)!r}); import {module}; print(*sys.modules)"
    return {*subprocess.check_output([sys.executable, "-I", "-c", program], text=True).split()}


def test_import_atl_is_light() -> None:
    assert imported_with(HERE, "atl").isdisjoint(HEAVY)


def test_heavy_import_is_found(tmp_path: Path) -> None:
    lay_out(tmp_path, {"z3.py": "", "atl/__init__.py": "from atl import prove", "atl/prove.py": "import z3"})
    assert imported_with(tmp_path, "atl") & {*HEAVY} == {"z3"}


@pytest.mark.parametrize("name", sorted(atl.LAZY))
def test_lazy_name_is_that_of_its_package(name: str) -> None:
    assert getattr(atl, name) is getattr(import_module(atl.LAZY[name]), name)
    assert name in atl.__all__
    assert name in dir(atl)


def test_every_public_name_exists() -> None:
    assert {*atl.LAZY} <= {*atl.__all__} <= {*vars(atl), *atl.LAZY}


def test_importing_atl_loads_no_other_package() -> None:
    assert imported_with(HERE, "atl").isdisjoint(atl.LAZY.values())


@pytest.mark.parametrize(("name", "nearest"), [("sizs", "sizes"), ("csr", "CSR"), ("complie", "compile")])
def test_unknown_name_suggests_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(NoSuchAttribute, match=f"(?s)no attribute '{name}'.*did you mean atl.{nearest}?"):
        getattr(atl, name)


def test_unknown_name_without_a_near_one() -> None:
    with pytest.raises(NoSuchAttribute) as caught:
        _ = atl.qqqqqq  # type: ignore[attr-defined]
    assert caught.value.suggestions == ()
    assert not hasattr(atl, "__wrapped__")
    with pytest.raises(ImportError):
        exec("from atl import qqqqqq")


def test_foreign_package_named_sparse_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("sparse")
    other.__file__ = "/elsewhere/sparse/__init__.py"
    monkeypatch.setitem(sys.modules, "sparse", other)
    monkeypatch.delitem(vars(atl), "CSF", raising=False)
    with pytest.raises(LibraryMissing, match="other than /elsewhere/sparse"):
        _ = atl.CSF
