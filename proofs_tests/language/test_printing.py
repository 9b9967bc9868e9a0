"""Printed programs: golden texts, and parsing as the inverse of printing."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pytest

import atl
from atl.core import index as ix
from atl.core import predicate as pred
from atl.core import terms
from atl.core.index import index
from atl.core.marks import LetMark, LoopMark
from atl.core.operations import FLOAT_ONLY, BinaryOp, UnaryOp
from atl.core.program import Program
from atl.core.substitution import map_type
from atl.errors import ParseError, RaggedShape
from atl.parsing.parse import parse, parse_expr, parse_index, parse_predicate
from atl.text.printing import show, show_index, show_predicate, show_program

pytestmark = pytest.mark.sampled

n, m, k = ix.size("n"), ix.size("m"), ix.size("k")
T = TypeVar("T")

IDX: Final = ix.Array("idx", (n,), "int32", ix.constant(0), m, monotonic="increasing")
GRID: Final = ix.Array("grid", (n, m), "int64")
COUNT: Final = ix.Array("count", (), "int32")
INPUTS: Final = (
    ix.Array("A", (n, m), "float32"),
    ix.Array("x", (n,), "float32"),
    ix.Array("y", (m,), "float64"),
    ix.Array("s", (), "float64"),
    IDX,
    GRID,
    COUNT,
)


def assert_reads_back(program: Program) -> None:
    """Check that both notations parse to the program, with names and marks."""
    for ascii_only in (False, True):
        text = show_program(program, ascii=ascii_only)
        again = parse(text)
        assert again == program
        assert show_program(again, ascii=ascii_only) == text
        if ascii_only:
            assert text.isascii()
    assert str(program) == show_program(program)


def matmul() -> Program:
    n, m, k = atl.sizes("n m k")
    a, b = atl.tensor("A", n, k), atl.tensor("B", k, m)
    return atl.program("matmul", [a, b], atl.gen(n, m, lambda i, j: atl.sum(k, lambda l: a[i, l] * b[l, j])))  # noqa: E741


def blur() -> Program:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    return atl.program(
        "blur",
        [x],
        atl.let(
            atl.gen(n, lambda i: atl.guard(i >= 1, x[i - 1]) + x[i]),
            lambda buf: atl.gen(n, lambda i: atl.guard(i + 1 < n, buf[i + 1]) + buf[i] * 0.5),
        ),
    )


def tiled_matmul() -> Program:
    n, m, k = atl.sizes("n m k")
    t = atl.sizes("t", min=1)
    a, b = atl.tensor("A", n, k), atl.tensor("B", k, m)

    def row(io: Any, ii: Any) -> Any:
        i = io * t + ii
        return atl.guard(i < n, atl.gen(m, lambda j: atl.sum(k, lambda l: a[i, l] * b[l, j])))  # noqa: E741

    tiles = atl.ceildiv(n, t)
    return atl.program("tiled", [a, b], atl.truncr(tiles * t - n, atl.flatten(atl.gen(tiles, t, row))))


def gather() -> Program:
    n, m = atl.sizes("n m")
    idx = atl.tensor("idx", n, dtype="int32", range=(0, m), monotonic="increasing")
    x = atl.tensor("x", m, dtype="float64")
    return atl.program("gather", [idx, x], atl.gen(n, lambda i: x[idx[i]] + atl.value(i) / 2))


def shadowing() -> Program:
    n, i = atl.sizes("n i")
    x = atl.tensor("x", n)
    return atl.program(
        "shadowing",
        [x],
        atl.let(
            atl.gen(n, lambda i: x[i] + 1),
            lambda x: atl.gen(n, i, lambda j, i: atl.sum(n, lambda j: x[j] * atl.value(i))),
        ),
    )


def stencil() -> Program:
    n = atl.sizes("n")
    image = atl.tensor("image", n, n)
    body = atl.gen(
        n,
        n,
        lambda row, column: atl.sum(
            3,
            3,
            lambda p, q: (
                atl.guard(
                    (row + p >= 1) & (row + p <= n) & (column + q >= 1) & (column + q <= n),
                    image[row + p - 1, column + q - 1],
                )
                * atl.select(p < q, atl.value(p) / 16.0, atl.value(q) / 16.0)
                + atl.maximum(image[row, column], 0.0)
            ),
        ),
    )
    return atl.program("stencil", [image], body)


GOLDEN: Final[dict[Callable[[], Program], str]] = {
    matmul: """\
