"""Well-formedness: each obligation is checked for every dimension, part and operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import atl
from atl.checks.wellformed import make_program, stores_everything
from atl.core.index import Array
from atl.core.program import Program
from atl.core.terms import Constant, Input, Rec
from atl.errors import ATLError, ExtentError, ShapeError, UnsafeAccess, UnsafeGuard
from atl.prove import without_smt

n = atl.sizes("n")
x = atl.tensor("x", n)


def read(inputs: str, body: str, of: str = "float32") -> Program:
    return atl.parse(f"p (x : float32[n]{', ' if inputs else ''}{inputs}) : {of} := {body}")


NM_NK = "a : float32[n, m], b : float32[n, k]"
REFUSED: tuple[tuple[str, str, str, str], ...] = (
    # inputs besides x : float32[n]; body; summary; requirement
    ("", "padding(float32[n, -1])", "padding of extent -1, which may be negative", "0 <= -1"),
    ("", "padding(float32[-1, n])", "padding of extent -1, which may be negative", "0 <= -1"),
    ("", "[3 <= n] · padding(float32[n - 3, 2])", "the extent n - 3 of the body may be negative", "0 <= n - 3 outside"),
    ("", "[3 <= n] · padding(float32[2, n - 3])", "the extent n - 3 of the body may be negative", "0 <= n - 3 outside"),
    ("m : size", "[1 <= m] · padding(float32[n // m])", "the divisor m may be zero or negative", "0 < m"),
    ("", "⊞[i < n] padding(float32[n - 1])", "the extent n - 1 of the body may be negative", "0 <= n - 1 outside"),
    ("", "∑[i < n] padding(float32[n - 1])", "the extent n - 1 of the body may be negative", "0 <= n - 1 outside"),
    (
        "k : size",
        "⊞[i < n] (⊞[j < k] padding(float32[i - 1]))[0, 0]",
        "the extent i - 1 of the body may be negative",
        "0 <= i - 1 outside the body too  (known here: 0 <= i, i < n)",
    ),
    ("m : size", "⊞[n <= i < m] 1.0", "the range of gen runs backwards: from n to m", "n <= m"),
    ("m : size", "⊞[i < n // m] 1.0", "the divisor m may be zero or negative", "0 < m"),
    ("m : size", "∑[n // m <= i < n] 1.0", "the divisor m may be zero or negative", "0 < m"),
    ("m : size", "select(m <= 0, x, padding(float32[imax(n, n - n // m)]))", "the divisor m may be zero", "0 < m"),
    ("a : size, z : size", "∑[i < n // (a + 1) + n // z] 1.0", "the divisor z may be zero or negative", "0 < z"),
    ("a : size, z : size", "∑[i < n // (z + 1) + n // a] 1.0", "the divisor a may be zero or negative", "0 < a"),
    ("m : size, k : size", "⊞[i < n // m + n // k] 1.0", "the divisor k may be zero or negative", "0 < k"),
    ("y : float32[m]", "x + y", "'add' has operands of shapes (n) and (m)", "n = m in dimension 0"),
    (NM_NK, "a * b", "'mul' has operands of shapes (n, m) and (n, k)", "m = k in dimension 1"),
    ("a : float32[n + 1]", "x + a", "'add' has operands of shapes (n) and (n + 1)", "n = n + 1 in dimension 0"),
    ("a : float32[n + 1], b : float32[n + 2]", "a + b", "of shapes (n + 1) and (n + 2)", "n + 1 = n + 2 in"),
    ("b : float32[2*n]", "x + b", "'add' has operands of shapes (n) and (2*n)", "n = 2*n in dimension 0"),
    (NM_NK, "a ++ b", "concat has operands of shapes (n, m) and (n, k)", "m = k in dimension 1"),
    (
        "a : float32[n, 2, m], c : float32[n, 2, k]",
        "a ++ c",
        "concat has operands of shapes (n, 2, m) and (n, 2, k)",
        "m = k in dimension 2",
    ),
    ("m : size", "split m x", "split by m, which may be zero or negative", "0 < m"),
    ("", "padr (n - 1) x", "padding by n - 1, which may be negative", "0 <= n - 1"),
    ("", "padl (n - 1) x", "padding by n - 1, which may be negative", "0 <= n - 1"),
    ("", "truncr (n - 1) x", "a truncation drops n - 1 of n elements", "0 <= n - 1"),
    ("", "truncl (n - 1) x", "a truncation drops n - 1 of n elements", "0 <= n - 1"),
    ("", "truncr (n + 1) x", "a truncation drops n + 1 of n elements", "n + 1 <= n"),
    ("", "truncl (n + 1) x", "a truncation drops n + 1 of n elements", "n + 1 <= n"),
    ("m : size", "place(n, m, 1.0)", "an element is placed at m, which is out of range for extent n", "0 <= m < n"),
    ("", "place(n, n, 1.0)", "an element is placed at n, which is out of range for extent n", "0 <= n < n"),
    ("", "place(n, -1, 1.0)", "an element is placed at -1, which is out of range for extent n", "0 <= -1 < n"),
)


@pytest.mark.parametrize(("inputs", "body", "wrong", "required"), REFUSED, ids=[body for _, body, *_ in REFUSED])
def test_ill_formed_term_is_refused(inputs: str, body: str, wrong: str, required: str) -> None:
    with pytest.raises(ATLError) as refused:
        read(inputs, body)
    assert f"{wrong} " in str(refused.value)
    assert f"required: {required}" in str(refused.value)


HEADERS: tuple[tuple[str, str], ...] = (
    *(
        (f"({header}, m : size) : float32 := 0.0", "the divisor m may be zero or negative")
        for header in (
            "x : float32[n // m, 2], y : float32[n]",
            "x : float32[2, n // m], y : float32[n]",
            "x : float32[n], y : float32[n // m, 2]",
            "x : float32[n], y : float32[2, n // m]",
            "A : int64[n] in [n // m, n)",
            "A : int64[n] in [0, n // m)",
        )
    ),
    *(
        (f"(x : float32[n], m : size) : ({results}) := x", wrong)
        for results, wrong in (
            ("a : float32[n - 1, 2], b : float32[1]", "an extent of the result a is n - 1"),
            ("a : float32[2, n - 1], b : float32[1]", "an extent of the result a is n - 1"),
            ("a : float32[1], b : float32[n - 1]", "an extent of the result b is n - 1"),
            ("a : float32[1], b : float32[2, n // m]", "the divisor m may be zero or negative"),
            ("a : float32[n, 2], b : float32[1]", "the body has n elements, but its results have 2*n + 1"),
        )
    ),
)


@pytest.mark.parametrize(("header", "wrong"), HEADERS)
def test_ill_formed_declaration_or_result_is_refused(header: str, wrong: str) -> None:
    with pytest.raises(ExtentError if "divisor" in wrong else ATLError) as refused:
        atl.parse(f"p {header}")
    assert f"{wrong} " in str(refused.value)


@pytest.mark.parametrize("dimension", [0, 1])
def test_select_operands_have_one_shape(dimension: int) -> None:
    m, k = atl.sizes("m k")
    one, other = ((n, m), (n, k)) if dimension else ((m, n), (k, n))
    a, b = atl.tensor("a", *one), atl.tensor("b", *other)
    with pytest.raises(ShapeError, match="select has operands of shapes") as refused:
        atl.program("p", [a, b], atl.select(n > 2, a, b))
    assert refused.value.required == f"m = k in dimension {dimension}"


ACCEPTED: tuple[tuple[str, str, str], ...] = (
    ("", "padding(float32[0, 0])", "float32[0, 0]"),
    ("", "[3 <= n] · padding(float32[n, 0])", "float32[n, 0]"),
    ("", "⊞[n <= i < n] 1.0", "float32[0]"),
    ("a : float32[n, m], b : float32[k, m]", "a ++ b", "float32[n + k, m]"),
    ("", "split 1 x", "float32[n, 1]"),
    ("m : size", "[1 <= m] · x", "float32[n]"),
    ("", "padr 0 (padl 0 x)", "float32[n]"),
    ("", "truncr n x", "float32[0]"),
    ("", "truncl n x", "float32[0]"),
    ("", "truncr 0 (truncl 0 x)", "float32[n]"),
    ("", "place(n + 1, n, 1.0)", "float32[n + 1]"),
    ("", "place(n + 1, 0, 1.0)", "float32[n + 1]"),
    ("m : size", "∑[n <= i < m] 1.0", "float32"),
)


@pytest.mark.parametrize(("inputs", "body", "of"), ACCEPTED, ids=[body for _, body, _ in ACCEPTED])
def test_smallest_well_formed_case_is_accepted(inputs: str, body: str, of: str) -> None:
    assert read(inputs, body, of).name == "p"


@pytest.mark.parametrize(("known", "more"), [(7, ""), (8, ""), (9, ", …")])
def test_message_lists_at_most_eight_facts(known: int, more: str) -> None:
    sizes = [f"k{number}" for number in range(known)]
    declared, given = ", ".join(f"{size} : size" for size in sizes), ", ".join(f"1 <= {size}" for size in sizes)
    with pytest.raises(ExtentError) as refused:
        atl.parse(f"p ({declared}) : float32[-1] given {given} := padding(float32[-1])")
    listed = ", ".join(f"1 <= {size}" for size in sizes[:8])
    assert refused.value.required == f"0 <= -1  (known here: {listed}{more})"


def test_undecided_obligation_is_refused_with_advice() -> None:
    square = "m*m + n*n - 2*m*n"
    with without_smt(), pytest.raises(ExtentError) as refused:
        read("m : size", f"padding(float32[{square}])")
    assert str(refused.value).startswith(f"padding of extent {square}, which may be negative, as far as can be proved ")
    assert refused.value.numbers is None
    assert [advice.partition(" ")[0] for advice in refused.value.suggestions] == ["write", "declare"]


@pytest.mark.parametrize(
    ("inputs", "body", "advice"),
    [
        ("m : size", "split m x", ['declare it with atl.sizes("m", min=1)']),
        ("m : size", "split (m - 1) x", []),
        ("m : size", "∑[i < n // m] x[i]", ['declare it with atl.sizes("m", min=1)']),
        ("m : size", "∑[i < n // (m - 1)] x[i]", []),
        (
            "A : int64[3]",
            "place(n, A[0], 1.0)",
            [
                "declare the range of A, which each call checks: atl.tensor(…, range=(0, n))",
                "guard it inside its sum: atl.guard((0 <= A[0]) & (A[0] < n), atl.place(n, A[0], …))",
            ],
        ),
        (
            "m : size",
            "place(n, m, 1.0)",
            ["guard it inside its sum: atl.guard((0 <= m) & (m < n), atl.place(n, m, …))"],
        ),
    ],
)
def test_refusal_suggests_declarations_and_guards(inputs: str, body: str, advice: list[str]) -> None:
    with pytest.raises(ATLError) as refused:
        read(inputs, body)
    assert list(refused.value.suggestions) == advice


def test_results_may_be_empty() -> None:
    program = atl.parse("p (x : float32[n]) : (a : float32[0], b : float32[n]) := x")
    assert [result.name for result in program.results] == ["a", "b"]


UNSTORED: dict[str, Callable[[Any], atl.Tensor]] = {
    "a guard": lambda i: atl.guard(i < 3, x),
    "a placed term": lambda i: atl.place(n, i, x[i]),
}
AROUND: dict[str, Callable[[atl.Tensor], atl.Tensor]] = {
    "nothing": lambda e: e,
    "a generation": lambda e: atl.gen(2, lambda _: e),
    "the body of a let": lambda e: atl.let(x, lambda _: e),
    "a reshape operator": lambda e: atl.padr(1, e),
    "another fold": lambda e: atl.reduce("min", n, lambda _: e),
    "the left of two": lambda e: atl.concat(e, x),
    "the right of two": lambda e: atl.concat(x, e),
}
STORED: dict[str, Callable[[atl.Tensor], atl.Tensor]] = {
    "a sum": lambda e: atl.sum(n, lambda _: e),
    "arithmetic": lambda e: e + 1,
    "a function": atl.exp,
    "a read": lambda e: e[0],
    "the value of a let": lambda e: atl.let(e, lambda v: v),
    "a cast": lambda e: atl.cast("float64", e),
    "a selection": lambda e: atl.select(n > 2, e, e),
}


@pytest.mark.parametrize("monoid", ["max", "min", "product"])
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("what", UNSTORED)
def test_fold_refuses_unstored_zeros(what: str, around: str, monoid: Any) -> None:
    with pytest.raises(UnsafeGuard, match=f"a reduction by {monoid} contains {what}") as refused:
        atl.program("p", [x], atl.reduce(monoid, n, lambda i: AROUND[around](UNSTORED[what](i))), given=[n > 2])
    assert str(refused.value.required).startswith(f"no {what.removeprefix('a ')} directly in the body ")
    assert not stores_everything(AROUND[around](UNSTORED[what](n)).node)


@pytest.mark.parametrize("around", STORED)
@pytest.mark.parametrize("what", UNSTORED)
def test_fold_accepts_computed_zeros(what: str, around: str) -> None:
    folded = atl.reduce("max", n, lambda i: STORED[around](UNSTORED[what](i)))
    assert atl.program("p", [x], folded, given=[n > 2]).body == folded.node
    assert stores_everything(STORED[around](UNSTORED[what](n)).node)
    added = atl.sum(n, UNSTORED[what])
    assert atl.program("p", [x], added, given=[n > 2]).body == added.node


def test_fold_refuses_padding() -> None:
    with pytest.raises(UnsafeGuard, match="a reduction by max contains padding"):
        atl.parse("p (x : float32[n]) : float32[n] := max[i < n] padding(float32[n])")


y, empty = atl.tensor("y", 8), atl.tensor("empty", 0)
ADVICE: tuple[tuple[Callable[[], Program], str], ...] = (
    (lambda: atl.program("p", [x], x[n]), "indices of x range from 0 to n - 1: write n - 1 for the last element"),
    (lambda: atl.program("p", [x], atl.gen(n, lambda i: x[i + n])), "indices of x range from 0 to n - 1"),
    (lambda: atl.program("p", [x], x[-1]), "negative indices do not count from the end: write n - 1"),
    (lambda: atl.program("p", [y], y[9]), "indices of y range from 0 to 7"),
    (lambda: atl.program("p", [empty], empty[0]), "empty has no elements"),
    (
        lambda: atl.program("p", [x], atl.gen(n, lambda i: x[i + 1])),
        "guard the access: atl.guard((0 <= i + 1) & (i + 1 < n), …)",
    ),
    (lambda: atl.program("p", [x], atl.place(n, n, x[0]), given=[n >= 1]), "the positions range from 0 to n - 1"),
)


@pytest.mark.parametrize(("program", "advice"), ADVICE)
def test_only_guards_that_can_hold_are_suggested(program: Callable[[], Program], advice: str) -> None:
    with pytest.raises((UnsafeAccess, ExtentError)) as refused:
        atl.check_safe(program())
    assert refused.value.suggestions == (advice,)


def test_operands_of_where_have_equal_shapes() -> None:
    n, m = atl.sizes("n m")
    a, b = atl.tensor("a", n), atl.tensor("b", m)
    for left in (a, b):
        with pytest.raises(ShapeError, match=r"where has operands of shapes"):
            atl.program("f", [a, b], atl.where(a < 0, left, b))


@pytest.mark.parametrize("dimension", range(2))
def test_rows_of_a_recurrence_have_the_shape_of_the_first(dimension: int) -> None:
    n, m = atl.sizes("n m")
    x, first = atl.tensor("x", n, m), atl.tensor("first", 1, m, n)
    steps = atl.tensor("steps", n, *((n, n), (m, m))[dimension])
    with pytest.raises(ShapeError, match=rf"rec begins with rows (.|\n)* in dimension {dimension} of the rows"):
        atl.program("f", [x, first, steps], atl.rec(first, n + 1, lambda p, _: steps[p - 1]))
    kept = atl.rec(first, n + 1, lambda p, y: y[p - 1])
    assert atl.program("f", [x, first, steps], kept).shape


@pytest.mark.parametrize("part", range(5))
def test_shapes_that_differ_in_one_part_are_refused(part: int) -> None:
    sizes = atl.sizes("c d e f g")
    extent = sizes[0] + sizes[1] + sizes[2] + sizes[3] + sizes[4]
    a, b = atl.tensor("a", 1, extent), atl.tensor("b", 1, extent + sizes[part])
    with pytest.raises(ShapeError, match="'add' has operands of shapes"):
        atl.program("f", [a, b], a + b)
    with pytest.raises(ShapeError, match="rec begins with rows of shape"):
        atl.program("f", [a, b], atl.rec(a, 2, lambda p, _: b[p - 1]))
    init = Input(Array("init", (extent.node,), "float32"))
    rows = Rec((extent + sizes[part]).node, (2 * extent).node, init, Constant(1, "float32"))
    with pytest.raises(ShapeError, match=r"rec begins with (.|\n)* rows and continues with row"):
        make_program("f", (init.array,), rows)


def test_extents_of_rows_may_depend_on_an_outer_index() -> None:
    x = atl.tensor("x", n, n)

    def sums(i: atl.IndexExpr) -> atl.Tensor:
        rows = atl.rec(x[i : i + 1, : i + 1], n + 1, lambda p, y: y[p - 1])
        return atl.let(rows, lambda y: atl.sum(i + 1, lambda j: y[n, j]))

    assert atl.program("f", [x], atl.gen(n, sums)).shape
