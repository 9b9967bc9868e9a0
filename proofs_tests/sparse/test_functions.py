"""Functions with f(0) = 0 are applied to the entries of sorted operands, and refused for other formats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import atl
from atl.core.operations import NOT_ZERO_AT_ZERO, OPERATIONS, ZERO_AT_ZERO
from atl.errors import ATLError
from lowering import compile as compiled
from rewrites import reschedule
from rewrites.errors import DoesNotApply
from rewrites.named_operators import unary
from sparse import BITMASK, COO, CSC, CSF, CSR, DCSR, DIA, Format, pack

pytestmark = pytest.mark.sampled

n, m = atl.sizes("n m")
A = atl.tensor("A", n, m, dtype="float64")
B = atl.tensor("B", n, m, dtype="float64")
VALUE = np.array([[0.0, 2.25, 0.0, -1.5], [0.0, 0.0, 0.0, 0.0], [0.25, 0.0, -3.0, 1.0]])
OTHER = np.array([[0.0, -1.0, 2.0, -2.0], [1.0, 0.0, 0.0, 0.0], [0.5, 0.0, -4.0, 0.0]])
FLOATS = [op for op in ZERO_AT_ZERO if "float" in OPERATIONS[op].kinds and op != "neg"]


def refused(error: type[ATLError], act: Any) -> str:
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def elementwise(function: Any, *operands: atl.Tensor) -> atl.Program:
    return atl.program("f", list(operands), atl.gen(n, m, lambda i, j: function(*(a[i, j] for a in operands))))


def check(program: atl.Program, *formats: Format) -> str:
    """Sparsify the inputs, compare a call with the dense formula, and return the sparse goal."""
    s = reschedule(program)
    for array, form in zip(program.inputs, formats, strict=False):
        s = s.sparsify(array.name, form)
    values = [VALUE, OTHER][: len(program.inputs)]
    packed = [pack(value, form) for value, form in zip(values, formats, strict=True)]
    arguments: dict[str, Any] = {array.name: v for array, v in zip(program.inputs, values, strict=True)}
    dense = atl.evaluate(program, **arguments)
    np.testing.assert_allclose(s.compile()(*packed), dense, rtol=1e-12)
    return str(s.goal).partition(":=")[2]


@pytest.mark.parametrize("op", FLOATS)
def test_functions_are_applied_to_entries(op: str) -> None:
    program = elementwise(lambda a: unary(op, atl.abs(a) if op in ("sqrt", "log1p") else a), A)
    goal = check(program, CSR.sorted())
    assert goal.count("Σ") == 1
    assert "place m A_crd[p]" in goal
    assert "⊞[j < m]" not in goal


@pytest.mark.parametrize("op", [op for op in NOT_ZERO_AT_ZERO if "float" in OPERATIONS[op].kinds])
def test_other_functions_are_refused(op: str) -> None:
    s = reschedule(elementwise(lambda a: unary(op, a), A))
    text = refused(DoesNotApply, lambda: s.sparsify("A", CSR.sorted()))
    assert f"entries are found below {op}" in text
    assert "functions with f(0) = 0" in text


RELU = elementwise(lambda a: atl.maximum(a, 0.0), A)


@pytest.mark.parametrize("form", [CSC.sorted(), DCSR.sorted(), CSF.sorted(), DIA.sorted(), BITMASK], ids=repr)
def test_functions_of_other_formats(form: Format) -> None:
    goal = check(RELU, form)
    assert "max(A_val[" in goal
    assert "max(0.0" not in goal


@pytest.mark.parametrize("form", [CSR, CSC, COO, COO.sorted(), DCSR], ids=repr)
def test_several_entries_of_an_element_are_refused(form: Format) -> None:
    text = refused(DoesNotApply, lambda: reschedule(RELU).sparsify("A", form))
    assert f"required: at most one entry for each element of A, which {form!r} does not declare" in text
    assert "try: sparsify('A', CSR.sorted())" in text


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda a: a * a, "(A_val[p] * A_val[p])"),
        (lambda a: a * atl.abs(a), "(A_val[p] * abs(A_val[p]))"),
        (lambda a: a / (1.0 + atl.abs(a)), "(A_val[p] / (1.0 + abs(A_val[p])))"),
        (lambda a: atl.where(a < 0, 0.1 * a, a), "where(A_val[p] < 0, 0.1 * A_val[p], A_val[p])"),
        (lambda a: atl.minimum(0.0, a), "min(0.0, A_val[p])"),
        (lambda a: atl.maximum(2.0 * a, a), "max(2.0 * A_val[p], A_val[p])"),
        (lambda a: atl.sin(atl.tanh(a)), "sin(tanh(A_val[p]))"),
        (lambda a: atl.cast("float32", a), "cast(float32, A_val[p])"),
        (lambda a: atl.abs(a) - a, "(abs(A_val[p]) - A_val[p])"),
    ],
)
def test_expressions_of_one_element(function: Any, wanted: str) -> None:
    goal = check(elementwise(function, A), CSR.sorted())
    assert goal.split() == f"⊞[i < n] Σ[A_pos[i] <= p < A_pos[i + 1]] place m A_crd[p] {wanted}".split()


def test_false_guards_are_not_stored() -> None:
    program = atl.program("f", [A], atl.gen(n, m, lambda i, j: atl.maximum(atl.guard(j <= i, A[i, j]), 0.0)))
    assert "[A_crd[p] <= i] · place m A_crd[p] max(A_val[p], 0.0)" in check(program, CSR.sorted())


@pytest.mark.parametrize("form", [CSR.sorted(), DCSR.sorted(), CSC.sorted()], ids=repr)
@pytest.mark.parametrize("function", [atl.maximum, atl.minimum])
def test_extrema_of_two_operands(function: Any, form: Format) -> None:
    goal = check(elementwise(function, A, B), form, form)
    assert "⊞[j < m]" not in goal or form == CSC.sorted()


def test_differences_are_not_subtracted_below_other_functions() -> None:
    """|a - b| = |a| + |b| + (|a - b| - |a| - |b|) would lose digits for a near b."""
    s = reschedule(elementwise(lambda a, b: atl.abs(a - b), A, B))
    assert "entries are found below abs" in refused(DoesNotApply, lambda: s.sparsify("A", CSR.sorted()))


def test_a_function_of_entries_is_summed() -> None:
    program = atl.program("f", [A], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * A[i, j])))
    assert "Σ[A_pos[i] <= p < A_pos[i + 1]] A_val[p] * A_val[p]" in check(program, CSR.sorted())


def test_functions_are_replayed_from_certificates(tmp_path: Any) -> None:
    theorem = reschedule(RELU).sparsify("A", CSR.sorted()).done()
    theorem.save(tmp_path / "relu.json")
    assert atl.load(tmp_path / "relu.json").rhs == theorem.rhs
    assert compiled(theorem.rhs)(VALUE).tolist() == np.maximum(VALUE, 0).tolist()