matmul (A : float32[n, k], B : float32[k, m]) : float32[n, m] :=
  ⊞[i < n] ⊞[j < m] Σ[l < k] A[i, l] * B[l, j]""",
    blur: """\
blur (x : float32[n]) : float32[n] :=
  let buf := ⊞[i < n] [1 <= i] · x[i - 1] + x[i] in
  ⊞[i < n] [i + 1 < n] · buf[i + 1] + buf[i] * 0.5""",
    tiled_matmul: """\
tiled (A : float32[n, k], B : float32[k, m], t : size) : float32[n, m]
    given 1 <= t :=
  truncr (⌈n / t⌉*t - n) flatten ⊞[io < ⌈n / t⌉] ⊞[ii < t] [io*t + ii < n] · ⊞[j < m] Σ[l < k]
    A[io*t + ii, l] * B[l, j]""",
    gather: """\
gather (idx : int32[n] in [0, m) strict, x : float64[m]) : float64[n] :=
  ⊞[i < n] x[idx[i]] + value(i) / 2""",
    shadowing: """\
shadowing (x : float32[n], i : size) : float32[n, i] :=
  let x1 := ⊞[i1 < n] x[i1] + 1 in
  ⊞[j < n] ⊞[i1 < i] Σ[j1 < n] x1[j1] * value(i1)""",
    stencil: """\
