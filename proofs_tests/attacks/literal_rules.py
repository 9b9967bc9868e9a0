"""Random false laws that small numbers do not refute: with literals, large indices, rare tests and unequal extents.

Each law is false by its construction: a test of elements or indices holds for some numbers, and the sides differ there.
"""

from __future__ import annotations

from typing import Final

from proofs_tests.attacks.random_rules import Law
from proofs_tests.programs.choices import Choices, chance, choose

WHOLE: Final = (3, 7, 50, 99, 140, 777, -50, 1000, 12345, -12345, 19000, 123456)
FRACTIONS: Final = (2.5, 0.125, -7.75, 100.25, 1000.5)
ABOVE: Final = (1, 2, 10)
"""Differences between neighbouring literals."""
_XY: Final = "x: Elem, y: Elem"


def _number(choices: Choices) -> float:
    return choose(choices, (*WHOLE, *FRACTIONS)) if chance(choices, 40) else choose(choices, WHOLE)


def _test(choices: Choices, name: str, more: str) -> str:
    """Return a test of one or two elements that few numbers satisfy."""
    at = _number(choices)
    form = choose(
        choices,
        (
            "({a} == {at})", "({a} + {b} == {at})", "({a} - {b} == {at})", "(2 * {a} + 1 == {odd})",
            "({a} * 3 - {b} == {at})", "(({a} < {next}) & ({at} < {a}))", "(abs({a} - {at}) < 0.25)",
            "(maximum({a}, {b}) == {at})", "((minimum({a}, {at}) == {at}) & ({a} <= {next}))",
            "(where({a} < {b}, {a}, {b}) == {at})", "(~({a} != {at}))",
        ),
    )  # fmt: skip
    return form.format(a=name, b=more, at=at, next=at + choose(choices, ABOVE), odd=2 * choose(choices, WHOLE) + 1)


def _of_elements(choices: Choices) -> Law:
    """Return a law about a choice between two elements, which is false where one to three tests hold."""
    names = ["a", "b", "c"][: choices.integer(1, 3)]
    parts = [_test(choices, name, f"{name}2") for name in names]
    kinds = ", ".join(f"{name}: Elem, {name}2: Elem" for name in names)
    test, none = " & ".join(f"({part})" for part in parts), " + ".join(f"0 * {name}2" for name in names)
    return Law(f"{kinds}, {_XY}", f"where({test}, x, y) + {none}", f"y + {none}")


def _of_bounds(choices: Choices) -> Law:
    """Return a law about two bounds, of which one is a little larger."""
    at = _number(choices)
    further = at + choose(choices, (*ABOVE, 0.5, 0.001))
    left, right = choose(
        choices,
        (
            ("where(a < {0}, x, y)", "where(a < {1}, x, y)"),
            ("where({0} < a, x, y)", "where({1} <= a, x, y)"),
            ("maximum(a, {0})", "maximum(a, {1})"),
            ("minimum(maximum(a, {0}), {1})", "maximum(a, {0})"),
            ("where(2 * a <= {0}, x, y)", "where(2 * a <= {1}, x, y)"),
            ("abs(a - {0})", "maximum(a - {0}, {0} - a) + where(a == {1}, x, 0 * x)"),
        ),
    )
    left, right = (f"{side.format(at, further)} + 0 * x + 0 * y" for side in (left, right))
    return Law(f"a: Scalar, {_XY}", left, right)


def _of_indices(choices: Choices) -> Law:
    """Return a law about an index that is false at or from a number."""
    at = abs(choose(choices, WHOLE))
    parameters, left, right, premises = choose(
        choices,
        (
            ("n: Index, e: Body[Index]", "e(n)", "e(imin(n, {0}))", ""),
            ("n: Index, e: Body[Index]", "e(n)", "select(n == {0}, e(n + 1), e(n))", "n >= 0"),
            ("n: Index, e: Elem", "guard(n == {0}, e)", "0 * e", ""),
            ("n: Index, e: Body[Index]", "guard(3 * n == {3}, e(n))", "guard(n == {1}, e(n))", ""),
            ("n: Index, e: Body[Index]", "e(n // {0})", "e(n // {1})", "n >= 0"),
            ("n: Index, e: Body[Index]", "e(n % {0})", "e(n)", "n >= 0, n <= {0}"),
            ("n: Index, m: Index, e: Body[Index]", "guard(n + m == {0}, e(n))", "guard(n + m == {0}, e({0} - m - 1))",
             ""),
            ("p: Cond[Index], n: Index, e: Elem", "guard(p(n), e)", "guard(p(n) & (n != {0}), e)", ""),
            ("v: Vector, i: Index", "v[i]", "guard(i != {0}, v[i])", ""),
            ("m: Matrix, i: Index, j: Index", "m[i, j]", "guard(j != {0}, m[i, j])", "0 <= i, i < m.shape[0]"),
            ("v: Vector, i: Index", "v[i + {0}]", "guard(i != {1}, v[i + {0}])", "0 <= i"),
            ("v: Vector", "v[{0}]", "0 * v[0]", "v.shape[0] >= 1"),
            ("n: Index, a: Scalar, b: Scalar", "where(value(n) == {0}, a, b)", "b", ""),
            ("n: Index, a: Scalar", "a * value(n)", "a * value(imin(n, {0}))", ""),
            ("n: Index, a: Scalar", 'cast("int64", a * 0) + cast("int64", cast("int32", value(n)))',
             'cast("int64", a * 0) + value(n)', "n >= 0"),
            ("n: Index, a: Scalar, b: Scalar", "where(a * 0 + value(n) < {0}, a, b)",
             "where(a * 0 + value(n) < {1}, a, b)", ""),
        ),
    )  # fmt: skip
    left, right, premises = (part.format(at, at + 1, at + 2, 3 * at) for part in (left, right, premises))
    return Law(parameters, left, right, premises)


