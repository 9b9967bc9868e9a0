"""Writer of docs/operators.md: the implementation of an operator at each scope, found by building every cell.

python -m proofs_tests.instructions.operators > docs/operators.md      some seconds

A cell is a schedule and where it is compiled for. Its entry is read from what was built: the instructions that its text
calls, the exchanges of its ranks, or the refusal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

import atl
from examples import calls, distributed, gpu, warps
from layouts.sharding import Shards
from lowering.core.kernel import CoreKernel
from lowering.instructions import instructions
from lowering.ranks import steps as st
from lowering.ranks.forming import form

SCOPES: Final = ("thread", "warp", "block", "grid", "mesh")
OPERATORS: Final = ("copy", "pointwise", "reduce", "gemm")
Made: TypeAlias = Callable[[], atl.Session]


@dataclass(frozen=True, slots=True)
class Cell:
    """An operator at a scope with operands of a layout: its schedule, and the target."""

    operator: str
    scope: str
    layout: str
    made: Made
    target: str = "cuda"


def _text(shape: str, result: str, body: str) -> str:
    return f"f (x : float32[{shape}]) : float32[{result}] := {body}"


def _sharded(body: str) -> str:
    return f"f (x : float32[P*b]) : float32[P*b] given 1 <= P, 1 <= b := {body}"


def _parsed(text: str) -> Made:
    return lambda: atl.reschedule(atl.parse(text))


def _dispatched(text: str) -> Made:
    return lambda: atl.reschedule(atl.parse(text)).dispatch()


def _called(text: str, name: str, at: str) -> Made:
    return lambda: atl.reschedule(atl.parse(text)).call(name, at=at)


def _product(left: str = "A[i, p]", right: str = "B[p, j]", a: str = "n, k", b: str = "k, m") -> str:
    return (
        f"product (A : float32[{a}], B : float32[{b}]) : float32[n, m] := ⊞[i < n] ⊞[j < m] Σ[p < k] {left} * {right}"
    )


def _halves(a: str = "A[i, p]", shape: str = "n, k") -> str:
    return (
        f"product (A : float16[{shape}], B : float16[k, m]) : float32[n, m] := "
        f"⊞[i < n] ⊞[j < m] Σ[p < k] cast(float32, {a}) * cast(float32, B[p, j])"
    )


def _tensor_cores(text: str) -> Made:
    return lambda: atl.reschedule(atl.parse(text)).tensor_cores("p", "mma_m16n8k16", block=(64, 64, 32), warps=4)


def _on_ranks(text: str, layout: Shards, axes: list[str]) -> Made:
    def made() -> atl.Session:
        s = atl.reschedule(atl.parse(text))
        return s.shard("x", layout).shard_result(layout, axes)

    return made


_P, _B = atl.sizes("P b", min=1)
_ROWS: Final = atl.shards(x=(0, _P, _B))
_IN_WARP: Final = (
    "f (x : float32[n, 32]) : float32[n, 32] := ⊞[b < n | block.x] "
    "let r | registers := ⊞[t < 32 | thread.x] x[b, t] in ⊞[t < 32 | thread.x] "
)
_IN_BLOCK: Final = (
    "f (x : float32[n, {0}]) : float32[n, {0}] := ⊞[b < n | block.x] "
    "let r | shared := {1} in ⊞[t < {0} | thread.x] r[{0} - 1 - t]"
)
_COLUMNS: Final = (
    "f (x : float32[4*n, 128]) : float32[128] := flatten ⊞[b < 1 | block.x] let acc | registers := Σ[po < n] "
    "let t | shared := ⊞[q < 4 | thread.y] flatten ⊞[jo < 32 | thread.x] ⊞[ji < 4 | vector] "
    "x[4*po + q, 4*jo + ji] in ⊞[j < 32 | thread.x] ⊞[jj < 4] Σ[q < 4] t[q, 127 - 4*j - jj] in "
    "flatten ⊞[j < 32 | thread.x] ⊞[jj < 4] acc[j, jj]"
)
_RANK_ROWS: Final = (
    "f (x : float32[P*b, k], B : float32[k, m]) : float32[P*b, m] given 1 <= P, 1 <= b := "
    "⊞[i < P*b] ⊞[j < m] Σ[p < k] x[i, p] * B[p, j]"
)
_SQUARES: Final = (
    "f (x : float32[n, 32, 32]) : float32[n, 32, 32] := ⊞[b < n | block.x] let r | registers := "
    "⊞[t < 32 | thread.x] ⊞[v < 32] x[b, v, t] in transpose ⊞[t < 32 | thread.x] ⊞[v < 32] r[v, t]"
)
_DOT: Final = "f (x : float32[{}], y : float32[k]) : float32 := Σ[p < k] x[{}] * y[p]"

CELLS: Final = (
    # A thread of the CPU.
    Cell("copy", "thread", "rows", _dispatched(_text("n", "n", "⊞[i < n] x[i]")), "c"),
    Cell("copy", "thread", "transposed", _parsed(_text("n, m", "m, n", "⊞[j < m] ⊞[i < n] x[i, j]")), "c"),
    Cell("copy", "thread", "every second", _called(_text("2*n", "n", "⊞[i < n] x[2*i]"), "memcpy_float32", "i"), "c"),
    Cell("pointwise", "thread", "rows", _parsed(_text("n", "n", "⊞[i < n] 2 * x[i]")), "c"),
    Cell("reduce", "thread", "rows", _dispatched(_DOT.format("k", "p")), "c"),
    Cell("reduce", "thread", "every second", _dispatched(_DOT.format("2*k", "2*p")), "c"),
    Cell("gemm", "thread", "rows", _dispatched(_product()), "c"),
    Cell("gemm", "thread", "transposed", _dispatched(_product("A[p, i]", a="k, n")), "c"),
    Cell("gemm", "thread", "every second row", _dispatched(_product("A[2*i, p]", a="2*n, k")), "c"),
    Cell("gemm", "thread", "overlapping rows", _called(_product("A[i + p]", a="n + k"), "sgemm", "p"), "c"),
    # The lanes of a warp.
    Cell("copy", "warp", "rows", _parsed(_IN_WARP + "r[t]")),
    Cell("copy", "warp", "permuted lanes", _parsed(_IN_WARP + "r[31 - t]")),
    Cell("copy", "warp", "transposed", lambda: warps.transpose(2)),
    Cell("copy", "warp", "register by lane", _parsed(_SQUARES)),
    Cell("pointwise", "warp", "rows", _parsed(_IN_WARP + "2 * r[t]")),
    Cell("reduce", "warp", "rows", lambda: gpu.row_sums_by_warps(1)),
    Cell("reduce", "warp", "registers", warps.sums),
    Cell("gemm", "warp", "rows", _tensor_cores(_halves())),
    # The threads of a block.
    Cell("copy", "block", "rows", _parsed(_IN_BLOCK.format(256, "⊞[t < 256 | thread.x] x[b, t]"))),
    Cell("copy", "block", "aligned rows", lambda: atl.reschedule(atl.parse(_COLUMNS)).mark("t", "shared", stages=3)),
    Cell("copy", "block", "transposed", gpu.transpose),
    Cell(
        "pointwise",
        "block",
        "rows",
        _parsed(_text("n, 256", "n, 256", "⊞[b < n | block.x] ⊞[t < 256 | thread.x] 2 * x[b, t]")),
    ),
    Cell("reduce", "block", "rows", gpu.row_sums_by_blocks),
    Cell("gemm", "block", "rows", gpu.product),
    Cell("gemm", "block", "transposed", _tensor_cores(_halves("A[p, i]", "k, n"))),
    # The blocks of a grid.
    Cell("copy", "grid", "rows", lambda: atl.reschedule(atl.parse(_text("n", "n", "⊞[i < n] x[i]"))).gpu_map("i", 256)),
    Cell(
        "pointwise",
        "grid",
        "rows",
        lambda: atl.reschedule(atl.parse(_text("n", "n", "⊞[i < n] 2 * x[i]"))).gpu_map("i", 256),
    ),
    Cell(
        "reduce",
        "grid",
        "rows",
        _parsed("f (x : float32[n, 256]) : float32 := Σ[b < n | block.x] Σ[t < 256 | thread.x] x[b, t]"),
    ),
    Cell("reduce", "grid", "two launches", gpu.whole_sum_in_two_launches),
    Cell("gemm", "grid", "rows", gpu.product),
    # The ranks of a mesh.
    Cell("copy", "mesh", "rows", _on_ranks(_sharded("⊞[i < P*b] x[i]"), _ROWS, ["d", "i"]), "ranks"),
    Cell("copy", "mesh", "cyclic", distributed.redistribution, "ranks"),
    Cell("pointwise", "mesh", "rows", _on_ranks(_sharded("⊞[i < P*b] 2 * x[i]"), _ROWS, ["d", "i"]), "ranks"),
    Cell("pointwise", "mesh", "neighbours", distributed.stencil, "ranks"),
    Cell("reduce", "mesh", "rows", distributed.reduction, "ranks"),
    Cell("gemm", "mesh", "rows", calls.rows, "ranks"),
    Cell("gemm", "mesh", "terms", calls.contracted, "ranks"),
    Cell("gemm", "mesh", "blocks (SUMMA)", calls.summa, "ranks"),
    Cell("gemm", "mesh", "rows of A, all of B", _on_ranks(_RANK_ROWS, _ROWS, ["d", "i", "j"]), "ranks"),
)

HEAD: Final = """\
# Operators and scopes

