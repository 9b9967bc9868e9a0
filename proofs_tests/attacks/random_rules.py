"""Random texts of user-defined rules: true laws, similar false ones, and mutants of true ones.

A text combines one or two laws of a table, and may be wrapped in another operation. A mutant may be true or false.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from proofs_tests.programs.choices import Choices, chance, choose

HEAD: Final = """
import atl
from atl import (abs, cast, concat, flatten, gen, guard, imax, imin, let, maximum, minimum, padl, padr, rec, reduce,
                 select, split, sqrt, sum, transpose, truncl, truncr, value, where)
from rewrites.user_rules import (Body, BodyT, Cond, Cube, Elem, ElemT, Equation, Index, Matrix, Scalar, Vector,
                                 equation, given, rule)
"""
"""Text before each rule. Its list CALLS logs each call of the rule's function."""


@dataclass(frozen=True, slots=True)
class Law:
    """Equation as text: its parameters, such as "a: Elem, n: Index", its sides and its premises."""

    parameters: str
    left: str
    right: str
    premises: str = ""
    scalar: bool = True
    """Both sides have the shape of an element, so that the law can be combined with others."""

    @property
    def names(self) -> list[str]:
        return re.findall(r"(\w+):", self.parameters)

    def source(self, name: str) -> str:
        """Return the text of a rule with this name."""
        sides = ", ".join(part for part in (self.left, self.right, f"given({self.premises})") if part != "given()")
        return (
            f"@rule\ndef {name}({self.parameters}) -> Equation:\n"
            f'    """A law that was made by chance."""\n    CALLS.append("{name}")\n    return equation({sides})\n'
        )


def _laws(*lines: tuple[str, ...], scalar: bool = True) -> tuple[Law, ...]:
    return tuple(
        Law(parameters, left, right, premises[0] if premises else "", scalar=scalar)
        for parameters, left, right, *premises in lines
    )


