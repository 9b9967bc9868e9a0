"""Expressions that cancel in real numbers, as those of compensated sums, whose rounding must not be optimised away.

In real numbers, (a - (t - p)) + (x - p) with t = a + x and p = t - a is zero. In floating point it is the error of
a + x. A compiler that may reassociate would replace it by zero, so such a nest is compiled in the order of its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, assert_never

from atl.core.dtypes import is_float
from lowering.nest import loopnest as ln

Monomial: TypeAlias = tuple[str, ...]
Polynomial: TypeAlias = Mapping[Monomial, float]

MOST_MONOMIALS: Final = 64
"""Largest number of monomials of an expression that is expanded."""


class _Cancels(Exception):
    pass


def cancels(nest: ln.LoopNest) -> bool:
    """Return whether a monomial cancels in a sum or difference of floats in the nest."""
    try:
        _search(nest.body, {})
    except _Cancels:
        return True
    return False


def _search(block: ln.Block, outside: Mapping[ln.Scalar, Polynomial]) -> None:
    known = dict(outside)
    for statement in block:
        match statement:
            case ln.Declare(variable, initial):
                known[variable] = _expanded(initial, known)
            case ln.Assign(target, value) | ln.Accumulate(target, _, value):
                _expanded(value, known)
                if isinstance(target, ln.Scalar):
                    known.pop(target, None)
            case ln.For(body=body) | ln.If(body=body):
                changed = {
                    s.target
                    for s in ln.statements(body)
                    if isinstance(s, ln.Assign | ln.Accumulate) and isinstance(s.target, ln.Scalar)
                }
                known = {variable: value for variable, value in known.items() if variable not in changed}
                _search(body, known)
            case ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


def _expanded(e: ln.ScalarExpr, known: Mapping[ln.Scalar, Polynomial]) -> Polynomial:
    """Return an expression as a polynomial. Raises `_Cancels` if a monomial cancels."""
    match e:
        case ln.Number(value):
            return {(): float(value)} if is_float(e.dtype) else _atom(e)
        case ln.Load(ln.Scalar() as scalar) if scalar in known:
            return known[scalar]
        case ln.Load() | ln.FromIndex():
            return _atom(e)
        case ln.Apply("add" | "sub" as op, (left, right), dtype) if is_float(dtype):
            x, y = _expanded(left, known), _expanded(right, known)
            total = dict(x)
            for monomial, factor in y.items():
                added = total.get(monomial, 0.0) + (factor if op == "add" else -factor)
                if monomial in total and added == 0:
                    raise _Cancels
                total[monomial] = added
            return total if len(total) <= MOST_MONOMIALS else _atom(e)
        case ln.Apply("neg", (operand,), dtype) if is_float(dtype):
            return {monomial: -factor for monomial, factor in _expanded(operand, known).items()}
        case ln.Apply("mul", (left, right), dtype) if is_float(dtype):
            x, y = _expanded(left, known), _expanded(right, known)
            if len(x) * len(y) > MOST_MONOMIALS:
                return _atom(e)
            product: dict[Monomial, float] = {}
            for first, by in x.items():
                for second, times in y.items():
                    monomial = tuple(sorted((*first, *second)))
                    product[monomial] = product.get(monomial, 0.0) + by * times
            return {monomial: factor for monomial, factor in product.items() if factor}
        case ln.Apply(_, arguments):
            for argument in arguments:
                _expanded(argument, known)
            return _atom(e)
        case ln.Choose(_, left, right):
            _expanded(left, known)
            _expanded(right, known)
            return _atom(e)
        case ln.Convert(argument):
            _expanded(argument, known)
            return _atom(e)
    assert_never(e)


def _atom(e: ln.ScalarExpr) -> Polynomial:
    return {(repr(e),): 1.0}
