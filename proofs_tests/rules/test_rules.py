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
from rewrites.named_operators import padding
from rewrites.rule import Body, Cond, Elem, ElemT, Equation, Index, Matrix, Rule, Vector, equation, rule
from rewrites.rule import given as premises
from rewrites.rule_checking import exhaustion
from rewrites.rule_checking.exhaustion import Counterexample, compared, decide
from rewrites.rule_checking.samples import Sample, drawn_statement, sampled
from rewrites.rule_checking.status import Status, determine_status
from rewrites.rule_checking.symbolic import proved
from rewrites.rules import RULES, sums
from rewrites.rules.bounded import status_name

pytestmark = pytest.mark.sampled

DECLARED = [one.name for one in declared_once()]
OF_ANOTHER_OPERATOR = [name for name in RULES if name not in DECLARED]
SAMPLE = DECLARED[::32]
NEEDS_ONE = ("log_access", "pointwise_log", "gen_log", "select_log", "ll_log", "where_log")
"""Rules whose logarithms are rational at 1 only."""


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


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", [name for name in DECLARED if status_name(name) == "proved"])
def test_proved_rule_holds_at_small_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses fewer choices than for user-defined rules. A slow test uses all."""
    for bound, fewer in (("SPELLED", 10), ("UNLIKE", 2), ("HIGHER", 20), ("FEWEST", 1)):
        monkeypatch.setattr(exhaustion, bound, fewer)
    holds_at_small_sizes(name, cases=60)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_ANOTHER_OPERATOR)
def test_rule_of_a_schema_holds_at_small_sizes(name: str) -> None:
    """These rules share their declaration with a tested rule."""
    holds_at_small_sizes(name)


@pytest.mark.thinned(2)
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
@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", RULES)
def test_rule_holds_for_hypothesis(name: str) -> None:
    check_with_hypothesis(RULES[name], 6)


def check_proof_status(name: str) -> None:
    stuck = proved(RULES[name])
    assert status_name(name) == ("proved" if stuck is None else "bounded"), stuck


@pytest.mark.parametrize("name", DECLARED)
def test_proof_status_of_each_declaration(name: str) -> None:
    check_proof_status(name)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", OF_ANOTHER_OPERATOR)
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
    """Check that every mutant is refuted, proved or listed as equivalent, and none is refuted and proved."""
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
@pytest.mark.thinned(2)
@pytest.mark.parametrize(("name", "change"), EQUIVALENT, ids=[": ".join(change) for change in EQUIVALENT])
def test_equivalent_mutant_is_neither_refuted_nor_proved(name: str, change: str) -> None:
    """If a change is possible in two places, one of them is equivalent."""
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


@rule(family="false", source="Fig. 4.6 as printed")
def swapped_pads(v: Vector, k: Index) -> Equation:
    """E4: what is added on the left, dropped on the right."""
    return equation(atl.truncr(k, atl.padl(k, v)), v)


@rule(family="false", source="8.2.1 as printed")
def whole_tile(v: Vector, k: Index) -> Equation:
    """E10: a whole tile is dropped where k divides the extent."""
    return equation(atl.truncr(k - v.shape[0] % k, atl.flatten(atl.split(k, v))), v)


@rule(family="false", source="")
def eta_without_premise(n: Index, v: Vector) -> Equation:
    """A generation of the wrong extent."""
    return equation(atl.gen(n, lambda i: v[i]), v)


@rule(family="false", source="")
def flatten_of_transpose(v: Matrix) -> Equation:
    """The order of storage does matter."""
    return equation(atl.flatten(atl.transpose(v)), atl.flatten(v))


@rule(family="false", source="")
def hoisted_product(lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A sum of products is not a product of sums."""
    return equation(atl.sum((lo, hi), lambda i: a(i) * b(i)), atl.sum((lo, hi), a) * atl.sum((lo, hi), b))