_SUM: Final = "n: Index, e: Body[Index]"
_TWO: Final = "a: Elem, b: Elem"
TRUE: Final = _laws(
    (_TWO, "a + b", "b + a"),
    (f"{_TWO}, c: Elem", "a * (b + c)", "a * b + a * c"),
    (_TWO, "(a + b) * (a - b)", "a * a - b * b"),
    ("a: Elem", "a + a", "2 * a"),
    ("a: Elem", "a - (-a) * 2", "a * 3"),
    ("p: Cond, q: Cond, e: Elem", "guard(p, guard(q, e))", "guard(p & q, e)"),
    (f"p: Cond, {_TWO}", "guard(p, a) + guard(p, b)", "guard(p, a + b)"),
    ("p: Cond, e: Elem", "guard(p, e) + guard(~p, e)", "e"),
    (f"p: Cond, {_TWO}", "select(p, a, b)", "guard(p, a) + guard(~p, b)"),
    (_SUM, "sum(n, e)", "sum(n, lambda i: e(n - 1 - i))"),
    ("l: Index, m: Index, n: Index, e: Body[Index]", "sum((l, m), e) + sum((m, n), e)", "sum((l, n), e)",
     "l <= m, m <= n"),
    (f"{_SUM}, f: Body[Index]", "sum(n, lambda i: e(i) + f(i))", "sum(n, e) + sum(n, f)"),
    (f"{_SUM}, c: Elem", "c * sum(n, e)", "sum(n, lambda i: c * e(i))"),
    (_SUM, "sum(n, lambda i: e(i + 1) - e(i))", "e(n) - e(0)", "n >= 0"),
    ("n: Index, m: Index, e: Body[Index, Index]", "sum(n, lambda i: sum(m, lambda j: e(i, j)))",
     "sum(m, lambda j: sum(n, lambda i: e(i, j)))"),
    (_SUM, "sum(n + 1, e)", "sum(n, e) + e(n)", "n >= 0"),
    (f"{_SUM}, k: Index", "sum(n, lambda i: guard(i == k, e(i)))", "guard((0 <= k) & (k < n), e(k))"),
    (f"{_SUM}, k: Index", "gen(n, e)[k]", "guard((0 <= k) & (k < n), e(k))"),
    (_TWO, "let(a, lambda x: x + b)", "a + b"),
    ("a: Elem, f: Body[Elem]", "let(a, lambda x: f(x))", "f(a)"),
    (f"{_TWO}, f: Body[Elem]", "f(a + b)", "f(b + a)"),
    ("v: Vector", "sum(v.shape[0], lambda i: v[i])", "sum(v.shape[0], lambda i: v[v.shape[0] - 1 - i])"),
    ("v: Vector", "sum(v.shape[0], lambda i: v[i])", "v[0] + v[1]", "v.shape[0] == 2"),
    ("m: Matrix, i: Index, j: Index", "transpose(m)[i][j]", "m[j][i]"),
    ("m: Matrix", "sum(m.shape[0], lambda i: sum(m.shape[1], lambda j: m[i, j]))",
     "sum(m.shape[1], lambda j: sum(m.shape[0], lambda i: m[i, j]))"),
    ("m: Matrix, v: Vector, i: Index", "sum(v.shape[0], lambda k: m[i, k] * v[k])",
     "sum(v.shape[0], lambda k: v[k] * m[i, k])"),
    ("p: Cond, a: Elem", 'cast("int64", guard(p, a))', 'guard(p, cast("int64", a))'),
    ("a: Elem", 'cast("float32", a) * 1', 'cast("float32", a)'),
    (_TWO, "maximum(a, b)", "maximum(b, a)"),
    (f"{_TWO}, c: Elem", "minimum(a, minimum(b, c))", "minimum(minimum(c, b), a)"),
    ("v: Vector, k: Index, i: Index", "padr(k, v)[i]", "v[i]", "k >= 0"),
    ("v: Vector, k: Index, i: Index", "padl(k, v)[i]", "v[i - k]", "k >= 0"),
    ("v: Vector, k: Index, i: Index", "truncl(k, v)[i]", "guard(0 <= i, v[i + k])", "k >= 0, k <= v.shape[0]"),
    ("v: Vector, k: Index, i: Index", "flatten(split(k, v))[i]", "v[i]", "k > 0"),
    ("n: Index, k: Index, e: Body[Index]", "e(n // k * k + n % k)", "e(n)", "k > 0"),
    ("i: Index, m: Index, e: Body[Index]", "e(i % m)", "e(i)", "0 <= i, i < m"),
    ("n: Index, m: Index, e: Body[Index]", "e(imax(n, m))", "select(n <= m, e(m), e(n))"),
    ("n: Index, m: Index, a: Scalar", "a * value(n) + a * value(m)", "a * value(n + m)"),
    (f"p: Cond[Index], {_SUM}", "sum(n, lambda i: guard(p(i), e(i))) + sum(n, lambda i: guard(~p(i), e(i)))",
     "sum(n, e)"),
    ("n: Index, m: Index, k: Index, e: Body[Index], f: Body[Index]", "concat(gen(n, e), gen(m, f))[k]",
     "select(k < n, gen(n, e)[k], gen(m, f)[k - n])"),
    (_SUM, 'reduce("max", n, e)', 'reduce("max", n, lambda i: e(n - 1 - i))'),
    (_TWO, "where(a < b, a, b)", "minimum(a, b)"),
    (_TWO, "where(a <= b, b, a)", "where(a < b, b, a)"),
    (f"{_TWO}, c: Elem, d: Elem", "where(~(a < b), c, d)", "where(a < b, d, c)"),
    (f"p: Cond, {_TWO}, c: Elem, d: Elem", "where(a < b, select(p, c, d), d)", "select(p, where(a < b, c, d), d)"),
    (f"{_SUM}, a: Elem", "rec(gen(1, lambda i: a), n + 1, lambda p, y: y[p - 1] + e(p - 1))[n]", "a + sum(n, e)",
     "n >= 0"),
    (f"{_SUM}, k: Index", "rec(gen(1, e), n, lambda p, y: e(p))[k]", "e(k)", "n >= 1, 0 <= k, k < n"),
) + _laws(
    ("m: Matrix", "transpose(transpose(m))", "m"),
    ("v: Vector, k: Index", "truncr(k, padr(k, v))", "v", "k >= 0"),
    ("v: Vector", "gen(v.shape[0], lambda i: v[v.shape[0] - 1 - i])",
     "gen(v.shape[0], lambda i: gen(v.shape[0], lambda j: v[v.shape[0] - 1 - j])[i])"),
    ("v: Vector, w: Vector", "v + w", "gen(v.shape[0], lambda i: v[i] + w[i])"),
    ("c: Cube", "transpose(c)", "gen(c.shape[1], lambda i: gen(c.shape[0], lambda j: c[j, i]))"),
    scalar=False,
)  # fmt: skip
"""Laws that hold for all element types."""

