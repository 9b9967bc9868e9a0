"""Parsing printed layouts of all families, refusing invalid text, and the `layout` command."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from random import Random

import pytest

import atl
import layouts
from atl.cli import main as command_line
from atl.errors import ATLError, InvalidArgument, ParseError
from atl.prove import Proved, Refuted
from layouts.axe import Axe, locations
from layouts.foundation.function import Function
from layouts.lego import CoverBy, GenP, GroupBy
from proofs_tests.layouts.axe.test_enumeration import drawn
from proofs_tests.layouts.lego.reference import any_chain
from proofs_tests.layouts.linear import random_layouts


def same(a: Function, b: Function) -> bool:
    """Return whether two functions are equal: directly, or by text and values."""
    if isinstance(a, Axe | layouts.LinearLayout):
        return a == b
    return str(a) == str(b) and a.table().tolist() == b.table().tolist()


def test_printed_layouts_of_every_family_parse() -> None:
    random = Random(21)
    for _ in range(40):
        for made in (random_layouts.any_layout(random, 2), drawn(random), any_chain(random)[0]):
            if isinstance(made, GroupBy) and any(isinstance(p, GenP) for link in made.chain for p in link.permutations):
                with pytest.raises(ParseError, match="functions"):
                    layouts.read_function(str(made))
                continue
            if isinstance(made, layouts.LinearLayout) and not made.in_dims:
                continue  # its text cannot be parsed
            assert same(layouts.read_function(str(made)), made), str(made)


@pytest.mark.parametrize(
    ("text", "at", "place"),
    [
        ("TileBy([3,2],[4,5]).OrderBy(Row(12,10))", (2, 1, 3, 4), 119),
        ("GroupBy([4, 6]).TileOrderBy(Row(2, 3), Col(2, 2))", (1, 2), 5),
        ("TileInto([4,6],[2,3]).OrderBy(Col(4,6))", (1, 0, 0, 2), 10),
        ("CoverBy([5],[3])", (1, 2), -1),
        ("ExpandBy([10], [12], TileBy([3],[4]).OrderBy(Row(12)))", (2, 1), 9),
        ("Swizzle(2, 0, 3)", (8,), 9),
        ("Swizzle<2,0,3>(32)", (8,), 9),
        ("LinearLayout.identity_1d(4, 'lane', 'i') * LinearLayout.identity_1d(2, 'reg', 'i')", (1, 1), 5),
        ("Swizzle(1,0,2) o (4,2):(2,1)", (2, 0), 5),
        ("(4,8):(8,1) ∘ (2,4):(1,8)", (1, 1), 10),
        ("swizzled(4)((4, 4))", (1, 0), 5),
        ("padded(1)((4, 4))", (1, 0), 5),
        ("antidiagonal((2,2))", (1, 0), 3),
        ("S[(4,2):(2,1)] + 3", (1, 1), 6),
        ("3 + S[(4,2):(2,1)]", (1, 1), 6),
        ("(4,8):(8,1)+3", (1, 1), 12),
    ],
)
def test_each_function_name_parses(text: str, at: tuple[int, ...], place: int) -> None:
    found = layouts.read_function(text)(*at)
    assert (next(iter(found)) if isinstance(found, tuple) else int(getattr(found, "parts", [found])[0])) == place


REFUSED = (
    "GenP([2], f)", "__import__('os')", "Row(3)", "S[3]", "S[3:]", "GroupBy([4]).foo(3)", "GroupBy([4]).OrderBy(3)",
    "4@lane", "S[4:1] - 3", "LinearLayout.empty()", "GroupBy(*[3])", "GroupBy(", "Swizzle(1.5,2,3)",
    "GroupBy([4])[0,:]",
    "GroupBy([2])+3", "swizzled(8)", "GroupBy([2]).at.__class__()", "GroupBy([1e3])", "GroupBy('abc')",
    "GroupBy([2**9])",
    "S[(8,4):(4@lane,1@lane)]+S[2:1]", "x: 3 in y: 1", "Row(2,foo=3)", "(4,8):(8,1) o", "S[lambda: 3:1]",
    "GroupBy([x for x in (1,2)])", "S[2:1](3)", "R[2:1].at(3)", "GroupBy([True])", "x: 1,, in y: 2", "", " o ", "[",
    "GroupBy([2]) if S[2:1] else S[3:1]", "GroupBy([0])", "S[2:1@2]", "(" * 300 + "S[2:1]", "Swizzle<a,b,c>",
    "TileBy([3,2],[4,5]).OrderBy(Row(12,11))", "-S[2:1]", "S[2:1] // 0", "LinearLayout.from_bases(3, 4)",
    "-(4,8):1", "(2,2):(E(0),E(4294967296))", "Row('%99999999d' % 5)", "GroupBy([1]*100000000)", "Row('a'*10**9)",
)  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_invalid_text_raises_atl_errors(text: str) -> None:
    with pytest.raises(ATLError):
        layouts.draw(layouts.read_function(text))


def test_invalid_text_prints_no_python_warning() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ParseError):
            layouts.read_function("4and:1")
    assert not caught


def test_ceiling_quotients_parse_as_printed() -> None:
    n, m = atl.sizes("n m")
    for made in (CoverBy([n], [4]), CoverBy([n, 7], [m, 2], given=[m >= 1]), GroupBy([((n + 3) // 4 + m - 1) // m])):
        again = layouts.read_function(str(made), given=[m >= 1])
        assert str(again) == str(made)
        assert again.where(n=11, m=3).table().tolist() == made.where(n=11, m=3).table().tolist()


def test_extreme_layouts_are_drawn_and_described() -> None:
    assert str(layouts.draw(layouts.read_function("()"))).endswith("0")
    of_one = layouts.read_function("R[2:4@warp] + 1")
    assert isinstance(of_one, Axe)
    assert [str(place) for place in locations(of_one, 0)] == ["1@m", "1@m + 4@warp"]
    with pytest.raises(ATLError, match="the location is"):
        layouts.as_layout(layouts.read_function(f"Swizzle(2,0,2) o (4,4):({10**20 - 1},1)"))


def test_facts_reach_the_layouts_that_are_read() -> None:
    M, B = atl.sizes("M B")  # noqa: N806
    text = "TileBy([M // B],[B]).OrderBy(Row(M))"
    with pytest.raises(ATLError, match="equal sizes"):
        layouts.read_function(text)
    assert str(layouts.read_function(text, given=[M % B == 0]))
    with pytest.raises(ATLError, match="given="):
        layouts.read_function("ExpandBy([M], [8*B], TileBy([B], [8]))")
    assert str(layouts.read_function("ExpandBy([M], [8*B], TileBy([B], [8]))", given=[M <= 8 * B]))
    assert str(layouts.read_function("TileBy([M // B],[B], given=[M % B == 0]).OrderBy(Row(M))"))


@pytest.mark.parametrize("text", [f"8:{10**40}", f"S[8:{10**40}]", f"S[(8,2):({10**18}@a,{10**18}@b)]"])
def test_strides_beyond_machine_integers_are_described(text: str) -> None:
    assert layouts.ask([text]).data["result"]["injective"] == {"answer": "proved", "by": "structure"} or "S" in text
    assert layouts.ask([text]).text


def test_locations_on_several_axes_are_not_integers() -> None:
    assert isinstance(layouts.bijective(layouts.read_function("S[(4,2):(2@a,1@b)]")), Refuted)
    assert isinstance(layouts.bijective(layouts.read_function("S[(4,2):(1@a,1@b)]"), (4, 2)), Proved)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["equal", "S[(4,8):(8,1)]", "(4,8):(8,1)"], Proved),
        (["S[(4,8):(8,1)]", "equal", "(4,8):(1,4)"], Refuted),
        (["(4,8):(1,4)", "as_lego"], GroupBy),
        (["as_linear", "Swizzle(2,0,3)"], layouts.LinearLayout),
        (["canonicalize", "S[(2,2):(2,1)]"], Axe),
        (["composition", "(6,2):(1,7)", "(3,2):(2,3)"], layouts.Chain),
        (["composition", "Swizzle(2,0,2)", "(4,4):(4,1)"], layouts.Chain),
        (["injective", "(4,8):(7,1)"], Refuted),
        (["GroupBy([4,8])", "bijective"], Proved),
    ],
)
def test_an_operation_may_precede_or_follow_its_first_layout(words: list[str], kind: type) -> None:
    answer = layouts.ask(words)
    assert isinstance(answer.result, kind)
    assert answer.text
    assert json.loads(json.dumps(answer.data))["operation"] in words


@pytest.mark.parametrize(
    ("text", "tiler"), [("(4,3)", (4, 3)), ("(2:4,3)", (layouts.Layout(2, 4), 3)), ("((2,4),6)", ((2, 4), 6))]
)
def test_parenthesised_tilers_go_by_mode(text: str, tiler: tuple[object, ...]) -> None:
    nested = layouts.Layout(((2, 4), 6), ((24, 6), 1))
    for operation in (layouts.composition, layouts.zipped_divide):
        answer = layouts.ask([str(nested), operation.__name__, text])
        assert answer.result == operation(nested, tiler)
        assert str(answer.result) in answer.text
        assert json.loads(json.dumps(answer.data))["result"]["layout"] == str(answer.result)
    assert layouts.ask(["composition", str(nested), "(2,4):(1,2)"]).result == layouts.composition(
        nested, layouts.Layout((2, 4))
    )


@pytest.mark.parametrize(
    "words", [["equall", "(4,8):(8,1)", "8"], ["(4,8):(8,1)", "equall", "8"], ["N", "equall", "8"]]
)
def test_an_unknown_operation_is_named(words: list[str]) -> None:
    with pytest.raises(InvalidArgument, match="unknown operation 'equall'"):
        layouts.ask(words)


def test_the_command_answers_in_json_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chain = "TileBy([3,2],[4,5]).OrderBy(Row(12,10))"
    assert command_line(["layout", chain, "--json", "--svg", str(tmp_path / "out.svg")]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert (result["size"], result["onto"], result["locations"][:6]) == (
        120,
        {"answer": "proved", "by": "structure"},
        [0, 1, 2, 3, 4, 10],
    )
    assert (tmp_path / "out.svg").read_text(encoding="utf-8").startswith("<svg")
    assert command_line(["layout", "S[4:1@lane] + R[2:4@warp]"]) == 0
    assert "each element at 2 locations" in capsys.readouterr().out
    assert command_line(["layout", "equal", chain, chain, "--svg", str(tmp_path / "no.svg")]) == 2


@pytest.mark.parametrize(
    ("text", "of_shape"),
    [
        ("blocked(4,8)", "blocked(4,8)((64, 64))"),
        ("blocked(4)", "blocked(4)((64,))"),
        ("blocked(2,2,2)", "blocked(2,2,2)((64, 64, 64))"),
        ("morton(4)", "morton(4)((64, 64))"),
        ("padded(3)", "padded(3)((64, 64))"),
    ],
)
def test_storage_without_a_shape_is_refused(text: str, of_shape: str) -> None:
    with pytest.raises(ParseError, match="is a function of the shape of a tensor") as caught:
        layouts.read_function(text)
    assert caught.value.suggestions == (of_shape,)
    assert isinstance(layouts.read_function(of_shape), layouts.IndexFunction)
