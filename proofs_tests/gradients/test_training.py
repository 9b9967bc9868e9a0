"""Layers with backward kernels: `atl.differentiable` in PyTorch and JAX, compared with operators of these libraries."""

from __future__ import annotations

import copy
import io
import pickle
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.program import Program
from atl.errors import ArgumentError, ArrayError, DtypeError, InvalidArgument, InvalidName
from proofs_tests.gradients.test_keeping import KEEP, SOFTMAX, TANH, TWO
from rewrites.session.session import Session

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")

N, M, K = atl.sizes("n m k")
ROOT = Path(__file__).resolve().parents[2]

# Our kernels and the libraries add in different orders. Rounding to float32 changes a number by at most 6e-8 of it.
ROUNDED: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}
"""Tolerance of derivatives, which are sums of at most 12 terms below 4: 16 roundings. Three were found."""
TRAINED = 1e-5
"""Tolerance of losses, below 2, in each of 200 steps, which add up roundings. A difference of 2.4e-7 was found."""


def dense(dtype: str = "float64", name: str = "dense") -> Program:
    w, x, a = atl.tensor("w", N, M, dtype=dtype), atl.tensor("x", M, dtype=dtype), atl.tensor("a", dtype=dtype)
    return atl.program(name, [w, x, a], atl.tanh(w @ x) * a)


CONV = atl.parse(
    """conv (x : float32[b, c, n], w : float32[o, c, r], bias : float32[o]) : float32[b, o, n - r + 1]
       given 1 <= r ∧ r <= n + 1 :=
       ⊞[i < b] ⊞[j < o] ⊞[p < n - r + 1] tanh((Σ[k < c] Σ[q < r] x[i, k, p + q] * w[j, k, q]) + bias[j])"""
)
LINEAR = atl.parse(
    """linear (x : float32[b, n], w : float32[m, n], scale : float32) : float32[b, m] :=
       ⊞[i < b] ⊞[j < m] scale * Σ[k < n] x[i, k] * w[j, k]"""
)
BOTH = atl.parse(
    """both (x : float64[n], y : float64[n]) : (product : float64[n], total : float64) :=
       (⊞[i < n] x[i] * y[i] * y[i]) ++ ⊞[j < 1] Σ[i < n] x[i]"""
)


# -- without PyTorch or JAX -------------------------------------------------------------------------------------------


def test_gradients_are_those_of_gradient() -> None:
    layer = atl.differentiable(dense(), ["w", "a"])
    assert layer.wrt == ("w", "a")
    assert layer.gradient().program == atl.gradient(dense(), ["w", "a"]).program
    assert layer.gradient("a") is layer.gradient("a")


def test_first_calls_show_what_they_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    layer = atl.differentiable(dense())
    layer.backward(("a",))
    assert layer.kernel is layer.kernel
    shown = capsys.readouterr().err
    for line in ("deriving the gradient of dense by a", "choosing a schedule for dense_gradient", "compiling dense"):
        assert line in shown
    assert shown.endswith("\r\033[K")


def test_interrupted_first_call_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    layer = atl.differentiable(dense())
    with monkeypatch.context() as during:
        during.setattr("gradients.training.gradient", interrupted)
        with pytest.raises(KeyboardInterrupt):
            layer.backward(("a",))
    assert layer.derived == ()
    assert layer.backward(("a",)).reads == ("w", "x")


def test_backward_reads_only_what_it_needs() -> None:
    (back,) = atl.differentiable(dense()).backward(("a",)).each
    assert back.reads == ("w", "x")
    assert back.sizes == ()
    total = atl.differentiable(atl.parse("total (x : float32[2*n - 2]) : float32 := Σ[i < 2*n - 2] x[i]"))
    (back,) = total.backward(("x",)).each
    assert (back.reads, back.sizes) == ((), ("n",))
    assert atl.compile(back.goal)(2.0, n=3).tolist() == [2.0] * 4


