"""Displays of values in a notebook: text without memory addresses, formulas and pictures."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np
import pytest

import atl
import layouts
import padtypes
import rewrites
import sparse
from examples import systolic
from layouts import Layout, LinearLayout, axe, lego
from layouts.templates import fill
from lowering import Kernel, KernelTime, Samples, Spread, ThreadClock, WallClock, trace
from lowering import compile as kernel_of
from lowering.instructions.registry import instruction_named
from rewrites.rules import RULES
from sparse import BCSR, CSR, HASH, Composed, Permuted, pack

FACADES: Final = "atl rewrites lowering layouts layouts.axe layouts.lego layouts.templates sparse padtypes"
RICH: Final = ("_repr_latex_", "_repr_html_", "_repr_svg_")
ADDRESS: Final = re.compile(r"\bat 0x[0-9a-f]+")
NO_VALUES: Final = "Function Semimodule Level View Clock Size Device DeviceArray Gpu GpuEnvironment Sampler"
"""Names of abstract classes, annotations, and classes that need a GPU."""
RULES_SHOWN: Final = tuple(RULES.values())[::20]


def _programs() -> Iterator[object]:
    n, m = atl.sizes("n m")
    a, x = atl.tensor("A", n, m), atl.tensor("x", n)
    yield from (n, n // 8, n < m, a, a[n, m] + 1, a.shape, x.shape)
    rows = atl.program("rows", [x], atl.truncr(1, atl.padr(1, 2 * x)))
    yield atl.RECIPES[0]
    yield layouts.shards(x=(0, n, 8))
    yield atl.reschedule(rows).schedule()
    yield (mesh := atl.Mesh(x=2))
    yield atl.compile(atl.parse("f (x : float32[2 | device.x]) := ⊞[d < 2 | device.x] 2 * x[d]"), mesh=mesh)
    yield atl.reschedule(rows).compare_errors(rows, np.ones(3, np.float32))
    yield atl.compile(rows).error_bound()
    yield atl.compile(atl.parse("f (x : float32[n, ...]) : float32[n, ...] := ⊞[i < n] 2 * x[i]"))
    yield KernelTime("rows", 1.0, 0.9, 1.1, 7, False)
    several = atl.results(all=x, first=x.sum())
    yield from (rows, rows.shape, rows.type, rows.inputs, rows.body, several, atl.program("two", [x], several))
    pads = padtypes.infer(rows)
    yield from (pads, *pads.values(), *(case for each in pads.values() for case in each.cases))
    yield from padtypes.truncations(rows)
    summed = atl.program("summed", [x], atl.sum(n, lambda i: atl.place(n, i, x[i])))
    yield from (case.witnesses[0] for each in padtypes.infer(summed).values() for case in each.cases if case.witnesses)
    yield padtypes.draw(rows, (0,), sizes={"n": 5})
    for target in ("c", "cuda"):
        kernel = kernel_of(rows, target=target)
        yield from (kernel, kernel.nest if target == "c" else kernel)
    yield from (Samples({"a": [1.0, None]}), Spread(1.0, 0.5, 2.0, 3), ThreadClock(), WallClock())


def _derivations() -> Iterator[object]:
    n, m = atl.sizes("n m")
    a = atl.tensor("A", n, m)
    rows = atl.program("rows", [a], atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j])))
    s = rewrites.reschedule(rows)
    yield from (s, atl.gradient(rows, ["A"]), atl.differentiable(rows))
    s.tile("i", 8).mark("io", "parallel")
    theorem = s.done()
    yield from (s, s.goal, s.steps, s.steps[0], s.diff(), s.explain(0), s.check(), s.find("io"))
    yield from (theorem, theorem.steps[0], rewrites.rules, *RULES_SHOWN, rewrites.Derivation(theorem, RULES))
    told, traced = rewrites.proof_trace(theorem), trace(rows)
    yield from (told, told.calls[0], told.steps[0], traced, traced.loops[0])
    yield CSR.operand(rows.inputs[0], ())
    yield instruction_named("vpdpbusd")
    yield systolic.product().compile(target="systolic")
    yield rewrites.Tuned(rows, {"n": 8}, (), None, None, "exhausted", (), "start", None, "", 0.0, Path("t.json"))


def _layouts() -> Iterator[object]:
    n = atl.sizes("n")
    flat = Layout((4, 8), (8, 1))
    yield from (flat, Layout((n, 8), (8, 1)), Layout((64, 64), (1, 64)), layouts.Swizzle(2, 0, 3))
    yield from (layouts.composition(Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3))), flat.box, layouts.draw(flat))
    yield from (layouts.injective(flat), layouts.injective(Layout(4, 0)), layouts.ask(["(4,8):(8,1)", "as_lego"]))
    yield from (layouts.explain(layouts.composition, flat, Layout(4, 2)), layouts.F2(5), layouts.E(0))
    yield from (layouts.image(flat), layouts.Relation(flat))
    yield layouts.Relation.of("{ [i] -> [i] : 1 <= i < 3 }").layout()
    held = LinearLayout.identity_1d(32, "lane", "place")
    conflicts = layouts.bank_conflicts(layouts.row_major((32, 32)), Layout(32, 1))
    yield from (held, conflicts, layouts.ColumnAction((0, 1), "lane", 2))
    yield layouts.swizzle_for(64, Layout(32, 1), Layout(32, 1))
    yield layouts.IndexFunction((4, 2), lambda i, j: 2 * i + j, name="rows")
    yield layouts.PredicateTensor(layouts.coordinates((4, 2)), (3, 2))
    yield layouts.Segments(3, lambda k: 2 * k, lambda k: 2)
    lane = axe.axis("lane")
    tile = axe.S[(8, 4) : (4 @ lane, 1 @ lane)] + axe.R[2 : 4 @ lane]
    yield from (tile, axe.S[(8, 4) : (4 @ lane, 1 @ lane)], lane, 4 @ lane, axe.group(axe.S[30:1], (6, 5)))
    yield from (axe.S, axe.R, *tile.sharded)
    turned = lego.GenP([3, 2], lambda i, j: (2 - i) * 2 + 1 - j, lambda x: ((5 - x) // 2, (5 - x) % 2))
    order = lego.OrderBy(lego.RegP([2, 2], [2, 1]), turned)
    view = lego.GroupBy([6, 4]).OrderBy(lego.RegP([2, 2], [2, 1]), turned)
    yield from (turned, order, view, lego.RegP([2, 2], [2, 1]), view[1, :])
    yield lego.ExpandBy([5], [6], lego.TileBy([2], [3]).OrderBy(lego.Row(6)))
    yield fill("{{ at }}", "triton", {"at": n})


def _sparse() -> Iterator[object]:
    packed = pack(np.eye(4), CSR)
    yield from (packed, sparse.draw(packed), packed.levels, *packed.levels, pack(np.ones((4, 4, 4)), sparse.CSF))
    formats = [value for value in vars(sparse).values() if isinstance(value, sparse.Format)]
    yield from formats
    for each in formats:
        yield from (each.view, *(() if callable(each.levels) else each.levels))
    yield from (
        Composed(Permuted((1, 0)), sparse.Blocked((1, 4))),
        sparse.Bitmask(),
        sparse.Hashed(4),
        BCSR(2, 8),
        HASH,
    )
    yield sparse.Declarer(atl.tensor, atl.sizes, "int32")
    yield sparse.Dense().encode((4,), 1, np.zeros(2, np.int64), [np.arange(2)], root=True)


@pytest.fixture(scope="module")
def values() -> list[object]:
    return [*_programs(), *_derivations(), *_layouts(), *_sparse(), atl.machine()]


def _shown(value: Any) -> Iterator[tuple[str, str]]:
    yield from (("str", str(value)), ("repr", repr(value)))
    for rich in RICH:
        shown = getattr(value, rich)() if hasattr(type(value), rich) else None
        if shown is not None:
            assert isinstance(shown, str)
            yield rich, shown


@pytest.mark.long
def test_no_display_shows_a_memory_address(values: list[object]) -> None:
    shown = [(type(value).__name__, how, text) for value in values for how, text in _shown(value)]
    assert [(kind, how, text[:80]) for kind, how, text in shown if ADDRESS.search(text)] == []
    assert ADDRESS.search(repr(object()))


def test_every_public_class_has_a_tested_value(values: list[object]) -> None:
    public = {
        (of, name): made
        for of in FACADES.split()
        for name in importlib.import_module(of).__all__
        if isinstance(made := getattr(importlib.import_module(of), name), type) and not issubclass(made, Exception)
    }
    looked_at = {cls for value in values for cls in type(value).__mro__}
    missing = [name for name, made in public.items() if made not in looked_at and name[1] not in NO_VALUES.split()]
    assert missing == []


class _Tags(HTMLParser):
    """A parser that tracks open tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 (HTMLParser calls it so)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)


