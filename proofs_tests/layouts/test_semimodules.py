"""The laws of Figs. 6.2 and 6.3 hold for our semimodules, and violations are found."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

import atl
from atl.errors import ATLError, InvalidArgument
from atl.prove import Proved, Refuted
from layouts import (
    F2,
    Chain,
    Coordinate,
    E,
    Layout,
    NoLayout,
    broken_laws,
    coalesce,
    composition,
    equal,
    image,
    injective,
    logical_divide,
    make_layout,
)
from layouts.foundation.laws import LAWS
from layouts.foundation.semimodule import BITS, COORDINATES, INTEGERS, Bits, Integers, Semimodule
from layouts.pictures.support_table import OPERATIONS

SAMPLES: list[tuple[Semimodule[Any], list[Any]]] = [
    (INTEGERS, [-3, 0, 1, 2, 4]),
    (COORDINATES, [Coordinate(parts) for parts in ((), (1,), (0, 1), (2, -1), (0, 0, 3))]),
    (BITS, [F2(bits) for bits in (0, 1, 2, 3, 5)]),
]


@pytest.mark.parametrize(("module", "strides"), SAMPLES, ids=["integers", "coordinates", "F2"])
def test_all_laws_hold(module: Semimodule[Any], strides: list[Any]) -> None:
    assert broken_laws(module, range(6), strides) == []


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
    found = [fault.split()[0] for fault in broken_laws(OverTheIntegers(), range(6), SAMPLES[2][1])]
    assert found == ["MULASSOC", "ADDMULDISTR"]


def test_division_without_remainder_breaks_a_law() -> None:
    assert [fault.split()[0] for fault in broken_laws(Rounding(), range(5), SAMPLES[0][1])] == ["DIVMODSOUND"]


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


# -- a semimodule of a user -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hours(Semimodule[int]):
    """Integers modulo a number."""

    whole: int = 12
    zero = 0

    def add(self, a: int, b: int) -> int:
        return (a + b) % self.whole

    def scale(self, n: int, a: int) -> int:
        return n * a % self.whole

    def at_most(self, a: int, b: int) -> bool:
        return a <= b


class Words(Semimodule[tuple[str, ...]]):
    """Multisets of words, as sorted tuples: values that are not numbers."""

    zero = ()

    def add(self, a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(a + b))

    def scale(self, n: int, a: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(a * n))

    def at_most(self, a: tuple[str, ...], b: tuple[str, ...]) -> bool:
        return a <= b


class Saturating(Hours):
    """Multiples that stop at the end: the distributive law fails."""

    def scale(self, n: int, a: int) -> int:
        return min(n * a, self.whole - 1)


def test_laws_hold_for_semimodules_of_a_user() -> None:
    assert broken_laws(Hours(), range(5), range(0, 12, 5)) == []
    assert broken_laws(Words(), range(4), [(), ("a",), ("a", "b")]) == []
    assert {fault.split()[0] for fault in broken_laws(Saturating(), range(5), range(12))} >= {"ADDMULDISTR"}


def drawn(random: Random) -> tuple[Layout, Callable[[int], Any]]:
    """Return a layout over a user's semimodule, with the value at an index by the definition."""
    extents = [random.randint(1, 4) for _ in range(random.randint(1, 3))]
    if random.random() < 0.5:
        hours = Hours(random.choice((7, 12)))
        steps: list[Any] = [random.randrange(12) for _ in extents]
        if random.random() < 0.5:
            steps[1:] = [steps[0] * extents[0] for _ in steps[1:]]  # the first two merge
        start: Any = random.randrange(12)
        strides = [hours.stride(step % hours.whole) for step in steps]
        made = Layout(tuple(extents), tuple(strides), offset=hours.stride(start % hours.whole))
        digits = made.box.digits
        return made, lambda at: (start + sum(d * s for d, s in zip(digits(at), steps, strict=True))) % hours.whole
    words = Words()
    steps = [tuple(sorted(random.choices("abc", k=random.randint(0, 2)))) for _ in extents]
    made = Layout(tuple(extents), tuple(words.stride(step) for step in steps))
    return made, lambda at: tuple(
        sorted(letter for d, s in zip(made.box.digits(at), steps, strict=True) for letter in d * s)
    )


