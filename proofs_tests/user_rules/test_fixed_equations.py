"""A rule is the equations that its function returned at the declaration, one for each rank of elements."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

import atl
from atl.core import terms
from atl.core.index import constant
from atl.core.substitution import fresh_uid
from atl.errors import ATLError, InvalidArgument, RankError
from atl.prove import Facts, proves, statistics
from atl.surface.values import as_index, as_predicate
from rewrites import proof_trace, reschedule
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import FalseRule, NotATheorem
from rewrites.kernel import reflexivity, rewrite
from rewrites.rule_checking.samples import sampled
from rewrites.rule_statement import LARGEST_RANK, MAX_ELEMENT_RANK
from rewrites.user_rules import (
    Body,
    Elem,
    ElemT,
    Equation,
    Index,
    Matrix,
    Rule,
    Vector,
    equation,
    given,
    proof_status,
    rule,
)


@pytest.mark.long
def test_function_is_called_once_for_each_rank() -> None:
    ranks: list[int] = []

    @rule
    def doubled(e: Elem) -> Equation:
        """A term added to itself is doubled."""
        ranks.append(e.rank)
        return equation(e + e, 2 * e)

    assert ranks == list(range(LARGEST_RANK + 1))
    x = atl.tensor("x", 3, 4)
    theorem = reschedule(atl.program("p", [x], x + x)).rw(doubled).done()
    assert loads(dumps(theorem)).rhs == theorem.rhs
    assert len(proof_trace(theorem).calls) == 1
    assert "doubled" in theorem.as_python()
    assert "doubled" in theorem._repr_html_()
    assert ranks == list(range(LARGEST_RANK + 1))


@pytest.mark.long
def test_two_groups_have_every_pair_of_ranks() -> None:
    ranks: list[tuple[int, int]] = []

    @rule
    def exchanged(a: Elem, b: ElemT, c: ElemT) -> Equation:
        """A sum of two may be read from its other end."""
        ranks.append((a.rank, b.rank))
        return equation(atl.let(a, lambda _: b + c), atl.let(a, lambda _: c + b))

    low = list(product(range(MAX_ELEMENT_RANK + 1), repeat=2))
    assert ranks[: len(low)] == low
    assert set(ranks) == set(product(range(LARGEST_RANK + 1), repeat=2))
    assert list(exchanged.statements)[: len(low)] == low


FACTOR, FACTORS = 1, [1]


class Factors:
    ONE = 1


@pytest.mark.long
def test_later_changes_of_globals_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    factor = 1

    def scaled(e: Elem) -> Equation:
        """Once is once."""
        return equation(factor * (FACTOR * (FACTORS[0] * (Factors.ONE * e))), e)

    declared = rule(scaled)
    arguments = {"e": atl.tensor("x").node}
    before = declared.instance(arguments)
    factor = 2
    monkeypatch.setitem(globals(), "FACTOR", 3)
    monkeypatch.setitem(globals(), "FACTORS", [4])
    monkeypatch.setattr(Factors, "ONE", 5)
    monkeypatch.setattr(scaled, "__code__", (lambda e: equation(e, factor * e)).__code__)
    assert declared.instance(arguments) == before
    with pytest.raises(FalseRule):
        rule(scaled)


def test_stored_parameter_is_invalid_at_another_rank() -> None:
    kept: list[Any] = []

    @rule
    def keeps(e: Elem) -> Equation:
        """Of nothing but its parameters a rule is made."""
        kept.append(e)
        return equation(e + kept[0], 2 * e)

    assert list(keeps.statements) == [(0,)]


X = atl.tensor("x")
STATE = {"calls": 0, "last uid": 0, "last question": 0}


def _fails(e: Any) -> bool:
    try:
        e[0]
    except ATLError:
        return True
    return False


def _called_by_the_kernel() -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "rewrite":
            return True
    return False


def _counted() -> bool:
    STATE["calls"] += 1
    return STATE["calls"] > 5


LOOKS: dict[str, Callable[[Any, Any], bool]] = {
    "an attribute by its name": lambda _, e: isinstance(operator.attrgetter("node")(e), terms.Input),
    "a constant index": lambda k, _: as_index(k).constant == 7,
    "what the prover says": lambda k, _: proves(Facts(), as_predicate(k == 7)),
    "a builtin of another module": lambda _, e: vars(terms)["__builtins__"]["isinstance"](e.node, terms.Input),
    "its text": lambda _, e: str(e) == "x",
    "its element type": lambda _, e: e.dtype == "float32",
    "whether it is equal": lambda _, e: e.node == X.node,
    "an error that is caught": lambda k, e: _fails(e) and str(k) == "7",
    "who calls": lambda *_: _called_by_the_kernel(),
    "how often it was called": lambda *_: _counted(),
    "how much was proved": lambda *_: statistics.trivial > STATE["last question"],
    "how many variables were made": lambda *_: next(fresh_uid) > STATE["last uid"],
}


@pytest.mark.long
@pytest.mark.thinned(13)
@pytest.mark.sampled
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_no_inspection_makes_a_false_theorem(look: Callable[[Any, Any], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    def looks(k: Index, e: Elem) -> Equation:
        """Whatever k is, nothing is added to e."""
        return equation(e + e, 2 * e + (e if look(k, e) else 0 * e))

    STATE.update({"calls": 0, "last uid": next(fresh_uid) + 1000, "last question": statistics.trivial})
    declared = rule(looks)
    monkeypatch.setattr(statistics, "trivial", statistics.trivial + 1)
    while next(fresh_uid) <= STATE["last uid"]:
        pass
    theorem = rewrite(reflexivity(atl.program("p", [X], X + X)), declared, (), {"k": constant(7), "e": X.node})
    assert atl.evaluate(theorem.rhs, x=3) == 6


def test_trivial_equation_is_refused() -> None:
    def itself(v: Vector) -> Equation:
        """A vector is itself, and a matrix is its rows."""
        return equation(v, v if v.rank == 1 else atl.gen(v.shape[0], lambda i: v[i]))

    assert list(rule(itself).statements) == [(1,), (2,), (3,), (4,), (5,), (6,)]

    def nothing(e: Elem) -> Equation:
        """A tensor is itself."""
        return equation(e, e)

    with pytest.raises(InvalidArgument, match="both sides are the same"):
        rule(nothing)


def of_what_it_sees_at_once(e: Elem) -> Equation:
    """False where elements have no extents to loop over."""
    return equation(e, e if e.shape else e + e)


def of_errors(e: Elem) -> Equation:
    """False for elements that cannot be indexed."""
    return equation(e + e, (3 if _fails(e) else 2) * e)


@pytest.mark.parametrize("function", [of_what_it_sees_at_once, of_errors])
def test_each_rank_is_checked(function: Callable[..., Equation]) -> None:
    with pytest.raises(FalseRule):
        rule(function)


def test_source_line_is_the_application_of_the_rule() -> None:
    """The source line is not the declaration of the rule, nor its first use."""

    @rule
    def exchanged(a: Elem, b: Elem) -> Equation:
        """A sum commutes."""
        return equation(a + b, b + a)

    one, two = (
        reschedule(atl.program("p", [X], X + 1)).rw(exchanged).goal.body.source,
        reschedule(atl.program("p", [X], X + 1)).rw("add_comm").goal.body.source,
    )
    assert one is not None
    assert two is not None
    assert (one.file, two.line - one.line) == (two.file, 1) == (__file__, 1)


def rotated(v: atl.Tensor) -> atl.Tensor:
    """Bring the last axis to the front."""
    return atl.gen(v.shape[-1], *v.shape[:-1], lambda last, *rest: v[(*rest, last)]) if v.rank else v


def test_rule_false_from_rank_3_is_refused() -> None:
    def rotated_twice(v: Elem) -> Equation:
        """Rotating the axes twice changes nothing."""
        return equation(rotated(rotated(v)), v)

    with pytest.raises(FalseRule, match=r"left side has the shape \(1, 3, 2\), the right one \(2, 1, 3\)"):
        rule(rotated_twice)


@pytest.mark.thinned(13)
@pytest.mark.sampled
@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("side", [lambda v: v + v, lambda v: atl.maximum(v, -v) * atl.sqrt(v * v)], ids=["+", "max"])
def test_rule_false_at_one_rank_is_refused(rank: int, side: Callable[[Any], Any]) -> None:
    """Symbols decide the first case, and numbers the second."""

    def false_at(v: Elem) -> Equation:
        """True of all elements but those of one rank."""
        return equation(side(v), side(v) + (1 if len(v.shape) == rank else 0))

    def true_at_all(v: Elem) -> Equation:
        """True of all elements."""
        return equation(side(v) + 0, side(v))

    with pytest.raises(FalseRule):
        rule(false_at)
    assert proof_status(rule(true_at_all)).status >= 1


@pytest.mark.long
@pytest.mark.parametrize("rank", [2, 4])
def test_rule_false_at_one_pair_of_ranks_is_refused(rank: int) -> None:
    def false_at(v: Elem, w: ElemT) -> Equation:
        """True of all pairs of elements but one."""
        square = atl.sqrt(v * v)
        return equation(square, square + (1 if (v.rank, w.rank) == (4, rank) else 0))

    with pytest.raises(FalseRule):
        rule(false_at)


@rule
def of_low_rank(e: Elem) -> Equation:
    """Stated for numbers and rows alone."""
    return equation(e + 0, {0: e, 1: e}[e.rank])


def test_rule_without_a_statement_at_a_rank_is_refused() -> None:
    assert list(of_low_rank.statements) == [(0,), (1,)]
    x = atl.tensor("x", 2, 3)
    with pytest.raises(RankError, match=r"of_low_rank has no statement for elements of rank 2 .*\n.*ranks 0, 1$"):
        rewrite(reflexivity(atl.program("p", [x], x)), of_low_rank, (), {"e": x.node}, reverse=True)
    y = atl.tensor("y", 3)
    theorem = rewrite(reflexivity(atl.program("p", [y], y)), of_low_rank, (), {"e": y.node}, reverse=True)
    assert theorem.rhs != theorem.lhs


def test_rule_is_refused_above_the_largest_rank() -> None:
    def zero(e: Elem) -> Equation:
        """Nothing is added."""
        return equation(e + 0, e)

    stated, x = rule(zero), atl.tensor("x", 1, 2, 1, 2, 1, 2, 1)
    with pytest.raises(RankError, match="no statement for elements of rank 7"):
        rewrite(reflexivity(atl.program("p", [x], x)), stated, (), {"e": x.node}, reverse=True)


@rule
def cast_of_a_sum(a: Elem, b: Elem) -> Equation:
    """A sum may be taken after a cast."""
    return equation(atl.cast("float64", a + b), atl.cast("float64", a) + atl.cast("float64", b))


def cast_and_add(dtype: str) -> tuple[atl.Program, dict[str, Any]]:
    a, b = atl.tensor("a", dtype=dtype), atl.tensor("b", dtype=dtype)
    return atl.program("p", [a, b], atl.cast("float64", a + b)), {"a": a.node, "b": b.node}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cast_of_a_sum_of_floats(dtype: str) -> None:
    assert str(proof_status(cast_of_a_sum)).endswith("; of float elements only: it is false for integers")
    start, _ = cast_and_add(dtype)
    theorem = reschedule(start).rw(cast_of_a_sum).done()
    assert atl.evaluate(theorem.rhs, a=1.5, b=2.25) == atl.evaluate(start, a=1.5, b=2.25) == 3.75


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_rule_false_for_integers_is_refused_there(dtype: str) -> None:
    start, arguments = cast_and_add(dtype)
    for use in (
        lambda: rewrite(reflexivity(start), cast_of_a_sum, (), arguments),
        lambda: reschedule(start).rw(cast_of_a_sum),
    ):
        with pytest.raises(NotATheorem, match=f"cast_of_a_sum is not true for elements of {dtype}") as caught:
            use()
        assert "breaks at: elements of int" in str(caught.value)


def test_rule_without_casts_applies_to_integers() -> None:
    def exchanged(a: Elem, b: Elem) -> Equation:
        """A sum commutes."""
        return equation(a + b, b + a)

    stated = rule(exchanged)
    assert str(proof_status(stated)) == "proved for all sizes and every rank"
    a, b = atl.tensor("a", dtype="int32"), atl.tensor("b", dtype="int32")
    assert reschedule(atl.program("p", [a, b], a + b)).rw(stated).goal.body == (b + a).node


def slice_from_the_wrong_start(v: Vector, k: Index, m: Index) -> Equation:
    """A part of a row, from one element too late."""
    return equation(v[k:m], atl.gen((k, m), lambda i: v[i + 1]), given(k >= 0, k <= m, m < v.shape[0]))


def first_two_terms(v: Vector) -> Equation:
    """A sum is its first two terms."""
    return equation(v.sum(axis=0), v[0] + v[1])


def first_two_elements(e: Elem) -> Equation:
    """A sum of the first dimension is its first two terms."""
    return equation(e.sum(axis=0), e[0] + e[1])


def largest_of_two(e: Elem) -> Equation:
    """The largest of the first dimension is one of the first two."""
    return equation(atl.reduce("max", e.shape[0], lambda i: e[i]), atl.maximum(e[0], e[1]))


def product_commutes(a: Matrix, b: Matrix) -> Equation:
    """A product of square matrices commutes."""
    n = a.shape[0]

    def times(one: Any, other: Any) -> Any:
        return atl.gen(n, n, lambda i, j: atl.sum(n, lambda k: one[i, k] * other[k, j]))

    return equation(times(a, b), times(b, a), given(a.shape[1] == n, b.shape[0] == n, b.shape[1] == n))


FALSE = [slice_from_the_wrong_start, first_two_terms, first_two_elements, largest_of_two, product_commutes]


@pytest.mark.long
@pytest.mark.parametrize("function", FALSE)
def test_false_rule_is_refused_under_any_name(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed of random tests once came from the name."""
    for name in ("a", "rule_of_mine", "sum_is", "xyz", "b7"):
        monkeypatch.setattr(function, "__name__", name)
        with pytest.raises(FalseRule, match=f"{name} is false"):
            rule(function)