OF_FLOATS: Final = _laws(
    (f"{_TWO}, c: Elem", "maximum(a + c, b + c)", "maximum(a, b) + c"),
    (_TWO, "abs(a) * abs(b)", "abs(a * b)"),
    (_TWO, "maximum(a, b)", "maximum(a - b, 0 * a) + b"),
    ("a: Elem", "sqrt(a * a)", "abs(a)"),
    ("a: Elem", "a * 0.5 + a * 0.5", "a"),
    (_TWO, "(a + b) / 4", "a / 4 + b / 4"),
    (_TWO, 'cast("float64", a + b)', 'cast("float64", a) + cast("float64", b)'),
)
"""Laws that hold for floats only, because integers wrap."""

FALSE: Final = _laws(
    (_TWO, "a - b", "b - a"),
    (f"{_TWO}, c: Elem", "a * (b + c)", "a * b + c"),
    ("a: Elem", "a + a", "3 * a"),
    ("p: Cond, q: Cond, e: Elem", "guard(p, guard(q, e))", "guard(p | q, e)"),
    (f"p: Cond, {_TWO}", "select(p, a, b)", "guard(p, b) + guard(~p, a)"),
    ("p: Cond, e: Elem", "guard(p, e)", "e"),
    (_SUM, "sum(n, e)", "sum(n, lambda i: e(n - i))"),
    (_SUM, "sum(n, e)", "sum(n - 1, e)"),
    (_SUM, "sum(n, e)", "e(0) + e(1)", "n >= 2"),
    ("l: Index, m: Index, n: Index, e: Body[Index]", "sum((l, m), e) + sum((m, n), e)", "sum((l, n), e)"),
    ("l: Index, m: Index, n: Index, e: Body[Index]", "sum((l, m), e) + sum((m + 1, n), e)", "sum((l, n), e)",
     "l <= m, m <= n"),
    (_SUM, "sum(n, lambda i: e(i + 1) - e(i))", "e(n) - e(0)"),
    ("n: Index, m: Index, e: Body[Index, Index]", "sum(n, lambda i: sum(m, lambda j: e(i, j)))",
     "sum(n, lambda i: sum(m, lambda j: e(j, i)))"),
    (f"{_SUM}, k: Index", "gen(n, e)[k]", "e(k)"),
    (f"{_SUM}, k: Index", "gen(n, e)[k]", "guard((0 <= k) & (k <= n), e(k))"),
    (f"{_TWO}, f: Body[Elem]", "f(a + b)", "f(a) + f(b)"),
    ("v: Vector", "sum(v.shape[0], lambda i: v[i])", "v[0] + v[1]"),
    ("v: Vector", "sum(v.shape[0], lambda i: v[i])", "v[0] + v[1] + v[2]", "v.shape[0] >= 2"),
    ("a: Elem", "sum(a.shape[0], lambda i: a[i])", "a[0] + a[1]"),
    ("a: Elem", "sum(a.shape[-1], lambda i: value(i)) * a", "3 * a"),
    ("a: Elem", "value(a.shape[0]) * a", "2 * a"),
    ("m: Matrix, i: Index, j: Index", "m[i, j]", "m[j, i]"),
    ("m: Matrix", "sum(m.shape[0], lambda i: m[i, 0])", "sum(m.shape[1], lambda i: m[0, i])"),
    ("m: Matrix, w: Matrix, i: Index, j: Index", "sum(m.shape[1], lambda k: m[i, k] * w[k, j])",
     "sum(w.shape[1], lambda k: w[i, k] * m[k, j])"),
    ("a: Elem", "a if a.rank < 3 else a + a", "a"),
    ("a: Elem", "a", "a if a.rank < 4 else 0 * a"),
    (_TWO, "a * b if len(a.shape) < 3 else a", "b * a"),
    ("a: Elem, b: ElemT", "a if (a.rank, b.rank) != (3, 4) else a + a", "a"),
    ("a: Elem, b: ElemT", "maximum(a, a) if (a.rank, b.rank) != (2, 3) else a + a", "a"),
    ("a: Elem", "let(a, lambda x: x * x)", "a * 2"),
    (_TWO, 'cast("int32", a + b)', 'cast("int32", a) + cast("int32", b)'),
    (_TWO, 'cast("int64", a + b)', 'cast("int64", a) + cast("int64", b)'),
    (_TWO, 'cast("float32", a * b)', 'cast("int32", a * b) * 1'),
    ("n: Index", 'cast("int64", cast("int32", value(0)) + value(n))', 'cast("int64", cast("float64", 0.0) + value(n))'),
    ("v: Vector, k: Index, i: Index", "truncl(k, v)[i]", "guard(0 <= i, v[i + k + 1])", "k >= 0, k <= v.shape[0]"),
    ("v: Vector, k: Index, i: Index", "truncl(k, v)[i]", "v[i + k]", "k >= 0, k <= v.shape[0]"),
    ("v: Vector, k: Index, i: Index", "truncl(k, v)[i]", "guard(0 <= i, v[i + 1])",
     "k >= 1, k <= 3, k + 3 <= v.shape[0]"),
    ("v: Vector, k: Index, i: Index", "padl(k, v)[i]", "v[i]", "k >= 0"),
    ("i: Index, m: Index, e: Body[Index]", "e(i % m)", "e(i)", "0 <= i, i <= m"),
    ("n: Index, k: Index, e: Body[Index]", "e(n // k * k)", "e(n)", "k > 0"),
    ("n: Index, m: Index, a: Scalar", "a * value(n) * value(m)", "a * value(n + m)"),
    (_SUM, 'reduce("max", n, e)', "sum(n, e)"),
    (_TWO, "where(a < b, b, a)", "minimum(a, b)"),
    (f"{_TWO}, c: Elem, d: Elem", "where(a < b, c, d)", "where(a <= b, c, d)"),
    (f"{_SUM}, a: Elem", "rec(gen(1, lambda i: a), n + 1, lambda p, y: y[p - 1] + e(p))[n]", "a + sum(n, e)", "n >= 0"),
    (f"{_SUM}, a: Elem", "rec(gen(1, lambda i: a), n + 2, lambda p, y: y[p - 1] + e(p - 1))[n]", "sum(n, e)", "n >= 0"),
    (_SUM, "sum(n, e)", "sum(3, e)", "n >= 3, n <= 4"),
    ("a: Vector, b: Vector, f: Body[Vector], l: Index, m: Index, n: Index, k: Index", "f(a + b)",
     "guard(a.shape[0] == b.shape[0], f(a + b))", "l == 3, m == 2, n == 1, k == -1"),
    ("a: Elem, l: Index, m: Index, n: Index, k: Index, i: Index", "maximum(a + 1, a)", "a + 1",
     "l == 3, m == 2, n == 1, k == -1, i == 0"),
) + _laws(
    ("m: Matrix", "transpose(m)", "m"),
    ("c: Cube", "transpose(c)", "gen(c.shape[0], lambda i: gen(c.shape[1], lambda j: c[j, i]))"),
    ("a: Elem", "a if a.rank < 2 else transpose(a)", "a"),
    ("a: Elem", "a if a.rank < 3 else transpose(gen(a.shape[0], lambda i: transpose(a[i])))", "a"),
    ("v: Vector, k: Index", "truncr(k, padl(k, v))", "v", "k >= 0"),
    ("v: Vector, w: Vector", "concat(v, w)", "concat(w, v)"),
    scalar=False,
)  # fmt: skip
"""Laws that do not hold."""

