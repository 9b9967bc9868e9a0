"""A C function of your own as an instruction: `python examples/own_instruction.py`.

`atl check-instruction examples/own_instruction.py` compares it with its program.
"""

import numpy as np

import atl


@atl.instruction(source="weighted_sums.c", strides={"a": "a1 = 1 ∧ a0 >= k"}, result="stored", given="k <= 128")
def weighted_sums(a: atl.Tensor["n k"], w: atl.Tensor["k"]) -> atl.Tensor:
    """Return a sum of each row of `a`, weighted by `w`."""
    n, k = a.shape
    return atl.gen(n, lambda i: atl.sum(k, lambda p: a[i, p] * w[p]))


@atl.program
def even_rows(X: atl.Tensor["2*n 100"], w: atl.Tensor["100"]) -> atl.Tensor:
    """Return weighted sums of the rows with even numbers."""
    return atl.gen(X.shape[0] // 2, lambda i: atl.sum(100, lambda p: X[2 * i, p] * w[p]))


def main() -> None:
    """Call the instruction, and compare with NumPy."""
    s = atl.reschedule(even_rows).call("weighted_sums")
    kernel = s.compile()
    X = np.arange(1200, dtype="float32").reshape(12, 100) % 7
    w = np.ones(100, "float32")
    assert np.allclose(kernel(X=X, w=w), X[::2] @ w)
    print(kernel.source)


if __name__ == "__main__":
    main()
