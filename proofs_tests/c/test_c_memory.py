"""Storage of buffers in C: freed on every exit, and within the stack of a small thread."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import atl
import lowering
from atl.core.index import constant
from atl.errors import UnsupportedMark
from lowering import lower, print_c
from lowering.builds import find_compiler
from lowering.nest import loopnest as ln
from lowering.passes import after_passes
from lowering.targets.capabilities import STACK_BUDGET
from proofs_tests.nests.by_hand import WARNINGS, ZERO, at, binary, cell, i, loop, n, output, vi, vj

pytestmark = pytest.mark.usefixtures("private_cache")

COUNTED: Final = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int left, live, wrong;
static void *held[1000];
static void *had(size_t size)
{
    if (left-- == 0) {
        return NULL;
    }
    for (int at = 0; at < 1000; at++) {
        if (held[at] == NULL) {
            live++;
            return held[at] = memset(malloc(size + 1), 0, size + 1);
        }
    }
    abort();
}
static void counted_free(void *storage)
{
        for (int at = 0; storage != NULL && at < 1000; at++) {
                if (held[at] == storage) {
            held[at] = NULL;
            live--;
                        free(storage);
            return;
        }
    }
        wrong += storage != NULL;
}
#define aligned_alloc(line, size) had(size)
#define free counted_free
"""
DRIVER: Final = """\
int main(void)
{
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];
    for (int allowed = 0;; allowed++) {
        left = allowed;
        int status = f(x, 8, out);
        if (live || wrong || status != (left < 0)) {
            printf("with %d: %d left, %d freed twice, %d", allowed, live, wrong, status);
            return 1;
        }
        if (status == 0) {
            printf("%d", allowed);
            return 0;
        }
    }
}
"""


def allocations(text: str, folder: Path, *flags: str, counted: str = COUNTED) -> int:
    """Let each allocation fail in turn; return how many the function needs, once no call leaks."""
    (folder / "all.c").write_text(f"{counted}{text}{DRIVER}")
    program, every = str(folder / "all"), ("-std=c11", *WARNINGS, "-Wno-unused-function", *flags)
    command = [*find_compiler().command, *every, str(folder / "all.c"), "-lm", "-o", program]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    threads = {**os.environ, "OMP_NUM_THREADS": "3"}
    done = subprocess.run([program], capture_output=True, text=True, check=False, env=threads)
    assert done.returncode == 0, done.stdout
    return int(done.stdout)


def all_needed(count: int) -> atl.Program:
    """Return a program whose lets are all read at the end, backwards, so that none shares storage with the result."""
    size = atl.sizes("n")
    x = atl.tensor("x", size)

    def stages(made: list[atl.Tensor], left: int) -> atl.Tensor:
        if not left:
            return atl.gen(size, lambda p: sum((t[size - 1 - p] for t in made[1:]), made[0][p]))
        value = atl.gen(size, lambda p: 2 * made[-1][p])
        return atl.let(value, lambda t: stages([*made, t], left - 1), name=f"b{left}")

    return atl.program("f", [x], stages([x], count))


def chained(count: int, back: int = 1, extent: atl.IndexExpr | int | None = None) -> atl.Program:
    """Return a program whose lets are each read by the next `back` ones, backwards, so that no two share storage."""
    size = atl.sizes("n") if extent is None else extent
    x = atl.tensor("x", size)

    def stages(made: list[atl.Tensor], left: int) -> atl.Tensor:
        value = atl.gen(size, lambda p: sum((t[size - 1 - p] for t in made[-back:]), 2 * made[0][p]))
        return value if not left else atl.let(value, lambda t: stages([*made, t], left - 1), name=f"b{left}")

    return atl.program("f", [x], stages([x], count))


def in_loops() -> ln.LoopNest:
    """Return a nest with buffers of unknown size in a loop, around it and after it."""
    made = [ln.Buffer(uid, name, "float32", (n,)) for uid, name in enumerate("abcdefg", 1)]
    a, b, c, d, e, f, g = made
    fill = [ln.Assign(cell(buffer, ZERO), ln.Number(1, "float32")) for buffer in made]
    inner = loop(vj, n, ln.Allocate(e, n), fill[4], ln.Accumulate(cell(d, ZERO), "add", at(e, ZERO)), ln.Free(e))
    body = loop(
        *(vi, constant(2), ln.Allocate(c, n), fill[2], ln.Allocate(d, n), fill[3], inner),
        *(ln.Accumulate(cell(a, ZERO), "add", binary("add", at(c, ZERO), at(d, ZERO))), ln.Free(d), ln.Free(c)),
    )
    last = (ln.Allocate(f, n), fill[5], ln.Allocate(g, n), ln.Accumulate(cell(g, ZERO), "add", at(f, ZERO)))
    of = atl.tensor("x", atl.sizes("n"))
    base = lower(atl.program("f", [of], of))
    return ln.LoopNest(
        *("f", ("n",), base.inputs, output(n)),
        (
            *(ln.Allocate(a, n), fill[0], ln.Allocate(b, n), fill[1], body, *last),
            ln.Accumulate(cell(b, ZERO), "add", binary("add", at(a, ZERO), at(g, ZERO))),
            *(loop(vi, n, ln.Assign(cell(output(n), i), at(b, ZERO))), ln.Free(g), ln.Free(f), ln.Free(b), ln.Free(a)),
        ),
    )


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("make", "needed"),
    [
        (lambda: lower(all_needed(1)), 1),
        (lambda: lower(all_needed(3)), 3),
        (lambda: lower(all_needed(20)), 20),
        (lambda: lower(chained(20)), 20),
        (lambda: lower(chained(20, back=5)), 20),
        (lambda: after_passes(in_loops()), 2 + 2 * (2 + 8) + 2),
    ],
    ids=["one", "three", "all at once", "one after another", "five at a time", "in loops"],
)
def test_failing_allocation_frees_all_others_once(make: Callable[[], ln.LoopNest], needed: int, tmp_path: Path) -> None:
    assert allocations(print_c(make()), tmp_path) == needed


