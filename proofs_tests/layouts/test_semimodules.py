"""The laws of Figs. 6.2 and 6.3 hold for our semimodules, and violations are found."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

import pytest

from atl.errors import InvalidArgument
from layouts import F2, Coordinate, E, Layout
from layouts.foundation.semimodule import BITS, COORDINATES, INTEGERS, Bits, Integers, Semimodule

Law: TypeAlias = Callable[[Semimodule[Any], int, int, Any, Any, Any], bool]
"""A law as a predicate on coordinates x and y and strides a, b and c."""


def _sound_division(m: Semimodule[Any], x: int, y: int, a: Any, b: Any, c: Any) -> bool:
    if x <= 0:
        return True
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
    "DIVMODSOUND": _sound_division,
    "BINCOMM": lambda m, x, y, a, b, c: m.add(a, b) == m.add(b, a),
    "BINASSOC": lambda m, x, y, a, b, c: m.add(m.add(a, b), c) == m.add(a, m.add(b, c)),
    "BINMULID": lambda m, x, y, a, b, c: m.add(m.scale(0, a), b) == b,
    "MULID": lambda m, x, y, a, b, c: m.scale(1, a) == a,
    "MULASSOC": lambda m, x, y, a, b, c: m.scale(x, m.scale(y, a)) == m.scale(m.times(x, y), a),
    "MULBINDISTR": lambda m, x, y, a, b, c: m.scale(x, m.add(a, b)) == m.add(m.scale(x, a), m.scale(x, b)),
    "ADDMULDISTR": lambda m, x, y, a, b, c: m.scale(m.plus(x, y), a) == m.add(m.scale(x, a), m.scale(y, a)),
}
"""The laws by their names in the figures."""


def broken(module: Semimodule[Any], digits: Sequence[int], strides: Sequence[Any]) -> Iterator[str]:
    """Return the laws that fail for some of these coordinates and strides, each with its first counterexample.

    >>> from layouts.foundation.semimodule import BITS, F2
    >>> list(broken(BITS, range(6), [F2(bits) for bits in range(6)]))
    []
    """
    for name, law in LAWS.items():
        for x, y, a, b, c in product(digits, digits, strides, strides, strides):
            if not law(module, x, y, a, b, c):
                yield f"{name} fails for x = {x}, y = {y}, a = {a}, b = {b}, c = {c}"
                break


SAMPLES: list[tuple[Semimodule[Any], list[Any]]] = [
    (INTEGERS, [-3, 0, 1, 2, 4]),
    (COORDINATES, [Coordinate(parts) for parts in ((), (1,), (0, 1), (2, -1), (0, 0, 3))]),
    (BITS, [F2(bits) for bits in (0, 1, 2, 3, 5)]),
]


@pytest.mark.parametrize(("module", "strides"), SAMPLES, ids=["integers", "coordinates", "F2"])
def test_all_laws_hold(module: Semimodule[Any], strides: list[Any]) -> None:
    assert list(broken(module, range(6), strides)) == []


class OverTheIntegers(Bits):
    """Strides over F2 with integer coordinates, as Fig. 6.3 literally says (erratum E35)."""

    def plus(self, x: int, y: int) -> int:
        return x + y

    def times(self, x: int, y: int) -> int:
        return x * y


class Rounding(Integers):
    """Division without remainder."""

    def divmod(self, n: int, a: int) -> tuple[int, int]:
        return a // n, 0


def test_f2_strides_over_the_integers_break_two_laws() -> None:
    found = [fault.split()[0] for fault in broken(OverTheIntegers(), range(6), SAMPLES[2][1])]
    assert found == ["MULASSOC", "ADDMULDISTR"]


def test_division_without_remainder_breaks_a_law() -> None:
    assert [fault.split()[0] for fault in broken(Rounding(), range(5), SAMPLES[0][1])] == ["DIVMODSOUND"]


def test_number_of_laws() -> None:
    assert len(LAWS) == 13


@pytest.mark.parametrize("module", [INTEGERS, COORDINATES, BITS], ids=["integers", "coordinates", "F2"])
def test_orders_are_total(module: Semimodule[Any]) -> None:
    strides = next(strides for known, strides in SAMPLES if known is module)
    assert all(module.at_most(a, a) for a in strides)
    assert all(module.at_most(a, b) or module.at_most(b, a) for a in strides for b in strides)
    assert all(a == b for a in strides for b in strides if module.at_most(a, b) and module.at_most(b, a))


@pytest.mark.parametrize(
    "layout",
    [
        Layout((3, 4), (2, -1), offset=7),
        Layout((3, (2, 2)), (E(0), (2 * E(1), E(0) + E(2)))),
        Layout((4, (3, 2)), (F2(5), (F2(3), F2(9)))),
    ],
    ids=str,
)
def test_table_has_the_values(layout: Layout) -> None:
    table = layout.table()
    for at in range(len(table)):
        value = layout(at)
        expected = [value[k] for k in range(layout.width)] if isinstance(value, Coordinate) else int(value)
        assert table[at].tolist() == expected


def test_strides_of_different_kinds_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="different kinds"):
        Layout((2, 2), (F2(1), E(0)))
    with pytest.raises(InvalidArgument, match=r"F2\(-1\)"):
        F2(-1)
    with pytest.raises(InvalidArgument, match=r"E\(-1\)"):
        E(-1)
