"""Gradients of common programs, with schedules.

`SHIPPED` lists them by name. Each derives its gradient from a formula, makes gathers of the scatters, and schedules it:

    shipped = SHIPPED["product"]
    shipped.gradient().theorem        # Σ dout · tangent = Σ gradient · direction
    shipped.session().theorem         # the gradient equals its schedule
    atl.compile(shipped.session().goal)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import atl
from examples.tiles import largest_tile, multiple_below, register_tile


@dataclass(frozen=True)
class Shipped:
    """A formula, the inputs of its gradient, and the schedule of the gradient after `gather`.

    `keep` names lets of the formula that the forward pass returns as further results. The backward pass reads them; it
    computes the others again.
    """

    formula: str
    wrt: tuple[str, ...]
    schedule: Callable[[atl.Session], object]
    keep: tuple[str, ...] = ()

    def program(self, dtype: str = "float32") -> atl.Program:
        """Return the program, with elements of a floating-point type."""
        program = atl.parse(self.formula.replace("float32", dtype))
        assert isinstance(program, atl.Program)
        return program

    def gradient(self, dtype: str = "float32") -> atl.Gradient:
        """Derive the gradient."""
        return atl.gradient(self.program(dtype), self.wrt, keep=self.keep)

    def gathered(self, dtype: str = "float32") -> atl.Session:
        """Make gathers of the scatters in the gradient."""
        s = atl.reschedule(self.gradient(dtype).program)
        with suppress(atl.DoesNotApply):  # it has no scatters
            s.gather()
        return s

    def session(self, dtype: str = "float32") -> atl.Session:
        """Schedule the gradient."""
        s = self.gathered(dtype)
        self.schedule(s)
        return s

    def schedule_only(self, dtype: str = "float32") -> atl.Session:
        """Schedule the gradient, in a session that starts from its gathers."""
        s = atl.reschedule(self.gathered(dtype).goal)
        self.schedule(s)
        return s


def as_gathered(s: atl.Session) -> None:
    """Leave the gradient as it is."""


def by_model(s: atl.Session) -> None:
    """Schedule by the model of the machine."""
    s.optimize()


def without_border(s: atl.Session) -> None:
    """Compute each element in one pass, and peel the border, so that the inner elements need no guards."""
    s.inline("g").normalize()
    s.tails()


def product_in_registers(s: atl.Session, rows: int = 0, columns: int = 0) -> None:
    """Compute both products in register tiles: dA over packed panels of B, dB with both operands packed in blocks."""
    rows, columns = register_tile(rows, columns, s.goal.inputs[0].dtype)
    s.interchange(s.find("⊞[i < n] _", in_="dA"))
    s.tile([s.find("⊞[p < k] _", in_="dA"), "i"], [columns, rows])
    s.interchange(s.find("⊞[pi < _] _", in_="dA"))
    s.accumulate(s.find("Σ[j < m] _", in_="dA"), name="accA").mark("accA", "registers")
    s.pack("B", at=s.find("⊞[po < _] _", in_="dA"))
    s.tile(s.find("Σ[i < n] _", in_="dB"), atl.machine().panel_depth("float32"))
    s.interchange(s.find("⊞[j < m] _", in_="dB")).interchange(s.find("⊞[p < k] _", in_="dB"))
    s.tile([s.find("⊞[p < k] _", in_="dB"), "j"], [[multiple_below(64, rows), rows], columns])
    s.accumulate(s.find("Σ[ii < _] _", in_="dB"), at="pio", name="accB").mark("accB", "registers")
    s.pack("dout", at=s.find("Σ[io < _] _", in_="dB")).pack("A", at=s.find("⊞[po < _] _", in_="dB"))
    s.tails(strategy="split")
    s.inline("dA").inline("dB")


def convolution_in_registers(s: atl.Session, rows: int = 0, columns: int = 0) -> None:
    """Compute register tiles: dx of channels x positions, as a convolution, and dw of both kinds of channels."""
    channels, positions = largest_tile(rows, columns, s.goal.inputs[0].dtype)
    s.interchange(s.find("⊞[c < C] _", in_="dx"))
    s.tile([s.find("⊞[q < _] _", in_="dx"), "c"], [positions, channels])
    s.interchange(s.find("⊞[qi < _] _", in_="dx"))
    s.accumulate(s.find("Σ[k < K] _", in_="dx"), name="accx").mark("accx", "registers")
    s.pad("dout", at=s.find("⊞[qo < _] _", in_="dx"))
    s.pack("w")
    rows, columns = register_tile(rows, columns, s.goal.inputs[0].dtype)
    s.tile([s.find("⊞[k < K] _", in_="dw"), "c"], [columns, rows])
    s.interchange(s.find("⊞[ci < _] _", in_="dw"))
    s.interchange(s.find("⊞[ki < _] _", in_="dw")).interchange(s.find("⊞[ki < _] _", in_="dw"))
    s.accumulate(s.find("Σ[n < B] _", in_="dw"), name="accw").mark("accw", "registers")
    s.pack("dout", at=s.find("⊞[ko < _] _", in_="dw"))
    s.tails(strategy="split")
    s.inline("dx").inline("dw")


def softmax_by_rows(s: atl.Session) -> None:
    """Compute one row at a time, with one division for each row."""
    s.inline("g1").normalize()
    for numerator in ("power[_, _]", "(power[_, _] * (1 / total[_]))", "dout[_, _]"):
        _by_reciprocal(s, numerator, "total[_]")
    s.stage("g", at=s.find("⊞[i < n] ⊞[j < m] _"))


def layer_norm_by_rows(s: atl.Session) -> None:
    """Compute dx one row at a time, with one division for each row, and both sums over rows in one loop."""
    s.normalize()
    s.inline("centred").inline("u").inline("g").normalize()
    for numerator in (
        "(x[_, _] - mean[_])", "((x[_, _] - mean[_]) * (1 / deviation[_]))", "(dout[_, _] * scale[_])",
    ):  # fmt: skip
        _by_reciprocal(s, numerator, "deviation[_]")
    row = s.find("⊞[i < n] ⊞[j < m] _", in_="dx")
    for name in ("g4", "g3", "g2", "g1", "g"):
        s.stage(name, at=row)
    s.inline("dx").inline("dscale").inline("dbias")
    s.rw("concat_assoc", at="_ ++ _ ++ _").rw("sum_concat", reverse=True)


def _by_reciprocal(s: atl.Session, numerator: str, denominator: str) -> None:
    """Multiply by a reciprocal, which is computed once for a row: a / b → a * (1 / b)."""
    s.rw("mul_one", at=f"{numerator} / {denominator}", around=numerator, all=True, reverse=True)
    s.rw("mul_div", at=f"{numerator} * 1 / {denominator}", all=True)


EPSILON: Final = 1e-5
"""Number that layer norm adds to the variance of a row, so that it does not divide by zero."""
SOFTMAX: Final = """softmax (x : float32[n, m]) : float32[n, m] :=
    let top := ⊞[i < n] max[j < m] x[i, j] in
    let power := ⊞[i < n] ⊞[j < m] exp(x[i, j] - stop(top[i])) in
    let total := ⊞[i < n] Σ[j < m] power[i, j] in
    ⊞[i < n] ⊞[j < m] power[i, j] / total[i]"""
ATTENTION: Final = """attention (q : float32[L, E], k : float32[S, E], v : float32[S, F]) : float32[L, F] :=
    let score := ⊞[i < L] ⊞[j < S] (Σ[e < E] q[i, e] * k[j, e]) / sqrt(value(E)) in
    let top := ⊞[i < L] max[j < S] score[i, j] in
    let power := ⊞[i < L] ⊞[j < S] exp(score[i, j] - stop(top[i])) in
    let total := ⊞[i < L] Σ[j < S] power[i, j] in
    ⊞[i < L] ⊞[f < F] (Σ[j < S] power[i, j] * v[j, f]) / total[i]"""
"""The gradient by the greatest element of a row is zero, since it cancels. So `stop` changes no gradient."""

SHIPPED: Final = {
    "product": Shipped(
        """product (A : float32[n, k], B : float32[k, m]) : float32[n, m] :=
        ⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * B[p, j]""",
        ("A", "B"),
        product_in_registers,
    ),
    "batched product": Shipped(
        """batched (A : float32[b, n, k], B : float32[b, k, m]) : float32[b, n, m] :=
        ⊞[z < b] ⊞[i < n] ⊞[j < m] Σ[p < k] A[z, i, p] * B[z, p, j]""",
        ("A", "B"),
        by_model,
    ),
    "convolution": Shipped(
        """convolution (x : float32[B, C, W + R - 1], w : float32[K, C, R]) : float32[B, K, W] :=
        ⊞[n < B] ⊞[k < K] ⊞[p < W] Σ[c < C] Σ[r < R] x[n, c, p + r] * w[k, c, r]""",
        ("x", "w"),
        convolution_in_registers,
    ),
    "strided convolution": Shipped(
        """strided (x : float32[B, C, 2*W + R - 1], w : float32[K, C, R]) : float32[B, K, W] :=
        ⊞[n < B] ⊞[k < K] ⊞[p < W] Σ[c < C] Σ[r < R] x[n, c, 2*p + r] * w[k, c, r]""",
        ("x", "w"),
        by_model,
    ),
    "2-D convolution": Shipped(
        """convolution_2d (x : float32[B, C, H + R - 1, W + T - 1], w : float32[K, C, R, T]) : float32[B, K, H, W] :=
        ⊞[n < B] ⊞[k < K] ⊞[y < H] ⊞[p < W] Σ[c < C] Σ[r < R] Σ[t < T] x[n, c, y + r, p + t] * w[k, c, r, t]""",
        ("x", "w"),
        by_model,
    ),
    "softmax": Shipped(SOFTMAX, ("x",), by_model),
    "softmax, keeping": Shipped(SOFTMAX, ("x",), softmax_by_rows, keep=("power", "total")),
    "attention": Shipped(ATTENTION, ("q", "k", "v"), by_model),
    "attention, keeping": Shipped(ATTENTION, ("q", "k", "v"), by_model, keep=("power", "total")),
    "layer norm": Shipped(
        f"""layer_norm (x : float32[n, m], scale : float32[m], bias : float32[m]) : float32[n, m] :=
        let mean := ⊞[i < n] (Σ[j < m] x[i, j]) / value(m) in
        let centred := ⊞[i < n] ⊞[j < m] x[i, j] - mean[i] in
        let deviation := ⊞[i < n] sqrt((Σ[j < m] centred[i, j] * centred[i, j]) / value(m) + {EPSILON}) in
        ⊞[i < n] ⊞[j < m] centred[i, j] / deviation[i] * scale[j] + bias[j]""",
        ("x", "scale", "bias"),
        layer_norm_by_rows,
        keep=("mean", "deviation"),
    ),
    "stencil": Shipped(
        """stencil (v : float32[n + 2, m + 2]) : float32[n, m] := ⊞[y < n] ⊞[x < m]
        0.6 * v[y + 1, x + 1] + 0.1 * (v[y, x + 1] + v[y + 2, x + 1] + v[y + 1, x] + v[y + 1, x + 2])""",
        ("v",),
        without_border,
    ),
    "wave step": Shipped(
        """wave (now : float32[n + 2], before : float32[n], speed : float32[n]) : float32[n] :=
        ⊞[i < n] 2 * now[i + 1] - before[i] + speed[i] * (now[i] - 2 * now[i + 1] + now[i + 2])""",
        ("now", "before", "speed"),
        without_border,
    ),
    "embedding": Shipped(
        """embedding (table : float32[v, m], word : int64[n] in [0, v)) : float32[n, m] :=
        ⊞[i < n] ⊞[j < m] table[word[i], j]""",
        ("table",),
        as_gathered,
    ),
    "SpMV": Shipped(
        "spmv (A : float32[n, m], x : float32[m]) : float32[n] := ⊞[i < n] Σ[j < m] A[i, j] * x[j]",
        ("x",),
        lambda s: s.sparsify("A", atl.CSC),
    ),
    "SDDMM": Shipped(
        """sddmm (A : float32[n, m], U : float32[n, k], V : float32[m, k]) : float32[n, m] :=
        ⊞[i < n] ⊞[j < m] A[i, j] * Σ[p < k] U[i, p] * V[j, p]""",
        ("U", "V"),
        lambda s: s.sparsify("A", atl.CSR),
    ),
}
