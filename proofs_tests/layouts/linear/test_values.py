"""Expected values of the operations on linear layouts."""

from __future__ import annotations

from typing import Any

import pytest

from layouts import ColumnAction, LinearLayout, NoLayout, supremum
from layouts.errors import LayoutError

identity, strided, zeros = LinearLayout.identity_1d, LinearLayout.strided_1d, LinearLayout.zeros_1d


def linear(out: Any = ("o",), **bases: list[Any]) -> LinearLayout:
    """Return the layout with these bases; `out` has names, or names with sizes."""
    return LinearLayout.from_bases(list(bases.items()), list(out.items()) if isinstance(out, dict) else list(out))


def test_elementary_layouts() -> None:
    assert identity(32, "a", "o").bases == {"a": [[1], [2], [4], [8], [16]]}
    assert identity(1, "a", "o").bases == {"a": []}
    assert zeros(32, "a", "o").bases == {"a": [[0]] * 5}
    assert zeros(32, "a", "o").is_surjective
    assert not zeros(8, "a", "o", 4).is_surjective
    assert strided(4, 8, "a", "o").bases == {"a": [[8], [16]]}


def test_products() -> None:
    assert (identity(16, "a", "o") * identity(32, "a", "o")).bases["a"] == [[1 << bit] for bit in range(9)]
    blocks = identity(4, "a", "o") * identity(8, "b", "p")
    assert blocks.bases == {"a": [[1, 0], [2, 0]], "b": [[0, 1], [0, 2], [0, 4]]}
    assert (identity(4, "a", "o") * identity(8, "a", "p")).bases == {"a": [[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]]}
    assert (identity(8, "a", "o") * zeros(16, "a", "o")).bases["a"] == [[1], [2], [4], [0], [0], [0], [0]]
    assert LinearLayout.empty() * blocks == blocks == blocks * LinearLayout.empty()
    assert (identity(1, "a", "o") * zeros(4, "a", "o")).bases["a"] == [[0], [0]]


def test_apply() -> None:
    layout = linear(("x", "y"), in1=[(4, 2), (2, 1), (1, 0)], in2=[(1, 2), (2, 1)])
    assert layout.apply(in1=1, in2=0) == {"x": 4, "y": 2}
    assert layout.apply({"in1": 0, "in2": 1}) == {"x": 1, "y": 2}
    assert layout(1, 1) == (4 ^ 1) + 8 * (2 ^ 2)
    with pytest.raises(LayoutError, match="an integer from 0 to 7"):
        layout.apply(in1=8, in2=0)
    with pytest.raises(LayoutError, match="required: in1, in2"):
        layout.apply(in1=1)


def test_compose() -> None:
    first = linear({"out1": 2, "out2": 4}, in1=[(1, 1), (0, 1)], in2=[(1, 0), (1, 2)])
    second = linear({"out3": 4, "out4": 4}, out1=[(2, 2), (1, 0)], out2=[(1, 1), (2, 1)])
    composed = first.compose(second)
    assert composed.bases == {"in1": [[3, 3], [1, 1]], "in2": [[2, 2], [0, 3]]}
    assert not composed.is_surjective
    with pytest.raises(LayoutError, match="'out2' has size 4, but 2 in the outer layout"):
        first.compose(linear(("o",), out1=[1], out2=[1]))


def test_reshaping_and_flattening() -> None:
    layout = linear(("o",), in1=[1, 4, 8], in2=[2])
    assert layout.reshape_ins([("in3", 2), ("in4", 8)]).bases == {"in3": [[1]], "in4": [[4], [8], [2]]}
    assert layout.flatten_ins().bases == {"in1": [[1], [4], [8], [2]]}
    out = linear({"o": 16}, in1=[1, 4, 8], in2=[3])
    assert out.reshape_outs([("out2", 2), ("out3", 8)]).bases == {"in1": [[1, 0], [0, 2], [0, 4]], "in2": [[1, 1]]}
    flat = linear({"x": 16, "y": 8}, in1=[(1, 0), (4, 1), (8, 4)], in2=[(3, 2)]).flatten_outs()
    assert flat.bases == {"in1": [[1], [4 + 16], [8 + 64]], "in2": [[3 + 32]]}
    with pytest.raises(LayoutError, match="required: sizes whose product is 16"):
        layout.reshape_ins([("in3", 2)])
    assert layout.transpose_ins(["in2", "in1"]).bases == {"in2": [[2]], "in1": [[1], [4], [8]]}
    assert linear(("x", "y"), a=[(1, 2)]).transpose_outs(["y", "x"]).bases == {"a": [[2, 1]]}


