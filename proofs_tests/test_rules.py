"""Every rule holds at small sizes for all element values, and every mutant that is not equivalent is found."""

from __future__ import annotations

import pytest

import atl
from proofs_tests.exhaustion import decide
from proofs_tests.mutation import EQUIVALENT, score
from rewrites.rule import Body, Equation, Index, Matrix, Vector, equation, rule
from rewrites.rules import RULES


@pytest.mark.parametrize("name", RULES)
def test_a_rule_holds_at_small_sizes_for_all_elements(name: str) -> None:
    verdict = decide(RULES[name], cases=150)
    assert verdict.counterexample is None, str(verdict.counterexample)
    assert verdict.decided >= 2
    assert verdict.ranks <= {0, 1}


@pytest.mark.parametrize("name", RULES)
def test_every_mutant_of_a_rule_is_found_false_or_explained(name: str) -> None:
    found = score(RULES[name], cases=150)
    unexplained = [survivor for survivor in found.survivors if (name, survivor) not in EQUIVALENT]
    assert not unexplained


def test_no_explanation_is_of_a_mutant_that_is_found() -> None:
    for name, change in EQUIVALENT:
        assert change in score(RULES[name], cases=150).survivors


def test_a_rule_has_a_law_a_family_and_a_source() -> None:
    for stated in RULES.values():
        assert stated.law
        assert stated.family
        assert stated.source


# -- rules that are false ---------------------------------------------------------------------------------------------


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
    """A sum of products is no product of sums."""
    return equation(atl.sum((lo, hi), lambda i: a(i) * b(i)), atl.sum((lo, hi), a) * atl.sum((lo, hi), b))


@pytest.mark.parametrize(
    "stated", [swapped_pads, whole_tile, eta_without_premise, flatten_of_transpose, hoisted_product]
)
def test_a_false_rule_is_found(stated: object) -> None:
    from rewrites.rule import Rule

    assert isinstance(stated, Rule)
    assert decide(stated, cases=200).counterexample is not None
