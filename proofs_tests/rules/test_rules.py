"""Rules hold in random and exhaustive tests and are proved; false rules and mutants are refuted."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings, strategies
from hypothesis.strategies import DataObject

import atl
from atl import guard
from atl.errors import NotExact
from atl.meaning.scalars import Exact
from proofs_tests.programs.choices import Drawn
from proofs_tests.rules import mutation, rule_proofs
from proofs_tests.rules.corollaries import replayed
from proofs_tests.rules.declarations import restated
from proofs_tests.rules.mutation import EQUIVALENT, declared_once, mutants, score
from proofs_tests.rules.rule_labels import labels
from proofs_tests.rules.rule_proofs import EVERY
from rewrites.certificates.rule_json import digest
from rewrites.rule import Body, Equation, Index, Rule, equation
from rewrites.rule_checking import exhaustion
from rewrites.rule_checking.exhaustion import Counterexample, compared, decide
from rewrites.rule_checking.samples import Sample, drawn_statement, sampled
from rewrites.rule_checking.symbolic import proved
from rewrites.rules import RULES, sums
from rewrites.rules.bounded import status_name

pytestmark = pytest.mark.sampled

DECLARED = [one.name for one in declared_once()]
SCHEMA_INSTANCES = [name for name in RULES if name not in DECLARED]
SAMPLE = DECLARED[::32]
NEEDS_ONE = ("log_access", "pointwise_log", "gen_log", "select_log", "ll_log", "where_log")
"""Rules with logarithms, which are rational numbers only at 1."""


def check_with_hypothesis(stated: Rule, examples: int, phases: Collection[Phase] = tuple(Phase)) -> None:
    """Raise AssertionError if hypothesis draws a counterexample."""

    @settings(max_examples=examples, phases=phases, derandomize=True, deadline=None, database=None)
    @given(strategies.data())
    def holds(data: DataObject) -> None:
        try:
            drawn = Drawn(data.draw)
            sample = Sample(drawn_statement(stated, drawn), drawn)
            found = compared(sample.stated, sample, Exact())
        except NotExact:
            return  # a root that is irrational, for instance
        assert not isinstance(found, Counterexample), str(found)

    holds()


def holds_at_small_sizes(name: str, cases: int = 150) -> None:
    verdict = decide(RULES[name], cases=cases)
    assert verdict.counterexample is None, str(verdict.counterexample)
    assert verdict.decided >= 1


@pytest.mark.parametrize("name", [name for name in DECLARED if status_name(name) == "bounded"])
def test_bounded_rule_holds_at_small_sizes(name: str) -> None:
    holds_at_small_sizes(name)


@pytest.mark.thinned(13)
@pytest.mark.parametrize("name", [name for name in DECLARED if status_name(name) == "proved"])
def test_proved_rule_holds_at_small_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses fewer choices than for user-defined rules. A slow test uses all."""
    for bound, fewer in (("SPELLED", 10), ("UNLIKE", 2), ("HIGHER", 20), ("FEWEST", 1)):
        monkeypatch.setattr(exhaustion, bound, fewer)
    holds_at_small_sizes(name, cases=60)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMA_INSTANCES)
def test_rule_of_a_schema_holds_at_small_sizes(name: str) -> None:
    """These rules share their declaration with a tested rule."""
    holds_at_small_sizes(name)


@pytest.mark.thinned(11)
@pytest.mark.parametrize("name", [name for name in RULES if name not in NEEDS_ONE])
def test_rule_holds_for_random_bodies(name: str) -> None:
    found = sampled(RULES[name], wanted=2) or sampled(RULES[name], wanted=2, integers=True)
    assert isinstance(found, int), str(found)
    assert found >= 1


@pytest.mark.parametrize("name", DECLARED)
def test_rule_holds_for_wrapping_integers(name: str) -> None:
    found = sampled(RULES[name], wanted=4, integers=True)
    assert isinstance(found, int), str(found)


@pytest.mark.long
@pytest.mark.thinned(13)
@pytest.mark.parametrize("name", RULES)
def test_rule_holds_for_hypothesis(name: str) -> None:
    check_with_hypothesis(RULES[name], 6)


def check_proof_status(name: str) -> None:
    stuck = proved(RULES[name])
    assert status_name(name) == ("proved" if stuck is None else "bounded"), stuck


@pytest.mark.parametrize("name", DECLARED)
def test_proof_status_of_each_declaration(name: str) -> None:
    check_proof_status(name)


