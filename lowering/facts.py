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

from atl.core.declared import AtLeast, Below, Increasing, facts_of
from atl.core.dtypes import range_of
from atl.core.index import Array, Index, Leaf, Size, value_of
from atl.core.program import Program
from lowering.toolchain import build_shared, load

Limits: TypeAlias = tuple[tuple[int, Callable[..., int], tuple[int, ...]], ...]
"""What is asked of the arrays of a call: of the input at this position, a function of C that finds a fault, and what it
is told: how many elements there are and which are allowed, or how long a row is."""

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

/* Whether an element of a row is not above the one before it. */
int falls_{name}(const {type} *a, int64_t count, int64_t row)
{{
    int found = 0;
    for (int64_t r = 0; r < count; r += row) {{
        for (int64_t i = r + 1; i < r + row; i++) {{
            found |= a[i] <= a[i - 1];
        }}
    }}
    return found;
}}
"""
_DECLARED: Final = (
    "int outside_{name}(const {type} *, int64_t, {type}, u{type}); int falls_{name}(const {type} *, int64_t, int64_t);"
)


@cache
def _checks(dtype: str) -> tuple[Any, Any, Any]:
    """The functions of C for arrays of an integer type, and the library, which must not go before they do."""
    names = {"name": dtype, "type": f"{dtype}_t"}
    path = build_shared(_SOURCE.format(**names), name=f"facts_{dtype}")
    _, library = load(path, _DECLARED.format(**names))
    return getattr(library, f"outside_{dtype}"), getattr(library, f"falls_{dtype}"), library


def _no_element(array: Array, _: tuple[int, ...]) -> int:
    raise AssertionError(f"{array.name} is read in a bound: such limits are not remembered")


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a program's inputs: which arrays have any."""

    arrays: tuple[tuple[int, Array], ...]

    @staticmethod
    def of(program: Program) -> Facts:
        """Those of the inputs of a program."""
        return Facts(tuple((at, array) for at, array in enumerate(program.inputs) if facts_of(array)))

    def stated(self) -> list[Index]:
        """The expressions on which it depends what holds."""
        return [fact.bound for _, array in self.arrays for fact in facts_of(array) if not isinstance(fact, Increasing)]

    def limits(self, sizes: Mapping[str, int]) -> Limits:
        """What the facts say for these sizes; their bounds must be over sizes alone."""

        def leaf(at: Leaf) -> int:
            return sizes[at.name] if isinstance(at, Size) else 0

        found: list[tuple[int, Callable[..., int], tuple[int, ...]]] = []
        for at, array in self.arrays:
            low, high = range_of(array.dtype)
            row = 0
            for fact in facts_of(array):
                match fact:
                    case AtLeast(bound):
                        low = max(low, value_of(bound, leaf, _no_element))
                    case Below(bound):
                        high = min(high, value_of(bound, leaf, _no_element) - 1)
                    case Increasing():
                        row = value_of(array.shape[-1], leaf, _no_element) if array.shape else 0
                    case _:
                        assert_never(fact)
            if array.shape:
                count = prod(value_of(extent, leaf, _no_element) for extent in array.shape)
                found += _asked(at, array, count, low, high, row)
        return tuple(found)


def _asked(at: int, array: Array, count: int, low: int, high: int, row: int) -> Limits:
    """What is asked of one array; nothing of one that has no elements. A scalar is looked at by each call as it is."""
    if not count:
        return ()
    outside, falls, _ = _checks(array.dtype)
    if high < low:
        return ((at, _never, ()),)
    inside = (at, outside, (count, low, high - low))
    return (inside, (at, falls, (count, row))) if row > 1 else (inside,)


def _never(_: Any) -> int:
    """No element can be in an empty range."""
    return 1
