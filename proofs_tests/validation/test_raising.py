"""C text raised to programs: what is proved for all sizes, what is not raised, and that faults are never proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

import atl
from atl.errors import TextDiffers
from examples.polybench import BENCHMARKS
from examples.schedules import anchors, everyday
from lowering.validation.validate import validate
from proofs_tests.validation.faults import changes, is_proved, statements
from proofs_tests.validation.test_validation import LARGEST, PRODUCT, text_of
from rewrites import reschedule
from rewrites.errors import NotFound, NotRaised
from rewrites.raising import prove_interface, prove_text, raised

PROGRAMS: Final[dict[str, Callable[[], atl.Program]]] = {
    "product": lambda: PRODUCT,
    "largest": lambda: LARGEST,
    "histogram": everyday.histogram,
    "triangular": everyday.triangular_product,
    "mttkrp": everyday.mttkrp,
    "addition": anchors.addition,
    "trmm": lambda: BENCHMARKS["trmm"].program,
    "doitgen": lambda: BENCHMARKS["doitgen"].program,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_text_is_proved_for_all_sizes(name: str) -> None:
    of = text_of(PROGRAMS[name]())
    theorem = prove_interface(of)
    assert theorem.lhs == of.program
    assert theorem.rhs == raised(of)


def test_a_kernel_is_proved() -> None:
    assert prove_text(atl.compile(PRODUCT)).lhs == PRODUCT


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("j++", "j += 2", "does not count by one"),
        ("return 0", "return 1", "does not end with return 0"),
        ("float total = 0.0f", "float total", "no value"),
        ("out[i * m + j]", "out[j]", "several iterations"),
    ],
)
def test_a_statement_that_is_not_raised_is_named(old: str, new: str, why: str) -> None:
    of = text_of(PRODUCT)
    with pytest.raises(NotRaised, match=r"line \d+ of the C text.*") as found:
        raised(replace(of, text=of.text.replace(old, new, 1)))
    assert why in str(found.value) or "value" in str(found.value), str(found.value)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_planted_statement_is_proved(name: str) -> None:
    of = text_of(PROGRAMS[name]())
    kinds = set()
    for kind, text in statements(of.text, of.name):
        assert text != of.text
        assert not is_proved(replace(of, text=text)), text
        kinds.add(kind)
    assert {"added", "modulo", "second", "hidden", "cast", "division", "literal"} - kinds == set()


n = atl.sizes("n")
X = atl.tensor("x", n)
HEAD: Final = "int f(const float *x, int64_t n, float *out)\n{\n"
EACH: Final = "for (int64_t i = 0; i < n; i++)"


@pytest.mark.parametrize(
    ("program", "body", "why"),
    [
        (X, f"{EACH} {{ out[i % 8] = x[i]; }}", "several iterations"),
        (X, f"{EACH} {{ out[(int8_t)i] = x[i]; }}", "cast of an index"),
        (X, f"{EACH} {{ out[i] = x[i]; out[i + 1] = x[i]; }}", "changed by several statements"),
        (X, f"{EACH} {{ out[i] = x[i]; }} {EACH} {{ out[i + 1] = 0.0f; }}", "within the rows"),
        (X, f"{EACH} {{ out[i] = x[i]; }} (void)(out[0] = 1.0f);", "Cast"),
        (0.5 * X, f"{EACH} {{ out[i] = 1 / 2 * x[i]; }}", "/ of int and int"),
        (X, f"{EACH} {{ out[i] = x[i] + 0 * (float)((i - 1) / 2); }}", "may be negative"),
        (0 * X, "memset(out, 0, n);", "memset of a part"),
        (0 * X, "memset(out, 1, n * sizeof *out);", "another byte"),
        (0 * X, "if (n < 3) { memset(out, 0, n * sizeof *out); }", "under a condition"),
        (X, f"{EACH} {{ float t = 0.0f; {{ float t = x[i]; }} out[i] = t; }}", "t hides another t"),
        (X, f"{EACH} {{ float n = x[i]; out[i] = n; }}", "n hides another n"),
        (X, f"{EACH} {{ static float t = 0.0f; t += x[i]; out[i] = t; }}", "a variable that is static"),
        (X, "x[0] = 1.0f;", "a store to the input"),
        (X, f"{EACH} {{ int32_t t = x[i]; out[i] = t; }}", "a conversion from float to int"),
        (X, "for (int8_t i = 0; i < n; i++) { out[i] = x[i]; }", "not of type int64_t"),
        (2 * X, f"{EACH} {{ out[i] = 2u * x[i]; }}", "unsigned"),
        (97 * X, f"{EACH} {{ out[i] = 'a' * x[i]; }}", "of characters"),
        (
            atl.gen(n, lambda i: atl.sum(n, lambda j: X[j])),
            f"{EACH} {{ float t = 0.0f; for (int64_t j = 0; j < n; j++) {{ t += x[j]; t *= 2.0f; }} out[i] = t; }}",
            "changed by several statements",
        ),
        (X, f"\n#if defined(WITH_BLAS)\nout[0] = 1.0f;\n#endif\n{EACH} {{ out[i] = x[i]; }}", "#if defined"),
    ],
)
def test_c_that_is_not_the_term_is_refused(program: atl.Tensor, body: str, why: str) -> None:
    of = replace(text_of(atl.program("f", [X], program)), text=HEAD + body + "\nreturn 0;\n}\n")
    with pytest.raises(NotRaised) as found:
        raised(of)
    assert why in str(found.value)


def test_a_text_of_literals_alone_is_refused_if_their_type_is_not_known() -> None:
    of = text_of(atl.program("f", [whole := atl.tensor("x", n, dtype="int64")], 2 * whole))
    text = HEAD.replace("float", "int64_t") + f"{EACH} {{ out[i] = 1; }}\nreturn 0;\n}}\n"
    with pytest.raises(NotRaised, match="its elements have type float32"):
        raised(replace(of, text=text))


def test_literals_are_those_of_c() -> None:
    body = "for (int64_t i = 010 - 8; i < n; i++) { out[i] = 0x1p-1f * x[i]; }\nreturn 0;\n}\n"
    of = replace(text_of(atl.program("f", [X], 0.5 * X)), text=HEAD + body)
    assert prove_interface(of).lhs == of.program


def test_memset_of_the_result_is_read() -> None:
    of = text_of(atl.program("f", [X], 0 * X))
    body = "memset(out, 0, n * sizeof *out);\nreturn 0;\n}\n"
    assert "0" in str(raised(replace(of, text=HEAD + body)).body)


def test_a_conditional_maximum_is_not_one_of_zeros() -> None:
    of = text_of(atl.program("f", [X], atl.gen(n, lambda i: atl.maximum(X[i], 0.0))))
    body = (
        f"{EACH} {{ float t = -INFINITY; for (int64_t j = 0; j < n; j++) {{ if (j < 2) {{ t = largest(t, x[j]); }} }} "
        "out[i] = t; }\nreturn 0;\n}\n"
    )
    helper = "static inline float largest(float a, float b)\n{\n    return a < b ? b : a;\n}\n"
    with pytest.raises(NotRaised, match="under a condition"):
        raised(replace(of, text=helper + HEAD + body))


def test_a_kernel_that_calls_a_library_is_not_raised_and_not_complete() -> None:
    of = replace(text_of(PRODUCT), calls=("atl_gemm",))
    with pytest.raises(NotRaised, match="calls atl_gemm"):
        raised(of)
    found = validate(of)
    assert found.assumed == ("atl_gemm",)
    assert not found.complete


@pytest.mark.long
@pytest.mark.parametrize("name", ["product", "triangular"])
def test_no_planted_fault_is_proved(name: str) -> None:
    of = text_of(PROGRAMS[name]())
    proved = 0
    for _, text in list(changes(of.text, of.name))[::9]:
        faulty = replace(of, text=text)
        try:
            reschedule(of.program).equal_to(raised(faulty), limit=300)
        except (NotRaised, NotFound):
            continue
        proved += 1
        try:
            validate(faulty)
        except TextDiffers as error:
            pytest.fail(f"proved, but {error}")
    assert proved < 5
