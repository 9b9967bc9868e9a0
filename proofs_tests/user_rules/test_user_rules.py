"""User-defined rules: proof status at the declaration, refusal of false rules, caveats of unproved ones."""

from __future__ import annotations

import copy
import gc
import json
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import atl
from atl.errors import InvalidArgument, InvalidName
from proofs_tests.user_rules import samples
from rewrites import reschedule, rules
from rewrites.certificates.certificate import describe, dumps
from rewrites.certificates.rule_json import rule_in
from rewrites.elaboration import stated
from rewrites.errors import CertificateError, DoesNotApply, FalseRule, NotATheorem, UntriedRule
from rewrites.kernel import reflexivity, rewrite
from rewrites.named_operators import literal
from rewrites.rule import metavariables_of
from rewrites.rule_checking.registry import status_of, status_text
from rewrites.session.display import described
from rewrites.user_rules import (
    Body,
    Elem,
    Equation,
    Index,
    Matrix,
    Rule,
    Scalar,
    Vector,
    equation,
    given,
    proof_status,
    rule,
)


def unproved_theorem() -> Any:
    return reschedule(samples.extremes()).rw(samples.larger_and_smaller).done()


def test_proof_status_at_the_declaration() -> None:
    assert str(proof_status(samples.telescope)) == "proved for all sizes and every rank"
    assert proof_status(samples.false_far_away).status == 2
    assert proof_status(samples.larger_and_smaller).status == 1
    assert "not proved: max, sqrt, casts and the like are compared" in str(proof_status(samples.larger_and_smaller))
    assert status_text(samples.telescope) == "user-defined rule, proved for all sizes and every rank"
    assert status_text(rules["get_gen"]) == "proved for all sizes"
    assert "proved for all sizes" in described(samples.telescope)


def forgets_a_term(n: Index, e: Body[Index]) -> Equation:
    """A sum does not need its last term."""
    return equation(atl.sum(n, e), atl.sum(n - 1, e))


def commutes(a: Elem, b: Elem) -> Equation:
    """A difference commutes."""
    return equation(a - b, b - a)


def is_positive(a: Scalar) -> Equation:
    """A positive number is its absolute value."""
    return equation(atl.abs(a), a, given(a > 0))  # type: ignore[arg-type]


def test_premises_about_values_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="the premise 0 < a is about values of elements") as caught:
        rule(is_positive)
    assert "atl.where" not in str(caught.value)


def test_normalizing_is_suggested_for_arithmetic_on_tensors() -> None:
    x = atl.tensor("x", atl.sizes("n"))
    s = reschedule(atl.program("extremes", [x], atl.maximum(x, 2) + atl.minimum(x, 2)))
    with pytest.raises(DoesNotApply, match=r"try: s.normalize\(\) first: then s.rw\(larger_and_smaller\) applies"):
        s.rw(samples.larger_and_smaller)
    s.normalize().rw(samples.larger_and_smaller)
    products = reschedule(atl.program("products", [x], atl.gen(x.shape[0], lambda i: x[i] * x[i])))
    with pytest.raises(DoesNotApply, match=r"expected arithmetic, the rule's b \+ c, found") as caught:
        products.rw("mul_add")
    assert "normalize" not in str(caught.value)


def is_square(a: Matrix) -> Equation:
    """A matrix has the shape of its transpose."""
    return equation(atl.transpose(a), a)


def root_of_square(a: Scalar) -> Equation:
    """The root of a square."""
    return equation(atl.sqrt(a * a), a)


def never(n: Index, e: Body[Index]) -> Equation:
    """Nothing is smaller and larger."""
    return equation(atl.sum(n, e), e(0), given(n <= 0, n >= 1))


def from_the_end(n: Index, e: Body[Scalar]) -> Equation:
    """A sum may be added from the other end."""
    return equation(atl.sum(n, e), atl.sum(n, lambda i: e(n - 1 - i)), given(n >= 0))


def branches(n: Index, e: Elem) -> Equation:
    """A condition has no truth value."""
    return equation(e, e) if n > 3 else equation(e, e + e)


def of_a_size(e: Body[Index]) -> Equation:
    """A separate size would be tried at one value."""
    return equation(atl.sum(atl.sizes("n"), e), e(0))


