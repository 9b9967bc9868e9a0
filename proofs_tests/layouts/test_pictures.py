"""Pictures, parsing, explanations and the command line."""

from __future__ import annotations

from functools import wraps
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest

import layouts
from atl import sizes
from atl.cli import main as command_line
from atl.cli.command import REFUSED
from atl.errors import ArgumentError, InvalidArgument, ParseError
from layouts.axe import Axe, R, S, axis, locations
from layouts.foundation.semimodule import Coordinate
from layouts.lego import GroupBy, RegP, Row, TileBy

N = sizes("N")


def test_pictures_show_the_location_of_each_coordinate() -> None:
    text = str(layouts.draw(layouts.Layout((3, 4), (4, 1)))).splitlines()
    assert text[0] == "(3,4):(4,1)"
    cells = [[int(cell) for cell in line.split("|")[1].split()] for line in text[3:]]
    assert cells == [[4 * i + j for j in range(4)] for i in range(3)]


def test_modes_after_the_first_run_to_the_right() -> None:
    layout = layouts.Layout((2, (2, 3)), (1, (6, 2)))
    cells = layouts.draw(layout).cells
    assert cells == tuple(tuple(str(layout(i, j)) for j in range(6)) for i in range(2))
    assert layouts.draw(layouts.Layout(5, 2)).cells == (("0", "2", "4", "6", "8"),)
    assert layouts.draw(layouts.coordinates((2, 2))).cells == (("(0,0)", "(0,1)"), ("(1,0)", "(1,1)"))


@pytest.mark.parametrize(
    "layout",
    [GroupBy([6, 4]).OrderBy(RegP([6, 4], [2, 1])), TileBy([2, 2], [2, 3]).OrderBy(Row(4, 6)), S[(3, 5) : (5, 1)]],
)
def test_row_major_layouts_are_drawn_by_coordinate(layout: GroupBy | Axe) -> None:
    rows, *rest = layout.box.extents
    cells = layouts.draw(layout).cells
    assert len(cells) == rows
    for row, written in enumerate(cells):
        places = [layout.at((row, *at)) for at in product(*(range(int(str(extent))) for extent in rest))]
        assert list(written) == [f"({place[0]})" if isinstance(place, Coordinate) else str(place) for place in places]


def test_row_major_functions_are_drawn_by_coordinate() -> None:
    shares = S[(4, 3) : (4 @ axis("lane"), 1 @ axis("warp"))]
    turned = GroupBy([2, 3]).OrderBy(RegP([2, 3], [2, 1]))
    assert layouts.draw(shares).cells == tuple(tuple(f"L{4 * i}W{j}" for j in range(3)) for i in range(4))
    assert layouts.draw(turned).cells == tuple(tuple(str(turned.apply(i, j)) for j in range(3)) for i in range(2))


def test_all_locations_of_an_element_are_drawn() -> None:
    held = S[(2, 4) : (4 @ axis("lane"), 1 @ axis("lane"))] + R[2 : 4 @ axis("warp")] + 5 @ axis("warp")
    picture = layouts.draw(held, colour=lambda place: place[0])
    for index, (cell, colour) in enumerate(zip(sum(picture.cells, ()), sum(picture.colours, ()), strict=True)):
        found = [(place[axis("lane")], place[axis("warp")]) for place in locations(held, index)]
        assert cell == ",".join(f"L{lane}W{warp}" for lane, warp in found)
        assert colour == found[0][0]
    assert picture.legend == "L = lane, W = warp"
    assert layouts.draw(S[2:1] + R[3:2]).cells == (("0,2,4", "1,3,5"),)
    assert layouts.draw(layouts.as_axe(layouts.coordinates((2, 3)))).cells[1] == ("(1,0)", "(1,1)", "(1,2)")
    assert str(layouts.draw(held)).partition("\n")[2] in layouts.describe(held)
    assert "|" not in layouts.describe(S[8:1] + R[200:8])
    with pytest.raises(layouts.CannotTabulate, match="5000 locations for each of 4"):
        layouts.draw(S[4:1] + R[5000:1])


