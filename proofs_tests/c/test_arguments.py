"""Arguments of calls: sizes are inferred from arrays; an error names the argument, the requirement and the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.index import Quotient, constant, index, size
from atl.core.predicate import at_most
from atl.core.program import Program
from atl.core.terms import Constant, Padding, Type, Value
from atl.errors import ArgumentError, ArrayError, AssumptionError, ATLError
from atl.meaning.arguments import bind

n, m, k, s = atl.sizes("n m k s")
A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)
matmul = Program("matmul", (A.node.array, B.node.array), Padding(Type("float32", (size("n"), size("m")))))  # type: ignore[union-attr]
a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)


def program(*inputs: atl.Tensor, uses: Sequence[str] = (), given: Sequence[Any] = ()) -> Program:
    """Return a program of these inputs whose body mentions the sizes `uses`."""
    body = Padding(Type("float32", tuple(size(name) for name in uses)))
    return Program("p", tuple(tensor.node.array for tensor in inputs), body, tuple(given))  # type: ignore[union-attr]


def refusal(of: Program, error: type[ATLError], *positional: object, exact: bool = False, **keywords: object) -> str:
    with pytest.raises(error) as caught:
        bind(of, positional, keywords, exact=exact)
    return str(caught.value)


def has(text: str, *parts: str) -> bool:
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in:\n{text}"
    return True


def test_sizes_are_inferred_in_program_order() -> None:
    call = bind(matmul, [a], {"B": b})
    assert list(call.sizes.items()) == [("n", 2), ("k", 3), ("m", 4)]
    assert call.arrays["A"] is a
    assert call.arrays["B"] is b


def test_redundant_size_is_accepted_if_it_agrees() -> None:
    assert bind(matmul, [a, b], {"n": 2}).sizes["n"] == 2
    text = refusal(matmul, ArrayError, a, b, n=5)
    assert has(
        text, "the keyword and dimension 0 of A give different n", "n = 5 from the keyword, n = 2 from dimension 0"
    )


def test_missing_array_is_named_with_its_declaration() -> None:
    assert has(refusal(matmul, ArgumentError, a), "missing argument 'B' of matmul", "B: float32 of shape (k, m)")
    assert has(
        refusal(matmul, ArgumentError),
        "missing arguments 'A' and 'B' of matmul",
        "A: float32 of shape (n, k); B: float32",
    )


def test_too_many_arrays_are_counted() -> None:
    text = refusal(matmul, ArgumentError, a, b, a)
    assert has(text, "matmul takes 2 arrays by position, got 3", "the arrays A, B")
    text = refusal(program(A, uses=["s"]), ArgumentError, a, 4)
    assert has(text, "takes 1 array by position, got 2", "try: pass a size by its name")
    assert has(refusal(program(), ArgumentError, a), "takes 0 arrays", "(none)")


def test_unknown_or_repeated_argument_is_refused_with_a_suggestion() -> None:
    assert has(refusal(matmul, ArgumentError, a, b, A=a), "matmul got A twice", "one array for A")
    close = program(atl.tensor("image", n))
    text = refusal(close, ArgumentError, imge=a)
    assert has(text, "p has no argument imge", "arguments among image, n", "write image= instead of imge=")
    assert has(refusal(matmul, ArgumentError, a, b, other=1), "has no argument other", "try: leave out other=")
    assert has(refusal(program(), ArgumentError, other=1), "arguments among none at all")


def test_conflicting_sizes_name_both_dimensions() -> None:
    text = refusal(matmul, ArrayError, a, np.ones((5, 4), np.float32))
    assert has(
        text,
        "dimension 1 of A and dimension 0 of B give different k",
        "one k for all of matmul: A: float32 of shape (n, k); B: float32 of shape (k, m)",
        "k = 3 from dimension 1 of A, k = 5 from dimension 0 of B",
    )
    text = refusal(program(atl.tensor("Q", n, n)), ArrayError, a)
    assert has(text, "dimension 0 of Q and dimension 1 of Q give different n", "n = 2 from", "n = 3 from")


def test_undetermined_size_is_passed_by_keyword() -> None:
    free = program(A, uses=["s", "m"])
    text = refusal(free, ArgumentError, a)
    assert has(text, "no array determines the sizes s and m of p", "s and m as keywords", "try: add s=…, m=… to")
    text = refusal(free, ArgumentError, a, s=1)
    assert has(text, "the size m of p", "m as a keyword of the call", "try: add m=… to the arguments")
    assert bind(free, [a], {"s": np.int32(7), "m": 0}).sizes == {"n": 2, "k": 3, "s": 7, "m": 0}


def test_size_must_be_an_integer() -> None:
    free = program(uses=["s"])
    text = refusal(free, ArgumentError, s=2.0)
    assert has(text, "the size s of p is 2.0 (float)", "an integer s >= 0", "try: write s=2")
    for wrong in (True, 2.5, "3", None, np.float32(np.inf), np.ones(1)):
        assert has(refusal(free, ArgumentError, s=wrong), "the size s of p is", type(wrong).__name__)


@pytest.mark.parametrize("value", [-1, 2**63, 10**50])
def test_size_must_be_a_nonnegative_machine_integer(value: int) -> None:
    text = refusal(program(uses=["s"]), AssumptionError, s=value)
    assert has(text, "the size s of p is out of range", "0 <= s < 2**63", f"s = {value}")


def test_extents_that_are_expressions_are_checked() -> None:
    shaped = program(atl.tensor("x", n), atl.tensor("y", 2 * n + 1, 3))
    x = np.ones(4, np.float32)
    assert bind(shaped, [x, np.ones((9, 3), np.float32)], {}).sizes == {"n": 4}
    text = refusal(shaped, ArrayError, x, np.ones((8, 3), np.float32))
    assert has(
        text,
        "dimension 0 of y has 8 elements, not 9",
        "y: float32 of shape",
        "; here ",
        " = 9",
        "shape = (8, 3), n = 4",
    )
    assert has(refusal(shaped, ArrayError, x, np.ones((9, 1), np.float32)), "dimension 1 of y has 1 element, not 3")


def test_size_is_solved_from_a_linear_extent() -> None:
    shaped = program(atl.tensor("y", 2 * n + 1))
    assert bind(shaped, [np.ones(5, np.float32)], {}).sizes == {"n": 2}
    assert bind(shaped, [np.ones(1, np.float32)], {}).sizes == {"n": 0}
    text = refusal(shaped, ArrayError, np.ones(4, np.float32))
    assert has(text, "dimension 0 of y has 4 elements, which is not 2*n + 1 for any n", "for some n >= 0")
    assert has(refusal(shaped, ArrayError, np.ones(0, np.float32)), "has 0 elements, which is not 2*n + 1")
    assert has(refusal(shaped, ArrayError, np.ones(5, np.float32), n=3), "dimension 0 of y has 5 elements, not 7")
    both = program(atl.tensor("y", n + 1), atl.tensor("x", n))
    text = refusal(both, ArrayError, np.ones(4, np.float32), np.ones(2, np.float32))
    assert has(text, "dimension 0 of y has 4 elements, not 3", "n = 2")


def test_size_in_a_product_of_sizes_is_passed_by_keyword() -> None:
    shaped = program(atl.tensor("y", n * atl.sizes("k")))
    assert has(refusal(shaped, ArgumentError, np.ones(4, np.float32), k=2), "no array determines the size n")
    assert bind(shaped, [np.ones(4, np.float32)], {"n": 2, "k": 2}).sizes == {"n": 2, "k": 2}


def test_extent_that_divides_by_zero_is_refused() -> None:
    shaped = program(atl.tensor("y", atl.IndexExpr(index(Quotient(size("n"), size("s"))))))
    text = refusal(shaped, AssumptionError, np.ones(4, np.float32), n=8, s=0)
    assert has(text, "an extent of y", "divides by 0", "a positive divisor", "n = 8, s = 0")
    assert bind(shaped, [np.ones(4, np.float32)], {"n": 8, "s": 2}).sizes == {"n": 8, "s": 2}


def test_assumptions_on_sizes_are_checked() -> None:
    least = atl.sizes("s", min=2)
    real = atl.program("real", [A], atl.gen(least, lambda i: A[0, 0]))
    assert bind(real, [a], {"s": 2}).sizes["s"] == 2
    text = refusal(real, AssumptionError, a, s=1)
    assert has(text, "these sizes violate an assumption of real", "required:", "s = 1")
    broken = program(uses=["s"], given=[at_most(constant(1), index(Quotient(constant(4), size("s"))))])
    assert has(refusal(broken, AssumptionError, s=0), "violate an assumption of p", "s = 0")


def test_wrong_dtype_is_refused_with_the_conversion_to_write() -> None:
    text = refusal(matmul, ArrayError, a, b.astype(np.float64))
    assert has(
        text,
        "the elements of B are float64, not float32",
        "B: float32 of shape (k, m)",
        "try: pass B.astype(np.float32)",
    )
    assert bind(matmul, [a, b.astype(np.float64).astype(np.float32)], {}).sizes["m"] == 4
    assert has(refusal(matmul, ArrayError, a, b.astype(">f4")), "elements of B are >f4, not float32")
    assert has(refusal(matmul, ArrayError, a, b > 0), "are bool, not float32")


def test_list_has_the_dtype_that_numpy_infers() -> None:
    double = program(atl.tensor("x", n, dtype="float64"))
    call = bind(double, [[1.0, 2.0]], {})
    assert call.arrays["x"].dtype == np.float64
    assert call.sizes == {"n": 2}
    text = refusal(program(atl.tensor("x", n)), ArrayError, [1.0, 2.0])
    assert has(text, "the elements of x are float64, not float32", "try: pass np.asarray(x, dtype=np.float32)")


@pytest.mark.parametrize("value", ["text", None, {"a": 1}, object(), [[1.0], [1.0, 2.0]], ["a"], [1j], 1j])
def test_value_that_is_not_a_numeric_array_is_refused(value: object) -> None:
    text = refusal(program(atl.tensor("x", n, dtype="float64")), ATLError, value)
    assert has(text, "x", "x: float64 of shape (n,)")


def test_wrong_rank_is_refused_with_both_shapes() -> None:
    text = refusal(matmul, ArrayError, a[0], b)
    assert has(text, "A has 1 dimension, not 2: its shape is (3,)", "A: float32 of shape (n, k)")
    assert has(refusal(matmul, ArrayError, a, np.float32(1)), "B has 0 dimensions, not 2: its shape is ()")


def test_masked_array_is_refused() -> None:
    text = refusal(matmul, ArgumentError, np.ma.masked_array(a, a > 0), b)
    assert has(text, "A is a masked array", "A.filled(0)")


def test_strided_arrays_are_passed_as_they_are() -> None:
    strided = np.ones((6, 4), np.float32)[::-3].T[::2]
    call = bind(matmul, [strided, np.broadcast_to(np.float32(1), (2, 9))], {})
    assert call.arrays["A"] is strided
    assert call.sizes == {"n": 2, "k": 2, "m": 9}


SCALARS = {dtype: program(atl.tensor("c", dtype=dtype)) for dtype in ("float32", "float64", "int32", "int64")}

HELD: dict[str, Sequence[float]] = {
    "float32": (0.1, 2**24, float("inf")),
    "float64": (-3, 0.1, float("nan")),
    "int32": (-(2**31), 2),
    "int64": (2**63 - 1,),
}
REFUSED: dict[str, Sequence[float]] = {
    "float32": (1e300, 2**24 + 1, 10**40),
    "float64": (2**53 + 1, 10**9999),
    "int32": (2**31, 0.5, 2.0, float("nan")),
    "int64": (2**63, float("inf")),
}


@pytest.mark.parametrize("dtype", HELD)
def test_python_number_is_an_input_of_rank_0(dtype: str) -> None:
    for value in HELD[dtype]:
        held = bind(SCALARS[dtype], [value], {}).arrays["c"]
        assert held.ndim == 0
        assert held.dtype == np.dtype(dtype)
        np.testing.assert_equal(held[()], np.dtype(dtype).type(value))


@pytest.mark.parametrize("dtype", REFUSED)
def test_python_number_out_of_range_is_refused(dtype: str) -> None:
    for value in REFUSED[dtype]:
        text = refusal(SCALARS[dtype], ArrayError, value)
        kind = "an integer" if dtype.startswith("int") else "a number"
        assert has(text, "c is", f"which is not a valid {dtype}", f"{kind} that fits {dtype}")


def test_whole_float_is_not_an_integer() -> None:
    assert has(refusal(SCALARS["int32"], ArrayError, 2.0), "c is 2.0 (float), which is not a valid int32", "pass 2")
    assert "pass" not in refusal(SCALARS["int32"], ArrayError, 2.0**31)


def test_numpy_scalar_keeps_its_dtype() -> None:
    assert bind(SCALARS["float32"], [np.float32(2)], {}).arrays["c"] == 2
    assert has(refusal(SCALARS["float32"], ArrayError, np.float64(2)), "elements of c are float64, not float32")
    assert has(refusal(SCALARS["int32"], ArrayError, True), "elements of c are bool, not int32")


def test_declared_range_is_checked() -> None:
    ranged = program(atl.tensor("x", m), atl.tensor("idx", n, 2, dtype="int32", range=(0, m)))
    x = np.ones(4, np.float32)
    assert bind(ranged, [x, np.array([[0, 3]], np.int32)], {}).sizes == {"m": 4, "n": 1}
    text = refusal(ranged, ArrayError, x, np.array([[0, 3], [2, 4]], np.int32))
    assert has(text, "idx[1, 1] is out of the declared range", "in all of idx", "idx[1, 1] = 4, m = 4")
    assert has(refusal(ranged, ArrayError, x, np.array([[0, -1]], np.int32)), "idx[0, 1] = -1")
    assert bind(ranged, [x, np.zeros((0, 2), np.int32)], {}).sizes["n"] == 0
    scalar = program(atl.tensor("c", dtype="int32", range=(0, 2**40)))
    assert bind(scalar, [5], {}).arrays["c"] == 5
    assert has(refusal(scalar, ArrayError, -5), "c is out of the declared range", "c = -5")


def test_declared_order_is_checked_along_the_last_dimension() -> None:
    rows = program(atl.tensor("crd", n, m, dtype="int64", monotonic="increasing"))
    least, most = -(2**63), 2**63 - 1
    assert bind(rows, [np.array([[5, 6], [0, 9], [least, most]])], {}).sizes == {"n": 3, "m": 2}
    text = refusal(rows, ArrayError, np.array([[5, 6, 7], [0, 9, 9]]))
    assert has(text, "the elements of crd are not strictly increasing", "crd[1, 1] = 9, crd[1, 2] = 9")
    for shape in ((0, 4), (3, 0), (3, 1)):
        bind(rows, [np.zeros(shape, np.int64)], {})


def exactly(dtype: str, value: object) -> Any:
    return bind(program(atl.tensor("x", n, dtype=dtype)), [value], {}, exact=True).arrays["x"]


def test_exact_calls_accept_rational_numbers() -> None:
    for value in ([1, Fraction(1, 3), 0.5], np.array([1, 2], np.int8), np.ones(3, np.float64), [2**70, np.float32(1)]):
        assert list(exactly("float32", value)) == list(value)
    scalar = program(atl.tensor("c"))
    for number in (3, 0.5, Fraction(1, 3), 2**70):
        assert bind(scalar, [number], {}, exact=True).arrays["c"][()] == number


@pytest.mark.parametrize("value", [[1, "a"], [True], [None, 1], [1j], np.array([1, True], dtype=object)])
def test_exact_calls_accept_only_numbers(value: object) -> None:
    assert has(refusal(program(atl.tensor("x", n)), ATLError, value, exact=True), "x")


def test_exact_calls_keep_integer_dtypes() -> None:
    for value in ([1, 2], [1.0, 2.0], [Fraction(1), 2], np.array([1, 2], np.int64)):
        held = exactly("int32", value)
        assert held.dtype == np.int32
        assert list(held) == [1, 2]
    ints = program(atl.tensor("x", n, dtype="int32"))
    for wrong in ([1, 2.5], [2**31], [Fraction(1, 2)], [float("nan")], [float("inf"), 1]):
        assert has(
            refusal(ints, ArrayError, wrong, exact=True), "x[", "which is not a valid int32", "x: int32 of shape (n,)"
        )


def test_evaluate_and_bind_refuse_alike() -> None:
    body = Value(size("n") + constant(1), "float32")
    with pytest.raises(ArrayError, match="elements of A are int64, not float32"):
        atl.evaluate(Program("p", (A.node.array,), body), np.ones((2, 2), np.int64))  # type: ignore[union-attr]
    assert atl.evaluate(Program("p", (), Constant(2, "float32"))) == 2
    assert atl.evaluate(Program("p", (), body), n=4) == 5
