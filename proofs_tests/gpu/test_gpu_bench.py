"""`python -m bench.gpu` without a GPU: its checks and timings run on the shim, and it reports what is missing."""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

import atl
from bench.gpu import command, cublas, measuring, roofline, shipped
from bench.gpu.checking import Verdict, calls, checked, fault
from bench.gpu.shipped import Shipped
from examples import gpu
from examples.schedules import blur
from lowering import Device, detect_gpu, random_inputs
from lowering.device import runtime
from lowering.device.building import Declared, Functions, open_library
from lowering.device.detection import GpuEnvironment, find_nvcc
from proofs_tests.gpu.shim.machine import Shim
from proofs_tests.gpu.shim.run import COMPILER, build
from rewrites import Session, reschedule

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler: printed kernels are not run here")

SMALL: Final[dict[str, Callable[[], Session]]] = {
    "product": lambda: gpu.product(8, (2, 4), 4, lanes=False),
    "transpose": lambda: gpu.transpose(8, 2),
    "row_sums_by_warps": lambda: gpu.row_sums_by_warps(2),
}
H200: Final = GpuEnvironment("13.0", "13.0", ((9, 0),), ("NVIDIA H200",))


class OneLibrary:
    """A machine with all kernels in one library, and therefore on one device of the shim."""

    def __init__(self, kernels: Sequence[Shipped], folder: Path, *, change: tuple[str, str] = ("", "")) -> None:
        texts = [re.sub(*change, each.kernel.source) if change[0] else each.kernel.source for each in kernels]
        texts += [roofline.TEXT, runtime.TEXT]
        name = f"bench{len(list(folder.glob('*.so')))}"
        library = build(texts, folder, name)
        self._path = folder / f"{name}.so"
        self.shim = Shim(library)

    def functions(self, _source: str, _name: str, declared: Declared) -> Functions:
        return open_library(self._path, declared)


@pytest.fixture(scope="module")
def kernels() -> list[Shipped]:
    return [Shipped(name, made()) for name, made in SMALL.items()]


@pytest.fixture(scope="module")
def device(kernels: list[Shipped], tmp_path_factory: pytest.TempPathFactory) -> Device:
    machine = OneLibrary(kernels, tmp_path_factory.mktemp("bench"))
    for each in kernels:
        each.on(machine)
    return Device(machine, roofline.TEXT, "roofline", roofline.TAKES)


def test_every_shipped_schedule_is_listed() -> None:
    assert set(shipped.names()) >= {"product", "transpose", "blur_in_tiles", "row_sums_by_blocks", "row_sums_by_warps"}


@pytest.mark.long
def test_references_agree_with_their_programs(kernels: list[Shipped]) -> None:
    for each in [*kernels, Shipped("blur", reschedule(blur.fused()))]:
        assert all(set(sizes) == set(each.program.sizes) for sizes in each.work.sizes)
        arrays = shipped_inputs(each, 5)
        assert each.work.reference is not None
        want = atl.evaluate(each.program, *arrays)
        assert fault(each.work.reference(*arrays).astype(want.dtype), want) == ""
        assert each.shape_at({"n": 5, "m": 6, "k": 7}) == want.shape


def shipped_inputs(each: Shipped, seed: int) -> list[Any]:
    sizes = {name: {"n": 5, "m": 6, "k": 7}[name] for name in each.program.sizes}
    return list(random_inputs(each.program, sizes, seed).values())


@pytest.mark.long
def test_schedules_are_checked_with_poison_around_their_results(kernels: list[Shipped], device: Device) -> None:
    for each in kernels:
        assert checked(each, device, seed=3, times=3) == Verdict(each.name, 3)


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r"out\[(.*)\] = tile", r"out[\1] = 2 * tile"),
        (r"if \((\d+ \* io \+ ii < n) &&", r"if (\1 - 1 &&"),
        (r"A\[", "A[1 + "),
    ],
    ids=["another value", "an element is left out", "another element"],
)
def test_wrong_kernel_is_reported(before: str, after: str, kernels: list[Shipped], tmp_path: Path) -> None:
    transpose = next(each for each in kernels if each.name == "transpose")
    assert re.search(before, transpose.kernel.source)
    right = transpose.kernel
    machine = OneLibrary([transpose], tmp_path, change=(before, after))
    try:
        transpose.on(machine)
        assert checked(transpose, Device(machine, roofline.TEXT, "roofline", roofline.TAKES), seed=3, times=4).message
    finally:
        transpose.kernel = right


