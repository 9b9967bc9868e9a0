"""Induction on the rows of a recurrence: the kernel's inference, its certificates, and the tactic that uses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import atl
from atl import Program, Tensor
from atl.core.index import Array
from atl.core.program import Result
from atl.errors import ATLError, InvalidArgument
from rewrites import kernel, reschedule
from rewrites.certificates.certificate import describe, dumps, loads
from rewrites.errors import CertificateError, NotATheorem, NotFound, PremiseFailed, RoundingStep
from rewrites.induction import ROWS
from rewrites.kernel import Theorem
from rewrites.rocq.certificates import derivation
from rewrites.rule_checking.exactness import Exactness
from rewrites.session.proof_trace import proof_trace
from rewrites.session.script import as_python
from rewrites.tactics.recurrences import recurrence_with

n, m = atl.sizes("n", min=1), atl.sizes("m")
x, A = atl.tensor("x", n, dtype="float64"), atl.tensor("A", m, n, dtype="float64")
y = np.array([1.0, 2.0, 4.0])

PREFIX = atl.program("prefix", [x], atl.rec(atl.gen(1, lambda i: x[i]), n, lambda p, y: y[p - 1] + x[p]))
ROWWISE = atl.program(
    "rowwise",
    [A],
    atl.gen(m, lambda i: atl.let(2.0 * A[i], lambda r: atl.rec(r[0:1], n, lambda p, y: y[p - 1] + r[p]))),
)


def prefix_sums(p: Any) -> Tensor:
    return atl.sum(p + 1, lambda k: x[k])


@pytest.fixture(scope="module")
def proved() -> Theorem:
    return reschedule(PREFIX).induct("y", prefix_sums).done()


def goals_of(program: Program, formula: Callable[..., Any]) -> Any:
    return reschedule(program).induction_goals("y", formula)


def test_closed_form_of_prefix_sums(proved: Theorem) -> None:
    assert [step.rule for step in proved.steps] == [ROWS]
    assert proved.rhs == atl.program("prefix", [x], atl.gen(n, prefix_sums))
    assert [lemma.lhs.name for lemma in proved.steps[0].lemmas] == ["prefix_base", "prefix_step"]
    np.testing.assert_array_equal(atl.evaluate(proved.rhs, y), np.cumsum(y))


def test_closed_form_without_first_rows() -> None:
    program = atl.program("scaled", [x], atl.rec(n, lambda p, y: atl.cast("float64", atl.value(p)) * x[p]))
    s = reschedule(program).induct("y", lambda p: atl.value(p) * x[p])
    assert s.goal == atl.program("scaled", [x], atl.gen(n, lambda p: atl.value(p) * x[p]))


def test_choice_at_the_first_row_is_proved_by_cases() -> None:
    """At row 0 the body adds a literal 0, and the sum of no terms is padding."""
    rows = atl.rec(n, lambda p, y: atl.select(p >= 1, y[p - 1], 0) + x[p])
    s = reschedule(atl.program("prefix", [x], rows)).induct("y", prefix_sums)
    assert loads(dumps(s.done())).rhs.body == atl.gen(n, prefix_sums).node


@pytest.mark.long
def test_wrong_choice_at_the_first_row_is_refuted() -> None:
    wrong = atl.rec(n, lambda p, y: atl.select(p >= 1, y[p - 1], x[0]) + x[p])
    with pytest.raises(NotFound, match="the formula differs from the next row") as caught:
        reschedule(atl.program("wrong", [x], wrong)).induct("y", prefix_sums)
    found = caught.value.numbers
    assert isinstance(found, dict)
    assert found["p"] == 0


def test_several_choices_are_proved_by_cases() -> None:
    early = [x[0], x[0] + x[1]]
    rows = atl.rec(n, lambda p, y: atl.select(p >= 2, y[p - 1] + x[p], atl.select(p >= 1, early[1], early[0])))
    s = reschedule(atl.program("prefix", [x], rows)).induct("y", prefix_sums)
    assert loads(dumps(s.done())).rhs.body == atl.gen(n, prefix_sums).node


@pytest.mark.long
def test_formula_may_name_loops_and_lets_around() -> None:
    s = reschedule(ROWWISE)
    s.induct("y", lambda p, r: r[0] + atl.sum((1, p + 1), lambda k: r[k]))
    assert loads(dumps(s.done())).rhs == s.goal
    assert "rec" not in str(s.goal)
    with pytest.raises(InvalidArgument, match="formula has the parameter q, which is not a loop or let around"):
        reschedule(ROWWISE).induct("y", lambda p, q: A[0, p])


def test_goals_are_the_first_rows_and_the_next_row() -> None:
    base, step = goals_of(PREFIX, prefix_sums)
    assert str(base.lhs).endswith("⊞[i < 1] x[i]")
    assert str(base.rhs).endswith("⊞[i < 1] Σ[k < i + 1] x[k]")
    assert str(step.lhs) == (
        "prefix_step (x : float64[n], p : size) : float64\n"
        "    given 1 <= n, 1 <= p, p < n :=\n"
        "  (⊞[i < p] Σ[k < i + 1] x[k])[p - 1] + x[p]"
    )
    assert str(step.rhs).endswith("Σ[k < p + 1] x[k]")


@pytest.mark.parametrize(
    ("formula", "equation", "numbers"),
    [
        (lambda p: atl.sum(p, lambda k: x[k]), "the first rows", {"n": 1, "element 0": 0}),
        (lambda p: atl.sum(p + 1, lambda k: x[atl.imax(k - 1, 0)]), "the next row", {"n": 2, "p": 1}),
    ],
)
def test_false_formula_is_refuted_with_numbers(
    formula: Callable[..., Any], equation: str, numbers: dict[str, int]
) -> None:
    with pytest.raises(NotFound, match=f"the formula differs from {equation}") as caught:
        reschedule(PREFIX).induct("y", formula)
    found = caught.value.numbers
    assert isinstance(found, dict)
    assert {**found, **numbers} == found


def test_induction_below_binders() -> None:
    """Bound indices become sizes, and bound tensors inputs."""
    s = reschedule(ROWWISE)
    first = s.find("y").path
    work = s.begin()
    term = work.term(first)
    cursor, arguments = recurrence_with(work, "y", lambda p: A[0, p])
    assert cursor.path == first
    base, step = kernel.induction_goals(s.theorem, first, arguments)
    assert [array.name for array in base.lhs.inputs] == ["A", "t"]
    assert {"o", "m", "n"} <= set(base.lhs.sizes)
    assert "o < m" in str(step.lhs)
    assert "p < n" in str(step.lhs)
    assert term == work.term(first)


def test_sizes_of_the_formula_are_not_captured() -> None:
    """A formula may use a size that is called like the index of the row."""
    p = atl.sizes("p")
    _, step = goals_of(PREFIX, lambda q: x[0] * atl.cast("float64", atl.value(q + p)))
    assert "p1 < n" in str(step.rhs)
    assert "p + p1" in str(step.rhs)


def test_inputs_are_not_captured() -> None:
    """An input may be called like the index of the row."""
    other = atl.tensor("p", n, dtype="float64")
    program = atl.program("f", [other], atl.rec(n, lambda q, y: atl.select(q >= 1, y[q - 1], 0) + other[q]))
    _, step = goals_of(program, lambda q: atl.sum(q + 1, lambda k: other[k]))
    assert [array.name for array in step.lhs.inputs] == ["p"]
    assert "p1 < n" in str(step.lhs)


def test_extents_of_bound_tensors_use_the_indices_around_them() -> None:
    x2 = atl.tensor("x", m, m, dtype="float64")

    def inner(i: Any, j: Any) -> Tensor:
        first = atl.gen(i + 2 * j + 1, lambda k: atl.cast("float64", atl.value(k)))
        return atl.let(first, lambda r: atl.rec(r[0:1], m + 1, lambda p, y: y[p - 1] + r[0])[m])

    s = reschedule(atl.program("f", [x2], atl.gen(m, m, inner)))
    base, step = s.induction_goals("y", lambda p: atl.sum(p, lambda k: x2[k, k] * 0))
    for goal in (base, step):
        assert "t : float64[2*o1 + o + 1]" in str(goal.lhs)


def test_goals_below_three_loops_and_two_tensors() -> None:
    """Every extent and premise uses the index of its loop, and every bound tensor becomes an input."""
    z = atl.tensor("z", m, m, m, dtype="float64")

    def inner(i: Any, j: Any, k: Any) -> Tensor:
        first = atl.gen(i + 2 * j + 4 * k + 1, j + 1, lambda a, b: atl.cast("float64", atl.value(a)))
        other = atl.gen(k + 1, lambda a: z[i, j, k])

        def row(r: Tensor, q: Tensor) -> Tensor:
            return atl.rec(r[0:1, 0], i + 3 * k + 2, lambda p, y: y[p - 1] + q[0])[i + 1]

        return atl.let(first, lambda r: atl.let(other, lambda q: row(r, q)))

    base, step = goals_of(atl.program("f", [z], atl.gen(m, m, m, inner)), lambda p: z[0, 0, 0])
    inputs = "z : float64[m, m, m], t : float64[4*o2 + 2*o1 + o + 1, o1 + 1], t1 : float64[o2 + 1]"
    assert " ".join(str(base.lhs).split()).startswith(f"f_base ( {inputs}) : float64[1]")
    text = " ".join(str(step.lhs).split())
    assert text.startswith(f"f_step ( {inputs}, p : size) : float64")
    assert "1 <= p, p <= 3*o2 + o + 1 :=" in text
    assert text.endswith("[p - 1] + t1[0]")


def test_names_in_use_are_not_captured() -> None:
    """The index of the row differs from the last input, from a size of assumptions, and from one of the formula."""

    def scaled(p: Any, y: Tensor) -> Tensor:
        return x[p] * 2.0

    p = atl.sizes("p")
    second = atl.tensor("p", n, dtype="float64")
    _, step = goals_of(atl.program("f", [x, second], atl.rec(n, scaled)), lambda q: x[q])
    assert "p1 < n" in str(step.lhs)
    _, step = goals_of(atl.program("f", [x], atl.rec(n, scaled), given=[p >= 5]), lambda q: x[q])
    assert "0 <= p1, p1 < n" in str(step.lhs)
    one = atl.tensor("c", dtype="float64")
    program = atl.program("f", [one], atl.rec(4, lambda q, y: one * 2.0))
    _, step = goals_of(program, lambda q: one * atl.cast("float64", atl.value(q + p)))
    assert "value(p + p1)" in str(step.rhs)


def test_index_that_may_be_negative_is_refused() -> None:
    z = atl.tensor("z", 3, dtype="float64")
    body = atl.gen((-2, 1), lambda i: atl.rec(z, 4, lambda p, y: y[p - 1]))
    with pytest.raises(PremiseFailed, match="a premise of rec_induction is not proved here"):
        goals_of(atl.program("below", [z], body), lambda p: z[0])

    within = atl.gen((-2, 1), lambda i: atl.gen(2, lambda j: atl.rec(z, 4, lambda p, y: y[p - 1])))
    with pytest.raises(PremiseFailed, match="a premise of rec_induction is not proved here"):
        goals_of(atl.program("within", [z], within), lambda p: z[0])


def test_rules_of_the_lemmas_count(proved: Theorem, monkeypatch: pytest.MonkeyPatch) -> None:
    there = reschedule(PREFIX).rw("add_comm").rw("add_comm").done()
    later = kernel.transitivity(there, proved)
    base, step = proved.steps[0].lemmas
    of_lemmas = {taken.rule for lemma in (base, step) for taken in lemma.steps}
    assert len({taken.rule for taken in base.steps}) > 1
    assert len({taken.rule for taken in step.steps} - {taken.rule for taken in base.steps}) > 0
    monkeypatch.setattr(kernel, "caveat_of", lambda rules: f"not proved: {', '.join(rule.name for rule in rules)}")
    for rule in of_lemmas:
        monkeypatch.setattr(kernel, "is_unproved", lambda of, only=rule: of is only)
        monkeypatch.setattr(
            kernel, "exactness_of", lambda of, only=rule: Exactness.ROUNDS if of is only else Exactness.BITS
        )
        for theorem in (proved, later):
            assert theorem.unproved == theorem.rounding == (rule,)
            assert theorem.caveat == f"not proved: {rule.name}"
            assert theorem.exactness == Exactness.ROUNDS
        with pytest.raises(RoundingStep):
            kernel.induction(kernel.reflexivity(PREFIX, strict=True), (), proved.steps[0].arguments, base, step)
    monkeypatch.setattr(kernel, "is_unproved", lambda of: of in of_lemmas)
    monkeypatch.setattr(kernel, "exactness_of", lambda of: Exactness.ROUNDS if of in of_lemmas else Exactness.BITS)
    assert {*proved.unproved} == {*proved.rounding} == of_lemmas


def test_forged_theorems_are_no_lemmas(proved: Theorem) -> None:
    base, step = proved.steps[0].lemmas
    fake: Any = SimpleNamespace(lhs=base.lhs, rhs=base.rhs, rounding=())
    with pytest.raises(NotATheorem, match="SimpleNamespace is not a theorem"):
        kernel.induction(kernel.reflexivity(PREFIX), (), proved.steps[0].arguments, fake, step)
    start = kernel.reflexivity(PREFIX)
    forged: Any = SimpleNamespace(lhs=PREFIX, rhs=PREFIX, strict=False, chain=None, zipper_at=start.zipper_at)
    with pytest.raises(NotATheorem, match="SimpleNamespace is not a theorem"):
        kernel.induction_goals(forged, (), proved.steps[0].arguments)


def test_kernel_refuses_other_theorems(proved: Theorem) -> None:
    base, step = proved.steps[0].lemmas
    start = kernel.reflexivity(PREFIX)
    arguments = proved.steps[0].arguments
    for lemmas in ((step, step), (base, base), (start, step), (kernel.symmetry(base), step)):
        with pytest.raises(NotATheorem, match=r"is not about the rows of the recurrence at \[\]"):
            kernel.induction(start, (), arguments, *lemmas)
    with pytest.raises(NotATheorem, match="Program is not a theorem"):
        kernel.induction(start, (), arguments, PREFIX, step)  # type: ignore[arg-type]


def test_both_sides_of_a_theorem_are_compared_in_each_part(proved: Theorem) -> None:
    base, step = proved.steps[0].lemmas

    def again(start: Program) -> Theorem:
        theorem = kernel.reflexivity(start)
        for taken in base.steps:
            theorem = kernel.replay(theorem, taken)
        return theorem

    before = base.lhs
    assumed = replace(before, assumptions=(*before.assumptions, (n > 3).node))
    wider = replace(before, inputs=(*before.inputs, Array("z", (n.node,), "float64")))
    named = replace(before, results=(Result("rows", before.body.type.shape),))
    assert again(before).rhs == base.rhs
    for wrong in (kernel.reflexivity(before), kernel.reflexivity(base.rhs), *map(again, (assumed, wider, named))):
        with pytest.raises(NotATheorem, match="is not about the rows of the recurrence"):
            kernel.induction(kernel.reflexivity(PREFIX), (), proved.steps[0].arguments, wrong, step)


def test_conclusion_alone_is_not_a_rule(proved: Theorem) -> None:
    with pytest.raises(NotATheorem, match="rec_induction is not a rule of the catalogue"):
        kernel.rewrite(kernel.reflexivity(PREFIX), ROWS, (), proved.steps[0].arguments)


def test_symmetry_of_an_induction(proved: Theorem) -> None:
    turned = kernel.symmetry(proved)
    assert turned.lhs == proved.rhs
    again = kernel.replay(kernel.reflexivity(turned.lhs), turned.steps[0])
    assert again.rhs == PREFIX
    assert loads(dumps(turned)).rhs == PREFIX


# -- certificates and scripts -----------------------------------------------------------------------------------------


def test_certificate_contains_the_two_theorems(proved: Theorem) -> None:
    text = dumps(proved)
    read = loads(text)
    assert (read.lhs, read.rhs) == (proved.lhs, proved.rhs)
    assert dumps(read) == text
    told = describe(read)
    assert "rec_induction (induction; 1 time)" in told
    assert "split_sum" in told


def changed(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    data = json.loads(text)
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["steps"][0].pop("lemmas"), "rec_induction needs two theorems"),
        (lambda data: data["steps"][0]["lemmas"].pop(), "is not a step"),
        (lambda data: data["steps"][0]["lemmas"].reverse(), "is not about the rows"),
        (lambda data: data["steps"][0]["lemmas"][1]["steps"].pop(), "a theorem that step 1 needs is refused"),
        (lambda data: data["steps"][0]["lemmas"][0].update(format="other"), "a theorem that step 1 needs is refused"),
        (
            lambda data: data["steps"][0]["lemmas"][0]["steps"][0].update(lemmas=data["steps"][0]["lemmas"][1:] * 2),
            "is a rule, which needs no theorems",
        ),
    ],
    ids=("no theorems", "one theorem", "exchanged", "without a step", "format", "theorems of a rule"),
)
def test_changed_certificate_is_refused(
    proved: Theorem, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(CertificateError, match=message):
        loads(changed(dumps(proved), change))


def test_script_takes_the_induction_again(proved: Theorem) -> None:
    space: dict[str, Any] = {}
    exec(as_python(proved), space)
    assert space["theorem"].rhs == proved.rhs
    exec(reschedule(PREFIX).induct("y", prefix_sums).script(), space)
    assert space["s"].goal == proved.rhs


def test_trace_names_the_inference(proved: Theorem) -> None:
    (call,) = proof_trace(proved).calls
    (step,) = call.steps
    assert step.rule == "rec_induction"
    assert "an inference of the kernel" in step.status
    assert step.proved


def test_induction_is_not_exported_to_rocq(proved: Theorem) -> None:
    with pytest.raises(ATLError, match="step 1 of the theorem is an induction on rows, which is not exported to Rocq"):
        derivation(proved)


# -- theorems by hand -------------------------------------------------------------------------------------------------


def test_theorems_by_hand(proved: Theorem) -> None:
    base, step = proved.steps[0].lemmas
    s = reschedule(PREFIX).induct("y", prefix_sums, base=base, step=step)
    assert s.goal == proved.rhs
    with pytest.raises(NotATheorem, match="does not state the equation that the induction needs"):
        reschedule(PREFIX).induct("y", prefix_sums, base=step)
    with pytest.raises(ATLError, match="base=3"):
        reschedule(PREFIX).induct("y", prefix_sums, base=3)  # type: ignore[arg-type]


def test_name_of_something_else_is_refused() -> None:
    with pytest.raises(ATLError, match="'i' is not a recurrence"):
        reschedule(PREFIX).induct("i", prefix_sums)


@pytest.mark.long
def test_linear_recurrence_is_linear_in_its_first_row() -> None:
    """The formula contains recurrences, of which the proof computes one more row."""
    a, b, c = (atl.tensor(name, *shape, dtype="float64") for name, shape in (("a", (n,)), ("b", (n,)), ("c", ())))

    def rows(first: Any, added: Callable[[Any], Any]) -> Tensor:
        return atl.rec(atl.gen(1, lambda i: first), n, lambda p, u: a[p] * u[p - 1] + added(p))

    program = atl.program("linear", [a, b, c], rows(c, lambda p: b[p]))
    one, zero = (atl.cast("float64", value) for value in (1, 0))

    def formula(p: Any) -> Tensor:
        factor = atl.rec(atl.gen(1, lambda i: one), n, lambda p, u: a[p] * u[p - 1])
        return factor[p] * c + rows(zero, lambda p: b[p])[p]

    found = loads(dumps(reschedule(program).induct("u", formula).done()))
    assert found.rhs.body == atl.program("linear", [a, b, c], atl.gen(n, formula)).body
    with pytest.raises(NotFound, match="the formula differs from the next row"):
        reschedule(program).induct("u", lambda p: rows(zero, lambda q: b[q])[p] + c)


@pytest.mark.parametrize("name", ["q", "i", "n1"])
def test_certificate_does_not_depend_on_names_of_loops(name: str) -> None:
    n, m = atl.sizes("n m", min=1)
    x = atl.tensor("x", n, m, dtype="float64")
    program = atl.program("rows", [x], atl.gen(n, lambda r: atl.sum(m, lambda k: x[r, k])))
    s = atl.reschedule(program).rename("r", name)
    names = {"x": x, "atl": atl}
    formula = eval(f"lambda p, {name}: atl.sum(p + 1, lambda k: x[{name}, k])", names)
    step = eval(f"lambda p, y, {name}: y[p - 1] + x[{name}, p]", names)
    s.recur("Σ[k < m] _", m, formula, step)
    assert loads(dumps(s.done())).rhs == s.goal


def test_boolean_tensor_may_be_bound_around_an_induction() -> None:
    n = atl.sizes("n", min=1)
    y = atl.tensor("y", n, dtype="float64")

    def positive(v: atl.Tensor, i: atl.IndexExpr) -> atl.Tensor:
        return atl.where(v[i], y[i], 0)

    total = atl.let(atl.gen(n, lambda i: y[i] > 0), lambda v: atl.sum(n, lambda i: positive(v, i)))
    s = atl.reschedule(atl.program("positive", [y], total))
    s.recur(
        "Σ[i < n] _",
        n,
        lambda p, v: atl.sum(p + 1, lambda i: positive(v, i)),
        lambda p, w, v: w[p - 1] + positive(v, p),
    )
    assert loads(dumps(s.done())).rhs == s.goal


def test_terms_are_added_before_those_of_the_row_before() -> None:
    """The formula's sum begins at the row: row p has the last p + 1 elements."""
    s = atl.reschedule(atl.program("total", [x], atl.sum(n, lambda i: x[i])))
    s.recur(
        "Σ[i < n] _",
        n,
        lambda p: atl.sum((n - 1 - p, n), lambda i: x[i]),
        lambda p, w: w[p - 1] + x[n - 1 - p],
        start=lambda p: atl.sum(1, lambda i: x[n - 1 + i]),
    )
    assert loads(dumps(s.done())).rhs == s.goal