def test_integer_operands_of_the_backward_are_kept() -> None:
    n, m = atl.sizes("n m")
    x, at = atl.tensor("x", n), atl.tensor("at", m, dtype="int32", range=(0, n))
    layer = atl.differentiable(atl.program("rows", [x, at], atl.gen(m, lambda i: x[at[i]] * x[at[i]])))
    assert layer.wrt == ("x",)
    (back,) = layer.backward(("x",)).each
    assert back.reads == ("x", "at")
    at_data = np.array([2, 0, 2], np.int32)
    found = atl.compile(back.goal)(np.array([1, 2, 3], np.float32), at_data, np.ones(3, np.float32))
    assert found.tolist() == [2, 0, 12]


def tile(s: Session) -> Session:
    return s.tile("i", 2)


def test_schedules_are_functions_sessions_or_theorems() -> None:
    p = atl.parse("twice (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
    goal = tile(atl.reschedule(p)).goal
    backwards = tile(atl.reschedule(atl.gradient(p, "x").program))

    def in_place(s: Session) -> None:
        s.tile("i", 2)

    for forward in (tile, in_place, tile(atl.reschedule(p)), tile(atl.reschedule(p)).theorem):
        assert atl.differentiable(p, forward=forward).goal == goal
    for backward in (tile, backwards, backwards.theorem):
        (back,) = atl.differentiable(p, backward=backward).backward(("x",)).each
        assert back.goal.body == backwards.goal.body
        assert back.program.body == atl.gradient(p, "x").program.body


def test_schedule_may_assume_less_than_the_program() -> None:
    assert atl.differentiable(LONG, forward=atl.reschedule(OTHER)).goal == OTHER


def test_backward_session_computes_all_gradients() -> None:
    p = dense()
    layer = atl.differentiable(p, ["w", "x"], backward=atl.reschedule(atl.gradient(p, ["w", "x"]).program))
    (back,) = layer.backward(("x",)).each
    assert back.wrt == ("w", "x")


def test_layers_are_copied_and_pickled() -> None:
    layer = atl.differentiable(OTHER, forward=tile, name="copied")
    assert copy.deepcopy({"layer": layer})["layer"] is copy.copy(layer) is layer
    again = pickle.loads(pickle.dumps(layer))
    assert (again.program, again.wrt, again.goal, again.derived) == (layer.program, layer.wrt, layer.goal, ())
    theorem = tile(atl.reschedule(OTHER)).theorem
    for schedule, why in ((lambda s: s, "lambda"), (theorem, "a theorem cannot be pickled")):
        with pytest.raises(InvalidArgument, match=f"the layer of other cannot be pickled with forward=(.|\n)*{why}"):
            pickle.dumps(atl.differentiable(OTHER, forward=schedule))


TEXT: Any = "dense"
NUMBER: Any = 3
OTHER = atl.parse("other (x : float32[n]) : float32[n] := ⊞[i < n] 3 * x[i]")
HALF = atl.parse("half (h : float16[n], x : float32[n]) : float32[n] := ⊞[i < n] x[i] * cast(float32, h[i])")
HALVES = atl.parse(
    "halves (a : {0}[n, k], b : {0}[k, m]) : {0}[n, m] := "
    "⊞[i < n] ⊞[j < m] cast({0}, Σ[q < k] cast(float32, a[i, q]) * cast(float32, b[q, j]))".replace("{0}", "float16")
)
LONG = atl.parse(f"{OTHER}".replace(" :=", " given 8 <= n :=", 1))
INTEGERS = atl.parse("integers (i : int32[n]) : int32[n] := ⊞[k < n] i[k] + i[k]")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: atl.differentiable(dense(), "y"), InvalidArgument, "dense has no input 'y'"),
        (lambda: atl.differentiable(dense(), []), InvalidArgument, "a derivative with respect to"),
        (lambda: atl.differentiable(INTEGERS), DtypeError, "no input of integers has a derivative"),
        (lambda: atl.differentiable(INTEGERS, "i"), DtypeError, "the input i has int32 elements"),
        (
            lambda: atl.differentiable(OTHER, forward=atl.reschedule(LONG)),
            InvalidArgument,
            "a schedule of other given 8 <= n, which other does not assume",
        ),
        (lambda: atl.differentiable(TEXT), InvalidArgument, "is not a program"),
        (lambda: atl.differentiable(dense(), forward=NUMBER), InvalidArgument, "forward=3"),
        (
            lambda: atl.differentiable(dense(), forward=atl.reschedule(OTHER)),
            InvalidArgument,
            "a schedule of other for dense",
        ),
        (
            lambda: atl.differentiable(dense(), backward=atl.reschedule(OTHER)).backward(("w",)),
            InvalidArgument,
            "a schedule of other for dense_gradient",
        ),
        (
            lambda: atl.differentiable(dense(), ["w"]).backward(("w", "x")),
            InvalidArgument,
            r"the input x of dense asks for a gradient(.|\n)*try: add \"x\" to wrt=",
        ),
    ],
)
def test_wrong_arguments_are_refused(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_layers_are_not_called() -> None:
    with pytest.raises(ArgumentError, match=r"try: call layer.torch\(…\) or layer.jax"):
        atl.differentiable(OTHER)(np.ones(3, np.float32))


# -- PyTorch ----------------------------------------------------------------------------------------------------------


def tensors(*shapes: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> list[Any]:
    import torch

    made = torch.Generator().manual_seed(seed)
    return [torch.randn(s, generator=made, dtype=getattr(torch, dtype)).requires_grad_() for s in shapes]


ROWS = atl.parse(
    """rows (x : float64[n, m], at : int32[k]) : float64[k, m] given 1 <= n :=
       ⊞[i < k] ⊞[j < m] [0 <= at[i] ∧ at[i] < n] · x[at[i], j] * x[at[i], j]"""
)
PADDED = atl.parse("padded (x : float64[n], s : float64, k : size) : float64[n + k] := padr k ⊞[i < n] s * exp(x[i])")


def samples() -> dict[str, tuple[Program, list[Any]]]:
    import torch

    positions = torch.tensor([1, 0, 1], dtype=torch.int32)
    (rows,) = tensors((2, 3))
    (x, s) = tensors((3,), ())
    return {
        "dense": (dense(), tensors((3, 4), (4,), ())),
        "both": (BOTH, tensors((3,), (3,))),
        "rows": (ROWS, [rows, positions]),
        "padded": (PADDED, [x, s, 2]),
        "softmax": (SOFTMAX, tensors((2, 3))),
        "activation": (TANH, tensors((3,))),
        "two": (TWO, tensors((3,), ())),
    }


@needs_torch
@pytest.mark.parametrize("name", ["dense", "both", "rows", "padded", *KEEP])
def test_derivatives_pass_the_checks_of_torch(name: str) -> None:
    import torch

    p, given = samples()[name]
    function = atl.differentiable(p, name=f"{name}_layer_of_the_test", keep=KEEP.get(name, ())).torch
    operator = getattr(torch.ops.atl, f"{name}_layer_of_the_test").default
    assert set(torch.library.opcheck(operator, tuple(given)).values()) == {"SUCCESS"}
    assert torch.autograd.gradcheck(function, tuple(given))
    assert torch.autograd.gradgradcheck(function, tuple(given))


@needs_torch
def test_numbers_and_names_are_accepted() -> None:
    import torch

    function = atl.differentiable(dense()).torch
    w, x, a = tensors((3, 4), (4,), ())
    assert torch.equal(function(w, x, 2.0), 2.0 * function(w, x, torch.tensor(1.0, dtype=torch.float64)))
    assert torch.equal(function(w, x, a=a), function(w, x, a))
    both = atl.differentiable(BOTH).torch(*tensors((3,), (3,)))
    assert both._fields == ("product", "total")
    assert both.total.shape == ()
    (total,) = torch.autograd.grad(both.total, both.total)
    assert total == 1


@needs_torch
def test_modules_with_layers_are_copied_and_saved() -> None:
    import torch

    module = torch.nn.Linear(4, 3)
    module.layer = atl.differentiable(dense("float32"))
    averaged = torch.optim.swa_utils.AveragedModel(module)
    assert averaged.module.layer is module.layer
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    assert torch.load(file, weights_only=False).layer.program == module.layer.program


@needs_torch
def test_kernels_are_compiled_for_the_inputs_that_ask() -> None:
    import torch

    layer = atl.differentiable(dense(name="asked"))
    w, x, a = tensors((3, 4), (4,), ())
    with torch.no_grad():
        layer.torch(w, x, a)
    assert not layer.derived
    layer.torch(w.detach(), x, a.detach()).sum().backward()
    layer.torch(w, x.detach(), a).sum().backward()
    assert [*layer.derived] == [("x",), ("w", "a")]


@needs_torch
def test_only_what_is_read_is_saved() -> None:
    import torch

    saved: list[Any] = []

    def save(tensor: Any) -> Any:
        saved.append(tensor)
        return tensor

    layer = atl.differentiable(BOTH).torch
    x, y = tensors((3,), (3,))
    with torch.autograd.graph.saved_tensors_hooks(save, lambda t: t):
        layer(x, y.detach())
    assert [each.data_ptr() for each in saved] == [y.data_ptr()]


@needs_torch
def test_layer_is_traced_and_mapped() -> None:
    import torch

    for p, shapes in ((dense(), ((3, 4), (4,), ())), (BOTH, ((3,), (3,)))):
        function = atl.differentiable(p).torch
        given = tensors(*shapes)

        def loss(*values: Any, of: Any = function) -> Any:
            made = of(*values)
            return sum(each.sin().sum() for each in (made if isinstance(made, tuple) else (made,)))

        want = torch.autograd.grad(loss(*given), given)
        traced = torch.compile(loss, backend="aot_eager", fullgraph=True)
        for found, expected in zip(torch.autograd.grad(traced(*given), given), want, strict=True):
            assert torch.equal(found, expected)
        batch = [torch.stack([each, 2 * each]) for each in given]
        mapped = torch.vmap(loss)(*batch)
        assert torch.equal(mapped, torch.stack([loss(*given), loss(*(2 * each for each in given))]))


@needs_torch
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_refusals_name_the_argument() -> None:
    import torch

    layer = atl.differentiable(dense(), ["w"], name="only_w_of_the_test").torch
    w, x, a = tensors((3, 4), (4,), ())
    with pytest.raises(InvalidArgument, match="the input x of dense asks for a gradient"):
        layer(w, x, a.detach())
    layer(w, x.detach(), a.detach()).sum().backward()
    assert w.grad is not None
    with pytest.raises(ArrayError, match="w are float32, not float64"):
        layer(w.detach().float(), x.detach(), 1.0)
    with pytest.raises(ArrayError, match="elements of a are float32"):
        layer(w.detach(), x.detach(), torch.tensor(1.0))
    forward_mode = torch.autograd.forward_ad
    with forward_mode.dual_level():
        dual = forward_mode.make_dual(w.detach(), w.detach())
        with pytest.raises(InvalidArgument, match=r"forward mode \(jvp\) of dense(.|\n)*atl.tangent\(dense"):
            layer(dual, x.detach(), a.detach())
    with pytest.raises(InvalidName, match="already registered"):
        assert atl.differentiable(BOTH, name="only_w_of_the_test").torch


@needs_torch
def test_wrong_arguments_of_torch_are_named() -> None:
    import torch

    layer = atl.differentiable(PADDED).torch
    x = torch.ones(3, dtype=torch.float64)
    calls: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = (
        ((), {"s": 1.0, "k": 2}, "missing argument 'x' of padded"),
        ((x, 1.0), {}, "missing size 'k' of padded"),
        ((x, 1.0, 2, 3), {}, "padded takes 3 arguments by position, got 4"),
        ((x, 1.0, 2), {"k": 2}, "padded got k twice"),
        ((x, 1.0), {"l": 2}, "padded has no argument l"),
        ((x.numpy(), 1.0, 2), {}, r"x is a NumPy array of float64 of shape \(3,\), not a(.|\n)*torch.from_numpy\(x\)"),
        (([1.0, 2.0], 1.0, 2), {}, r"x is a list of 2 elements(.|\n)*try: pass torch.tensor\(x\)"),
        ((x, "one", 2), {}, r"s is 'one' \(str\), not a PyTorch tensor"),
        ((x, 1.0, 2.5), {}, "the size k of padded is 2.5"),
    )
    for given, named, message in calls:
        with pytest.raises(ArgumentError, match=message):
            layer(*given, **named)


X, Y = atl.tensor("x", N, dtype="float64"), atl.tensor("y", N, dtype="float64")
NAN, INF = float("nan"), float("inf")


def ties() -> dict[str, tuple[atl.Tensor, Any, list[list[float]]]]:
    import torch

    some = [1.0, 2.0, 0.0, -1.0, INF, 3.0]
    return {
        "abs": (atl.abs(X), torch.abs, [[-2.0, 0.0, 3.0, INF, -INF]]),
        "maximum": (atl.maximum(X, Y), torch.maximum, [some, [1.0, 3.0, -0.0, -2.0, INF, 3.0]]),
        "minimum": (atl.minimum(X, Y), torch.minimum, [some, [1.0, 3.0, -0.0, -2.0, INF, 3.0]]),
        "amax": (atl.reduce("max", N, lambda i: X[i]), torch.amax, [[3.0, 1.0, 3.0, -INF, 3.0]]),
        "amin": (atl.reduce("min", N, lambda i: X[i]), torch.amin, [[-INF, 1.0, -INF]]),
        "prod": (atl.reduce("product", N, lambda i: X[i]), torch.prod, [[3.0, 2.0, 0.5]]),
        "prod with zero": (atl.reduce("product", N, lambda i: X[i]), torch.prod, [[3.0, 0.0, 2.0]]),
        "prod with zeros": (atl.reduce("product", N, lambda i: X[i]), torch.prod, [[0.0, 3.0, 0.0]]),
        "sqrt": (atl.sqrt(X), torch.sqrt, [[4.0, 0.0, 2.0, -1.0, INF, NAN]]),
        "log": (atl.log(X), torch.log, [[4.0, 0.0, 2.0, -1.0, INF, NAN]]),
        "quotient": (X / Y, torch.div, [[4.0, 0.0, 2.0], [0.0, 0.0, 3.0]]),
        "sign": (atl.sign(X) * X, lambda x: torch.sign(x) * x, [[0.0, -1.0, 2.0]]),
        "where": (atl.where(X > 0, X, 0.0), torch.relu, [[0.0, -1.0, 2.0]]),
    }


TIES = (
    "abs", "maximum", "minimum", "amax", "amin", "prod", "prod with zero", "prod with zeros", "sqrt", "log",
    "quotient", "sign", "where",
)  # fmt: skip


@needs_torch
@pytest.mark.parametrize("name", TIES)
def test_ties_and_zeros_are_those_of_torch(name: str) -> None:
    import torch

    body, reference, data = ties()[name]
    given = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in data]
    p = atl.program("tie", [X, Y][: len(given)], body)
    ours, theirs = atl.differentiable(p).torch(*given), reference(*given)
    along = torch.ones_like(ours)
    for found, expected in zip(
        (ours.detach(), *torch.autograd.grad(ours, given, along)),
        (theirs.detach(), *torch.autograd.grad(theirs, given, along)),
        strict=True,
    ):
        assert np.array_equal(found.numpy(), expected.numpy(), equal_nan=True)


def losses(convolution: Any, linear: Any, *, steps: int = 200, compiled: bool = False) -> list[float]:
    """Train a network of two layers from one seed by Adam; return the loss of each step."""
    import torch

    x, w, bias, out, scale = tensors((8, 2, 10), (3, 2, 3), (3,), (1, 24), (), dtype="float32")
    x = x.detach()
    wanted = x.sum((1, 2))[:, None].sin()
    parameters = [w, bias, out, scale]

    def loss(w: Any, bias: Any, out: Any, scale: Any) -> Any:
        return ((linear(convolution(x, w, bias).reshape(8, -1), out, scale) - wanted) ** 2).mean()

    computed = torch.compile(loss, backend="aot_eager", fullgraph=True) if compiled else loss
    optimizer = torch.optim.Adam(parameters, 1e-2)
    made = []
    for _ in range(steps):
        error = computed(*parameters)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        made.append(error.item())
    return made


@needs_torch
def test_training_agrees_with_torch() -> None:
    import torch

    def convolution(x: Any, w: Any, bias: Any) -> Any:
        return torch.tanh(torch.nn.functional.conv1d(x, w, bias))

    def linear(x: Any, w: Any, scale: Any) -> Any:
        return scale * (x @ w.T)

    theirs = losses(convolution, linear)
    layers = atl.differentiable(CONV).torch, atl.differentiable(LINEAR).torch
    assert theirs[-1] < 0.2 * theirs[0]
    for compiled in (False, True):
        assert np.allclose(losses(*layers, compiled=compiled), theirs, rtol=0, atol=TRAINED)


@needs_torch
def test_examples_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from examples.train import train

    losses = train(50)
    assert losses[-1] < 0.5 * losses[0]
    text = (ROOT / "docs" / "gradients.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^(?:    import torch\n)(?:    .*\n|\n)*", text, re.MULTILINE)
    names: dict[str, Any] = {}
    exec(dedent(example), names)
    assert names["w"].grad.shape == names["v"].grad.shape == (16, 4)


# -- JAX --------------------------------------------------------------------------------------------------------------


def jax_arrays(*shapes: tuple[int, ...]) -> list[Any]:
    import jax.numpy as jnp

    numbers = np.random.default_rng(0)
    return [jnp.asarray(numbers.normal(size=shape), "float32") for shape in shapes]


@needs_jax
def test_derivatives_agree_with_those_of_jax() -> None:
    import jax
    import jax.numpy as jnp

    layer = atl.differentiable(dense("float32"))
    w, x, a = jax_arrays((3, 4), (4,), ())

    def ours(w: Any, x: Any, a: Any) -> Any:
        return jnp.sin(layer.jax(w, x, a)).sum()

    def theirs(w: Any, x: Any, a: Any) -> Any:
        return jnp.sin(jnp.tanh(w @ x) * a).sum()

    def second(loss: Any) -> Any:
        return jax.grad(lambda w, x, a: (jax.grad(loss, 1)(w, x, a) ** 2).sum(), (0, 2))

    transforms: list[Callable[[Any], Any]] = [
        lambda loss: jax.grad(loss, (0, 2)),
        lambda loss: jax.jit(jax.grad(loss, (0, 1, 2))),
        lambda loss: jax.vmap(jax.grad(loss, (1, 2)), (None, None, 0)),
        second,
        lambda loss: jax.jit(second(loss)),
    ]
    for transform in transforms:
        scale = jnp.stack([a, 2 * a]) if transform is transforms[2] else a
        for found, expected in zip(transform(ours)(w, x, scale), transform(theirs)(w, x, scale), strict=True):
            assert np.allclose(found, expected, **ROUNDED)
    assert layer.derived[0] == ("w", "a")
    with pytest.raises(TypeError, match="jvp"):
        jax.jvp(lambda x: layer.jax(w, x, a), (x,), (x,))
    with pytest.raises(InvalidArgument, match="the input x of dense asks for a gradient"):
        jax.grad(lambda x: atl.differentiable(dense("float32"), "w").jax(w, x, a).sum())(x)


@needs_jax
def test_layers_with_kept_lets_in_jax() -> None:
    import jax
    import jax.numpy as jnp

    (x,) = jax_arrays((2, 3))
    softmax = atl.parse(str(SOFTMAX).replace("float64", "float32"))
    ours = atl.differentiable(softmax, keep=["power", "total"]).jax

    def losses(function: Any) -> list[Any]:
        def loss(x: Any) -> Any:
            return jnp.sin(function(x)).sum()

        return [jax.jit(jax.grad(loss)), jax.jit(jax.grad(lambda x: (jax.grad(loss)(x) ** 2).sum()))]

    for found, expected in zip(losses(ours), losses(lambda x: jax.nn.softmax(x, 1)), strict=True):
        assert np.allclose(found(x), expected(x), **ROUNDED)
    two = atl.differentiable(atl.parse(str(TWO).replace("float64", "float32")), keep="e").jax
    slope = jax.grad(lambda s: two(x[0], s).z)(0.5)
    assert np.allclose(slope, (2 * x[0] * jnp.exp(x[0])).sum(), **ROUNDED)


@needs_jax
def test_results_sizes_and_indices_of_jax_layers() -> None:
    import jax
    import jax.numpy as jnp

    both = atl.differentiable(atl.parse(str(BOTH).replace("float64", "float32"))).jax
    x, y = jax_arrays((3,), (3,))
    found = jax.grad(lambda x: both(x, y).product.sum() + 2 * both(x, y).total)(x)
    assert np.allclose(found, y * y + 2)
    padded = atl.differentiable(atl.parse(str(PADDED).replace("float64", "float32"))).jax
    slope = jax.grad(lambda s: padded(x, s, k=2).sum())(1.5)
    assert np.allclose(slope, jnp.exp(x).sum())
    rows = atl.differentiable(atl.parse(str(ROWS).replace("float64", "float32"))).jax
    at = jnp.array([1, 0, 1], "int32")
    table = jax_arrays((2, 3))[0]
    assert np.allclose(jax.jit(jax.grad(lambda t: rows(t, at).sum()))(table), 2 * table * jnp.array([[1], [2]]))


@needs_jax
def test_training_agrees_with_jax() -> None:
    import jax
    import jax.numpy as jnp

    def convolution(x: Any, w: Any, bias: Any) -> Any:
        made = jax.lax.conv_general_dilated(x, w, (1,), "VALID", dimension_numbers=("NCH", "OIH", "NCH"))
        return jnp.tanh(made + bias[:, None])

    def linear(x: Any, w: Any, scale: Any) -> Any:
        return scale * (x @ w.T)

    def trained(convolution: Any, linear: Any) -> list[float]:
        x, *parameters = jax_arrays((8, 2, 10), (3, 2, 3), (3,), (1, 24), ())
        wanted = jnp.sin(x.sum((1, 2)))[:, None]

        def loss(w: Any, bias: Any, out: Any, scale: Any) -> Any:
            return ((linear(convolution(x, w, bias).reshape(8, -1), out, scale) - wanted) ** 2).mean()

        step = jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3)))
        made = []
        for _ in range(200):
            error, slopes = step(*parameters)
            parameters = [p - 0.01 * s for p, s in zip(parameters, slopes, strict=True)]
            made.append(float(error))
        return made

    ours = trained(atl.differentiable(CONV).jax, atl.differentiable(LINEAR).jax)
    theirs = trained(convolution, linear)
    assert theirs[-1] < 0.2 * theirs[0]
    assert np.allclose(ours, theirs, rtol=0, atol=TRAINED)