def test_svg_cells_are_coloured_by_location() -> None:
    picture = layouts.draw(layouts.composition(layouts.Swizzle(2, 0, 2), layouts.Layout((4, 4), (4, 1))))
    document = ElementTree.fromstring(picture.svg())
    shapes = [node for node in document.iter() if node.tag.endswith("rect")][1:]
    texts = [node.text for node in document.iter() if node.tag.endswith("text")]
    assert len(shapes) == 16
    assert sorted(int(text) for text in texts[-16 - 4 :] if text and text.isdigit()) != []
    colours: dict[int, set[str]] = {}
    for shape, row in zip(shapes, [cell for cells in picture.cells for cell in cells], strict=True):
        colours.setdefault(int(row) % 8, set()).add(shape.attrib["fill"])
    assert all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == 8
    assert picture._repr_svg_() == picture.svg()


def test_thread_value_layout_is_drawn_on_its_tile() -> None:
    """The accumulator of the tensor core's 16 × 8 product, by thread and value."""
    held = layouts.Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    picture = layouts.draw(held, onto=(16, 8))
    assert picture.cells[0][:4] == ("T0V0", "T0V1", "T1V0", "T1V1")
    assert picture.cells[9][6:] == ("T7V2", "T7V3")
    assert len({cell for row in picture.cells for cell in row}) == 128
    by_thread = picture.colours
    assert by_thread[0][0] == by_thread[0][1] == by_thread[8][0] == 0
    assert layouts.draw(held, onto=(16, 8), colour="value").colours[8][1] == 3


def test_undrawable_layouts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(layouts.CannotTabulate, match="its size is symbolic"):
        layouts.draw(layouts.Layout((4, N)))
    with pytest.raises(layouts.CannotTabulate):
        layouts.draw(layouts.Layout((100, 100)))
    with pytest.raises(InvalidArgument, match="colour="):
        layouts.draw(layouts.Layout(4), colour="red")
    with pytest.raises(InvalidArgument, match="a layout of two modes"):
        layouts.draw(layouts.Layout(4), onto=(2, 2))
    with pytest.raises(InvalidArgument, match="has the location 4"):
        layouts.draw(layouts.Layout((2, 2), (4, 1)), onto=(2, 2))
    with pytest.raises(ArgumentError):
        layouts.draw(layouts.Layout(4)).svg(cell=0)
    with pytest.raises(InvalidArgument, match="cannot be written"):
        layouts.draw(layouts.Layout(4)).save(tmp_path / "no" / "such.svg")
    layouts.draw(layouts.Layout(4)).save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    "layout",
    [
        layouts.Layout(8),
        layouts.Layout((4, (2, 3)), (1, (12, 4))),
        layouts.Layout((4, N), (N, 1)),
        layouts.Layout((4, N), (2 * N + 1, 1)),
        layouts.Layout((2, 2), (-1, 4), offset=1),
        layouts.Layout((2, 2), (3 * layouts.E(1), layouts.E(0))),
        layouts.Layout((4, 4), (layouts.F2(5), layouts.F2(1))),
        layouts.Layout((2, N), (layouts.E(1) * (2 * N), layouts.E(0))),
    ],
    ids=str,
)
def test_printed_layouts_parse(layout: layouts.Layout) -> None:
    assert layouts.read_layout(str(layout)) == layout


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "4:",
        "(4,8",
        "4:x.y",
        "4:f(3)",
        "4:(1,2)+",
        "'a':1",
        "True:1",
        "4:1.5",
        "(4,8)+1:(8,1)",
        "4:1//0",
        "()()",
    ],
)
def test_invalid_text_is_not_parsed(text: str) -> None:
    with pytest.raises((ParseError, InvalidArgument, layouts.LayoutError)) as caught:
        layouts.read_layout(text)
    assert "required" in str(caught.value)


def test_conditions_are_read() -> None:
    assert str(layouts.read_condition("N % 4 == 0")) == "N % 4 = 0"
    assert str(layouts.read_condition("2 <= N")) == "2 <= N"
    for text in ("N", "1 == 1", "N < M < 4", "N ==", "N in M"):
        with pytest.raises(ParseError):
            layouts.read_condition(text)


