"""Instructions of CPUs and of users: calls in C, the loops as the other branch, and refusals."""

import dataclasses
import itertools
import subprocess
import sys
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


def test_strict_kernels_call_instructions_of_integers_only() -> None:
    assert "vpdpbusd(acc, Ap + " in atl.compile(atl.parse(text_of("vpdpbusd")), strict=True).source
    with pytest.raises(IllegalMark, match="the loop pi is marked call vdpbf16ps, but vdpbf16ps may add and round"):
        atl.compile(atl.parse(text_of("vdpbf16ps")), strict=True)


REFUSED: Final[dict[str, tuple[tuple[str, str], str]]] = {
    "operands not adjacent": (("⊞[ji < 16] ⊞[pi < 4] [16", "⊞[pi < 4] ⊞[ji < 16] [16"), ""),
    "a stride in an operand": (("Bp[jo, po, ji, pi]", "Bp[jo, po, 15 - ji, pi]"), "element at the address"),
    "another element": (("Ap[i, po, pi]", "Ap[i, po, 3 - pi]"), "element at the address pi of a; it is -pi"),
    "fewer terms": (("Σ[pi < 4 | call", "Σ[pi < 3 | call"), "a loop from 0 to 4"),
    "other factors": (("cast(int32, Bp", "2 * cast(int32, Bp"), "the terms of the sum are of another form"),
    "registers": (("let acc :=", "let acc | registers :="), "acc is in registers, which have no address"),
    "lanes of a vector": (("⊞[i < n] truncr", "⊞[i < n | vector] truncr"), ""),
    "an instruction of a GPU": (("call vpdpbusd", "call mma_m16n8k16"), 'use target="cuda", which has it'),
    "a misspelt name": (("call vpdpbusd", "call vpdpbus"), "did you mean vpdpbusd"),
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
    own = atl.declare_instruction(atl.Instruction("dots4", atl.parse(PROGRAM), "c", OWN))
    assert atl.declare_instruction(own) is own
    kernel = atl.compile(atl.parse(USE))
    assert "dots4(acc, X + 8 * r, y + 2 * r);" in kernel.source
    x, y = np.arange(40.0, dtype="float32").reshape(5, 4, 2), np.arange(10.0, dtype="float32").reshape(5, 2)
    assert np.array_equal(kernel(x, y), np.einsum("rip,rp->i", x, y))
    s = atl.reschedule(atl.parse(USE.replace(" | call dots4", ""))).mark("p", "call dots4")
    assert s.goal == atl.parse(USE)
    assert str(s.goal) == str(atl.parse(USE))


def test_declaration_is_replaced_by_a_later_one() -> None:
    atl.declare_instruction(atl.Instruction("dots4", atl.parse(PROGRAM), "c", OWN))
    before = atl.compile(atl.parse(USE))
    atl.declare_instruction(
        atl.Instruction(
            "dots4", atl.parse(PROGRAM), "c", OWN.replace("+=", "+= 2 *", 1).replace("b[0] +", "b[0] + 2 *")
        )
    )
    x, y = np.ones((5, 4, 2), "float32"), np.ones((5, 2), "float32")
    assert np.array_equal(atl.compile(atl.parse(USE))(x, y), np.full(4, 20))
    assert np.array_equal(before(x, y), np.full(4, 10))


def test_built_in_instruction_is_not_replaced() -> None:
    known = instructions()["vpdpbusd"]
    assert atl.declare_instruction(known) is known
    with pytest.raises(InvalidArgument, match="vpdpbusd is a built-in instruction"):
        atl.declare_instruction(dataclasses.replace(known, text=known.text + "\n"))
    assert instructions()["vpdpbusd"] is known


@pytest.mark.parametrize(
    ("old", "new"),
    [("y : ", "dots6 : "), ("use (", "dots6 ("), ("acc", "dots6"), ("⊞[i < 4]", "⊞[dots6 < 4]"), ("q", "dots6")],
    ids=["input", "program", "let", "loop", "size"],
)
def test_name_of_an_instruction_is_reserved(old: str, new: str) -> None:
    atl.declare_instruction(atl.Instruction("dots6", atl.parse(PROGRAM), "c", OWN.replace("dots4", "dots6")))
    text = USE.replace(old, new).replace("call dots4", "call dots6")
    if old == "y : ":
        text = text.replace("y[", "dots6[")
    elif "<" in old:
        text = text.replace("[r, i,", "[r, dots6,").replace("acc[i]", "acc[dots6]")
    kernel = atl.compile(atl.parse(text))
    x, y = np.arange(40.0, dtype="float32").reshape(5, 4, 2), np.arange(10.0, dtype="float32").reshape(5, 2)
    assert np.array_equal(kernel(x, y), np.einsum("rip,rp->i", x, y))


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"name": "dots 4"}, "an instruction named 'dots 4'"),
        ({"target": "opencl"}, "target='opencl'"),
        ({"text": "void other(void);"}, "the text of dots5 does not define it"),
        ({"stored": {"c": None}}, "dots5 has no such operand"),
        ({"lanes": (8, 4), "target": "cuda"}, "first positions with the extents of the lanes"),
        ({"lanes": (8, 4)}, r"dots5 has target='c', lanes=\(8, 4\)"),
        ({"target": "cuda"}, r"dots5 has target='cuda', lanes=\(\) and"),
        ({"lanes": 3}, "lanes=3"),
        ({"lanes": (True, 32), "target": "cuda"}, r"lanes=\(True, 32\)"),
        ({"lanes": (2, 4, 4), "target": "cuda"}, r"lanes=\(2, 4, 4\)"),
        ({"name": "d\u00f6ts"}, "an instruction named"),
        ({"program": 3}, "the program of dots5 is 3"),
        ({"text": OWN.replace("dots4", "my_dots5")}, "the text of dots5 does not define it"),
        ({"text": 3}, "the text of dots5 does not define it"),
        ({"stored": {"a": 3}}, "stored={'a': 3}"),
        ({"stored": 3}, "stored=3"),
        ({"requires": "avx512f"}, "requires='avx512f'"),
        ({"requires": ("avx 2",)}, "requires="),
        ({"requires": ("sm_90a",), "target": "cuda", "lanes": (4,)}, r"requires=\('sm_90a',\)"),
        ({"rows_in_memory": 3}, "rows_in_memory=3"),
        ({"rows_in_memory": {"a": 8}}, r"lanes=\(\) and rows_in_memory"),
        ({"rows_in_memory": {"zz": 8}, "target": "cuda", "lanes": (4,)}, "dots5 has no such input"),
        ({"rows_in_memory": {"a": 0}, "target": "cuda", "lanes": (4,)}, "rows_in_memory={'a': 0}"),
        ({"rows_in_memory": {"b": 8}, "target": "cuda", "lanes": (4,)}, r"b is stored at \[2\], and its rows are in"),
        ({"rows_of_lanes": 3}, "rows_of_lanes=3"),
        ({"rows_of_lanes": {"a": 8}}, r"lanes=\(\) and rows_of_lanes"),
        ({"rows_of_lanes": {"zz": 8}, "target": "cuda", "lanes": (4,)}, "dots5 has no such input"),
        ({"rows_of_lanes": {"a": 0}, "target": "cuda", "lanes": (4,)}, "rows_of_lanes={'a': 0}"),
        (
            {"program": atl.parse(PROGRAM.replace("a :", "out :").replace("a[", "out["))},
            "an input of dots5 is named out",
        ),
        ({"program": atl.parse("f (a : float32[4]) : float32[4] := ⊞[i < 4] 2 * a[i]")}, "is not a sum of scalars"),
        ({"program": atl.parse("f (a : float32[4]) : float32 := a[0]")}, "is not a sum of scalars"),
        ({"program": atl.parse("f (a : float32[4]) : float32[1] := ⊞[i < 1] Σ[p < 4] a[p]")}, "extents of 2 or more"),
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


