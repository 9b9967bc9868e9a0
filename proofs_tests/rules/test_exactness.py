"""Exactness of rules: labels agree with what is decided, samples do not refute them, and other orders are noticed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import atl
from atl.core.index import Var, floordiv, index
from atl.core.substitution import close, instantiate
from atl.core.terms import Binary, Expr, Reduce
from atl.core.traversal import Path, children
from proofs_tests.rules.exactness_samples import broken, has_floats
from proofs_tests.rules.mutation import declared_once
from rewrites.egraph.equality import replace_at
from rewrites.errors import RoundingStep
from rewrites.kernel import reflexivity, rewrite, symmetry, transitivity
from rewrites.rule import Body, Elem, Equation, Index, Rule, equation, rule
from rewrites.rule_checking import exactness
from rewrites.rule_checking.exactness import Exactness, determine_exactness
from rewrites.rule_checking.registry import exactness_of
from rewrites.rules import RULES
from rewrites.rules.bounded import FINITE, ROUNDING, exactness_name

pytestmark = pytest.mark.sampled

DECLARED = [one.name for one in declared_once()]
OF_ANOTHER_OPERATOR = [name for name in RULES if name not in DECLARED]
WITH_FLOATS = [name for name in RULES if has_floats(RULES[name])]


@pytest.mark.parametrize("name", DECLARED)
def test_exactness_of_each_declaration(name: str) -> None:
    assert str(determine_exactness(RULES[name])) == exactness_name(name)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", OF_ANOTHER_OPERATOR)
def test_exactness_of_rules_of_a_schema(name: str) -> None:
    assert str(determine_exactness(RULES[name])) == exactness_name(name)


def test_lists_contain_rules() -> None:
    assert set(RULES) >= FINITE | ROUNDING
    assert not FINITE & ROUNDING


@pytest.mark.parametrize("name", [name for name in WITH_FLOATS if exactness_name(name) == "bits"])
def test_samples_do_not_refute_bits(name: str) -> None:
    assert broken(RULES[name], 15)[1] is None


@pytest.mark.parametrize("name", [name for name in WITH_FLOATS if exactness_name(name) == "finite"])
def test_samples_do_not_refute_bits_of_finite_elements(name: str) -> None:
    assert broken(RULES[name], 15, finite=True)[1] is None


@pytest.mark.parametrize("name", ["sum_add", "mul_assoc", "add_assoc", "mul_add"])
def test_samples_refute_bits_of_rules_that_round(name: str) -> None:
    assert broken(RULES[name], 400, finite=True)[1] is not None


# -- sums in another order --------------------------------------------------------------------------------------------


def _sums(term: Expr, path: Path = ()) -> Iterator[tuple[Path, Reduce]]:
    if isinstance(term, Reduce) and term.monoid == "sum":
        yield path, term
    for position, child in enumerate(children(term)):
        yield from _sums(child.expr, (*path, position))


def reassociated(term: Expr) -> Iterator[Expr]:
    """Yield the term with a sum from its last term to its first, and with a sum of two halves."""
    for path, found in _sums(term):
        variable = Var(1 << 40, "r")
        last = found.low + found.high - 1
        yield replace_at(
            term, path, replace(found, body=close(instantiate(found.body, last - index(variable)), variable))
        )
        middle = found.low + floordiv(found.high - found.low, index(2))
        halves = replace(found, high=middle), replace(found, low=middle)
        yield replace_at(term, path, Binary("add", *halves))


def mutants(stated: Rule) -> Iterator[Rule]:
    """Yield the rule with a sum of its right side in another order, at the lowest ranks."""
    ranks, statement = next(iter(stated.statements.items()))
    for other in reassociated(statement.rhs):
        yield replace(stated, statements={ranks: replace(statement, rhs=other)})


IN_ANY_ORDER = ("gen_scatter", "adjoint_of_access")
"""Rules with a sum in which only one term of each element is not zero."""


@pytest.mark.parametrize(
    "name", [name for name in DECLARED if exactness_name(name) != "rounds" and name not in IN_ANY_ORDER]
)
def test_another_order_rounds(name: str) -> None:
    for mutant in mutants(RULES[name]):
        assert determine_exactness(mutant) == Exactness.ROUNDS, mutant.statements


def test_short_sums_do_not_show_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule whose sums were only tried with few terms counts as one that rounds."""
    monkeypatch.setattr(exactness, "LONG", 50)
    assert determine_exactness(RULES["sum_shift"]) == Exactness.ROUNDS