def test_explanations_end_with_the_result() -> None:
    a, b = layouts.Layout((4, 2, 3), (2, 1, 8)), layouts.Layout(4, 2)
    assert layouts.explain(layouts.composition, a, b).steps[-1] == f"= {layouts.composition(a, b)}"
    assert layouts.explain(layouts.logical_divide, a, b).steps[-1] == f"= {layouts.logical_divide(a, b)}"
    assert layouts.explain(layouts.complement, b, 24).steps[-1] == f"= {layouts.complement(b, 24)}"
    assert layouts.explain(layouts.coalesce, a).steps[-1] == f"= {layouts.coalesce(a)}"
    assert layouts.explain(layouts.logical_product, b, 4).steps[-1] == f"= {layouts.logical_product(b, 4)}"
    assert layouts.explain(layouts.right_inverse, b).steps == ("right_inverse of 4:2", "= 1:0")
    refused = layouts.explain(layouts.composition, layouts.Layout((6, 2), (1, 7)), layouts.Layout((3, 2), (2, 3)))
    assert "not a layout" in refused.steps[-1]
    assert any(step.strip().startswith("not proved: 7 < 6") for step in refused.steps)


def test_decorated_operations_are_not_explained_as_the_original() -> None:
    @wraps(layouts.composition)
    def before(a: layouts.Layout, b: layouts.Layout) -> object:
        return layouts.composition(b, a)

    a, b = layouts.Layout(4, 2), layouts.Layout(2, 1)
    assert layouts.explain(before, a, b).steps == ("composition of 4:2, 2:1", f"= {layouts.composition(b, a)}")


def test_the_command_shows_a_layout_and_an_operation(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    drawn = tmp_path / "tiles.svg"
    assert command_line(["layout", "(4,8):(8,1)", "logical_divide", "(2):(2)", "--svg", str(drawn)]) == 0
    text = capsys.readouterr().out
    assert "injective  proved" in text
    assert "divided by" in text
    assert drawn.exists()
    assert command_line(["layout", "(4,8):(8,1)", "equal", "(4,8):(1,4)"]) == 0
    assert capsys.readouterr().out == "no: i0 = 1, i1 = 0\n"
    assert command_line(["layout", "(N,8):(8,1)", "--given", "N % 4 == 0"]) == 0
    assert "given      1 <= N, N % 4 = 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["(4,8:1"], ["4:1", "frobnicate"], ["4:1", "composition"], ["4:1", "coalesce", "4:1"], ["4:1", "--given", "N"]],
    ids=" ".join,
)
def test_the_command_refuses_unknown_words(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["layout", *arguments]) == REFUSED
    assert "required:" in capsys.readouterr().err


def test_explanations_mention_dropped_modes() -> None:
    assert "  (2,2):(1,2) coalesces to 4:1" in str(
        layouts.explain(layouts.composition, layouts.Layout((2, 2), (1, 2)), layouts.Layout(3, 1))
    )
    assert "  mode 1, 1:7, has extent 1 and is dropped" in str(
        layouts.explain(layouts.coalesce, layouts.Layout((2, 1), (1, 7)))
    )
    assert str(layouts.explain(layouts.complement, layouts.Layout(4, 0))).splitlines()[-1] == "= 1:1"


def test_symbolic_layouts_have_no_notebook_picture() -> None:
    assert layouts.Layout((N, 4))._repr_svg_() is None
    assert layouts.row_major((1024, 1024))._repr_svg_() is None
    assert ">(1,0)<" in str(layouts.Layout((2, 2), (layouts.E(0), layouts.E(1)))._repr_svg_())


def test_colours_by_row_and_by_column() -> None:
    rows, columns = (layouts.draw(layouts.Layout((2, 3)), colour=by).colours for by in ("row", "column"))
    assert rows == ((0, 0, 0), (1, 1, 1))
    assert columns == ((0, 1, 2), (0, 1, 2))


@pytest.mark.parametrize(
    ("text", "holds"), [("N != 3", [2, 4]), ("N > 3", [4]), ("N >= 3", [3, 4]), ("N <= 3", [2, 3]), ("N < 3", [2])]
)
def test_conditions_parse_as_written(text: str, holds: list[int]) -> None:
    layout = layouts.Layout(N, given=[layouts.read_condition(text)])
    found = []
    for size in (2, 3, 4):
        try:
            layout.where(N=size)
        except layouts.LayoutError:
            continue
        found.append(size)
    assert found == holds