def _well_formed(how: str, text: str) -> bool:
    match how:
        case "_repr_svg_":
            return ElementTree.fromstring(text).tag.endswith("svg")
        case "_repr_html_":
            tags = _Tags()
            tags.feed(text)
            return not tags.open and not tags.faults
        case "_repr_latex_":
            bare = re.sub(r"\\\\[{}]", "", text)
            ends = text.startswith("$") and text.endswith("$")
            return ends and bare.count("{") == bare.count("}") and text.count(r"\left") == text.count(r"\right")
        case _:
            return True


def test_formulas_pages_and_pictures_are_well_formed(values: list[object]) -> None:
    shown = [(type(value).__name__, how, text) for value in values for how, text in _shown(value)]
    assert [fault for fault in shown if not _well_formed(*fault[1:])] == []
    assert not _well_formed("_repr_html_", "<p><b></p></b>")
    assert not _well_formed("_repr_latex_", r"$\frac{n}{8$")


@pytest.mark.parametrize(
    ("named", "how"),
    [
        ("IndexExpr", "_repr_latex_"), ("Condition", "_repr_latex_"), ("Shape", "_repr_latex_"),
        ("Tensor", "_repr_latex_"), ("Program", "_repr_latex_"), ("PadSet", "_repr_latex_"),
        ("Session", "_repr_html_"), ("Diff", "_repr_html_"), ("Theorem", "_repr_html_"), ("Rule", "_repr_html_"),
        ("Kernel", "_repr_html_"), ("GpuKernel", "_repr_html_"), ("Format", "_repr_html_"), ("Layout", "_repr_svg_"),
        ("LinearLayout", "_repr_svg_"), ("Axe", "_repr_svg_"), ("GroupBy", "_repr_svg_"), ("Picture", "_repr_svg_"),
        ("SparseTensor", "_repr_svg_"),
    ],
)  # fmt: skip
def test_values_have_rich_displays(values: list[object], named: str, how: str) -> None:
    of_this_kind = [value for value in values if type(value).__name__ == named]
    assert any(how in dict(_shown(value)) for value in of_this_kind)