@pytest.mark.parametrize(
    ("first", "by", "found"),
    [
        ([2, 1, 4], [4, 1, 2], [4, 2, 1]),
        ([2, 1, 4], [0, 2, 1, 4], [2, 4, 8]),
        ([1, 2, 4], [0, 4, 1, 2], [4, 8, 2]),
        ([1, 2, 4], [4, 1, 2, 0], [2, 4, 1]),
        ([1, 2, 4], [0, 4, 1, 2, 0], [4, 8, 2]),
    ],
)
def test_invert_and_compose(first: list[int], by: list[int], found: list[int]) -> None:
    made = linear(("o",), a=first).invert_and_compose(linear(("o",), b=by))
    assert made.bases == {"a": [[each] for each in found]}
    assert made.out_dims == {"b": 1 << len(by)}


def test_invert_and_compose_with_free_bits() -> None:
    a, b = linear(("o",), in1=[1, 2], in2=[0]), linear(("o",), in3=[2, 1], in4=[0])
    assert a.invert_and_compose(b).bases == {"in1": [[2, 0], [1, 0]], "in2": [[0, 0]]}
    same = linear(("o",), in1=[1, 2], in2=[0]).invert_and_compose(linear(("o",), in1=[2, 1], in2=[0]))
    assert same.bases == {"in1": [[2, 0], [1, 0]], "in2": [[0, 1]]}, "a digit that both broadcast is kept"
    with pytest.raises(NoLayout, match="which the other layout does not reach"):
        linear(("o",), a=[1, 2]).invert_and_compose(linear({"o": 4}, b=[1]))


def test_inverses() -> None:
    layout = linear({"x": 4, "y": 2}, a=[(3, 0), (1, 1)], b=[(1, 0)])
    assert layout.compose(layout.invert()) == identity(4, "a", "a") * identity(2, "b", "b")
    assert zeros(2, "a", "o").pseudoinvert().bases == {"o": []}
    with pytest.raises(NoLayout, match="and 0 have the same location"):
        linear(("o",), a=[1], b=[1]).invert()
    with pytest.raises(NoLayout, match="which the other layout does not reach"):
        linear({"o": 4}, a=[1]).invert()


@pytest.mark.parametrize(
    ("layout", "run"),
    [
        (identity(1, "a", "o"), 1),
        (identity(4, "a", "o"), 4),
        (identity(4, "a", "o") * identity(8, "b", "o"), 4),
        (zeros(4, "a", "o") * identity(4, "a", "o"), 1),
        (linear(a=[1, 2, 4, 9]), 1),
        (linear(a=[1, 2, 4, 10]), 2),
        (linear(a=[1, 4, 2]), 2),
        (linear(a=[1, 2, 4], b=[8, 18]), 2),
    ],
)
def test_consecutive_runs(layout: LinearLayout, run: int) -> None:
    assert layout.num_consecutive_in_out() == run


def test_free_bits() -> None:
    assert identity(4, "a", "o").free_variable_masks() == {"a": 0}
    assert zeros(16, "a", "o").free_variable_masks() == {"a": 0b1111}
    mixed = identity(2, "a", "o") * zeros(4, "a", "o") * identity(4, "a", "o") * zeros(2, "a", "o")
    assert mixed.free_variable_masks() == {"a": 0b100110}
    two = linear(("x", "y"), in1=[(1, 1), (2, 2), (0, 0)], in2=[(1, 0), (0, 1), (2, 0)])
    assert two.free_variable_masks() == {"in1": 0b100, "in2": 0b10}


def test_equality_compares_sizes() -> None:
    a, b = linear({"o": 4}, a=[1, 2]), linear({"o": 8}, a=[1, 2])
    assert a != b
    assert a.equal_ignoring_out_dim_sizes(b)
    assert not a.equal_ignoring_out_dim_sizes(linear({"o": 4}, a=[2, 1]))
    assert hash(a) == hash(linear({"o": 4}, a=[1, 2]))


