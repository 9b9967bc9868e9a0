"""Kernels as PyTorch operators and JAX functions, with known shapes of their results."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import atl
from atl.errors import ArgumentError, ArrayError, ATLError, InvalidArgument, InvalidName, LibraryMissing
from lowering import Kernel, compile  # noqa: A004 (the public API name)
from lowering.calls.operators import Shapes

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")

WINDOWS = """w (x : float32[2*n + 1], a : float32, k : size) :=
  gen[i < n] gen[j < k] [i + j < 2*n + 1] . a * x[i + j]"""


@pytest.fixture(scope="module")
def windows() -> Kernel:
    return compile(atl.parse(WINDOWS))


def x(size: int) -> Any:
    return np.arange(size, dtype=np.float32)


def test_result_shape_follows_from_the_argument_shapes() -> None:
    shapes = Shapes.of(atl.parse(WINDOWS))
    assert shapes.result(shapes.sizes({"x": x(7), "a": 2.0, "k": 4})) == (3, 4)
    n = atl.sizes("n")
    pos = atl.tensor("pos", 1, dtype="int32", range=(0, n))
    y = atl.tensor("y", n)
    unknown = atl.program("f", [pos, y], atl.gen(pos[0], lambda i: y[i]))
    with pytest.raises(InvalidArgument, match=r"extent pos\[0\] of the result of .* depends on elements of an array"):
        Shapes.of(unknown)


def test_missing_library_is_reported(windows: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowering.calls.operators.find_spec", lambda _: None)
    for made, package in ((windows.torch_operator, "torch"), (windows.jax_function, "jax")):
        with pytest.raises(LibraryMissing, match=f"try: pip install {package}"):
            made()


@needs_torch
def test_kernel_is_a_torch_operator(windows: Kernel) -> None:
    import torch

    operator = windows.torch_operator("windows_of_the_test")
    assert windows.torch_operator("windows_of_the_test") is operator
    given = (torch.from_numpy(x(7)), 2.0, 4)
    want = windows(x(7), 2.0, k=4)
    assert torch.ops.atl.windows_of_the_test(*given).tolist() == want.tolist()
    torch.library.opcheck(operator, given, test_utils=("test_schema", "test_faketensor"))
    traced = torch.library.opcheck(operator, given, test_utils="test_aot_dispatch_dynamic")
    assert set(traced.values()) == {"SUCCESS"}
    graph = torch.export.export(_Calls(operator), (given[0],)).graph_module.graph
    assert any(node.target is torch.ops.atl.windows_of_the_test.default for node in graph.nodes)
    needs_gradient = torch.ones(3, requires_grad=True)
    with pytest.raises(InvalidArgument, match=r"which has no derivative(.|\n)*try: call atl.differentiable\("):
        operator(needs_gradient, 1.0, 2).sum().backward()
    other = compile(atl.parse("negated (x : float32[n]) : float32[n] := gen[i < n] -x[i]"))
    with pytest.raises(InvalidName, match="is already registered for another kernel"):
        other.torch_operator("windows_of_the_test")
    with pytest.raises(ATLError, match="name of an operator"):
        windows.torch_operator("no name")


if find_spec("torch"):
    import torch

    class _Calls(torch.nn.Module):  # type: ignore[misc]
        """A module that calls an operator."""

        def __init__(self, operator: Any) -> None:
            super().__init__()
            self.operator = operator

        def forward(self, x: Any) -> Any:
            return self.operator(x, 2.0, 4) + 1


BOTH = """both (x : float32[n]) : (twice : float32[n, 2], more : float32[n]) :=
  flatten (gen[i < n] gen[j < 2] 2 * x[i]) ++ gen[i < n] x[i] + 1"""


@needs_torch
def test_several_results_are_torch_tensors() -> None:
    import torch

    kernel = compile(atl.parse(BOTH))
    operator = kernel.torch_operator("both_of_the_test")
    given = torch.from_numpy(x(3))
    for call in (torch.compile(operator, fullgraph=True, backend="eager"), operator, kernel):
        found = call(given)
        assert found.twice.tolist() == [[0, 0], [2, 2], [4, 4]]
        assert found.more.tolist() == [1, 2, 3]
    assert kernel.time(given, seconds=0.001).median > 0
    out = torch.empty(9)
    assert kernel(given, out=out).more.data_ptr() == out[6:].data_ptr()


@needs_jax
def test_several_results_are_jax_arrays() -> None:
    import jax

    function = compile(atl.parse(BOTH)).jax_function()
    found = jax.jit(function)(x(3))
    assert found.twice.tolist() == [[0, 0], [2, 2], [4, 4]]
    assert jax.vmap(lambda v: function(v).more)(np.stack([x(3), x(3)])).tolist() == [[1, 2, 3], [1, 2, 3]]


@needs_jax
def test_results_of_several_types_are_jax_arrays() -> None:
    import jax

    text = """f (x : float32[n], k : int32[n]) : (twice : float32[n], count : int32) :=
      cast(float64, ⊞[i < n] 2 * x[i]) ++ cast(float64, ⊞[i < 1] Σ[j < n] k[j])"""
    arrays = x(3), np.arange(3, dtype="int32")
    found = jax.jit(compile(atl.parse(text)).jax_function())(*arrays)
    assert (found.twice.tolist(), int(found.count)) == ([0, 2, 4], 3)
    assert (found.twice.dtype, found.count.dtype) == ("float32", "int32")
    wide = text.replace("count : int32", "count : int64").replace("Σ[j < n] k[j]", "Σ[j < n] cast(int64, k[j])")
    with pytest.raises(ArrayError, match=r"the result of f has elements of int64(.|\n)*jax_enable_x64"):
        compile(atl.parse(wide)).jax_function()(*arrays)


@needs_jax
def test_kernel_is_a_jax_function(windows: Kernel) -> None:
    import jax

    function = windows.jax_function()
    want = windows(x(7), 2.0, k=4)
    assert np.array_equal(function(x(7), 2.0, k=4), want)
    assert np.array_equal(jax.jit(lambda v: function(v, a=2.0, k=4) + 1)(x(7)), want + 1)
    assert np.array_equal(jax.vmap(lambda v: function(v, 2.0, k=4))(np.stack([x(7), x(7)])), np.stack([want, want]))
    with pytest.raises(ArrayError, match="x has 1 dimensions and elements of float64"):
        function(np.zeros(3), 2.0, k=4)
    with pytest.raises(ArgumentError, match="by name the sizes k"):
        function(x(7), 2.0)
