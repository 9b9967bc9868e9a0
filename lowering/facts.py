"""What is declared of the elements of integer arrays, checked by C in every call.

A kernel remembers which shapes fit; elements may have changed since, and are looked at anew, all in one call of C. What
finds a fault there only says so: `atl.meaning.arguments` then tells which element it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from operator import itemgetter
from typing import Any, Final, TypeAlias, assert_never

from atl.core.declared import AtLeast, Below, Monotonic, bounds_of, facts_of, is_bool_array
from atl.core.dtypes import INTEGERS, range_of
from atl.core.index import Array, Index, Leaf, Size, value_of
from atl.core.program import Program
from lowering.toolchain import build_shared, load

Asked: TypeAlias = tuple[Callable[..., int], Any, Callable[[Sequence[Any]], tuple[Any, ...]]]
"""A function of C that finds faults, what it is told, and what picks its pointers out of those of a call."""

SLOTS: Final = (2, 4, 8)
"""So many arrays a function of C takes. Those that are free are given the first one again."""
AGREEMENTS: Final = 64
"""Of so many other limits some remember whether they agree."""

_OF_TYPE: Final = """
/* Whether an element is not among low ... high: what is below wraps to what is far above. */
static int outside_{name}(const {name}_t *a, int64_t count, {name}_t low, {name}_t high)
{{
    const u{name}_t span = (u{name}_t)high - (u{name}_t)low;
    int found = low > high;
    for (int64_t i = 0; i < count; i++) {{
        found |= (u{name}_t)a[i] - (u{name}_t)low > span;
    }}
    return found;
}}

/* Whether an element of a row is below the one before it, or at most that if it is to rise strictly, or an element is
   not among low ... high. */
static int falls_{name}(
        const {name}_t *a, int64_t count, int64_t row, int64_t strict, {name}_t low, {name}_t high)
{{
    const u{name}_t span = (u{name}_t)high - (u{name}_t)low;
    int found = low > high;
    for (int64_t r = 0; r < count; r += row) {{
        found |= (u{name}_t)a[r] - (u{name}_t)low > span;
        for (int64_t i = r + 1; i < r + row; i++) {{
            found |= (u{name}_t)a[i] - (u{name}_t)low > span;
            found |= strict ? a[i] <= a[i - 1] : a[i] < a[i - 1];
        }}
    }}
    return found;
}}
"""
_BETWEEN: Final = """
/* Whether an element falls between two neighbouring positions, as far as they are positions in the row; after the
   largest of all numbers comes none. */
static int falls_{name}_between_each_{at}(
        const {name}_t *a, const {at}_t *at, int64_t count, int64_t ends, int64_t strict)
{{
    int found = 0;
    for (int64_t r = 0; r + 1 < ends; r++) {{
        const int64_t first = at[r] < 0 ? 0 : at[r];
        const int64_t last = at[r + 1] < count ? at[r + 1] : count;
        for (int64_t i = first < last ? first + 1 : last; i < last; i++) {{
            found |= strict ? a[i] <= a[i - 1] : a[i] < a[i - 1];
        }}
    }}
    return found;
}}

/* The same by vectors, since rows are short, with the range in one look at memory: where positions rise, an element may
   be below the one before it only where a row begins. */
