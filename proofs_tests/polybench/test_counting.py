"""The class that counts operations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from proofs_tests.polybench.counting import COMPILER, Counter

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("statement", "count"),
    [
        ("x[0] = x[1];", 0),
        ("x[0] = -x[1];", 0),
        ("x[0] = (double)n;", 0),
        ("x[0] = x[1] + 2 * x[2];", 2),
        ("x[0] = (x[1] - n) / 3.0;", 2),
        ("for (int64_t i = 0; i < n; i++) { x[i] += x[0]; x[i] -= 1; x[i] *= x[i]; x[i] /= 3; }", 12),
        ("x[0] = x[1] < x[2] ? x[1] : x[2];", 1),
        ("x[0] = fmax(sqrt(x[1]), pow(x[2], 2.0));", 3),
        ("if (x[0] <= 0.5) { x[0] = exp(x[1]); }", 2),
    ],
)
def test_operations_on_elements_are_counted(statement: str, count: int, tmp_path: Path) -> None:
    source = f"void f(int64_t n, double *restrict x) {{ {statement} }}"
    counter = Counter(source, "f", "float64", tmp_path)
    counter.call(3, np.zeros(3))
    assert counter.operations == count


@pytest.mark.long
def test_integers_of_the_element_type_are_counted(tmp_path: Path) -> None:
    source = "void f(int64_t n, int32_t *x) { for (int64_t i = 1; i < n; i++) x[i] = x[i - 1] + x[i]; }"
    counter, x = Counter(source, "f", "int32", tmp_path), np.ones(4, np.int32)
    counter.call(4, x)
    assert (counter.operations, x.tolist()) == (3, [1, 2, 3, 4])
