"""Parse errors with carets and suggestions; places of subterms; LaTeX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import atl
from atl.core import terms
from atl.core.index import Array, Bound, Var, constant, index, size
from atl.core.node import MAX_DEPTH
from atl.core.program import Program
from atl.core.traversal import children
from atl.errors import (
    ATLError,
    DtypeError,
    ExtentError,
    InvalidName,
    ParseError,
    RankError,
    ShapeError,
    TooLarge,
    UnknownMark,
    UnsafeGuard,
)
from atl.parsing.parse import parse, parse_expr
from atl.text.latex import latex
from atl.text.printing import WHOLE, place_of, show, show_index, show_program

HERE: Final = Path(__file__).resolve().parents[2]
A: Final = terms.Input(Array("A", (size("n"), size("n")), "float32"))


def refusal(text: str) -> ATLError:
    with pytest.raises(ATLError) as caught:
        parse(text)
    return caught.value


@pytest.mark.parametrize(
    ("body", "kind", "summary", "meant"),
    [
        ("gen[i < n] y[i]", ParseError, "no tensor is called 'y' here", "y"),
        ("gen[i < n] x[j]", ParseError, "no index or size is called 'j' here", "j"),
        ("gen[i < n] x[i", ParseError, "expected ']' after the indices, found the end of the text", "i"),
        ("gen[i < n] x[i]]", ParseError, "expected an operator or the end of the text, found ']'", "]"),
        ("gen[i < n]", ParseError, "expected a tensor expression, found the end of the text", "]"),
        ("gen[i <= n] x[i]", ParseError, "no index or size is called 'i' here", "i"),
        ("gen[i < n] i", ParseError, "no tensor is called 'i' here", "i"),
        ("gen[i < n] x[x[i]]", ParseError, "an element of x, of type float32, cannot be used as an index", "x"),
        ("gen[i < n] [i] · x[i]", ParseError, "expected a condition, found an index expression", "i"),
        ("gen[i < n] x[i < 2]", ParseError, "expected ']' after the indices, found '<'", "<"),
        ("gen[i < n] [i < 2] x[i]", ParseError, "expected '·' or '.' after the condition of a guard, found 'x'", "x"),
        ("gen[i < n / 2] x[i]", ParseError, "expected ']' after the range, found '/'", "/"),
        ("gen[i < ⌈n + 1 / 2⌉] 0", ParseError, "the dividend is a sum without parentheses", "+"),
        ("gen[sum < n] 0", ParseError, "'sum' cannot name an index: it is a reserved word", "sum"),
        ("gen[i < 1.5] 0", ParseError, "the index 1.5 is not an integer", "1.5"),
        ("let y := x y[0]", ParseError, "expected 'in' before the body of the let, found 'y'", "y"),
        ("let y := x in x[y[0]]", ParseError, "the tensor y cannot be used as an index", "y"),
        ("transposed(x)", ParseError, "no function is called 'transposed' here", "transposed"),
        ("x § 2", ParseError, "unexpected character '§'", "§"),
        ("`x", ParseError, "the quoted name that starts with ` is not closed on its line", "`"),
        ("gen[i < n] …", ParseError, "this text was abridged and is incomplete", "…"),
        ("gen[i < n | vectr] 0", UnknownMark, "unknown mark 'vectr'", "vectr"),
        ("gen[i < n | block.w] 0", UnknownMark, "unknown mark 'block.w'", "block.w"),
        ("sum[i < n | shared] 0", UnknownMark, "shared is a mark of a let, not of a loop", "shared"),
        ("let y | thread.x := x in y", UnknownMark, "thread.x is a mark of a loop, not of a let", "thread.x"),
        ("gen[i < n | parallel | vector] 0", ParseError, "expected ']' after the range, found '|'", "|"),
        ('gen[i < n | "parallel"] 0', ParseError, "unexpected character '\"'", '"'),
        (f"x[{'9' * 500}]", ParseError, "a number of 500 digits", "9" * 500),
        ("gen[i < n | ] 0", ParseError, "expected a mark", "]"),
        ("x[0, 0]", RankError, "a scalar has no elements to access", "x[0, 0]"),
        ("transpose x", RankError, "transpose needs 2 dimensions, but this tensor has 1", "transpose x"),
        ("gen[i < n] 2:int32 + x[i]", DtypeError, "'add' has operands of type int32 and float32", "2:int32 + x[i]"),
        ("gen[i < n] 1.5:int32", DtypeError, "the literal 1.5 is not an int32", "1.5:int32"),
        (
            "padding(float8[n])",
            DtypeError,
            "unsupported element type 'float8'",
            "float8",
        ),
        ("gen[i < n // 0] x[i]", ExtentError, "an index is divided by 0", "n // 0"),
    ],
)
def test_parse_error_has_a_caret(body: str, kind: type[ATLError], summary: str, meant: str) -> None:
    error = refusal(f"f (x : float32[n]) :=\n  {body}")
    assert type(error) is kind
    assert error.summary == summary
    assert error.required
    place = error.place
    assert place is not None
    assert place.text[place.start : place.stop] == meant
    assert "^" * len(meant) in str(error)


@pytest.mark.parametrize(
    ("text", "kind", "summary"),
    [
        ("", ParseError, "expected the name of the program, found the end of the text"),
        ("f (x : float32[n]", ParseError, "expected ')' after the declarations, found the end of the text"),
        ("f (x float32[n]) := x", ParseError, "expected ':' and a type, found 'float32'"),
        ("f (x : float32[n], x : size) := x", ParseError, "x is declared twice"),
        ("f (x : 3) := x", ParseError, "expected an element type, found '3'"),
        ("f (x : float32[n] in [0, 3)) := x", ParseError, "x has a range or an order, and elements of type float32"),
        ("f (x : float32[n]) : float32[m] := x", ParseError, "no index or size is called 'm' here"),
        ("f (x : float32[n]) given n := x", ParseError, "expected a condition, found an index expression"),
        ("f (x : float32[n]) : float32[n, n] := x", ShapeError, "the body of f has the shape (n)"),
        ("f (x : float32[n]) : float32[2*n] := x", ShapeError, "the body of f has the shape (n)"),
        ("f (x : float32[n]) : float64[n] := x", DtypeError, "the body of f has elements of type float32, not float64"),
        ("f (n : float32[n]) := n", InvalidName, "n names both a size and an input"),
        ("f (x : float32[n]) : float32 := max[i < n] [i < 2] · x[i]", UnsafeGuard, "contains a guard"),
    ],
)
def test_invalid_header_is_refused(text: str, kind: type[ATLError], summary: str) -> None:
    error = refusal(text)
    assert type(error) is kind
    assert summary in error.summary


def test_comparison_of_values_suggests_min_and_max() -> None:
    with pytest.raises(ParseError, match=r"the index 0\.0 is not an integer") as caught:
        parse("f (x : float32[n]) := gen[i < n] select(0.0 < x[i], x[i], 0.0)")
    assert caught.value.suggestions == (
        "conditions can only contain indices: to select by element values, use min(…) and max(…)",
    )
    parse("f (x : float32[n]) := gen[i < n] max(x[i], 0.0)")


def test_parse_error_message() -> None:
    error = refusal("scale (weights : float32[n]) : float32[n] :=\n  ⊞[i < n] 2 * weigths[i]")
    assert str(error) == (
        """\
