"""A program that compares the Triton kernels, in Triton's interpreter, with NumPy and torch.

It prints a line for each kernel that agrees, and stops at the first difference. The interpreter is selected on import.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from examples.templates.grouped import grouped
from examples.templates.matmul import matmul
from examples.templates.partial_groups import matmul_in_groups
from examples.templates.rows import layer_norm, softmax

NAMES = (
    "matmul row row", "matmul row column", "matmul column row", "matmul column column",
    "matmul in groups", "softmax", "layer norm", "layer norm backward", "grouped",
)  # fmt: skip
"""Names of the kernels, in the order in which they run."""


def loaded(text: str, name: str, folder: Path) -> Any:
    """Return the kernel of this name in a text, through a file as Triton needs."""
    file = folder / f"{name}_{len(list(folder.iterdir()))}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def products(folder: Path, torch: Any) -> None:
    """Check the matrix product in its four layouts."""
    rng = np.random.default_rng(1)
    M, N, K, B = 64, 32, 48, 16
    a, b = (torch.tensor(rng.integers(-3, 4, shape), dtype=torch.float16) for shape in ((M, K), (K, N)))
    for order_a in ("row", "column"):
        for order_b in ("row", "column"):
            kernel = loaded(matmul(order_a, order_b).text, "matmul", folder)
            x = a if order_a == "row" else a.T.contiguous()
            y = b if order_b == "row" else b.T.contiguous()
            c = torch.full((M, N), float("nan"), dtype=torch.float16)
            kernel[(M // B * (N // B),)](x, y, c, M, N, K, BM=B, BN=B, BK=B, GM=2)
            assert np.array_equal(c.numpy(), (a.float() @ b.float()).numpy().astype(np.float16))
            print(f"matmul {order_a} {order_b}")
    c = torch.full((M, N), float("nan"), dtype=torch.float16)
    kernel = loaded(matmul_in_groups().text, "matmul", folder)
    kernel[(M // B * (N // B),)](a, b, c, M, N, K, BM=B, BN=B, BK=B, GM=3)  # groups of 3 rows of tiles and of 1
    assert np.array_equal(c.numpy(), (a.float() @ b.float()).numpy().astype(np.float16))
    print("matmul in groups")


def rows(folder: Path, torch: Any) -> None:
    """Check softmax and layer norm at a width that no block divides."""
    rng = np.random.default_rng(2)
    M, N, BS = 5, 23, 8
    x = torch.tensor(rng.normal(size=(M, N)), dtype=torch.float32)
    y = torch.full((M, N), float("nan"))
    loaded(softmax().text, "softmax", folder)[(M,)](x, y, N, BS=32)
    assert torch.allclose(y, torch.softmax(x, dim=1), atol=1e-6)
    print("softmax")
    w, b, dy = (torch.tensor(rng.normal(size=shape), dtype=torch.float32) for shape in (N, N, (M, N)))
    forward, of_x, of_w = layer_norm()
    mean, rstd = torch.empty(M), torch.empty(M)
    loaded(forward.text, "forward", folder)[(M,)](x, y, w, b, mean, rstd, N, 1e-5, BS=BS)
    held, weight, bias = (each.clone().requires_grad_() for each in (x, w, b))
    wanted = torch.nn.functional.layer_norm(held, (N,), weight, bias, 1e-5)
    assert torch.allclose(y, wanted.detach(), atol=1e-5)
    print("layer norm")
    wanted.backward(dy)
    dx, dw, db = torch.full((M, N), float("nan")), torch.full((N,), float("nan")), torch.full((N,), float("nan"))
    loaded(of_x.text, "backward_x", folder)[(M,)](dx, dy, x, w, mean, rstd, N, BS=32)
    loaded(of_w.text, "backward_w", folder)[(3,)](dw, db, dy, x, mean, rstd, M, N, BM=2, BS=BS)
    for made, of in ((dx, held), (dw, weight), (db, bias)):
        assert torch.allclose(made, of.grad, atol=1e-5)
    print("layer norm backward")


def many(folder: Path, torch: Any) -> None:
    """Check products of three sizes in one launch, with fewer programs than tiles."""
    rng = np.random.default_rng(3)
    B = 16
    extents = [(32, 16, 48), (16, 48, 16), (32, 32, 32)]
    starts, pairs = [], []
    at = [0, 0, 0]
    for m, n, k in extents:
        starts.append(tuple(at))
        pairs.append((rng.integers(-3, 4, (m, k)), rng.integers(-3, 4, (k, n))))
        at = [at[0] + m * k, at[1] + k * n, at[2] + m * n]
    a, b = (torch.tensor(np.concatenate([pair[w].ravel() for pair in pairs]), dtype=torch.float16) for w in (0, 1))
    c = torch.full((at[2],), float("nan"), dtype=torch.float16)
    table, begins = (torch.tensor(each, dtype=torch.int32) for each in (extents, starts))
    kernel = loaded(grouped().text, "grouped", folder)
    kernel[(4,)](a, b, c, table, begins, len(extents), 4, BM=B, BN=B, BK=B)
    wanted = np.concatenate([(x @ y).ravel() for x, y in pairs])
    assert np.array_equal(c.numpy(), wanted.astype(np.float16))
    print("grouped")


def main(folder: Path) -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    import torch

    products(folder, torch)
    rows(folder, torch)
    many(folder, torch)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
