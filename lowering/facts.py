"""What is declared of the elements of integer arrays, checked by C in every call.

A kernel remembers which shapes fit; elements may have changed since, and are looked at anew. What finds a fault here
only says so: `atl.meaning.arguments` then tells which element it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Final, TypeAlias, assert_never

from atl.core.declared import AtLeast, Below, Rising, bounds_of, facts_of, is_truths
from atl.core.dtypes import range_of
from atl.core.index import Array, Index, Leaf, Size, value_of
from atl.core.program import Program
from lowering.toolchain import build_shared, load

Limits: TypeAlias = tuple[tuple[tuple[int, ...], Callable[..., int], tuple[int, ...]], ...]
"""What is asked of the arrays of a call: of the inputs at these positions, a function of C that finds a fault, and what
it is told: how many elements there are and which are allowed, or how long a row is."""

_SOURCE: Final = """\
#include <stdint.h>

/* Whether an element is not among low ... low + span: what is below wraps to what is far above. */
int outside_{name}(const {type} *a, int64_t count, {type} low, u{type} span)
{{
    int found = 0;
    for (int64_t i = 0; i < count; i++) {{
        found |= (u{type})a[i] - (u{type})low > span;
    }}
    return found;
}}

/* Whether an element of a row is below the one before it, or at most that if it is to rise strictly. */
int falls_{name}(const {type} *a, int64_t count, int64_t row, int64_t strict)
{{
    int found = 0;
    for (int64_t r = 0; r < count; r += row) {{
        for (int64_t i = r + 1; i < r + row; i++) {{
            found |= strict ? a[i] <= a[i - 1] : a[i] < a[i - 1];
        }}
    }}
    return found;
}}
"""
_DECLARED: Final = (
    "int outside_{name}(const {type} *, int64_t, {type}, u{type}); "
    "int falls_{name}(const {type} *, int64_t, int64_t, int64_t);"
)
_BETWEEN: Final = """\
#include <stdint.h>

/* The same between each two neighbouring positions, as far as they are positions in the row. */
int falls_between(const {type} *a, const {positions} *at, int64_t count, int64_t ends, int64_t strict)
{{
    int found = 0;
    for (int64_t r = 0; r + 1 < ends; r++) {{
        const int64_t first = at[r] < 0 ? 0 : at[r];
        const int64_t last = at[r + 1] < count ? at[r + 1] : count;
        for (int64_t i = first + 1; i < last; i++) {{
            found |= strict ? a[i] <= a[i - 1] : a[i] < a[i - 1];
        }}
    }}
    return found;
}}
"""
_BETWEEN_DECLARED: Final = "int falls_between(const {type} *, const {positions} *, int64_t, int64_t, int64_t);"


@cache
def _checks(dtype: str) -> tuple[Any, Any, Any]:
    """The functions of C for arrays of an integer type, and the library, which must not go before they do."""
    names = {"name": dtype, "type": f"{dtype}_t"}
    path = build_shared(_SOURCE.format(**names), name=f"facts_{dtype}")
    _, library = load(path, _DECLARED.format(**names))
    return getattr(library, f"outside_{dtype}"), getattr(library, f"falls_{dtype}"), library


@cache
def _checks_between(dtype: str, positions: str) -> tuple[Any, Any]:
    """The function of C for arrays ordered between positions, by the types of both, and its library."""
    names = {"type": f"{dtype}_t", "positions": f"{positions}_t"}
    path = build_shared(_BETWEEN.format(**names), name=f"facts_{dtype}_between_{positions}")
    _, library = load(path, _BETWEEN_DECLARED.format(**names))
    return library.falls_between, library


def _no_element(array: Array, _: tuple[int, ...]) -> int:
    raise AssertionError(f"{array.name} is read in a bound: such limits are not remembered")


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a program's inputs: which arrays have any, and where each input stands."""

    arrays: tuple[tuple[int, Array], ...]
    places: Mapping[str, int]

    @staticmethod
    def of(program: Program) -> Facts:
        """Those of the inputs of a program. An array of truth values has no others."""
        places = {array.name: at for at, array in enumerate(program.inputs)}
        told = (each for each in enumerate(program.inputs) if facts_of(each[1]) and not is_truths(each[1]))
        return Facts(tuple(told), places)

    def stated(self) -> list[Index]:
        """The expressions on which it depends what holds."""
        return [fact.bound for _, array in self.arrays for fact in bounds_of(array)]

    def limits(self, sizes: Mapping[str, int]) -> Limits:
        """What the facts say for these sizes; their bounds must be over sizes alone."""

        def leaf(at: Leaf) -> int:
            return sizes[at.name] if isinstance(at, Size) else 0

        def value(expression: Index) -> int:
            return value_of(expression, leaf, _no_element)

        found: list[tuple[tuple[int, ...], Callable[..., int], tuple[int, ...]]] = []
        for at, array in self.arrays:
            shape = tuple(map(value, array.shape))
            # Nothing is asked of no elements. A scalar is looked at by each call as it is.
            if not shape or 0 in shape:
                continue
            outside, falls, _ = _checks(array.dtype)
            low, high = range_of(array.dtype)
            ordered: Limits = ()
            for fact in facts_of(array):
                match fact:
                    case AtLeast(bound):
                        low = max(low, value(bound))
                    case Below(bound):
                        high = min(high, value(bound) - 1)
                    case Rising(strict, between) if between is not None:
                        check, _ = _checks_between(array.dtype, between.dtype)
                        told = (shape[0], value(between.shape[0]), strict)
                        ordered = (((at, self.places[between.name]), check, told),)
                    case Rising(strict):
                        ordered = (((at,), falls, (prod(shape), shape[-1], strict)),)
                    case _:
                        assert_never(fact)
            if (low, high) != range_of(array.dtype):
                found.append(((at,), _never, ()) if high < low else ((at,), outside, (prod(shape), low, high - low)))
            found += ordered if shape[-1] > 1 else ()
        return tuple(found)


def _never(_: Any) -> int:
    """No element can be in an empty range."""
    return 1
