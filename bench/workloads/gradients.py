"""Workloads of backward passes, against those of PyTorch: the gradients of `examples.gradients`.

The results of a backward pass are in one array, one result after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

import atl
from bench.baselines.libraries import TORCH, numpy
from bench.comparison import Array, Baseline, Ours, Problem, Roofline, Workload, moved, numbers, pages_for, posed
from examples.gradients import EPSILON, SHIPPED
from lowering import TimedFunction

Prepare: TypeAlias = Callable[..., Callable[[], Any]]
"""A function of PyTorch, and of the inputs as tensors, that returns the run to be timed."""


def _ours(name: str) -> Callable[[], atl.Session]:
    """Return a function that derives the schedule of a shipped gradient, from its gathers on."""

    def make() -> atl.Session:
        return SHIPPED[name].schedule_only()

    make.__name__ = "_".join(name.replace("-", "").replace(",", "").lower().split()) + "_backward"
    return make


def _torch(prepare: Prepare) -> Baseline:
    """Return a baseline whose results are copied to `out` in the first call, which is checked and not timed.

    PyTorch's backward passes return new tensors.
    """

    def make(problem: Problem, threads: int) -> TimedFunction:
        import torch

        torch.set_num_threads(threads)
        run = prepare(torch, *map(torch.from_numpy, problem.inputs))
        checked = False

        def timed() -> None:
            nonlocal checked
            with torch.inference_mode():
                made = run()
            if not checked:
                checked = True
                each = made if isinstance(made, tuple) else (made,)
                np.concatenate([np.asarray(one).ravel() for one in each], out=problem.out.reshape(-1))

        return timed

    return Baseline("PyTorch", make, TORCH)


def _flat(*results: Array) -> Array:
    return np.concatenate([result.ravel() for result in results])


# -- products ---------------------------------------------------------------------------------------------------------


def _product(a: Array, b: Array, dout: Array) -> Array:
    return _flat(dout @ b.T, a.T @ dout)


def _numpy_product(a: Array, b: Array, dout: Array, out: Array) -> None:
    size = a.size
    np.matmul(dout, b.T, out=out[:size].reshape(a.shape))
    np.matmul(a.T, dout, out=out[size:].reshape(b.shape))


PRODUCT: Final = Workload(
    "product-backward",
    "both gradients of a product of n x n matrices",
    (512, 1024),
    posed(_product, lambda n: (*((n, n),) * 3, (2 * n * n,)), terms=lambda n: n),
    (Ours(_ours("product"), parallel=("po",)),),
    (
        numpy("NumPy with its BLAS", _numpy_product),
        _torch(lambda library, a, b, dout: lambda: (dout @ b.T, a.T @ dout)),
    ),
    Roofline("fma", lambda problem: 4.0 * problem.size**3),
    max_size=8_000,
    quick=256,
)

# -- convolution ------------------------------------------------------------------------------------------------------

BATCH, CHANNELS, TAPS = 8, 64, 5


def _convolution(x: Array, w: Array, dout: Array) -> Array:
    dx, dw, width = np.zeros_like(x), np.zeros_like(w), dout.shape[2]
    for r in range(w.shape[2]):
        dx[:, :, r : r + width] += np.einsum("bkp,kc->bcp", dout, w[:, :, r], optimize=True)
        dw[:, :, r] = np.einsum("bkp,bcp->kc", dout, x[:, :, r : r + width], optimize=True)
    return _flat(dx, dw)


def _shapes(n: int) -> tuple[tuple[int, ...], ...]:
    x, w = (BATCH, CHANNELS, n + TAPS - 1), (CHANNELS, CHANNELS, TAPS)
    return x, w, (BATCH, CHANNELS, n), (int(np.prod(x)) + int(np.prod(w)),)


def _torch_convolution(library: Any, x: Any, w: Any, dout: Any) -> Callable[[], Any]:
    backward = library.ops.aten.convolution_backward
    return lambda: backward(dout, x, w, None, [1], [0], [1], False, [0], 1, [True, True, False])[:2]


CONVOLUTION: Final = Workload(
    "convolution-backward",
    f"both gradients of a convolution: {BATCH} x {CHANNELS} x n, {TAPS} taps, {CHANNELS} to {CHANNELS} channels",
    (512,),
    posed(_convolution, _shapes, terms=lambda n: BATCH * n),
    (Ours(_ours("convolution"), parallel=("ko",)),),
    (_torch(_torch_convolution),),
    Roofline("fma", lambda problem: 4.0 * BATCH * CHANNELS**2 * TAPS * problem.size),
    max_size=100_000,
    quick=128,
)

# -- rows -------------------------------------------------------------------------------------------------------------

WIDTH: Final = 1024


def _rows(
    size: int, inputs: Callable[[Array], tuple[Array, ...]], result: tuple[int, ...], reference: Callable[..., Array]
) -> Problem:
    """Return a problem whose first input has `size` rows, and whose last one is the cotangent of such a result."""
    memory, out = pages_for(result, "float32")
    x, dout = numbers((size, WIDTH), seed=1), numbers((size, WIDTH), seed=2)
    return Problem(size, (*inputs(x), dout), out, reference, WIDTH + size, memory)


def _softmax(_: Array, power: Array, total: Array, dout: Array) -> Array:
    y = power / total[:, None]
    out: Array = y * (dout - (dout * y).sum(1, keepdims=True))
    return out


def _softmax_inputs(x: Array) -> tuple[Array, Array, Array]:
    power = np.exp(x - x.max(1, keepdims=True))
    return x, power, power.sum(1)


def _torch_softmax(library: Any, _: Any, power: Any, total: Any, dout: Any) -> Callable[[], Any]:
    return _softmax_backward(library, power / total[:, None], dout)


def _softmax_backward(library: Any, y: Any, dout: Any) -> Callable[[], Any]:
    dx = library.empty_like(y)
    backward = library.ops.aten._softmax_backward_data.out  # noqa: SLF001 (the name of the backward pass)
    return lambda: backward(dout, y, 1, library.float32, grad_input=dx)


def _softmax_again(x: Array, dout: Array) -> Array:
    _, power, total = _softmax_inputs(x)
    return _softmax(x, power, total, dout)


def _torch_softmax_again(library: Any, x: Any, dout: Any) -> Callable[[], Any]:
    y = library.empty_like(x)
    backward = _softmax_backward(library, y, dout)
    forward = library.ops.aten._softmax.out  # noqa: SLF001 (the name of the forward pass)

    def run() -> Any:
        forward(x, 1, False, out=y)
        return backward()

    return run


def _layer_norm_inputs(x: Array) -> tuple[Array, ...]:
    deviation = np.sqrt(x.var(1) + EPSILON).astype(np.float32)
    return x, numbers((WIDTH,), seed=3), numbers((WIDTH,), seed=4), x.mean(1), deviation


def _layer_norm(x: Array, scale: Array, _: Array, mean: Array, deviation: Array, dout: Array) -> Array:
    y, d = (x - mean[:, None]) / deviation[:, None], dout * scale
    dx = (d - d.mean(1, keepdims=True) - y * (d * y).mean(1, keepdims=True)) / deviation[:, None]
    return _flat(dx, (dout * y).sum(0), dout.sum(0))


def _torch_layer_norm(
    library: Any, x: Any, scale: Any, bias: Any, mean: Any, deviation: Any, dout: Any
) -> Callable[[], Any]:
    to = {"out0": library.empty_like(x), "out1": library.empty_like(scale), "out2": library.empty_like(bias)}
    kept = mean[:, None].contiguous(), (1 / deviation)[:, None].contiguous()
    backward = library.ops.aten.native_layer_norm_backward.out
    return lambda: backward(dout, x, [WIDTH], *kept, scale, bias, [True, True, True], **to)


SOFTMAX: Final = Workload(
    "softmax-backward",
    f"the gradient of softmax of n rows of {WIDTH}, from what the forward pass keeps",
    (512, 2048),
    lambda n: _rows(n, _softmax_inputs, (n, WIDTH), _softmax),
    (Ours(_ours("softmax, keeping"), parallel=("i",)),),
    (_torch(_torch_softmax),),
    Roofline("copy", lambda problem: 3.0 * problem.out.nbytes),
    max_size=100_000,
    quick=256,
)

SOFTMAX_AGAIN: Final = Workload(
    "softmax-recomputing",
    f"the gradient of softmax of n rows of {WIDTH}, with the forward pass",
    (512, 2048),
    lambda n: _rows(n, lambda x: (x,), (n, WIDTH), _softmax_again),
    (Ours(_ours("softmax"), parallel=("i",)),),
    (_torch(_torch_softmax_again),),
    Roofline("copy", moved),
    max_size=100_000,
)

LAYER_NORM: Final = Workload(
    "layer-norm-backward",
    f"all gradients of layer norm of n rows of {WIDTH}, from what the forward pass keeps",
    (512, 2048),
    lambda n: _rows(n, _layer_norm_inputs, ((n + 2) * WIDTH,), _layer_norm),
    (Ours(_ours("layer norm"), parallel=("⊞[i < n] _",)),),
    (_torch(_torch_layer_norm),),
    Roofline("copy", moved),
    max_size=100_000,
    quick=256,
)

# -- stencil and embedding --------------------------------------------------------------------------------------------


def _stencil(_: Array, dout: Array) -> Array:
    rows, columns = dout.shape
    out = np.zeros((rows + 2, columns + 2), dout.dtype)
    out[1:-1, 1:-1] = 0.6 * dout
    for y, x in ((0, 1), (2, 1), (1, 0), (1, 2)):
        out[y : y + rows, x : x + columns] += 0.1 * dout
    return out


STENCIL: Final = Workload(
    "stencil-backward",
    "the gradient of a five-point stencil of n x n",
    (2000,),
    posed(_stencil, lambda n: ((n + 2, n + 2), (n, n), (n + 2, n + 2))),
    (Ours(_ours("stencil"), parallel=("q",)),),
    (numpy("NumPy", lambda v, dout, _: _stencil(v, dout), allocates=True),),
    Roofline("copy", lambda problem: 2.0 * problem.out.nbytes),
    max_size=20_000,
    quick=500,
)

WORDS, FEATURES = 5000, 64


def _embedding(table: Array, word: Array, dout: Array) -> Array:
    out = np.zeros(table.shape)
    np.add.at(out, word, dout)
    return out


def _words(size: int) -> Problem:
    memory, out = pages_for((WORDS, FEATURES), "float32")
    word = np.random.default_rng(1).integers(0, WORDS, size)
    inputs = numbers((WORDS, FEATURES), seed=2), word, numbers((size, FEATURES), seed=3)
    return Problem(size, inputs, out, _embedding, size // WORDS + 16, memory)


def _torch_embedding(library: Any, _: Any, word: Any, dout: Any) -> Callable[[], Any]:
    return partial(library.ops.aten.embedding_dense_backward, dout, word, WORDS, -1, False)


EMBEDDING: Final = Workload(
    "embedding-backward",
    f"the gradient of an embedding of n words among {WORDS}, with {FEATURES} features",
    (8192,),
    _words,
    (Ours(_ours("embedding")),),
    (_torch(_torch_embedding),),
    Roofline("copy", lambda problem: float(2 * problem.inputs[2].nbytes + problem.out.nbytes)),
    max_size=1_000_000,
    quick=1000,
)

WORKLOADS: Final = (PRODUCT, CONVOLUTION, SOFTMAX, SOFTMAX_AGAIN, LAYER_NORM, STENCIL, EMBEDDING)
