"""Patterns of places, written as programs are printed: what each word of the language fits, and what is refused."""

from __future__ import annotations

import pytest

import atl
from atl.errors import ParseError
from rewrites.places.site import sites
from rewrites.places.text_pattern import fits, pattern

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
def test_each_word_of_the_language_fits_what_is_written_with_it(text: str, count: int) -> None:
    wanted = pattern(text)
    assert sum(fits(wanted, site) for site in sites(PROGRAM)) == count


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max(_)", "1 operands"),
        ("nope(_)", "there is no function 'nope'"),
        ("[i < 3 _", "expected ']' after the condition of a guard"),
        ("[i < 3] _", "expected '·' or '.' after the condition of a guard"),
        ("*", r"expected a tensor expression, found '\*'"),
        ("x[p[_]]", "expected ']' after the indices"),
        ("select(_ < 3 ∧ _, _, _)", "an index expression stands where a condition is needed"),
    ],
)
def test_what_is_no_pattern_is_refused_at_its_place(text: str, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        pattern(text)
