"""Tests of the fuzzer of user-defined rules, with injected faults in checking and stating."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import atl
from atl.core.index import constant
from atl.errors import ATLError, NotExact
from proofs_tests.attacks.injection import inject
from proofs_tests.attacks.literal_rules import drawn_false_law
from proofs_tests.attacks.random_rules import FALSE, Law
from proofs_tests.attacks.rule_tricks import TRICKS
from proofs_tests.attacks.rule_uses import differ
from proofs_tests.attacks.user_rules_fuzz import Run, damaged, declare, main, run_rules
from proofs_tests.programs.choices import Seeded
from proofs_tests.sampling import few_and_rest
from rewrites import elaboration, reschedule, rule
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import CertificateError, FalseRule, NotATheorem
from rewrites.kernel import reflexivity, rewrite
from rewrites.rule import Body, Equation, Rule, Vector, equation
from rewrites.rule import rule as proved_rule
from rewrites.rule_checking import registry, symbolic, symbolic_reading
from rewrites.rule_checking.registry import status_of
from rewrites.rule_checking.symbolic import proved

Patch = pytest.MonkeyPatch
WRAPPED: Final = Law(
    "n: Index",
    'cast("int64", cast("int32", value(0)) + value(2 * n))',
    'cast("int64", cast("float64", 0.0) + value(2 * n))',
    "n >= 0, n * n <= 2 * 10**18",
)
"""Law that fails only where 2 * n overflows int32, and whose premise excludes the ends of int32 and int64."""
TWICE: Final = Law("a: Elem", "a + a", "2 * a")


def findings_of(text: str, folder: Path, most: int = 1) -> list[str]:
    """Use a rule as the fuzzer does, and return the findings up to the first."""
    run = Run(0, folder)
    for number in range(1, most + 1):
        run.attack(number, "false", text, Seeded.by(str(number)))
        if run.report.findings:
            break
    return run.report.findings


def accepted(law: Law) -> Rule:
    found = declare(law.source("accepted"), "accepted")
    assert found.rule is not None, found.error
    return found.rule


def refused(law: Law) -> ATLError:
    found = declare(law.source("refused"), "refused").error
    assert isinstance(found, ATLError)
    return found


FAULTS: dict[str, tuple[str, Callable[[Patch], None]]] = {
    "kinds of a user's class": (
        TRICKS["a group of a subclass"],
        lambda patch: patch.setattr(rule, "is_kind", lambda value: True),
    ),
    "terms of a user's class": (
        TRICKS["an operation of a subclass"],
        lambda patch: patch.setattr(elaboration, "check_class", lambda term: None),
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_injected_fault_is_found(what: str, monkeypatch: Patch, tmp_path: Path) -> None:
    text, put = FAULTS[what]
    assert findings_of(text, tmp_path) == []
    put(monkeypatch)
    assert findings_of(text, tmp_path, most=6)


@pytest.mark.long
def test_casts_of_different_types_read_alike_would_prove_a_false_law(monkeypatch: Patch) -> None:
    def status(name: str) -> str:
        return str(declare(WRAPPED.source(name), name).status)

    assert status("as_it_is").startswith("bounded")
    inject(monkeypatch, symbolic_reading.Reader, "read", 'f"{operand.type.dtype} to {dtype}"', "dtype")
    assert status("with_the_fault").startswith("proved")


@proved_rule(family="attack")
def ignoring(a: Vector, b: Vector, f: Body[Vector]) -> Equation:  # type: ignore[type-arg]
    """The law fails only if f ignores a + b, whose extents may then differ."""
    return equation(f(a + b), atl.guard(a.shape[0] == b.shape[0], f(a + b)))


def test_proof_assumes_nothing_about_ignored_tensors(monkeypatch: Patch) -> None:
    assert proved(ignoring) is not None
    inject(monkeypatch, symbolic_reading, "unconditional", " | terms.Metavariable", "")
    monkeypatch.setattr(symbolic, "unconditional", symbolic_reading.unconditional)
    assert proved(ignoring) is None


@pytest.mark.long
def test_unproved_rule_applies_only_at_tested_ranks() -> None:
    unproved = accepted(
        Law("n: Index, a: Elem", "maximum(a, a - a) + minimum(a, a - a)", "a", "n * n <= (3 if a.rank < 3 else -9)")
    )
    found = status_of(unproved)
    assert found is not None
    assert found.status == 1
    assert found.ranks == {(0,), (1,), (2,)}
    for rank in range(5):
        x = atl.tensor("x", *[2] * rank, dtype="float64")
        start = reflexivity(atl.program("p", [x], atl.maximum(x, x - x) + atl.minimum(x, x - x)))
        arguments = {"n": constant(1), "a": x.node}
        if rank < 3:
            assert rewrite(start, unproved, (), arguments).caveat
            continue
        with pytest.raises(NotATheorem, match=f"not tried for elements of rank {rank}"):
            rewrite(start, unproved, (), arguments)


@pytest.mark.long
def test_unproved_rule_applies_to_integers_only_where_tested(monkeypatch: Patch) -> None:
    law = next(law for law in FALSE if law.left == "maximum(a + 1, a)")
    rare = accepted(law)
    x = atl.tensor("x", dtype="int32")
    start = reflexivity(atl.program("p", [x], atl.maximum(x + 1, x)))
    arguments = {"l": 3, "m": 2, "n": 1, "k": -1, "i": 0}
    given = {"a": x.node, **{name: constant(value) for name, value in arguments.items()}}
    with pytest.raises(NotATheorem, match="not true for elements of int32"):
        rewrite(start, rare, (), given)
    found = status_of(rare)
    assert found is not None
    untried = replace(found, integer_counterexample=None, tried_on_integers=False)
    monkeypatch.setitem(registry._REGISTERED, rare, untried)
    with pytest.raises(NotATheorem, match="not tried for elements of int32"):
        rewrite(start, rare, (), given)


@pytest.mark.long
@pytest.mark.parametrize(
    "law",
    [
        Law("a: Elem, b: ElemT", "maximum(a, a) if (a.rank, b.rank) != (2, 3) else a + a", "a"),
        Law("a: Elem, b: Elem", "maximum(a, b) + minimum(a, b)", "a + b if a.rank < 4 else a + b + a"),
        Law("n: Index, k: Index, a: Elem, b: Elem", 'gen(n, lambda z: cast("int64", a + b))[k]',
            'gen(n, lambda z: cast("int64", a) + cast("int64", b))[k]'),
        Law("a: Elem, b: Elem, c: Elem", 'maximum(b + cast("int32", a), c + cast("int32", a))',
            'maximum(b, c) + cast("int32", a)'),
    ],
)  # fmt: skip
def test_law_that_fails_at_one_rank_or_type_is_refused(law: Law) -> None:
    assert type(refused(law)).__name__ == "FalseRule"


@pytest.mark.long
def test_cast_in_a_rule_fixes_the_type_of_a_metavariable() -> None:
    meets = accepted(Law("a: Elem, b: Elem", 'b + cast("int64", a)', 'cast("int64", a) + b'))
    assert {stated.element_types["b"] for stated in meets.statements.values()} == {"int64"}
    x, y = atl.tensor("x", 3, dtype="float32"), atl.tensor("y", 3, dtype="int64")
    theorem = reschedule(atl.program("p", [x, y], y + atl.cast("int64", x))).rw(meets).done()
    assert str(theorem.rhs).endswith("cast(int64, x) ⊕ y")


@pytest.mark.long
def test_proof_status_is_independent_of_the_name() -> None:
    law = next(law for law in FALSE if "w[i, k]" in law.right)
    found = {declare(law.source(f"name_{number}"), f"name_{number}").status for number in range(5)}
    assert len(found) == 1
    assert found.pop().startswith("FalseRule")


@pytest.mark.parametrize("what", [what for what in TRICKS if "subclass" in what or "afterwards" in what])
def test_no_user_code_runs_after_the_declaration(what: str, tmp_path: Path) -> None:
    assert findings_of(TRICKS[what], tmp_path) == []


@pytest.mark.long
def test_damaged_rule_in_a_certificate_is_refused() -> None:
    x = atl.tensor("x", 3)
    theorem = reschedule(atl.program("p", [x], x + x)).rw(accepted(TWICE)).done()
    data: dict[str, Any] = json.loads(dumps(theorem))
    seen = 0
    for number in range(25):
        own = damaged(data["own"], Seeded.by(f"damage {number}"))
        text = json.dumps({**data, "own": own})
        try:
            again = loads(text)
        except CertificateError:
            seen += 1
            continue
        assert (again.lhs, again.rhs) == (theorem.lhs, theorem.rhs)
    assert seen > 10


def test_invalid_rule_name_in_a_certificate_is_refused() -> None:
    x = atl.tensor("x", 3)
    data = json.loads(dumps(reschedule(atl.program("p", [x], x + x)).rw(accepted(TWICE)).done()))
    with pytest.raises(CertificateError, match="refused"):
        loads(json.dumps(data).replace('"accepted"', '"accepted is\\nproved"'))


@pytest.mark.long
def test_short_run_finds_nothing() -> None:
    report = run_rules((1, 3, 8, 9, 11, 26, 35), 6)
    assert report.findings == []
    assert report.ended == "all 7 are done"
    assert report.compared["unmarked"] > 10
    assert report.certificates["replayed in a fresh process"] == report.certificates["written"] > 0


def test_command_prints_counts_of_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "7", "--seed", "2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 2: 1 rules in ")
    assert said.endswith("0 findings\n")


def test_theorem_of_too_many_steps_is_not_evaluated() -> None:
    theorem = reflexivity(atl.parse("f (x : float64[n]) : float64 := Σ[i < n + 100000] value(2)"))
    with pytest.raises(NotExact, match="too many steps"):
        differ(theorem, Seeded.by("steps"))


@pytest.mark.parametrize("numbers", few_and_rest(30))
def test_rules_that_are_false_far_away_are_refused(numbers: range) -> None:
    """Laws with literals, large indices, rare tests and operands of unequal extents, each false by its construction."""
    laws = [drawn_false_law(Seeded.by(f"far {number}")) for number in numbers]
    accepted = [law for law in laws if type(declare(law.source("far"), "far").error) is not FalseRule]
    assert accepted == []