@pytest.mark.long
@pytest.mark.parametrize("make", [all_needed, chained, lambda count: chained(count, back=5)])
def test_text_grows_linearly_with_the_number_of_buffers(make: Callable[[int], atl.Program]) -> None:
    lines = [print_c(lower(make(count))).count("\n") for count in (10, 20, 40)]
    assert lines[2] - lines[1] <= 2.2 * (lines[1] - lines[0])
    assert lines[2] <= 40 * 24


def test_buffer_is_freed_after_its_last_reader() -> None:
    text = print_c(lower(chained(4)))
    order = [line.strip() for line in text.splitlines() if "free(" in line and "    " * 2 not in line]
    assert order == ["free(b4);", "free(b3);", "free(b2);", "free(b1);"]
    assert text.index("free(b4)") < text.index("*restrict b2") < text.index("free(b3);\n    float")


def test_free_does_not_separate_the_branches_of_a_test() -> None:
    size, k = atl.sizes("n k")
    x = atl.tensor("x", size)
    body = atl.let(
        2 * x, lambda t: atl.gen(size, lambda p: atl.select(k <= 3, t[p], 1)) + atl.gen(size, lambda p: x[p]), name="t"
    )
    kernel = lowering.compile(atl.program("f", [x], body))
    assert kernel(np.ones(2, np.float32), k=1).tolist() == [3.0, 3.0]
    assert kernel(np.ones(2, np.float32), k=9).tolist() == [2.0, 2.0]


WIDE: Final = 8 * 1024
"""Number of float32 elements in the largest buffer on the stack."""


def in_small_thread(call: Callable[[], object]) -> object:
    """Return the result of a call in a thread with a small stack."""
    results: list[object] = []
    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: results.append(call()))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    return results[0]


@pytest.mark.long
def test_twelve_buffers_fit_the_stack_of_a_small_thread() -> None:
    kernel = lowering.compile(chained(12, back=12, extent=WIDE))
    x = np.zeros(WIDE, np.float32)
    assert in_small_thread(lambda: bool(np.any(kernel(x)))) is False
    assert ln.stack_in_use(kernel.nest.body) == STACK_BUDGET


def in_a_loop(count: int) -> atl.Program:
    """Return a program with panels in a loop, each the largest buffer that the stack allows."""
    size = atl.sizes("n")
    x = atl.tensor("x", size, WIDE)

    def row(p: atl.IndexExpr, made: list[atl.Tensor], left: int) -> atl.Tensor:
        if not left:
            return atl.sum(WIDE, lambda q: sum((t[q] for t in made), 0 * x[p, q]))
        value = atl.gen(WIDE, lambda q: x[p, q] + left)
        return atl.let(value, lambda t: row(p, [*made, t], left - 1), name=f"panel{left}")

    return atl.program("f", [x], atl.gen(size, lambda p: row(p, [], count)))


def test_panels_beyond_the_stack_are_allocated_once_before_their_loops() -> None:
    program = in_a_loop(4)
    text = print_c(lower(program))
    assert text.count(" = aligned_storage(") == 2
    assert text.index(" = aligned_storage(") < text.index("for (int64_t")
    assert text.count(f"[{WIDE}];") == 2
    x = np.zeros((2, WIDE), np.float32)
    kernel = lowering.compile(program)
    assert in_small_thread(lambda: kernel(x).tolist()) == [10.0 * WIDE] * 2


def test_buffers_that_fit_stay_on_the_stack() -> None:
    of = lower(in_a_loop(2))
    assert {s.storage for s in ln.statements(of.body) if isinstance(s, ln.Allocate)} == {"stack"}
    assert ln.stack_in_use(of.body) == STACK_BUDGET


def marked(*marks: str) -> atl.Program:
    names = [f"t{k}" for k, _ in enumerate(marks)]
    shown = [f" | {mark}" if mark else "" for mark in marks]
    lets = "".join(
        f"let {name}{mark} := gen[i < {WIDE}] x[{WIDE - 1} - i] in " for name, mark in zip(names, shown, strict=True)
    )
    used = " + ".join(f"{name}[{WIDE - 1} - j]" for name in names)
    return atl.parse(f"f (x : float32[{WIDE}]) := {lets}gen[j < {WIDE}] ({used})")


