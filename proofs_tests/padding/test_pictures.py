"""Drawings of pad-sets (panels, titles, empty and large tensors), and pad-sets printed as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import atl
import padtypes
from atl.core.index import Leaf, Size
from atl.core.predicate import TRUE
from atl.core.terms import Padding
from atl.errors import ArgumentError, InvalidArgument
from padtypes import PadSetDrawing, draw, draw_pad_set, truncations

n, m = atl.sizes("n m")
k = atl.sizes("k", min=1)
x, X = atl.tensor("x", n), atl.tensor("X", n, m)

CUBE = atl.program("cube", [X], atl.truncr(1, atl.padr(1, atl.gen(n, 2, m, lambda a, b, c: atl.guard(c < n, X[a, c])))))
LOSING = atl.program("losing", [X], atl.truncl(1, atl.gen(2, n, m, lambda a, b, c: atl.guard(a <= c, X[b, c]))))
SVG = Path(__file__).with_name("pictures.svg.txt")


def at(**sizes: int) -> Any:
    def leaf(of: Leaf) -> int:
        assert isinstance(of, Size)
        return sizes[of.name]

    return leaf


def losing() -> PadSetDrawing:
    truncation = next(truncations(LOSING))
    title = "what is <lost>, under a title that is longer than the picture"
    return draw_pad_set(truncation.operand, at(n=1, m=2), cut=truncation.cut, title=title)


def test_higher_dimensions_are_drawn_as_panels() -> None:
    panels = ["[0, …]", "#.", "#.", "[1, …]", "xx", "xx"]
    assert str(draw(CUBE, sizes={"n": 1, "m": 2})).split("\n") == [*panels, "# computed   . padding   x cut, padding"]
    assert draw(CUBE, sizes={"n": 1, "m": 2}).shape == (2, 2, 2)
    title = "what is <lost>, under a title that is longer than the picture"
    lost = [title, "[0, …]", "!!", "[1, …]", ".#", "# computed   . padding   ! cut, computed: lost"]
    assert str(losing()).split("\n") == lost


def test_scalars_and_empty_tensors_are_drawn() -> None:
    total = atl.program("total", [x], atl.sum(n, lambda i: x[i]))
    assert str(draw(total, sizes={"n": 2})) == "#\n# computed"
    assert str(draw(total, sizes={"n": 0})) == ".\n. padding"
    for sizes, rows in (({"n": 0, "m": 2}, ["(empty)"]), ({"n": 2, "m": 0}, ["(empty)", "(empty)"])):
        assert str(draw(atl.program("same", [X], X), sizes=sizes)).split("\n") == rows


def drawings() -> str:
    """Return SVG drawings of all kinds: panels, a title, lost elements, empty, wide, several cell sizes."""
    rows = atl.program("rows", [x], atl.split(4, x))
    wide = atl.program("wide", [x], atl.padr(3, x))
    made = [losing().svg(), draw(CUBE, sizes={"n": 2, "m": 1}).svg(cell=7), draw(rows, sizes={"n": 6}).svg(cell=40)]
    made += [draw(wide, sizes={"n": size}).svg(cell=20) for size in (0, 9)]
    made += [draw(atl.program("same", [X], X), sizes={"n": 0, "m": 2}).svg()]
    return "\n".join(made)


def test_svg_matches_the_golden_file() -> None:
    assert drawings() == SVG.read_text(encoding="utf-8")


def test_notebook_display_is_svg() -> None:
    picture = losing()
    assert picture._repr_svg_() == picture.svg() == picture.svg(cell=18)
    assert repr(picture) == str(picture)


@pytest.mark.parametrize("cell", [0, -1, 10_001, 2.0, True, "18"])
def test_invalid_cell_sizes_are_refused(cell: Any) -> None:
    with pytest.raises(ArgumentError, match="the side of an element in pixels, from 1 to 10,000"):
        losing().svg(cell=cell)


def test_extreme_cell_sizes() -> None:
    sides = {1: 1, 2: 1, 3: 1, 4: 2, 10_000: 9_998}
    for cell, side in sides.items():
        assert losing().svg(cell=cell).count(f'width="{side}" height="{side}"') == 4, cell


def test_large_drawings_are_refused() -> None:
    rows = atl.program("rows", [X], X)
    assert len(draw(rows, sizes={"n": 64, "m": 64}).cells) == 4096
    with pytest.raises(ArgumentError, match="a drawing of 4097 elements would be too large") as caught:
        draw(rows, sizes={"n": 1, "m": 4097})
    assert caught.value.suggestions == ("draw smaller sizes",)


def test_enclosing_indices_are_given_by_name() -> None:
    rows = atl.program("rows", [X], atl.gen(n, lambda i: atl.gen(m, lambda j: atl.guard(j < i, X[i, j]))))
    seen = [str(draw(rows, (0,), sizes={"n": 3, "m": 3}, indices=at)).split("\n")[0] for at in (None, {}, {"i": 2})]
    assert seen == ["...", "...", "##."]
    assert str(draw(rows, [0], sizes={"n": 3, "m": 3})) == str(draw(rows, (0,), sizes={"n": 3, "m": 3}))  # type: ignore[arg-type]


def test_cut_elements_may_depend_on_enclosing_indices() -> None:
    """Row i is padded by i elements and truncated again; one row is drawn."""
    rows = atl.gen(n, lambda i: atl.truncr(i, atl.padr(i, atl.gen(m, lambda j: X[i, j]))))
    program = atl.program("rows", [X], rows)
    assert str(draw(program, (0,), sizes={"n": 4, "m": 2}, indices={"i": 3})).split("\n")[0] == "##xxx"
    assert str(draw(program, (0,), sizes={"n": 4, "m": 2})).split("\n")[0] == "##"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sizes": {"n": -1}}, "sizes="),
        ({"sizes": {"n": True}}, "sizes="),
        ({"sizes": [("n", 1)]}, "sizes="),
        ({"sizes": {}}, "the size n has no value"),
        ({"sizes": {"n": 1}, "indices": {"i": -1}}, "indices="),
        ({"sizes": {"n": 1}, "indices": "i"}, "indices="),
        ({"sizes": {"n": 1}, "path": 0}, "no sub-expression at 0"),
        ({"sizes": {"n": 1}, "path": (0,)}, r"no sub-expression at \(0,\)"),
    ],
)
def test_invalid_sizes_and_indices_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        draw(atl.program("same", [x], x), **given)
    assert str(draw(atl.program("same", [x], x), sizes={"n": 0})) == "(empty)"


def test_draw_needs_a_program() -> None:
    with pytest.raises(InvalidArgument, match="not a program"):
        draw(x, sizes={"n": 1})  # type: ignore[arg-type]


def test_draw_pad_set_checks_its_arguments() -> None:
    padset = padtypes.infer(atl.program("same", [x], x))[()]
    for wrong in ((x, at(n=1)), (padset, {"n": 1})):
        with pytest.raises(ArgumentError, match="draw_pad_set"):
            draw_pad_set(*wrong)


def padding(body: atl.Tensor, given: list[Any] | None = None) -> padtypes.PadSet:
    return padtypes.infer(atl.program("p", [x, X], body, given=given or []))[()]


def test_pad_sets_print_as_conditions() -> None:
    found = {
        "no element is padding": padding(x),
        "padding where n <= e0": padding(atl.padr(2, x)),
        "every element is padding": padding(atl.gen(n, lambda i: atl.guard(atl.sizes("z") < 0, x[i]))),
        "padding where n <= 2": padding(atl.gen(n, lambda i: atl.sum((2, n), lambda j: x[j]))),
        "padding where (e0 < j for all 0 <= j < m)": padding(
            atl.gen(n, lambda i: atl.sum(m, lambda j: atl.guard(j <= i, X[i, j])))
        ),
        "padding where (n <= e0) and (e0 < n ∨ e0 < j + n for all 0 <= j < m)": padding(
            atl.concat(x, atl.gen(n, lambda i: atl.sum(m, lambda j: atl.guard(j <= i, X[i, j]))))
        ),
    }
    assert {str(padset): repr(padset) for padset in found.values()} == {text: text for text in found}


def test_term_that_stores_nothing_is_all_padding() -> None:
    nothing = padding(atl.gen(n, lambda i: atl.guard(n + 1 < n, x[i])))
    node = padtypes.infer(atl.Program("p", (), Padding(x.node.type)))[()]
    for padset in (nothing, node):
        assert padset.cases == ()
        assert str(padset) == "every element is padding"
        assert padset.predicate == padset.simplified == TRUE
        assert padset._repr_latex_() is None
        assert padset.contains((0,), at(n=1))


def test_notebook_display_is_a_formula_or_absent() -> None:
    shown = padding(atl.padr(2, x))._repr_latex_()
    assert shown is not None
    assert shown.startswith("$\\text{padding where } ")
    assert shown.count("$") == 2
    guarded = atl.gen(n, lambda i: atl.guard(n < 0, x[i]))
    for none in (
        padding(x),
        padding(guarded),
        padding(atl.sum(m, lambda j: atl.gen(n, lambda i: atl.guard(i <= j, x[i])))),
    ):
        assert none._repr_latex_() is None


def test_simplified_omits_facts_of_the_scope() -> None:
    padset = padding(atl.gen(n, lambda i: atl.guard(n < 3, x[i])), given=[n < 3])
    assert padset.simplified is not None
    assert str(padset) == "no element is padding"
    assert padset.predicate is not None


def test_contains_checks_its_arguments() -> None:
    padset = padding(atl.padr(2, x))
    assert [padset.contains((position,), at(n=3)) for position in range(5)] == [False, False, False, True, True]
    for wrong in (3, (3, 0), (), (True,), (1.0,)):
        with pytest.raises(ArgumentError, match="a tuple of 1 integers"):
            padset.contains(wrong, at(n=3))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a function from sizes and indices to integers"):
        padset.contains((3,), {"n": 3})  # type: ignore[arg-type]


def test_pad_set_needs_a_term_and_a_scope() -> None:
    from padtypes.padset import pad_set

    padset = padding(x)
    assert pad_set(x.node, padset.scope).cases == padset.cases
    for wrong in ((x, padset.scope), (x.node, TRUE)):
        with pytest.raises(ArgumentError, match=r"padtypes\.infer returns the pad-sets of a program"):
            pad_set(*wrong)


def test_cases_record_the_path_of_their_leaf() -> None:
    body = atl.concat(
        atl.gen(n, lambda i: atl.guard(i < 2, atl.sum(n, lambda j: x[j]))),
        atl.let(x, lambda y: atl.padr(1, atl.gen(n, lambda i: atl.reduce("max", n, lambda j: y[j] * 2)))),
    )
    leaves = [case.leaf for case in padding(body).cases]
    assert leaves == [(0, 0, 0, 0), (1, 1, 0, 0)]
