"""Instructions of CPUs and of users: calls in C, the loops as the other branch, and refusals."""

import itertools
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.errors import IllegalMark, InvalidArgument, UnknownMark, UnsupportedMark
from lowering.instructions import instructions
from lowering.nest import interpreter
from proofs_tests.instructions.products import expected, operands

DOTS: Final = {
    "vpdpbusd": ("uint8", "int8", "int32", 4),
    "vdpbf16ps": ("bfloat16", "bfloat16", "float32", 2),
}
"""Element types of the operands and of the sums, and the number of terms of each sum."""


def text_of(name: str) -> str:
    """Return a product with both operands packed for an instruction."""
    left, right, into, terms = DOTS[name]
    return f"""product (A : {left}[n, k], B : {right}[k, m]) : {into}[n, m] :=
  let Ap | heap := ⊞[i < n] ⊞[po < ⌈k / {terms}⌉] ⊞[pi < {terms}] [{terms}*po + pi < k] · A[i, {terms}*po + pi] in
  let Bp | heap :=
    ⊞[jo < ⌈m / 16⌉] ⊞[po < ⌈k / {terms}⌉] ⊞[ji < 16] ⊞[pi < {terms}] [16*jo + ji < m ∧ {terms}*po + pi < k] ·
      B[{terms}*po + pi, 16*jo + ji]
  in
  ⊞[i < n] truncr (16*⌈m / 16⌉ - m) flatten ⊞[jo < ⌈m / 16⌉]
    let acc :=
      Σ[po < ⌈k / {terms}⌉] ⊞[ji < 16] Σ[pi < {terms} | call {name}]
        cast({into}, Ap[i, po, pi]) * cast({into}, Bp[jo, po, ji, pi])
    in
    ⊞[ji < 16] [16*jo + ji < m] · acc[ji]
"""


