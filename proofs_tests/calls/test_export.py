"""Exported folders: they build with make and a compiler only, check themselves, and find planted faults."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import atl
from atl import load
from atl.errors import InvalidArgument
from examples import everyday, gpu
from lowering import Kernel, compile, detect_gpu  # noqa: A004 (the public API name)
from lowering.builds import kernel_flags, openmp_flags
from lowering.c_compiler import find_compiler
from lowering.export.cases import cases
from lowering.export.folder import unmarked
from proofs_tests.user_rules.samples import extremes, larger_and_smaller
from rewrites import Theorem, reschedule
from sparse import CSR

n, m, k = atl.sizes("n m k")


def matmul() -> Theorem:
    a, b = atl.tensor("A", n, k), atl.tensor("B", k, m)
    body = atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: a[i, p] * b[p, j]))
    return reschedule(atl.program("matmul", [a, b], body)).tile(["i", "j"], 8).mark("ji", "vector").done()


def convolution() -> Theorem:
    x, w = atl.tensor("x", n + k - 1, dtype="float64"), atl.tensor("w", k, dtype="float64")
    body = atl.gen(n, lambda i: atl.sum(k, lambda p: x[i + p] * w[p]))
    return reschedule(atl.program("conv", [x, w], body, given=[k >= 1])).tile("i", 16).done()


def blur() -> Theorem:
    text = """blur (v : float32[n + 2, m + 2]) : float32[n, m] :=
      let rows := gen[y < n + 2] gen[x < m] v[y, x] + v[y, x + 1] + v[y, x + 2] in
      gen[y < n] gen[x < m] (rows[y, x] + rows[y + 1, x] + rows[y + 2, x]) / 9"""
    return reschedule(atl.parse(text)).mark("rows", "ring").done()


def softmax() -> Theorem:
    return everyday.softmax_by_rows().done()


def sparse_product() -> Theorem:
    a, v = atl.tensor("A", n, m), atl.tensor("v", m)
    body = atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * v[j]))
    return reschedule(atl.program("spmv", [a, v], body)).sparsify("A", CSR).done()


def halves() -> Theorem:
    a, v = atl.tensor("A", n, m, dtype="float16"), atl.tensor("v", m)
    body = atl.gen(n, lambda i: atl.cast("bfloat16", atl.sum(m, lambda j: atl.cast("float32", a[i, j]) * v[j])))
    return reschedule(atl.program("halves", [a, v], body)).tile("j", 8).done()


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make with an environment that has only make and a compiler."""
    bare = {"PATH": "/usr/bin:/bin"}
    return subprocess.run(["make", *arguments], cwd=folder, env=bare, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kernel, Path]:
    theorem = matmul()
    kernel = compile(theorem.rhs)
    return kernel, kernel.write(tmp_path_factory.mktemp("matmul"), theorem=theorem)


@pytest.mark.sampled
@pytest.mark.parametrize("derivation", [convolution, blur, softmax, sparse_product, halves])
def test_exported_kernel_builds_and_checks_itself(derivation: Callable[[], Theorem], tmp_path: Path) -> None:
    theorem = derivation()
    folder = compile(theorem.rhs).write(tmp_path / "new" / "folder", theorem=theorem)
    made = make(folder, "check", "CFLAGS=-O1 -Wall -Wextra -Werror")
    assert made.returncode == 0, made.stdout + made.stderr
    assert f"{theorem.rhs.name}: 6 of 6 cases ran, 0 wrong" in made.stdout
    assert repr(load(folder / f"{theorem.rhs.name}.atl.json").rhs) == repr(theorem.rhs)