@pytest.mark.long
def test_true_rule_with_rare_instances_is_checked() -> None:
    @rule
    def slice_of(v: Vector, k: Index, m: Index) -> Equation:
        """A part of a row, element by element."""
        return equation(v[k:m], atl.gen((k, m), lambda i: v[i]), given(k >= 0, k <= m, m <= v.shape[0]))

    assert isinstance(slice_of, Rule)
    assert proof_status(slice_of).status >= 2


def test_functions_differ_at_every_index() -> None:
    def far(f: Body[Index], n: Index) -> Equation:
        """Two values far away are equal."""
        return equation(f(n + 40), f(n + 41))

    with pytest.raises(FalseRule, match=r"n = -1, f\(39\) = 1, f\(40\) = 2: the left side is 1, the right one 2"):
        rule(far)


@pytest.mark.long
def test_elements_of_one_rank_have_different_extents() -> None:
    def summed(u: Elem, v: Elem) -> Equation:
        """A tensor is added up as often as it is long, or as another one is."""
        if not v.rank:
            return equation(atl.sum(1, lambda i: u * v), v * u)
        return equation(atl.sum(u.shape[0], lambda i: v), atl.sum(v.shape[0], lambda i: v))

    with pytest.raises(FalseRule, match=r"u.shape\[0\] = 1, v.shape\[0\] = 2, v\[0\] = 1: at \[0\] the left side is 1"):
        rule(summed)


