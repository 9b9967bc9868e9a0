"""Refusals of distributed programs, each with the numbers that break it."""

from __future__ import annotations

import numpy as np
import pytest

import atl
from atl.core.marks import LoopMark
from atl.core.terms import Input
from lowering.ranks.forming import form
from lowering.ranks.reads import local_array

U = "f (u : float32[P | device.x, b]) : float32[P, b] given 1 <= P, 1 <= b := ⊞[d < P | device.x] "
REFUSED = {
    "another rank's part outside of an exchange": (
        U + "⊞[i < b] ([1 <= d] · u[d - 1, i]) + u[d, i]",
        atl.IllegalExchange,
        "reads a part of u that another rank holds, outside of an exchange",
    ),
    "an exchange under a condition on the rank": (
        U + "[1 <= d] · let t := ⊞[i < b] u[d - 1, i] in ⊞[i < b] t[i] * t[i]",
        atl.IllegalExchange,
        "the exchange t is under the condition [1 <= rank_x], which depends on the rank",
    ),
    "an exchange inside a loop": (
        U + "⊞[i < b] let t := [1 <= d] · u[d - 1, i] in t * t",
        atl.IllegalExchange,
        "the exchange t is inside i",
    ),
    "a sum whose length depends on the rank": (
        U + "Σ[k < d] let t := ⊞[i < b] u[k, i] in ⊞[i < b] t[i] * t[i]",
        atl.IllegalExchange,
        "its number of iterations depends on the rank",
    ),
    "an owner of no form": (
        U + "let t := ⊞[i < b] Σ[j < b] u[(d + i*j) % P, j] in ⊞[i < b] t[i]",
        atl.IllegalExchange,
        "the owner of u has no known form",
    ),
    "a halo wider than a shard": (
        U + "let t := ⊞[i < 1] Σ[j < 2] [2 <= d*b + j] · u[(d*b + j - 2) // b, (d*b + j - 2) % b] in ⊞[i < b] t[0]",
        atl.IllegalExchange,
        "the halo of u is wider than a shard",
    ),
    "a message of parts and own values": (
        U + "let own := ⊞[i < b] 2 * u[d, i] in let t := ⊞[i < b] [1 <= d] · u[d - 1, i] * own[i] in ⊞[i < b] t[i]",
        atl.IllegalExchange,
        "together with own, of which each rank has its own value",
    ),
    "one axis in two nested loops": (
        "f (u : float32[P | device.x]) : float32[P, P] := ⊞[d < P | device.x] ⊞[e < P | device.x] u[d]",
        atl.IllegalMark,
        "the nested loops d and e are both marked device.x",
    ),
    "two writers": (
        "f (u : float32[P | device.x, b]) : float32[b] := Σ[d < P | device.x] ⊞[i < b] u[d, i]",
        atl.IllegalMark,
        "both access out[0] (data race)",
    ),
    "ranks that fold into a scalar": (
        "f (u : float32[P | device.x]) : float32 := Σ[d < P | device.x] u[d]",
        atl.IllegalMark,
        "data race",
    ),
    "two extents of an axis": (
        "f (u : float32[P | device.x], v : float32[Q | device.x]) : float32[P] := ⊞[d < P | device.x] u[d]",
        atl.MeshError,
        "the input v has Q parts along device.x, the input u has P",
    ),
    "a device loop over some ranks": (
        "f (u : float32[P | device.x]) : float32[P - 1] given 1 <= P := ⊞[1 <= d < P | device.x] u[d]",
        atl.MeshError,
        "is not over all ranks of an axis",
    ),
    "a device loop inside another loop": (
        "f (u : float32[P], v : float32[n]) : float32[n, P] := ⊞[i < n] ⊞[d < P | device.x] u[d] * v[i]",
        atl.IllegalExchange,
        "the loop d is marked device.x, but each rank runs all of its iterations",
    ),
    "no device axis": ("f (u : float32[n]) : float32[n] := ⊞[i < n] u[i]", atl.MeshError, "neither a device loop"),
}
WITHOUT_NUMBERS = {
    "an exchange inside a loop", "a device loop over some ranks",
    "a sum whose length depends on the rank", "a message of parts and own values", "one axis in two nested loops",
    "no device axis", "a device loop inside another loop",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_numbers(name: str) -> None:
    text, kind, said = REFUSED[name]
    with pytest.raises(kind) as found:
        form(atl.parse(text))
    error = found.value
    assert isinstance(error, atl.ATLError)
    assert said in str(error)
    assert error.required
    assert (name in WITHOUT_NUMBERS) != bool(error.numbers), error


ROWS = "f (x : float32[P | device.x, n]) : float32[P, n] := ⊞[d < P | device.x] ⊞[i < n] 2 * x[d, i]"


def test_arrays_with_another_number_of_parts() -> None:
    kernel = atl.compile(atl.parse(ROWS), mesh=atl.Mesh(x=3))
    with pytest.raises(atl.MeshError, match="the program has 2 parts along x, and the mesh has 3 ranks"):
        kernel(np.ones((2, 4), np.float32))


def test_a_constant_number_of_parts_is_checked_when_compiling() -> None:
    with pytest.raises(atl.MeshError, match="4 parts along x, and the mesh has 3 ranks"):
        atl.compile(atl.parse(ROWS.replace("P", "4")), mesh=atl.Mesh(x=3))


def test_a_mesh_has_the_axes_of_the_program() -> None:
    with pytest.raises(atl.MeshError, match=r"the axes x, and the mesh has x, y"):
        atl.compile(atl.parse(ROWS), mesh=atl.Mesh(x=2, y=2))


@pytest.mark.parametrize(("extents", "said"), [({}, "no axes"), ({"w": 2}, "no axis w"), ({"x": 0}, "has 0 ranks")])
def test_meshes(extents: dict[str, int], said: str) -> None:
    with pytest.raises(atl.MeshError, match=said):
        atl.Mesh(**extents)


def test_options_that_a_mesh_excludes() -> None:
    with pytest.raises(atl.InvalidArgument, match="mesh= with another option"):
        atl.compile(atl.parse(ROWS), mesh=atl.Mesh(x=2), fast_math=True)  # type: ignore[call-overload]
    for validate in (True, "yes"):
        with pytest.raises(atl.InvalidArgument, match="mesh= with another option"):
            atl.compile(atl.parse(ROWS), mesh=atl.Mesh(x=2), validate=validate)  # type: ignore[call-overload]


def test_a_strict_session_does_not_lose_strictness() -> None:
    session = atl.reschedule(atl.parse(ROWS), strict=True)
    with pytest.raises(atl.InvalidArgument, match="mesh= with strict=True"):
        session.compile(mesh=atl.Mesh(x=2))
    assert session.compile(mesh=atl.Mesh(x=2), strict=False).mesh.ranks == 2


SIZED = (
    "f (x : float32[P | device.x, n], m : size) : float32[P, n, m] := ⊞[d < P | device.x] ⊞[i < n] ⊞[j < m] 2 * x[d, i]"
)


def test_a_rank_passes_sizes_that_no_part_determines() -> None:
    kernel = atl.compile(atl.parse(SIZED), mesh=atl.Mesh(x=2))
    part = np.ones(3, np.float32)
    assert kernel._of_rank([part], {"m": 2}).sizes == {"P": 2, "n": 3, "m": 2}
    with pytest.raises(atl.ArgumentError, match="missing size 'm'"):
        kernel._of_rank([part], {})
    with pytest.raises(atl.ArgumentError, match=r"the size m of f is 2\.5"):
        kernel._of_rank([part], {"m": 2.5})
    with pytest.raises(atl.ArgumentError, match="no argument k"):
        kernel._of_rank([part], {"m": 2, "k": 1})
    with pytest.raises(atl.MeshError, match="3 parts along x, and the mesh has 2"):
        kernel._of_rank([part], {"m": 2, "P": 3})


@pytest.mark.parametrize(
    ("mesh", "sizes", "kind", "said"),
    [
        (atl.Mesh(x=3), {"P": 2, "b": 4}, atl.MeshError, "2 parts along x, and the mesh has 3 ranks"),
        (4, {"P": 4, "b": 4}, atl.InvalidArgument, "mesh=4"),
        (atl.Mesh(x=2, y=2), {"P": 2, "b": 4}, atl.MeshError, "the axes x, and the mesh has x, y"),
        (atl.Mesh(x=2), {"P": 2, "b": 4, "zzz": 3}, atl.ArgumentError, "no size zzz"),
        (atl.Mesh(x=2), {"P": 2, "b": True}, atl.ArgumentError, "the size b of f is True"),
        (atl.Mesh(x=2), {"b": 4}, atl.ArgumentError, "missing size P"),
    ],
)
def test_traffic_of_another_mesh_or_sizes(
    mesh: object, sizes: dict[str, int], kind: type[Exception], said: str
) -> None:
    traffic = atl.reschedule(atl.parse(U + "let t := ⊞[i < b] u[0, i] in ⊞[i < b] t[i] + u[d, i]")).traffic()
    assert traffic.of(atl.Mesh(x=2), P=2, b=4) == ([0, 4], [0, 1])
    with pytest.raises(kind, match=said):
        traffic.of(mesh, **sizes)  # type: ignore[arg-type]


def test_attributes_of_a_distributed_kernel_are_named() -> None:
    kernel = atl.compile(atl.parse(ROWS), mesh=atl.Mesh(x=2))
    with pytest.raises(atl.NoSuchAttribute, match=r"no attribute source[\s\S]*run_rank, state, steps"):
        _ = kernel.source  # type: ignore[attr-defined]
    assert not hasattr(kernel, "_repr_html_")


def test_without_a_mesh_device_loops_are_refused() -> None:
    with pytest.raises(atl.UnsupportedMark, match=r"device\.x"):
        atl.compile(atl.parse(ROWS))


def test_several_results_are_refused() -> None:
    program = atl.parse("f (x : float32[n]) : (a : float32[n], b : float32[n]) := (⊞[i < n] x[i]) ++ ⊞[i < n] x[i]")
    with pytest.raises(atl.InvalidArgument, match="several results"):
        atl.compile(program, mesh=atl.Mesh(x=2))


def test_an_order_along_a_sharded_dimension_does_not_hold_on_a_rank() -> None:
    n, ranks = atl.sizes("n P")
    rows = atl.tensor("rows", n, ranks, dtype="int32", monotonic="increasing").node
    assert isinstance(rows, Input)
    by_rows, by_columns = ((LoopMark.DEVICE_X, LoopMark.NONE), (LoopMark.NONE, LoopMark.DEVICE_X))
    assert local_array(rows.array, by_rows).monotonic == "increasing"
    assert not local_array(rows.array, by_columns).monotonic
