"""Equality of programs by evaluation at a symbolic position, as a user-defined rule that is proved for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import atl
from atl.core.program import Program
from lowering.normalize import normalize
from proofs_tests.programs.generate import Case, case_by_seed
from proofs_tests.sampling import few_and_rest
from rewrites import reschedule
from rewrites.certificates.certificate import dumps, loads
from rewrites.equations import equation_of, prove_by_evaluation
from rewrites.errors import NotFound
from rewrites.raising import prove_normal_form
from rewrites.rule_checking.registry import is_proved
from rewrites.rule_checking.symbolic import proved

READS_INPUTS = "no rule states this equation: "
UNDECIDED = ("too many cases", "the normal forms of both sides differ")


def program(text: str) -> Program:
    return atl.parse(text)


BORDERS = """f (x : float32[n]) : float32[n] :=
  ⊞[i < n] Σ[k < 3] [1 <= i + k < n + 1] · x[i + k - 1]"""
PADDED = """f (x : float32[n]) : float32[n] :=
  let y := padl 1 padr 1 x in ⊞[i < n] y[i] + y[i + 1] + y[i + 2]"""


def why_not(left: Program, right: Program) -> str | None:
    return prove_by_evaluation(reschedule(left).begin(), right)


def test_equation_is_one_step_of_which_the_certificate_is_replayed() -> None:
    session = reschedule(program(BORDERS))
    work = session.begin()
    assert prove_by_evaluation(work, program(PADDED)) is None
    theorem = work.theorem
    assert (theorem.lhs, theorem.rhs) == (program(BORDERS), program(PADDED))
    assert len(theorem.steps) == 1
    assert not theorem.unproved
    again = loads(dumps(theorem))
    assert (again.lhs, again.rhs) == (theorem.lhs, theorem.rhs)


@pytest.mark.parametrize(
    ("old", "new"),
    [("1 <= i + k", "2 <= i + k"), ("n + 1", "n"), ("k - 1", "k - 2"), ("Σ[k < 3]", "Σ[k < 2]"), ("n] Σ", "n] 2 * Σ")],
)
def test_false_equation_is_not_proved(old: str, new: str) -> None:
    assert BORDERS.count(old) == 1
    wrong = BORDERS.replace(old, new)
    if new == "k - 2":
        wrong = wrong.replace("1 <= i + k < n + 1", "2 <= i + k < n + 2")
    assert why_not(program(PADDED), program(wrong)) is not None


def test_assumptions_are_premises() -> None:
    text = "f (x : float32[n]) : float32[n] given 1 <= n := ⊞[i < n] x[i] * {}"
    known, other = (program(text.format(by)) for by in ("value(min(n, 1))", "1"))
    assert why_not(known, other) is None
    unknown = program(text.replace(" given 1 <= n", "").format("value(min(n, 2))"))
    assert why_not(unknown, program(text.replace(" given 1 <= n", "").format("1"))) is not None


def test_equation_that_is_true_without_wrapping_is_not_proved_for_integers() -> None:
    text = "f (x : int32[n]) : int32[n] := ⊞[i < n] {}"
    left, right = (program(text.format(e)) for e in ("max(x[i] + 1, x[i])", "x[i] + 1"))
    assert why_not(left, right) is not None


def test_indices_read_from_an_input_are_refused() -> None:
    gathered = program("f (x : float32[n], k : int64[m] in [0, n)) : float32[m] := 2 * ⊞[i < m] x[k[i]]")
    with pytest.raises(NotFound, match="no rule states this equation: a rule uses k"):
        prove_normal_form(gathered)


@pytest.mark.long
def test_search_that_fails_is_followed_by_evaluation() -> None:
    theorem = reschedule(program(BORDERS)).equal_to(program(PADDED), limit=1)
    assert theorem.rhs == program(PADDED)


@pytest.mark.parametrize("numbers", few_and_rest(24))
def test_normal_forms_of_random_programs_are_proved(numbers: Sequence[int]) -> None:
    proved, other = 0, []
    for number in numbers:
        case = case_by_seed(31, number)
        if not isinstance(case, Case):
            continue
        why = why_not(case.program, normalize(case.program))
        if why is None:
            proved += 1
        elif not why.startswith(READS_INPUTS):
            other.append(why)
    assert all(why in UNDECIDED for why in other), other
    assert proved > len(numbers) // 2


def test_rule_is_not_accepted_before_it_is_checked() -> None:
    rule = equation_of(program(BORDERS), program(PADDED))
    assert not is_proved(rule)


def test_equation_is_checked_once() -> None:
    one, two = (reschedule(program(BORDERS)).begin() for _ in range(2))
    for work in (one, two):
        assert prove_by_evaluation(work, program(PADDED)) is None
    assert one.theorem.steps[0].rule is two.theorem.steps[0].rule


def test_size_of_one_program_is_a_size_of_the_equation() -> None:
    one = program("f (x : float32[n]) : float32[n] := x")
    text = "f (x : float32[n], m : size) : float32[n] := ⊞[i < n] [{}] · x[i]"
    assert why_not(one, program(text.format("m < 1000000"))) is not None
    assert why_not(one, program(text.format("0 <= m"))) is None


@pytest.mark.parametrize("rank", [8, 9, 10, 17])
def test_variables_of_nested_recurrences_are_different_at_high_ranks(rank: int) -> None:
    n = atl.sizes("n", min=2)
    x = atl.tensor("x", n)

    def of(at: Callable[[Any, Any], Any]) -> Program:
        def row(p: Any, _: Any) -> atl.Tensor:
            inner = atl.rec(
                1, lambda a, z: atl.gen(*[1] * (rank - 2), 2, lambda *b: x[at(p, b[-1])]), of=(1,) * (rank - 2) + (2,)
            )
            return inner[(0,) * (rank - 1) + (1,)]

        return atl.program("f", [x], atl.rec(n, row))

    left, right = of(lambda p, b: p), of(lambda p, b: b)
    assert proved(equation_of(left, right)) is not None