static int falls_{name}_between_{at}(
        const {name}_t *a, const {at}_t *at, int64_t count, int64_t ends, int64_t strict, {name}_t low, {name}_t high)
{{
    int rise = ends > 1 && at[0] >= 0 && at[ends - 1] <= count;
    for (int64_t r = 1; r < ends; r++) {{
        rise &= at[r - 1] <= at[r];
    }}
    if (!rise || at[0] == at[ends - 1]) {{
        return outside_{name}(a, count, low, high) | falls_{name}_between_each_{at}(a, at, count, ends, strict);
    }}
    enum {{ SOME = 4096 }};
    uint8_t falls[SOME];
    const u{name}_t span = (u{name}_t)high - (u{name}_t)low;
    const int64_t first = at[0], last = at[ends - 1];
    int found = outside_{name}(a, first + 1, low, high) | outside_{name}(a + last, count - last, low, high);
    int64_t r = 0;
    while (at[r] == first) r++;
    for (int64_t begin = first + 1; begin < last; begin += SOME) {{
        const int64_t here = last - begin < SOME ? last - begin : SOME;
        const {name}_t *part = a + begin;
        u{name}_t outside = 0;
        for (int64_t i = 0; i < here; i++) {{
            outside |= (u{name}_t)part[i] - (u{name}_t)low > span;
            falls[i] = strict ? part[i] <= part[i - 1] : part[i] < part[i - 1];
        }}
        for (; at[r] < begin + here; r++) {{
            falls[at[r] - begin] = 0;
        }}
        uint8_t any = 0;
        for (int64_t i = 0; i < here; i++) {{
            any |= falls[i];
        }}
        found |= any | (outside != 0);
    }}
    return found;
}}
"""
_ALL: Final = """
/* Whether a limit is not met: told are their number and, of each, what is asked, the array, another one that has
   positions, the count of elements, two numbers, and the range. */
