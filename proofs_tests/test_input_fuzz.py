"""`atl fuzz inputs` finds nothing here, and what is put in on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import atl
import lowering
import padtypes
import rewrites
from atl import cli
from lowering import toolchain
from proofs_tests import input_fuzz, input_setting
from proofs_tests.input_cases import GOOD, METHODS, SHOWN, callables, parted
from proofs_tests.input_fuzz import Report, carried_out, case_by_seed, run_inputs
from rewrites.session import catalogue


def planted(body: str) -> Callable[..., Any]:
    """A function with this body that seems to stand in a file of ours."""
    made: dict[str, Any] = {}
    exec(compile(f"def fault(*arguments, **named):\n    {body}", atl.__file__, "exec"), made)
    return made["fault"]  # type: ignore[no-any-return]


FAULTS: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "KeyError at atl/__init__.py": (atl, "guard", planted("return {}[arguments]")),
    "takes more than": (atl, "value", planted("while True: pass")),
    "what is no certificate is loaded": (rewrites, "load", lambda *_, **__: input_setting.theorem()),
    "an array that NumPy does not read is read": (
        input_setting,
        "values_given",
        lambda program, _: {"A": input_setting.np.zeros((2, 3), input_setting.np.float32)},
    ),
    "an object counts as built": (toolchain, "is_intact", lambda path: True),
    "ends the process, with code 3": (atl, "imin", planted("import os; os._exit(3)")),
    "RecursionError at atl/__init__.py": (padtypes, "infer", planted("return fault()")),
    "AttributeError at atl/__init__.py": (rewrites.Session, "undo", planted("return None.calls")),
    "WrongArgument that cannot be printed": (
        lowering,
        "print_c",
        planted("from atl.errors import WrongArgument; raise WrongArgument('no nest', suggestions=3)"),
    ),
}


def test_a_short_run_finds_nothing() -> None:
    report = run_inputs(1_200, 7)
    assert report.tried == 1_200
    assert not report.findings, str(report)
    assert report.verdicts["texts", "accepted"]
    assert report.verdicts["files", "refused"]


def test_faults_put_in_on_purpose_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_fuzz, "SECONDS", 0.2)

    def prepare_and_plant(prepare: Callable[[], None] = input_fuzz.prepare) -> None:
        prepare()
        for room, name, fault in FAULTS.values():
            monkeypatch.setattr(room, name, fault)

    monkeypatch.setattr(input_fuzz, "prepare", prepare_and_plant)
    found = [finding.why for finding in run_inputs(1_500, 3).findings]
    assert not [what for what in FAULTS if not any(what in why for why in found)], found


def test_a_finding_is_printed_so_that_it_can_be_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atl, "exp", planted("raise KeyError(3)"))
    report = run_inputs(700, 1)
    (finding,) = report.findings
    assert finding.text.startswith("atl.exp(")
    assert len(finding.text) <= len("atl.exp(False)"), "it is made smaller"
    assert carried_out(finding.text).why.startswith("KeyError")
    assert "from proofs_tests.input_setting import *" in str(report)
    assert "KeyError" in str(report)


def test_a_run_is_interrupted_and_tells_what_it_did() -> None:
    def interrupt(_: Report) -> None:
        raise KeyboardInterrupt

    report = run_inputs(2_000, 1, progress=interrupt)
    assert report.interrupted
    assert report.tried == 500
    assert str(report).startswith("500 cases, interrupted")


def test_a_run_is_the_same_for_the_same_seed() -> None:
    assert [case_by_seed(1, at) for at in range(200)] == [case_by_seed(1, at) for at in range(200)]
    assert [case_by_seed(1, at) for at in range(20)] != [case_by_seed(2, at) for at in range(20)]


def test_every_public_name_is_called_and_every_template_has_arguments_or_none() -> None:
    drawn = {text for kind, text in (case_by_seed(4, at) for at in range(15_000)) if kind == "any call"}
    assert not [name for name in callables() if not any(text.startswith(f"{name}(") for text in drawn)]
    for text in (*GOOD, *METHODS, *SHOWN):
        head, arguments, tail = parted(text)
        assert "".join((head, *arguments, tail)).replace(" ", "").replace(",", "") == text.replace(" ", "").replace(
            ",", ""
        )


@pytest.mark.parametrize(
    "entry", [*catalogue.tactics_of_sessions(), *catalogue.other_methods()], ids=lambda entry: str(entry.name)
)
def test_every_call_of_a_session_has_a_template_and_so_has_each_of_its_options(entry: catalogue.Entry) -> None:
    calls = [text for text in (*METHODS, *SHOWN) if re.search(rf"^\w+\([^()]*\)\.{entry.name}\b", text)]
    assert calls
    options = re.findall(r"(\w+)=", entry.call.partition("*, ")[2])
    assert not [option for option in options if not any(f"{option}=" in text for text in calls)]


@pytest.mark.parametrize("text", [*GOOD, *SHOWN])
def test_what_is_replaced_in_the_calls_is_right_before(text: str) -> None:
    outcome = carried_out(text)
    known = ("/nonexistent", "doubled(x)", "atl.evaluate(doubled, x)", "kernel(", "rewrites.rules[")
    assert outcome.verdict == "accepted" or any(part in text for part in known), outcome


def test_the_command_runs_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fuzz", "inputs", "--n", "20", "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 1: 20 cases, ")
    assert "0 findings" in said