WRAPS: Final = (
    ("", "{0} * 2"),
    ("", "-({0})"),
    ("p_: Cond", "guard(p_, {0})"),
    ("n_: Index", "sum(n_, lambda z: {0})"),
    ("n_: Index, k_: Index", "gen(n_, lambda z: {0})[k_]"),
    ("x_: Elem", "{0} + x_"),
    ("p_: Cond, x_: Elem", "select(p_, {0}, x_)"),
    ("", "let({0}, lambda z: z * z)"),
)
"""Operations around both sides."""
JOINS: Final = ("{0} + {1}", "{0} * {1}", "{0} - {1}")


def drawn_law(choices: Choices) -> tuple[str, Law]:
    """Return a kind ("true", "of floats", "false" or "changed") and a law."""
    kind = choose(choices, ("true", "true", "true", "of floats", "false", "false", "false", "changed", "changed"))
    table = {"of floats": OF_FLOATS, "false": FALSE}.get(kind, TRUE)
    law = choose(choices, table)
    if law.scalar and chance(choices, 30):
        law = _joined(law, choose(choices, [other for other in TRUE if other.scalar]), choose(choices, JOINS))
    if law.scalar and chance(choices, 30):
        law = _wrapped(law, *choose(choices, WRAPS))
    return kind, changed(law, choices) if kind == "changed" else law


