"""Order of lowering: a schedule's order of loops is kept, and lets are computed once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.program import Program
from atl.prove import forget
from lowering import lower, print_nest
from lowering.lower import lower_unchecked
from lowering.nest.interpreter import run
from lowering.nest.loopnest import Block, For, If, Number
from proofs_tests.compilers import lacking
from proofs_tests.padding.fuzz import footprint_is_exact
from proofs_tests.programs.agreement import Expected, compiled, expected, interpreted
from proofs_tests.programs.generate import Case
from rewrites import reschedule

with_c = pytest.mark.skipif(bool(lacking("sanitizers")), reason=lacking("sanitizers"))

N, M, K = atl.sizes("n m k")
x = atl.tensor("x", N)
X, Y = atl.tensor("X", N, M), atl.tensor("Y", N, M)
A, B = atl.tensor("A", N, K), atl.tensor("B", K, M)
INPUTS = (x, X, Y, A, B)

pytestmark = pytest.mark.usefixtures("private_cache")


def product(low: Any = 0, high: Any = K) -> atl.Tensor:
    """Return a matrix product whose outermost loop is the sum."""
    return atl.sum((low, high), lambda q: atl.gen(N, M, lambda i, j: A[i, q] * B[q, j]))


def row_by_row() -> atl.Tensor:
    """Return each row plus its reverse, with a buffer for one row."""

    def row(i: atl.IndexExpr) -> atl.Tensor:
        twice = atl.gen(M, lambda j: X[i, j] * 2)
        return atl.let(twice, lambda t: atl.gen(M, lambda j: t[j] + t[M - 1 - j]), name="row")

    return atl.gen(N, row)


def backwards(e: atl.Tensor) -> atl.Tensor:
    return atl.let(e, lambda t: atl.gen(N, M, lambda i, j: t[N - 1 - i, j]), name="t")


def program(body: atl.Tensor) -> Program:
    return atl.program("ordered", list(INPUTS), body)


def text(body: atl.Tensor) -> str:
    """Print the loop nest without its first line and its margin."""
    lines = print_nest(lower(program(body))).splitlines()[1:]
    return "\n".join(line.removeprefix("    ") for line in lines) + "\n"


def depth(block: Block) -> int:
    """Return the number of loops around the innermost statement."""
    return max((isinstance(s, For) + depth(s.body) for s in block if isinstance(s, For | If)), default=0)


def test_split_sum_keeps_the_order_of_its_loops() -> None:
    matmul = atl.gen(N, M, lambda i, j: atl.sum(K, lambda q: A[i, q] * B[q, j]))
    s = reschedule(atl.program("mm", [A, B], matmul))
    s.interchange("j")
    s.interchange("i")
    s.split_loop("q", K // 4 * 4)
    lines = [line.split(" in ")[0] for line in print_nest(lower(s.goal)).splitlines() if "for " in line]
    assert lines == ["    for q", "        for i", "            for j"] * 2


def test_second_operand_is_added_to_the_first() -> None:
    # The first statement stores every element, so the output is not cleared.
    wanted = """\
for i in 0..n:
    for j in 0..m:
        out[i, j] = X[i, j]
for q in 0..k:
    for i in 0..n:
        for j in 0..m:
            out[i, j] += A[i, q] * B[q, j]
"""
    assert text(X + product()) == wanted


def test_difference_of_differences_adds() -> None:
    wanted = """\
for i in 0..n:
    for j in 0..m:
        out[i, j] = Y[i, j]
for i in 0..n:
    for j in 0..m:
        out[i, j] -= X[i, j]
for q in 0..k:
    for i in 0..n:
        for j in 0..m:
            out[i, j] += A[i, q] * B[q, j]
