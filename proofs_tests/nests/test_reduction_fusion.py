"""Reduction fusion: sums over what a loop has just stored are computed in that loop where possible."""

from __future__ import annotations

import pytest

import atl
from lowering import lower, print_nest
from lowering.passes import stores

POWERS = "let p | heap := ⊞[j < m] exp(x[i, j]) in "
TOTAL = "let t := Σ[j < m] p[j] in "
JOINED = {
    "one sum": (POWERS + TOTAL + "⊞[j < m] p[j] / t", ["t += p[j]"]),
    "one after the other": (
        POWERS + TOTAL + "let u := Σ[j < m] p[j] * p[j] in ⊞[j < m] p[j] / t * u",
        ["t += p[j]", "u += p[j] * p[j]"],
    ),
}
SEPARATE = {
    "a loop of vectors": (POWERS.replace("< m]", "< m | vector]") + TOTAL, "t += p[j]"),
    "a loop of threads": (POWERS.replace("< m]", "< m | parallel]") + TOTAL, "t += p[j]"),
    "a sum of vectors": (POWERS + TOTAL.replace("< m]", "< m | vector]"), "t += p[j]"),
    "a maximum": (POWERS + TOTAL.replace("Σ", "max"), "t = max(t, p[j])"),
    "another range": (POWERS + TOTAL.replace("[j < m]", "[1 <= j < m]"), "t += p[j]"),
    "in reverse": (POWERS + TOTAL.replace("p[j]", "p[m - 1 - j]"), "t += p[m - j - 1]"),
}


def lines(body: str) -> list[str]:
    nest = lower(atl.parse(f"f (x : float32[n, m]) : float32[n, m]\n    given 1 <= m :=\n  ⊞[i < n] {body}"))
    return [line.strip() for line in print_nest(nest).splitlines()]


def in_first_loop(text: list[str], line: str) -> bool:
    """Return whether the line is in the loop that stores the powers."""
    start = text.index("p[j] = exp(x[i, j])")
    return line in text[start : next(at for at in range(start, len(text)) if text[at].startswith("for j"))]


@pytest.mark.parametrize("name", JOINED)
def test_sum_of_stored_elements_is_fused(name: str) -> None:
    body, sums = JOINED[name]
    text = lines(body)
    assert all(in_first_loop(text, line) for line in sums)
    assert sum(line.startswith("for j") for line in text) == 2


@pytest.mark.parametrize("name", SEPARATE)
def test_other_sums_are_separate_loops(name: str) -> None:
    body, line = SEPARATE[name]
    text = lines(body + "⊞[j < m] p[j] / t")
    assert line in text
    assert not in_first_loop(text, line)
    assert sum(line.startswith("for j") for line in text) == 3


@pytest.mark.parametrize("name", ["a loop of vectors", "a loop of threads", "a sum of vectors", "a maximum"])
def test_wrong_check_for_plain_loops_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_is_plain", lambda *_: True)
    with pytest.raises(AssertionError):
        test_other_sums_are_separate_loops(name)
