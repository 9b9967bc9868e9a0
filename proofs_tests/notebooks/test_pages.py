"""Notebooks as pages of the documentation site, with formulas as MathML."""

from __future__ import annotations

import html
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

import atl
from atl.text.latex import latex
from proofs_tests.notebooks.stored import FOLDER, paths
from rewrites.rules import RULES

SITE = FOLDER.parent / "site"


@pytest.fixture(scope="module")
def site() -> Iterator[dict[str, ModuleType]]:
    """Load the modules of the site's generator, which import each other as neighbours."""
    sys.path.insert(0, str(SITE))
    try:
        yield {name: _loaded(SITE / f"{name}.py") for name in ("formulas", "notebooks")}
    finally:
        sys.path.remove(str(SITE))


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(mathml: str) -> str:
    """Return the readable text of a formula."""
    return "".join(ElementTree.fromstring(mathml).itertext())


def test_formula_is_converted_symbol_by_symbol(site: dict[str, ModuleType]) -> None:
    n, m = atl.sizes("n m")
    x = atl.tensor("x_1", n, m)
    rows = atl.gen(n, lambda i: atl.sum(m, lambda j: atl.select(i < j, x[i, j] / 2, atl.sqrt(-x[i, j]))))
    made = site["formulas"].mathml(latex(atl.program("rows", [x], rows)))
    assert text_of(made) == ("rows(x1:float32[n,m]):float32[n]:=⊞i<n∑j<m({x1[i,j]2i<j−x1[i,j]otherwise)")
    assert "<munder><mo>⊞</mo>" in made
    assert "<mfrac>" in made
    assert "<msqrt>" in made


def test_unknown_latex_is_refused(site: dict[str, ModuleType]) -> None:
    for wrong in (r"$\wrong$", "$_2$", r"$\frac{n}$", r"$\left(n$", "$}$"):
        with pytest.raises(site["formulas"].NoFormula):
            site["formulas"].mathml(wrong)


def test_every_tenth_rule_converts_to_mathml(site: dict[str, ModuleType]) -> None:
    for rule in list(RULES.values())[::10]:
        (found,) = re.findall(r'<div class="atl-formula">(.*?)</div>', rule._repr_html_(), re.DOTALL)
        ElementTree.fromstring(site["formulas"].mathml(html.unescape(found)))


def test_page_has_every_cell_and_its_outputs(site: dict[str, ModuleType]) -> None:
    for path in paths():
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        page = site["notebooks"].page_of(cells, path.name)
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert page.count("```python\n") == len(code)
        assert page.count('<div class="atl-shown">') == sum(1 for cell in code if cell["outputs"])
        assert r"\mathop" not in page
        assert ".ipynb)" not in page.replace(f"({path.name})", "")
        for shown in re.findall(r"<math.*?</math>", page, re.DOTALL):
            ElementTree.fromstring(shown)


def test_links_of_a_page_stay_in_the_site(site: dict[str, ModuleType]) -> None:
    sources = "[a](tiled-blur.ipynb) [b](../../examples/fast.py) [c](../padding.md) [d](https://a.org/b.ipynb)"
    page = site["notebooks"].page_of([{"cell_type": "markdown", "source": [sources]}], "x.ipynb")
    assert "[a](tiled-blur.md) [b](../project/examples/fast.py.txt) [c](../padding.md)" in page
    assert "[d](https://a.org/b.ipynb)" in page
