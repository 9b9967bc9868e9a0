"""Readable counterexamples: sizes, elements, and the element in which the sides of a rule differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import count, islice
from typing import Any, Final

from atl.meaning.polynomials import Polynomial
from rewrites.metavariables import Kind
from rewrites.rule import Rule
from rewrites.rule_checking.exhaustion import Counterexample
from rewrites.rule_checking.generic_arguments import FLOAT
from rewrites.rule_checking.small_choices import REACH

MOST_TRIED: Final = 60
MOST_SHOWN: Final = 12
"""Maximum number of elements in the text of a counterexample."""
_ELEMENT: Final = re.compile(r"^(\w+)\[([-\d, ]*)\]$")


def is_of_elements(broken: Counterexample) -> bool:
    """Return whether the sides differ in shape or as polynomials of elements; then they differ in numbers as well."""
    if broken.first is None:
        return True
    of_polynomials = isinstance(broken.first[1], Polynomial)
    return of_polynomials and all(map(_ELEMENT.match, _symbols(*broken.first[1:])))


def is_of_symbols(broken: Counterexample) -> bool:
    """Return whether the sides were compared as polynomials, or have uninterpreted functions; not in numbers."""
    return broken.first is not None and (isinstance(broken.first[1], Polynomial) or broken.uninterpreted)


def show_counterexample(rule: Rule, broken: Counterexample) -> str:
    """Return text like `n = 2, e(0) = 1, e(1) = 2: at [0] the left side is 1, the right one 2`."""
    orders = [f"{name} = {order}" for name, order in broken.orders.items()]
    sizes = [*orders, *(_chosen(rule, name, value) for name, value in broken.sizes.items())]
    if broken.first is None:
        left, right = (side.partition(") ")[0].rstrip(")") + ")" for side in (broken.left, broken.right))
        return f"{', '.join(sizes) or 'some sizes'}: the left side has the shape {left}, the right one {right}"
    at, left, right = broken.first
    where = f"at {list(at)} " if at else ""
    values = broken.elements or _values(left, right)
    shown = [f"{_element(rule, name)} = {value}" for name, value in islice(values.items(), MOST_SHOWN)]
    shown += ["…"] if len(values) > MOST_SHOWN else []
    unlike = [dtype for dtype in dict.fromkeys(broken.types.values()) if dtype != FLOAT]
    typed = [f"elements of {' and '.join(unlike)}"] if unlike else []
    numbers = ", ".join((*sizes, *typed, *shown)) or "any elements"
    return f"{numbers}: {where}the left side is {_at(left, values)}, the right one {_at(right, values)}"


def _chosen(rule: Rule, name: str, value: int) -> str:
    """Return text for one number of a choice: an index, an extent, or the threshold of a condition."""
    of, _, dimension = name.partition(".")
    if dimension:
        return f"{of}.shape[{dimension}] = {value}"
    kind = rule.metavariables.get(name, Kind("index"))
    if kind.sort != "condition":
        return f"{name} = {value}"
    if not kind.parameters:
        return f"{name} = {value > 0}"
    names = "ijkl"[: len(kind.parameters)]
    total = " + ".join(f"{2 if place else ''}{letter}" for place, letter in enumerate(names))
    return f"{name}({', '.join(names)}) = ({total} {'==' if value % 2 else '<'} {value})"


def _symbols(*sides: Any) -> list[str]:
    return sorted({name for side in sides for monomial in side.terms for name in monomial}, key=_in_order)


def _in_order(symbol: str) -> tuple[str, list[int]]:
    """Return a sort key that orders the elements of an array by index."""
    found = _ELEMENT.match(symbol)
    return (found[1], _positions(found[2])) if found else (symbol, [])


def _positions(inside: str) -> list[int]:
    return [int(part) for part in inside.split(",")] if inside.strip() else []


def _values(left: Any, right: Any) -> dict[str, Fraction]:
    """Return values of the elements for which two different polynomials differ."""
    if not isinstance(left, Polynomial) or not isinstance(right, Polynomial):
        return {}
    names = _symbols(left, right)
    # The difference has finitely many roots on almost every line through the origin.
    for start in count(1):
        values = {name: Fraction(start + place * start) for place, name in enumerate(names)}
        if _at(left, values) != _at(right, values) or start > MOST_TRIED:
            return values
    return {}


def _at(side: Any, values: Mapping[str, Any]) -> Any:
    if not isinstance(side, Polynomial):
        return side
    total = Fraction(0)
    for monomial, coefficient in side.terms.items():
        term = coefficient
        for name in monomial:
            term *= values[name]
        total += term
    return total


def _element(rule: Rule, symbol: str) -> str:
    """Return a symbol in the notation of the rule: `e(1)[0]` for element 0 of e at 1."""
    found = _ELEMENT.match(symbol)
    if found is None:
        return symbol
    name, inside = found.groups()
    positions = _positions(inside)
    kind = rule.metavariables.get(name, Kind("tensor"))
    own = sum(parameter.sort == "index" for parameter in kind.parameters)
    given = f"({', '.join(str(place - REACH) for place in positions[:own])})" if kind.parameters else ""
    rest = positions[own:]
    return f"{name}{given}{rest or ''}"
