"""Checks of the texts of instructions: built-in ones agree with their programs, and planted faults are found."""

import dataclasses
import re

import pytest

import atl
from atl.errors import CompilerFailed, InvalidArgument
from lowering.instructions import instructions
from proofs_tests.instructions import faults

BUILT_IN = [name for name, each in instructions().items() if each.is_sized and each.target == "c"]
FAULTS = dict((*faults.in_texts(), *faults.in_declarations()))


@pytest.mark.parametrize(
    "name",
    [
        "sdot",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("sgemm", "sgemv", "memcpy_float32", "memcpy_int8")),
    ],
)
def test_built_in_instructions_agree_with_their_programs(name: str) -> None:
    found = atl.check_instruction(instructions()[name], largest=2)
    assert re.fullmatch(rf"{name}: \d+ calls agree with the program", str(found))


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_instructions_agree_at_all_sizes_up_to_6(name: str) -> None:
    assert atl.check_instruction(instructions()[name]).fault == ""


def test_correct_texts_with_limits_are_accepted() -> None:
    assert atl.check_instruction(faults.OWN, largest=2).fault == ""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if number % 20 == 7 else pytest.mark.slow)
        for number, name in enumerate(FAULTS)
    ],
)
def test_planted_faults_are_found(name: str) -> None:
    assert len(FAULTS) >= 100
    assert atl.check_instruction(FAULTS[name], largest=3).fault


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("float weights[40]", "float weights[39]", "traps"),
        ("out[i] = add ? out[i] + sum : sum;", "out[i] += sum;", "out[0] is nan, and the program gives"),
        ("weights[p] = w[p];", "weights[p] = w[p], ((float *)w)[p] = 0;", "the text changes the operand w"),
        ("out[i] = add", "out[n] = out[i] = add", "accesses memory beyond an operand"),
    ],
)
def test_faults_are_described(old: str, new: str, fault: str) -> None:
    assert old in faults.OWN.text
    found = atl.check_instruction(dataclasses.replace(faults.OWN, text=faults.OWN.text.replace(old, new)), largest=2)
    assert found.fault
    assert fault in str(found)


def test_instructions_that_cannot_run_here_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="mma_m16n8k16 is for cuda"):
        atl.check_instruction(instructions()["mma_m16n8k16"])
    own = dataclasses.replace(faults.OWN, requires=("no_such_feature",))
    with pytest.raises(InvalidArgument, match="capped requires no_such_feature"):
        atl.check_instruction(own)
    with pytest.raises(InvalidArgument, match="3 is not an instruction"):
        atl.check_instruction(3)  # type: ignore[arg-type]
    with pytest.raises(CompilerFailed, match="error"):
        atl.check_instruction(dataclasses.replace(faults.OWN, text=faults.OWN.text.replace("sum = 0", "sum = x")))
    with pytest.raises(InvalidArgument, match="no sizes up to 4096 with strides were found that the declaration"):
        atl.check_instruction(_twice("out[0] = 42;", given="n >= 200000"))
    for largest in ("a", -1, True):
        with pytest.raises(InvalidArgument, match=f"largest={largest!r}"):
            atl.check_instruction(faults.OWN, largest=largest)  # type: ignore[arg-type]


def _twice(text: str, dtype: str = "float32", given: str = "n <= 2000") -> atl.Instruction:
    program = f"twice (x : {dtype}[n]) : {dtype}[n] given {given} := ⊞[i < n] 2 * x[i]"
    c_type = {"float32": "float", "float64": "double"}[dtype]
    text = f"static void twice({c_type} *out, const {c_type} *x, int64_t n) {{ {text} }}"
    return atl.Instruction("twice", atl.parse(program), "c", text, result="stored")


@pytest.mark.parametrize("given", ["n >= 1000", "n % 48 = 0 ∧ n >= 300"])
def test_sizes_satisfy_the_declaration(given: str) -> None:
    found = atl.check_instruction(_twice("(void)n; out[0] = 42 + 0 * x[0];", given=given))
    assert found.calls > 0
    assert "out[0] is 42.0, and the program gives" in found.fault
    correct = atl.check_instruction(_twice("for (int64_t i = 0; i < n; i++) out[i] = x[i] + x[i];", given=given))
    assert correct.calls > 0
    assert correct.fault == ""


@pytest.mark.parametrize(
    ("condition", "size"),
    [
        ("n == 100", "n = 100"),
        ("n > 4 * 77 && x", "n = "),
        ("n == 0x3e8 /* not 7 */", "n = 1000"),
        ("n == 1025", "n = 1025"),
        ("n % 512 == 511", "n = 511"),
    ],
)
def test_faults_at_single_sizes_are_found(condition: str, size: str) -> None:
    text = f"for (int64_t i = 0; i < n; i++) out[i] = 2 * x[i] + ({condition} ? 1 : 0);"
    assert size in atl.check_instruction(_twice(text)).fault
    assert atl.check_instruction(_twice(text.replace("? 1", "? 0"))).fault == ""


def test_a_fault_in_one_term_is_found() -> None:
    faulty = faults.OWN.text.replace("sum = 0", "sum = k == 23")
    assert "k = 23" in atl.check_instruction(dataclasses.replace(faults.OWN, text=faulty), largest=1).fault


def test_text_that_ends_the_process_is_a_fault() -> None:
    quits = _twice("(void)n; (void)x; (void)out; _exit(0);")
    found = atl.check_instruction(dataclasses.replace(quits, text=f"#include <unistd.h>\n{quits.text}"))
    assert found.fault == "ends the process for n = 1"


@pytest.mark.parametrize(("dtype", "cast"), [("float32", "(int)"), ("float64", "(float)")])
def test_text_that_rounds_elements_is_found(dtype: str, cast: str) -> None:
    found = atl.check_instruction(_twice(f"for (int64_t i = 0; i < n; i++) out[i] = 2 * {cast}x[i];", dtype))
    assert "elements that are fractions" in found.fault
