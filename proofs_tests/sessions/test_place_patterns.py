"""Patterns of places in program notation: matches, near misses and refusals."""

from __future__ import annotations

import pytest

import atl
from atl.errors import ParseError
from rewrites import reschedule
from rewrites.cursors.cursor import cursors
from rewrites.cursors.text_pattern import fits, pattern
from rewrites.errors import DoesNotApply

PROGRAM = atl.parse("""
f (p : int64[n + 1], x : float32[n], y : float32[n]) : float32[2 * n] :=
  (⊞[i < n]
    max(x[i], -y[i] * 2) * value(i)
    + select(i < 3 ∧ 1 <= i, x[i // 2], y[min(i, n - 1)]) / x[xor(i, 1) % n]
    + cast(float32, p[i])) ++ padding(float32[n])
""")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("max(_, _)", 1), ("max(x[_], _)", 1), ("max(y[_], _)", 0), ("min(_, _)", 0),
        ("-_", 1), ("-y[_]", 1), ("max(_, -_ * _)", 1), ("-x[_]", 0),
        ("value(i)", 1), ("value(_)", 1), ("value(i + 1)", 0),
        ("select(_, _, _)", 1), ("select(1 <= i ∧ i < 3, _, _)", 1), ("select(_ < 3 ∧ 1 <= _, _, _)", 1),
        ("select(i = 2 ∧ 1 <= i, _, _)", 0), ("select(i < 3, _, _)", 0), ("select(_, y[_], _)", 0),
        ("cast(float32, _)", 1), ("cast(float64, _)", 0), ("padding(float32[n])", 1), ("padding(_)", 1),
        ("_ ++ _", 1), ("_ ++ padding(float32[n])", 1), ("padding(float32[n]) ++ _", 0),
        ("x[_ // 2]", 1), ("x[_ // 3]", 0), ("x[i // _]", 1),
        ("y[min(_, n - 1)]", 1), ("y[max(_, n - 1)]", 0), ("y[min(_, _)]", 1), ("y[min(_, n)]", 0),
        ("x[xor(_, 1) % n]", 1), ("x[xor(_, 2) % n]", 0), ("x[xor(_, 1, 2) % n]", 0),
    ],
)  # fmt: skip
def test_each_construct_matches_its_pattern(text: str, count: int) -> None:
    wanted = pattern(text)
    assert sum(fits(wanted, cursor) for cursor in cursors(PROGRAM)) == count


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max(_)", "1 operands"),
        ("nope(_)", "unknown function 'nope'"),
        ("[i < 3 _", "expected ']' after the condition of a guard"),
        ("[i < 3] _", "expected '·' or '.' after the condition of a guard"),
        ("*", r"expected a tensor expression, found '\*'"),
        ("x[p[_]]", "expected ']' after the indices"),
        ("select(_ < 3 ∧ _, _, _)", "expected a condition, found an index expression"),
    ],
)
def test_invalid_patterns_are_refused_at_their_position(text: str, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        pattern(text)


CHAIN = atl.parse("f (x : float32[n], y : float32[n]) : float32[n] := ⊞[i < n] [1 <= i] · 2 * x[i] * y[i - 1] + x[i]")


@pytest.mark.parametrize(
    ("text", "says", "advice"),
    [
        ("x[_] * y[_]", "has 2 * x[i] in place of x[_]; operators group to the left: it is (2 * x[i]) * y[i - 1]",
            '"_ * y[_]" fits it'),
        ("2 * (x[_] * y[_])",
            "2 * x[i], has x[i] in place of (x[_] * y[_]); operators group to the left: a * b * c is (a * b) * c",
            '"2 * _" fits it'),
        ("_ * z[_]", "the nearest, 2 * x[i] * y[i - 1], has y in place of z", '"_ * _[_]" fits it'),
        ("x[_ + 1]", "the nearest, x[i], has the index i in place of _ + 1", "write _ for what does not matter"),
        ("⊞[j < n] _", "has the name i in place of j", ""),
        ("⊞[_ < n | parallel] _", "has no mark in place of parallel", ""),
        ("[_ < n] · _", "has the condition 1 <= i in place of _ < n", ""),
        ("_ - x[_]", "has + in place of -", ""),
        ("⊞[_ < n] x[_]", "has [1 <= i] · 2 * x[i] * y[i - 1] + x[i] in place of x[_]", ""),
    ],
)  # fmt: skip
def test_unmatched_pattern_shows_the_nearest_place(text: str, says: str, advice: str) -> None:
    with pytest.raises(DoesNotApply) as caught:
        reschedule(CHAIN).find(text)
    assert f"nothing in the goal fits the pattern {text}; the nearest" in caught.value.summary
    assert says in caught.value.summary
    assert advice in "".join(caught.value.suggestions)
    assert "^" in str(caught.value)
    for suggestion in caught.value.suggestions:
        if suggestion.startswith('"'):
            reschedule(CHAIN).find(suggestion.split('"')[1])


@pytest.mark.parametrize("text", ["Σ[_ < n] _", "exp(_)", "_ ++ _"])
def test_pattern_of_a_missing_kind_has_no_near_miss(text: str) -> None:
    with pytest.raises(DoesNotApply) as caught:
        reschedule(CHAIN).find(text)
    assert caught.value.summary == f"nothing in the goal fits the pattern {text}"