no tensor is called 'weigths' here [ATL106]
  in
      scale (weights : float32[n]) : float32[n] :=
        ⊞[i < n] 2 * weigths[i]
                     ^^^^^^^
  required: one of weights
  try: write weights"""
    )
    assert parse(str(error.place.text).replace("weigths", "weights") if error.place else "").name == "scale"


def test_proved_equal_result_type_is_accepted() -> None:
    program = parse("f (x : float32[n], k : size) : float32[k*⌈n / k⌉] given 1 <= k := flatten split k x")
    assert program.shape[0] != size("n")


def test_too_deep_parentheses_are_refused() -> None:
    error = refusal(f"f := {'(' * 100_000}")
    assert type(error) is TooLarge


def test_place_marks_the_part_at_a_path() -> None:
    program = parse("f (A : float32[n, k], B : float32[k, m]) := gen[i < n] gen[j < m] sum[l < k] A[i, l] * B[l, j]")
    marked = {(): "⊞[i < n] ⊞[j < m] Σ[l < k] A[i, l] * B[l, j]", (0,): "⊞[j < m] Σ[l < k] A[i, l] * B[l, j]"}
    marked |= {(0, 0, 0): "A[i, l] * B[l, j]", (0, 0, 0, 1): "B[l, j]", (0, 0, 0, 1, 0): "B[l", (0, 0, 0, 1, 0, 0): "B"}
    for path, meant in marked.items():
        place = place_of(program, path)
        assert place.text == str(program)
        assert place.text[place.start : place.stop] == meant


def test_every_part_has_a_place() -> None:
    text = "let b := ⊞[i < n] -A[i, 0] + 1 in b ++ ((⊞[i < n] [i < 2] · b[i] * 2 - b[0] - 1) ++ flatten A)"
    term = parse_expr(text, inputs=[A.array])
    assert show(term).split() == text.split()

    def walk(at: terms.Expr, path: tuple[int, ...]) -> None:
        place = place_of(term, path)
        assert place.start < place.stop
        for position, child in enumerate(children(at)):
            inner = place_of(term, (*path, position))
            assert place.start <= inner.start
            walk(child.expr, (*path, position))

    walk(term, ())
    assert (place := place_of(term, (1, 1, 0, 0, 0, 0))).text[place.start : place.stop] == "[i < 2] · b[i] * 2"


def test_place_is_one_line_with_the_user_source_line() -> None:
    x = atl.tensor("x", atl.sizes("n"))
    first = x[0]
    long = first * 1.5
    for _ in range(30):
        long = long + first
    place = place_of(terms.Gen(constant(0), size("n"), long.node), (0,))
    assert "\n" not in place.text[place.start : place.stop]
    assert place.source is not None
    assert place.source.text() == "long = long + first"


def test_note_is_appended_to_the_marked_line() -> None:
    place = place_of(parse("f (x : float32[n]) := gen[i < n] x[i]"), (0,), note="here")
    assert place.text.splitlines()[1] == "  ⊞[i < n] x[i]   -- here"


def wide(doublings: int) -> terms.Expr:
    term: terms.Expr = terms.Access(terms.Access(A, constant(0)), constant(1))
    for _ in range(doublings):
        term = terms.Binary("add", term, term)
    return term


@pytest.mark.long
def test_only_messages_abridge_large_terms() -> None:
    term = wide(12)
    assert term.size > WHOLE
    assert len(show(term)) < 6_000
    assert "…" in show(term)
    assert "…" in place_of(term, (0, 1)).text
    assert "..." in show(term, ascii=True)
    program = Program("f", (A.array,), term)
    assert "…" not in str(program)
    assert "…" in show_program(program, abridge=True)
    assert parse_expr(show(term, abridge=False), inputs=[A.array]) == term


def test_deepest_terms_print_and_read_back() -> None:
    chains: list[terms.Expr] = [A, A, terms.Access(terms.Access(A, constant(0)), constant(0))]
    for level in range(MAX_DEPTH // 2 - 10):
        chains[0] = terms.Unary("neg", chains[0]) if level % 2 else terms.Reshape(terms.Transpose(), chains[0])
        chains[1] = terms.Gen(constant(0), size("n"), terms.Access(chains[1], index(Bound(0))))
        chains[2] = terms.Binary("sub", terms.Constant(1.5, "float32"), chains[2])
    for term in chains:
        assert term.depth > MAX_DEPTH // 3
        text = show(term, abridge=False)
        assert parse_expr(text, inputs=[A.array]) == term


def test_deepest_index_expressions_print_and_read_back() -> None:
    expression = size("n")
    for _ in range(MAX_DEPTH // 2 - 10):
        expression = (expression + size("m")) // size("k")
    term = terms.Access(terms.Access(A, expression), constant(0))
    assert parse_expr(show(term, abridge=False), inputs=[A.array]) == term


def test_text_size_is_linear_in_term_size() -> None:
    def printed(stages: int) -> int:
        term: terms.Expr = A
        for _ in range(stages):
            term = terms.Concat(term, terms.Gen(constant(0), size("n"), terms.Access(A, index(Bound(0)))))
        return len(show(term, abridge=False))

    assert printed(160) < 2.2 * printed(80)


def test_opened_variables_get_distinct_names() -> None:
    n, i, other = size("n"), Var(1, "i"), Var(2, "i")
    assert show_index(index(i) + index(other) * n) == "i1*n + i"
    term = terms.Access(terms.Access(terms.TensorVar(7, "A", A.type), index(i)), index(other))
    assert (
        show(terms.Binary("mul", term, terms.Access(terms.Access(A, index(i)), constant(0)))) == "A1[i, i1] * A[i, 0]"
    )


def test_part_prints_without_its_binders() -> None:
    assert show(terms.Access(terms.Local(1, terms.Type("float32", (size("n"),))), index(Bound(0)))) == "#1[#0]"


@pytest.mark.long
@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_printing_is_independent_of_the_hash_seed(seed: str) -> None:
    script = (
        "from atl.parsing.parse import parse\n"
        "p = parse('f (x : float32[n], a : size, b : size, c : size) given 1 <= a, 1 <= b, a < b :='\n"
        "  ' gen[i < n] [i % a = 0 and (i < b or i < c or b <= c*a)] . x[min(a*i, b*i, i//a + i//b, c)]')\n"
        "print(p)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(HERE), "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout == (
        """\
