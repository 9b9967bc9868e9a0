"""Premises about every element, `given_all(low <= a)`: judged, and proved where a rule is applied, or refused."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.checks.scope import outermost
from examples.xla_rules import clamp, full
from rewrites.certificates.certificate import describe
from rewrites.elaboration import stated
from rewrites.errors import CertificateError, DoesNotApply, FalseRule, PremiseFailed, UntriedRule
from rewrites.kernel import reflexivity, rewrite
from rewrites.rule import USER_FAMILY, Rule, metavariables_of
from rewrites.rule_checking.element_premises import is_true_everywhere, rule_without_tests
from rewrites.rule_checking.symbolic import proved
from rewrites.session.display import explained
from rewrites.session.rule_text import premises_text
from rewrites.user_rules import (
    Elem,
    Equation,
    Scalar,
    Vector,
    equation,
    given,
    given_all,
    proof_status,
    rule,
)

EVERY = "proved for all sizes and every rank"
n = atl.sizes("n")


def clamp_in_any_order(a: Elem, b: Elem, c: Elem) -> Equation:
    """If b <= c, a clamp may apply either limit first."""
    return equation(atl.maximum(b, atl.minimum(a, c)), clamp(b, a, c), given_all(b <= c))


def less_than_smaller(a: Elem, c: Scalar, d: Scalar) -> Equation:
    """A number below the smaller bound is below the larger one."""
    return equation((a < full(a.shape, c)) & (a < full(a.shape, d)), a < full(a.shape, c), given_all(c < d))


def larger(a: Elem, b: Elem) -> Equation:
    """The larger of two in order is the second."""
    return equation(atl.maximum(a, b), b, given_all(a <= b))


def positive(a: Elem) -> Equation:
    """A number that is not negative is its absolute value."""
    return equation(abs(a), a, given_all(a >= 0))


@pytest.mark.long
@pytest.mark.parametrize("law", [clamp_in_any_order, less_than_smaller, larger, positive])
def test_rule_with_a_premise_about_elements_is_proved(law: Callable[..., Equation]) -> None:
    assert str(proof_status(rule(law))) == EVERY


@pytest.mark.long
@pytest.mark.parametrize(
    "test",
    [
        lambda b, c: b >= c, lambda b, c: b <= c + 1, lambda b, c: b * b <= c * c, lambda b, c: b <= 0,
        lambda b, c: abs(b) <= abs(c), lambda b, c: atl.minimum(b, c) <= c, lambda b, c: b != c,
    ],
    ids=["ge", "one more", "squares", "zero", "absolute", "always", "differ"],
)  # fmt: skip
def test_rule_with_a_weaker_premise_is_false(test: Callable[[Any, Any], Any]) -> None:
    def wrong(a: Elem, b: Elem, c: Elem) -> Equation:
        """Either limit may be applied first."""
        return equation(atl.maximum(b, atl.minimum(a, c)), clamp(b, a, c), given_all(test(b, c)))

    with pytest.raises(FalseRule):
        rule(wrong)


@pytest.mark.long
def test_premise_is_proved_where_the_rule_is_applied(tmp_path: Path) -> None:
    made = rule(larger)
    x, y = atl.tensor("x", n), atl.tensor("y", n)

    def applied(body: Callable[[atl.IndexExpr], atl.Tensor]) -> atl.Theorem:
        return atl.reschedule(atl.program("p", [x, y], atl.gen(n, body))).rw(made).done()

    theorem = applied(lambda i: atl.maximum(y[i], atl.maximum(x[i], y[i])))
    assert "max(x[i], y[i])" in str(theorem.rhs)
    proved_premise = "for all elements that arrays can have, y[i] <= max(x[i], y[i])"
    assert f"premise {proved_premise}: by the order of elements" in explained(theorem.steps[-1], theorem.lhs)
    assert "no premises" not in describe(theorem)
    assert f"by the order of elements, at step 1, larger: {proved_premise}" in describe(theorem)
    assert premises_text(made) == ["a <= b"]
    theorem.save(tmp_path / "p.atl.json")
    assert str(atl.load(tmp_path / "p.atl.json")) == str(theorem)
    text = (tmp_path / "p.atl.json").read_text()
    assert '"tests"' in text
    (tmp_path / "p.atl.json").write_text(text.replace('"tests"', '"texts"'))
    with pytest.raises(CertificateError):
        atl.load(tmp_path / "p.atl.json")
    with pytest.raises(DoesNotApply, match=r"cannot be proved: for all elements .*, x\[i\] <= y\[i\]"):
        applied(lambda i: atl.maximum(x[i], y[i]))
    with pytest.raises(DoesNotApply, match="a premise cannot be proved: for all elements"):
        applied(lambda i: atl.let(x[i] + 1, lambda v: atl.maximum(v, y[i])))


@pytest.mark.long
@pytest.mark.parametrize(
    "test", [lambda a, b: (a < b) & (b < a), lambda a, b: a * a + b * b < 0], ids=["order", "wraps"]
)
def test_rule_with_a_premise_that_no_elements_meet_is_untried(test: Callable[[Any, Any], Any]) -> None:
    def unmet(a: Scalar, b: Scalar) -> Equation:
        """A number is one more than it is."""
        return equation(a, a + 1, given_all(test(a, b)))

    with pytest.raises(UntriedRule, match="no elements meet the premise"):
        rule(unmet)


@pytest.mark.long
def test_rule_with_a_premise_that_few_elements_meet_is_tested() -> None:
    @rule
    def roots(a: Scalar, b: Scalar) -> Equation:
        """Equal numbers have equal roots."""
        return equation(atl.sqrt(a), atl.sqrt(b) + (a - b), given_all(a == b))

    assert str(proof_status(roots)).startswith("tested")


def test_message_says_where_a_test_is_taken() -> None:
    def reversed_maximum(a: Vector, b: Vector) -> Equation:
        """The larger of two in order, reversed, with the test not reversed."""
        size = a.shape[0]

        def turned(v: atl.Tensor) -> atl.Tensor:
            return atl.gen(size, lambda i: v[size - 1 - i])

        return equation(turned(atl.maximum(a, b)), turned(b), given_all(a <= b))

    with pytest.raises(FalseRule, match="taken at the position of the sides: if the sides permute or reverse axes"):
        rule(reversed_maximum)

    def square(a: Scalar) -> Equation:
        """A number is its square."""
        return equation(a * a, a)

    with pytest.raises(FalseRule, match=r"condition on elements as a premise: equation\(left, right, given_all"):
        rule(square)


@pytest.mark.long
def test_kernel_has_one_error_for_premises_of_both_kinds() -> None:
    x, y = atl.tensor("x"), atl.tensor("y")
    start = reflexivity(atl.program("p", [x, y], atl.maximum(x, y)))
    with pytest.raises(PremiseFailed, match="required: for all elements that arrays can have, x <= y"):
        rewrite(start, rule(larger), (), {"a": x.node, "b": y.node})


def test_premise_about_other_elements_is_refused_with_a_reason() -> None:
    def sums(a: Vector) -> Equation:
        """A sum of numbers that are not negative."""
        total = atl.sum(a.shape[0], lambda i: abs(a[i]))
        return equation(total, atl.sum(a.shape[0], lambda i: a[i]), given_all(a >= 0))

    with pytest.raises(atl.errors.InvalidArgument, match="a premise is about elements of a tensor of rank 1"):
        rule(sums)
    with pytest.raises(atl.errors.InvalidArgument, match="is not a comparison of elements"):
        given_all(n <= 3)
    with pytest.raises(atl.errors.InvalidArgument, match=r"given_all\(low <= high\)"):
        given(atl.tensor("a") <= 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("premises", "named", "advice"),
    [
        (lambda a, k: (k <= n,), "k <= n", "given(…)"),
        (lambda a, k: (*given(k >= 0), "nonsense"), "'nonsense'", "given(…)"),
        (lambda a, k: [3], "3", "given(…)"),
        (lambda a, k: k <= n, "k <= n", "given(…)"),
        (lambda a, k: (a <= 0,), "a <= 0", "given_all(…)"),
        (lambda a, k: (a.node,), "", "given(…)"),
    ],
    ids=["condition", "text", "number", "no tuple", "comparison", "number of elements"],
)
def test_premise_that_was_not_made_by_given_is_refused(
    premises: Callable[[Any, Any], Any], named: str, advice: str
) -> None:
    a, k = atl.tensor("a"), atl.sizes("k")
    with pytest.raises(atl.errors.InvalidArgument) as caught:
        equation(a + a, 2 * a, premises(a, k))
    assert f"{named} is not a premise" in str(caught.value)
    assert f"equation(left, right, {advice})" in str(caught.value)


@pytest.mark.parametrize(
    ("sides", "proves"),
    [
        (lambda a, c, d: ((a < c) & (a < d), a < c), True),
        (lambda a, c, d: ((a < c) & (a < d), a < d), False),
        (lambda a, c, d: ((c < a) & (d < a), d < a), True),
        (lambda a, c, d: ((c < a) & (d < a), c < a), False),
        (lambda a, c, d: ((a < c) | (a < d), a < d), True),
        (lambda a, c, d: ((a < c) | (a < d), a < c), False),
    ],
    ids=["below", "below the larger", "above", "above the smaller", "below one", "below the smaller of them"],
)
def test_prover_alone_uses_the_order_in_its_direction(
    sides: Callable[[Any, Any, Any], tuple[Any, Any]], proves: bool
) -> None:
    def law(a: Scalar, c: Scalar, d: Scalar) -> Equation:
        """Comparisons with numbers in order."""
        return equation(*sides(a, c, d), given_all(c <= d))

    kinds = metavariables_of(law)
    made = Rule("law", USER_FAMILY, "", "a law", kinds, {(): stated(law, kinds, ())})
    assert (proved(rule_without_tests(made)) is None) == proves


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_nothing_is_proved_of_computed_integers(dtype: str) -> None:
    x = atl.tensor("x", 3, dtype=dtype)
    program = atl.program("p", [x], atl.gen(3, lambda i: (x[i] + 1) - 1 <= atl.maximum(x[i], 2)))
    assert is_true_everywhere(program.body, outermost(program)) == (dtype == "float64")
    plain = atl.program("p", [x], atl.gen(3, lambda i: x[i] <= atl.maximum(x[i], 2)))
    assert is_true_everywhere(plain.body, outermost(plain))


# -- tests that are proved for all elements ---------------------------------------------------------------------------

OPERATIONS: Final[dict[str, tuple[Callable[..., Any], ...]]] = {
    "float64": (atl.maximum, atl.minimum, operator.add, operator.sub, operator.mul, lambda a, b: abs(a) + b * 0),
    "int32": (atl.maximum, atl.minimum, operator.add, operator.mul, lambda a, b: abs(a), lambda a, b: -b),
}
COMPARISONS: Final = (operator.le, operator.lt, operator.ge, operator.eq, operator.ne)


def drawn(draw: random.Random, dtype: str) -> tuple[atl.Tensor, list[atl.Tensor]]:
    """Return a random test of the elements of two arrays, and the arrays. Many of them are true for all elements."""
    x, y = (atl.tensor(name, 3, dtype=dtype) for name in "xy")

    def value(i: Any, depth: int) -> Any:
        match draw.randrange(6) if depth else draw.randrange(2):
            case 0:
                return draw.choice((x, y))[i]
            case 1:
                return draw.choice((x[i], y[i], x[0], atl.cast(dtype, atl.value(draw.randint(-2, 2)))))
            case 2:
                return atl.let(value(i, depth - 1), lambda v: draw.choice(OPERATIONS[dtype])(v, value(i, depth - 1)))
            case _:
                return draw.choice(OPERATIONS[dtype])(value(i, depth - 1), value(i, depth - 1))

    def test(i: Any, depth: int) -> Any:
        if depth and draw.randrange(2):
            join = draw.choice((operator.and_, operator.or_, lambda a, b: atl.where(a, b, a), lambda a, b: a | ~b))
            return join(test(i, depth - 1), test(i, depth - 1))
        one, compared = value(i, 2), draw.choice(COMPARISONS)
        other = draw.choice((value(i, 2), one, atl.maximum(value(i, 1), one)))  # often in order
        return compared(one, other)

    return atl.gen(3, lambda i: test(i, 2)), [x, y]


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float64", "int32"])
@pytest.mark.parametrize("part", range(3))
def test_random_test_that_is_proved_is_true(dtype: str, part: int) -> None:
    count = 0
    for seed in range(100 * part, 100 * part + 100):
        draw = random.Random(f"{dtype} {seed}")
        test, inputs = drawn(draw, dtype)
        program = atl.program("test", inputs, test)
        if is_true_everywhere(program.body, outermost(program)):
            count += 1
            for round_ in range(40):
                values = np.random.default_rng(round_)
                few = (-(1 << 31), (1 << 31) - 1, -1, 0, 1, 2) if dtype == "int32" else (-2.5, -1, 0, 0.5, 1, 3)
                arrays = [values.choice(few, 3).astype(dtype) for _ in inputs]
                assert np.all(atl.evaluate(program, *arrays)), f"seed {seed}: {program} at {arrays}"
    assert count >= 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(120))
def test_random_rule_with_a_premise_is_true_where_its_premise_holds(seed: int) -> None:
    draw = random.Random(seed)

    def value(of: list[Any], depth: int) -> Any:
        if not depth or not draw.randrange(4):
            return draw.choice(of)
        step = draw.choice((atl.maximum, atl.minimum, lambda a, b: abs(a), operator.sub))
        return step(value(of, depth - 1), value(of, depth - 1))

    shape = draw.randrange(1 << 30)

    def law(a: Elem, b: Elem, c: Elem) -> Equation:
        """Two random terms are equal where a random test holds."""
        draw.seed(shape)
        of = [a, b, c, full(a.shape, 0)]
        test = draw.choice(COMPARISONS)(value(of, 1), value(of, 1))
        one = value(of, 2)
        other = draw.choice((value(of, 1), value(of, 2), atl.maximum(one, one), draw.choice((a, b, c))))
        return equation(one, other, given_all(test))

    try:
        made = rule(law)
    except atl.errors.ATLError:
        return
    if not str(proof_status(made)).startswith("proved") or (0,) not in made.statements:
        return
    inputs = {name: atl.tensor(name, dtype="float64") for name in "abc"}
    stated = made.statements[0,].instance({name: each.node for name, each in inputs.items()})
    sides = [
        atl.program("p", list(inputs.values()), atl.Tensor(side)) for side in (*stated.tests, stated.lhs, stated.rhs)
    ]
    for numbers in np.random.default_rng(seed).choice((-2.0, -1.0, 0.0, 0.5, 3.0), (200, 3)):
        test, left, right = (atl.evaluate(side, *map(np.float64, numbers)) for side in sides)
        assert not test or left == right, f"{stated} at {numbers}"