def test_format_not_for_matrices_is_shown_by_its_name() -> None:
    def of_three(dimensions: int) -> tuple[sparse.Level, ...]:
        if dimensions != 3:
            raise ValueError(dimensions)
        return (sparse.Dense(),) * 3

    assert sparse.Format("of three", of_three)._repr_html_() is None
    assert "<td>Dense()</td>" in (sparse.Format("of any", lambda k: (sparse.Dense(),) * k)._repr_html_() or "")


def test_large_values_are_shown_as_text() -> None:
    x = atl.tensor("x", atl.sizes("n"))
    total = x
    for _ in range(200):
        total = total + x
    long = atl.program("long", [x], total)
    assert long._repr_latex_() is None
    assert "atl-formula" not in rewrites.reschedule(long)._repr_html_()
    assert Layout((64, 64), (1, 64))._repr_svg_() is None
    assert Layout((atl.sizes("n"), 8), (8, 1))._repr_svg_() is None


def test_kernel_shows_its_formula_and_code_but_no_path(values: list[object]) -> None:
    kernel = next(value for value in values if type(value) is Kernel)
    shown = kernel._repr_html_()
    assert r"\mathit{rows}" in shown
    assert f"<summary><i>C, {kernel.source.count(chr(10))} lines</i></summary>" in shown
    assert str(kernel.path.parent) not in shown + repr(kernel)


def test_error_shows_only_the_user_lines() -> None:
    x = atl.tensor("x", atl.sizes("n"))
    with pytest.raises(atl.ATLError) as caught:
        kernel_of(atl.program("ahead", [x], atl.gen(x.shape[0], lambda i: x[i + 1])))
    shown = "\n".join(caught.value._render_traceback_())
    assert shown.startswith("Traceback (most recent call last):")
    assert re.findall(r'File "([^"]*)"', shown) == [__file__]
    assert shown.endswith(str(caught.value))


def test_error_with_a_cause_shows_the_cause() -> None:
    def fails() -> None:
        try:
            layouts.Layout((4,), (1, 2))
        except atl.ATLError as error:
            raise atl.ATLError("above") from error

    with pytest.raises(atl.ATLError, match="above") as caught:
        fails()
    shown = "\n".join(caught.value._render_traceback_())
    assert "direct cause" in shown
    assert shown.count(" [ATL") == 2
