"""Checks of the texts of instructions: built-in ones agree with their programs, and planted faults are found."""

import dataclasses
import re

import pytest

import atl
from atl.errors import CompilerFailed, InvalidArgument
from lowering.instructions import instructions
from proofs_tests.instructions import faults

BUILT_IN = [name for name, each in instructions().items() if each.is_sized]
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
