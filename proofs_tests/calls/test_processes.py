"""Kernels in other processes: after a fork they run or are refused; pickled kernels are rebuilt."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import atl
import sparse
from atl.core.program import Program
from atl.errors import InvalidArgument
from examples import gpu
from lowering import GpuKernel, Kernel, compile  # noqa: A004 (the public API name)
from lowering.c_compiler import OPENMP, find_compiler, has_openmp
from proofs_tests.language.test_several_results import moments
from proofs_tests.sparse.test_results import on_pattern
from rewrites import reschedule

pytestmark = pytest.mark.usefixtures("cache_of_the_file")

n, m = atl.sizes("n m")
x = atl.tensor("x", n)
MATRIX = sp.random(7, 5, 0.4, format="csr", random_state=1)
VECTOR = np.arange(4, dtype=np.float32)


def twice(name: str = "twice") -> Program:
    return atl.program(name, [x], atl.gen(n, lambda i: 2 * x[i]))


def parallel(name: str = "in_parallel") -> Program:
    return reschedule(twice(name)).mark("i", "parallel").goal


def product(form: sparse.Format) -> Program:
    a, v = atl.tensor("A", n, m, dtype="float64"), atl.tensor("v", m, dtype="float64")
    body = atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * v[j]))
    return reschedule(atl.program("product", [a, v], body)).sparsify("A", form).goal


FORKS = """
import os, signal, sys, threading, time
import numpy as np
from lowering import compile
from proofs_tests.calls.test_processes import parallel, twice
from atl.errors import ForkedProcess

x = np.ones(100, np.float32)
kernel, plain = compile(parallel()), compile(twice())
prepared = kernel.prepared(x, out=np.empty(100, np.float32))
in_place = x.copy()

def outcome(call):
    try:
        call()
    except ForkedProcess as refused:
        return str(refused)
    return "ran"

def in_thread(call):
    done = []
    thread = threading.Thread(target=lambda: done.append(outcome(call)))
    thread.start()
    thread.join()
    return done[0]

def in_child(*calls):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        for call in calls:
            print(outcome(call).splitlines()[0], flush=True)
        os._exit(0)
    print("child:", ended(child), flush=True)

