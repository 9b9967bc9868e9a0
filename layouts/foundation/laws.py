"""The laws of semimodules (Figs. 6.2 and 6.3), each tested on samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

from atl.errors import InvalidArgument, brief
from layouts.foundation.semimodule import Semimodule

Law: TypeAlias = Callable[[Semimodule[Any], int, int, Any, Any, Any], bool]
"""A law as a predicate on coordinates x and y and strides a, b and c."""


def _sound_division(m: Semimodule[Any], x: int, a: Any) -> bool:
    quotient, rest = m.divmod(x, a)
    return bool(m.add(rest, m.scale(x, quotient)) == a)


LAWS: Final[Mapping[str, Law]] = {
    "CONGRUENTREFLEXIVE": lambda m, x, y, a, b, c: m.congruent(a, a),
    "CONGRUENTTRANSITIVE": lambda m, x, y, a, b, c: not (m.congruent(a, b) and m.congruent(b, c)) or m.congruent(a, c),
    "CONGRUENTSYMMETRIC": lambda m, x, y, a, b, c: m.congruent(a, b) == m.congruent(b, a),
    "MULCONGRUENT": lambda m, x, y, a, b, c: not m.congruent(a, b) or m.congruent(m.scale(x, a), b),
    "BINCONGRUENT": lambda m, x, y, a, b, c: (
        not (m.congruent(a, c) and m.congruent(b, c)) or m.congruent(m.add(a, b), c)
    ),
    "DIVMODSOUND": lambda m, x, y, a, b, c: x <= 0 or _sound_division(m, x, a),
    "BINCOMM": lambda m, x, y, a, b, c: m.add(a, b) == m.add(b, a),
    "BINASSOC": lambda m, x, y, a, b, c: m.add(m.add(a, b), c) == m.add(a, m.add(b, c)),
    "BINMULID": lambda m, x, y, a, b, c: m.add(m.scale(0, a), b) == b,
    "MULID": lambda m, x, y, a, b, c: m.scale(1, a) == a,
    "MULASSOC": lambda m, x, y, a, b, c: m.scale(x, m.scale(y, a)) == m.scale(m.times(x, y), a),
    "MULBINDISTR": lambda m, x, y, a, b, c: m.scale(x, m.add(a, b)) == m.add(m.scale(x, a), m.scale(x, b)),
    "ADDMULDISTR": lambda m, x, y, a, b, c: m.scale(m.plus(x, y), a) == m.add(m.scale(x, a), m.scale(y, a)),
}
"""The laws by their names in the figures."""


def broken_laws(module: Semimodule[Any], digits: Sequence[int], strides: Sequence[Any]) -> list[str]:
    """Return the laws that fail for some of these digits and values, each with its first counterexample.

    >>> from layouts.foundation.semimodule import BITS, F2
    >>> broken_laws(BITS, range(6), [F2(bits) for bits in range(6)])
    []
    """
    if not isinstance(module, Semimodule):
        raise InvalidArgument(f"the laws of {brief(module)}", required="a Semimodule")
    if not isinstance(digits, Sequence) or not all(type(digit) is int for digit in digits):
        raise InvalidArgument(f"digits={brief(digits)}", required="a list of integers")
    if not isinstance(strides, Sequence) or isinstance(strides, str):
        raise InvalidArgument(f"strides={brief(strides)}", required="a list of values of the semimodule")
    return list(_broken(module, digits, strides))


def _broken(module: Semimodule[Any], digits: Sequence[int], strides: Sequence[Any]) -> Iterator[str]:
    for name, law in LAWS.items():
        for x, y, a, b, c in product(digits, digits, strides, strides, strides):
            if not law(module, x, y, a, b, c):
                yield f"{name} fails for x = {x}, y = {y}, a = {a}, b = {b}, c = {c}"
                break