@pytest.mark.long
def test_shape_mismatch_without_evaluation_is_no_counterexample() -> None:
    """Otherwise the proof status depends on the random draws, and differs in a replay."""

    @rule
    def swapped(a: Elem, b: Elem, n: Index, k: Index) -> Equation:
        """Addition commutes in each element."""
        return equation(atl.gen(n, lambda i: a + b)[k], atl.gen(n, lambda i: b + a)[k])

    for seed, integers in product(range(10), (False, True)):
        assert isinstance(sampled(swapped, 30, seed=seed, integers=integers), int)


@pytest.mark.long
@pytest.mark.parametrize("correct", [True, False])
@pytest.mark.parametrize(("rank", "first", "second"), [(2, 0, 1), (3, 0, 2), (4, 0, 2), (4, 1, 3), (4, 2, 3)])
def test_rules_about_equal_extents_are_tried_with_equal_extents(
    rank: int, first: int, second: int, correct: bool
) -> None:
    def swapped(v: Elem) -> Equation:
        """Two axes of one extent may be swapped."""
        if v.rank != rank:
            raise ValueError

        def element(*at: atl.IndexExpr) -> atl.Tensor:
            turned = list(at)
            turned[first], turned[second] = turned[second], turned[first]
            return v[at] * 1.0 if correct else v[tuple(turned)]

        sides = atl.gen(*v.shape, lambda *at: v[at]), atl.gen(*v.shape, element)
        return equation(*sides, given(v.shape[first] == v.shape[second]))

    if correct:
        assert str(proof_status(rule(swapped))).startswith("proved")
        return
    with pytest.raises(FalseRule):
        rule(swapped)
