"""Tests of `atl fuzz inputs`: it finds nothing in the library, and finds injected faults."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
import lowering
import padtypes
import rewrites
from atl.cli import main as command_line
from atl.files import arrays
from lowering import builds
from proofs_tests.fuzzing import Tally
from proofs_tests.inputs import fixtures, fuzz
from proofs_tests.inputs.cases import GOOD, METHODS, SHOWN, callables, replace_value, split_call
from proofs_tests.inputs.fuzz import Finding, case_by_seed, run_case, run_inputs
from proofs_tests.sampling import few_and_rest
from rewrites.session import catalogue


def injected(body: str) -> Callable[..., Any]:
    """Return a function with this body that seems to be defined in `atl`."""
    made: dict[str, Any] = {}
    exec(compile(f"def fault(*arguments, **named):\n    {body}", atl.__file__, "exec"), made)
    return made["fault"]  # type: ignore[no-any-return]


FAULTS: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "KeyError at atl/__init__.py": (atl, "guard", injected("return {}[len(arguments)]")),
    "takes more than": (atl, "value", injected("while True: pass")),
    "an invalid certificate is loaded": (atl, "load", lambda *_, **__: fixtures.theorem()),
    "an array that NumPy does not read is read": (arrays, "_array", lambda name, path: np.zeros((2, 3), np.float32)),
    "an object with a wrong record counts as built": (builds, "is_intact", lambda path: True),
    "ends the process, with code 3": (atl, "imin", injected("import os; os._exit(3)")),
    "RecursionError at atl/__init__.py": (padtypes, "infer", injected("again = lambda: again(); again()")),
    "AttributeError at atl/__init__.py": (rewrites.Session, "undo", injected("return None.calls")),
    "InvalidArgument that cannot be printed": (
        lowering,
        "print_c",
        injected("from atl.errors import InvalidArgument; raise InvalidArgument('no nest', suggestions=3)"),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("numbers", few_and_rest(600))
def test_short_run_finds_nothing(numbers: range) -> None:
    report = run_inputs(numbers, 7)
    assert report.tried == len(numbers)
    assert not report.findings, str(report)
    if numbers.start:  # too few cases for every verdict
        assert report.verdicts["texts", "accepted"]
        assert report.verdicts["files", "refused"]


def with_faults() -> None:
    """Prepare a run and inject all faults."""
    fuzz.prepare()
    fuzz.SECONDS = 0.2  # type: ignore[misc]
    for package, name, fault in FAULTS.values():
        setattr(package, name, fault)


@pytest.mark.long
def test_injected_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "SECONDS", fuzz.SECONDS)  # restored after the test
    for package, name, _ in FAULTS.values():
        monkeypatch.setattr(package, name, getattr(package, name))
    missing = set(FAULTS)

    def until_all(report: Tally[Finding]) -> None:
        missing.difference_update([what for what in FAULTS for finding in report.findings if what in finding.why])
        if not missing:
            raise KeyboardInterrupt

    report = run_inputs(range(6_000), 1, until_all, ready=with_faults)
    assert report.interrupted, missing


def with_a_fault() -> None:
    fuzz.prepare()
    atl.exp = injected("raise KeyError(3)")


@pytest.mark.long
def test_finding_is_minimised_and_reproducible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atl, "exp", atl.exp)
    report = run_inputs(range(500), 3, ready=with_a_fault)
    (finding,) = report.findings
    assert finding.text.startswith("atl.exp(")
    assert len(finding.text) <= len("atl.exp(False)"), "it is made smaller"
    assert run_case(finding.text).why.startswith("KeyError")
    assert "from proofs_tests.inputs.fixtures import *" in str(report)
    assert "KeyError" in str(report)


@pytest.mark.long
def test_search_works_after_a_search_in_the_parent_process() -> None:
    """egglog's threads do not survive a fork, and a search would block."""
    fixtures.session(fixtures.rows).auto(k=1)
    searches = [at for at in range(600) if ".auto(" in case_by_seed(7, at)[1]]
    assert searches
    report = run_inputs(searches, 7)
    assert report.tried == len(searches)
    assert not report.findings, str(report)


@pytest.mark.long
def test_interrupted_run_reports_its_cases() -> None:
    def interrupt(report: Tally[Finding]) -> None:
        if report.tried == 50:
            raise KeyboardInterrupt

    report = run_inputs(range(2_000), 1, interrupt)
    assert report.interrupted
    assert str(report).startswith("seed 1: 50 cases in ")
    assert "interrupted by Ctrl-C after 50 of 2000" in str(report)


def test_run_is_reproducible_from_its_seed() -> None:
    assert [case_by_seed(1, at) for at in range(200)] == [case_by_seed(1, at) for at in range(200)]
    assert [case_by_seed(1, at) for at in range(20)] != [case_by_seed(2, at) for at in range(20)]


@pytest.mark.long
def test_every_public_name_is_called_and_templates_can_be_split() -> None:
    drawn = {text for kind, text in (case_by_seed(4, at) for at in range(20_000)) if kind == "any call"}
    assert not [name for name in callables() if not any(text.startswith(f"{name}(") for text in drawn)]
    for text in (*GOOD, *METHODS, *SHOWN):
        head, arguments, tail = split_call(text)
        assert re.sub("[ ,]", "", "".join((head, *arguments, tail))) == re.sub("[ ,]", "", text)


@pytest.mark.parametrize(
    "entry", [*catalogue.tactics_of_sessions(), *catalogue.other_methods()], ids=lambda entry: str(entry.name)
)
def test_every_session_call_and_option_has_a_template(entry: catalogue.Entry) -> None:
    calls = [text for text in (*METHODS, *SHOWN) if re.search(rf"^\w+\([^()]*\)\.{entry.name}\b", text)]
    assert calls
    options = re.findall(r"(\w+)=", entry.call.partition("*, ")[2])
    assert not [option for option in options if not any(f"{option}=" in text for text in calls)]


WORST = ("Mute()", "10**5000", "-10**5000", "3", "object()", "[0]", "lambda i: i", r"'\ud800'", "(j for j in 'ab')")


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("text", SHOWN)
def test_bad_tactic_arguments_are_refused_or_accepted(text: str) -> None:
    """Random cases cover few of these combinations."""
    head, arguments, tail = split_call(text)
    for at, argument in enumerate(arguments):
        for worst in WORST:
            others = (*arguments[:at], replace_value(argument, worst), *arguments[at + 1 :])
            outcome = run_case(f"{head}{', '.join(others)}{tail}")
            assert outcome.verdict != "found", (others, outcome)


@pytest.mark.sampled
@pytest.mark.parametrize("text", [*GOOD, *SHOWN])
def test_templates_are_valid_calls(text: str) -> None:
    outcome = run_case(text)
    known = ("/nonexistent", "doubled(x)", "atl.evaluate(doubled, x)", "kernel(", "rewrites.rules[")
    assert outcome.verdict == "accepted" or any(part in text for part in known), outcome


@pytest.mark.long
def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["fuzz", "inputs", "--n", "20", "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 1: 20 cases in ")
    assert "0 findings" in said
