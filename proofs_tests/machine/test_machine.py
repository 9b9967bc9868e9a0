"""The machine model: tile sizes follow from its numbers, which come from the compiler and can be overridden."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

import atl
from atl.errors import DtypeError, InvalidArgument
from lowering import Machine, machine
from lowering.c_compiler import find_compiler
from lowering.targets.machine import KIB, SPARE_REGISTERS, caches

AVX2 = Machine(
    vector_bytes=32, vector_registers=16, fma=True, cores=4, l1=32 * KIB, l2=256 * KIB, l3=8192 * KIB, line=64
)


@pytest.mark.parametrize(
    ("vector_bytes", "registers", "tile"),
    [(64, 32, (8, 32)), (32, 16, (6, 16)), (16, 32, (8, 8)), (16, 16, (6, 8)), (16, 4, (1, 8)), (32, 8, (2, 16))],
)
def test_register_tiles_fit_the_registers(vector_bytes: int, registers: int, tile: tuple[int, int]) -> None:
    planted = replace(AVX2, vector_bytes=vector_bytes, vector_registers=registers)
    rows, columns = planted.register_tile("float32")
    assert (rows, columns) == tile
    assert rows * (columns // planted.lanes()) <= max(2, registers - SPARE_REGISTERS)
    assert planted.register_tile("float64") == (rows, columns // 2)


def test_other_register_tiles_are_wider_or_narrower() -> None:
    assert AVX2.register_tiles() == [(6, 16), (4, 24), (3, 32), (8, 8)]
    for vector_bytes, registers in ((64, 32), (32, 16), (16, 32), (16, 16)):
        planted = replace(AVX2, vector_bytes=vector_bytes, vector_registers=registers)
        for rows, columns in planted.register_tiles("float64"):
            assert rows <= 8
            assert rows * (columns // planted.lanes("float64")) <= registers - SPARE_REGISTERS


def test_blocks_shrink_with_the_caches() -> None:
    small = replace(AVX2, l1=8 * KIB, l2=64 * KIB)
    assert small.panel_depth() < AVX2.panel_depth()
    assert small.strip_rows(4000) < AVX2.strip_rows(4000)
    for each in (small, AVX2, replace(AVX2, l2=0, l3=0)):
        _, columns = each.register_tile()
        assert each.panel_depth() * columns * 4 <= each.l1
        assert each.strip_rows(10**9) == 1


def test_arrays_stay_in_a_share_of_the_last_cache() -> None:
    for planted, last in ((AVX2, 8192), (replace(AVX2, l3=0), 256), (replace(AVX2, l2=0, l3=0), 32)):
        assert planted.last_cache == last * KIB
        assert planted.resident == last * KIB // 4


def test_the_model_is_that_of_the_compiler() -> None:
    found, compiler = machine(), find_compiler()
    assert (found.vector_bytes, found.vector_registers) == (compiler.vector_bytes, compiler.vector_registers)
    assert found.cores >= 1


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("-march=x86-64-v3", (32, 16, True)), ("-march=x86-64", (16, 16, False)), ("-march=x86-64-v4", (64, 32, True))],
)
def test_flags_of_the_compiler_change_the_model(
    flags: str, expected: tuple[int, int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("these flags are of x86-64")
    compiler = find_compiler()
    monkeypatch.setenv("CC", f"{compiler.path} {flags}")
    found = machine()
    assert (found.vector_bytes, found.vector_registers, found.fma) == expected


def test_numbers_are_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATL_MACHINE", "vector_registers=4, l1=4096,fma=0")
    found = machine()
    assert (found.vector_registers, found.l1, found.fma) == (4, 4096, False)
    assert found.register_tile()[0] == 1
    assert "4 registers" in str(found)


@pytest.mark.parametrize("text", ["registers=4", "l1=32K", "l1", "l1=-1", "=3", "fma=2", "fma=yes"])
def test_a_malformed_override_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATL_MACHINE", text)
    with pytest.raises(InvalidArgument, match="vector_registers"):
        machine()


@pytest.mark.parametrize(
    "wrong", [{"l1": 0}, {"cores": True}, {"fma": 1}, {"l2": 1.5}, {"line": None}, {"vector_bytes": 7}]
)
def test_numbers_that_no_machine_has_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong)).split("_")[0]):
        replace(AVX2, **wrong)  # type: ignore[arg-type]


def test_an_unknown_element_type_is_refused() -> None:
    with pytest.raises(DtypeError):
        AVX2.register_tile("complex64")


def test_caches_are_read_where_the_system_reports_them(tmp_path: Path) -> None:
    for number, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "9K")]
    ):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size), ("coherency_line_size", "128")):
            (folder / name).write_text(f"{text}\n")
    assert caches(tmp_path) == (48 * KIB, 9 * KIB, 0, 128)
    (tmp_path / "index2" / "size").write_text("unknown")
    assert caches(tmp_path) == (48 * KIB, 0, 0, 128)
    assert caches(tmp_path / "nowhere") == (32 * KIB, 256 * KIB, 0, 64)


def test_the_way_in_has_it() -> None:
    assert atl.machine() == machine()
    assert atl.Machine is Machine
