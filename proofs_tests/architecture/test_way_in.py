"""Tests of `import atl`: the names that it resolves lazily, and its answer to a name that it does not have."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import atl
from atl.errors import LibraryMissing, NoSuchAttribute


def test_lazy_names_are_those_of_the_imports_for_type_checkers() -> None:
    tree = ast.parse(Path(atl.__file__).read_text(encoding="utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.asname or alias.name: (node.module or "").partition(".")[0]
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == dict(atl.LAZY)


@pytest.mark.parametrize("name", sorted(atl.LAZY))
def test_a_lazy_name_is_that_of_its_package(name: str) -> None:
    assert getattr(atl, name) is getattr(import_module(atl.LAZY[name]), name)
    assert name in atl.__all__
    assert name in dir(atl)


def test_importing_atl_loads_no_other_package() -> None:
    program = "import sys, atl; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not [package for package in set(atl.LAZY.values()) if f"'{package}'" in loaded]


@pytest.mark.parametrize(("name", "nearest"), [("sizs", "sizes"), ("csr", "CSR"), ("complie", "compile")])
def test_an_unknown_name_is_answered_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(NoSuchAttribute, match=f"(?s)no attribute '{name}'.*did you mean atl.{nearest}?"):
        getattr(atl, name)


def test_an_unknown_name_with_no_near_one_gets_no_suggestion() -> None:
    with pytest.raises(NoSuchAttribute) as caught:
        _ = atl.qqqqqq  # type: ignore[attr-defined]
    assert caught.value.suggestions == ()
    assert not hasattr(atl, "__wrapped__")
    with pytest.raises(ImportError):
        exec("from atl import qqqqqq")


def test_another_package_named_sparse_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("sparse")
    other.__file__ = "/elsewhere/sparse/__init__.py"
    monkeypatch.setitem(sys.modules, "sparse", other)
    monkeypatch.delitem(vars(atl), "CSF", raising=False)
    with pytest.raises(LibraryMissing, match="other than /elsewhere/sparse"):
        _ = atl.CSF
