"""Placed terms and scatters: meaning, refusals, notation and rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import atl
import padtypes
from atl import IndexExpr, Program, Tensor, load
from atl.core.index import Leaf, Size
from atl.core.terms import Place, Reshape
from atl.core.traversal import subterms
from atl.errors import ExtentError, InvalidArgument, RankError, ShapeError, UnsafeAccess, UnsafeGuard, UnsafeTruncation
from atl.meaning.interpret import PAD, denote
from atl.meaning.scalars import Machine
from atl.text.latex import latex
from lowering import compile as compiled
from lowering import lower, print_nest
from lowering.nest.interpreter import execute
from lowering.nest.obligations import report
from proofs_tests.programs.reproduce import as_python
from rewrites import reschedule

pytestmark = pytest.mark.sampled

AnyArray = npt.NDArray[Any]
n, m, k = atl.sizes("n m k")
x = atl.tensor("x", n, dtype="int64", range=(0, k))
v = atl.tensor("v", n, dtype="float64")
A = atl.tensor("A", n, m, dtype="float64")


def run_all_ways(program: Program, arrays: dict[str, AnyArray], sizes: dict[str, int], tmp_path: Path) -> AnyArray:
    """Run the program in all ways, check pad-set, text and certificate, and return the result."""
    given: dict[str, Any] = {**arrays, **{name: sizes[name] for name in program.free_sizes}}
    meaning = atl.evaluate(program, **given)
    denoted = denote(program, sizes, arrays, Machine())
    every = {name: sizes[name] for name in program.sizes}
    np.testing.assert_array_equal(execute(lower(program), every, arrays).to_numpy(), meaning)
    outcome = execute(lower(program, registers=False), every, arrays)
    np.testing.assert_array_equal(outcome.to_numpy(), meaning)
    stored = np.zeros(meaning.size, dtype=bool)
    stored[list(outcome.cells)] = True
    np.testing.assert_array_equal(~stored.reshape(meaning.shape), denoted.padding())
    pads = padtypes.infer(program)[()]

    def sized(leaf: Leaf) -> int:
        assert isinstance(leaf, Size)
        return sizes[leaf.name]

    for at in np.ndindex(meaning.shape):
        known = pads.contains(at, sized, lambda array, positions: int(arrays[array.name][positions]))
        assert known == (denoted.at(at) is PAD)
    np.testing.assert_array_equal(compiled(program)(**given), meaning)
    assert atl.parse(str(program)) == program
    theorem = reschedule(program).done()
    theorem.save(tmp_path / "same.atl.json")
    assert load(tmp_path / "same.atl.json").rhs == program
    return np.asarray(meaning)


SIZES = [(0, 1), (1, 1), (7, 3), (5, 11), (13, 2)]


@pytest.mark.parametrize(("length", "bins"), SIZES)
def test_histogram(length: int, bins: int, tmp_path: Path) -> None:
    counted = atl.program("counted", [x], atl.scatter(k, n, lambda i: x[i], lambda i: atl.cast("int64", 1)))
    values = np.random.default_rng(length).integers(0, bins, length)
    found = run_all_ways(counted, {"x": values}, {"n": length, "k": bins}, tmp_path)
    np.testing.assert_array_equal(found, np.bincount(values, minlength=bins))


@pytest.mark.parametrize(("length", "bins"), SIZES)
@pytest.mark.parametrize("columns", [0, 1, 3])
def test_rows_scattered_to_one_position_are_added(length: int, bins: int, columns: int, tmp_path: Path) -> None:
    rows = atl.program("rows", [x, A], atl.scatter(k, (0, n), lambda p: x[p], lambda p: A[p]))
    random = np.random.default_rng(length)
    positions, held = random.integers(0, bins, length), random.integers(-9, 9, (length, columns)).astype(np.float64)
    wanted = np.zeros((bins, columns))
    np.add.at(wanted, positions, held)
    sizes = {"n": length, "m": columns, "k": bins}
    np.testing.assert_array_equal(run_all_ways(rows, {"x": positions, "A": held}, sizes, tmp_path), wanted)


def test_scatter_over_a_partial_range(tmp_path: Path) -> None:
    some = atl.program("some", [v], atl.scatter(n, (1, n), lambda p: n - 1 - p, lambda p: v[p]), given=[n >= 1])
    held = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(run_all_ways(some, {"v": held}, {"n": 3}, tmp_path), [3.0, 2.0, 0.0])


def test_guard_excludes_positions(tmp_path: Path) -> None:
    shifted = atl.sum(n, lambda p: atl.guard(p >= 2, atl.place(n, p - 2, v[p])))
    held = np.array([1.0, 2.0, 3.0, 4.0])
    found = run_all_ways(atl.program("shifted", [v], shifted), {"v": held}, {"n": 4}, tmp_path)
    np.testing.assert_array_equal(found, [3.0, 4.0, 0.0, 0.0])


def test_place_scalar_row_and_matrix(tmp_path: Path) -> None:
    for body, wanted in (
        (atl.place(m + 1, m, 2.0), np.array([0, 0, 2], np.float32)),
        (atl.place(m + 1, 1, v), np.array([[0, 0], [5, 6], [0, 0]], np.float64)),
        (atl.place(2, 0, atl.place(m + 1, m, v)), np.array([[[0, 0], [0, 0], [5, 6]], np.zeros((3, 2))])),
    ):
        program = atl.program("placed", [v], body, given=[m >= 1])
        found = run_all_ways(program, {"v": np.array([5.0, 6.0])}, {"n": 2, "m": 2}, tmp_path)
        np.testing.assert_array_equal(found, wanted)


def test_scatter_clears_the_output_and_place_assigns() -> None:
    program = atl.program("hits", [x, v], atl.scatter(k, n, lambda p: x[p], lambda p: v[p]))
    nest = print_nest(lower(program))
    assert "out[x[p]] += v[p]" in nest
    assert "clear out" in nest
    assert "+= v[p]" in compiled(program).source
    once = atl.program("once", [v], atl.place(m + 1, m, v))
    assert "out[m, i] = v[i]" in print_nest(lower(once))
    assert not lower(once).complete
    assert lower(atl.program("whole", [v], atl.place(1, 0, v))).complete


def test_sums_and_buffers_of_placed_terms_in_the_nest() -> None:
    square = atl.let(
        atl.scatter(k, n, lambda p: x[p], lambda p: v[p]), lambda h: atl.gen(k, lambda i: h[i] * h[i]), name="h"
    )
    assert "zeros h[k]" in print_nest(lower(atl.program("square", [x, v], square)))
    both = atl.program("both", [v], atl.place(m + 2, 0, v) + atl.place(m + 2, 1, 2.0 * v))
    nest = print_nest(lower(both))
    assert "out[0, i] = v[i]" in nest
    assert "out[1, i] += 2.0 * v[i]" in nest


def test_only_assignments_must_be_injective() -> None:
    found = report(lower(atl.program("hits", [x, v], atl.scatter(k, n, lambda p: x[p], lambda p: v[p]))))
    assert {o.kind for o in found.proved} == {"bounds"}
    assert not found.unproved
    rows = report(lower(atl.program("rows", [x, v], atl.gen(n, lambda p: atl.place(k, x[p], v[p])))))
    assert {o.kind for o in rows.proved} == {"bounds", "injectivity"}
    assert not rows.unproved


def test_truncation_may_cut_unhit_elements() -> None:
    padtypes.check(atl.program("cut", [v], atl.truncr(1, atl.place(m + 2, m, v))))
    with pytest.raises(UnsafeTruncation, match="cut a computed element"):
        padtypes.check(atl.program("cut", [v], atl.truncr(2, atl.place(m + 2, m, v)), given=[n >= 1]))


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
@pytest.mark.parametrize("columns", [0, 1, 3, 7])
def test_shear_has_diagonals_as_rows_and_an_inverse(rows: int, columns: int, tmp_path: Path) -> None:
    held = np.arange(1.0, rows * columns + 1).reshape(rows, columns)
    sizes = {"n": rows, "m": columns}
    sheared = run_all_ways(atl.program("sheared", [A], atl.shear(A)), {"A": held}, sizes, tmp_path)
    assert sheared.shape == (max(0, rows + columns - 1), min(rows, columns))
    for d in range(len(sheared)):
        assert [element for element in sheared[d] if element] == np.diagonal(held, d - (rows - 1)).tolist()
    back = atl.program("back", [A], atl.let(atl.shear(A), lambda s: atl.unshear(n, m, s)))
    np.testing.assert_array_equal(run_all_ways(back, {"A": held}, sizes, tmp_path), held)


def test_unshear_reads_within_its_diagonals() -> None:
    diagonals = atl.tensor("D", atl.imax(0, n + m - 1), atl.imin(n, m))
    atl.check_safe(atl.program("matrix", [diagonals], atl.unshear(n, m, diagonals)))
    with pytest.raises(UnsafeAccess):
        atl.check_safe(atl.program("matrix", [diagonals], atl.unshear(n, m + 1, diagonals)))


def test_out_of_range_position_is_refused_with_numbers() -> None:
    with pytest.raises(ExtentError) as caught:
        atl.program("beyond", [v], atl.place(m, n, v))
    text = str(caught.value)
    assert "an element is placed at n, which is out of range for extent m" in text
    assert "required: 0 <= n < m" in text
    assert "breaks at: " in text
    assert "try: guard it inside its sum: atl.guard((0 <= n) & (n < m), atl.place(m, n, …))" in text
    atl.program("within", [v], atl.guard((n >= 0) & (n < m), atl.place(m, n, v)))


FOLDED: dict[str, Callable[[IndexExpr], Tensor]] = {
    "directly": lambda p: atl.place(k, x[p], v),
    "in rows": lambda p: atl.gen(3, lambda _: atl.place(k, x[p], v)),
    "in a let": lambda p: atl.let(v[p], lambda y: atl.place(k, x[p], y)),
    "transposed": lambda p: atl.transpose(atl.place(k, x[p], v)),
    "next to another": lambda p: atl.concat(v, atl.place(k, x[p], v[p])),
}


@pytest.mark.parametrize("monoid", ["product", "max", "min"])
@pytest.mark.parametrize("body", FOLDED)
def test_folds_other_than_sums_refuse_placed_terms(body: str, monoid: Any) -> None:
    with pytest.raises(UnsafeGuard, match=f"a reduction by {monoid} contains a placed term"):
        atl.program("folded", [x, v], atl.reduce(monoid, n, FOLDED[body]))


def test_fold_over_bound_scatter_includes_its_zeros(tmp_path: Path) -> None:
    counted = atl.scatter(k, n, lambda i: x[i], lambda i: atl.cast("int64", 1))
    most = atl.let(counted, lambda c: atl.reduce("max", k, lambda i: c[i]))
    arrays = {"x": np.array([2, 0, 2, 1, 2])}
    assert run_all_ways(atl.program("most", [x], most), arrays, {"n": 5, "k": 4}, tmp_path) == 3


@pytest.mark.parametrize("monoid", ["product", "max", "min"])
@pytest.mark.parametrize("bound", [False, True], ids=["as it is", "below a let"])
def test_fold_reads_false_guards_as_zero(bound: bool, monoid: Any, tmp_path: Path) -> None:
    def rows(p: IndexExpr, j: IndexExpr) -> Tensor:
        return atl.let(v[p], lambda y: atl.guard(j <= p, y)) if bound else atl.guard(j <= p, v[p])

    body = atl.reduce(monoid, n, lambda i: atl.gen(n, n, rows)[i])
    for size in (1, 2, 5):
        arrays: dict[str, npt.NDArray[Any]] = {"v": -1.0 - np.arange(size)}
        run_all_ways(atl.program("folded", [v], body), arrays, {"n": size}, tmp_path)


SUMS: dict[str, Callable[[IndexExpr], Tensor]] = {
    "of guarded terms": lambda i: atl.sum(n, lambda p: atl.guard(p > i, v[p])),
    "of placed terms": lambda i: atl.sum(n, lambda p: atl.place(k, x[p], v[p] * atl.value(i))),
    "of guarded placed terms": lambda i: atl.sum(n, lambda p: atl.guard(p > i, atl.place(k, x[p], v[p]))),
    "that may be empty": lambda i: atl.sum((0, atl.imax(0, n - i - 3)), lambda p: v[p]),
}


@pytest.mark.parametrize("monoid", ["product", "max", "min"])
@pytest.mark.parametrize("body", SUMS)
def test_fold_over_sums_includes_computed_zeros(body: str, monoid: Any, tmp_path: Path) -> None:
    """A sum that adds nothing is a computed zero."""
    program = atl.program("folded", [x, v], atl.reduce(monoid, n, SUMS[body]))
    for size in (1, 2, 5):
        arrays: dict[str, npt.NDArray[Any]] = {"x": np.arange(size) % 3, "v": -1.0 - np.arange(size)}
        run_all_ways(program, arrays, {"n": size, "k": 4}, tmp_path)


def test_invalid_scatter_and_shear_arguments_are_refused() -> None:
    not_callable: Any = 1
    with pytest.raises(InvalidArgument, match="two functions of an index"):
        atl.scatter(n, m, not_callable, lambda p: 1)
    with pytest.raises(RankError, match="shear needs 2 dimensions, but this tensor has 1"):
        atl.shear(v)
    with pytest.raises(RankError, match="unshear needs 2 dimensions"):
        atl.unshear(n, m, v)


def test_unshear_of_wrong_shape_is_refused() -> None:
    for shape in ((3, 3), (4, 2), (2, 2, 5)):
        with pytest.raises(ShapeError, match=r"unshear to a matrix of shape \(2, 2\) got a tensor") as caught:
            atl.unshear(2, 2, atl.tensor("D", *shape))
        rest = ", 5" * (len(shape) - 2)
        assert caught.value.required == f"the shape of its shear: (3, 2{rest})"
    with pytest.raises(ShapeError, match=r"of shape \(max\(0, m \+ n - 1\), min\(m, n\) \+ 1\)"):
        atl.unshear(n, m, atl.tensor("D", atl.imax(0, n + m - 1), atl.imin(n, m) + 1))
    # Equality of these shapes depends on the sizes.
    assert str(atl.unshear(n, m, atl.tensor("D", n + m - 1, n)).shape) == "(n, m)"
    assert str(atl.unshear(2, 2, atl.tensor("D", 3, 2, 5)).shape) == "(2, 2, 5)"


TEXTS = {
    "place (m + 1) m (v ⊕ v)": atl.place(m + 1, m, v + v),
    "place 2 1 place 3 0 ([n <= m] · v)": atl.place(2, 1, atl.place(3, 0, atl.guard(n <= m, v))),
    "place (m // 2 + 1) (m // 2) 2.5": atl.place(m // 2 + 1, m // 2, atl.cast("float64", 2.5)),
    "Σ[p < n] place k x[p] v[p]": atl.scatter(k, n, lambda p: x[p], lambda p: v[p]),
}


@pytest.mark.parametrize("text", TEXTS)
def test_placed_terms_print_and_parse(text: str) -> None:
    program = atl.program("p", [x, v], TEXTS[text])
    assert str(program).split(":=\n  ")[1] == text
    assert atl.parse(str(program)) == program
    names: dict[str, Any] = {}
    exec(as_python(program), names)
    assert names["program"] == program


def test_other_notations_of_placed_terms() -> None:
    head = "p (v : float64[n], m : size) : float64[m + 1, n] := "
    assert atl.parse(head + "place(m + 1, m, v)") == atl.parse(head + "place (m + 1) m v")
    assert r"\mathsf{place}_{m + 1, m}" in latex(atl.program("p", [v], atl.place(m + 1, m, v)))


def test_dense_search_becomes_scatter(tmp_path: Path) -> None:
    """RWSCAT of Fig. 7.4 (E16), by two rules."""

    def hits(i: IndexExpr) -> Tensor:
        return atl.sum(n, lambda p: atl.guard(i == x[p], v[p]))

    s = reschedule(atl.program("hits", [x, v], atl.gen(k, hits)))
    theorem = s.rw("sum_gen_swap").rw("gen_as_place").done()
    assert str(theorem.rhs).endswith("Σ[p < n] place k x[p] v[p]")
    arrays = {"x": np.array([3, 0, 3]), "v": np.array([1.0, 2.0, 4.0])}
    found = run_all_ways(theorem.rhs, arrays, {"n": 3, "k": 4}, tmp_path)
    np.testing.assert_array_equal(found, compiled(theorem.lhs)(**arrays, k=4))
    theorem.save(tmp_path / "hits.atl.json")
    assert load(tmp_path / "hits.atl.json").rhs == theorem.rhs


def test_rules_unfold_placed_terms_and_their_elements() -> None:
    hits = atl.scatter(k, n, lambda p: x[p], lambda p: v[p])
    s = reschedule(atl.program("hits", [x, v], hits)).inline("place")
    assert not any(isinstance(e, Reshape) and isinstance(e.op, Place) for e in subterms(s.goal.body))
    s = reschedule(atl.program("one", [x, v], hits[0])).normalize()
    assert str(s.goal).endswith("Σ[p < n] [x[p] = 0] · v[p]")


def test_guarded_range_becomes_loop_range() -> None:
    banded = atl.gen(n + 2, lambda i: atl.guard((i >= 1) & (i < n + 1), v[i - 1]))
    s = reschedule(atl.program("banded", [v], banded)).rw("gen_restrict")
    assert str(s.goal).endswith("padl 1 padr 1 ⊞[1 <= i < n + 1] v[i - 1]")
    padtypes.check(s.goal)


def test_unshear_of_shear_is_the_identity() -> None:
    s = reschedule(atl.program("same", [A], atl.let(atl.shear(A), lambda d: atl.unshear(n, m, d), name="d")))
    s.inline("d").rw("unshear_shear")
    assert str(s.goal).endswith(":=\n  A")