@pytest.mark.parametrize("name", DOTS)
@pytest.mark.parametrize("native", [True, False], ids=["native", "loops"])
def test_calls_and_loops_agree_with_numpy(name: str, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right, into, _ = DOTS[name]
    source = atl.compile(atl.parse(text_of(name))).source
    (feature,) = instructions()[name].requires
    assert f"#if defined(__{feature.upper()}__)" in source
    assert f"{name}(acc, Ap + " in source
    if not native:  # the branch of a compiler without the instruction
        monkeypatch.setattr("lowering.c.scalars.has", lambda _: "0")
    kernel = atl.compile(atl.parse(text_of(name)))
    for sizes in itertools.product((1, 5, 16), (1, 16, 33), (1, 4, 9)):
        a, b = operands((sizes[0], sizes[1], sizes[2]), left, other=right)
        assert np.array_equal(kernel(a, b), expected(a, b, into)), sizes


@pytest.mark.parametrize("name", DOTS)
def test_loop_nest_interpreter_runs_the_loops(name: str) -> None:
    left, right, into, _ = DOTS[name]
    nest = atl.lower(atl.parse(text_of(name)))
    a, b = operands((3, 5, 6), left, other=right)
    assert np.array_equal(interpreter.run(nest, {"n": 3, "m": 5, "k": 6}, {"A": a, "B": b}), expected(a, b, into))


REFUSED: Final[dict[str, tuple[tuple[str, str], str]]] = {
    "operands not adjacent": (("⊞[ji < 16] ⊞[pi < 4] [16", "⊞[pi < 4] ⊞[ji < 16] [16"), ""),
    "a stride in an operand": (("Bp[jo, po, ji, pi]", "Bp[jo, po, 15 - ji, pi]"), "element at the address"),
    "another element": (("Ap[i, po, pi]", "Ap[i, po, 3 - pi]"), "element at the address pi of a; it is -pi"),
    "fewer terms": (("Σ[pi < 4 | call", "Σ[pi < 3 | call"), "a loop from 0 to 4"),
    "other factors": (("cast(int32, Bp", "2 * cast(int32, Bp"), "the terms of the sum are of another form"),
    "registers": (("let acc :=", "let acc | registers :="), "acc is in registers, which have no address"),
    "lanes of a vector": (("⊞[i < n] truncr", "⊞[i < n | vector] truncr"), ""),
    "an instruction of a GPU": (("call vpdpbusd", "call mma_m16n8k16"), 'use target="cuda", which has it'),
    "a misspelt name": (("call vpdpbusd", "call vpdpbus"), 'did you mean "call vpdpbusd"?'),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_nests_are_refused(what: str) -> None:
    (old, new), required = REFUSED[what]
    text = text_of("vpdpbusd")
    if what == "operands not adjacent":
        text, old, new = text.replace(old, new), "Bp[jo, po, ji, pi]", "Bp[jo, po, pi, ji]"
        required = "Bp is not the operand b of vpdpbusd"
    assert old in text
    with pytest.raises((IllegalMark, UnsupportedMark, UnknownMark)) as error:
        atl.compile(atl.parse(text.replace(old, new)))
    assert required in str(error.value)


# -- a user's instruction ---------------------------------------------------------------------------------------------

OWN: Final = """\
static void dots4(float *out, const float *a, const float *b)
{
    for (int i = 0; i < 4; i++)
        out[i] += a[2 * i] * b[0] + a[2 * i + 1] * b[1];
}
"""
PROGRAM: Final = "dots4 (a : float32[4, 2], b : float32[2]) : float32[4] := ⊞[i < 4] Σ[p < 2] a[i, p] * b[p]"
USE: Final = """use (X : float32[q, 4, 2], y : float32[q, 2]) : float32[4] :=
  let acc | stack := Σ[r < q] ⊞[i < 4] Σ[p < 2 | call dots4] X[r, i, p] * y[r, p] in ⊞[i < 4] acc[i]
"""


def test_declaration_alone_makes_an_instruction() -> None:
    own = atl.declare(atl.Instruction("dots4", atl.parse(PROGRAM), "c", OWN))
    assert atl.declare(own) is own
    kernel = atl.compile(atl.parse(USE))
    assert "dots4(acc, X + 8 * r, y + 2 * r);" in kernel.source
    x, y = np.arange(40.0, dtype="float32").reshape(5, 4, 2), np.arange(10.0, dtype="float32").reshape(5, 2)
    assert np.array_equal(kernel(x, y), np.einsum("rip,rp->i", x, y))
    s = atl.reschedule(atl.parse(USE.replace(" | call dots4", ""))).mark("p", "call dots4")
    assert s.goal == atl.parse(USE)
    assert str(s.goal) == str(atl.parse(USE))
    with pytest.raises(InvalidArgument, match="there is another instruction named dots4"):
        atl.declare(atl.Instruction("dots4", atl.parse(PROGRAM), "c", OWN + "\n"))


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"name": "dots 4"}, "an instruction named 'dots 4'"),
        ({"target": "opencl"}, "target='opencl'"),
        ({"text": "void other(void);"}, "the text of dots5 does not define it"),
        ({"stored": {"c": None}}, "dots5 has no such operand"),
        ({"lanes": (8, 4)}, "first positions with the extents of the lanes"),
        ({"program": atl.parse("f (a : float32[4]) : float32[4] := ⊞[i < 4] 2 * a[i]")}, "is not a sum of scalars"),
        ({"program": atl.parse("f (a : float32[n]) : float32[4] := ⊞[i < 4] Σ[p < n] a[p]")}, "no constant extents"),
    ],
)
def test_declarations_are_checked(changed: dict[str, Any], match: str) -> None:
    given: dict[str, Any] = {
        "name": "dots5",
        "program": atl.parse(PROGRAM),
        "target": "c",
        "text": OWN.replace("dots4", "dots5"),
    }
    with pytest.raises(InvalidArgument, match=match):
        atl.Instruction(**(given | changed))
