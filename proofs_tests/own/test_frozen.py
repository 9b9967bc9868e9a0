"""What a rule uses is kept as it was when it was judged: constants, functions, and what Python has without state."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest

import atl
from atl.errors import WrongArgument
from rewrites.own import Equation, Index, equation, grade, rule
from rewrites.own.frozen import frozen
from rewrites.rules import RULES

FACTORS = (2, (3, 5))


def doubled(a: int, *, by: int = 2) -> int:
    return a * by


def down_to_zero(n: int) -> int:
    return 0 if n <= 0 else down_to_zero(n - 1)


def product() -> int:
    return reduce(lambda a, b: a * b, [FACTORS[0], *FACTORS[1]])


def test_defaults_by_name_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, uses = frozen(doubled)  # type: ignore[arg-type]
    monkeypatch.setattr(doubled, "__kwdefaults__", {"by": 7})
    assert (doubled(3), kept(3)) == (21, 6)
    assert uses == ("by = 2",)


def test_a_function_that_calls_itself_is_copied_once() -> None:
    kept, uses = frozen(down_to_zero)  # type: ignore[arg-type]
    assert kept.__globals__["down_to_zero"] is kept
    assert kept(9) == 0
    assert uses == ()


def test_tuples_and_functions_of_pythons_without_state_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, uses = frozen(product)  # type: ignore[arg-type]
    monkeypatch.setattr("proofs_tests.own.test_frozen.FACTORS", (1, (1,)))
    assert (product(), kept()) == (1, 30)
    assert uses == ("FACTORS = 2", "FACTORS = 3", "FACTORS = 5")


def test_modules_of_pythons_without_state_are_kept() -> None:
    kept, _ = frozen(lambda a: math.gcd(a, 12))  # type: ignore[arg-type]
    assert kept(8) == 4


def test_what_has_no_value_yet_is_passed_over() -> None:
    def asks() -> int:
        return late

    kept, uses = frozen(asks)  # type: ignore[arg-type]
    late = 3
    assert asks() == 3
    assert uses == ()
    with pytest.raises(NameError):
        kept()


def unknown_annotation(a: Any) -> Equation:
    """A law."""
    return equation(a, a)


unknown_annotation.__annotations__["a"] = "Nowhere"


def with_default(n: Index = 3) -> Equation:  # type: ignore[assignment]
    """A law."""
    return equation(atl.sum(n, atl.value), atl.sum(n, atl.value))


def tells_identity(n: Index) -> Equation:
    """A law."""
    return equation(atl.value(id(n)), atl.value(id(n)))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: grade(RULES["get_gen"]), "is no rule of your own"),
        (lambda: grade(3), "3 is no rule of your own"),  # type: ignore[arg-type]
        (lambda: rule(len), "states no rule"),  # type: ignore[arg-type]
        (lambda: rule(unknown_annotation), "an annotation of unknown_annotation is not known"),
        (lambda: rule(with_default), "the parameter n of the rule with_default is no metavariable"),
        (lambda: rule(tells_identity), "calls id, which tells more than what its arguments mean"),
    ],
    ids=["of the catalogue", "a number", "no function", "annotation", "default", "identity"],
)
def test_what_is_no_rule_is_refused_where_it_is_stated(call: Callable[[], object], said: str) -> None:
    with pytest.raises(WrongArgument, match=said):
        call()