# -- a scalar result --------------------------------------------------------------------------------------------------

DOT: Final = atl.Instruction(
    "dot8",
    atl.parse("dot8 (a : float32[8], b : float32[8]) : float32 := Σ[p < 8] a[p] * b[p]"),
    "c",
    """static void dot8(float *out, const float *a, const float *b)
{
    for (int p = 0; p < 8; p++)
        *out += a[p] * b[p];
}
""",
)
ROWS: Final = """rows (X : float32[q, n, 8], y : float32[q, 8]) : float32[n] :=
  Σ[r < q] ⊞[i < n] Σ[p < 8 | call dot8] X[r, i, p] * y[r, p]
"""
ONE_SUM: Final = """dot (x : float32[q, 8], y : float32[q, 8]) : float32 :=
  let acc | stack := Σ[r < q] ⊞[i < 1] Σ[p < 8 | call dot8] x[r, p] * y[r, p] in acc[0]
"""


@pytest.mark.parametrize("requires", [(), ("no_such_feature",)], ids=["call", "loops"])
def test_instruction_with_a_scalar_result_adds_to_an_element(requires: tuple[str, ...]) -> None:
    atl.declare_instruction(dataclasses.replace(DOT, requires=requires))
    kernel = atl.compile(atl.parse(ROWS))
    assert "dot8(out + i, X + 8 * (" in kernel.source
    x, y = np.arange(120.0, dtype="float32").reshape(3, 5, 8), np.arange(24.0, dtype="float32").reshape(3, 8)
    assert np.array_equal(kernel(x, y), np.einsum("rip,rp->i", x, y))
    assert np.array_equal(atl.compile(atl.parse(ONE_SUM))(x[:, 0], y), np.vdot(x[:, 0], y))
    nest = atl.lower(atl.parse(ROWS))
    assert np.array_equal(interpreter.run(nest, {"q": 3, "n": 5}, {"X": x, "y": y}), np.einsum("rip,rp->i", x, y))


def test_sum_in_a_variable_is_refused_with_the_form_to_write() -> None:
    atl.declare_instruction(DOT)
    text = ROWS.replace("Σ[r < q] ⊞[i < n]", "⊞[i < n] Σ[r < q]")
    with pytest.raises(IllegalMark) as error:
        atl.compile(atl.parse(text))
    assert "Σ[r < q] ⊞[i < n] Σ[p < 8 | call dot8] …: the outer sum adds tensors to a buffer" in str(error.value)


@pytest.mark.long
def test_programs_compile_without_the_optional_package_of_bfloat16() -> None:
    code = """if True:
        import sys
        sys.modules["ml_dtypes"] = None
        import numpy, atl
        from lowering.instructions import instructions
        twice = atl.compile(atl.parse("twice (x : float32[n]) := gen[i < n] x[i] * 2"))
        print(twice(numpy.float32([1, 2])).tolist(), *(name for name in instructions() if "bf16" in name))
    """
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (answer.stdout, answer.stderr) == ("[2.0, 4.0]\n", "")