stencil (image : float32[n, n]) : float32[n, n] :=
  ⊞[row < n] ⊞[column < n] Σ[p < 3] Σ[q < 3]
    ([1 <= row + p <= n ∧ 1 <= column + q <= n] · image[row + p - 1, column + q - 1])
    * select(p < q, value(p) / 16.0, value(q) / 16.0)
    + max(image[row, column], 0.0)""",
}
TILED_ASCII: Final = """\
tiled (A : float32[n, k], B : float32[k, m], t : size) : float32[n, m]
    given 1 <= t :=
  truncr (ceildiv(n, t)*t - n) flatten gen[io < ceildiv(n, t)] gen[ii < t] [io*t + ii < n] .
  gen[j < m] sum[l < k] A[io*t + ii, l] * B[l, j]"""


@pytest.mark.parametrize("make", GOLDEN, ids=lambda make: make.__name__)
def test_program_prints_as_golden_text_and_reads_back(make: Callable[[], Program]) -> None:
    program, text = make(), GOLDEN[make]
    assert show_program(program) == text
    if make is not stencil:
        plain = text.replace("⊞", "gen").replace("Σ", "sum").replace(" · ", " . ")
        assert show_program(program, ascii=True) == (TILED_ASCII if make is tiled_matmul else plain)
    assert_reads_back(program)


@pytest.mark.parametrize(
    "text",
    [
        "f : float32 :=\n  2.5",
        "f : int32 :=\n  7",
        "f (x : float32[n]) : float32[n] :=\n  x",
        "f (s : float64) : float64 :=\n  -(-s) - -1.5",
        "f (s : float64) : float64 :=\n  -(1.5) * s + 1e+308",
        "f (n : size) : float32[n]\n    given 2 <= n, n <= 100 :=\n  ⊞[i < n] 1e-05",
        "f (n : size) : float32[n - 1]\n    given 1 <= n :=\n  ⊞[1 <= i < n] value(i)",
        "f (x : float32[n]) : float32 :=\n  Π[i < n] x[i]",
        "f (x : float32[n]) : float32 :=\n  max[i < n | unroll] min(x[i], 0)",
        "f (x : float32[n], y : float32[n]) : float32[n] :=\n  x ⊕ y - x * (x / y)",
        "f (x : float32[n], y : float32[m]) : float32[m + n] :=\n  x ++ y",
        "f (x : float32[n, m]) : float32[m, n] :=\n  transpose x",
        "f (x : float32[n, m], k : size) : float32[⌈m*n / k⌉, k]\n    given 1 <= k :=\n  split k flatten x",
        "f (x : float32[n]) : float32[n + 5] :=\n  padl 2 padr 3 x",
        "f (x : float32[n + 5]) : float32[n] :=\n  truncl 2 truncr 3 x",
        "f (x : float32[n]) : float64[n] :=\n  ⊞[i < n | parallel] cast(float64, x[i] + 1)",
        "f : float64 :=\n  cast(float64, 2:int32)",
        "f : float64 :=\n  let x := 2.0:float64 in x",
        "f (x : float32[n]) : float32 :=\n  let t | stack := x in t[0]",
        "f (x : float32[n]) : float32[n] :=\n  ⊞[i < n] select(i = 0 ∨ n <= i + 1, 0, abs(x[i - 1]))",
        "f (x : float32[n]) : float32[n] :=\n  ⊞[i < n] [i ≠ 3 ∧ i % 2 = 0] · x[i]",
        "f (n : size) : float32[n] :=\n  padding(float32[n])",
        "f (x : float32[n]) : float32 :=\n  (Σ[i < n] x[i]) * 2 + Σ[i < n] x[i] * x[i]",
        "f (x : float32[n]) : float32 :=\n  sqrt(Σ[i < n] x[i]) + max[i < n] x[i]",
        "`sum` (`max` : float32[`in`], f_1 : float32) : float32[`in`] :=\n  ⊞[`gen` < `in`] `max`[`gen`] + f_1",
        "`a b` (s : float32) : float32 :=\n  s",
        "f (p : int32[n + 1] in [0, ∞), q : int64[n] in (-∞, n), r : int32[n] strict) : int32 :=\n  p[r[q[0]]]",
    ],
)
def test_canonical_text_is_unchanged(text: str) -> None:
    assert str(parse(text)) == text
    assert_reads_back(parse(text))


@pytest.mark.parametrize(
    ("loose", "printed"),
    [
        ("gen[i<n] x[i]  # a copy", "⊞[i < n] x[i]"),
        ("gen[0 <= i < n] (x[i])", "⊞[i < n] x[i]"),
        ("gen [ i < n ] [i > 0 & !i]", None),
        ("∑[i < n] x[i]×2", "Σ[i < n] x[i] * 2"),
        ("gen[i<n] [0 ≤ i && i]", None),
        ("gen[i<n] [0 ≤ i & i ≤ 4 | ~(i == 3)] · x[i]", "⊞[i < n] [0 <= i < 5 ∨ i ≠ 3] · x[i]"),
        ("split(4, x)", "split 4 x"),
        ("split (4) (x)", "split 4 x"),
        ("x ∘ x", "x ++ x"),
        ("2 * x", "⊞[i < n] 2 * x[i]"),
        ("gen[i<n] x[⌊i / 2⌋] + x[ceildiv(i, 2)]", "⊞[i < n] x[i // 2] + x[⌈i / 2⌉]"),
        ("cast(float64, 2)", "2:float64"),
    ],
)
def test_alternative_notation_parses(loose: str, printed: str | None) -> None:
    if printed is None:
        with pytest.raises(ParseError):
            parse_expr(loose, inputs=INPUTS)
    else:
        assert show(parse_expr(loose, inputs=INPUTS)) == printed


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (n - 1, "n - 1"),
        (ix.constant(1) - n, "1 - n"),
        (-n, "-n"),
        (-n - 1, "-n - 1"),
        (ix.constant(-3), "-3"),
        (n * 2 + m, "2*n + m"),
        (n * m * 3 - k, "3*m*n - k"),
        (n % k, "n % k"),
        ((n - 1) % k, "(n - 1) % k"),
        ((-n) % k, "(-n) % k"),
        (n - n % k - 1, "(n // k)*k - 1"),
        ((n % k) * m + 1, "(n % k)*m + 1"),
        (-(n % k), "-(n % k)"),
        ((n % k) % 4, "(n % k) % 4"),
        ((n // 4) % 8, "(n // 4) % 8"),
        ((n // 4) % 8 * 2 + (m // 3) % 5, "2*((n // 4) % 8) + (m // 3) % 5"),
        ((n * 2 + 1) % 4, "2*(n % 2) + 1"),
        (n % (m + 1), "n % (m + 1)"),
        (n // k + n % k, "n % k + n // k"),
        (ix.floordiv(n, k) * k, "(n // k)*k"),
        (ix.floordiv(n * m, k), "m*n // k"),
        (ix.floordiv(ix.floordiv(n, k), m), "(n // k) // m"),
        (ix.ceildiv(n, k), "⌈n / k⌉"),
        (ix.ceildiv(n + 1, k), "⌈(n + 1) / k⌉"),
        (ix.ceildiv(n, ix.constant(4)) * 4 - n, "4*⌈n / 4⌉ - n"),
        (ix.ceildiv(ix.floordiv(n, m), k), "⌈(n // m) / k⌉"),
        (ix.imin(n, m) - 1, "min(m, n) - 1"),
        (ix.imax(n - 1, ix.constant(0)) * 2, "2*max(0, n - 1)"),
        (ix.read(IDX, (n - 1,)) + ix.read(GRID, (m, k)) * 2, "2*grid[m, k] + idx[n - 1]"),
        (ix.read(COUNT, ()) * k, "count*k"),
    ],
)
def test_index_expression_prints_and_parses(expression: ix.Index, text: str) -> None:
    assert show_index(expression) == text
    assert parse_index(text, inputs=INPUTS) == expression


i, j = ix.size("i"), ix.size("j")


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (pred.less(i, n), "i < n"),
        (pred.at_most(ix.constant(1), i), "1 <= i"),
        (pred.at_most(ix.constant(0), i - 1), "1 <= i"),
        (pred.at_most(n, ix.constant(5)), "n <= 5"),
        (pred.less(i + 1, n), "i + 1 < n"),
        (pred.at_most(i, n), "i <= n"),
        (pred.at_most(i, n + 2), "i <= n + 2"),
        (pred.within(ix.constant(0), i, n), "0 <= i < n"),
        (pred.within(ix.constant(1), i + j, n), "1 <= i + j < n"),
        (pred.within(i, j, n), "i <= j < n"),
        (pred.conjunction((pred.less(i, n), pred.at_most(ix.constant(0), i))), "i < n ∧ 0 <= i"),
        (
            pred.conjunction((pred.within(ix.constant(0), i, n), pred.within(ix.constant(0), j, m))),
            "0 <= i < n ∧ 0 <= j < m",
        ),
        (pred.disjunction((pred.within(ix.constant(0), i, n), pred.equal(j, m))), "0 <= i < n ∨ j = m"),
        (
            pred.disjunction((pred.conjunction((pred.less(i, n), pred.less(j, m))), pred.equal(j, m))),
            "(i < n ∧ j < m) ∨ j = m",
        ),
        (
            pred.conjunction((pred.disjunction((pred.less(i, n), pred.less(j, m))), pred.equal(j, m))),
            "(i < n ∨ j < m) ∧ j = m",
        ),
        (pred.equal(i % 2, ix.constant(0)), "i % 2 = 0"),
        (pred.negation(pred.equal(i, n - 1)), "i ≠ n - 1"),
        (pred.TRUE, "true"),
        (pred.FALSE, "false"),
    ],
)
def test_condition_prints_and_parses(predicate: pred.Predicate, text: str) -> None:
    assert show_predicate(predicate) == text
    assert parse_predicate(text) == predicate
    assert parse_predicate(show_predicate(predicate, ascii=True)) == predicate


def test_equation_is_solved_for_an_index() -> None:
    term = terms.Gen(
        ix.constant(0), n, terms.Guard(pred.equal(index(ix.Bound(0)), n - 1), terms.Constant(1, "float32"))
    )
    assert show(term) == "⊞[i < n] [i = n - 1] · 1:float32"


@dataclass(slots=True)
class Writer:
    """Generator of random well-typed terms. The scope is known as de Bruijn positions."""

    random: random.Random
    depth: int = 0
    tensors: list[tuple[terms.Type, int]] = field(default_factory=list)

    def pick(self, *makers: Callable[[], T]) -> T:
        return self.random.choice(makers)()

    def leaf(self) -> ix.Index:
        bound = [index(ix.Bound(position)) for position in range(self.depth)]
        return self.random.choice([n, m, k, ix.constant(self.random.randint(-9, 9)), *bound, *bound])

    def index(self, fuel: int) -> ix.Index:
        if fuel <= 0:
            return self.leaf()
        a, b = self.index(fuel - 1), self.index(fuel - 2)
        divisor = (
            ix.constant(self.random.randint(1, 12)) if self.random.random() < 0.6 else self.random.choice([n, m, k + 1])
        )
        return self.pick(
            lambda: a + b,
            lambda: a - b,
            lambda: a * self.leaf(),
            lambda: a * self.random.randint(-3, 9) + b,
            lambda: a // divisor,
            lambda: a % divisor,
            lambda: a % divisor * self.leaf() + b,
            lambda: ix.ceildiv(a, divisor),
            lambda: ix.extremum("min", a, b),
            lambda: ix.extremum("max", a, b, self.leaf()),
            lambda: ix.read(IDX, (a,)),
            lambda: ix.read(GRID, (a, b)) - 1,
            lambda: ix.read(COUNT, ()) + a,
        )

    def condition(self, fuel: int) -> pred.Predicate:
        a, b, c = self.index(fuel), self.index(fuel - 1), self.leaf()
        parts = [self.condition(fuel - 1) for _ in range(self.random.randint(0, 3))] if fuel > 0 else []
        return self.pick(
            lambda: pred.less(a, b),
            lambda: pred.at_most(a, b),
            lambda: pred.non_negative(a),
            lambda: pred.within(ix.constant(0), a, c),
            lambda: pred.within(c, a, b),
            lambda: pred.equal(a, b),
            lambda: pred.negation(pred.equal(a, b)),
            lambda: pred.conjunction(parts),
            lambda: pred.disjunction(parts),
        )

    def term(self, rank: int, dtype: str, fuel: int) -> terms.Expr:
        if fuel <= 0:
            return self.small(rank, dtype)
        while True:
            try:
                return self.pick(*self.forms(rank, dtype, fuel - 1))
            except RaggedShape:
                continue

    def small(self, rank: int, dtype: str) -> terms.Expr:
        found: list[terms.Expr] = [
            terms.Input(array)
            for array in INPUTS
            if array.dtype == dtype and len(array.shape) == rank and array != COUNT
        ]
        for position, (of, depth) in enumerate(reversed(self.tensors)):
            if of.dtype == dtype and of.rank == rank:
                found.append(terms.Local(position, map_type(of, lambda e, by=self.depth - depth: ix.shift(e, by))))  # type: ignore[misc]
        if rank:
            found.append(terms.Padding(terms.Type(dtype, (n, m, k)[:rank])))
        else:
            whole = self.random.choice([-2, 0, 3, 10**12 if dtype == "int64" else 7])
            found.append(terms.Constant(whole, dtype))
            found.append(terms.Value(self.index(1), dtype))
            if dtype.startswith("float"):
                found.append(terms.Constant(self.random.choice([0.5, -1.25, 1e-7, 1e30, 1e308, 2.0]), dtype))
        return self.random.choice(found)

    def forms(self, rank: int, dtype: str, fuel: int) -> list[Callable[[], terms.Expr]]:
        def same() -> terms.Expr:
            return self.term(rank, dtype, fuel)

        floating = dtype.startswith("float")
        ops: list[BinaryOp] = ["add", "sub", "mul", "min", "max", *(["div"] if floating else [])]  # type: ignore[list-item]
        unary: list[UnaryOp] = ["neg", "abs", *(sorted(FLOAT_ONLY - {"div"}) if floating else [])]  # type: ignore[list-item]
        choose = self.random.choice
        forms: list[Callable[[], terms.Expr]] = [
            lambda: terms.Binary(choose(ops), same(), same()),
            lambda: terms.Binary(choose(ops), same(), same()),
            lambda: terms.Unary(choose(unary), same()),
            lambda: terms.Select(self.condition(1), same(), same()),
            lambda: terms.Cast(dtype, self.term(rank, choose(["float32", "float64", "int32"]), fuel)),
            lambda: terms.Guard(self.condition(1), same()),
            lambda: self.let(rank, dtype, fuel),
            lambda: self.binder(rank, dtype, fuel, reduce=True),
            lambda: self.binder(rank, dtype, fuel, reduce=True),
            lambda: self.small(rank, dtype),
        ]
        if rank < 2:
            forms.append(lambda: terms.Access(self.term(rank + 1, dtype, fuel), self.index(1)))
            forms.append(
                lambda: terms.Access(terms.Access(self.term(rank + 2, dtype, fuel), self.index(1)), self.index(0))
            )
        if rank:
            by: list[type[terms.PadLeft | terms.PadRight | terms.TruncateLeft | terms.TruncateRight]]
            by = [terms.PadLeft, terms.PadRight, terms.TruncateLeft, terms.TruncateRight]
            forms += [
                lambda: self.binder(rank, dtype, fuel, reduce=False),
                lambda: self.binder(rank, dtype, fuel, reduce=False),
                lambda: terms.Concat(same(), same()),
                lambda: terms.Reshape(choose(by)(self.index(1)), same()),
                lambda: terms.Reshape(terms.Place(self.index(1), self.index(1)), self.term(rank - 1, dtype, fuel)),
            ]
        if 0 < rank < 3:
            forms.append(lambda: terms.Reshape(terms.Flatten(), self.term(rank + 1, dtype, fuel)))
        if rank > 1:
            forms.append(lambda: terms.Reshape(terms.Transpose(), same()))
            forms.append(lambda: terms.Reshape(terms.Split(self.leaf_divisor()), self.term(rank - 1, dtype, fuel)))
        return forms

    def leaf_divisor(self) -> ix.Index:
        return self.random.choice([n, m, k + 1, ix.constant(4)])

    def let(self, rank: int, dtype: str, fuel: int) -> terms.Expr:
        value = self.term(self.random.randint(0, 2), self.random.choice(["float32", "float64", "int32"]), fuel)
        self.tensors.append((value.type, self.depth))
        body = self.term(rank, dtype, fuel)
        self.tensors.pop()
        return terms.Let(value, body, self.random.choice(["buf", "x", "t", "let", "n"]), self.random.choice([*LetMark]))

    def binder(self, rank: int, dtype: str, fuel: int, *, reduce: bool) -> terms.Expr:
        low = self.random.choice([ix.constant(0), ix.constant(0), self.index(1)])
        high = self.index(1)
        name, mark = self.random.choice(["i", "j", "n", "i1", "sum"]), self.random.choice(list(LoopMark))
        self.depth += 1
        try:
            body = self.term(rank if reduce else rank - 1, dtype, fuel)
        finally:
            self.depth -= 1
        monoids: tuple[terms.Monoid, ...] = ("sum", "product", "max", "min")
        return (
            terms.Reduce(self.random.choice(monoids), low, high, body, name, mark)
            if reduce
            else terms.Gen(low, high, body, name, mark)
        )


@pytest.mark.parametrize("seed", range(8))
def test_random_index_expressions_read_back(seed: int) -> None:
    writer = Writer(random.Random(f"indices {seed}"))
    for _ in range(60):
        expression = writer.index(4)
        for ascii_only in (False, True):
            text = show_index(expression, ascii=ascii_only)
            assert parse_index(text, inputs=INPUTS) == expression, text


@pytest.mark.parametrize("seed", range(8))
def test_random_conditions_read_back(seed: int) -> None:
    writer = Writer(random.Random(f"conditions {seed}"))
    for _ in range(40):
        condition = writer.condition(3)
        for ascii_only in (False, True):
            text = show_predicate(condition, ascii=ascii_only)
            assert parse_predicate(text, inputs=INPUTS) == condition, text


@pytest.mark.parametrize("seed", range(12))
def test_random_terms_read_back(seed: int) -> None:
    writer = Writer(random.Random(f"terms {seed}"))
    for _ in range(25):
        term = writer.term(
            writer.random.randint(0, 2), writer.random.choice(["float32", "float64", "int32", "int64"]), 5
        )
        for ascii_only in (False, True):
            text = show(term, ascii=ascii_only, abridge=False)
            again = parse_expr(text, inputs=INPUTS)
            assert again == term, text
            assert again.type.dtype == term.type.dtype
            assert show(again, ascii=ascii_only, abridge=False) == text
            assert not ascii_only or text.isascii()


@pytest.mark.parametrize("divisor", [0, -2])
def test_quotient_without_a_meaning_prints(divisor: int) -> None:
    """Such a quotient occurs where nothing is evaluated."""
    nothing = index(ix.Quotient(ix.size("m"), ix.constant(divisor)))
    assert show_index(nothing + ix.size("n")) == f"m // {divisor} + n".replace("// -2", "// (-2)")
