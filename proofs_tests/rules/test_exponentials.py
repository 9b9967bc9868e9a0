"""Rules of exponentials: what their proofs assume, and false variants."""

from __future__ import annotations

import pytest

import atl
from atl import exp
from atl.meaning.polynomials import Polynomials, number, symbol
from rewrites.rule import Body, Elem, Equation, Index, Rule, equation, rule
from rewrites.rule_checking import symbolic_reading, symbolic_values
from rewrites.rule_checking.exhaustion import decide
from rewrites.rule_checking.registry import status_text
from rewrites.rule_checking.status import OVER_THE_REALS, determine_status
from rewrites.rule_checking.symbolic import proved
from rewrites.rule_checking.symbolic_values import Read, atom, constant, exponential
from rewrites.rules import RULES, exponentials, stated_in
from rewrites.rules.bounded import OVER_REALS


def test_rules_over_the_real_numbers_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the laws of exp, the listed rules have no proof."""
    assert set(stated_in(exponentials)) == OVER_REALS
    assert all(proved(RULES[name]) is None for name in OVER_REALS)
    monkeypatch.setattr(symbolic_values, "exponential", lambda x: symbolic_reading._opaque("exp", x))
    assert not [name for name in OVER_REALS if proved(RULES[name]) is None]


@pytest.mark.long
def test_status_names_the_real_numbers() -> None:
    assert OVER_THE_REALS in status_text(RULES["exp_rescale"])
    assert OVER_THE_REALS in str(determine_status(RULES["exp_add"], cases=20))
    assert OVER_THE_REALS not in status_text(RULES["gen_exp"])


@rule(family="false")
def product_in_the_exponent(a: Elem, b: Elem) -> Equation:
    """The exponential of a product is a product."""
    return equation(exp(a * b), exp(a) * exp(b))


@rule(family="false")
def scaled_the_other_way(a: Elem, b: Elem, c: Elem) -> Equation:
    """The factor has the wrong sign."""
    return equation(exp(a - b) * exp(c - b), exp(a - c))


@rule(family="false")
def scaled_for_each_term(lo: Index, hi: Index, a: Body[Index], b: Body[Index], c: Elem) -> Equation:
    """The subtracted number depends on the term."""
    return equation(
        atl.sum((lo, hi), lambda i: exp(a(i) - b(i))) * exp(b(lo) - c), atl.sum((lo, hi), lambda i: exp(a(i) - c))
    )


@pytest.mark.parametrize(
    "stated", [product_in_the_exponent, scaled_the_other_way, scaled_for_each_term], ids=lambda stated: stated.name
)
def test_false_law_of_exp_is_refuted_and_not_proved(stated: Rule) -> None:
    assert decide(stated, cases=40).counterexample is not None
    assert proved(stated) is not None


def test_exponential_of_symbolic_values() -> None:
    a, b = atom(Read("a", ())), atom(Read("b", ()))
    assert exponential(a + b) == exponential(a) * exponential(b)
    assert exponential(a - b) * exponential(b) == exponential(a)
    assert exponential(a) * exponential(-a) == constant(1)
    assert exponential(constant(0)) == constant(1)
    assert exponential(a * b) != exponential(a) * exponential(b)
    assert exponential(constant(1000) * a) != exponential(a)


def test_exponential_of_polynomials() -> None:
    domain = Polynomials()
    a, b = symbol("a[]"), symbol("b[]")

    def of(x: object) -> object:
        return domain.unary("exp", "float64", x)  # type: ignore[arg-type]

    def times(x: object, y: object) -> object:
        return domain.binary("mul", "float64", x, y)  # type: ignore[arg-type]

    assert of(a + b) == times(of(a), of(b))
    assert times(of(a + -b), of(b)) == of(a)
    assert times(of(a), of(-a)) == number(1)
    assert of(number(0)) == number(1)
    assert of(a * b) != times(of(a), of(b))
    assert of(number(1000) * a) != of(a)