def of_a_tensor(e: Elem) -> Equation:
    """A tensor that is not a parameter."""
    return equation(e + atl.tensor("x"), e)


def says_nothing(e: Elem) -> Equation:
    return equation(e, e)


def returns_nothing(e: Elem) -> Any:
    """It is not an equation."""


def misspelt(e: Elem) -> Equation:
    """A name that is not there."""
    return equation(e, sofar(e))  # type: ignore[name-defined] # noqa: F821


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("function", "of", "says"),
    [
        (forgets_a_term, FalseRule, "breaks at: n = 1, e(0) = 1: the left side is 1, the right one 0"),
        (commutes, FalseRule, "breaks at: a = 1, b = 2: the left side is -1, the right one 1"),
        (is_square, FalseRule, "= 1: the left side has the shape (1, 0), the right one (0, 1)"),
        (root_of_square, FalseRule, "the left side is "),
        (never, UntriedRule, "no size meets the premise 1 <= n and those before it"),
        (from_the_end, InvalidArgument, "\n  try: e: Body[Index], if e is a function of an index"),
        (branches, InvalidArgument, "a condition has no truth value"),
        (of_a_size, InvalidArgument, "uses n, which is not one of its parameters"),
        (of_a_tensor, InvalidArgument, "uses x, which is not one of its parameters"),
        (says_nothing, InvalidArgument, "has no docstring"),
        (returns_nothing, InvalidArgument, "the function of a rule returned None"),
        (misspelt, InvalidArgument, "has no valid equation: NameError: name 'sofar' is not defined"),
    ],
)  # fmt: skip
def test_false_or_invalid_rule_is_refused(function: Callable[..., Any], of: type[atl.ATLError], says: str) -> None:
    with pytest.raises(of) as caught:
        rule(function)
    assert says in str(caught.value)


FALSE_SOMEWHERE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], str]] = {
    "int64 by float64": (lambda a: atl.cast("int64", atl.cast("float64", a)), lambda a: a, ""),
    "int32 by float32": (lambda a: atl.cast("int32", atl.cast("float32", a)), lambda a: a, ""),
    "int64 by int32": (lambda a: atl.cast("int64", atl.cast("int32", a)), lambda a: a, ""),
    "float64 by float32": (lambda a: atl.cast("float64", atl.cast("float32", a)), lambda a: a, ""),
    "float64 by int64": (lambda a: atl.cast("float64", atl.cast("int64", a)), lambda a: a, ""),
    "all by float32": (lambda a: atl.cast("int64", atl.cast("float32", a)), lambda a: atl.cast("int64", a), ""),
    "all by float32 to int32": (
        lambda a: atl.cast("int32", atl.cast("float32", a)),
        lambda a: atl.cast("int32", a),
        "",
    ),
    "all by int32": (lambda a: atl.cast("int64", atl.cast("int32", a)), lambda a: atl.cast("int64", a), ""),
    "exp of log": (lambda a: atl.exp(atl.log(a)), lambda a: a, "the left side is nan"),
    "square of a root": (lambda a: atl.sqrt(a) * atl.sqrt(a), lambda a: a, "the left side is nan"),
    "log of a square": (lambda a: atl.log(a * a), lambda a: 2 * atl.log(a), "the right one nan"),
}


@pytest.mark.parametrize("what", FALSE_SOMEWHERE)
def test_rule_false_at_extreme_or_negative_elements_is_refused(what: str) -> None:
    left, right, says = FALSE_SOMEWHERE[what]

    def false_somewhere(a: Scalar) -> Equation:
        """A law that holds for small positive elements."""
        return equation(left(a), right(a))

    with pytest.raises(FalseRule, match=r"breaks at: .*a = .*: the left side is .*, the right one .*") as caught:
        rule(false_somewhere)
    assert says in str(caught.value)


TRUE_EVERYWHERE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "int32 by float64": (lambda a: atl.cast("int32", atl.cast("float64", a)), lambda a: a),
    "int32 by int64": (lambda a: atl.cast("int32", atl.cast("int64", a)), lambda a: a),
    "float32 by float64": (lambda a: atl.cast("float32", atl.cast("float64", a)), lambda a: a),
    "float32 of all by float64": (
        lambda a: atl.cast("float32", atl.cast("float64", atl.cast("float32", a))), lambda a: atl.cast("float32", a),
    ),
    "log of exp": (lambda a: atl.log(atl.exp(a)), lambda a: a),
    "root of a square": (lambda a: atl.sqrt(a * a), atl.abs),
}  # fmt: skip


