"""NumPy notation on tensors: comparison with NumPy, printed form and errors."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import scipy.special

import atl
from atl.errors import ATLError, DtypeError, InvalidArgument, RankError, ShapeError, SymbolicValue, UnsafeAccess

n, m, k = atl.sizes("n m k", min=1)
EXTENTS = {"n": 3, "m": 4, "k": 5}
INPUTS = {
    "A": atl.tensor("A", n, k, dtype="float64"),
    "B": atl.tensor("B", k, m, dtype="float64"),
    "C": atl.tensor("C", n, k, dtype="float64"),
    "v": atl.tensor("v", k, dtype="float64"),
    "u": atl.tensor("u", n, dtype="float64"),
    "S": atl.tensor("S", 2, n, k, dtype="float64"),
    "R": atl.tensor("R", 1, k, dtype="float64"),
}
DRAW = np.random.default_rng(3)
ARRAYS: dict[str, Any] = {
    name: DRAW.random(tuple(EXTENTS.get(str(extent)) or int(str(extent)) for extent in tensor.shape)) + 0.5
    for name, tensor in INPUTS.items()
}

FORMULAS = [
    'A @ B',
    'A @ v',
    'v @ B',
    'v @ v',
    'S @ B',
    'S @ v',
    'A.T',
    'S.T',
    'A.sum() + A.sum(axis=0).max() - A.sum(axis=-1).min()',
    'S.sum(axis=(0, 2))',
    'S.mean(axis=1, keepdims=True)',
    'A.prod(1, keepdims=True) / A.max()',
    'A - A.mean(axis=1, keepdims=True)',
    'np.exp(A) / np.exp(A).sum(axis=1, keepdims=True)',
    'A * v + A * u[:, None]',
    'S - A + R',
    'R / A',
    'u[:, None] * v[None, :]',
    'A[:, 0]',
    'A[1:, ::-1]',
    'S[..., 0][None, 1]',
    'v[1:] - v[:-1]',
    'v[::2]',
    'v[1::3]',
    'A[..., None].sum(axis=0)',
    'np.add(A, 1) * np.float64(2) - np.subtract(1, A)',
    'np.maximum(A, C) + np.minimum(A, 1.0) * np.negative(C)',
    'np.sqrt(np.square(A)) + np.log(A) + np.tanh(A) + np.absolute(A) + np.positive(A)',
    'np.sin(A) + np.cos(A) + erf(A) - np.float64(2) ** A + A ** 3 + np.power(A, 2.5) + A ** -1 + A ** 0.5 + A ** C',
    'np.sum(A, axis=1) + np.mean(A) + np.prod(A, axis=1)',
    'np.amax(A, 0) - np.min(A, axis=0)',
    'np.matmul(A, B) + np.transpose(np.transpose(np.matmul(A, B)))',
]  # fmt: skip


def evaluated(formula: str, of: dict[str, Any]) -> Any:
    """Evaluate a formula on tensors or arrays."""
    return eval(formula, {"np": np, "erf": scipy.special.erf, **of})


@pytest.mark.parametrize("formula", FORMULAS, ids=str)
def test_numpy_notation_matches_numpy(formula: str) -> None:
    body, want = evaluated(formula, INPUTS), evaluated(formula, ARRAYS)
    got = atl.evaluate(atl.program("f", list(INPUTS.values()), body), **ARRAYS, m=4)
    assert got.shape == np.shape(want)
    assert np.allclose(got, want, rtol=1e-12, atol=0)


def test_random_shapes_broadcast_as_in_numpy() -> None:
    draw = Random(5)
    refused = 0
    for _ in range(150):
        shapes = [[draw.choice(["n", "m", "1", "2"]) for _ in range(draw.randrange(4))] for _ in range(2)]
        tensors = [
            atl.tensor(name, *(SYMBOLS[e] if e in SYMBOLS else int(e) for e in shape), dtype="float64")
            for name, shape in zip("xy", shapes, strict=True)
        ]
        arrays = [DRAW.random(tuple(EXTENTS.get(e) or int(e) for e in shape)) for shape in shapes]
        try:
            want = arrays[0] - arrays[1]
        except ValueError:
            with pytest.raises(ATLError):
                atl.program("f", tensors, tensors[0] - tensors[1])
            refused += 1
            continue
        program = atl.program("f", tensors, tensors[0] - tensors[1])
        sizes: dict[str, Any] = {size: EXTENTS[size] for size in program.free_sizes}
        got = atl.evaluate(program, *arrays, **sizes)
        assert got.shape == want.shape
        assert np.allclose(got, want)
    assert 20 < refused < 130


SYMBOLS = {"n": n, "m": m}


def test_numpy_notation_becomes_a_plain_formula() -> None:
    a, b, v = INPUTS["A"], INPUTS["B"], INPUTS["v"]
    assert str(a @ b) == "⊞[i < n] ⊞[j < m] Σ[k1 < k] A[i, k1] * B[k1, j]"
    assert str(a.sum(axis=0)) == "⊞[i < k] Σ[k1 < n] A[k1, i]"
    assert str(a * v) == "A * ⊞[i < n] ⊞[j < k] v[j]"
    assert str(a[1:, 0]) == "⊞[i < n - 1] A[i + 1, 0]"
    # An element of a generation is substituted, without an intermediate tensor.
    assert "(⊞" not in str(a / a.sum(axis=1, keepdims=True)).replace("\n", "")


@pytest.mark.parametrize(
    ("formula", "error", "said"),
    [
        ('A + u', ShapeError, r"(?s)shapes \(n, k\) and \(n,\).*try: add a dimension with A\[:, None\]"),
        ('A @ C', ShapeError, "the inner extents of @ differ: k on the left, n on the right"),
        ('A @ A.sum()', RankError, r"(?s)a scalar is an operand of @.*a \* b"),
        ('A @ 2', InvalidArgument, "@ needs two tensors, got a tensor and"),
        ('A @ np.ones((5, 2))', InvalidArgument, "@ needs two tensors, got a tensor and"),
        ('np.ones((2, 3)) @ A', SymbolicValue, "NumPy's matmul"),
        ('A.sum(2)', InvalidArgument, "axis=2 of a tensor with 2 dimensions"),
        ('A.sum((0, 0))', InvalidArgument, r"axis=\(0, 0\)"),
        ('A.sum(0, keepdims=1)', InvalidArgument, "keepdims=1"),
        ('A[::-2]', InvalidArgument, r"(?s)the step -2.*or \[::-1\]"),
        ('A[::0]', InvalidArgument, "the step 0"),
        ('A[:, :, None, :]', RankError, "3 indices and slices"),
        ('A[..., ...]', RankError, "and ... once"),
        ('A["a":]', InvalidArgument, "'a' is not an index"),
        ('A ** 0', InvalidArgument, "raised to the power 0"),
        ('A ** 40', InvalidArgument, r"for positive elements, write atl.exp\(40 \* atl.log\(a\)\)"),
        ('np.arctan(A)', SymbolicValue, "NumPy's arctan is applied"),
        ('np.where(A, 1, 2)', DtypeError, r"where\(x != 0, a, b\)"),
        ('np.einsum("ij->i", A)', SymbolicValue, "(?s)NumPy's einsum.*atl.einsum"),
        ('np.concatenate([A, A])', SymbolicValue, "(?s)NumPy's concatenate.*atl.concat"),
        ('np.sum(A, dtype="f4")', SymbolicValue, "NumPy's sum"),
        ('np.sum(A, 0, None)', SymbolicValue, "NumPy's sum"),
        ('np.add.reduce(A)', SymbolicValue, "NumPy's add"),
        ('A + np.ones(3)', InvalidArgument, "declare an input"),
    ],
)  # fmt: skip
def test_unsupported_numpy_notation_is_refused(formula: str, error: type[ATLError], said: str) -> None:
    with pytest.raises(error, match=said):
        evaluated(formula, INPUTS)


def test_slice_that_may_exceed_the_tensor_is_refused() -> None:
    """NumPy would clip the slice at run time; here its shape depends on the sizes."""
    v = INPUTS["v"]
    with pytest.raises(UnsafeAccess, match="breaks at"):
        atl.check_safe(atl.program("f", [v], v[:5]))
    with pytest.raises(ATLError, match="range of gen runs backwards"):
        atl.program("f", [v], v[2:])
    atl.check_safe(atl.program("f", [v], v[2:5], given=[k >= 5]))


@pytest.mark.parametrize(
    "held",
    [
        np.array([1.0, -4.5, 6.25]),
        np.arange(12, dtype=np.int64).reshape(3, 4),
        np.array(2.5),
        np.eye(3, dtype=np.float32),
        np.zeros((2, 1, 3)),
        np.array([-(2**31), 2**31 - 1], np.int32),
    ],
    ids=str,
)
def test_constant_has_the_given_elements(held: Any) -> None:
    made = atl.constant(held)
    program = atl.program("f", [], made)
    got = atl.evaluate(program)
    assert got.dtype == held.dtype
    assert np.array_equal(got, held)
    assert np.array_equal(atl.evaluate_fast(program), held)
    assert atl.parse(str(program)) == program


@pytest.mark.parametrize(
    ("numbers", "dtype", "said"),
    [
        ([], None, "a constant of 0 numbers"),
        (np.ones(257), None, "(?s)a constant of 257 numbers.*declare an input"),
        ([1.0, np.nan], None, "finite numbers"),
        ([1e300], "float32", "finite numbers in the range of float32"),
        ([1.5], "int32", "do not fit into int32"),
        ([2**40], "int32", "do not fit into int32"),
        (["a"], None, "a constant with elements of type"),
        ([True], None, "a constant with elements of type bool"),
        ([[1], [2, 3]], None, "is not an array"),
        ([1.0], "complex", "complex"),
    ],
)
def test_invalid_constant_is_refused(numbers: Any, dtype: str | None, said: str) -> None:
    with pytest.raises(ATLError, match=said):
        atl.constant(numbers, dtype=dtype)
