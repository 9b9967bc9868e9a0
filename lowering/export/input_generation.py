"""C code that generates random inputs of a kernel in their declared ranges and order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from atl.core.dtypes import is_integer
from atl.core.index import Array, Index
from atl.core.program import in_order_of_need, is_bool_array, is_strict, needed_by
from lowering.c.index import count_text, index_text
from lowering.c.scalars import C_TYPES, conversion
from lowering.c.text import Text
from lowering.nest.loopnest import elements
from lowering.nest.text import TextScope


@dataclass(frozen=True, slots=True)
class CheckVariable:
    """A variable of the generated check. As a key of a scope, it differs from sizes and arrays of the same name."""

    hint: str


INPUTS_EXIST, AT = CheckVariable("there"), CheckVariable("at")
"""Variables: whether the declarations of the inputs can be satisfied, and an index."""
BELOW: Final = 100
"""Exclusive upper bound of integers without a declared range."""

HELPERS: Final = {
    "atl_state": """\
/* SplitMix64 (Steele, Lea and Flood) with a fixed seed, so that all runs use the same numbers. */
static uint64_t atl_state = 1;
""",
    "atl_random": """\
static uint64_t atl_random(void)
{
    uint64_t z = atl_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
""",
    "atl_number": """\
/* A number from 0.5 to 1.5, for which sums do not cancel and divisions are safe. */
static double atl_number(void)
{
    return 0.5 + (double)(atl_random() >> 11) * 0x1p-53;
}
""",
    "atl_integer": """\
/* An integer from low to low + span - 1. */
static int64_t atl_integer(int64_t low, int64_t span)
{
    return low + (int64_t)(atl_random() % (uint64_t)span);
}
""",
    "atl_allocate": """\
/* Allocate count elements, and ATL_GUARD bytes behind them. */
static void *atl_allocate(int64_t count, size_t size)
{
    void *made = malloc((size_t)count * size + ATL_GUARD);
    if (made == NULL) {
        fprintf(stderr, "out of memory for %lld elements\\n", (long long)count);
        exit(2);
    }
    return made;
}
""",
    "atl_by_size": """\
static int atl_by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}
""",
    "atl_draw": """\
/* Fill rows with integers from low to high - 1: in any order (0), nondecreasing (1) or increasing (2).
   Return whether such rows exist. */
static int atl_draw(int64_t *to, int64_t count, int64_t row, int64_t low, int64_t high, int order)
{
    if (count == 0) {
        return 1;
    }
    /* Increasing integers are nondecreasing ones, each plus its position. */
    const int64_t span = high - low - (order == 2 ? row - 1 : 0);
    if (span <= 0) {
        return 0;
    }
    for (int64_t r = 0; r < count; r += row) {
        for (int64_t i = r; i < r + row; i++) {
            to[i] = atl_integer(low, span);
        }
        if (order != 0) {
            qsort(to + r, (size_t)row, sizeof *to, atl_by_size);
        }
        for (int64_t i = r; order == 2 && i < r + row; i++) {
            to[i] += i - r;
        }
    }
    return 1;
}
""",
    "atl_draw_positions": """\
/* Fill with nondecreasing positions from low to high - 1, with differences of at most longest. */
static int atl_draw_positions(int64_t *to, int64_t count, int64_t low, int64_t high, int64_t longest)
{
    int64_t at = low;
    for (int64_t i = 0; i < count; i++) {
        if (at >= high) {
            return 0;
        }
        to[i] = at;
        const int64_t left = high - 1 - at, most = left < longest ? left : longest;
        at += most > 0 ? atl_integer(0, most + 1) : 0;
    }
    return 1;
}
""",
    "atl_draw_between": """\
/* Fill with integers from low to high - 1 that are sorted between consecutive positions. */
static int atl_draw_between(int64_t *to, int64_t count, const int64_t *at, int64_t ends, int64_t low, int64_t high,
                            int order)
{
    int there = atl_draw(to, count, count, low, high, 0);
    for (int64_t r = 0; there && r + 1 < ends; r++) {
        const int64_t first = at[r] < 0 ? 0 : at[r], last = at[r + 1] < count ? at[r + 1] : count;
        if (first < last) {
            there = atl_draw(to + first, last - first, last - first, low, high, order);
        }
    }
    return there;
}
""",
    "atl_smaller": """\
static int64_t atl_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
""",
    "atl_draw_after": """\
/* Fill with integers from low to high - 1 that are sorted where the elements of all leading arrays are equal, where
   each occurs `most` times at most (0: any number). */
static int atl_draw_after(int64_t *to, int64_t count, const int64_t *const *leading, int arrays, int64_t low,
                          int64_t high, int64_t most)
{
    int there = 1;
    for (int64_t first = 0, last; there && first < count; first = last) {
        for (last = first + 1; last < count; last++) {
            int same = 1;
            for (int k = 0; k < arrays; k++) {
                same &= leading[k][last] == leading[k][first];
            }
            if (!same) {
                break;
            }
        }
        const int64_t repeated = most > 0 ? most : 1;
        there = atl_draw(to + first, last - first, last - first, 0, (high - low) * repeated, most > 0 ? 2 : 1);
        for (int64_t i = first; there && i < last; i++) {
            to[i] = low + to[i] / repeated;
        }
    }
    return there;
}
""",
    "atl_larger": """\