def test_sublayouts_and_quotients() -> None:
    layout = linear(("out1", "out2"), in1=[(1, 0), (0, 1), (2, 0)], in2=[(0, 1)])
    assert layout.sublayout(["in1", "in2"], ["out1"]).bases == {"in1": [[1], [0], [2]], "in2": [[0]]}
    assert layout.sublayout_is_zero(["in2"], ["out1"])
    kept = identity(8, "block", "block") * identity(4, "lane", "o")
    assert kept.quotient(["block"]) == identity(4, "lane", "o")
    with pytest.raises(NoLayout, match="is not both a digit and a coordinate"):
        kept.quotient(["lane"])
    with pytest.raises(NoLayout, match="other digits affect 'block'"):
        linear(("block",), block=[1, 2], lane=[2]).quotient(["block"])
    with pytest.raises(NoLayout, match="a digit that is mapped identically"):
        linear(("block",), block=[2, 1]).quotient(["block"])


def test_division() -> None:
    assert identity(8, "a", "o").divide_left(identity(4, "a", "o")) == identity(2, "a", "o")
    assert identity(8, "a", "o").divide_right(identity(4, "a", "o")) == identity(2, "a", "o")
    inner = linear({"x": 4, "y": 4}, in1=[(1, 1), (2, 2)], in2=[(0, 2), (0, 1)])
    whole = linear({"x": 4, "y": 16}, in1=[(1, 1), (2, 2), (0, 8), (0, 4)], in2=[(0, 2), (0, 1)])
    assert whole.divide_left(inner).bases == {"in1": [[0, 2], [0, 1]], "in2": []}
    outer = linear({"x": 2, "y": 4}, in1=[(1, 3)], in2=[(0, 2)])
    assert (inner * outer).divide_left(inner) == outer
    assert (inner * outer).divide_right(outer) == inner
    for broken in (identity(4, "b", "o"), identity(4, "a", "p"), linear(a=[2, 1]), identity(16, "a", "o")):
        with pytest.raises(NoLayout):
            identity(8, "a", "o").divide_left(broken)
        with pytest.raises(NoLayout):
            identity(8, "a", "o").divide_right(broken)


def test_actions_and_suprema() -> None:
    values = [1, 2, 3, 4, 5, 6, 7, 8]
    assert ColumnAction((2, 0, 1), "reg", 3).of_values(values) == [1, 5, 2, 6, 3, 7, 4, 8]
    assert ColumnAction((2, 1), "reg", 3).of_values(values) == [1, 5, 3, 7]
    layout = linear(("o",), reg=[4, 2, 1], lane=[8])
    moved = ColumnAction((2, 0, 1), "reg", 3).apply(layout)
    assert moved.bases == {"reg": [[1], [4], [2]], "lane": [[8]]}
    held = [layout.apply(reg=at, lane=1)["o"] for at in range(8)]
    assert [moved.apply(reg=at, lane=1)["o"] for at in range(8)] == ColumnAction((2, 0, 1), "reg", 3).of_values(held)
    assert supremum(["a", "b"], ["a", "c"]) == ["a", "b", "c"]
    with pytest.raises(NoLayout, match="contradict each other"):
        supremum(["a", "b"], ["b", "a"])


def test_many_bits() -> None:
    large = identity(1 << 25, "a", "o")
    assert large.rank == 25
    assert large.invert() == identity(1 << 25, "o", "a")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: linear(("x", "y"), a=[1]), "required: 2 coordinates"),
        (lambda: linear({"o": 2}, a=[2]), "required: less than 2 in 'o'"),
        (lambda: linear({"o": 3}, a=[1]), "required: a power of two"),
        (lambda: linear(a=[-1]), "all >= 0"),
        (lambda: linear(a=["x"]), "a coordinate, or a tuple of them"),
        (lambda: identity(3, "a", "o"), "required: a power of two"),
        (lambda: identity(1 << 30, "a", "o") * identity(1 << 40, "a", "o"), "up to 62"),
    ],
    ids=["parts", "range", "size", "sign", "kind", "identity", "bits"],
)
def test_invalid_arguments_are_refused(made: Any, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        made()
