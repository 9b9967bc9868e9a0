"""Instructions of any size: sizes and strides of calls, conditions that calls test, refusals, and the loops."""

import dataclasses
import itertools
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import atl
import lowering
from atl.core.index import constant, value_at
from atl.core.predicate import TRUE
from atl.errors import ATLError, IllegalMark, InvalidArgument, LibraryMissing
from examples import calls
from lowering.instructions import instructions, libraries, registry, sized
from lowering.instructions.calls import Calls
from lowering.instructions.sized import _Match
from lowering.nest import interpreter
from lowering.nest import loopnest as ln
from proofs_tests.crashes import in_child
from proofs_tests.sampling import few_and_rest
from rewrites.errors import DoesNotApply

PRODUCT: Final = "f (A : float32[n, k], B : float32[k, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] Σ[p < k | call {}] "
"""A product of matrices, without its term."""


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a test declares."""
    monkeypatch.setattr(registry, "_declared", {})


def small(name: str) -> str:
    """Declare a copy of a function of the BLAS that is called at all sizes; return its name."""
    own, built_in = f"small_{name}", instructions()[name]
    atl.declare_instruction(
        dataclasses.replace(
            built_in,
            name=own,
            faster="",
            text=built_in.text.replace(f"static void {name}(", f"static void {own}("),
        )
    )
    return own


CALLED: Final[dict[str, tuple[str, str, str]]] = {
    "product": ("sgemm", PRODUCT + "A[i, p] * B[p, j]", "(out, m, 1, A, k, 1, B, m, 1, n, k, m, 0);"),
    "factors exchanged": ("sgemm", PRODUCT + "B[p, j] * A[i, p]", "(out, m, 1, A, k, 1, B, m, 1, n, k, m, 0);"),
    "left transposed": (
        "sgemm",
        "f (A : float32[k, n], B : float32[k, m]) := ⊞[i < n] ⊞[j < m] Σ[p < k | call {}] A[p, i] * B[p, j]",
        "(out, m, 1, A, 1, n, B, m, 1, n, k, m, 0);",
    ),
    "right transposed": (
        "sgemm",
        "f (A : float32[n, k], B : float32[m, k]) := ⊞[i < n] ⊞[j < m] Σ[p < k | call {}] A[i, p] * B[j, p]",
        "(out, m, 1, A, k, 1, B, 1, k, n, k, m, 0);",
    ),
    "result transposed": (
        "sgemm",
        "f (A : float32[n, k], B : float32[k, m]) := ⊞[j < m] ⊞[i < n] Σ[p < k | call {}] A[i, p] * B[p, j]",
        "(out, n, 1, B, 1, m, A, 1, k, m, k, n, 0);",
    ),
    "every second row": (
        "sgemm",
        "f (A : float32[2*n, k], B : float32[k, m]) := ⊞[i < n] ⊞[j < m] Σ[p < k | call {}] A[2*i, p] * B[p, j]",
        "(out, m, 1, A, 2 * k, 1, B, m, 1, n, k, m, 0);",
    ),
    "some columns": (
        "sgemm",
        (
            "f (A : float32[n, q], B : float32[q, m]) given q >= 5 := "
            "⊞[i < n] ⊞[j < m] Σ[2 <= p < 5 | call {}] A[i, p] * B[p, j]"
        ),
        "(out, m, 1, A + 2, q, 1, B + 2 * m, m, 1, n, 3, m, 0);",
    ),
    "sum of products": (
        "dgemm",
        (
            "f (A : float64[q, n, k], B : float64[q, k, m]) := "
            "Σ[r < q] ⊞[i < n] ⊞[j < m] Σ[p < k | call {}] A[r, i, p] * B[r, p, j]"
        ),
        "(out, m, 1, A + r * k * n, k, 1, B + r * k * m, m, 1, n, k, m, 1);",
    ),
    "batch with one right operand": (
        "dgemm_batch",
        (
            "f (A : float64[q, n, k], B : float64[k, m]) := "
            "⊞[r < q] ⊞[i < n] ⊞[j < m] Σ[p < k | call {}] A[r, i, p] * B[p, j]"
        ),
        "(out, m * n, m, 1, A, k * n, k, 1, B, 0, m, 1, q, n, k, m, 0);",
    ),
    "matrix and vector": (
        "sgemv",
        "f (A : float32[n, k], x : float32[k]) := ⊞[i < n] Σ[p < k | call {}] A[i, p] * x[p]",
        "(out, 1, A, k, 1, x, 1, n, k, 0);",
    ),
    "windows of a vector": (
        "sgemv",
        "f (x : float32[n + k], w : float32[k, m]) := ⊞[i < n] ⊞[j < m] Σ[p < k | call {}] x[i + p] * w[p, j]",
        "(out + i * m, 1, w, 1, m, x + i, 1, m, k, 0);",
    ),
    "dot product of columns": (
        "ddot",
        "f (A : float64[n, m], y : float64[n]) := ⊞[i < m] Σ[p < n | call {}] A[p, i] * y[p]",
        "(out + i, A + i, m, y, 1, n, 0);",
    ),
    "one dot product": (
        "ddot",
        "f (x : float64[n], y : float64[n]) := Σ[p < n | call {}] x[p] * y[p]",
        "(out, x, 1, y, 1, n, 0);",
    ),
    "triangle": (
        "sgemv",
        "f (A : float32[n, n], B : float32[n, m]) := ⊞[i < n] ⊞[j < m] Σ[p < i | call {}] A[i, p] * B[p, j]",
        "(out + i * m, 1, B, 1, m, A + i * n, 1, m, i, 0);",
    ),
}


@pytest.mark.parametrize("what", CALLED)
def test_sizes_and_strides_are_those_of_the_loops(what: str) -> None:
    name, text, call = CALLED[what]
    own = small(name)
    program = atl.parse(text.format(own))
    kernel = atl.compile(program)
    assert own + call in " ".join(kernel.source.split())
    for numbers in itertools.product((0, 1, 2, 5), repeat=len(program.sizes)):
        sizes = dict(zip(program.sizes, numbers, strict=True))
        if what == "some columns":
            sizes["q"] += 5
        inputs: dict[str, Any] = {
            name: np.round(4 * np.asarray(array)) for name, array in atl.random_inputs(program, sizes).items()
        }
        if what == "windows of a vector":
            inputs["n"] = sizes["n"]
        assert np.allclose(kernel(**inputs), atl.evaluate_fast(program, **inputs)), sizes


def test_condition_that_is_not_proved_is_tested_by_the_call() -> None:
    program = atl.parse(
        "f (A : float32[s*n + q], B : float32[k, m], s : size, n : size) given k <= q := "
        f"⊞[i < n] ⊞[j < m] Σ[p < k | call {small('sgemm')}] A[s*i + p] * B[p, j]"
    )
    kernel = atl.compile(program)
    assert "k <= s" in kernel.source
    for n, k, s in itertools.product((0, 1, 3), (0, 1, 4), (0, 1, 4, 6)):
        a, b = np.arange(s * n + k + 1.0, dtype="float32"), np.arange(2.0 * k, dtype="float32").reshape(k, 2)
        given = {"s": s, "n": n, "q": k + 1}
        assert np.array_equal(kernel(A=a, B=b, **given), atl.evaluate_fast(program, A=a, B=b, **given)), (n, k, s)


REFUSED: Final[dict[str, tuple[str, str]]] = {
    "windows": (
        "f (A : float32[n+k], B : float32[k, m]) := ⊞[i < n] ⊞[j < m] Σ[p < k | call sgemm] A[i + p] * B[p, j]",
        "A as the operand a of sgemm has the strides a0 = 1, a1 = 1",
    ),
    "windows: the leading dimension": (
        "f (A : float32[n+k], B : float32[k, m]) := ⊞[i < n] ⊞[j < m] Σ[p < k | call sgemm] A[i + p] * B[p, j]",
        "which is here k <= 1 ∨ n <= 1: false if all sizes are at least 2",
    ),
    "backwards": (PRODUCT.format("sgemm") + "A[i, k - 1 - p] * B[p, j]", "a0 = k, a1 = -1"),
    "a diagonal": (
        "f (A : float32[n, n], B : float32[n, n]) := ⊞[i < n] ⊞[j < n] Σ[p < n | call sgemm] A[i, p] * B[(p+i) % n, j]",
        "B is not the operand b of sgemm: its element for (i, j, p) is at the address ((i + p) % n)*n + j",
    ),
    "a guarded sum": (PRODUCT.format("sgemm") + "[p % 2 = 0] · A[i, p] * B[p, j]", "the loop p has a condition"),
    "a triangle": (PRODUCT.format("sgemm") + "[i < p] · A[i, p] * B[p, j]", "which depends on another loop"),
    "a parallel loop": (
        PRODUCT.format("sgemm").replace("i < n", "i < n | parallel") + "A[i, p] * B[p, j]",
        "the loop i is marked parallel, and a call would compute it",
    ),
    "another operation": (
        PRODUCT.format("sgemm").replace("Σ", "2 * Σ") + "A[i, p] * B[p, j]",
        "the sum over p is an operand of another operation",
    ),
    "another term": (PRODUCT.format("sgemm") + "A[i, p] + B[p, j]", "the term is not that of sgemm"),
    "another element type": (
        PRODUCT.format("sgemm").replace("float32", "float64") + "A[i, p] * B[p, j]",
        "out has elements of float64",
    ),
    "too few loops": (
        "f (A : float32[k], B : float32[k, m]) := ⊞[j < m] Σ[p < k | call sgemm] A[p] * B[p, j]",
        "there is 1 loop around the sum",
    ),
    "a reduced dimension of the result": (
        (
            "f (A : float64[q, n, k], B : float64[q, k, m]) := "
            "Σ[r < q] ⊞[i < n] ⊞[j < m] Σ[p < k | call dgemm_batch] A[r, i, p] * B[r, p, j]"
        ),
        "iterations that dgemm_batch computes at once add to one element of out",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_loops_are_refused(what: str) -> None:
    text, message = REFUSED[what]
    with pytest.raises(IllegalMark) as error:
        atl.lower(atl.parse(text))
    assert message in str(error.value)


def test_nest_keeps_the_loops() -> None:
    program = atl.parse(PRODUCT.format("sgemm") + "A[i, p] * B[p, j]")
    a, b = np.ones((3, 4), "float32"), np.ones((4, 2), "float32")
    run = interpreter.run(atl.lower(program), {"n": 3, "k": 4, "m": 2}, {"A": a, "B": b})
    assert np.array_equal(run, a @ b)


def test_strict_kernels_do_not_call_floats() -> None:
    with pytest.raises(IllegalMark, match="sgemm may add and round its floats in another way"):
        atl.compile(atl.parse(PRODUCT.format("sgemm") + "A[i, p] * B[p, j]"), strict=True)


def test_kernel_in_place_runs_the_loops() -> None:
    kernel = atl.compile(atl.parse("f (x : float32[n]) := ⊞[i < n | call memcpy_float32] x[i]"))
    x = np.arange(100.0, dtype="float32")
    assert np.array_equal(kernel(x), x)
    assert np.array_equal(kernel(x, out=x), np.arange(100))


# -- random strides ---------------------------------------------------------------------------------------------------

ANY: Final = atl.Instruction(
    "any_strides",
    atl.parse("any_strides (a : float32[n, k], b : float32[k]) : float32[n] := ⊞[i < n] Σ[p < k] a[i, p] * b[p]"),
    "c",
    """static void any_strides(float *out, int64_t out0, const float *a, int64_t a0, int64_t a1, const float *b,
    int64_t b0, int64_t n, int64_t k, int add)
{
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int64_t p = 0; p < k; p++)
            sum += a[i * a0 + p * a1] * b[p * b0];
        out[i * out0] = add ? out[i * out0] + sum : sum;
    }
}
""",
    strides={"a": "a0 >= 0", "b": "b0 >= 0 ∨ b0 < 0", "out": "out0 >= 1"},
    result="either",
)


def random_program(seed: int) -> tuple[atl.Program, int]:
    """Return sums over rows with random strides, beginnings and orders of factors, and the least k."""
    draw = random.Random(seed)
    row, column, step, low = draw.randint(0, 3), draw.randint(0, 3), draw.choice((1, 2)), draw.randint(0, 2)
    factors = [f"A[{row}*i + {column}*p]", draw.choice((f"B[{step}*p]", f"B[{step}*(k - 1 - p)]"))]
    draw.shuffle(factors)
    around = draw.choice(("", "Σ[r < 2] "))
    body = f"{around}⊞[i < n] Σ[{low} <= p < k | call any_strides] {' * '.join(factors)}"
    inputs = f"A : float32[{row}*n + {column}*k + 1], B : float32[{step}*k], n : size, k : size"
    return atl.parse(f"f ({inputs}) given k >= {low} := {body}"), low


def difference(seed: int) -> str:
    """Return sizes at which the kernel of a random program differs from its meaning."""
    atl.declare_instruction(ANY)
    program, low = random_program(seed)
    kernel = atl.compile(program)
    assert "any_strides(out" in kernel.source
    for n, k in itertools.product((0, 1, 2, 4), (low, low + 1, 4)):
        inputs = {
            array.name: np.arange(value_at(array.shape[0], {"n": n, "k": k})).astype("float32") % 5
            for array in program.inputs
        }
        if not np.array_equal(kernel(**inputs, n=n, k=k), atl.evaluate_fast(program, **inputs, n=n, k=k)):
            return f"seed {seed}: n = {n}, k = {k}"
    return ""


@pytest.mark.parametrize("seeds", few_and_rest(60))
def test_random_strides_are_those_of_the_loops(seeds: range) -> None:
    assert [different for seed in seeds if (different := difference(seed))] == []


def _wrong_operand(change: Callable[[ln.CallOperand], ln.CallOperand]) -> Callable[..., ln.CallOperand]:
    def operand(self: _Match, name: str, *arguments: Any) -> ln.CallOperand:
        found = right(self, name, *arguments)
        return change(found) if name == "a" else found

    right = _Match._operand
    return operand


FAULTS: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "an offset": ("_operand", _wrong_operand(lambda of: dataclasses.replace(of, address=of.address + 1))),
    "a stride": (
        "_operand",
        _wrong_operand(lambda of: dataclasses.replace(of, strides=(of.strides[0], of.strides[1] + 1))),
    ),
    "exchanged strides": ("_operand", _wrong_operand(lambda of: dataclasses.replace(of, strides=of.strides[::-1]))),
    "a size": ("_sizes", lambda self: ({"n": constant(1), "k": constant(1)}, [])),
    "no condition": ("_condition", lambda *_: TRUE),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_of_matching_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Match, *FAULTS[fault])
    seeds = range(7)
    if fault == "no condition":  # a call with a size of 0 reads nothing here, so it is seen in the text only
        atl.declare_instruction(ANY)
        kernel = atl.compile(random_program(3)[0])
        assert "if (" not in kernel.source
        return
    assert in_child(lambda: str([found for seed in seeds if (found := difference(seed))])) != "[]"


# -- libraries and declarations ---------------------------------------------------------------------------------------


def test_missing_library_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "_blas", lambda _: None)
    program = atl.parse(PRODUCT.format("sgemm") + "A[i, p] * B[p, j]")
    with pytest.raises(LibraryMissing) as error:
        atl.compile(program)
    assert "the library blas, which an instruction of this program calls, is not found" in str(error.value)
    assert "the loops then run" in str(error.value)
    s = atl.reschedule(atl.parse(str(program).replace(" | call sgemm", "")))
    with pytest.raises(ATLError) as refusal:
        s.dispatch("p")
    assert "sgemm, sgemv, sdot: the library blas" in str(refusal.value)
    with pytest.raises(ATLError, match=r"p: sgemm: the library blas, .* is not found"):
        s.dispatch()
    assert "WITH_BLAS" not in s.compile().source


def test_text_without_the_library_runs_the_loops() -> None:
    program = atl.parse(PRODUCT.format("sgemm") + "A[i, p] * B[p, j]")
    source = atl.print_c(atl.lower(program))
    path = lowering.build_shared(source, name="f")
    ffi, library = lowering.load_shared(
        path, "int f(const float *, const float *, int64_t, int64_t, int64_t, float *);"
    )
    a, out = np.ones((64, 64), "float32"), np.empty((64, 64), "float32")
    pointers = [ffi.cast("float *", array.ctypes.data) for array in (a, a, out)]
    library.f(*pointers[:2], 64, 64, 64, pointers[2])
    assert np.array_equal(out, a @ a)


def test_library_of_the_linker_is_linked_and_a_missing_one_refused() -> None:
    text = "f (x : float64[n]) : float64[n] := ⊞[i < n | call own_gammas] 2 * x[i]"
    own = atl.Instruction(
        "own_gammas",
        atl.parse("own_gammas (x : float64[n]) : float64[n] := ⊞[i < n] 2 * x[i]"),
        "c",
        "static void own_gammas(double *out, const double *x, int64_t n)\n"
        "{ for (int64_t i = 0; i < n; i++) out[i] = 2 * x[i]; }",
        result="stored",
        libraries=("m",),
    )
    atl.declare_instruction(own)
    kernel = atl.compile(atl.parse(text))
    assert "#if defined(WITH_M)" in kernel.source
    assert np.array_equal(kernel(np.arange(3.0)), [0, 2, 4])
    atl.declare_instruction(dataclasses.replace(own, libraries=("no_such_library",)))
    with pytest.raises(LibraryMissing, match="the library no_such_library"):
        atl.compile(atl.parse(text))


OWN: Final = "static void own(float *out, const float *a, int64_t n) { for (int64_t i = 0; i < n; i++) out[i] = a[i]; }"
COPY: Final = "own (a : float32[n]) : float32[n] := ⊞[i < n] a[i]"


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"strides": {"a": "a0 = 1"}}, "the text of own takes 3 parameters, and calls have 4"),
        (
            {"text": OWN.replace("int64_t n", "int n")},
            "the parameter int n of own has another type than the argument n",
        ),
        ({"text": OWN.replace("const float *a", "const double *a")}, "double \\*a of own has another type"),
        ({"text": OWN.replace("const float *a", "float a")}, "the parameter float a of own has another type"),
        ({"text": "void own(float *out, const float *a, int64_t n);"}, "the text of own does not define it"),
        ({"strides": {"a": "a2 = 1"}}, "the condition on the strides of a of own contains a2"),
        ({"strides": {"a": "a0 ="}}, "the condition on the strides of a of own, 'a0 =', cannot be read"),
        ({"strides": {"b": "b0 = 1"}}, "own has no such operand"),
        ({"strides": {"a": 3}}, "strides={'a': 3}"),
        ({"strides": 3}, "strides=3"),
        ({"aligned": {"a": 12}}, "aligned={'a': 12}"),
        ({"aligned": {"a": "16"}}, "aligned={'a': '16'}"),
        ({"result": "returned"}, "result='returned'"),
        ({"faster": "m >= 8"}, "the condition on the sizes of own contains m"),
        ({"libraries": "blas"}, "libraries='blas'"),
        ({"target": "cuda", "lanes": (4,)}, "own has sizes or strides, and target='cuda'"),
        ({"program": "own (a : float32[2*n]) : float32[n] := ⊞[i < n] a[2*i]"}, r"a is read at \[2\*i\] by own"),
        ({"program": "own (a : float32[n, n]) : float32[n] := ⊞[i < n] a[i, i]"}, r"a is read at \[i, i\] by own"),
        ({"program": "own (a : float32[n + 1]) : float32[n + 1] := ⊞[i < n + 1] a[i]"}, "runs from 0 to n"),
        ({"program": "own (a : float32[n], b : float32[n]) : float32[n] := ⊞[i < n] a[i]"}, "own does not read b"),
        (
            {"program": "own (a : float32[n], m : size) : float32[n] given m >= 1 := ⊞[i < n] a[i]"},
            "no loop of own runs to the size m",
        ),
        (
            {"program": "own (a : float32[a0]) : float32[a0] := ⊞[i < a0] a[i]", "strides": {"a": "a0 = 1"}},
            "a size of own has the name of a stride of a",
        ),
    ],
)
def test_declarations_are_checked(changed: dict[str, Any], match: str) -> None:
    given: dict[str, Any] = {"name": "own", "program": COPY, "target": "c", "text": OWN, "result": "stored", **changed}
    with pytest.raises(InvalidArgument, match=match):
        atl.Instruction(**{**given, "program": atl.parse(given["program"])})


def test_decorated_function_is_an_instruction_with_the_text_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text("#define TWO 2\n")
    (tmp_path / "own.c").write_text(
        '#include "own.h"\nvoid twice(float *out, const float *x, int64_t n)\n'
        "{ for (int64_t i = 0; i < n; i++) out[i] = TWO * x[i]; }\n"
    )

    @atl.instruction(source=tmp_path / "own.c", result="stored")
    def twice(x: atl.Tensor["n"]) -> Any:  # type: ignore[type-arg, name-defined] # noqa: F821
        return 2 * x

    assert "#define TWO 2" in twice.text
    s = atl.reschedule(atl.parse("f (y : float32[m, n]) := ⊞[i < m] ⊞[j < n] 2 * y[i, j]")).call("twice")
    assert "j: twice computes the loop j" in str(s)
    assert np.array_equal(s.compile()(np.ones((2, 3), "float32")), np.full((2, 3), 2))

    def once(x: atl.Tensor["n"]) -> Any:  # type: ignore[type-arg, name-defined] # noqa: F821
        return x

    wrong: list[tuple[dict[str, Any], str]] = [
        ({"source": "no_such.c"}, "no_such.c of an instruction cannot be read"),
        ({"text": OWN, "source": "own.c"}, "either the C text or the path"),
        ({"text": OWN, "stride": {}}, "an instruction has no field stride"),
    ]
    for options, match in wrong:
        with pytest.raises(InvalidArgument, match=match):
            atl.instruction(**options)(once)


def test_alignment_is_tested_by_the_call() -> None:
    own = dataclasses.replace(
        atl.Instruction("aligned_copy", atl.parse(COPY.replace("own", "aligned_copy")), "c",
                        OWN.replace("own", "aligned_copy"), result="stored"),
        aligned={"a": 64},
    )  # fmt: skip
    atl.declare_instruction(own)
    kernel = atl.compile(atl.parse("f (x : float32[n]) := ⊞[i < n | call aligned_copy] x[i]"))
    assert "(uintptr_t)x % 64 == 0" in kernel.source
    for offset in range(3):
        x = np.arange(40.0, dtype="float32")[offset:]
        assert np.array_equal(kernel(x), x)


# -- choice -----------------------------------------------------------------------------------------------------------


def test_dispatch_takes_the_instruction_that_covers_most_loops() -> None:
    for what, (name, text, _) in CALLED.items():
        s = atl.reschedule(atl.parse(text.replace(" | call {}", ""))).dispatch()
        better = {"matrix and vector": "sgemv", "dot product of columns": "dgemv"}.get(what, name)
        assert f"call {better}]" in str(s), what


def test_dispatch_lists_every_refusal() -> None:
    s = atl.reschedule(atl.parse(PRODUCT.replace(" | call {}", "") + "[p % 2 = 0] · A[i, p] * B[p, j]"))
    with pytest.raises(ATLError) as error:
        s.dispatch("p")
    for each in instructions().values():
        assert (each.name in str(error.value)) == (each.target == "c")
    assert "the loop p has a condition" in str(error.value)


def test_dispatch_leaves_loops_that_no_instruction_computes() -> None:
    text = (
        "f (A : float32[n, k], B : float32[k, m], u : float32[m]) : float32[n] := "
        "let P := ⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * B[p, j] in ⊞[i < n] Σ[j < m] max(P[i, j], u[j])"
    )
    s = atl.reschedule(atl.parse(text)).dispatch()
    assert str(s.goal).count("call ") == 1
    assert "p: sgemm computes the loops i, j, p" in str(s)
    assert re.search(
        r"\n-- j: no instruction fits. s\w+: the term is not that of s\w+; .* \(\d+ other refusals\)$", str(s)
    )
    inputs = atl.random_inputs(s.goal, {"n": 20, "k": 30, "m": 40})
    assert np.allclose(s.compile()(**inputs), atl.evaluate_fast(s.goal, **inputs), rtol=1e-4)


def test_dispatch_names_the_closest_refusal_and_the_step_that_prepares() -> None:
    text = """f (X : float32[n, k], w : float32[k], y : float32[n]) : float32[n] :=
      ⊞[i < n] (Σ[p < k] X[i, p] * w[p]) - y[i]"""
    s = atl.reschedule(atl.parse(text))
    with pytest.raises(DoesNotApply, match="p: sgemv: the sum over p is an operand of another operation") as error:
        s.dispatch()
    assert 'try: s.stage("p") stores the sums in a let first' in str(error.value)
    assert len(str(error.value).splitlines()) <= 6
    assert "call sgemv" in str(s.stage("p").dispatch())


@pytest.mark.long
def test_dispatch_leaves_copies_of_tiles() -> None:
    rows = "f (X : float32[n, {0}]) : float32[n, {0}] := ⊞[i < n] ⊞[j < {0}] X[i, j]"
    for extent in ("k", "1000"):
        assert "call memcpy_float32" in str(atl.reschedule(atl.parse(rows.format(extent))).dispatch().goal)
    short = atl.reschedule(atl.parse(rows.format(8)))
    with pytest.raises(DoesNotApply, match="a sum, or a loop that copies 256 elements or more"):
        short.dispatch()
    assert "⊞[j < 8 | call memcpy_float32]" in str(short.dispatch("j").goal)
    with pytest.raises(DoesNotApply, match="no instruction computes a loop of this program"):
        atl.reschedule(atl.parse(PRODUCT.replace(" | call {}", "") + "A[i, p] * B[p, j]")).optimize().dispatch()


@pytest.mark.long
def test_recipes_leave_nests_with_calls() -> None:
    text = """f (X : float32[n, k], W : float32[k, m], V : float32[m, l]) : float32[n, l] :=
      let H := ⊞[i < n] ⊞[j < m] Σ[p < k] X[i, p] * W[p, j] in
      ⊞[i < n] ⊞[j < l] Σ[q < m] max(H[i, q], 0) * V[q, j]"""
    s = atl.reschedule(atl.parse(text)).dispatch("p").optimize()
    assert "let H := ⊞[i < n] ⊞[j < m] Σ[p < k | call sgemm] X[i, p] * W[p, j] in" in str(s.goal)
    assert "acc | registers := Σ[q < m]" in " ".join(str(s.goal).split())
    threads = atl.reschedule(atl.parse(text)).dispatch("p").optimize(parallel=True)
    assert "parallel" in str(threads.goal)
    inputs = atl.random_inputs(s.goal, {"n": 20, "k": 30, "m": 40, "l": 35})
    assert np.allclose(s.compile()(**inputs), atl.evaluate_fast(s.goal, **inputs), rtol=1e-4)


def test_call_of_another_instruction_is_refused_with_the_difference() -> None:
    s = atl.reschedule(atl.parse(PRODUCT.replace(" | call {}", "") + "A[i, p] * B[p, j]"))
    for name, match in (
        ("dgemm", "p: out has elements of float32; required: elements of float64"),
        ("mma_m16n8k16", "mma_m16n8k16 is for cuda"),
        ("sgem", "did you mean "),
    ):
        with pytest.raises(ATLError, match=match):
            s.call(name)
    assert "call sgemm" in str(s.call("sgemm", at="p").goal)


# -- exported projects ------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("linked", [True, False], ids=["library", "loops"])
def test_exported_project_calls_the_library_or_runs_the_loops(linked: bool, tmp_path: Path) -> None:
    name = small("sgemm")
    kernel = atl.compile(atl.parse(PRODUCT.format(name) + "A[i, p] * B[p, j]"))
    kernel.write(tmp_path)
    assert "LIB_BLAS ?= -lopenblas" in (tmp_path / "Makefile").read_text()
    blas = libraries.find_library("blas")
    chosen = f"LIB_BLAS={' '.join(blas.link_arguments)}" if linked else "LIB_BLAS="
    extra = [f"CFLAGS={' '.join(flag for flag in blas.compile_flags if flag != '-DWITH_BLAS')}"] if linked else []
    answer = subprocess.run(
        ["make", "-C", str(tmp_path), chosen, *extra, "check"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    symbols = subprocess.run(["nm", str(tmp_path / "f.o")], capture_output=True, text=True, check=True).stdout
    assert ("cblas_sgemm" in symbols) == linked


SMALL_BLAS: Final = """
void cblas_sgemm(int order, int ta, int tb, int n, int m, int k, float alpha, const float *a, int lda, const float *b,
    int ldb, float beta, float *c, int ldc)
{
    (void)order;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            float sum = 0;
            for (int p = 0; p < k; p++)
                sum += a[ta == 111 ? i * lda + p : p * lda + i] * b[tb == 111 ? p * ldb + j : j * ldb + p];
            c[i * ldc + j] = (beta != 0 ? beta * c[i * ldc + j] : 0) + alpha * sum;
        }
}
"""


@pytest.mark.long
def test_other_blas_with_indices_of_32_bits_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    path = lowering.build_shared(SMALL_BLAS, name="small_blas")
    monkeypatch.setenv("ATL_BLAS", str(path))
    kernel = atl.compile(atl.parse(CALLED["right transposed"][1].format(small("sgemm"))))
    a, b = np.arange(12.0, dtype="float32").reshape(3, 4), np.arange(20.0, dtype="float32").reshape(5, 4)
    assert np.array_equal(kernel(a, b), a @ b.T)
    assert atl.check_instruction(instructions()["sgemm"], largest=1).fault == ""


KAHAN: Final = """static void kahan(float *out, const float *x, int64_t n)
{
    float sum = 0, lost = 0;
    for (int64_t i = 0; i < n; i++) {
        float term = x[i] - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    *out = sum;
}
"""


def test_operations_of_a_text_keep_their_order() -> None:
    program = atl.parse("kahan (x : float32[n]) : float32 := Σ[p < n] x[p]")
    atl.declare_instruction(atl.Instruction("kahan", program, "c", KAHAN, result="stored"))
    s = atl.reschedule(atl.parse("total (x : float32[n]) : float32 := Σ[p < n] x[p]")).call("kahan")
    x = np.random.default_rng(0).random(1_000_000, dtype="float32")
    exact = x.astype("float64").sum()
    assert abs(float(s.compile()(x)) - exact) <= np.spacing(np.float32(exact))
    # Only texts of users need it.
    assert "reassociate" not in atl.compile(atl.parse(CALLED["right transposed"][1].format("sgemm"))).source


def test_one_kernel_calls_several_functions() -> None:
    text = """f (A : float32[n, k], B : float32[k, m], C : float64[n, k], D : float64[k, m]) : float64[n, m] :=
      let P := ⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * B[p, j] in
      let Q := ⊞[i < n] ⊞[j < m] Σ[p < k] C[i, p] * D[p, j] in
      ⊞[i < n] ⊞[j < m] cast(float64, P[i, j]) * Q[i, j]"""
    s = atl.reschedule(atl.parse(text)).dispatch()
    assert str(s.goal).count("call ") == 2
    inputs = atl.random_inputs(s.goal, {"n": 20, "k": 30, "m": 40})
    assert np.allclose(s.compile()(**inputs), atl.evaluate_fast(s.goal, **inputs), rtol=1e-4)
    with pytest.raises(IllegalMark, match="sgemm is not an instruction of a warp"):
        atl.compile(atl.parse(PRODUCT.format("sgemm") + "A[i, p] * B[p, j]"), target="cuda")


def test_steps_that_prepare_loops_for_a_call() -> None:
    for body, step, argument in (
        ("⊞[i < n] ⊞[j < m] Σ[p < k] [(i + p) % 2 = 0] · A[i, p] * B[p, j]", "pack", "A"),
        ("⊞[i < n] ⊞[j < m] max(A[i, 0] + Σ[p < k] A[i, p] * B[p, j], 0)", "stage", "p"),
    ):
        s = atl.reschedule(atl.parse(f"f (A : float32[n, k], B : float32[k, m]) given k >= 1 := {body}"))
        with pytest.raises(ATLError, match="sgemm does not compute p"):
            s.call("sgemm", at="p")
        getattr(s, step)(argument)
        s.call("sgemm")
        inputs = atl.random_inputs(s.goal, {"n": 20, "k": 30, "m": 40})
        assert np.allclose(s.compile()(**inputs), atl.evaluate_fast(s.goal, **inputs), rtol=1e-4, atol=1e-4)
        s.done()


def test_dispatch_does_not_match_what_covers_fewer_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    addresses: list[ln.Cell] = []
    matched, address = Calls.matched, sized._address

    def counted(self: Calls, instruction: atl.Instruction, *place: Any) -> Any:
        tried.append(instruction.name)
        return matched(self, instruction, *place)

    def counted_address(cell: ln.Cell, *place: Any) -> Any:
        addresses.append(cell)
        return address(cell, *place)

    monkeypatch.setattr(Calls, "matched", counted)
    monkeypatch.setattr(sized, "_address", counted_address)
    atl.reschedule(calls.PRODUCT).dispatch()
    assert "sgemm" in tried
    assert not {"sgemv", "sdot"} & set(tried)  # sgemm covers all loops of the product
    assert len(addresses) <= 2 * 3  # each operand once, and once more when the marked program is lowered
