"""Scalar domains: exact rational numbers, and machine numbers as in C."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from atl.core.operations import UnaryOp
from atl.errors import NotExact
from atl.meaning.scalars import Exact, Machine, Scalars

DOMAINS: tuple[Callable[[], Scalars[Any]], ...] = (Machine, Exact)


@pytest.mark.parametrize("domain", DOMAINS)
def test_integers_wrap_at_the_width_of_their_type(domain: Callable[[], Scalars[Any]]) -> None:
    scalars = domain()
    for dtype, high in (("int32", 2**31 - 1), ("int64", 2**63 - 1)):
        most, least, one = (scalars.constant(number, dtype) for number in (high, -high - 1, 1))
        assert scalars.binary("add", dtype, most, one) == least
        assert scalars.binary("sub", dtype, least, one) == most
        assert scalars.binary("mul", dtype, most, most) == 1
        assert scalars.unary("neg", dtype, least) == least
        assert scalars.unary("abs", dtype, least) == least
        assert scalars.from_index(high + 1, dtype) == least
        assert scalars.binary("max", dtype, most, least) == most
        assert scalars.binary("min", dtype, most, least) == least
    assert scalars.cast("int32", "int64", scalars.constant(2**32 + 5, "int64")) == 5


RATIONAL: list[tuple[UnaryOp, int]] = [("exp", 0), ("log", 1), ("tanh", 0), ("erf", 0), ("sin", 0), ("cos", 0)]


def test_exact_functions_need_rational_values() -> None:
    third = Fraction(1, 3)
    exact = Exact()
    assert exact.unary("sqrt", "float64", third * third) == third
    assert exact.unary("sqrt", "float64", Fraction(0)) == 0
    assert [exact.unary(op, "float64", Fraction(at)) for op, at in RATIONAL] == [1, 0, 0, 0, 0, 1]
    for op, at in (("sqrt", 2), ("sqrt", -4), ("log", 0), *((op, 1 - at) for op, at in RATIONAL)):
        with pytest.raises(NotExact, match="is not a rational number") as caught:
            exact.unary(op, "float64", Fraction(at))  # type: ignore[arg-type]
        assert "leave out exact=True" in str(caught.value)


def test_float_to_integer_casts_truncate() -> None:
    for scalars in (Machine(), Exact()):
        for number, expected in ((2.75, 2), (-2.75, -2), (-0.5, 0), (2147483647.5, 2147483647)):
            held = scalars.constant(number, "float64")
            assert scalars.cast("int32", "float64", held) == expected
        assert scalars.undefined == 0


def test_undefined_casts_are_counted() -> None:
    machine, exact = Machine(), Exact()
    for count, number in enumerate((3e9, -3e9, 1e300, np.inf, -np.inf, np.nan), start=1):
        machine.cast("int32", "float64", np.float64(number))
        assert machine.undefined == count
    assert exact.cast("int32", "float64", Fraction(2**31)) == -(2**31)
    assert exact.undefined == 1


def test_machine_arithmetic_rounds_each_operation() -> None:
    machine = Machine()
    one, tiny = (machine.constant(number, "float32") for number in (1.0, 2.0**-25))
    assert machine.binary("add", "float32", one, tiny) == 1
    assert type(machine.binary("mul", "float32", one, tiny)) is np.float32
    assert type(machine.unary("sqrt", "float32", tiny)) is np.float32
    assert (
        machine.binary("mul", "float32", machine.constant(1e30, "float32"), machine.constant(1e30, "float32")) == np.inf
    )
    assert machine.constant(0.1, "float32") == np.float32(0.1)
    assert machine.from_index(2**24 + 1, "float32") == 2**24
    assert machine.from_index(2**54 + 2**30 + 1, "float32") == np.float32(2**54 + 2**31)


def test_machine_functions_follow_ieee_without_warnings() -> None:
    machine = Machine()

    def at(op: Any, number: float) -> float:
        return float(machine.unary(op, "float64", np.float64(number)))

    assert np.isnan(at("sqrt", -1.0))
    assert np.isnan(at("log", -1.0))
    assert at("log", 0.0) == -np.inf
    assert at("exp", 1000.0) == np.inf
    assert at("exp", -1000.0) == 0
    infinite = np.float64(np.inf)
    assert np.isnan(machine.binary("sub", "float64", infinite, infinite))
    assert machine.cast("float32", "float64", np.float64(1e300)) == np.inf
    assert machine.divisions_by_zero == machine.undefined == 0


def test_extremum_of_nan_is_nan() -> None:
    machine = Machine()
    nan, one = np.float64(np.nan), np.float64(1)
    pairs = [(op, left, right) for op in ("min", "max") for left, right in ((nan, one), (one, nan))]
    assert all(np.isnan(machine.binary(op, "float64", left, right)) for op, left, right in pairs)  # type: ignore[arg-type]
    assert machine.undefined == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_folds_start_at_the_neutral_element(dtype: str) -> None:
    machine = Machine()
    for monoid, op in (("sum", "add"), ("product", "mul"), ("max", "max"), ("min", "min")):
        neutral = machine.neutral(monoid, dtype)  # type: ignore[arg-type]
        for number in (-7, 0, 100):
            held = machine.constant(number, dtype)
            assert machine.binary(op, dtype, neutral, held) == held  # type: ignore[arg-type]
            assert type(machine.binary(op, dtype, held, neutral)) is np.dtype(dtype).type  # type: ignore[arg-type]