@pytest.mark.parametrize("what", TRUE_EVERYWHERE)
def test_true_rule_about_casts_or_roots_is_accepted(what: str) -> None:
    left, right = TRUE_EVERYWHERE[what]

    def true_everywhere(a: Scalar) -> Equation:
        """A law that holds for all elements."""
        return equation(left(a), right(a))

    assert proof_status(rule(true_everywhere)).status == 1


def through_a_float(a: Scalar) -> Equation:
    """Casting to int64 by way of float64 changes nothing, for element types of which that is true."""
    return equation(atl.cast("int64", atl.cast("float64", a)), atl.cast("int64", a))


def test_rule_false_for_large_integers_is_refused_there() -> None:
    stated_rule = rule(through_a_float)
    assert "of float elements only" in str(proof_status(stated_rule))
    for dtype in ("int64", "float64"):
        x = atl.tensor("x", dtype=dtype)
        s = reschedule(atl.program("p", [x], atl.cast("int64", atl.cast("float64", x))))
        if dtype == "float64":
            assert str(s.rw(stated_rule).goal).endswith("cast(int64, x)")
            continue
        with pytest.raises(NotATheorem, match=r"breaks at: elements of int64, a = .*: the left side is"):
            s.rw(stated_rule)


def unknown_annotation(a: Any) -> Equation:
    """A law."""
    return equation(a, a)


unknown_annotation.__annotations__["a"] = "Nowhere"


def with_number_as_signature(a: Elem) -> Equation:
    """A law."""
    return equation(a + a, 2 * a)


with_number_as_signature.__signature__ = 3  # type: ignore[attr-defined]


def with_default(n: Index = 3) -> Equation:  # type: ignore[assignment]
    """A law."""
    return equation(atl.sum(n, atl.value), atl.sum(n, atl.value))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: proof_status(rules["get_gen"]), "is not a user-defined rule"),
        (lambda: proof_status(3), "3 is not a user-defined rule"),  # type: ignore[arg-type]
        (lambda: rule(len), "is not a function"),  # type: ignore[arg-type]
        (lambda: rule(unknown_annotation), "a parameter of unknown_annotation cannot be read: NameError"),
        (lambda: rule(with_number_as_signature), "a parameter of with_number_as_signature cannot be read: TypeError"),
        (lambda: rule(with_default), "the parameter n of the rule with_default is not a metavariable"),
    ],
    ids=["of the catalogue", "a number", "no function", "annotation", "signature", "default"],
)
def test_invalid_declaration_of_a_rule_is_refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        call()


def test_catalogue_rule_is_not_replaced() -> None:
    def mul_comm(a: Elem, b: Elem) -> Equation:
        """A product commutes."""
        return equation(a * b, b * a)

    with pytest.raises(InvalidName, match="mul_comm is a rule of the catalogue"):
        rule(mul_comm)


def test_kernel_accepts_checked_rules_only() -> None:
    start = reflexivity(samples.program())
    arguments = reschedule(samples.program()).rw(samples.telescope).done().steps[0].arguments
    assert (
        rewrite(start, samples.telescope, (), arguments).rhs == reschedule(samples.program()).rw(samples.telescope).goal
    )
    for other in (
        replace(samples.telescope),
        replace(samples.telescope, statements=samples.false_far_away.statements),
        copy.copy(samples.telescope),
    ):
        with pytest.raises(NotATheorem, match="telescope is not a rule of the catalogue"):
            rewrite(start, other, (), arguments)


def test_refused_rule_is_not_accepted() -> None:
    kinds = metavariables_of(commutes)
    made = Rule("commutes", "own", "", "A difference commutes.", kinds, {(0,): stated(commutes, kinds, (0,))})
    assert status_of(made) is None
    with pytest.raises(NotATheorem, match="commutes is not a rule of the catalogue"):
        rewrite(reflexivity(samples.extremes()), made, (), {name: atl.tensor("x").node for name in kinds})


