"""Training in PyTorch with a layer written as a formula: `python -m examples.train`.

The layer multiplies a linear map by its gate, x·w · sigmoid(x·v), and keeps both products for the backward pass.
"""

from __future__ import annotations

from typing import Any

import atl

BATCH, N, M = atl.sizes("batch n m")
X, W, V = atl.tensor("x", BATCH, N), atl.tensor("w", M, N), atl.tensor("v", M, N)


def gated() -> atl.Program:
    """Return the program of the layer."""

    def result(product: atl.Tensor, gate: atl.Tensor) -> atl.Tensor:
        return atl.gen(BATCH, M, lambda b, j: product[b, j] / (1 + atl.exp(-gate[b, j])))

    body = atl.let(X @ W.T, lambda p: atl.let(X @ V.T, lambda g: result(p, g), name="gate"), name="product")
    return atl.program("gated", [X, W, V], body)


def train(steps: int = 200, *, seed: int = 0) -> list[float]:
    """Train a small network with the layer; return the loss of each step."""
    import torch

    layer = atl.differentiable(gated(), keep=["product", "gate"])

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w, self.v = (torch.nn.Parameter(torch.randn(16, 4) / 2) for _ in range(2))
            self.last = torch.nn.Linear(16, 1)

        def forward(self, x: Any) -> Any:
            return self.last(layer.torch(x, self.w, self.v))

    torch.manual_seed(seed)
    x = torch.randn(64, 4)
    wanted = (x[:, 0] * x[:, 1]).sin()[:, None]
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    losses = []
    for _ in range(steps):
        loss = ((network(x) - wanted) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    for step, loss in enumerate(train()):
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss:.4f}")  # noqa: T201