def test_operators_agree_with_the_definition_over_a_users_semimodule() -> None:
    random = Random(66)
    merged = tiles = 0
    for _ in range(60):
        layout, value = drawn(random)
        size = layout.size
        assert isinstance(size, int)
        values = [value(at) for at in range(size)]
        assert [layout(at).value for at in range(size)] == [each.value for each in layout.table()] == values
        small = coalesce(layout)
        merged += len(small.modes) < sum(n != 1 for n, _ in layout.modes)
        assert [small(at).value for at in range(size)] == values
        assert equal(small, layout) == (Proved("structure") if small.modes == layout.modes else Proved("table"))
        assert isinstance(injective(layout), Proved) == (len(set(values)) == size)
        assert [each.value for each in image(layout)] == sorted(set(values))
        inner = Layout((2, 2), (random.randrange(3), random.randrange(3)))
        after = composition(layout, inner)
        if all(inner(at) < size for at in range(4)):
            assert [after(at).value for at in range(4)] == [value(inner(at)) for at in range(4)]
        if size % 2 == 0:
            try:
                tiled = logical_divide(layout, 2)
            except NoLayout:
                continue
            tiles += 1
            assert [each.value for each in tiled.table()] == values
        joined = make_layout(layout, layout)
        assert [joined(at).value for at in range(size)] == [layout.semimodule.add(one, values[0]) for one in values]
    assert merged > 4
    assert tiles > 8


def test_differences_over_a_users_semimodule_are_found() -> None:
    hours, other = Hours(), Hours(7)
    clock = Layout((4, 3), (hours.stride(5), hours.stride(8)))
    assert isinstance(equal(clock, Layout((4, 3), (hours.stride(5), hours.stride(9)))), Refuted)
    assert isinstance(equal(clock, Layout((4, 3), (other.stride(5), other.stride(1)))), Refuted)
    assert isinstance(equal(clock, Layout((4, 3), (5, 8))), Refuted)
    assert equal(Layout(12, hours.stride(3)), Layout((4, 3), (hours.stride(3), hours.stride(0)))) == Proved("table")


def test_law_that_fails_is_found_by_coalescing_and_composition() -> None:
    lossy = Saturating()
    stopped = Layout((3, 4), (lossy.stride(2), lossy.stride(6)))
    with pytest.raises(NoLayout, match=r"its value at 7 is Saturating\(1\), not Saturating\(11\)"):
        coalesce(stopped)
    after = composition(stopped, Layout(6, 2))
    assert isinstance(after, Chain)
    assert "a law of the strides fails" in after.reason
    assert [after(at) for at in range(6)] == [stopped(2 * at) for at in range(6)]


@pytest.mark.parametrize("name", OPERATIONS)
def test_operators_for_integers_are_refused_over_a_users_semimodule(name: str) -> None:
    hours = Hours()
    clock = Layout((4, 8), (hours.stride(5), hours.stride(8)))
    for function in (clock, Chain(clock, Layout((4, 8), (8, 1)), "")):
        try:
            made = OPERATIONS[name](function)
        except ATLError:
            continue
        assert name.split(maxsplit=1)[0] in GENERIC, str(made)


GENERIC = (
    "value", "size", "numbers", "`coalesce`", "`composition`", "`logical_divide`", "`image`", "`injective`", "`equal`",
    "`draw`", "`as_layout`", "`as_function`", "`bijective`",
)  # fmt: skip


def test_other_strides_of_a_user_are_refused() -> None:
    hours = Hours()
    n = atl.sizes("n")
    for call in (
        lambda: Layout((4, n), (hours.stride(1), hours.stride(2))),
        lambda: Layout((4, 3), (hours.stride(1), Hours(7).stride(2))),
        lambda: Layout((4, 3), (hours.stride(1), 5)),
        lambda: Layout((4, 3), (Words().stride(("a",)), Words().stride("a"))),  # type: ignore[arg-type]
        lambda: hours.stride([1]),  # type: ignore[arg-type]
        lambda: INTEGERS.stride(3),
        lambda: Layout(4, hours.stride(1))(n),
        lambda: composition(Layout(12, 1), Layout(4, hours.stride(1)))(1),
        lambda: hours.stride(1) < np.ones(3),  # type: ignore[operator]
        lambda: broken_laws(12, range(3), range(3)),  # type: ignore[arg-type]
        lambda: broken_laws(hours, 3, range(3)),  # type: ignore[arg-type]
        lambda: broken_laws(hours, range(3), None),  # type: ignore[arg-type]
    ):
        with pytest.raises(ATLError):
            call()


def test_strides_of_different_kinds_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="different kinds"):
        Layout((2, 2), (F2(1), E(0)))
    with pytest.raises(InvalidArgument, match=r"F2\(-1\)"):
        F2(-1)
    with pytest.raises(InvalidArgument, match=r"E\(-1\)"):
        E(-1)
