"""The numbers in the calls of recipes follow from the machine model."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import pytest

import atl
from bench.workloads.programs import transpose
from examples.schedules import blur, matmul
from examples.schedules.networks import depthwise
from lowering import Machine
from lowering.targets.machine import KIB
from proofs_tests.recipes.machines import AVX2
from proofs_tests.recipes.test_workloads import program_of
from rewrites import reschedule

NORM: Final = atl.parse(
    "rows (A : float32[n, k], B : float32[k, m]) : float32[n, m] := "
    "let x := ⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * B[p, j] in let s := ⊞[i < n] Σ[j < m] x[i, j] in "
    "⊞[i < n] ⊞[j < m] x[i, j] / s[i]"
)


def calls(program: atl.Program, machine: Machine, **options: Any) -> str:
    """Return the calls of the recipes."""
    return reschedule(program).optimize(machine=machine, **options).script().partition("'''))\n")[2]


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize(("registers", "rows"), [(4, 1), (8, 2), (16, 6), (32, 8)])
def test_product_is_tiled_for_the_registers(registers: int, rows: int, vector_bytes: int) -> None:
    machine = replace(AVX2, vector_registers=registers, vector_bytes=vector_bytes)
    made = calls(matmul.naive(), machine)
    assert machine.register_tile() == (rows, vector_bytes // 2)
    assert f"[{vector_bytes // 2}, {rows}])" in made


@pytest.mark.long
def test_convolution_is_tiled_for_the_registers() -> None:
    for machine in (AVX2, replace(AVX2, vector_bytes=16), replace(AVX2, vector_bytes=64, vector_registers=32)):
        rows, columns = machine.register_tile()
        assert f"[{columns}, {rows}]" in calls(program_of("conv2d"), machine)


@pytest.mark.long
@pytest.mark.parametrize(
    ("channels", "outputs", "width", "vector_bytes", "tile"),
    [
        (64, 64, 56, 32, "[6, 16]"),
        (64, 64, 14, 64, "[8, 32]"),
        (64, 16, 112, 64, "[32, 8]"),  # half of each vector would be used
        (3, 64, 112, 32, "[16, 6]"),  # storing elements one by one would take longer than copying windows
    ],
)
def test_convolution_of_known_size_has_channels_or_positions_in_vectors(
    channels: int, outputs: int, width: int, vector_bytes: int, tile: str
) -> None:
    machine = replace(AVX2, vector_bytes=vector_bytes, vector_registers=vector_bytes // 2)
    sizes = {"B": 1, "C": channels, "K": outputs, "H": width, "W": width, "R": 3, "S": 3}
    made = calls(program_of("conv2d"), machine, sizes=sizes)
    assert f"s.tile(['p', 'k'], {tile})\n" in made
    in_channels = tile in ("[6, 16]", "[8, 32]")
    assert ("s.pack('w')" in made, "s.pad('x', at='po')" in made) == (in_channels, not in_channels)


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "depth"),
    [
        ({"l3": 256 * 1024 * KIB}, None),
        ({"l3": 16384 * KIB}, 512),
        ({"l2": 16 * KIB, "l3": 16384 * KIB}, 256),
        ({"l2": 64 * KIB, "l3": 2048 * KIB}, 256),
        ({"l2": 64 * KIB, "l3": 2048 * KIB, "l1": 64 * KIB}, 512),
        ({"l2": 4096 * KIB, "l3": 0}, 256),
    ],
)
def test_sum_is_blocked_if_its_rows_exceed_a_share_of_the_cache(changed: dict[str, Any], depth: int | None) -> None:
    made = calls(matmul.naive(), replace(AVX2, **changed), sizes={"M": 2048, "K": 2048, "N": 2048})
    assert re.findall(r"s\.tile\('\w+', (\d+)\)", made) == ([] if depth is None else [str(depth)])


@pytest.mark.parametrize(("size", "l3", "tile"), [(1024, 32, "[16, 6]"), (2048, 32, "[24, 4]"), (2048, 128, "[16, 6]")])
def test_tile_is_wide_if_the_rows_exceed_a_share_of_the_cache(size: int, l3: int, tile: str) -> None:
    machine = replace(AVX2, l3=l3 * 1024 * KIB)
    assert tile in calls(matmul.naive(), machine, sizes=dict.fromkeys("MKN", size))


@pytest.mark.parametrize(("registers", "width"), [(4, 8), (6, 16), (16, 32)])
def test_whole_array_is_reduced_in_free_registers(registers: int, width: int) -> None:
    program = atl.parse("dot (x : float32[n], y : float32[n]) : float32 := Σ[p < n] x[p] * y[p]")
    assert f"s.tile('p', {width})" in calls(program, replace(AVX2, vector_registers=registers))


@pytest.mark.parametrize(("line", "tile"), [(32, 8), (64, 16), (128, 16), (256, 16)])
def test_transpose_is_tiled_by_cache_lines_that_fit_registers(line: int, tile: int) -> None:
    assert f"s.tile(['j', 'i'], {tile})" in calls(transpose(), replace(AVX2, line=line))


@pytest.mark.long
@pytest.mark.parametrize(("vector_bytes", "width"), [(16, 8), (32, 16), (64, 32)])
def test_filters_of_channels_serve_a_row(vector_bytes: int, width: int) -> None:
    made = calls(depthwise(), replace(AVX2, vector_bytes=vector_bytes))
    assert f"s.tile('c', {width})\ns.interchange('x')\n" in made


def test_one_coefficient_does_not_serve_a_row() -> None:
    program = atl.parse(
        "scaled (x : float32[n, m], w : float32[m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] x[i, j] * w[j]"
    )
    assert "s." not in calls(program, AVX2)


@pytest.mark.long
@pytest.mark.parametrize(("registers", "rows"), [(4, 2), (8, 2), (16, 6), (32, 6)])
def test_rows_of_a_blur_share_registers(registers: int, rows: int) -> None:
    assert f", {rows}, share=" in calls(blur.two_stage(), replace(AVX2, vector_registers=registers))


@pytest.mark.long
def test_rows_are_fused_by_the_tile() -> None:
    for registers, rows in ((8, 2), (16, 6)):
        assert f", {rows})" in calls(NORM, replace(AVX2, vector_registers=registers))


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "by"),
    [({}, "[16, 128]"), ({"l1": 64 * KIB}, "[32, 128]"), ({"line": 128}, "[8, 256]"), ({"l1": 4 * KIB}, "[2, 128]")],
)
def test_windows_with_guards_are_blocks_in_the_first_cache(changed: dict[str, Any], by: str) -> None:
    program = program_of("stencils")
    made = calls(program, replace(AVX2, **changed), sizes=dict.fromkeys(program.sizes, 1000))
    assert f", {by})" in made
    assert "'ring'" not in made


@pytest.mark.long
@pytest.mark.parametrize(
    ("size", "changed", "expected"),
    [
        (500, {}, "s.mark('row', 'ring')"),
        (500, {"l3": 4096 * KIB}, "s.mark('row', 'registers')"),
        (2000, {}, "s.mark('row', 'registers')"),
        (2000, {"l3": 131072 * KIB}, "s.mark('row', 'ring')"),
        (500, {"l2": 16 * KIB}, "[16, 128])"),
    ],
)
def test_rows_of_a_window_stay_in_a_cache_or_registers(size: int, changed: dict[str, Any], expected: str) -> None:
    program = program_of("unsharp-mask")
    assert expected in calls(program, replace(AVX2, **changed), sizes=dict.fromkeys(program.sizes, size))


@pytest.mark.long
@pytest.mark.parametrize(("l2", "rows"), [(256, 64), (1024, 256), (64, 16)])
def test_threads_share_strips_that_fit_in_the_second_cache(l2: int, rows: int) -> None:
    program = program_of("unsharp-mask")
    sizes = dict.fromkeys(program.sizes, 500)
    made = calls(program, replace(AVX2, l2=l2 * KIB), sizes=sizes, parallel=True)
    assert f"], [{rows}])" in made
    assert "s.mark('row', 'ring')" in made
    assert "'parallel'" in made


@pytest.mark.long
def test_large_results_are_streamed() -> None:
    program = atl.parse("twice (x : float32[n, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] 2 * x[i, j]")
    sizes = {"n": 1024, "m": 1024}
    assert "'stream'" in calls(program, replace(AVX2, l3=1024 * KIB), sizes=sizes)
    assert "'stream'" not in calls(program, replace(AVX2, l3=64 * 1024 * KIB), sizes=sizes)
    assert "'stream'" not in calls(program, replace(AVX2, l3=1024 * KIB))
    assert "'stream'" not in calls(program, replace(AVX2, l3=1024 * KIB), sizes={"n": 1024, "m": 1000})
