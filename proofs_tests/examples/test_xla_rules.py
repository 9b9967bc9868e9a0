# mypy: disallow-any-generics=False
"""The rules of XLA in `examples/xla_rules.py` and `examples/xla_further_rules.py` are proved for all sizes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

import atl
from examples import xla_further_rules, xla_rules
from rewrites.errors import DoesNotApply, FalseRule
from rewrites.user_rules import Elem, Equation, Scalar, equation, proof_status, rule

EVERY = "proved for all sizes and every rank"
FIRST, *QUICK = ("slice_01", "concat_01", "divmod_03", "dyslice_02", "reduce_02", "reverse_02")
ONLY_TESTED = {
    "exp_over_exp", "over_exp", "log_of_exp", "root_of_square", "abs_of_product", "floor_of_floor", "max_of_negations",
    "shifted_for_divided", "masked_for_remainder", "bits_xor_themselves", "cast_of_cast",
}  # fmt: skip


@pytest.mark.parametrize("name", [FIRST, *(pytest.param(name, marks=pytest.mark.long) for name in QUICK)])
def test_some_rules_are_proved(name: str) -> None:
    function = next(each for each in xla_rules.LAWS if each.__name__ == name)
    assert str(proof_status(rule(function))) == EVERY


@pytest.mark.slow
def test_all_rules_are_proved() -> None:
    found = {name: str(proof_status(each)) for name, each in xla_rules.rules().items()}
    assert len(found) == 119
    others = {name: status for name, status in found.items() if not status.startswith(EVERY)}
    # The convolutions are about numbers: they have no elements of different ranks.
    assert others == dict.fromkeys(("conv_00", "conv_01", "conv_03"), "proved for all sizes")


def elementwise(test: Callable[[Any, Any], Any], extremum: Callable[[Any, Any], Any]) -> Callable[..., Equation]:
    """Return the function of a rule: where a test of an element and a number holds, their extremum is the element."""

    def bounded(a: Elem, low: Scalar) -> Equation:
        """A bound of an element is neutral."""
        other = xla_rules.full(a.shape, low)
        return equation(atl.where(test(other, a), extremum(a, other), a), a)

    return bounded


@pytest.mark.long
def test_bounds_of_elements_are_neutral() -> None:
    assert str(proof_status(rule(elementwise(operator.le, atl.maximum)))) == EVERY
    assert str(proof_status(rule(elementwise(operator.ge, atl.minimum)))) == EVERY


@pytest.mark.long
@pytest.mark.parametrize(
    ("test", "extremum"),
    [
        (operator.ge, atl.maximum),
        (operator.le, atl.minimum),
        (operator.ne, atl.maximum),
        (lambda low, a: low <= a + 1, atl.maximum),
        (lambda low, a: low <= a * a, atl.maximum),
        (lambda low, a: low <= atl.maximum(a, 0), atl.maximum),
        (lambda low, _: low <= 0, atl.maximum),
        (lambda low, _: low <= -(2.0**1000), lambda a, low: atl.maximum(a, low) * 0),
    ],
    ids=["ge", "min", "ne", "one above", "square", "positive part", "negative number", "rarely"],
)
def test_numbers_that_do_not_bound_elements_are_not_neutral(
    test: Callable[[Any, Any], Any], extremum: Callable[[Any, Any], Any]
) -> None:
    try:
        status = str(proof_status(rule(elementwise(test, extremum))))
    except FalseRule:
        return
    assert not status.startswith("proved")


@pytest.mark.slow
def test_further_rules_are_proved() -> None:
    found = {name: str(proof_status(each)) for name, each in xla_further_rules.rules().items()}
    assert len(found) == 51
    assert {name for name, status in found.items() if status.startswith("tested")} == ONLY_TESTED
    assert all(status.startswith(EVERY) for name, status in found.items() if name not in ONLY_TESTED)


n, m, k = atl.sizes("n m k")


@pytest.mark.long
def test_rules_of_gathers_apply_at_positions_from_tensors_of_integers() -> None:
    made = {law.__name__: rule(law) for law in xla_further_rules.LAWS if law.__name__.startswith("gather_")}
    v, w = atl.tensor("v", n), atl.tensor("w", n)
    f, h = atl.tensor("f", m, dtype="int32", range=(0, n)), atl.tensor("h", m, dtype="int32")
    g = atl.tensor("g", k, dtype="int32", range=(0, m))
    for name, source in {
        "gather_of_sum": v + w,
        "gather_of_broadcast": atl.gen(n, lambda _: v[0]),
        "gather_of_reversed": atl.gen(n, lambda j: v[n - 1 - j]),
        "gather_of_concatenation": atl.concat(v, w),
    }.items():
        program = atl.program("p", [v, w, f], atl.gen(m, lambda i, of=source: of[f[i]]), given=[n >= 1])
        assert atl.reschedule(program).rw(made[name]).done().rhs != program
        program = atl.program("p", [v, w, h], atl.gen(m, lambda i, of=source: of[h[i]]), given=[n >= 1])
        with pytest.raises(DoesNotApply, match=r"a premise fails: 0 <= h\[i\]"):
            atl.reschedule(program).rw(made[name])
    program = atl.program("p", [v, f, g], atl.gen(k, lambda i: atl.gen(m, lambda j: v[f[j]])[g[i]]))
    assert "v[f[g[i]]]" in str(atl.reschedule(program).rw(made["gather_of_gather"]).done().rhs)


def test_a_further_rule_is_proved() -> None:
    assert str(proof_status(rule(xla_further_rules.product_with_identity))) == EVERY