def ended(child):
    # A deadlocked call is killed; even on a busy machine the child gets as much processor time as this loop.
    start = time.process_time()
    while (status := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.process_time() - start > 30:
            os.kill(child, signal.SIGKILL)
    return status[1]

first = lambda: kernel(x)
in_child(first)  # before the first parallel loop
if "thread" in sys.argv:
    in_thread(first)
else:
    first()
in_child(
    first,
    prepared,
    lambda: kernel(in_place, out=in_place),
    lambda: plain(x),
    lambda: in_thread(first) == "ran" or print("refused in a new thread"),
)
print(outcome(first))
"""
REFUSED = (
    "in_parallel has parallel loops and cannot run in this process, which was forked after such a loop had run: a fork"
    " loses the threads of OpenMP [ATL511]"
)
BEFORE, RAN = ["ran", "child: 0"], "ran"


def forked(compiler: str, threads: int, *arguments: str) -> list[str]:
    """Return the lines that the script prints."""
    if (path := shutil.which(compiler)) is None:
        pytest.skip(f"{compiler} is not installed")
    environment = {**os.environ, "CC": path, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", FORKS, *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.long
def test_parallel_kernel_is_refused_after_a_fork() -> None:
    """A kernel without parallel loops runs after a fork, and so does a parallel kernel in a new thread."""
    assert forked("gcc", 2) == [*BEFORE, REFUSED, REFUSED, REFUSED, RAN, RAN, "child: 0", RAN]


@pytest.mark.long
@pytest.mark.parametrize(("threads", "arguments"), [(1, ()), (2, ("thread",))])
def test_parallel_kernel_runs_after_a_fork_that_loses_no_threads(threads: int, arguments: tuple[str, ...]) -> None:
    assert forked("gcc", threads, *arguments) == [*BEFORE, RAN, RAN, RAN, RAN, RAN, "child: 0", RAN]


def test_clang_kernels_run_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("clang") is not None:
        monkeypatch.setenv("CC", "clang")
        if has_openmp(find_compiler(), OPENMP):
            assert forked("clang", 2) == [*BEFORE, RAN, RAN, RAN, RAN, RAN, "child: 0", RAN]
            return
    pytest.skip("no clang with OpenMP")


@pytest.mark.parametrize("name", ["GOMP_parallel", "omp_get_num_threads", "omp_get_max_threads"])
def test_parallel_kernel_may_be_named_like_an_openmp_function(name: str) -> None:
    assert compile(parallel(name))(VECTOR).tolist() == [0, 2, 4, 6]


KERNELS: dict[str, tuple[Callable[[], Kernel], tuple[Any, ...]]] = {
    "plain": (lambda: compile(twice()), (VECTOR,)),
    "parallel": (lambda: compile(parallel()), (VECTOR,)),
    "fixed sizes": (lambda: compile(twice(), sizes={"n": 4}), (VECTOR,)),
    "fast math": (lambda: compile(twice(), fast_math=True), (VECTOR,)),
    "several results": (lambda: compile(moments()), (np.ones((2, 3)),)),
    "sparse operand": (lambda: compile(product(sparse.CSR)), (MATRIX, np.arange(5.0))),
    "sparse result": (lambda: compile(on_pattern(sparse.CSR, "-3 A / 2").goal), (MATRIX,)),
}


@pytest.fixture(scope="module")
def elsewhere(cache_of_the_file: object) -> Iterator[ProcessPoolExecutor]:
    """Start a spawned process with the cache of this file."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def called(kernel: Kernel, *arguments: Any) -> tuple[Any, str, str]:
    """Return the result of a call, and the source and path of the kernel."""
    return kernel(*arguments), kernel.source, str(kernel.path)


def source_of(kernel: GpuKernel) -> str:
    return kernel.source


@pytest.mark.long
@pytest.mark.parametrize("kind", KERNELS)
def test_pickled_kernel_is_the_same_in_another_process(kind: str, elsewhere: ProcessPoolExecutor) -> None:
    made, arguments = KERNELS[kind]
    kernel = made()
    result, source, path = elsewhere.submit(called, kernel, *arguments).result(timeout=300)
    expected = kernel(*arguments)
    assert type(result) is type(expected)
    assert source == kernel.source
    assert path == str(kernel.path)  # found in the cache
    for got, want in zip(arrays(result), arrays(expected), strict=True):
        np.testing.assert_array_equal(got, want)


def arrays(result: Any) -> list[Any]:
    if sp.issparse(result):
        return [result.indptr, result.indices, result.data]
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.long
def test_pickled_gpu_kernel_has_the_same_text(elsewhere: ProcessPoolExecutor) -> None:
    kernel = compile(gpu.row_sums_by_warps().goal, target="cuda")
    assert elsewhere.submit(source_of, kernel).result(timeout=300) == kernel.source


def test_copy_of_a_kernel_is_the_kernel() -> None:
    for kernel in (compile(twice()), compile(gpu.row_sums_by_warps().goal, target="cuda")):
        assert copy.copy(kernel) is kernel
        assert copy.deepcopy([kernel])[0] is kernel


def test_calls_bound_to_a_process_are_not_pickled() -> None:
    prepared = compile(twice()).prepared(VECTOR, out=np.empty(4, np.float32))
    on_stream = compile(gpu.row_sums_by_warps().goal, target="cuda").on(7)
    for bound in (prepared, on_stream):
        assert copy.deepcopy(bound) is bound
        with pytest.raises(InvalidArgument, match=r"(?s)cannot be pickled: .* required: a kernel"):
            pickle.dumps(bound)


def test_kernel_of_a_local_format_is_not_pickled() -> None:
    class Local(sparse.Compressed):
        pass

    kernel = compile(product(sparse.Format("local", (sparse.Dense(), Local()))))
    with pytest.raises(InvalidArgument, match=r"the kernel of product cannot be pickled: .*Local"):
        pickle.dumps(kernel)
