"""Checks in C that the elements of integer arrays meet their declarations.

A kernel caches the shapes that it has validated. Elements may have changed since, so every call checks them again, in
one call to C. The check only reports that some element is wrong; `atl.meaning.arguments` then finds that element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from operator import itemgetter
from typing import Any, Final, TypeAlias, assert_never

from atl.core.dtypes import INTEGERS, range_of
from atl.core.index import Array, Index, leaf_values, value_of
from atl.core.program import AtLeast, Below, Lexicographic, Monotonic, Program, bounds_of, facts_of, is_bool_array
from lowering.builds import build_shared, load

ConstraintCheck: TypeAlias = tuple[Callable[..., int], Any, Callable[[Sequence[Any]], tuple[Any, ...]]]
"""A C function that detects violations, its description of the constraints, and a getter of its pointer arguments."""

SLOTS: Final = (2, 4, 8)
"""Numbers of arrays that the C functions take. Unused parameters receive the first array again."""
AGREEMENTS: Final = 64
"""Maximum number of cached comparisons with other `ElementConstraints`."""

_OF_TYPE: Final = """
/* Return whether an element is outside low ... high. Values below low wrap around to large unsigned numbers. */
static int outside_{name}(const {name}_t *a, int64_t count, {name}_t low, {name}_t high)
{{
    u{name}_t most = 0;
    for (int64_t i = 0; i < count; i++) {{
        const u{name}_t above = (u{name}_t)a[i] - (u{name}_t)low;
        most = above > most ? above : most;
    }}
    return low > high || most > (u{name}_t)high - (u{name}_t)low;
}}