def test_buffers_marked_stack_are_placed_first() -> None:
    program = marked("", "stack", "", "stack")
    of = lower(program)
    storage = {s.buffer.name: s.storage for s in ln.statements(of.body) if isinstance(s, ln.Allocate)}
    assert storage == {"t0": "heap", "t1": "stack", "t2": "heap", "t3": "stack"}
    x = np.arange(WIDE, dtype=np.float32)
    np.testing.assert_array_equal(lowering.compile(program)(x), 4 * x)


def test_buffers_that_exceed_the_stack_are_refused_with_numbers() -> None:
    with pytest.raises(UnsupportedMark) as refused:
        print_c(lower(marked("stack", "stack", "stack")))
    text = str(refused.value)
    assert "the buffer t2 is marked stack; it does not fit together with the other buffers on the stack" in text
    assert "at most 65536 bytes in all buffers" in text
    assert "which is 32768 bytes" in text


CHECKED: Final = """\
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int asked;
static void *had(size_t line, size_t size)
{
        void *storage = aligned_alloc(line, size);
        asked += line == 64 && size % 64 == 0 && (uintptr_t)storage % 64 == 0 ? 1 : 100;
        return memset(storage, 7, size);
}
#define aligned_alloc had
"""


@pytest.mark.parametrize("size", [1, 8])
def test_buffers_are_aligned_and_zeroed_where_needed(size: int, tmp_path: Path) -> None:
    program = atl.parse(
        "f (x : float32[n]) : float32[n] :=\n"
        "  let a := ⊞[i < n] 2 * x[i] in let b := truncr 1 padr 2 a in ⊞[i < n] b[n - i] + a[n - 1 - i]"
    )
    text = print_c(lower(program))
    assert "aligned_zeros(" in text
    assert " = aligned_storage(" in text
    driver = f"""
int main(void)
{{
    float x[8] = {{1, 2, 3, 4, 5, 6, 7, 8}}, out[8];
    if (f(x, {size}, out)) return 1;
    printf("%d %g", asked, (double)out[0]);
    return 0;
}}
"""
    (tmp_path / "all.c").write_text(f"{CHECKED}{text}{driver}")
    command = [*find_compiler().command, "-std=c11", *WARNINGS, str(tmp_path / "all.c"), "-o", str(tmp_path / "all")]
    subprocess.run(command, check=True)
    done = subprocess.run([str(tmp_path / "all")], capture_output=True, text=True, check=True)
    assert done.stdout == f"2 {2 * size}"


def test_large_buffers_ask_for_huge_pages(tmp_path: Path) -> None:
    x = atl.tensor("x", n := atl.sizes("n"), dtype="float64")
    doubled = atl.let(atl.gen(n, lambda i: 2 * x[i]), lambda a: atl.gen(n, lambda i: a[i] + a[n - 1 - i]))
    driver = """
#include <stdio.h>
static double x[1000000], out[1000000];
int main(void)
{
    for (int64_t size = 1000; size <= 1000000; size *= 1000) {
        for (int64_t at = 0; at < size; at++) x[at] = (double)at;
        if (f(x, size, out)) return 1;
        for (int64_t at = 0; at < size; at++) if (out[at] != 2.0 * (double)(size - 1)) return 2;
        printf("%d", asked);
    }
    return 0;
}
"""
    advice = """
static int asked;
static int advised(char *begin, size_t size, int advice)
{
    asked += advice == 14 && (uintptr_t)begin % 65536 == 0 && size > 7900000 && size <= 8000000 ? 1 : 100;
    begin[0] = begin[size - 1] = 1; /* within the buffer */
    return -1;
}
#define madvise(begin, size, advice) advised(begin, size, advice)
"""
    text = print_c(lower(atl.program("f", [x], doubled)))
    declared = re.search(r"^int madvise.*\n", text, re.MULTILINE)
    assert declared is not None
    source, made = tmp_path / "f.c", tmp_path / "f"
    source.write_text("#define __linux__ 1\n" + text.replace(declared[0], advice) + driver)
    subprocess.run([*find_compiler().command, *WARNINGS, "-U__linux__", str(source), "-o", str(made)], check=True)
    assert subprocess.run([str(made)], check=True, capture_output=True, text=True).stdout == "01"


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_large_buffers_compile_as_cpp(tmp_path: Path) -> None:
    """In C++, the system's functions have other declarations and names, which C may not repeat."""
    x = atl.tensor("x", n := atl.sizes("n"), dtype="float64")
    doubled = atl.let(atl.gen(n, lambda i: 2 * x[i]), lambda a: atl.gen(n, lambda i: a[i] + a[n - 1 - i]))
    flags = ["-std=c++17", "-w", "-fpermissive", "-D__STDC_VERSION__=201112L", "-Drestrict=__restrict__"]
    command = ["g++", *flags, "-shared", "-fPIC", "-Wl,-z,defs", "-x", "c++", "-", "-o", str(tmp_path / "f")]
    subprocess.run(command, input=print_c(lower(atl.program("f", [x], doubled))), text=True, check=True)
