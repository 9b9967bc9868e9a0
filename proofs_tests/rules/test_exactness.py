"""Exactness of rules: labels agree with what is decided, samples do not refute them, and other orders are noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

import atl
from atl import IndexExpr, Tensor
from atl.core.index import Var, floordiv, index
from atl.core.substitution import close, instantiate
from atl.core.terms import Binary, Expr, Reduce
from atl.core.traversal import Path, children
from proofs_tests.rules.exactness_samples import broken, has_floats
from proofs_tests.rules.mutation import declared_once
from rewrites.egraph.equality import replace_at
from rewrites.errors import DoesNotApply, RoundingStep
from rewrites.kernel import reflexivity, rewrite, symmetry, transitivity, with_provenance
from rewrites.rule import Body, Elem, Equation, Index, Rule, equation, given, rule
from rewrites.rule_checking import exactness
from rewrites.rule_checking.exactness import Exactness, determine_exactness
from rewrites.rule_checking.registry import exactness_of
from rewrites.rules import RULES
from rewrites.rules.bounded import FINITE, ROUNDING, exactness_name

pytestmark = pytest.mark.sampled

DECLARED = [one.name for one in declared_once()]
SCHEMA_INSTANCES = [name for name in RULES if name not in DECLARED]
WITH_FLOATS = [name for name in RULES if has_floats(RULES[name])]


@pytest.mark.thinned(13)
@pytest.mark.parametrize("name", DECLARED)
def test_exactness_of_each_declaration(name: str) -> None:
    assert str(determine_exactness(RULES[name])) == exactness_name(name)


@pytest.mark.thinned(17)
@pytest.mark.parametrize("name", SCHEMA_INSTANCES)
def test_exactness_of_rules_of_a_schema(name: str) -> None:
    assert str(determine_exactness(RULES[name])) == exactness_name(name)


def test_lists_contain_rules() -> None:
    assert set(RULES) >= FINITE | ROUNDING
    assert not FINITE & ROUNDING


@pytest.mark.thinned(13)
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


IN_ANY_ORDER = ("gen_scatter", "min_of_few")
"""Rules with a sum in which only one term of each element is not zero, or a sum that counts."""


@pytest.mark.thinned(13)
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


def test_strict_sparsify_names_the_rules_that_round() -> None:
    n, m = atl.sizes("n m")
    a, x = atl.tensor("A", n, m), atl.tensor("x", m)
    spmv = atl.program("spmv", [a, x], atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * x[j])))
    with pytest.raises(DoesNotApply, match="strict=True refuses sum_mul_right and sum_swap, which round") as caught:
        atl.reschedule(spmv, strict=True).sparsify("A", atl.CSR)
    assert "then call s.compile(strict=True)" in str(caught.value)
    atl.reschedule(spmv).sparsify("A", atl.CSR).compile(strict=True)


def test_strict_theorem_takes_no_rounding_step_from_another() -> None:
    program = _program()
    loose = atl.reschedule(program).rw("sum_mul_left", reverse=True).done()
    with pytest.raises(RoundingStep):
        transitivity(reflexivity(program, strict=True), loose)
    strict, step = reflexivity(program, strict=True), loose.steps[0]
    for start in (symmetry(strict), transitivity(strict, reflexivity(program)), with_provenance(strict, ())):
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


# -- values, casts and comparisons ------------------------------------------------------------------------------------


def _decided(law: Callable[..., Equation]) -> Exactness:
    return determine_exactness(rule(family="sums")(law))


def _values_of_a_sum(j: Index, k: Index) -> Equation:
    """Large indices are rounded."""
    return equation(atl.value(j) + atl.value(k), atl.value(j + k))


def _square_of_a_value(k: Index) -> Equation:
    """Large indices are rounded."""
    return equation(atl.value(k) * atl.value(k), atl.value(k * k))


def _casts_of_values(a: Elem[()], j: Index, k: Index) -> Equation:
    """Integers that are cast are rounded, too."""

    def cast(i: IndexExpr) -> Tensor:
        return atl.cast("float32", atl.value(i) + 0 * atl.cast("int64", a))

    return equation(cast(j) + cast(k), cast(j + k))


def _casts_of_values_and_values(a: Elem[()], j: Index) -> Equation:
    """An index as an integer wraps."""
    converted = atl.cast("float32", atl.value(j) + 0 * atl.cast("int32", a))
    return equation(converted * 1.0, atl.value(j) + 0 * converted)


def _order_of_values(a: Elem[()], b: Elem[()], j: Index) -> Equation:
    """Large neighbours are equal."""
    zero = 0 * atl.cast("float32", a)
    return equation(atl.where(atl.value(j) + zero < atl.value(j + 1) + zero, a, b), a)


def _cast_of_a_maximum(a: Elem[()], b: Elem[()]) -> Equation:
    """A small number becomes a zero, which may be the second of two."""
    cast = partial(atl.cast, "float32")
    return equation(cast(atl.maximum(a, b)), atl.maximum(cast(a), cast(b)))


def _cast_of_a_minimum(a: Elem[()], b: Elem[()]) -> Equation:
    """As for maxima."""
    cast = partial(atl.cast, "float32")
    return equation(cast(atl.minimum(a, b)), atl.minimum(cast(a), cast(b)))


def _cast_of_a_relu(a: Elem[()]) -> Equation:
    """As for maxima."""
    return equation(atl.cast("float32", atl.maximum(a, 0)), atl.maximum(atl.cast("float32", a), 0))


def _cast_of_a_choice(a: Elem[()], b: Elem[()]) -> Equation:
    """Numbers that differ may have one cast."""
    cast = partial(atl.cast, "float32")
    return equation(cast(atl.where(a < b, b, a)), atl.where(cast(a) < cast(b), cast(b), cast(a)))


def _cast_of_a_sum(a: Elem[()], b: Elem[()]) -> Equation:
    """Casts round."""
    return equation(atl.cast("float64", a + b), atl.cast("float64", a) + atl.cast("float64", b))


def _cast_of_a_cast(a: Elem[()]) -> Equation:
    """The inner cast rounds."""
    return equation(atl.cast("float64", atl.cast("float32", a)), atl.cast("float64", a))


def _cast_to_half(a: Elem[()]) -> Equation:
    """The inner cast rounds, except for stored elements."""
    return equation(atl.cast("float32", atl.cast("float16", a)), atl.cast("float32", a))


def _cast_of_a_floor(a: Elem[()]) -> Equation:
    """A cast may round up to a whole number."""
    return equation(atl.cast("float32", atl.floor(a)), atl.floor(atl.cast("float32", a)))


def _cast_of_an_integer_sum(a: Elem[()], b: Elem[()]) -> Equation:
    """Integers wrap, and their casts round."""
    cast = partial(atl.cast, "float32")
    return equation(cast((a << 1) + b), cast(a << 1) + cast(b))


def _order_within_a_test_of_integers(a: Elem[()], b: Elem[()], c: Elem[()], i: Elem[()]) -> Equation:
    """An operation that only integers have is in a statement about floats."""
    test = atl.cast("int32", i) & 1 < 1
    return equation(atl.where(test, (a + b) + c, a), atl.where(test, a + (b + c), a))


def _order_in_a_rare_case(a: Elem[()], b: Elem[()], c: Elem[()]) -> Equation:
    """The sides differ for one of 64 combinations of results."""
    test = (a < b) & (b < c) & (a < 2 * b) & (b < 2 * c) & (a < 3 * b) & (b < 3 * c)
    return equation(atl.where(test, (a + b) + c, a), atl.where(test, a + (b + c), a))


def _negated_order(a: Elem[()], b: Elem[()]) -> Equation:
    """Comparisons with NaN are false."""
    return equation(atl.where(a < b, a, b), atl.where(b <= a, b, a))


def _test_in_another_type(a: Elem[()], b: Elem[()], x: Elem[()]) -> Equation:
    """A sum of literals that is exact in float64 only is compared."""

    def test(dtype: str) -> Tensor:
        large = (0 * atl.cast(dtype, x) + 1) * 256 * 256 * 256
        return large < large + 1

    return equation(atl.where(test("float32"), a, b), atl.where(test("float64"), a, b))


def _minus_zero(a: Elem[()]) -> Equation:
    """A literal may be -0."""
    return equation(a * -0.0, a * 0.0)


ROUND = (
    _values_of_a_sum, _square_of_a_value, _casts_of_values, _casts_of_values_and_values, _order_of_values,
    _cast_of_a_maximum, _cast_of_a_minimum, _cast_of_a_relu, _cast_of_a_choice, _cast_of_a_sum, _cast_of_a_cast,
    _cast_to_half, _cast_of_a_floor, _cast_of_an_integer_sum, _order_within_a_test_of_integers, _order_in_a_rare_case,
    _test_in_another_type,
)  # fmt: skip


@pytest.mark.parametrize("law", ROUND, ids=lambda law: law.__name__)
def test_values_casts_and_comparisons_round(law: Callable[..., Equation]) -> None:
    assert _decided(law) == Exactness.ROUNDS


def _split_at_a_cube(n: Index, k: Index, e: Body[Index]) -> Equation:
    """A sum of so few terms is not split."""
    cube = k * k * k
    return equation(atl.sum(n, e), atl.sum(cube, e) + atl.sum((cube, n), e), given(k >= 2, cube <= n))


def _backwards(n: Index, k: Index, e: Body[Index]) -> Equation:
    """Sums of so few terms have one term at most."""
    m = n // (k * k * k)
    return equation(atl.sum(m, e), atl.sum(m, lambda i: e(m - 1 - i)), given(k >= 2))


def _order_above_a_product(a: Elem[()], b: Elem[()], c: Elem[()], n: Index, k: Index) -> Equation:
    """No product of small sizes is so small."""
    far = n * k > 2 * n + 2 * k + n + k
    return equation(atl.select(far, (a + b) + c, c), atl.select(far, a + (b + c), c))


def _transposed(n: Index, e: Body[Index]) -> Equation:
    """It has statements for matrices only."""
    return equation(atl.sum(n, e), atl.transpose(atl.sum(n, lambda i: atl.transpose(e(n - 1 - i)))))


@pytest.mark.parametrize(
    "law", [_split_at_a_cube, _backwards, _order_above_a_product, _transposed], ids=lambda law: law.__name__
)
def test_sizes_that_are_not_compared_count_as_rounding(law: Callable[..., Equation]) -> None:
    assert determine_exactness(rule(family="sums")(law), cautious=True) == Exactness.ROUNDS


@pytest.mark.parametrize("law", [_negated_order, _minus_zero], ids=lambda law: law.__name__)
def test_nan_and_signs_of_zeros_break_bits(law: Callable[..., Equation]) -> None:
    assert _decided(law) == Exactness.FINITE


@pytest.mark.long
def test_equal_conversions_keep_bits() -> None:
    def values(a: Elem[()], j: Index, k: Index) -> Equation:
        """Equal indices have equal values."""
        return equation(a * atl.value(j + k) + atl.value(j), atl.value(j) + atl.value(k + j) * a)

    def casts(a: Elem[()], b: Elem[()], i: Elem[()]) -> Equation:
        """Equal operands have equal casts."""
        test, cast = i < 1, partial(atl.cast, "float16")
        return equation(cast(atl.where(test, -a, b)), atl.where(test, cast(-a), cast(b)))

    assert _decided(values) == _decided(casts) == Exactness.BITS


@pytest.mark.long
def test_strict_session_refuses_conversions_that_round() -> None:
    from rewrites.user_rules import rule as user_rule

    n, x = atl.sizes("n"), atl.tensor("x", 2, dtype="float64")
    y = atl.tensor("y", n)
    values = user_rule(_values_of_a_sum)
    sums = atl.gen(n, lambda i: y[i] * (atl.value(i + 16777217) + atl.value(i * i + 1)))
    with pytest.raises(RoundingStep):
        atl.reschedule(atl.program("sums", [y], sums), strict=True).rw(values)
    casts = user_rule(_cast_of_a_maximum)
    quotient = 1 / atl.cast("float32", atl.maximum(x[0], x[1]))
    with pytest.raises(RoundingStep):
        atl.reschedule(atl.program("quotient", [x], quotient), strict=True).rw(casts)


def test_exactness_of_an_unknown_rule() -> None:
    @rule(family="sums")
    def unknown(a: Elem[()]) -> Equation:
        """It is not registered."""
        return equation(a, a)

    assert exactness_of(unknown) == Exactness.ROUNDS


@pytest.mark.parametrize("limit", [4, 7, 40])
def test_other_order_at_large_sizes_is_noticed(limit: int) -> None:
    a, b, c = (atl.tensor(name, dtype="float32") for name in "abc")
    size = atl.value(atl.sizes("n"))
    other = atl.select(atl.sizes("n") < limit, (a + b) + c, a + (b + c))
    plain, changed = (atl.program("p", [a, b, c], body + 0 * size) for body in ((a + b) + c, other))
    with pytest.raises(atl.ATLError, match="changes how floats are rounded"):
        atl.reschedule(plain, strict=True).equal_to(changed)