"""
    assert text(Y - (X - product())) == wanted


def test_pointwise_operands_are_one_pass() -> None:
    assert text(X + atl.gen(N, M, lambda i, j: Y[i, j] * 2) - Y).count("for ") == 2
    # A sum within an element imposes no order on the elements.
    assert text(X + atl.gen(N, M, lambda i, j: atl.sum(K, lambda q: A[i, q] * B[q, j]))).count("for ") == 3


def test_partially_stored_output_is_cleared() -> None:
    assert text(atl.guard(N < M, X) + product()).startswith("clear out\n")
    nothing = atl.sum((K, K), lambda q: atl.gen(N, M, lambda i, j: A[i, q] * B[q, j]))
    assert "clear out\n" in text(atl.guard(N < M, X) + nothing)


def test_without_registers_every_element_of_an_addition_is_stored() -> None:
    """Theorem 2: without registers, exactly the elements that are not padding are stored, such as arithmetic."""
    for body in ADDITIONS.values():
        of = program(body)
        for k in (0, 2):
            nest = lower_unchecked(of, registers=False)
            assert footprint_is_exact(of, nest, {"n": 3, "m": 2, "k": k})


def test_let_in_an_operand_is_computed_once() -> None:
    sums = atl.gen(N, lambda i: atl.sum(M, lambda j: X[i, j]))
    once = """\
for i in 0..n:
    total = 0.0
    for j in 0..m:
        total += X[i, j]
    out[i] = total
for i in 0..n:
    out[i] = x[i] + out[i]