def _joined(law: Law, other: Law, by: str) -> Law:
    def moved(text: str) -> str:
        return re.sub(rf"(?<![\w.])({'|'.join(other.names)})\b(?!=)", r"\1_2", text)

    return Law(
        f"{law.parameters}, {moved(other.parameters)}",
        by.format(f"({law.left})", f"({moved(other.left)})"),
        by.format(f"({law.right})", f"({moved(other.right)})"),
        ", ".join(filter(None, (law.premises, moved(other.premises)))),
    )


def _wrapped(law: Law, more: str, around: str) -> Law:
    return replace(
        law,
        parameters=", ".join(filter(None, (law.parameters, more))),
        left=around.format(f"({law.left})"),
        right=around.format(f"({law.right})"),
    )


def changed(law: Law, choices: Choices) -> Law:
    """Return the law with a changed number, sign, comparison or order, or without a premise."""
    ways = [
        (field, found.start(), found.group(), to)
        for field in ("left", "right", "premises")
        for old, to in (
            (r"\b\d\b(?!\")", ""), (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " + "), (r"<=", "<"), (r"<(?!=)", "<="),
            (r">=", ">"), (r"padl", "padr"), (r"truncl", "truncr"), (r"\bi, j\b", "j, i"), (r"&", "|"), (r"~", ""),
        )
        for found in re.finditer(old, getattr(law, field))
    ]  # fmt: skip
    if law.premises and chance(choices, 30):
        kept = law.premises.split(", ")
        kept.pop(choices.integer(0, len(kept) - 1))
        return replace(law, premises=", ".join(kept))
    if not ways:
        return replace(law, right=f"({law.right}) * 2")
    field, start, old, to = choose(choices, ways)
    text = getattr(law, field)
    made = str(int(old) + choose(choices, (1, -1))) if old.isdigit() else to
    whole = f"{text[:start]}{made}{text[start + len(old) :]}"
    match field:
        case "left":
            return replace(law, left=whole)
        case "right":
            return replace(law, right=whole)
        case _:
            return replace(law, premises=whole)