The tables list how a copy, a pointwise operator, a reduction and a product of matrices (gemm) are implemented at each
scope. This page is generated by building each cell (`python -m proofs_tests.instructions.operators`), and a test builds
them all again.

- *Loops* are the loops of the program, at this scope.
- `name` is an instruction that a call executes, or in CUDA a function, a type (`float4`) or a PTX instruction
  (`cp.async`).
- *Schedule* is a composition: the exchanges between ranks, or copies to shared memory, and what computes the parts.
- *Refused* is an error with the code and the reason. Its message says what to do.

The scope *thread* is a thread of the CPU. The others are the lanes of a warp, the threads of a block, the blocks of a
grid, and the ranks of a [mesh](distributed.md). The conditions are those of [instructions](instructions.md) and of
[kernels for a GPU](gpu.md).
"""

OF_CUDA: Final = {
    r"__shfl_\w+": "`__shfl_sync`",
    r"copy_async": "`cp.async`",
    r"make_float4": "`float4`",
    r"__syncthreads": "shared memory",
}
"""The other functions that a text calls, and their names on the page."""


def entry(cell: Cell) -> str:
    """Build a cell, and return its entry."""
    try:
        s = cell.made()
        if cell.target == "ranks":
            steps = list(_exchanges(form(s.goal).steps))
            return _composed([*steps, *(f"`{name}`" for name in _names(r"call (\w+)", str(s.goal)))])
        kernel = s.compile(target=cell.target)
        assert not isinstance(kernel, CoreKernel)
        source = kernel.source
    except atl.ATLError as error:
        return f"refused: {_reason(error)}"
    called = [f"`{name}`" for name in _names(r"\b(\w+)\(", source) if name in instructions()]
    return _composed([*called, *(name for call, name in OF_CUDA.items() if re.search(rf"\b{call}\(", source))])


def _composed(names: list[str]) -> str:
    if not names:
        return "loops"
    return names[0] if len(names) == 1 and names[0] != "shared memory" else f"schedule: {', '.join(names)}"


def _names(pattern: str, text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(pattern, text)))


def _exchanges(steps: tuple[st.Step, ...]) -> Iterator[str]:
    for step in steps:
        match step:
            case st.Repeat(steps=inner):
                yield from _exchanges(inner)
            case st.Copy() | st.Gather() | st.Fold() | st.Counts():
                yield step.form
            case st.Local() | st.Join():
                pass
            case _:
                assert_never(step)


def _reason(error: atl.ATLError) -> str:
    """Return the first line of an error and what is required, without names of generated code."""
    summary, *more = str(error).split("\n")
    required = next(line.split("required: ", 1)[1] for line in more if line.strip().startswith("required: "))
    return f"{summary}; required: {required}".replace("|", "\\|")


def page() -> str:
    """Return the page: a table for each operator."""
    parts = [HEAD]
    for operator in OPERATORS:
        lines = [f"## {operator}", "", "| scope | operands | computed by |", "|---|---|---|"]
        for scope in SCOPES:
            cells = [cell for cell in CELLS if (cell.operator, cell.scope) == (operator, scope)]
            lines += [f"| {scope} | {cell.layout} | {entry(cell)} |" for cell in cells]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
