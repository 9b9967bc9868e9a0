"""A rule of the repository: within the language, too, arrows only run down."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs_tests.house.test_house import HERE, dependencies, lay_out, modules

STOREYS: dict[str, frozenset[str]] = {
    "core": frozenset(),
    "text": frozenset({"core"}),
    "prove": frozenset({"core"}),
    "checks": frozenset({"core", "text", "prove"}),
    "surface": frozenset({"core", "text", "prove", "checks"}),
    "parsing": frozenset({"core", "text", "prove", "checks"}),
    "meaning": frozenset({"core", "text", "prove", "checks", "surface"}),
    "files": frozenset({"core", "text"}),
}
"""Each sub-room of `atl`, with those that it may use; errors are for all of them."""


def storey_faults(root: Path) -> list[str]:
    """Imports of a sub-room of the language that run up."""
    return [
        f"{module.at(imported.line)} {here} may not use {there}"
        for module in modules(root)
        if module.room == "atl" and (here := _storey(module.name)) in STOREYS
        for imported in dependencies(module)
        if imported.room == "atl"
        and (there := _storey(f"{imported.base}.{imported.name}")) not in (here, "errors", *STOREYS[here])
    ]


def _storey(name: str) -> str:
    return name.split(".")[1] if "." in name else name


@pytest.mark.long
def test_arrows_run_down_within_the_language() -> None:
    assert storey_faults(HERE) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("atl/core/a.py", "from atl.text.printing import show"),
        ("atl/text/a.py", "def f():\n    from atl.checks import scope"),
        ("atl/surface/a.py", "import atl.parsing.parse"),
        ("atl/core/a.py", "from atl import gen"),
    ],
)
def test_an_arrow_that_runs_up_within_the_language_is_found(path: str, text: str, tmp_path: Path) -> None:
    lay_out(tmp_path, {path: text})
    (found,) = storey_faults(tmp_path)
    assert "may not use" in found
