"""Assembled sparse results: formats, arguments, certificates and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import atl
from atl.errors import IndexOverflow, InvalidArgument, NotAssembled, OutOfMemory, UnsupportedMark
from lowering.c import assembly
from lowering.calls import assembling
from lowering.calls.assembling import Assembler
from lowering.lower import lower_unchecked
from lowering.nest.assembly import gathers
from lowering.nest.execution import Trap
from lowering.nest.interpreter import execute
from lowering.nest.text import AssembledText
from proofs_tests.sparse.assembled import fuzz
from proofs_tests.sparse.assembled.formulas import FORMULAS, kernel_for
from rewrites import Session, reschedule
from sparse import COO, CSC, CSF, CSR, DCSR, MODE_GENERIC, VECTOR, SparseTensor, decompress

n, m, k = atl.sizes("n m k")
A = atl.tensor("A", n, m, dtype="float64")
LEFT = sp.csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]]))
RIGHT = sp.csr_array(np.array([[0.0, 1.0, 5.0, 0.0], [4.0, -4.0, 0.0, 0.0], [0.0, 0.0, 7.0, 0.0]]))


def product() -> Session:
    left, right = atl.tensor("A", n, k, dtype="float64"), atl.tensor("B", k, m, dtype="float64")
    body = atl.gen(n, m, lambda i, j: atl.sum(k, lambda q: left[i, q] * right[q, j]))
    return reschedule(atl.program("product", [left, right], body)).sparsify("A", CSR).sparsify("B", CSR)


def identity(form: Any = CSR) -> Session:
    return reschedule(atl.program("same", [A], atl.gen(n, m, lambda i, j: A[i, j]))).sparsify("A", form)


def kind_of(s: Session) -> str:
    return str(gathers(s.compile().nest)[0].kind)


def test_a_product_of_scipy_matrices_is_a_scipy_matrix() -> None:
    made = product().assemble(CSR.sorted()).compile()(LEFT, RIGHT)
    assert isinstance(made, sp.csr_array)
    assert made.has_sorted_indices
    assert made.indptr.dtype == made.indices.dtype == np.int32
    assert made.toarray().tolist() == (LEFT @ RIGHT).toarray().tolist()


def test_a_product_of_arrays_is_a_sparse_tensor() -> None:
    made = product().assemble(CSR).compile()(LEFT.toarray(), RIGHT.toarray())
    assert isinstance(made, SparseTensor)
    assert made.format == CSR
    assert decompress(made).tolist() == (LEFT @ RIGHT).toarray().tolist()


def test_computed_zeros_are_entries_unless_they_are_dropped() -> None:
    left, right = sp.csr_array(np.array([[1.0, 1.0]])), sp.csr_array(np.array([[2.0, 3.0], [-2.0, 1.0]]))
    assert product().assemble(CSR.sorted()).compile()(left, right).data.tolist() == [0.0, 4.0]
    assert product().assemble(CSR.sorted(), zeros=False).compile()(left, right).data.tolist() == [4.0]


@pytest.mark.parametrize(
    ("s", "kind"),
    [
        (identity(CSR.sorted()).assemble(CSR.sorted()), "appended"),
        (identity(CSR).assemble(CSR.sorted()), "gathered"),
        (identity(CSR.sorted()).assemble(CSC.sorted()), "counted"),
        (identity(COO).assemble(CSR), "counted"),
    ],
)
def test_the_proofs_choose_how_rows_are_stored(s: Session, kind: str) -> None:
    assert kind_of(s) == kind
    assert s.compile()(LEFT).toarray().tolist() == LEFT.toarray().tolist()


def test_sums_of_sorted_matrices_are_unions() -> None:
    other = atl.tensor("B", n, m, dtype="float64")
    body = atl.gen(n, m, lambda i, j: A[i, j] - other[i, j])
    s = reschedule(atl.program("difference", [A, other], body))
    s = s.sparsify("A", CSR.sorted()).sparsify("B", CSR.sorted()).assemble(CSR.sorted())
    assert kind_of(s) == "union"
    assert s.compile()(LEFT, LEFT.T.tocsr()).toarray().tolist() == (LEFT - LEFT.T).toarray().tolist()


@pytest.mark.long
def test_arithmetic_on_whole_operands_is_sparsified_like_its_elements() -> None:
    other = atl.tensor("B", n, m, dtype="float64")

    def goal(body: atl.Tensor) -> Any:
        s = reschedule(atl.program("f", [A, other], body)).sparsify("A", CSR).sparsify("B", CSR)
        return s.goal.body

    assert goal(A * other) == goal(atl.gen(n, m, lambda i, j: A[i, j] * other[i, j]))
    assert goal(2.0 * A - other) == goal(atl.gen(n, m, lambda i, j: 2.0 * A[i, j] - other[i, j]))


def test_later_calls_keep_the_storage_of_the_result() -> None:
    left, right = atl.tensor("A", n, k, dtype="float64"), atl.tensor("B", k, m, dtype="float64")
    body = atl.gen(n, m, lambda i, j: atl.sum(k, lambda q: left[i, q] * right[q, j]))
    s = reschedule(atl.program("product", [left, right], body)).sparsify("A", CSR).assemble(CSR.sorted())
    s = s.sparsify("B", CSR).rename("i", "row")
    assert s.goal.assembly is not None
    assert s.goal.assembly.format == "CSR.sorted()"
    assert s.undo(3).goal.assembly is None


@pytest.mark.long
def test_certificates_and_scripts_keep_the_storage_of_the_result(tmp_path: Path) -> None:
    s = product().assemble(CSR.sorted(), zeros=False)
    path = tmp_path / "product.atl.json"
    s.done().save(path)
    loaded = atl.load(path)
    assert loaded.rhs.assembly == s.goal.assembly
    assert atl.compile(loaded.rhs)(LEFT, RIGHT).toarray().tolist() == (LEFT @ RIGHT).toarray().tolist()
    assert "s.assemble(atl.CSR.sorted(), zeros=False)" in s.done().as_python()


def test_a_certificate_from_before_assembled_results_is_replayed_and_assembled() -> None:
    loaded = atl.load(Path(__file__).parents[2] / "kernel" / "saved" / "sum_of_sparse.atl.json")
    assert loaded.rhs.assembly is None
    made = reschedule(loaded.rhs).assemble(CSR.sorted()).compile()(LEFT, LEFT)
    assert made.toarray().tolist() == (2 * LEFT).toarray().tolist()


def test_a_result_without_padding_is_refused() -> None:
    s = reschedule(atl.program("shifted", [A], atl.gen(n, m, lambda i, j: A[i, j] + 1))).assemble(CSR)
    with pytest.raises(
        NotAssembled, match="every element of the result of shifted is stored by the dense loop j"
    ) as error:
        s.compile()
    assert "try: call s.sparsify(…) for the operands that are sparse" in str(error.value)


def test_a_dense_loop_over_a_row_of_a_product_is_refused() -> None:
    right = atl.tensor("B", m, k, dtype="float64")

    def row(i: Any) -> Any:
        sums = atl.gen(k, lambda j: atl.sum(m, lambda q: A[i, q] * right[q, j]))
        return atl.let(sums, lambda w: atl.gen(k, lambda j: atl.maximum(w[j], 0.0)))

    s = reschedule(atl.program("relu", [A, right], atl.gen(n, row))).sparsify("A", CSR).sparsify("B", CSR)
    with pytest.raises(
        NotAssembled, match="every element of the result of relu is stored by the dense loop j"
    ) as error:
        s.assemble(CSR.sorted()).compile()
    assert "s.sparsify" not in str(error.value)
    assert "try: assemble w in a first kernel, in a sorted format, and compute relu from it" in str(error.value)


def test_marks_that_run_stores_to_a_row_concurrently_are_refused() -> None:
    for s, name, mark in ((identity(COO), "p", "parallel"), (identity(), "p", "vector")):
        with pytest.raises(UnsupportedMark, match=f"the loop {name} is marked {mark} and stores entries of CSR"):
            s.assemble(CSR).mark(name, mark).compile()


@pytest.mark.parametrize("form", [CSR, CSR.sorted()], ids=repr)
@pytest.mark.parametrize("zeros", [True, False])
def test_threads_store_the_rows_of_a_product(form: Any, zeros: bool) -> None:
    s = product().assemble(form, zeros=zeros)
    kernel, parallel = s.compile(), s.mark("i", "parallel").compile()
    assert "#pragma omp parallel for" in parallel.source
    rng = np.random.default_rng(4)
    for size in (40, 0, 1):
        left, right = (sp.random_array((size, size), density=0.2, rng=rng, format="csr") for _ in range(2))
        wanted, made = kernel(left, right), parallel(left, right)
        wanted.sort_indices()
        assert made.indices.tolist() == wanted.indices.tolist()
        assert made.indptr.tolist() == wanted.indptr.tolist()
        assert np.allclose(made.data, wanted.data)


def test_parallel_rows_have_buffers() -> None:
    other = atl.tensor("B", n, m, dtype="float64")

    def row(i: Any) -> Any:
        return atl.let(atl.gen(m, lambda j: 2.0 * A[i, j]), lambda w: atl.gen(m, lambda j: other[i, j] * w[j]))

    s = reschedule(atl.program("f", [A, other], atl.gen(n, row))).sparsify("A", CSR).sparsify("B", CSR)
    kernel = s.assemble(CSR).mark("i", "parallel").compile()
    assert kernel(LEFT, LEFT).toarray().tolist() == (2.0 * LEFT.toarray() ** 2).tolist()


def test_other_targets_and_uses_are_refused_by_name() -> None:
    s = product().assemble(CSR)
    with pytest.raises(NotAssembled, match="target cuda does not support"):
        s.compile(target="cuda")
    kernel = s.compile()
    out = np.zeros((3, 4))
    for use in (lambda: kernel(LEFT, RIGHT, out=out), lambda: kernel.prepared(LEFT, RIGHT, out=out)):
        with pytest.raises(InvalidArgument, match="whose result is assembled as CSR"):
            use()


def test_scalars_and_other_objects_are_refused() -> None:
    x = atl.tensor("x", n)
    with pytest.raises(InvalidArgument, match="total has a scalar result"):
        reschedule(atl.program("total", [x], atl.sum(n, lambda i: x[i]))).assemble(VECTOR)
    with pytest.raises(InvalidArgument, match="'CSR' is not a sparse format"):
        product().assemble("CSR")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [CSR, CSR.sorted(), CSC])
def test_too_many_entries_for_the_index_dtype_are_refused(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = product().assemble(form).compile()
    monkeypatch.setattr(kernel._assembler, "_most", 4)
    many = sp.csr_array(np.ones((3, 3)))
    with fuzz.small_arrays(), pytest.raises(IndexOverflow, match=r"entries.*[\s\S]*with_index_dtype\(\"int64\"\)"):
        kernel(many, many)


@pytest.mark.parametrize(("form", "extent", "named"), [(CSC, (2**40, 2), "rows"), (CSR, (2, 2**40), "columns")])
def test_the_dimension_that_is_too_large_is_named(form: Any, extent: tuple[int, int], named: str) -> None:
    a = atl.tensor("a", n, m, dtype="float64")
    copied = reschedule(atl.program("copied", [a], atl.gen(n, m, lambda i, j: a[i, j])))
    kernel = copied.sparsify("a", COO.with_index_dtype("int64")).assemble(form).compile()
    one = sp.coo_array(([1.0], ([1], [1])), shape=extent)
    with pytest.raises(IndexOverflow, match=f"the {named} of the result are numbered up to {2**40 - 1}"):
        kernel(one)


def test_a_kernel_continues_where_space_ended() -> None:
    kernel = product().assemble(CSR.sorted()).compile()
    rng = np.random.default_rng(1)
    left, right = (sp.random_array((20, 20), density=0.2, rng=rng, format="csr") for _ in range(2))
    with fuzz.small_arrays():
        made = kernel(left, right)
    assert np.allclose(made.toarray(), (left @ right).toarray())


def test_a_kernel_continues_after_rows_without_entries() -> None:
    value = np.zeros((6, 3))
    value[[0, 5]] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    kernel = identity(DCSR.sorted()).assemble(CSR.sorted()).compile()
    pos = np.full(8, 77, np.int32)  # unused memory contains anything
    with fuzz.small_arrays(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "empty", lambda shape, dtype=float: pos if shape == 8 else np.zeros(shape, dtype))
        made = kernel(value)
    assert decompress(made).tolist() == value.tolist()


@pytest.mark.parametrize("columns", [7, 3_000_000])
@pytest.mark.parametrize("zeros", [True, False])
def test_counted_rows_are_sorted_by_insertion_or_by_bits(columns: int, zeros: bool) -> None:
    """Of many columns, rows with up to 27 stores are sorted by insertion; of few columns, all rows by bits."""
    got, wanted = counted_rows(columns, zeros=zeros)
    assert got == wanted


@pytest.mark.parametrize(("right", "wrong"), [("] += value", "] = value"), ("] > column", "] < -1")])
def test_faults_in_insertions_are_detected(right: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = assembly._inserted

    def inserted(*arguments: Any) -> list[str]:
        lines = original(*arguments)
        assert any(right in line for line in lines)
        return [line.replace(right, wrong) for line in lines]

    monkeypatch.setattr(assembly, "_inserted", inserted)
    got, wanted = counted_rows(3_000_000, zeros=True)
    assert got != wanted


Entries = list[tuple[tuple[int, ...], float]]


def counted_rows(columns: int, *, zeros: bool) -> tuple[Entries, Entries]:
    """Return the entries of a matrix with 0 to 60 stores in a row, in order, and those that it should have."""
    kernel = identity(COO).assemble(CSR.sorted(), zeros=zeros).compile()
    (ends,) = gathers(kernel.nest)
    assert (ends.kind, ends.repeats) == ("counted", "any")
    rng = np.random.default_rng(6)
    rows = rng.permutation(np.repeat(np.arange(61), np.arange(61)))
    at = rng.integers(0, columns, len(rows))
    at[rng.random(len(at)) < 0.3] = columns - 1
    values = rng.integers(-2, 3, len(rows)).astype(np.float64)
    made = kernel(sp.coo_array((values, (rows, at)), shape=(62, columns))).tocoo()
    wanted: dict[tuple[int, ...], float] = {}
    for row, column, value in zip(rows.tolist(), at.tolist(), values.tolist(), strict=True):
        wanted[row, column] = wanted.get((row, column), 0.0) + value
    places = zip(*(each.tolist() for each in made.coords), strict=True)
    return list(zip(places, made.data.tolist(), strict=True)), sorted(
        (place, value) for place, value in wanted.items() if zeros or value
    )


def test_segments_that_overlap_are_counted_one_by_one() -> None:
    kernel = identity(CSR).assemble(CSC.sorted()).compile()
    assert kind_of(identity(CSR).assemble(CSC.sorted())) == "counted"
    assert "lengths" in kernel.source
    for pos in ([0, 2, 3], [0, 3, 1], [1, 1, 0], [0, 0, 0], [2, 0, 3]):
        arrays = [np.array(pos, np.int32), np.array([0, 2, 1], np.int32), np.array([1.0, 2.0, 4.0])]
        wanted = np.zeros((2, 3))
        for row in range(2):
            for at in range(pos[row], pos[row + 1]):
                wanted[row, arrays[1][at]] += arrays[2][at]
        made = kernel(A_pos=arrays[0], A_crd=arrays[1], A_val=arrays[2], n=2, m=3)
        assert decompress(made).tolist() == wanted.tolist()


def test_results_of_one_shape_share_nothing() -> None:
    kernel = product().assemble(CSR).compile()
    first, second = kernel(LEFT, RIGHT), kernel(2 * LEFT, RIGHT)
    assert not any(
        np.shares_memory(getattr(first, name), getattr(second, name)) for name in ("data", "indices", "indptr")
    )
    first.resize((2, 2))
    assert second.shape == kernel(LEFT, RIGHT).shape == (3, 4)
    second.check_format()


@pytest.mark.parametrize("form", [CSR, CSR.sorted()], ids=repr)
@pytest.mark.parametrize("mark", [None, "parallel"])
def test_dropped_zeros_leave_no_positions_behind(mark: str | None, form: Any) -> None:
    s = product().assemble(form, zeros=False)
    kernel = (s.mark("i", mark) if mark else s).compile()
    left = sp.csr_array(np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))
    right = sp.csr_array(np.array([[0.0, 2.0, 3.0], [1.0, -2.0, -3.0]]))
    made = kernel(left, right)
    assert made.toarray().tolist() == (left @ right).toarray().tolist()
    assert made.nnz == np.count_nonzero(made.toarray())


@pytest.mark.parametrize("name", ["A B in parallel", "A + B in parallel", "A scaled in parallel"])
def test_counts_of_parallel_rows_do_not_depend_on_values(name: str) -> None:
    """Counting and storing are compiled separately. A product that one of them rounds to zero is an entry of both."""
    formula = next(each for each in FORMULAS if each.name == name)
    source = kernel_for(formula, CSR.sorted(), CSR.sorted(), zeros=False).source
    counting = source.partition("[0] == 0) {")[2].partition("return OUT_OF_SPACE;")[0]
    assert "#pragma omp parallel for" in counting
    assert "_val[" not in counting


def test_calls_in_threads_do_not_share_workspaces() -> None:
    from concurrent.futures import ThreadPoolExecutor

    kernel = product().assemble(CSR.sorted()).compile()
    rng = np.random.default_rng(2)
    pairs = [[sp.random_array((30, 30), density=0.2, rng=rng, format="csr") for _ in range(2)] for _ in range(12)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda pair: kernel(*pair), pairs))
    assert all(np.allclose(one.toarray(), (a @ b).toarray()) for one, (a, b) in zip(made, pairs, strict=True))
    assert isinstance(kernel._assembler, Assembler)


def test_the_interpreter_traps_rows_in_the_wrong_order() -> None:
    from dataclasses import replace

    from lowering.nest import loopnest as ln

    nest = identity(CSR.sorted()).assemble(CSR.sorted()).compile().nest
    (loop,) = nest.body
    assert isinstance(loop, ln.For)
    sizes = {"n": 2, "m": 2, "A_nnz": 2}
    arrays = {
        "A_pos": np.array([0, 1, 2], np.int32),
        "A_crd": np.array([1, 0], np.int32),
        "A_val": np.array([1.0, 2.0]),
    }
    assert len(execute(nest, sizes, arrays).cells) == 2
    ends = loop.body[-1]
    for body in (loop.body[:-1], (*loop.body, ends), (ends, *loop.body[:-1])):
        with pytest.raises(Trap, match="row"):
            execute(replace(nest, body=(replace(loop, body=body),)), sizes, arrays)


@pytest.mark.parametrize("form", [CSF, COO, MODE_GENERIC], ids=repr)
def test_results_of_rank_3_have_the_entries_of_the_operand(form: Any) -> None:
    t = atl.tensor("T", n, m, k, dtype="float64")
    body = atl.gen(n, m, k, lambda i, j, q: 2.0 * t[i, j, q])
    kernel = reschedule(atl.program("twice", [t], body)).sparsify("T", CSF).assemble(form).compile()
    value = np.zeros((3, 4, 5))
    value[[0, 2, 2], [1, 0, 3], [4, 2, 2]] = [1.0, 2.0, 3.0]
    assert decompress(kernel(value)).tolist() == (2 * value).tolist()


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_results_of_other_element_types_are_assembled(dtype: str) -> None:
    left, right = atl.tensor("A", n, k, dtype=dtype), atl.tensor("B", k, m, dtype=dtype)
    body = atl.gen(n, m, lambda i, j: atl.sum(k, lambda q: left[i, q] * right[q, j]))
    s = reschedule(atl.program("product", [left, right], body)).sparsify("A", CSR).sparsify("B", CSR)
    one, other = LEFT.astype(dtype), RIGHT.astype(dtype)
    made = s.assemble(CSR.sorted()).compile()(one, other)
    assert made.dtype == dtype
    assert made.toarray().tolist() == (one @ other).toarray().tolist()


# -- space for the entries --------------------------------------------------------------------------------------------


def sampled() -> Any:
    """Return a kernel that samples a product of dense matrices at the entries of a matrix."""
    u, w = atl.tensor("u", n, k, dtype="float64"), atl.tensor("w", k, m, dtype="float64")
    body = atl.gen(n, m, lambda i, j: A[i, j] * atl.sum(k, lambda r: u[i, r] * w[r, j]))
    return reschedule(atl.program("sampled", [u, w, A], body)).sparsify("A", CSR).assemble(CSR).compile()


def test_the_first_space_does_not_depend_on_dense_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembling, "LEAST", 0)
    kernel, begun = sampled(), list[tuple[int, int]]()
    original = kernel._assembler._new_space

    def new_space(first: tuple[int, int]) -> Any:
        begun.append(first)
        return original(first)

    monkeypatch.setattr(kernel._assembler, "_new_space", new_space)
    u, w = np.ones((3, 1000)), np.ones((1000, 3))
    assert kernel(u, w, LEFT).toarray().tolist() == (1000 * LEFT).toarray().tolist()
    assert begun == [(0, assembling.GROWTH * len(LEFT.indptr) + LEFT.shape[1])]


def test_missing_memory_is_reported_with_the_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise MemoryError

    kernel = product().assemble(CSR).compile()
    monkeypatch.setattr(assembling, "_longer", refused)
    with fuzz.small_arrays(), pytest.raises(OutOfMemory, match="entries of the result of product") as caught:
        kernel(LEFT, RIGHT)
    assert "rows = 3, columns = 4" in str(caught.value)


def test_other_errors_are_not_reported_as_missing_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise ValueError("not a buffer")

    kernel = product().assemble(CSR).compile()
    monkeypatch.setattr(kernel._assembler, "_from_buffer", refused)
    with pytest.raises(ValueError, match="not a buffer"):
        kernel(LEFT, RIGHT)


# -- stores -----------------------------------------------------------------------------------------------------------


T = atl.tensor("T", n, m, k, dtype="float64")
FOLDS: Any = {
    "rows": lambda fold: atl.gen(n, lambda i: atl.reduce(fold, k, lambda q: atl.gen(m, lambda j: T[i, j, q]))),
    "whole": lambda fold: atl.reduce(fold, k, lambda q: atl.gen(n, m, lambda i, j: T[i, j, q])),
    "lower rows": lambda fold: atl.gen(
        n, lambda i: atl.guard(i >= 1, atl.reduce(fold, k, lambda q: atl.gen(m, lambda j: T[i, j, q])))
    ),
}


@pytest.mark.parametrize(("place", "fold"), [("rows", "max"), ("whole", "min"), ("lower rows", "product")])
@pytest.mark.parametrize("form", [CSR, CSR.sorted(), CSC], ids=repr)
def test_other_folds_than_sums_are_assembled(place: str, fold: str, form: Any) -> None:
    kernel = reschedule(atl.program("folded", [T], FOLDS[place](fold))).assemble(form).compile()
    for depth in (2, 0):
        value = np.random.default_rng(3).integers(-4, 5, (3, 4, depth)).astype(np.float64)
        stored = np.ones((3, 4)) if depth else np.zeros((3, 4))
        folds: Any = {"max": np.max, "min": np.min, "product": np.prod}
        meant = folds[fold](value, axis=-1) if depth else stored
        if place == "lower rows":
            meant[0] = stored[0] = 0
        call = fuzz.Call(kernel, [value], meant, stored, form, zeros=True)
        assert call.fault(small=True) is None


def lower_of_halves() -> Session:
    x = atl.tensor("x", n, m, dtype="float16")
    return reschedule(atl.program("lower", [x], atl.gen(n, m, lambda i, j: atl.guard(j <= i, x[i, j]))))


def columns_of_halves() -> Session:
    """Return the lower triangles of a tensor. The elements of each row are not stored in the order of its columns."""
    x = atl.tensor("x", n, m, k, dtype="float16")

    def row(i: Any) -> Any:
        return atl.flatten(atl.transpose(atl.gen(k, m, lambda q, j: atl.guard(j <= i, x[i, j, q]))))

    return reschedule(atl.program("columns", [x], atl.gen(n, row)))


@pytest.mark.parametrize(
    ("make", "form"),
    [
        (lower_of_halves, CSR),
        (lower_of_halves, CSC),
        (columns_of_halves, CSR.sorted()),
        (columns_of_halves, CSR),
        (columns_of_halves, CSC),
    ],
)
def test_negative_zeros_of_16_bits_are_dropped(make: Any, form: Any) -> None:
    s = make().assemble(form, zeros=False)
    kernel = s.compile()
    value = np.ones((4, 3, 2)[: len(s.goal.inputs[0].shape)], np.float16)
    value[1] = -0.0
    made = kernel(value)
    values = made.arrays[-1]
    assert values.tolist() == [1.0] * np.count_nonzero(decompress(made))
    assert len(values) == {2: 1 + 3 + 3, 3: 2 * (1 + 3 + 3)}[value.ndim]


def test_a_result_to_which_nothing_is_stored_has_rows() -> None:
    body = atl.gen(n, m, lambda i, j: atl.guard(i < 0, A[i, j]))
    s = reschedule(atl.program("nothing", [A], body)).assemble(CSR)
    assert kind_of(s) == "counted"
    assert [len(array) for array in s.compile()(LEFT.toarray()).arrays] == [4, 0, 0]


def test_rows_have_a_storage_only_after_the_pass_that_chooses_it() -> None:
    program = identity().assemble(CSR).goal
    with pytest.raises(AssertionError, match="the rows of the output of same do not end"):
        AssembledText.of(lower_unchecked(program))


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_scattered_stores_are_prefetched_within_the_array(dtype: str) -> None:
    transposed = atl.program("transposed", [A], atl.gen(m, n, lambda j, i: A[i, j]))
    s = reschedule(transposed).sparsify("A", CSR.sorted().with_index_dtype(dtype))
    kernel = s.assemble(CSR.sorted().with_index_dtype(dtype)).compile()
    assert f"const int ahead = is_scattered_{dtype}(A_crd, A_nnz);" in kernel.source
    assert "if (ahead && p + 32 < A_nnz) {" in kernel.source
    random = np.random.default_rng(33)
    for rows, columns in ((3000, 300000), (300000, 3000), (300000, 3)):  # scattered, scattered, near each other
        count = 300000
        at = random.integers(0, rows, count), random.integers(0, columns, count)
        matrix = sp.coo_array((random.random(count), at), shape=(rows, columns)).tocsr()
        matrix.indices, matrix.indptr = matrix.indices.astype(dtype), matrix.indptr.astype(dtype)
        made, wanted = kernel(matrix), matrix.T.tocsr()
        for one, other in zip(
            (made.indptr, made.indices, made.data), (wanted.indptr, wanted.indices, wanted.data), strict=True
        ):
            assert np.array_equal(one, other)


def test_rows_that_are_not_elements_of_one_array_are_not_prefetched() -> None:
    shifted = atl.gen(m + 1, n, lambda j, i: atl.guard(j >= 1, A[i, j - 1]))
    s = reschedule(atl.program("shifted", [A], shifted)).sparsify("A", CSR.sorted()).assemble(CSR.sorted())
    assert kind_of(s) == "counted"
    assert "is_scattered" not in s.compile().source
    assert s.compile()(LEFT).toarray().tolist() == [[0.0] * 3, *LEFT.toarray().T.tolist()]