@pytest.mark.long
def test_program_for_none_of_the_random_sizes_is_reported(device: Device) -> None:
    x = atl.tensor("x", n := atl.sizes("n", min=1000))
    doubled = atl.program("doubled", [x], atl.gen(n, lambda i: 2.0 * x[i]))
    marked = reschedule(doubled).gpu_map("i", 32)
    verdict = checked(Shipped("doubled", marked), device, seed=1, times=2)
    assert verdict.checks == 0
    assert "only 0 of 40 random sizes meet the program's assumptions; 2 needed, seed 1" in verdict.message


@pytest.mark.long
def test_calls_are_checked_in_all_available_ways(kernels: list[Shipped], device: Device) -> None:
    (transpose,) = (each for each in kernels if each.name == "transpose")
    verdicts = {verdict.what: verdict for verdict in calls(transpose, device)}
    for what in ("NumPy arrays", "device arrays, alternating inputs", "errors"):
        assert verdicts[what].message == "", verdicts[what]
    assert len(verdicts) == 5


@pytest.mark.long
def test_library_without_a_gpu_is_absent_and_not_wrong(
    kernels: list[Shipped], device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = ModuleType("torch")
    torch.__spec__ = ModuleSpec("torch", None)
    torch.cuda = SimpleNamespace(is_available=lambda: False)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    (transpose,) = (each for each in kernels if each.name == "transpose")
    (verdict,) = (verdict for verdict in calls(transpose, device) if verdict.what.startswith("PyTorch"))
    assert verdict == Verdict("PyTorch, in a separate stream", 0, "torch sees no GPU", absent=True)


@pytest.mark.long
def test_run_writes_results_with_the_name_of_the_machine(
    tmp_path: Path, kernels: list[Shipped], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = OneLibrary(kernels, tmp_path)
    small = {"n": 9, "m": 10, "k": 11}
    monkeypatch.setattr(command, "shipped", lambda name: Shipped(name, SMALL[name]()))
    for name, work in list(shipped.WORKS.items()):
        sizes = ({size: small.get(size, 3) for size in work.sizes[0]},)
        monkeypatch.setitem(shipped.WORKS, name, shipped.Work(sizes, work.operations, work.reference))
    monkeypatch.setattr(
        command,
        "measure_roofline",
        lambda device, times: roofline.measure_roofline(device, count=2**14, rounds=2, times=2),
    )
    monkeypatch.setattr(command, "sanitized", lambda names, seed: iter([Verdict("memcheck", 0, "absent", absent=True)]))
    path = tmp_path / "results.json"
    chosen = argparse.Namespace(
        schedules=list(SMALL), check_only=False, no_sanitizers=False, checks=1, rounds=2, seed=1, json=path
    )
    assert command.run(chosen, H200, machine) == 0
    written = json.loads(path.read_text())
    assert written["complete"]
    assert written["machine"]["gpu"] == "NVIDIA H200"
    assert {row["schedule"] for row in written["rows"]} == set(SMALL)
    for row in written["rows"]:
        assert row["faults"] == {}
        assert set(row["ms"]) >= {measuring.OURS, measuring.COPY}
        assert row["bytes"] > 0
        assert row["floor_ms"] > 0
    product = next(row for row in written["rows"] if row["schedule"] == "product")
    assert product["operations"] == 2 * 9 * 10 * 11
    assert product["bytes"] == 4 * (9 * 11 + 11 * 10 + 9 * 10)
    assert "transpose at n = 9, m = 10" in capsys.readouterr().out
    assert command._slug("NVIDIA H200") == "nvidia-h200"


@pytest.mark.long
def test_roofline_kernels_move_and_compute_the_stated_amounts(device: Device) -> None:
    held = np.random.default_rng(0).random(4099).astype(np.float32)
    source, to = device.array(held), device.empty(held.shape, held.dtype)
    roofline.copying(device, source, to)()
    copied = device.read(to)
    assert np.array_equal(copied[:4096], held[:4096])
    assert np.isnan(copied[4096:]).all(), "16 bytes at a time"
    sums = device.empty((512,), "float32")
    run, operations = roofline.chaining(device, sums, 3)
    run()
    chain = np.array([0.999 + t % 256 + k for t in range(512) for k in range(8)]).reshape(512, 8)
    for _ in range(3):
        chain = chain * 0.999 + 1e-6
    assert np.allclose(device.read(sums), chain.sum(axis=1), rtol=1e-5)
    assert operations == 2 * 8 * 3 * 512
    device.free(source, to, sums)


@pytest.mark.long
def test_cublas_computes_the_product_by_rows(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpret the arguments by the library's description, which has columns first."""
    asked: list[tuple[Any, ...]] = []

    class Library:
        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any) -> int:
                asked.append((name, *arguments))
                return 0

            return call

    monkeypatch.setattr(cublas, "_path", lambda: "libcublas.so.13")
    monkeypatch.setattr("ctypes.CDLL", lambda path: Library())
    a, b = np.random.default_rng(1).random((3, 5)), np.random.default_rng(2).random((5, 4))
    made = [device.empty(shape, "float32") for shape in ((3, 5), (5, 4), (3, 4))]
    cublas.Cublas(2).product(*made)
    name, _, _, _, rows, columns, inner, _, first, ld_first, second, ld_second, _, into, ld_into = asked[-1]
    assert name == "cublasSgemm_v2"
    assert [first.value, second.value, into.value] == [made[1].pointer, made[0].pointer, made[2].pointer]
    held = {made[0].pointer: a.ravel(), made[1].pointer: b.ravel()}
    left = held[first.value].reshape(inner, ld_first).T[:rows]
    right = held[second.value].reshape(columns, ld_second).T[:inner]
    assert np.allclose((left @ right).T, a @ b)
    assert ld_into == rows
    device.free(*made)


@pytest.mark.long
@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_nvcc_accepts_the_roofline_kernels_without_warnings(tmp_path: Path) -> None:
    nvcc = find_nvcc()
    assert nvcc is not None
    for name, text in (("roofline.cu", roofline.TEXT), (runtime.FILE, runtime.TEXT)):
        (tmp_path / name).write_text(text)
    warnings = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-fPIC", "-Xptxas", "-warn-spills,-Werror"]
    arch = ["-include", "cuda_runtime_api.h", "-gencode=arch=compute_90,code=sm_90", "--cudart", "static"]
    command = [*nvcc.command, "-std=c++17", "-O3", "--shared", *warnings, *arch, "roofline.cu", runtime.FILE]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")


def test_sanitizer_reports_are_parsed() -> None:
    assert command.judged("memcheck", 0, "…\n========= ERROR SUMMARY: 0 errors\n", 5) == Verdict("memcheck", 5)
    found = "Invalid __global__ write of size 4 bytes\n========= ERROR SUMMARY: 3 errors\n"
    assert "3 found" in command.judged("memcheck", 9, found, 5).message
    races = "RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)"
    assert "2 found" in command.judged("racecheck", 9, races, 5).message
    refused = command.judged("memcheck", 1, "========= Error: Device not supported\n", 5)
    assert refused.absent
    assert "Device not supported" in refused.message
    assert command.judged("memcheck", 1, "transpose: WRONG: …\n========= ERROR SUMMARY: 0 errors\n", 5).message


@pytest.mark.long
def test_without_a_gpu_one_line_names_what_is_missing() -> None:
    if detect_gpu().complete:
        pytest.skip("there is a GPU here: `python -m bench.gpu` itself is to be run")
    answer = subprocess.run([sys.executable, "-m", "bench.gpu"], capture_output=True, text=True, check=False)
    assert answer.returncode == command.ABSENT
    assert answer.stdout == ""
    assert answer.stderr.startswith("bench.gpu: needs nvcc, a driver and a GPU; found: ")
    assert answer.stderr.count("\n") == 1


def test_unknown_schedule_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["transposed"]) == command.REFUSED
    assert "unknown schedule transposed; choose from blur_in_tiles, " in capsys.readouterr().err


def test_sparse_rows_agree_with_a_dense_product() -> None:
    for n, m, count in ((5, 4, 9), (1, 3, 2), (4, 1, 0)):
        held = shipped._sparse_rows({"n": n, "m": m, "A_nnz": count}, 3)
        pos, crd, val, v = held.values()
        assert [part.shape for part in held.values()] == [(n + 1,), (count,), (count,), (m,)]
        assert pos[0] == 0
        assert pos[-1] == count
        dense = np.zeros((n, m))
        for row in range(n):
            np.add.at(dense[row], crd[pos[row] : pos[row + 1]], val[pos[row] : pos[row + 1]])
        assert np.allclose(shipped._sparse_product(pos, crd, val.astype(float), v.astype(float)), dense @ v)