"""
    assert text(x + atl.let(sums, lambda t: t, name="t")) == once
    # Without registers too, as in Fig. 4.1, except for the storage of a sum.
    letter = print_nest(lower(program(x + atl.let(sums, lambda t: t, name="t")), registers=False))
    assert letter.index("t[i] +=") < letter.index("out[i] = x[i] + t[i]")
    assert letter.count("    for ") == 3


def test_scalar_let_in_an_operand_is_computed_once() -> None:
    scaled = atl.let(atl.sum(N, lambda i: x[i]), lambda s: atl.gen(N, lambda i: s * x[i]), name="s")
    assert text(x - scaled) == (
        "s = 0.0\nfor i in 0..n:\n    s += x[i]\nfor i in 0..n:\n    out[i] = x[i] - s * x[i]\n"
    )


OPERANDS: dict[str, Callable[[atl.Tensor], atl.Tensor]] = {
    "an absolute value": atl.abs,
    "a cast": lambda e: atl.cast("float32", atl.cast("float64", e)),
    "a product": lambda e: Y * e,
    "a selection": lambda e: atl.select(N < M, e, Y),
    "the other branch": lambda e: atl.select(N < M, Y, e),
    "a guard in a maximum": lambda e: atl.maximum(Y, atl.guard(N < M, e)),
    "a part of a concatenation": lambda e: atl.abs(atl.concat(Y, e)),
    "arithmetic in arithmetic": lambda e: atl.abs(Y * atl.maximum(Y, e)),
    "a transposition": lambda e: atl.abs(atl.transpose(e)),
    "a flattening in a flattening": lambda e: atl.abs(atl.flatten(atl.split(2, atl.flatten(e)))),
    "an access": lambda e: Y * atl.gen(2, lambda c: e)[0],
    "an access to a reshape": lambda e: x * atl.guard(M > 0, atl.transpose(e)[0]),
}
LETS = {"a let": lambda: backwards(product()), "a let below a loop": row_by_row}


@pytest.mark.parametrize("let", LETS)
@pytest.mark.parametrize("operand", OPERANDS)
def test_let_is_not_recomputed_for_each_element(operand: str, let: str) -> None:
    # A row and its buffer are one loop below the loop over rows; a product has three loops.
    nest = lower(program(OPERANDS[operand](LETS[let]())))
    assert depth(nest.body) == (2 if let == "a let below a loop" else 3)


def test_let_in_a_sum_is_computed_once_per_iteration() -> None:
    def term(q: atl.IndexExpr) -> atl.Tensor:
        column = atl.gen(N, lambda i: A[i, q] * 2)
        return atl.let(column, lambda t: atl.gen(N, lambda i: t[i] + t[N - 1 - i]), name="column")

    assert text(atl.abs(atl.sum(K, term))).count("    for i2") == 0


TAIL = K // 2 * 2
ADDITIONS: dict[str, atl.Tensor] = {
    "two parts of a sum": product(0, TAIL) + product(TAIL, K),
    "a read and a sum": X + product(),
    "a sum and a read": product() + X,
    "differences": Y - (X - product()) - (product() - (Y + product())),
    "a difference in a sum": atl.sum(
        2, lambda c: Y - atl.sum(K, lambda q: atl.gen(N, M, lambda i, j: A[i, q] * B[q, j] * (atl.value(c) + 1)))
    ),
    "a guard": atl.guard(N < M, X) - atl.guard(M < N, product()),
    "a concatenation": atl.concat(X - product(), product() + Y),
    "a concatenation with a sum that nothing is assigned before": atl.concat(
        X + (product() + product()), atl.sum(2, lambda c: atl.gen(N, M, lambda i, j: X[i, j] * atl.value(c)))
    ),
    "in a buffer": atl.let(X - product(), lambda t: atl.gen(N, M, lambda i, j: t[i, M - 1 - j])),
    "in a buffer in a loop": atl.gen(
        N,
        lambda i: atl.let(
            X[i] - atl.sum(K, lambda q: atl.gen(M, lambda j: A[i, q] * B[q, j])),
            lambda t: atl.gen(M, lambda j: t[M - 1 - j] * t[j]),
        ),
    ),
    "under a truncation": atl.truncr(1, atl.padr(1, X - product())),
    "of transposed": atl.transpose(atl.transpose(X) - atl.transpose(product())),
    "of split tails": atl.split(2, X) - atl.split(2, product()),
    "a maximum is subtracted": product()
    - atl.gen(N, M, lambda i, j: atl.reduce("max", K, lambda q: A[i, q] * B[q, j])),
    "a row is subtracted": product() - row_by_row(),
    "a let under a guard": X - atl.guard(N < M, backwards(product())),
    "a maximum of tensors": atl.reduce("max", 3, lambda c: X + product() * (atl.value(c) - 1)),
}
BODIES = {**ADDITIONS, **{f"{let} in {of}": OPERANDS[of](LETS[let]()) for of in OPERANDS for let in LETS}}
SIZES = ({"n": 3, "m": 4, "k": 5}, {"n": 4, "m": 3, "k": 1}, {"n": 2, "m": 3, "k": 0}, {"n": 0, "m": 2, "k": 2})


def examples() -> list[Expected]:
    numbers = np.random.default_rng(7)
    out = []
    for body in BODIES.values():
        of = program(body)
        for sizes in SIZES:
            shapes = {a.name: tuple(sizes[str(extent)] for extent in a.shape) for a in of.inputs}
            arrays = {name: numbers.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()}
            wanted = expected(Case(of, sizes, arrays, frozenset()))
            assert isinstance(wanted, Expected)
            out.append(wanted)
    return out


@pytest.mark.long
@with_c
def test_lowered_programs_agree_with_their_meaning() -> None:
    """Compare the reference interpreter, the loop-nest interpreter, sanitized C, and C with a poisoned output."""
    cases = examples()
    assert [interpreted(case) for case in cases] == [None] * len(cases)
    # One size each suffices for C.
    some = cases[:: len(SIZES)] + cases[2 :: len(SIZES)]
    assert compiled(some) == [None] * len(some)


def test_values_agree_with_numpy() -> None:
    numbers = np.random.default_rng(3)
    arrays = {"X": (3, 4), "Y": (3, 4), "A": (3, 5), "B": (5, 4), "x": (3,)}
    given = {name: numbers.integers(-3, 4, shape).astype(np.float32) for name, shape in arrays.items()}
    ab = given["A"] @ given["B"]
    wanted = {
        "two parts of a sum": ab,
        "differences": given["Y"] - (given["X"] - ab) - (ab - (given["Y"] + ab)),
        "a difference in a sum": 2 * given["Y"] - 3 * ab,
        "a guard": given["X"],
    }
    for name, values in wanted.items():
        of = program(ADDITIONS[name])
        assert np.array_equal(run(lower(of), {"n": 3, "m": 4, "k": 5}, given), values), name
        assert np.array_equal(atl.evaluate(of, *(given[a.name] for a in of.inputs)), values), name


def calls_to_lower(parts: int) -> int:
    """Count the function calls that lower an unrolled tile of `parts` parts."""

    def tile(o: atl.IndexExpr) -> atl.Tensor:
        def piece(c: int) -> atl.Tensor:
            return atl.gen(1, lambda i: atl.guard(parts * o + c < N, x[parts * o + c]))

        return atl.concat(*map(piece, range(parts)))

    tiles = atl.ceildiv(N, parts)
    of = atl.program("unrolled", [x], atl.truncr(tiles * parts - N, atl.flatten(atl.gen(tiles, tile))))
    forget()
    called = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal called
        called += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        nest = lower_unchecked(of)
    finally:
        sys.setprofile(before)
    assert nest.complete
    return called


@pytest.mark.long
def test_lowering_time_is_linear_in_unrolled_iterations() -> None:
    calls_to_lower(4)
    assert calls_to_lower(24) < 2.6 * calls_to_lower(12)


# -- folds by maximum and minimum -------------------------------------------------------------------------------------

FOLDS = {
    "rows": "max[q < k] ⊞[j < m] B[q, j]",
    "padding is zero": "min[q < k] padr 2 ⊞[j < m] B[q, j]",
    "let for each row": "max[q < k] let t := Σ[j < m] B[q, j] in ⊞[j < m] t * B[q, j]",
    "let of rows": "⊞[i < n] let t := max[q < k] ⊞[j < m] A[i, q] + B[q, j] in ⊞[j < m] t[j] + X[i, j]",
    "sums": "max[q < k] Σ[i < n] ⊞[j < m] X[i, j] * B[q, j]",
    "sum of maxima": "Σ[i < n] max[q < k] ⊞[j < m] A[i, q] + B[q, j]",
    "minimum of maxima": "min[i < n] max[q < k] ⊞[j < m] A[i, q] + B[q, j]",
    "variable number of terms": "⊞[i < n] max[q < i] ⊞[j < m] X[q, j]",
    "blocks": "flatten ⊞[jo < 3] max[q < k] ⊞[ji < 2] select(2 * jo + ji < m, B[q, 2 * jo + ji], 0)",
    "recurrence": "rec[p < n] y from padding(float64[0, m]) in (max[i < p] ⊞[j < m] y[i, j]) + X[p]",
}


def folds() -> list[Case]:
    """Return calls of each program, some of them with folds of no terms."""
    draw = np.random.default_rng(0)
    shapes = {"A": ("n", "k"), "B": ("k", "m"), "X": ("n", "m")}
    made: list[Case] = []
    for body in FOLDS.values():
        program = atl.parse(f"f (A : float64[n, k], B : float64[k, m], X : float64[n, m]) :=\n  {body}")
        for sizes in ({"n": 3, "m": 4, "k": 2}, {"n": 2, "m": 3, "k": 0}, {"n": 0, "m": 2, "k": 1}):
            arrays = {
                name: draw.integers(-9, 9, tuple(sizes[extent] for extent in shape)).astype(float)
                for name, shape in shapes.items()
            }
            made.append(Case(program, sizes, arrays, frozenset()))
    return made


@with_c
def test_folds_of_tensors_have_the_values_of_their_elements() -> None:
    wanted = [expected(case) for case in folds()]
    known = [each for each in wanted if isinstance(each, Expected)]
    assert len(known) == len(wanted)
    assert [interpreted(each) for each in known] == [None] * len(known)
    assert compiled(known) == [None] * len(known)


def test_fold_of_tensors_keeps_the_order_of_its_loops() -> None:
    started = """\
clear out
if 1 <= k:
    for i in 0..m:
        out[i] = -inf
    for q in 0..k:
        for j in 0..m:
            out[j] = max(out[j], B[q, j])
"""
    assert text(atl.reduce("max", K, lambda q: atl.gen(M, lambda j: B[q, j]))) == started


@pytest.mark.parametrize("fault", ["neutral", "_where"])
def test_fault_in_the_start_of_a_fold_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a fault: start at zero, or store the neutral element where the fold has no terms."""
    if fault == "neutral":
        monkeypatch.setattr(import_module("lowering.lower"), fault, lambda _, dtype: Number(0, dtype))
    else:
        monkeypatch.setattr(import_module("lowering.lower")._Lowering, fault, staticmethod(lambda _, block: block))
    wanted = [expected(case) for case in folds()]
    assert any(not isinstance(each, Expected) or interpreted(each) is not None for each in wanted)
