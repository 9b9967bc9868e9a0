"""The inputs of an attacked program: a few fixed names, declared in another way each time.

The names are few on purpose: what the prover remembers of one program is asked of the next one, where other facts hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from atl.core.dtypes import is_integer
from atl.core.index import ONE, ZERO, Array, Index, Monotonicity, constant, extremum, floordiv, read, size
from atl.core.predicate import (
    Predicate,
    at_most,
    conjunction,
    disjunction,
    equal,
    less,
    negation,
    within,
)
from atl.core.program import Program
from atl.errors import ATLError
from proofs_tests.programs.choices import Choices, chance, choose, weighted

SIZES: Final = ("n", "m", "k")
DTYPES: Final = ((6, "float64"), (2, "float32"), (1, "int32"), (1, "int64"))
N, M, K = map(size, SIZES)


@dataclass(frozen=True, slots=True)
class Setting:
    """The declared inputs by name, and the element type that most of the program has."""

    dtype: str
    inputs: Mapping[str, Array]

    @staticmethod
    def drawn(choices: Choices) -> Setting:
        dtype = weighted(choices, DTYPES)
        of_integers = choose(choices, ("int64", "int64", "int32"))
        arrays = [
            Array("x", (choose(choices, (N, N, M, N + 1, N - M)),), dtype),
            Array("y", (N, choose(choices, (M, M, N, constant(2)))), dtype),
            Array("s", (), dtype),
            _integers(choices, "A", (choose(choices, (N, N, M, constant(3))),), of_integers),
            _integers(choices, "B", (N, choose(choices, (M, N))), of_integers),
            _integers(choices, "c", (), of_integers),
        ]
        return Setting(dtype, {array.name: array for array in arrays})

    @staticmethod
    def of(program: Program, choices: Choices) -> Setting:
        """The inputs of a program; what it lacks of the names that are drawn from is declared beside them."""
        drawn = Setting.drawn(choices)
        own = {array.name: array for array in program.inputs}
        alike = {name: own[name] for name, array in drawn.inputs.items()
                 if name in own and _alike(own[name], array)}  # fmt: skip
        return Setting(program.dtype, {**drawn.inputs, **alike})

    def otherwise(self) -> Setting:
        """The same inputs, of which other facts are declared."""
        return replace(self, inputs={name: _otherwise(array) for name, array in self.inputs.items()})


def _alike(a: Array, b: Array) -> bool:
    return len(a.shape) == len(b.shape) and is_integer(a.dtype) == is_integer(b.dtype)


def _otherwise(array: Array) -> Array:
    """No fact in the place of a range or an order, and 0 as a bound in the place of none."""
    if array.name not in "ABc":
        return array
    low = ZERO if array.low is None else None
    high = ZERO if array.high is None and array.low is None else None
    return replace(array, low=low, high=high, monotonic="", between=None)


def _integers(choices: Choices, name: str, shape: tuple[Index, ...], dtype: str) -> Array:
    """Whole numbers of a range that may be one-sided, empty or a point, in order or not."""
    low = choose(choices, (None, None, ZERO, ZERO, ONE, constant(-2), N, constant(5)))
    above = ZERO if low is None else low
    high = choose(choices, (None, None, N, N, M, above, above + 1, above + N, constant(4)))
    ordered: tuple[Monotonicity, ...] = (
        ("increasing", "increasing", "nondecreasing") if shape and chance(choices, 40) else ("",)
    )
    monotonic = choose(choices, ordered)
    return Array(name, shape, dtype, low, high, monotonic)


# -- index expressions and conditions ---------------------------------------------------------------------------------


def element(choices: Choices, setting: Setting, indices: Sequence[Index], depth: int) -> Index:
    """An element of an input of whole numbers."""
    array = setting.inputs[choose(choices, ("A", "A", "A", "B", "c"))]
    return read(array, tuple(expression(choices, setting, indices, depth) for _ in array.shape))


def expression(choices: Choices, setting: Setting, indices: Sequence[Index], depth: int) -> Index:
    """An index expression, as unreasonable as its depth allows; `indices` are those in scope."""
    leaves = [*indices, *indices, N, M, K, constant(choices.integer(-2, 4))]
    if not depth:
        return choose(choices, leaves)
    a = expression(choices, setting, indices, depth - 1)
    b = expression(choices, setting, indices, depth - 1)
    match choices.integer(0, 12):
        case 0:
            return a * b
        case 1:
            return -a
        case 2:
            return floordiv(a, choose(choices, (constant(2), constant(3), K, b if b.constant is None else K)))
        case 3:
            return a - 2 * floordiv(a, constant(2))
        case 4:
            return extremum(choose(choices, ("min", "max")), a, b)
        case 5 | 6:
            return element(choices, setting, indices, depth - 1)
        case 7 | 8:
            return a + b
        case 9 | 10:
            return a - b
        case _:
            return a


def condition(choices: Choices, setting: Setting, indices: Sequence[Index], depth: int = 1) -> Predicate:
    """A condition on such expressions."""
    a, b = (expression(choices, setting, indices, choices.integer(0, depth)) for _ in range(2))
    match choices.integer(0, 8):
        case 0:
            return equal(a, b)
        case 1:
            return negation(equal(a, b))
        case 2:
            return within(ZERO, element(choices, setting, indices, 0), choose(choices, (N, M, constant(1))))
        case 3:
            return at_most(choose(choices, (ZERO, ONE, N)), element(choices, setting, indices, 0))
        case 4:
            others = (condition(choices, setting, indices, 0) for _ in range(2))
            return (disjunction if chance(choices, 50) else conjunction)(tuple(others))
        case 5 | 6:
            return less(a, b)
        case _:
            return at_most(a, b)


def declared_condition(choices: Choices, setting: Setting) -> Predicate:
    """What may follow of an element from what is declared of it: it is within bounds, or zero outside of its array."""
    array = setting.inputs[choose(choices, ("A", "B", "c"))]
    at = read(array, tuple(expression(choices, setting, (), choose(choices, (0, 0, 1))) for _ in array.shape))
    low, high = choose(choices, (ZERO, ZERO, ONE, N)), choose(choices, (N, M, constant(5), ONE))
    match choices.integer(0, 4):
        case 0:
            return within(low, at, high)
        case 1:
            return less(at, high)
        case 2:
            return disjunction((less(at, high), less(K, ONE), at_most(high, ZERO)))
        case 3:
            return at_most(at, ZERO)
        case _:
            return at_most(choose(choices, (low, -low)), at)


def attempted_expression(choices: Choices, setting: Setting, indices: Sequence[Index], depth: int) -> Index:
    """The same, where the language refuses none of it."""
    while True:
        try:
            return expression(choices, setting, indices, depth)
        except ATLError:
            continue