# -- theorems ---------------------------------------------------------------------------------------------------------


def _program() -> atl.Program:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    return atl.program("total", [x], 2 * atl.sum(n, lambda i: x[i] + 0))


def test_exactness_of_a_theorem_is_that_of_its_weakest_step() -> None:
    s = atl.reschedule(_program())
    assert s.done().exactness == Exactness.BITS
    assert s.rw("mul_comm").done().exactness == Exactness.BITS
    assert s.rw("add_zero").done().exactness == Exactness.FINITE
    assert s.done().rounding == ()
    theorem = s.rw("sum_mul_right", reverse=True).done()
    assert theorem.exactness == Exactness.ROUNDS
    assert theorem.rounding == (RULES["sum_mul_right"],)


def test_strict_session_refuses_steps_that_round() -> None:
    s = atl.reschedule(_program(), strict=True).rw("mul_comm").rw("add_zero")
    with pytest.raises(RoundingStep, match="sum_mul_right changes how floats are rounded") as caught:
        s.rw("sum_mul_right", reverse=True)
    assert caught.value.rule is RULES["sum_mul_right"]
    assert "loops over results" in str(caught.value)
    assert s.done().exactness == Exactness.FINITE


def test_strict_tactics_round_nothing() -> None:
    n, m = atl.sizes("n m")
    a = atl.tensor("a", n, m)
    rows = atl.program("rows", [a], atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j])))
    assert atl.reschedule(rows, strict=True).tile("i", 8).done().exactness >= Exactness.FINITE
    with pytest.raises(RoundingStep, match="tile_sum") as caught:
        atl.reschedule(rows, strict=True).tile("j", 8)
    assert 's.tile("i", 8)' in str(caught.value)


def test_strict_theorem_takes_no_rounding_step_from_another() -> None:
    program = _program()
    loose = atl.reschedule(program).rw("sum_mul_left", reverse=True).done()
    with pytest.raises(RoundingStep):
        transitivity(reflexivity(program, strict=True), loose)
    start = symmetry(reflexivity(program, strict=True))
    step = loose.steps[0]
    with pytest.raises(RoundingStep):
        rewrite(start, step.rule, step.path, step.arguments, reverse=step.reverse)


def test_every_rounding_step_is_refused() -> None:
    """A strict theorem refuses a rule that rounds before it looks at the term."""
    start = reflexivity(_program(), strict=True)
    for name in ROUNDING:
        with pytest.raises(RoundingStep):
            rewrite(start, RULES[name], (), {})


def test_exactness_of_user_defined_rules() -> None:
    from rewrites.user_rules import rule as user_rule

    @user_rule
    def from_the_end(n: Index, e: Body[Index]) -> Equation:
        """A sum may start at its end."""
        return equation(atl.sum(n, e), atl.sum(n, lambda i: e(n - 1 - i)))

    @user_rule
    def twice(a: Elem[()]) -> Equation:
        """The order of the operands of a sum is free."""
        return equation(a + 2 * a, a * 2 + a)

    assert exactness_of(from_the_end) == Exactness.ROUNDS
    assert exactness_of(twice) == Exactness.BITS


def test_exactness_of_an_unknown_rule() -> None:
    @rule(family="sums")
    def unknown(a: Elem[()]) -> Equation:
        """It is not registered."""
        return equation(a, a)

    assert exactness_of(unknown) == Exactness.ROUNDS