@pytest.mark.thinned(13)
@pytest.mark.parametrize("name", SCHEMA_INSTANCES)
def test_proof_status_of_rules_of_a_schema(name: str) -> None:
    check_proof_status(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", DECLARED)
def test_rule_holds_at_every_choice_of_the_window(name: str) -> None:
    verdict = decide(RULES[name], cases=EVERY)
    assert verdict.counterexample is None, str(verdict.counterexample)


@pytest.mark.parametrize("name", [name for name, stated in RULES.items() if stated.derived_from])
def test_corollary_follows_from_its_rules(name: str) -> None:
    theorem = replayed(RULES[name])
    assert theorem is not None
    assert [step.rule.name for step in theorem.steps] == list(RULES[name].derived_from)


def test_rule_has_a_law_a_family_and_a_source() -> None:
    for stated in RULES.values():
        assert stated.law
        assert stated.family
        assert stated.source


def misplaced(stated: Iterable[Rule]) -> list[str]:
    """Return the rules outside of the file of their family."""
    return [
        f"{one.name} of the family {one.family} is declared in {one.module}"
        for one in stated
        if one.module != f"rewrites.rules.{one.family.replace(' ', '_')}"
    ]


def test_each_family_is_a_file() -> None:
    assert misplaced(RULES.values()) == []
    files = {path.stem for path in Path(sums.__file__).parent.glob("*.py")} - {"__init__", "bounded"}
    assert files == {one.family.replace(" ", "_") for one in RULES.values()}


def test_misplaced_rule_is_found() -> None:
    misfiled = replace(RULES["get_gen"], family="reshape pairs")
    assert misplaced([RULES["get_gen"], misfiled]) == [
        "get_gen of the family reshape pairs is declared in rewrites.rules.access"
    ]


def test_laws_are_unique_and_self_contained() -> None:
    laws = [RULES[name].law for name in DECLARED]
    assert len(set(laws)) == len(laws)
    assert [law for law in laws if law.startswith(("The same", "More"))] == []


def hashed(rule: Rule) -> str:
    return digest(rule, tuple(rule.statements))


@pytest.mark.long
def test_hashes_of_rules_are_unique() -> None:
    assert len({hashed(one) for one in RULES.values()}) == len(RULES)


@pytest.mark.long
def test_hash_depends_on_the_equation_only() -> None:
    def with_other_words(lo: Index, hi: Index, a: Index, e: Body[Index]) -> Equation:
        """Other words."""
        only = atl.sum((lo, hi), lambda other: guard(other == a, e(other)))
        return equation(only, guard((lo <= a) & (a < hi), e(a)))

    def with_another_end(lo: Index, hi: Index, a: Index, e: Body[Index]) -> Equation:
        """Same words, another equation."""
        return equation(atl.sum((lo, hi), lambda i: guard(i == a, e(i))), guard((lo <= a) & (a <= hi), e(a)))

    known = RULES["sum_delta_only"]
    assert list(known.metavariables) == ["lo", "hi", "a", "e"]
    assert hashed(restated(known, with_other_words)) == hashed(known)
    assert hashed(restated(known, with_another_end)) not in {hashed(one) for one in RULES.values()}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("transpose_transpose", (True, True, True, True)),
        ("guard_add", (True, True, False, True)),  # erratum E30
        ("guard_mul_left", (True, False, True, False)),
        ("get_gen_guarded", (True, False, True, False)),
        ("gen_trunc", (False, True, False, True)),
        ("gen_trunc_guarded", (True, True, True, True)),
        ("let_unused", (True, False, True, True)),
        ("truncr_flatten_split", (True, True, True, True)),
    ],
)
def test_labels_of_known_rules(name: str, kept: tuple[bool, ...]) -> None:
    found = labels(RULES[name])
    assert (found.safety, found.safety_back, found.padding, found.padding_back) == kept


def mutants_are_found(name: str, cases: int = 300) -> None:
    """Check that every mutant is refuted, proved or listed as equivalent, and that none is both refuted and proved."""
    found = score(RULES[name], cases)
    assert not [survivor for survivor in found.survivors if (name, survivor) not in EQUIVALENT]
    assert not found.wrongly_proved


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLE)
def test_mutants_of_some_rules(name: str) -> None:
    mutants_are_found(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", DECLARED)
def test_mutants_of_every_rule(name: str) -> None:
    mutants_are_found(name)


def test_wrong_proof_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inject a prover that proves everything."""
    monkeypatch.setattr(mutation, "proved", lambda rule: None)
    assert score(RULES["get_gen"], 50).wrongly_proved


@pytest.mark.long
@pytest.mark.thinned(11)
@pytest.mark.parametrize(("name", "change"), EQUIVALENT, ids=[": ".join(change) for change in EQUIVALENT])
def test_equivalent_mutant_is_neither_refuted_nor_proved(name: str, change: str) -> None:
    """A change may be possible in several places of a rule. At least one of these mutants must be equivalent."""
    changed = [mutant.rule for mutant in mutants(RULES[name]) if mutant.change == change]
    verdicts = [(decide(one, cases=100), proved(one) is None) for one in changed]
    assert any(found.counterexample is None and found.decided and not is_proved for found, is_proved in verdicts)


@pytest.mark.slow
@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in EQUIVALENT))
def test_equivalent_mutants_survive_more_draws(name: str) -> None:
    assert [change for known, change in EQUIVALENT if known == name] == score(RULES[name]).survivors


@pytest.mark.long
def test_table_and_scores_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert rule_proofs.main(["get_gen"]) == 0
    assert "proved" in capsys.readouterr().out
    assert rule_proofs.main(["--mutants", "get_gen"]) == 0
    assert "mutants found false" in capsys.readouterr().out