static double atl_larger(double a, double b)
{
    return a > b ? a : b;
}
""",
}
"""Helper functions of a check. Each follows the helpers that it calls."""


def _count(array: Array) -> CheckVariable:
    """Return the variable for the number of elements of an input."""
    return CheckVariable(f"{array.name}_count")


def _drawn(array: Array) -> CheckVariable:
    """Return the variable for the integers generated for an input."""
    return CheckVariable(f"{array.name}_drawn")


def _random_value(array: Array) -> str:
    """Return the C text of a random truth value or number for an input."""
    if is_bool_array(array):
        return f"({C_TYPES[array.dtype]})(atl_random() & 1)"
    return conversion(Text("atl_number()"), "float64", array.dtype).text


@dataclass(frozen=True, slots=True)
class InputGenerator:
    """The C code that declares, generates and frees the inputs of a nest, with the scope of its names."""

    scope: TextScope
    inputs: tuple[Array, ...]

    @staticmethod
    def of(scope: TextScope, inputs: tuple[Array, ...]) -> InputGenerator:
        """Return the generator in a scope with names of inputs and sizes, and add names for its own variables."""
        for own in (INPUTS_EXIST, AT, *(of(array) for array in inputs for of in (_count, _drawn))):
            _, scope = scope.bind(own, own.hint)
        return InputGenerator(scope, inputs)

    def lines(self) -> list[str]:
        """Return the lines that declare all inputs, and the variable that indicates whether such integers exist."""
        made = (line for array in in_order_of_need(self.inputs) for line in self._drawn(array))
        return [f"int {self.scope.name(INPUTS_EXIST)} = 1;", *made]

    def _index(self, expression: Index) -> str:
        return index_text(self.scope, expression).text

    def _drawn(self, array: Array) -> list[str]:
        kind = C_TYPES[array.dtype]
        name, count, drawn = map(self.scope.name, (array.name, _count(array), _drawn(array)))
        there, at = self.scope.name(INPUTS_EXIST), self.scope.name(AT)
        if not array.shape:
            return self._scalar(array, name, kind, drawn)
        lines = [f"const int64_t {count} = {elements_text(self.scope, array.shape)};"]
        lines.append(f"{kind} *{name} = atl_allocate({count}, sizeof *{name});")
        loop = f"for (int64_t {at} = 0; {at} < {count}; {at}++) {{"
        if is_bool_array(array) or not is_integer(array.dtype):
            return [*lines, loop, f"    {name}[{at}] = {_random_value(array)};", "}"]
        lines.append(f"int64_t *{drawn} = atl_allocate({count}, sizeof *{drawn});")
        lines.append(f"{there} = {there} && {self._integers(array, drawn, count)};")
        return [
            *lines,
            f"if ({there}) {{",
            f"    {loop}",
            f"        {name}[{at}] = ({kind}){drawn}[{at}];",
            "    }",
            "}",
        ]

    def _scalar(self, array: Array, name: str, kind: str, drawn: str) -> list[str]:
        if is_bool_array(array) or not is_integer(array.dtype):
            return [f"const {kind} {name} = {_random_value(array)};"]
        low, high = self._range(array, "1")
        there = self.scope.name(INPUTS_EXIST)
        return [
            f"int64_t {drawn} = 0;",
            f"{there} = {there} && atl_draw(&{drawn}, 1, 1, {low}, {high}, 0);",
            f"const {kind} {name} = ({kind}){drawn};",
        ]

    def _range(self, array: Array, count: str) -> tuple[str, str]:
        low = None if array.low is None else self._index(array.low)
        high = None if array.high is None else self._index(array.high)
        if high is None:
            return low or "0", f"{low or '0'} + {BELOW} + {count}"
        return low or f"{high} - {BELOW} - {count}", high

    def _integers(self, array: Array, drawn: str, count: str) -> str:
        low, high = self._range(array, count)
        order = {"": 0, "nondecreasing": 1, "increasing": 2}[array.monotonic]
        if array.between is not None:
            ends = ", ".join(map(self.scope.name, (_drawn(array.between), _count(array.between))))
            return f"atl_draw_between({drawn}, {count}, {ends}, {low}, {high}, {order})"
        most = self._most_equal(array, count)
        if array.after is not None or (most and order < 2):
            names = ", ".join(self.scope.name(_drawn(each)) for each in array.leading)
            leading = f"(const int64_t *const[]){{{names}}}" if names else "NULL"
            return f"atl_draw_after({drawn}, {count}, {leading}, {len(array.leading)}, {low}, {high}, {most or 0})"
        inside = [each for each in self.inputs if each.between == array and is_strict(each)]
        if inside and order < 2 and inside[0].high is not None:
            low_inside, high_inside = self._range(inside[0], "0")
            return f"atl_draw_positions({drawn}, {count}, {low}, {high}, {high_inside} - ({low_inside}))"
        return f"atl_draw({drawn}, {count}, {self._index(array.shape[-1])}, {low}, {high}, {order})"

    def _most_equal(self, array: Array, count: str) -> str:
        """Return a number of equal elements of a run for which distinct tuples exist; "" if any number is allowed."""
        if is_strict(array):
            return "1"
        most = ""
        for each in self.inputs:
            below = self._most_equal(each, count) if needed_by(each) == (each.after,) == (array,) else ""
            if below:
                low, high = self._range(each, count)
                most = f"atl_smaller({most or count}, ({high} - ({low})) * {below})"
        return most

    def freed(self) -> list[str]:
        """Return the lines that free all inputs."""
        lines: list[str] = []
        for array in self.inputs:
            if array.shape:
                lines.append(f"free({self.scope.name(array.name)});")
                if is_integer(array.dtype) and not is_bool_array(array):
                    lines.append(f"free({self.scope.name(_drawn(array))});")
        return lines


def elements_text(scope: TextScope, extents: tuple[Index, ...]) -> str:
    """Return the number of elements as a C expression."""
    return count_text(scope, elements(extents), extents).widened().text