def _of_loops(choices: Choices) -> Law:
    """Return a law about a sum, a fold or a recurrence that is false from a number of terms, or for rare elements."""
    at = choose(choices, (5, 9, 20, 60))
    parameters, left, right, premises = choose(
        choices,
        (
            ("n: Index, e: Body[Index]", "sum(n, e)", "sum(imin(n, {0}), e)", ""),
            ("n: Index, e: Body[Index]", 'reduce("max", n, e)', 'reduce("max", imin(n, {0}), e)', "n >= 1"),
            ("n: Index, e: Body[Index]", "sum(n, lambda i: guard(i != {0}, e(i)))", "sum(n, e)", ""),
            ("n: Index, e: Body[Index]", "sum(n, lambda i: where(e(i) == {2}, e(i) * 0, e(i)))", "sum(n, e)", ""),
            ("a: Vector, n: Index", "rec(a, n, lambda p, y: where(y[p - 1] == {2}, 0 * y[p - 1], y[p - 1]))",
             "rec(a, n, lambda p, y: y[p - 1])", "a.shape[0] >= 1"),
            ("a: Vector, n: Index", "rec(a, n, lambda p, y: y[p - 1] + guard(p == {0}, a[0]))",
             "rec(a, n, lambda p, y: y[p - 1])", "a.shape[0] >= 1"),
            ("n: Index, k: Index, e: Body[Index]", "gen(n, e)[k]", "guard((0 <= k) & (k < imin(n, {0})), e(k))", ""),
        ),
    )  # fmt: skip
    rare = choose(choices, WHOLE)
    left, right, premises = (part.format(at, at + 1, rare) for part in (left, right, premises))
    return Law(parameters, left, right, premises)


def _of_extents(choices: Choices) -> Law:
    """Return a law about operands whose extents differ where nothing is computed, or that looks at an extent."""
    at = choose(choices, (4, 6, 30))
    parameters, left, right, premises = choose(
        choices,
        (
            ("v: Vector, w: Vector", "sum(v.shape[0], lambda i: v[i] + w[i])", "sum(w.shape[0], lambda i: v[i] + w[i])",
             "v.shape[0] <= {0}"),
            ("v: Vector", "sum(v.shape[0], lambda i: v[i])", "sum(imin(v.shape[0], {0}), lambda i: v[i])", ""),
            ("y: Vector, v: Vector, w: Vector", "sum(v.shape[0], lambda i: y[i] * (v + w)[i])",
             "sum(v.shape[0], lambda i: y[i] * v[i]) + sum(w.shape[0], lambda i: y[i] * w[i])", ""),
            ("p: Cond, v: Vector, w: Vector", "sum(v.shape[0], lambda i: select(p, v, w)[i])",
             "guard(p, sum(v.shape[0], lambda i: v[i])) + guard(~p, sum(w.shape[0], lambda i: w[i]))", ""),
            ("a: Elem", "a + guard(a.shape[0] == {0}, a) if a.rank else a", "a", ""),
            ("m: Matrix, i: Index", "m[i]", "m[i] + guard(m.shape[1] == {0}, m[i])", ""),
        ),
    )  # fmt: skip
    left, right, premises = (part.format(at) for part in (left, right, premises))
    return Law(parameters, left, right, premises)


def _of_casts(choices: Choices) -> Law:
    """Return a law about rounding twice, which differs from rounding once next to midpoints."""
    between, smaller = choose(choices, (("float32", "float16"), ("float32", "bfloat16"), ("float16", "bfloat16")))
    more, test = choose(choices, (("", "a"), (", b: Scalar", "where(a < b, a, b)"), (", b: Scalar", "maximum(a, b)")))
    none = ' + cast("float64", b) * 0' if more else ""
    twice, once = f'cast("{smaller}", cast("{between}", {test}))', f'cast("{smaller}", {test})'
    return Law(f"a: Scalar{more}", f'cast("float64", {twice}){none}', f'cast("float64", {once}){none}')


FORMS: Final = (_of_elements, _of_bounds, _of_indices, _of_loops, _of_extents, _of_casts)


def drawn_false_law(choices: Choices) -> Law:
    """Return a false law."""
    return choose(choices, FORMS)(choices)