static int faults(const int64_t *told, const void *const *arrays)
{{
    const int64_t *const end = told + 1 + 8 * told[0];
    int found = 0;
    for (const int64_t *limit = told + 1; limit < end; limit += 8) {{
        const void *a = arrays[limit[1]], *at = arrays[limit[2]];
        const int64_t count = limit[3], one = limit[4], other = limit[5], low = limit[6], high = limit[7];
        switch (limit[0]) {{
{cases}
        default: found = 1;
        }}
    }}
    return found;
}}
"""
_ENTRY: Final = "int faults_{slots}(const int64_t *told, {arrays})"


def _asked_in_c() -> dict[str, str]:
    """By its question, the call in C that answers it."""
    calls = {f"outside {t}": f"outside_{t}(a, count, low, high)" for t in INTEGERS}
    calls |= {f"falls {t}": f"falls_{t}(a, count, one, other, low, high)" for t in INTEGERS}
    given = "a, at, count, one, other, low, high"
    calls |= {f"falls {t} between {p}": f"falls_{t}_between_{p}({given})" for t, p in _PAIRS}
    return calls


_PAIRS: Final = tuple((dtype, positions) for dtype in INTEGERS for positions in INTEGERS)
_CALLS: Final = _asked_in_c()
_NUMBERS: Final = {question: number for number, question in enumerate(_CALLS)}


@cache
def _library() -> tuple[Any, Any]:
    """The functions of C, one for each number of slots, with the cffi handle of them."""
    parts = ["#include <stdint.h>\n", *(_OF_TYPE.format(name=dtype) for dtype in INTEGERS)]
    parts += [_BETWEEN.format(name=dtype, at=positions) for dtype, positions in _PAIRS]
    cases = (f"        case {_NUMBERS[question]}: found |= {call}; break;" for question, call in _CALLS.items())
    parts.append(_ALL.format(cases="\n".join(cases)))
    declared = []
    for slots in SLOTS:
        names = [f"a{number}" for number in range(slots)]
        head = _ENTRY.format(slots=slots, arrays=", ".join(f"const void *{name}" for name in names))
        given = f"(const void *const[]){{{', '.join(names)}}}"
        parts.append(f"\n{head}\n{{\n    return faults(told, {given});\n}}\n")
        declared.append(head + ";")
    return load(build_shared("".join(parts), name="facts"), " ".join(declared))


@dataclass(frozen=True, slots=True)
class Limit:
    """What is asked of the elements of an input: of so many of them, that they are in a range, the ends included.

    That may be all; or in no row of a length may they fall, either, and the second number says whether they rise
    strictly; or in no row between positions, of which there are so many in another input. The places are those of the
    inputs.
    """

    question: str
    places: tuple[int, ...]
    count: int
    within: tuple[int, int]
    order: tuple[int, int] = (0, 0)


class Limits:
    """What is asked of the arrays of a call in which the sizes are these; alike only to itself."""

    __slots__ = ("_agree", "_beyond", "asked", "each")

    def __init__(self, each: Iterable[Limit]) -> None:
        self.each = tuple(each)
        """The limits, one by one."""
        self.asked = _asked(self.each)
        """What finds whether one of them is not met: of each, whether it is truthy, given what it is told and picks."""
        self._beyond: dict[tuple[tuple[int, ...], ...], tuple[Asked, ...]] = {}
        self._agree: dict[tuple[Limits, tuple[int, ...]], bool] = {}

    def _of(self, places: tuple[int, ...]) -> list[Limit]:
        return [limit for limit in self.each if set(places).issuperset(limit.places)]

    def about(self, places: tuple[int, ...]) -> tuple[Asked, ...]:
        """The same for those limits that are about inputs at these places alone."""
        return _asked(self._of(places))

    def agree(self, other: Limits, places: tuple[int, ...]) -> bool:
        """Whether the same is asked by others of inputs at these places alone."""
        if self is other:
            return True
        found = self._agree.get((other, places))
        if found is None:
            found = self._of(places) == other._of(places)
            if len(self._agree) >= AGREEMENTS:
                self._agree.clear()
            self._agree[other, places] = found
        return found

    def beyond(self, met: tuple[tuple[int, ...], ...]) -> tuple[Asked, ...]:
        """The same but for limits that are about inputs at some of these places alone."""
        if met not in self._beyond:
            known = [set(places) for places in met]
            left = (limit for limit in self.each if not any(each.issuperset(limit.places) for each in known))
            self._beyond[met] = _asked(left)
        return self._beyond[met]


def _asked(limits: Iterable[Limit]) -> tuple[Asked, ...]:
    """As few calls of C as there are slots for."""
    calls: list[list[Limit]] = []
    for limit in limits:
        if not calls or len(_places((*calls[-1], limit))) > SLOTS[-1]:
            calls.append([])
        calls[-1].append(limit)
    return tuple(map(_together, calls))


def _places(limits: Iterable[Limit]) -> list[int]:
    return list(dict.fromkeys(place for limit in limits for place in limit.places))


def _together(limits: Sequence[Limit]) -> Asked:
    ffi, library = _library()
    places = _places(limits)
    told = [len(limits)]
    for limit in limits:
        at = [places.index(place) for place in limit.places]
        told += [_NUMBERS[limit.question], at[0], at[-1], limit.count, *limit.order, *limit.within]
    slots = next(slots for slots in SLOTS if slots >= len(places))
    filled = [*places, *places[:1] * (slots - len(places))]
    return getattr(library, f"faults_{slots}"), ffi.new("int64_t[]", told), itemgetter(*filled)


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
        told = (each for each in enumerate(program.inputs) if facts_of(each[1]) and not is_bool_array(each[1]))
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

        found: list[Limit] = []
        for at, array in self.arrays:
            shape = tuple(map(value, array.shape))
            # Nothing is asked of no elements. A scalar is looked at by each call as it is.
            if not shape or 0 in shape:
                continue
            low, high = range_of(array.dtype)
            order: Monotonic | None = None
            for fact in facts_of(array):
                match fact:
                    case AtLeast(bound):
                        low = max(low, value(bound))
                    case Below(bound):
                        high = min(high, value(bound) - 1)
                    case Monotonic():
                        order = fact if shape[-1] > 1 else None
                    case _:
                        assert_never(fact)
            within = (low, high) if low <= high else (0, -1)  # a range of nothing, whatever the bounds are
            if order is not None and order.between is not None:
                question = f"falls {array.dtype} between {order.between.dtype}"
                rows = value(order.between.shape[0]), int(order.strict)
                found.append(Limit(question, (at, self.places[order.between.name]), shape[0], within, rows))
            elif order is not None:
                found.append(Limit(f"falls {array.dtype}", (at,), prod(shape), within, (shape[-1], int(order.strict))))
            elif within != range_of(array.dtype):
                found.append(Limit(f"outside {array.dtype}", (at,), prod(shape), within))
        return Limits(found)