/* Return whether an element is outside low ... high, or a row decreases (or, if strict, does not increase). */
static int unsorted_{name}(
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

/* Return whether an element is outside low ... high, or tuples of elements of leading arrays, with those of this array
   last, decrease (or, if strict, do not increase). `places` holds the numbers of the leading arrays, a byte for each.
   Tuples of the leading arrays alone do not decrease, which is checked too. */
static int unsorted_{name}_after(
        const {name}_t *a, const void *const *arrays, int64_t places, int64_t count, int64_t number, int64_t strict,
        {name}_t low, {name}_t high)
{{
    enum {{ SOME = 4096 }};
    uint8_t unsorted[SOME], any = 0;
    for (int64_t begin = 1; begin < count; begin += SOME) {{
        const int64_t here = count - begin < SOME ? count - begin : SOME;
        const {name}_t *part = a + begin;
        for (int64_t i = 0; i < here; i++) {{
            unsorted[i] = strict ? part[i] <= part[i - 1] : part[i] < part[i - 1];
        }}
        for (int64_t k = 0; k < number; k++) {{
            const {name}_t *row = (const {name}_t *)arrays[places >> 8 * k & 255] + begin;
            for (int64_t i = 0; i < here; i++) {{
                unsorted[i] &= row[i] == row[i - 1];
            }}
        }}
        for (int64_t i = 0; i < here; i++) {{
            any |= unsorted[i];
        }}
    }}
    return any || outside_{name}(a, count, low, high);
}}
"""
_BETWEEN: Final = """
/* Return whether elements decrease (or, if strict, do not increase) between two consecutive positions. Positions are
   clamped to the array. */
static int unsorted_{name}_between_each_{at}(
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

/* The same check, vectorised across short rows and combined with the range check in one pass over memory. Where
   positions increase, an element may be below its predecessor only at the start of a row. */
static int unsorted_{name}_between_{at}(
        const {name}_t *a, const {at}_t *at, int64_t count, int64_t ends, int64_t strict, {name}_t low, {name}_t high)
{{
    int rise = ends > 1 && at[0] >= 0 && at[ends - 1] <= count;
    for (int64_t r = 1; r < ends; r++) {{
        rise &= at[r - 1] <= at[r];
    }}
    if (!rise || at[0] == at[ends - 1]) {{
        return outside_{name}(a, count, low, high) | unsorted_{name}_between_each_{at}(a, at, count, ends, strict);
    }}
    enum {{ SOME = 4096 }};
    uint8_t unsorted[SOME];
    const u{name}_t span = (u{name}_t)high - (u{name}_t)low;
    const int64_t first = at[0], last = at[ends - 1];
    u{name}_t most = 0;
    int found = outside_{name}(a, first + 1, low, high) | outside_{name}(a + last, count - last, low, high);
    int64_t r = 0;
    while (at[r] == first) r++;
    for (int64_t begin = first + 1; begin < last; begin += SOME) {{
        const int64_t here = last - begin < SOME ? last - begin : SOME;
        const {name}_t *part = a + begin;
        for (int64_t i = 0; i < here; i++) {{
            const u{name}_t above = (u{name}_t)part[i] - (u{name}_t)low;
            most = above > most ? above : most;
            unsorted[i] = strict ? part[i] <= part[i - 1] : part[i] < part[i - 1];
        }}
        for (; at[r] < begin + here; r++) {{
            unsorted[at[r] - begin] = 0;
        }}
        uint8_t any = 0;
        for (int64_t i = 0; i < here; i++) {{
            any |= unsorted[i];
        }}
        found |= any;
    }}
    return found | (most > span);
}}
"""
_ALL: Final = """
/* Return whether a constraint is violated. The description holds their number and, for each, its kind, the array, the
   array of positions, the number of elements, two parameters and the range. Instead of positions, there may be
   several arrays, a byte for each. */
static int faults(const int64_t *description, const void *const *arrays)
{{
    const int64_t *const end = description + 1 + 8 * description[0];
    int found = 0;
    for (const int64_t *limit = description + 1; limit < end; limit += 8) {{
        const void *a = arrays[limit[1]], *at = arrays[limit[2] & 255];
        const int64_t count = limit[3], one = limit[4], other = limit[5], low = limit[6], high = limit[7];
        switch (limit[0]) {{
{cases}
        default: found = 1;
        }}
    }}
    return found;
}}
"""
_ENTRY: Final = "int faults_{slots}(const int64_t *description, {arrays})"


def _c_calls() -> dict[str, str]:
    """Return the C call that checks each kind of constraint."""
    calls = {f"outside {t}": f"outside_{t}(a, count, low, high)" for t in INTEGERS}
    calls |= {f"unsorted {t}": f"unsorted_{t}(a, count, one, other, low, high)" for t in INTEGERS}
    arguments = "a, at, count, one, other, low, high"
    calls |= {f"unsorted {t} between {p}": f"unsorted_{t}_between_{p}({arguments})" for t, p in _PAIRS}
    arguments = "a, arrays, limit[2], count, one, other, low, high"
    calls |= {f"unsorted {t} after": f"unsorted_{t}_after({arguments})" for t in INTEGERS}
    return calls


_PAIRS: Final = tuple((dtype, positions) for dtype in INTEGERS for positions in INTEGERS)
_CALLS: Final = _c_calls()
_NUMBERS: Final = {question: number for number, question in enumerate(_CALLS)}


@cache
def _library() -> tuple[Any, Any]:
    """Build the C functions, one for each number of slots, and return them with their cffi handle."""
    parts = ["#include <stdint.h>\n", *(_OF_TYPE.format(name=dtype) for dtype in INTEGERS)]
    parts += [_BETWEEN.format(name=dtype, at=positions) for dtype, positions in _PAIRS]
    cases = (f"        case {_NUMBERS[question]}: found |= {call}; break;" for question, call in _CALLS.items())
    parts.append(_ALL.format(cases="\n".join(cases)))
    declared = []
    for slots in SLOTS:
        names = [f"a{number}" for number in range(slots)]
        head = _ENTRY.format(slots=slots, arrays=", ".join(f"const void *{name}" for name in names))
        arrays = f"(const void *const[]){{{', '.join(names)}}}"
        parts.append(f"\n{head}\n{{\n    return faults(description, {arrays});\n}}\n")
        declared.append(head + ";")
    return load(build_shared("".join(parts), name="facts"), " ".join(declared))


@dataclass(frozen=True, slots=True)
class ElementConstraint:
    """A constraint on the first `count` elements of an input: all lie in the inclusive range `within`.

    The constraint may also require sorted rows. The rows have a fixed length, lie between positions that another
    input holds, or are where the elements of other inputs are equal. Then `order` is that length, the number of
    positions or of these inputs, and whether the rows increase strictly.
    `places` are the numbers of these inputs in a call.
    """

    question: str
    places: tuple[int, ...]
    count: int
    within: tuple[int, int]
    order: tuple[int, int] = (0, 0)


class ElementConstraints:
    """The constraints on the arrays of a call at given sizes. Instances compare by identity."""

    __slots__ = ("_agree", "_beyond", "checks", "each")

    def __init__(self, each: Iterable[ElementConstraint]) -> None:
        self.each = tuple(each)
        """The single constraints."""
        self.checks = _checks(self.each)
        """Checks of which some returns true where a constraint is violated."""
        self._beyond: dict[tuple[tuple[int, ...], ...], tuple[ConstraintCheck, ...]] = {}
        self._agree: dict[tuple[ElementConstraints, tuple[int, ...]], bool] = {}

    def _of(self, places: tuple[int, ...]) -> list[ElementConstraint]:
        return [limit for limit in self.each if set(places).issuperset(limit.places)]

    def checks_of(self, places: tuple[int, ...]) -> tuple[ConstraintCheck, ...]:
        """Return the checks of the constraints that concern only the inputs at these places."""
        return _checks(self._of(places))

    def agrees_on(self, other: ElementConstraints, places: tuple[int, ...]) -> bool:
        """Return whether `other` has the same constraints on the inputs at these places alone."""
        if self is other:
            return True
        found = self._agree.get((other, places))
        if found is None:
            found = self._of(places) == other._of(places)
            if len(self._agree) >= AGREEMENTS:
                self._agree.clear()
            self._agree[other, places] = found
        return found

    def checks_except(self, met: tuple[tuple[int, ...], ...]) -> tuple[ConstraintCheck, ...]:
        """Return the checks without the constraints that concern only inputs of one of these groups."""
        if met not in self._beyond:
            known = [set(places) for places in met]
            left = (limit for limit in self.each if not any(each.issuperset(limit.places) for each in known))
            self._beyond[met] = _checks(left)
        return self._beyond[met]


def _checks(limits: Iterable[ElementConstraint]) -> tuple[ConstraintCheck, ...]:
    """Pack constraints into as few C calls as the slots allow."""
    calls: list[list[ElementConstraint]] = []
    for limit in limits:
        if not calls or len(_places((*calls[-1], limit))) > SLOTS[-1]:
            calls.append([])
        calls[-1].append(limit)
    return tuple(map(_check, calls))


def _places(limits: Iterable[ElementConstraint]) -> list[int]:
    return list(dict.fromkeys(place for limit in limits for place in limit.places))


def _check(limits: Sequence[ElementConstraint]) -> ConstraintCheck:
    ffi, library = _library()
    places = _places(limits)
    description = [len(limits)]
    for limit in limits:
        at = [places.index(place) for place in limit.places]
        others = sum(number << 8 * k for k, number in enumerate(at[1:] or at))
        description += [_NUMBERS[limit.question], at[0], others, limit.count, *limit.order, *limit.within]
    slots = next(slots for slots in SLOTS if slots >= len(places))
    filled = [*places, *places[:1] * (slots - len(places))]
    return getattr(library, f"faults_{slots}"), ffi.new("int64_t[]", description), itemgetter(*filled)


def _no_element(array: Array, _: tuple[int, ...]) -> int:
    raise AssertionError(f"{array.name} is read in a bound: such constraints are not cached")


@dataclass(frozen=True, slots=True)
class Facts:
    """The declared facts of a program's inputs: the arrays that have any, and the position of each input."""

    arrays: tuple[tuple[int, Array], ...]
    places: Mapping[str, int]

    @staticmethod
    def of(program: Program) -> Facts:
        """Return the facts of a program's inputs. Arrays of truth values need no check."""
        places = {array.name: at for at, array in enumerate(program.inputs)}
        arrays = (each for each in enumerate(program.inputs) if facts_of(each[1]) and not is_bool_array(each[1]))
        return Facts(tuple(arrays), places)

    def stated(self) -> list[Index]:
        """Return the expressions that the facts depend on."""
        return [fact.bound for _, array in self.arrays for fact in bounds_of(array)]

    def limits(self, sizes: Mapping[str, int]) -> ElementConstraints:
        """Return the constraints at these sizes. All bounds must depend on sizes alone."""

        def value(expression: Index) -> int:
            return value_of(expression, leaf_values(sizes), _no_element)

        found: list[ElementConstraint] = []
        for at, array in self.arrays:
            shape = tuple(map(value, array.shape))
            # An empty array needs no check. Each call checks scalars itself.
            if not shape or 0 in shape:
                continue
            low, high = range_of(array.dtype)
            order: Monotonic | Lexicographic | None = None
            for fact in facts_of(array):
                match fact:
                    case AtLeast(bound):
                        low = max(low, value(bound))
                    case Below(bound):
                        high = min(high, value(bound) - 1)
                    case Monotonic() | Lexicographic():
                        order = fact if shape[-1] > 1 else None
                    case _:
                        assert_never(fact)
            within = (low, high) if low <= high else (0, -1)  # an empty range whose ends fit into the type
            if isinstance(order, Lexicographic):
                places = (at, *(self.places[each.name] for each in order.leading))
                rows = len(order.leading), int(order.strict)
                found.append(ElementConstraint(f"unsorted {array.dtype} after", places, shape[0], within, rows))
            elif order is not None and order.between is not None:
                question = f"unsorted {array.dtype} between {order.between.dtype}"
                rows = value(order.between.shape[0]), int(order.strict)
                found.append(ElementConstraint(question, (at, self.places[order.between.name]), shape[0], within, rows))
            elif order is not None:
                found.append(
                    ElementConstraint(
                        f"unsorted {array.dtype}", (at,), prod(shape), within, (shape[-1], int(order.strict))
                    )
                )
            elif within != range_of(array.dtype):
                found.append(ElementConstraint(f"outside {array.dtype}", (at,), prod(shape), within))
        return ElementConstraints(found)