@pytest.mark.long
def test_folder_has_source_contract_and_check(product: tuple[Kernel, Path]) -> None:
    kernel, folder = product
    made = make(folder, "check")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "matmul: 6 of 6 cases ran, 0 wrong" in made.stdout
    ours = {"Makefile", "matmul.atl.json", "matmul.c", "matmul.h", "matmul_check.c", "matmul_plain.c"}
    built = {"matmul.o", "matmul_check.o", "matmul_plain.o", "matmul_check"}
    assert {file.name for file in folder.iterdir()} == ours | built
    assert (folder / "matmul.c").read_text() == f'#include "matmul.h"\n\n{kernel.source}'
    header = (folder / "matmul.h").read_text()
    for part in ("A[n, k] of float: an input.", "not overlap an input", "Alignment: ", "Ownership: ", "Returned: 0"):
        assert part in header
    plain = (folder / "matmul_plain.c").read_text()
    assert "#pragma" not in plain
    assert "total" not in plain  # as in Fig. 4.1, a sum adds to its element
    ran = subprocess.run([folder / "matmul_check", "3", "0", "5"], capture_output=True, text=True, check=True)
    assert "matmul at n = 3, k = 0, m = 5:\n  15 elements, 0 wrong" in ran.stdout
    for wrong in (["3"], ["3", "x", "5"], ["3", "-1", "5"]):
        assert subprocess.run([folder / "matmul_check", *wrong], capture_output=True, check=False).returncode == 2
    make(folder, "clean")
    assert {file.name for file in folder.iterdir()} == ours


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("total +=", "total -=", "wrong"),
        ("min_int64(m - 8 * jo, 8)", "min_int64(m - 8 * jo - 1, 8)", "wrong"),
        ("return 0;", "return 1;", "error 1"),
        ("return 0;", "out[n * m] = 0.0f; return 0;", "memory behind the result"),
    ],
)
def test_planted_fault_is_found_by_the_check(
    product: tuple[Kernel, Path], tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    folder = shutil.copytree(product[1], tmp_path / "copy")
    text = (folder / "matmul.c").read_text()
    assert right in text
    (folder / "matmul.c").write_text(text.replace(right, wrong))
    made = make(folder, "check", "CFLAGS=-O0")
    assert made.returncode != 0
    assert message in made.stdout


def test_inputs_satisfy_their_declarations(tmp_path: Path) -> None:
    """Reads out of bounds would go unnoticed, as the plain version makes them too; so compute the drawn inputs."""
    pos = atl.tensor("pos", n + 1, dtype="int32", range=(0, k + 1), monotonic="nondecreasing")
    crd = atl.tensor("crd", k, dtype="int64", range=(2, m), monotonic=("increasing", pos))
    up = atl.tensor("up", n, dtype="int32", range=(-3, 50), monotonic="increasing")
    on = atl.tensor("on", n, dtype="bool")
    a = atl.tensor("a", dtype="int32", range=(5, 6))
    faults = [
        atl.sum(k, lambda p: atl.guard((crd[p] < 2) | (crd[p] >= m), 1)),
        atl.sum(n, lambda r: atl.sum((1, k), lambda p: atl.guard(
            (pos[r] < p) & (p < pos[r + 1]) & (crd[p - 1] >= crd[p]), 1))),
        atl.sum((1, n), lambda i: atl.guard((up[i] <= up[i - 1]) | (up[i] >= 50) | (up[i] < -3), 1)),
        atl.sum(n, lambda i: atl.guard(pos[i] > pos[i + 1], 1)),
        atl.sum(n, lambda i: atl.guard(on[i] & (a != 5), 1)),
    ]  # fmt: skip
    counts = [atl.cast("int32", fault) for fault in faults]
    counted = atl.sum(1, lambda _: sum(counts[1:], counts[0]))
    program = atl.program("drawn", [pos, crd, up, on, a], atl.gen(1, lambda _: counted), given=[m >= 3, n >= 1])
    folder = compile(program).write(tmp_path)
    text = (folder / "drawn_plain.c").read_text()
    # The count of faults is compared with a version that returns zero.
    zero = "#include <stdint.h>\nint drawn_plain("
    head = text[text.index("int drawn_plain(") + len("int drawn_plain(") : text.index("{")]
    (folder / "drawn_plain.c").write_text(f"{zero}{head}{{ (void)pos; (void)crd; (void)up; (void)on; (void)a; "
                                          "(void)n; (void)k; (void)m; out[0] = 0; return 0; }\n")  # fmt: skip
    made = make(folder, "check", "CFLAGS=-O0 -fsanitize=address", "LDFLAGS=-fsanitize=address")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "6 of 6 cases ran, 0 wrong" in made.stdout


@pytest.mark.usefixtures("each_target")
def test_flags_of_the_makefile_are_those_of_compile(product: tuple[Kernel, Path]) -> None:
    compiler = find_compiler()
    printed = make(product[1], "--dry-run", "--always-make", "matmul.o", f"CC={shlex.join(compiler.command)}")
    assert printed.returncode == 0, printed.stderr
    source = (product[1] / "matmul.c").read_text(encoding="utf-8")
    flags = (*kernel_flags(compiler, fast_math=False), *openmp_flags((source,)))
    (command,) = (line for line in printed.stdout.splitlines() if " -c matmul.c " in line)
    expected = [*compiler.command, *(flag for flag in flags if flag != "-fPIC"), "-c", "matmul.c", "-o", "matmul.o"]
    assert sorted(shlex.split(command)) == sorted(expected)


def test_header_is_valid_cpp(tmp_path: Path) -> None:
    if (cpp := shutil.which("c++")) is None:
        pytest.skip("no C++ compiler")
    new = atl.sizes("new")
    x = atl.tensor("class", new)
    folder = compile(atl.program("twice", [x], 2 * x)).write(tmp_path)
    (folder / "use.cpp").write_text(
        '#include "twice.h"\n#include "twice.h"\nint main() { return twice(nullptr, 0, nullptr); }\n'
    )
    subprocess.run([cpp, "-Wall", "-Werror", "-c", "use.cpp"], cwd=folder, check=True)


def test_check_with_many_sizes_compiles(tmp_path: Path) -> None:
    """Long lines are broken outside of string literals."""
    names = [f"a_long_name_of_a_size_{at}" for at in range(7)]
    inputs = [atl.tensor(f"x{at}", atl.sizes(name)) for at, name in enumerate(names)]
    total = sum((x.sum() for x in inputs[1:]), inputs[0].sum())
    made = make(compile(atl.program("many", inputs, total)).write(tmp_path), "check", "CFLAGS=-O0")
    assert made.returncode == 0, made.stderr
    assert f"many at {names[0]} = 17, {names[1]} = 21, " in made.stdout


def test_existing_files_are_not_overwritten(product: tuple[Kernel, Path], tmp_path: Path) -> None:
    kernel, _ = product
    (tmp_path / "Makefile").write_text("all:\n")
    with pytest.raises(InvalidArgument, match="is not the Makefile of an exported kernel, and would be overwritten"):
        kernel.write(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["Makefile"]
    with pytest.raises(InvalidArgument, match="exists and is not a directory"):
        kernel.write(tmp_path / "Makefile")
    for wrong in (3, "", None):
        with pytest.raises(InvalidArgument, match="folder="):
            kernel.write(wrong)  # type: ignore[arg-type]


@pytest.mark.long
def test_program_may_be_named_like_a_make_target(tmp_path: Path) -> None:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    for name in ("Makefile", "check"):
        folder = compile(atl.program(name, [x], 2 * x)).write(tmp_path / name)
        made = make(folder, "check", "CFLAGS=-O0")
        assert made.returncode == 0, made.stdout + made.stderr


def test_theorem_must_be_that_of_the_kernel(product: tuple[Kernel, Path], tmp_path: Path) -> None:
    kernel, _ = product
    with pytest.raises(InvalidArgument, match=r"(?s)the right side of the theorem, conv, .*theorem=theorem"):
        kernel.write(tmp_path, theorem=convolution())
    with pytest.raises(InvalidArgument, match=r"a theorem, as returned by s\.done"):
        kernel.write(tmp_path, theorem=3)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_header_names_unproved_rules(tmp_path: Path) -> None:
    theorem = reschedule(extremes()).rw(larger_and_smaller).done()
    folder = compile(theorem.rhs).write(tmp_path, theorem=theorem)
    header = " ".join((folder / "extremes.h").read_text(encoding="utf-8").split())
    assert "NOT PROVED: it holds if larger_and_smaller (tested) does. The theorem is that of the certificate." in header


def test_sizes_of_a_check_satisfy_the_assumptions(product: tuple[Kernel, Path], tmp_path: Path) -> None:
    kernel, _ = product
    kernel.write(tmp_path, sizes={"n": 4, "k": 5, "m": 6})
    assert "{4, 5, 6}," in (tmp_path / "matmul_check.c").read_text()
    for wrong in ({"n": 4}, {"n": 4, "k": 5, "m": 6, "x": 1}, {"n": -4, "k": 5, "m": 6}, 3):
        with pytest.raises(InvalidArgument, match="sizes="):
            kernel.write(tmp_path, sizes=wrong)  # type: ignore[arg-type]
    x = atl.tensor("x", n)
    blocks = atl.program("blocks", [x], 2 * x, given=[n % 1024 == 0, n >= 1])
    assert set(cases(blocks, None)) == {(1024,), (2048,)}
    with pytest.raises(InvalidArgument, match=r"(?s)no small sizes were found.*sizes=\{'n'"):
        cases(atl.program("large", [x], 2 * x, given=[n >= 10**6]), None)


def test_plain_version_has_no_marks() -> None:
    marked = atl.parse("f (x : float32[n]) : float32[n] := gen[i < n | vector] let t | stack := 2 * x[i] in t * t")
    assert "|" not in str(unmarked(marked))
    assert "| vector" in str(marked)


@pytest.mark.long
def test_gpu_folder_builds_with_nvcc_and_checks_itself(tmp_path: Path) -> None:
    theorem = gpu.row_sums_by_warps().done()
    folder = compile(theorem.rhs, target="cuda").write(tmp_path, theorem=theorem)
    name = theorem.rhs.name
    assert f"int {name}(" in (folder / f"{name}.h").read_text()
    assert "cudaStream_t stream" in (folder / f"{name}.h").read_text()
    found = detect_gpu()
    if (nvcc := shutil.which("nvcc")) is None:
        pytest.skip("no nvcc")
    # Tests of the GPU package check that nvcc accepts the kernel; without a GPU it is not built again.
    here = ["make", f"NVCC={nvcc}", *([] if found.gpus else ["ARCH=-arch=sm_90"])]
    target = "check" if found.gpus else f"{name}_host.o"
    made = subprocess.run([*here, target], cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
