"""Planted faults in the texts and declarations of instructions of any size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import atl
from lowering.instructions import instructions

OWN = atl.Instruction(
    "capped",
    atl.parse(
        "capped (a : float32[n, k], w : float32[k]) : float32[n] given k <= 40 := ⊞[i < n] Σ[p < k] a[i, p] * w[p]"
    ),
    "c",
    """static void capped(float *out, const float *a, int64_t a0, int64_t a1, const float *w, int64_t n, int64_t k,
    int add)
{
    float weights[40];
    (void)a1;
    for (int64_t p = 0; p < k; p++)
        weights[p] = w[p];
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int64_t p = 0; p < k; p++)
            sum += a[i * a0 + p] * weights[p];
        out[i] = add ? out[i] + sum : sum;
    }
}
""",
    strides={"a": "a1 = 1 ∧ a0 >= k"},
    result="either",
)

EXCHANGES = {
    "n": ("k", "n + 1", "n - 1"),
    "k": ("n", "k + 1", "k - 1"),
    "m": ("n", "m + 1", "m - 1"),
    "a0": ("a1", "a0 + 1"),
    "a1": ("a0",),
    "b0": ("b1", "b0 + 1"),
    "b1": ("b0",),
    "out0": ("k", "out0 + 1"),
    "add": ("!add", "0", "1"),
    "a": ("b", "a + 1", "a - 1"),
    "b": ("a", "b + 1"),
    "x": ("x + 1",),
    "y": ("y + 1", "x"),
    "x0": ("1", "y0"),
    "y0": ("1",),
    "out": ("out + 1", "out - 1"),
    "BLAS_PLAIN": ("BLAS_TRANSPOSED",),
    "BLAS_TRANSPOSED": ("BLAS_PLAIN",),
}
"""Names in the bodies of texts, and what a fault writes in their place."""


def in_texts() -> Iterator[tuple[str, atl.Instruction]]:
    """Yield a description and an instruction for each fault in a text."""
    for own in (*(instructions()[name] for name in ("sgemm", "sgemv", "sdot", "memcpy_float32")), OWN):
        head, start, body = own.text.partition(f"static void {own.name}(")
        parameters, brace, body = body.partition(")\n{")
        names = {*re.findall(r"\w+", parameters), "BLAS_PLAIN", "BLAS_TRANSPOSED"}
        for found in re.finditer(r"\b[A-Za-z_]\w*\b", body):
            for number, other in enumerate(EXCHANGES.get(found[0], ())):
                if body[: found.start()].endswith("(void)") or not names >= set(re.findall(r"[a-zA-Z]\w*", other)):
                    continue
                wrong = body[: found.start()] + f"({other})" + body[found.end() :]
                text = head + start + parameters + brace + wrong
                yield f"{own.name}-{found.start()}-{found[0]}-{number}", replace(own, text=text)


def in_declarations() -> Iterator[tuple[str, atl.Instruction]]:
    """Yield a description and an instruction for each condition or limit that allows too much."""
    sgemm, sgemv = instructions()["sgemm"], instructions()["sgemv"]
    for operand, old, new in (
        ("a", "a0 >= k", "a0 >= k - 1"),
        ("a", "a1 = 1 ∧", "a1 >= 1 ∧"),
        ("a", "a1 >= n", "a1 >= n - 1"),
        ("b", "b0 >= m", "b0 >= 1"),
        ("b", "b0 = 1 ∧", "b0 >= 1 ∧"),
        ("out", "out1 = 1 ∧", "out1 >= 1 ∧"),
        ("out", "out1 = 1 ∧", "out1 <= 1 ∧"),
    ):
        assert old in sgemm.strides[operand]
        yield (
            f"{operand}: {new}",
            replace(sgemm, strides={**sgemm.strides, operand: sgemm.strides[operand].replace(old, new)}),
        )
    yield "x0 >= 0", replace(sgemv, strides={**sgemv.strides, "x": "x0 >= 0"})
    yield "k <= 41", replace(OWN, program=atl.parse(str(OWN.program).replace("k <= 40", "k <= 41")))
    yield "a0 >= 0", replace(OWN, strides={"a": "a1 >= 1"})
    yield "float64", replace(OWN, text=OWN.text.replace("float weights[40]", "float weights[39]"))
