"""Proofs by z3 are reported and can be refused; no shipped example needs z3."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import atl
import examples
from atl.cli import main
from atl.prove import Facts, Proved, Unknown, prove, without_smt
from rewrites import Session, reschedule
from rewrites.certificates.certificate import describe, dumps, loads
from rewrites.errors import CertificateError
from rewrites.kernel import Theorem

n, m = atl.sizes("n m")
x = atl.tensor("x", n)
SQUARE = 2 * n * m <= n * n + m * m


def needs_z3() -> Session:
    """Add a guard to x[0] that always holds, since (n - m)² >= 0."""
    start = atl.program("p", [x], atl.gen(n, lambda i: x[i]), given=[m >= 1])
    return reschedule(start).rw("guard_true", around=(0,), reverse=True, p=SQUARE)


def shipped() -> Iterator[tuple[str, Callable[[], Session]]]:
    """Yield the derivations of the examples: functions without parameters that return a session."""
    for found in pkgutil.walk_packages(examples.__path__, "examples."):
        module = importlib.import_module(found.name)
        for name, function in vars(module).items():
            own = inspect.isfunction(function) and function.__module__ == found.name and not name.startswith("_")
            if not own or inspect.signature(function).parameters:
                continue
            if typing.get_type_hints(function).get("return") is Session:
                yield f"{found.name}.{name}", function


def test_z3_goals_are_unknown_without_smt() -> None:
    assert prove(Facts(), SQUARE.node) == Proved("z3")
    with without_smt():
        assert prove(Facts(), SQUARE.node) == Unknown("z3 was not used")
        assert prove(Facts().assume((n < m).node), (n <= m).node) == Proved("linear")
    assert prove(Facts(), SQUARE.node) == Proved("z3")


def test_answers_without_smt_are_not_memoized_for_z3() -> None:
    goal = (2 * n * m <= n * n + m * m + 1).node
    with without_smt():
        assert isinstance(prove(Facts(), goal), Unknown)
    assert prove(Facts(), goal) == Proved("z3")


def test_session_reports_premises_decided_by_z3() -> None:
    session = needs_z3()
    assert "2*m*n <= m*m + n*n: by z3" in str(session.explain(-1))
    text = describe(session.done())
    assert "1 by z3" in text
    assert "z3 alone, at step 1, guard_true: 2*m*n <= m*m + n*n" in text


def test_session_rejects_z3_steps_without_smt() -> None:
    with without_smt(), pytest.raises(atl.ATLError, match=r"z3 was not used|premise"):
        needs_z3()


def test_certificate_that_needs_z3_is_refused_without_it() -> None:
    text = dumps(needs_z3().done())
    assert loads(text).steps[0].premises[0].layer == "z3"
    with pytest.raises(CertificateError):
        loads(text, smt=False)


def test_check_command_refuses_z3_proofs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs, plain = tmp_path / "needs.json", tmp_path / "plain.json"
    needs_z3().done().save(needs)
    reschedule(atl.program("p", [x], 2 * x)).rw("mul_comm").done().save(plain)
    assert main(["check", str(needs)]) == 0
    assert "z3 decided 1 question; --no-smt checks without z3" in capsys.readouterr().out
    assert main(["check", "--no-smt", str(needs), str(plain)]) == 1
    output = capsys.readouterr()
    assert f"{needs}: refused" in output.err
    assert "(z3 was not used: --no-smt)" in output.err
    assert f"{plain}: Proved by 1 step" in output.out


@pytest.mark.long
def test_check_prints_the_whole_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total = x[0] * 1.5
    for number in range(300):
        total = total + x[number] * 1.5
    reschedule(atl.program("long", [x], total, given=[n >= 300])).rw("add_comm", around=()).done().save(
        tmp_path / "long.json"
    )
    assert main(["check", str(tmp_path / "long.json")]) == 0
    output = capsys.readouterr().out
    assert "…" not in output
    assert output.count("x[299]") == 2


@pytest.mark.long
def test_shipped_derivations_need_no_z3() -> None:
    derived: dict[str, Theorem] = {}
    for name, function in shipped():
        derived[name] = function().done()
    assert len(derived) >= 45
    for name, theorem in derived.items():
        assert loads(dumps(theorem), smt=False).rhs == theorem.rhs, name
        assert not any(premise.layer == "z3" for step in theorem.steps for premise in step.premises), name
