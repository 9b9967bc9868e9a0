"""A rule of the repository: no module imports itself by way of others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from proofs_tests.house.test_house import HERE, Imported, Module, dependencies, lay_out, modules


def circle_faults(root: Path) -> list[str]:
    """Circles among the imports, lazy ones and those for types alone included: the shortest through each module."""
    tree = {module.name: module for module in modules(root)}
    uses = {name: {found for imported in dependencies(module) if (found := _imported_module(imported, tree))}
            for name, module in tree.items()}  # fmt: skip
    faults: list[str] = []
    told: set[str] = set()
    for name, module in tree.items():
        if name not in told and (circle := _shortest_circle(uses, name)):
            told.update(circle)
            faults.append(f"{module.at(1)} imports itself: {' -> '.join(circle)}")
    return faults


def _imported_module(imported: Imported, tree: Mapping[str, Module]) -> str | None:
    """The module of ours that is imported: a package stands for what its `__init__.py` says."""
    return next((name for name in (f"{imported.base}.{imported.name}", imported.base) if name in tree), None)


def _shortest_circle(uses: Mapping[str, set[str]], start: str) -> list[str]:
    """The modules from one back to itself, or none."""
    paths = [[start]]
    seen: set[str] = set()
    for path in paths:
        for used in sorted(uses[path[-1]]):
            if used == start:
                return [*path, start]
            if used not in seen:
                seen.add(used)
                paths.append([*path, used])
    return []


@pytest.mark.long
def test_no_module_imports_itself_by_way_of_others() -> None:
    assert circle_faults(HERE) == []


@pytest.mark.parametrize(
    "back",
    [
        "from atl.core import a",
        "import atl.core.a",
        "from .a import f",
        "def late():\n    from atl.core.a import f",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from atl.core.a import f",
        "import importlib\nimportlib.import_module('atl.core.a')",
    ],
    ids=["plain", "a module", "relative", "within a function", "for types alone", "by its name"],
)
def test_a_circle_of_imports_is_found(back: str, tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        {
            "atl/core/a.py": "from atl.core.b import g",
            "atl/core/b.py": "from atl.core import c",
            "atl/core/c.py": back,
            "atl/core/d.py": "from atl.core.a import f\nfrom atl.core import d1",
            "atl/core/d1.py": "",
        },
    )
    assert circle_faults(tmp_path) == [
        "atl/core/a.py:1 imports itself: atl.core.a -> atl.core.b -> atl.core.c -> atl.core.a"
    ]


def test_a_module_that_imports_its_own_package_is_found(tmp_path: Path) -> None:
    lay_out(tmp_path, {"atl/__init__.py": "from atl.a import f", "atl/a.py": "import atl"})
    assert circle_faults(tmp_path) == ["atl/__init__.py:1 imports itself: atl -> atl.a -> atl"]