@pytest.mark.long
def test_unreferenced_rule_is_garbage_collected() -> None:
    def gone(e: Elem) -> Equation:
        """Return the term that is added to zero."""
        return equation(e + 0, e)

    held = weakref.ref(rule(gone))
    gc.collect()
    assert held() is None


def test_theorem_lists_its_unproved_rules() -> None:
    theorem = unproved_theorem()
    assert theorem.unproved == (samples.larger_and_smaller,)
    assert repr(theorem) == "extremes = extremes, by 1 step; NOT PROVED: it holds if larger_and_smaller (tested) does"
    assert describe(theorem).startswith(
        "NOT PROVED: it holds if larger_and_smaller (tested) does. Derived by 1 step, that"
    )
    assert "user-defined rule, tested" in describe(theorem)
    assert "NOT PROVED: it holds if larger_and_smaller (tested) does" in theorem._repr_html_()
    assert json.loads(dumps(theorem))["own"]["larger_and_smaller"]["grade"] == 1


def test_theorem_by_a_proved_rule_has_no_caveat() -> None:
    theorem = reschedule(samples.program()).rw(samples.telescope).done()
    assert theorem.unproved == ()
    assert repr(theorem) == "rise = rise, by 1 step"
    assert "not proved" not in theorem._repr_html_()
    assert describe(theorem).startswith("Proved by 1 step, that")


def test_theorem_by_an_unrefuted_false_rule_has_a_caveat() -> None:
    n, x = atl.sizes("n", min=0), atl.tensor("x")
    theorem = reschedule(atl.program("many", [x], atl.sum(n, lambda i: x))).rw(samples.false_far_away).done()
    assert theorem.unproved == (samples.false_far_away,)
    assert describe(theorem).startswith("NOT PROVED")
    assert repr(theorem) == f"many = many, by 1 step; {theorem.caveat}"


def test_session_finds_a_used_rule_by_name() -> None:
    s = reschedule(samples.extremes(), own=[samples.larger_and_smaller])
    assert s.rw("larger_and_smaller").goal == reschedule(samples.extremes()).rw(samples.larger_and_smaller).goal
    s = reschedule(samples.program())
    with pytest.raises(InvalidArgument, match=r"(?s)telescope is a user-defined rule.*s\.rw\(telescope\)"):
        s.rw("telescope")
    assert s.rw(samples.telescope).undo().branch().rw("telescope").goal == s.redo().goal
    assert reschedule(samples.program(), own=(samples.telescope,)).rw("telescope").goal == s.goal
    for wrong in ([rules["get_gen"]], samples.telescope, "telescope"):
        with pytest.raises(InvalidArgument, match="a list of user-defined rules"):
            reschedule(samples.program(), own=wrong)  # type: ignore[arg-type]


def test_script_imports_the_rule() -> None:
    theorem = reschedule(samples.program()).rw(samples.telescope).done()
    script = theorem.as_python()
    assert "from proofs_tests.user_rules.samples import telescope" in script
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["theorem"].rhs == theorem.rhs


@pytest.mark.long
def test_script_contains_the_equation_of_a_notebook_rule() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(samples.OF_EXTREMES, names)
    theorem = reschedule(samples.extremes()).rw(names["larger_and_smaller"]).done()
    script = theorem.as_python()
    assert "larger_and_smaller = rule_in('larger_and_smaller', " in script
    derived: dict[str, Any] = {}
    exec(script, derived)
    assert derived["theorem"].rhs == theorem.rhs
    found = status_of(names["larger_and_smaller"])
    assert found is not None
    false = script.replace(f'"grade":{int(found.status)}', f'"grade":{int(found.status) + 1}')
    with pytest.raises(CertificateError, match="claims that larger_and_smaller is"):
        exec(false, {})
    with pytest.raises(CertificateError, match="not the encoding of a rule"):
        rule_in("larger_and_smaller", "{")


def test_sweep_uses_the_given_rule_among_equal_names() -> None:
    x, y = atl.tensor("x"), atl.tensor("y")
    s = reschedule(atl.program("p", [x, y], (2 * x + x) * (3 * y + y) * (2 * y + y)))
    s.rw(samples.taken_out(2)).rw(samples.taken_out(3), all=True)
    assert s.goal.body == (3 * x * (4 * y) * (2 * y + y)).node


