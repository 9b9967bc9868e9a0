"""Filling templates: refusals and printed forms."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import atl
from atl.errors import ATLError
from layouts import E, Layout, LinearLayout, Swizzle
from layouts.axe import S
from layouts.errors import TemplateError
from layouts.lego import CoverBy, GroupBy, TileInto
from layouts.templates import fill, part_of

for needed in ("jinja2", "sympy"):
    pytest.importorskip(needed, reason=f"{needed}, which templates need: pip install 'atl-tensor[layouts]'")

n, i, j = atl.sizes("n i j")
TILE = GroupBy([n, 4])[:, :]


@pytest.mark.parametrize(
    ("template", "values", "message"),
    [
        ("{{ x }}", {}, "'x' is undefined"),
        ("{{ x", {"x": i}, "line 1"),
        ("{{ x('a') }}", {"x": i}, "a name for each of 0 variables"),
        ("{{ x('a') }}", {"x": TILE}, "a name for each of 2 variables"),
        ("{{ x(1, 2) }}", {"x": TILE}, "a name for each of 2 variables"),
        ("{{ x }}", {"x": 1.5}, "the value of x is 1.5"),
        ("{{ x }}", {"x": True}, "the value of x is True"),
        ("{{ x.inside }}", {"x": i}, "inside is applied to a value that is not a slice"),
        ("{{ define() }}", {"x": i}, "define is applied to a value that is not a placeholder"),
        ("{{ define(3) }}", {"x": i}, "define is applied to a value that is not a placeholder"),
        ("{{ define(x) }}", {"x": i < n}, "the condition"),
        ("{{ define(x('a', 'b'), x('b', 'a')) }}", {"x": TILE}, "a variable has two different names"),
        ("{{ x.__class__ }}", {"x": i}, "unsafe"),
        ("{{ x._writer }}", {"x": i}, "unsafe"),
        ("{% for k in range(10 ** 9) %}{% endfor %}", {"x": i}, "Range too big"),
        ("{{ 1 // 0 }}", {"x": i}, "the template fails"),
        ("{% include 'other' %}", {}, "no loader"),
    ],
)
def test_unfillable_templates_are_refused(template: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        fill(template, "c", values)
    assert message in str(caught.value)


CALLS: tuple[Callable[[], object], ...] = (
    lambda: fill(3, "c", {}),  # type: ignore[arg-type]
    lambda: fill("", "fortran", {}),  # type: ignore[arg-type]
    lambda: fill("", "c", [("x", i)]),  # type: ignore[arg-type]
    lambda: fill("", "c", {"a b": i}),
    lambda: fill("", "c", {"define": i}),
    lambda: fill("", "c", {}, given=[3]),
    lambda: TileInto([n], [4, 4]),
    lambda: TileInto([10], [4]),
    lambda: TileInto([10]),
    lambda: CoverBy([n], [0]),
    lambda: CoverBy([10, 10], [4]),
    lambda: part_of(Layout((2, 2), (E(0), E(1))), 0, slice(None)),
    lambda: part_of(3, 1),  # type: ignore[arg-type]
    lambda: part_of(Layout(4, 1), slice(0, 2)),
    lambda: part_of(S[(2, 4) : (4, 1)], i, i, i),
    lambda: CoverBy([10], [4])[0, 1:2],
    lambda: CoverBy([10], [4])[0],
)


def test_malformed_arguments_raise_atl_errors() -> None:
    for call in CALLS:
        with pytest.raises(ATLError):
            call()


def test_mlir_operations_are_on_separate_lines() -> None:
    with pytest.raises(TemplateError, match="3 operations in MLIR"):
        fill("%y = memref.load %x[{{ at }}] : memref<?xf32>", "mlir", {"at": 4 * i + j})
    assert fill("{{ i }} {{ k }}", "mlir", {"i": i, "k": 7}).text == "%i 7"
    with pytest.raises(TemplateError, match="conditions in MLIR are operations"):
        fill("{{ inside }}", "mlir", {"inside": i < n})


def test_conditions_are_printed_in_each_language() -> None:
    both = (i < n) & (j < 4)
    assert fill("{{ x }}", "c", {"x": both}).text == "((i < n) && (j <= 3))"
    assert fill("{{ x }}", "triton", {"x": both}).text == "((i < n) & (j <= 3))"
    assert fill("{{ x.inside }}", "cuda", {"x": TILE}).text == "1"


def test_definitions_print_as_unique_names() -> None:
    a, b = 4 * i + j, 4 * i + 1
    text = fill("int t0;\n{{ define(a, b) }}\nx[{{ a }}] + y[{{ b }}]", "c", {"a": a, "b": b}).text
    assert text.splitlines()[1:] == [
        "const int64_t at0 = 4*i;",
        "const int64_t at1 = at0 + j;",
        "const int64_t at2 = at0 + 1;",
        "x[at1] + y[at2]",
    ]


@pytest.mark.parametrize(
    ("layout", "wanted"),
    [(Layout((4, 8), (8, 1)), "8*i + y"), (LinearLayout.from_bases([("r", [1]), ("t", [2, 4])], ["i"]), None)],
    ids=["strides", "linear"],
)
def test_every_family_of_memory_fills_a_template(layout: Any, wanted: str | None) -> None:
    text = fill("{{ x('y') }}", "c", {"x": part_of(layout, i, slice(None))}).text
    assert wanted is None or text == wanted
    for row in range(2):
        for y in range(4):
            assert eval(text.replace("/", "//"), {"i": row, "y": y}) == layout(row, y)


def test_a_swizzle_is_printed_by_its_exclusive_or() -> None:
    down = Swizzle(2, 1, -2)
    assert part_of(down, slice(None)).table().tolist() == down.table().tolist()
    text = fill("{{ x }}", "cuda", {"x": part_of(Swizzle(2, 0, 3), i)}).text
    assert [eval(text.replace("/", "//"), {"i": at}) for at in range(32)] == Swizzle(2, 0, 3).table().tolist()


@pytest.mark.long
def test_layouts_import_without_template_dependencies() -> None:
    code = "import sys, layouts.templates; print([m for m in ('sympy', 'jinja2', 'islpy') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
