"""Random declarations of a few fixed input names.

The names are few so that memos of the prover for one program are queried for others with different facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from atl.core.dtypes import is_integer
from atl.core.index import ONE, ZERO, Array, Index, Monotonicity, constant, extremum, floordiv, read, size
from atl.core.predicate import Predicate, at_most, conjunction, disjunction, equal, less, negation, within
from atl.core.program import Program
from atl.errors import ATLError
from proofs_tests.programs.choices import Choices, chance, choose, weighted

SIZES: Final = ("n", "m", "k")
DTYPES: Final = ((6, "float64"), (2, "float32"), (1, "int32"), (1, "int64"))
N, M, K = map(size, SIZES)


@dataclass(frozen=True, slots=True)
class Declarations:
    """Input declarations by name, and the main element type of the program."""

    dtype: str
    inputs: Mapping[str, Array]

    @staticmethod
    def drawn(choices: Choices) -> Declarations:
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
        return Declarations(dtype, {array.name: array for array in arrays})

    @staticmethod
    def of(program: Program, choices: Choices) -> Declarations:
        """Return the inputs of a program, with random declarations for the other names."""
        drawn = Declarations.drawn(choices)
        own = {array.name: array for array in program.inputs}
        alike = {name: own[name] for name, array in drawn.inputs.items()
                 if name in own and _alike(own[name], array)}  # fmt: skip
        return Declarations(program.dtype, {**drawn.inputs, **alike})

    def otherwise(self) -> Declarations:
        """Return the same inputs with other declared facts."""
        return replace(self, inputs={name: _otherwise(array) for name, array in self.inputs.items()})


def _alike(a: Array, b: Array) -> bool:
    return len(a.shape) == len(b.shape) and is_integer(a.dtype) == is_integer(b.dtype)


def _otherwise(array: Array) -> Array:
    """Remove declared ranges and orders, and declare 0 as a bound where there is none."""
    if array.name not in "ABc":
        return array
    low = ZERO if array.low is None else None
    high = ZERO if array.high is None and array.low is None else None
    return replace(array, low=low, high=high, monotonic="", between=None)


def _integers(choices: Choices, name: str, shape: tuple[Index, ...], dtype: str) -> Array:
    """Return an integer array with a random range (one-sided, empty or a point) and order."""
    low = choose(choices, (None, None, ZERO, ZERO, ONE, constant(-2), N, constant(5)))
    above = ZERO if low is None else low
    high = choose(choices, (None, None, N, N, M, above, above + 1, above + N, constant(4)))
    ordered: tuple[Monotonicity, ...] = (
        ("increasing", "increasing", "nondecreasing") if shape and chance(choices, 40) else ("",)
    )
    monotonic = choose(choices, ordered)
    return Array(name, shape, dtype, low, high, monotonic)


def element(choices: Choices, declarations: Declarations, indices: Sequence[Index], depth: int) -> Index:
    """Return an element of an integer input."""
    array = declarations.inputs[choose(choices, ("A", "A", "A", "B", "c"))]
    return read(array, tuple(expression(choices, declarations, indices, depth) for _ in array.shape))


def expression(choices: Choices, declarations: Declarations, indices: Sequence[Index], depth: int) -> Index:
    """Return a random index expression over `indices`, possibly without a meaning."""
    leaves = [*indices, *indices, N, M, K, constant(choices.integer(-2, 4))]
    if not depth:
        return choose(choices, leaves)
    a = expression(choices, declarations, indices, depth - 1)
    b = expression(choices, declarations, indices, depth - 1)
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
            return element(choices, declarations, indices, depth - 1)
        case 7 | 8:
            return a + b
        case 9 | 10:
            return a - b
        case _:
            return a


def condition(choices: Choices, declarations: Declarations, indices: Sequence[Index], depth: int = 1) -> Predicate:
    """Return a random condition."""
    a, b = (expression(choices, declarations, indices, choices.integer(0, depth)) for _ in range(2))
    match choices.integer(0, 8):
        case 0:
            return equal(a, b)
        case 1:
            return negation(equal(a, b))
        case 2:
            return within(ZERO, element(choices, declarations, indices, 0), choose(choices, (N, M, constant(1))))
        case 3:
            return at_most(choose(choices, (ZERO, ONE, N)), element(choices, declarations, indices, 0))
        case 4:
            others = (condition(choices, declarations, indices, 0) for _ in range(2))
            return (disjunction if chance(choices, 50) else conjunction)(tuple(others))
        case 5 | 6:
            return less(a, b)
        case _:
            return at_most(a, b)


def declared_condition(choices: Choices, declarations: Declarations) -> Predicate:
    """Return a condition that may follow from an element's declaration: within bounds, or zero outside of its array."""
    array = declarations.inputs[choose(choices, ("A", "B", "c"))]
    at = read(array, tuple(expression(choices, declarations, (), choose(choices, (0, 0, 1))) for _ in array.shape))
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


def valid_expression(choices: Choices, declarations: Declarations, indices: Sequence[Index], depth: int) -> Index:
    """Return a random index expression that the language accepts."""
    while True:
        try:
            return expression(choices, declarations, indices, depth)
        except ATLError:
            continue