# -- types that are only stored ---------------------------------------------------------------------------------------


def test_halves_ask_for_gradients_by_default() -> None:
    layer = atl.differentiable(HALF)
    assert layer.wrt == ("h", "x")
    assert [back.wrt for back in layer.backward(("h", "x")).each] == [("h",), ("x",)]


@needs_torch
def test_layer_of_halves_trains_as_in_pytorch() -> None:
    import torch

    a, b = (torch.randn(shape, generator=torch.Generator().manual_seed(1)).half() for shape in ((3, 5), (5, 4)))
    y = torch.randn(3, 4, generator=torch.Generator().manual_seed(2)).half()
    ours, theirs = ([each.clone().requires_grad_() for each in (a, b)] for _ in range(2))
    atl.differentiable(HALVES).torch(*ours).backward(y)
    (theirs[0].float() @ theirs[1].float()).half().backward(y)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.grad is not None
        assert mine.grad.dtype == torch.float16
        assert torch.allclose(mine.grad.float(), other.grad.float(), rtol=2.0**-10)  # one rounding differs
    h, x = torch.ones(3).half().requires_grad_(), torch.arange(3.0).requires_grad_()
    atl.differentiable(HALF).torch(h, x).sum().backward()
    assert h.grad.tolist() == [0, 1, 2]
    assert x.grad.tolist() == [1, 1, 1]


@needs_jax
def test_layer_of_halves_trains_as_in_jax() -> None:
    import jax

    layer = atl.differentiable(HALF).jax
    h, x = jax.numpy.ones(3, "float16"), jax.numpy.arange(3, dtype="float32")
    found = jax.grad(lambda h, x: layer(h, x).sum(), (0, 1))(h, x)
    assert found[0].dtype == "float16"
    assert [each.tolist() for each in found] == [[0, 1, 2], [1, 1, 1]]