f (x : float32[n], a : size, b : size, c : size) : float32[n]
    given 1 <= a, 1 <= b, a < b :=
  ⊞[i < n] [i % a = 0 ∧ (i < b ∨ i < c ∨ b <= a*c)] · x[min(i*a, i*b, c, i // a + i // b)]
"""
    )


def test_latex_of_a_program() -> None:
    program = parse(
        "f (x_1 : float32[n], k : size) given 1 <= k := let buf := gen[i < n] [1 <= i] . x_1[i - 1] / 2 in"
        " gen[i < ⌈n / k⌉ | parallel] sum[l2 < n] buf[l2 % k] * -x_1[0] + 1e-05"
    )
    assert latex(program).splitlines() == [
        r"$$\begin{aligned}",
        (
            r"& f(x_{1} : \mathsf{float32}[n], k : \mathsf{size}) :"
            r" \mathsf{float32}[\left\lceil \frac{n}{k} \right\rceil] := \\"
        ),
        r"& \quad \text{given } 1 \le k \\",
        (
            r"& \quad \mathbf{let}\ \mathit{buf} := \mathop{\boxplus}\limits_{i < n}\,"
            r" [1 \le i] \cdot \frac{x_{1}[i - 1]}{2} \ \mathbf{in} \\"
        ),
        (
            r"& \quad \mathop{\boxplus}\limits_{i < \left\lceil \frac{n}{k} \right\rceil\ \text{[parallel]}}\,"
            r" \sum_{l_{2} < n}\, \mathit{buf}[l_{2} \bmod k] \cdot -x_{1}[0] + 1 \cdot 10^{-5}"
        ),
        r"\end{aligned}$$",
    ]


def test_latex_braces_are_balanced() -> None:
    term = parse_expr(
        "(let `a b` | stack := gen[1 <= i < n | block.x]"
        " select(i = 2 ∨ i ≠ 3 ∧ true, cast(float32, value(i % 3)), sqrt(abs(A[i, 0]))) in"
        " `a b` ++ flatten transpose split 3 padl 1 padr 2 truncl 1 truncr 1 A[0])"
        " ⊕ -(A[1] - padding(float32[n])) * max(A[0], min(A[1], A[2]))",
        inputs=[A.array],
    )
    text = latex(term)
    assert text.count("{") == text.count("}")
    assert text.count(r"\left") == text.count(r"\right")