@pytest.mark.long
def test_rule_about_higher_ranks_applies_there() -> None:
    @rule
    def rows(v: Matrix) -> Equation:
        """The rows of a matrix make it up; of a tensor, the planes."""
        return equation(atl.transpose(atl.transpose(v)), v) if v.rank > 2 else equation(v + v, 2 * v)

    z = atl.tensor("z", *atl.sizes("n m k"))
    s = reschedule(atl.program("p", [z], atl.transpose(atl.transpose(z))))
    assert s.rw(rows).goal.body == z.node


@pytest.mark.parametrize("extent", [10**8, 10**15])
def test_rule_about_large_extents_is_proved_in_time(extent: int) -> None:
    def many(a: Scalar) -> Equation:
        """A sum of many equal terms."""
        return equation(atl.sum(extent, lambda i: a), extent * a)

    assert str(proof_status(rule(many))) == "proved for all sizes"


@pytest.mark.long
def test_integers_are_tested_where_their_squares_wrap() -> None:
    @rule
    def positive(a: Scalar, b: Scalar) -> Equation:
        """A sum of squares is larger than -1."""
        return equation(atl.maximum(a * a + b * b, literal(-1, a)), a * a + b * b)

    assert proof_status(positive).integer_counterexample is not None


@pytest.mark.long
def test_premises_that_few_sizes_meet_are_reached() -> None:
    @rule
    def slice_of_all(start: Index, end: Index, step: Index, v: Vector) -> Equation:
        """A slice from the first to the last element is the whole."""
        whole = atl.gen(atl.ceildiv(end - start, step), lambda i: v[start + step * i])
        return equation(whole, v, given(start == 0, step == 1, end == v.shape[0]))

    def and_a_wrong_one(size: Index, low: Index, gap: Index, e: Body[Index]) -> Equation:
        """False for five terms and more only, which a premise hides."""
        end = low + size + (size - 1) * gap
        return equation(
            atl.sum((low, end), e), atl.sum((low, end), lambda i: atl.guard(i - low < 5, e(i))), given(low == 4 * size)
        )

    assert proof_status(slice_of_all).cases >= 5 * 20
    with pytest.raises(FalseRule):
        rule(and_a_wrong_one)


@pytest.mark.long
def test_rule_with_few_choices_is_not_called_exhausted() -> None:
    @rule
    def triangle(n: Index) -> Equation:
        """The numbers below n add up to n * (n - 1) / 2."""
        return equation(atl.sum(n, atl.value), atl.value(n * (n - 1) // 2), given(n >= 0))

    found = proof_status(triangle)
    assert (found.cases, found.exhaustive) == (20, False)
    assert "equal at 20 choices of small sizes" in str(found)


@pytest.mark.long
def test_rules_with_casts_apply_to_each_element_type() -> None:
    @rule
    def cast_of_a_choice(a: Elem, n: Index, b: Elem) -> Equation:
        """A choice may be made after a cast."""
        return equation(
            atl.cast("float64", atl.select(n < 3, a, b)),
            atl.select(n < 3, atl.cast("float64", a), atl.cast("float64", b)),
        )

    for dtype in ("float32", "int32", "int64"):
        x = atl.tensor("x", 5, dtype=dtype)
        made = atl.gen(5, lambda i, x=x: atl.cast("float64", atl.select(i < 3, x[i], 2 * x[i])))
        s = reschedule(atl.program("p", [x], made)).rw(cast_of_a_choice)
        assert s.rw(cast_of_a_choice, reverse=True).goal.body == atl.program("p", [x], made).body


def test_bounded_rule_needs_tensors_without_negative_extents() -> None:
    """The rule was not compared for negative extents, but a tensor that is not evaluated may have one."""

    @rule
    def extent(v: Vector, x: Scalar) -> Equation:
        """An extent is not negative."""
        return equation(x, atl.guard(v.shape[0] >= 0, x))

    assert proof_status(extent).status == 2
    n = atl.sizes("n")
    y, x = atl.tensor("y", n), atl.tensor("x")
    start = atl.program("p", [y, x], x + y.sum())
    assert reschedule(start).rw(extent, v=y).done().caveat
    with pytest.raises(DoesNotApply, match="5 <= n"):
        reschedule(start).rw(extent, v=atl.gen(n - 5, lambda j: y[j]))