@rule(family="false", source="")
def sum_without_order(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum over a range that runs backwards is empty: it is not split there."""
    return equation(atl.sum((lo, hi), e), atl.sum((lo, 0), e) + atl.sum((0, hi), e))


@rule(family="false", source="")
def read_beyond(n: Index, e: Body[Index], k: Index) -> Equation:
    """An element beyond the last one is zero."""
    return equation(atl.gen(n, e)[k], e(k), premises(k >= 0, k <= n))


# Found by an attack: each was once accepted.


@rule(family="false", source="")
def collapse_of_negatives(n: Index, k: Index, e: Body[Index, Index]) -> Equation:
    """n * k is positive where both are negative; a body that does not use p // k does not ask for a positive k."""
    nested = atl.sum(n, lambda i: atl.sum(k, lambda j: e(i, j)))
    return equation(nested, atl.sum(n * k, lambda p: e(p // k, p % k)))


@rule(family="false", source="")
def tiles_of_negatives(n: Index, k: Index, e: Body[Index]) -> Equation:
    """0 // k is 0 whatever k is: there are no tiles where n = 1 - k."""
    tiles = atl.sum(atl.ceildiv(n, k), lambda o: atl.sum(k, lambda i: atl.guard(o * k + i < n, e(o * k + i))))
    return equation(atl.sum(n, e), tiles)


@rule(family="false", source="")
def divisor_taken_for_granted(n: Index, k: Index, e: Body[Index]) -> Equation:
    """A body that does not use its index has no divisor."""
    return equation(e(n // k), atl.guard(k > 0, e(n // k)))


@rule(family="false", source="")
def false_from_six(n: Index, e: Body[Index]) -> Equation:
    """The sum of the first five terms, true at small sizes."""
    return equation(atl.sum(n, e), atl.sum(atl.imin(n, 5), e))


@rule(family="false", source="")
def body_taken_as_affine(x: ElemT, z: ElemT, e: Body[ElemT]) -> Equation:
    """Not every function of a tensor is linear in it and a constant."""
    return equation(atl.let(x + z, e), e(x) + e(z) - e(padding(x)))


@rule(family="false", source="")
def condition_without_gaps(a: Index, p: Cond[Index], e: Elem) -> Equation:
    """A condition may hold at a and a + 2, and not between."""
    return equation(atl.guard(p(a) & p(a + 2), e), atl.guard(p(a) & p(a + 1) & p(a + 2), e))


@rule(family="false", source="")
def odd_elements_vanish(n: Index, e: Body[Index]) -> Equation:
    """True for no n but those of no odd index: an induction on half of n would prove it."""
    return equation(atl.sum(n, lambda i: guard(i % 2 >= 1, e(i))), atl.sum(0, e))


@rule(family="false", source="")
def even_sums_vanish(n: Index, e: Body[Index]) -> Equation:
    """True for even n only, as the elements cancel in pairs."""
    return equation(atl.sum(n, lambda i: guard(n % 2 >= 1, e(i))), atl.sum(0, e))


# Attacks on guards taken for ranges of sums.


@rule(family="false", source="")
def tiles_without_the_last(n: Index, k: Index, e: Body[Index]) -> Equation:
    """The terms after the last whole tile are forgotten."""
    tiles = atl.sum(n // k, lambda o: atl.sum(k, lambda i: guard(o * k + i < n, e(o * k + i))))
    return equation(atl.sum(n, e), tiles, premises(k > 0, n >= 0))


@rule(family="false", source="")
def tiles_that_overlap(n: Index, k: Index, e: Body[Index]) -> Equation:
    """The first term of a tile is also the last one of the tile before."""
    tiles = atl.sum(atl.ceildiv(n, k), lambda o: atl.sum(k + 1, lambda i: guard(o * k + i < n, e(o * k + i))))
    return equation(atl.sum(n, e), tiles, premises(k > 0))


@rule(family="false", source="")
def guard_of_one_term_of_two(n: Index, m: Index, e: Body[Index], f: Body[Index]) -> Equation:
    """The second addend has no guard."""
    return equation(
        atl.sum(n, lambda i: guard(i < m, e(i)) + f(i)), atl.sum(m, lambda i: e(i) + f(i)), premises(m >= 0, m <= n)
    )


@rule(family="false", source="")
def guard_beyond_the_sum(lo: Index, hi: Index, a: Index, b: Index, e: Body[Index]) -> Equation:
    """The sum may end before the range of the guard."""
    return equation(atl.sum((lo, hi), lambda k: guard((a <= k) & (k < b), e(k))), atl.sum((a, b), e), premises(lo <= a))


FALSE = (
    tiles_without_the_last,
    tiles_that_overlap,
    guard_of_one_term_of_two,
    guard_beyond_the_sum,
    odd_elements_vanish,
    even_sums_vanish,
    collapse_of_negatives,
    tiles_of_negatives,
    divisor_taken_for_granted,
    false_from_six,
    body_taken_as_affine,
    condition_without_gaps,
    swapped_pads,
    whole_tile,
    eta_without_premise,
    flatten_of_transpose,
    hoisted_product,
    sum_without_order,
    read_beyond,
)


@pytest.mark.parametrize("stated", FALSE, ids=lambda stated: stated.name)
def test_false_rule_is_refuted_and_not_proved(stated: Rule) -> None:
    assert decide(stated, cases=300).counterexample is not None
    assert isinstance(proved(stated), str)
    assert determine_status(stated).status == Status.UNSUPPORTED


@pytest.mark.long
@pytest.mark.parametrize("stated", FALSE[12:], ids=lambda stated: stated.name)
def test_hypothesis_refutes_a_false_rule(stated: Rule) -> None:
    with pytest.raises(AssertionError, match="Counterexample"):
        check_with_hypothesis(stated, 500, [Phase.generate])
