"""Index overflow: checks, once per call, that the index arithmetic of a kernel does not overflow 64 bits."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final, TypeAlias, assert_never

import numpy as np

from atl.core import index as ix
from atl.core.dtypes import range_of
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero, expressions
from atl.core.program import AtLeast, Below, Program, bounds_of
from atl.errors import IndexOverflow, OutOfMemory
from atl.meaning.arguments import Arguments, index_elements
from atl.meaning.specialise import LARGEST
from atl.text.printing import show_index
from lowering.c.index import Factor, Remainder, Terms, is_limited, sides, terms_of
from lowering.element_checks import Facts
from lowering.nest.index_expressions import Compared, Computed, IndexUse, Inside, index_expressions
from lowering.nest.loopnest import Allocate, LoopNest, statements

# -- what must fit in 64 bits -----------------------------------------------------------------------------------------
# Sums and products may wrap, since they are exact modulo 2^64 and so correct if the final value fits. The final value
# must fit where it is compared, divided, used as a divisor, as an operand of a minimum or maximum, as a loop bound, or
# as the extent of a buffer. Addresses fit because their tensor is in memory. Indices converted to scalars wrap by
# definition.


@dataclass(frozen=True, slots=True)
class Operand:
    """A sum that C computes at a place, and whose value must fit."""

    inside: Inside
    terms: Terms


Operands: TypeAlias = Iterator[Operand]


def operands(nest: LoopNest) -> Operands:
    """Yield all sums that must fit, except single sizes, variables and elements, which always fit."""
    for occurrence in index_expressions(nest):
        match occurrence:
            case Computed(inside, use, expression):
                yield from _of_occurrence(inside, use, expression)
            case Compared(inside, condition):
                left, _, right = sides(condition)
                yield from _sum(inside, left)
                yield from _sum(inside, right)
            case _:
                assert_never(occurrence)


def _of_occurrence(inside: Inside, use: IndexUse, e: ix.Index) -> Operands:
    match use:
        case IndexUse.COUNT:
            yield from _of_value(inside, e)
        case IndexUse.ADDRESS | IndexUse.SCALAR:
            yield from _within(inside, terms_of(e))
        case _:
            assert_never(use)


def _of_value(inside: Inside, e: ix.Index) -> Operands:
    yield from _sum(inside, terms_of(e))


def _sum(inside: Inside, terms: Terms) -> Operands:
    """Yield the operands within a sum, then the sum."""
    yield from _within(inside, terms)
    if len(terms) > 1 or any(len(factors) != 1 or value != 1 for factors, value in terms.items() if factors):
        yield Operand(inside, terms)


def _within(inside: Inside, terms: Terms) -> Operands:
    """Yield the operands within a sum that may wrap."""
    for factor in dict.fromkeys(factor for factors in terms for factor in factors):
        yield from _in_factor(inside, factor)


def _in_factor(inside: Inside, factor: Factor) -> Operands:
    match factor:
        case ix.Size() | ix.Var() | ix.Bound():
            return
        case ix.Quotient(numerator, denominator) | Remainder(numerator, denominator):
            yield from _of_value(inside, numerator)
            yield from _of_value(inside, denominator)
        case ix.Extremum(_, parts) | ix.Xor(parts):
            for part in parts:
                yield from _of_value(inside, part)
        case ix.Read(array, indices):
            for part in (*indices, *array.shape):
                yield from _within(inside, terms_of(part))
        case _:
            assert_never(factor)


# -- intervals --------------------------------------------------------------------------------------------------------
# The prover's intervals (`atl.prove.rows`) serve a search: ends may be unknown, ends beyond 2^64 are dropped,
# and rows are processed to a fixed point. Here ends are always known and exact, since those beyond 64 bits are of
# interest, and remainders and places are expressions too.


Range: TypeAlias = tuple[int, int]
"""The least and the greatest value; the range is empty if the first is greater."""
Limits: TypeAlias = Mapping[Factor, Range]


def fits(found: Range | None) -> bool:
    """Return whether all values of the range fit in int64."""
    low, high = range_of("int64")
    return found is None or (low <= found[0] and found[1] <= high)


@dataclass(slots=True)
class Ranges:
    """Interval arithmetic over unbounded integers.

    `sizes` are the ranges of the sizes. `elements` returns the range of an array's elements, in addition to their
    declaration. The conditions around a place narrow ranges; each place is evaluated once.
    """

    sizes: Mapping[str, Range]
    elements: Callable[[ix.Array], Range]
    _limits: dict[Inside, Limits | None] = field(default_factory=dict)

    def of(self, operand: Operand) -> Range | None:
        """Return the range of a sum at its place, or None if the place is unreachable."""
        limits = self._at(operand.inside)
        return None if limits is None else self._sum(limits, operand.terms)

    # -- places ------------------------------------------------------------------------------------------------------

    def _at(self, inside: Inside) -> Limits | None:
        if inside not in self._limits:
            self._limits[inside] = self._narrowed(inside)
        return self._limits[inside]

    def _narrowed(self, inside: Inside) -> Limits | None:
        if inside.outside is None or inside.predicate is None:
            return {}
        outside = self._at(inside.outside)
        if outside is None:
            return None
        limits = dict(outside)
        return limits if self._assume(limits, inside.predicate) else None

    def _assume(self, limits: dict[Factor, Range], predicate: Predicate) -> bool:
        """Narrow the limits by the predicate; return False if nothing remains."""
        match predicate:
            case NonNegative(expression):
                return self._bounded(limits, expression)
            case Zero(expression):
                return self._bounded(limits, expression) and self._bounded(limits, -expression)
            case All(parts):
                return all(self._assume(limits, part) for part in parts)
            case NonZero() | Any():
                return True
            case _:
                assert_never(predicate)

    def _bounded(self, limits: dict[Factor, Range], expression: ix.Index) -> bool:
        """Use c * a + rest >= 0: a is at least -rest / c, or at most rest / -c."""
        for monomial, value in expression.terms:
            if len(monomial) != 1:
                continue
            (atom,) = monomial
            rest = {factors: other for factors, other in expression.terms if factors != monomial}
            _, most = self._sum(limits, rest)
            low, high = self._factor(limits, atom)
            low, high = (max(low, -(most // value)), high) if value > 0 else (low, min(high, most // -value))
            if low > high:
                return False
            limits[atom] = low, high
        return True

    # -- expressions -------------------------------------------------------------------------------------------------

    def _index(self, limits: Limits, e: ix.Index) -> Range:
        return self._sum(limits, terms_of(e))

    def _sum(self, limits: Limits, terms: Mapping[tuple[ix.AnyAtom, ...], int] | Terms) -> Range:
        low = high = 0
        for factors, value in terms.items():
            least = most = value
            for factor in factors:
                a, b = self._factor(limits, factor)
                ends = (least * a, least * b, most * a, most * b)
                least, most = min(ends), max(ends)
            low, high = low + least, high + most
        return low, high

    def _factor(self, limits: Limits, factor: Factor) -> Range:
        return limits[factor] if factor in limits else self._unbounded(limits, factor)

    def _unbounded(self, limits: Limits, factor: Factor) -> Range:
        """Return the range of a factor that no condition bounds."""
        match factor:
            case ix.Size(name):
                return self.sizes[name]
            case ix.Var() | ix.Bound():
                return range_of("int64")
            case ix.Quotient(numerator, denominator):
                low, high = self._index(limits, numerator)
                first, last = self._divisor(limits, denominator)
                ends = (low // first, low // last, high // first, high // last)
                return min(ends), max(ends)
            case Remainder(numerator, denominator):
                low, high = self._index(limits, numerator)
                _, last = self._divisor(limits, denominator)
                return 0, min(high, last - 1) if low >= 0 else last - 1
            case ix.Extremum(kind, choices):
                ranges = [self._index(limits, choice) for choice in choices]
                pick = min if kind == "min" else max
                return pick(low for low, _ in ranges), pick(high for _, high in ranges)
            case ix.Xor(parts):
                ranges = [self._index(limits, part) for part in parts]
                bits = max(max(high, -1 - low, 0).bit_length() for low, high in ranges)
                return (0 if all(low >= 0 for low, _ in ranges) else -(1 << bits)), (1 << bits) - 1
            case ix.Read(array):
                return self._element(array)
        assert_never(factor)

    def _divisor(self, limits: Limits, denominator: ix.Index) -> Range:
        """Return the range of a divisor, which is proved positive wherever the quotient is computed."""
        low, high = self._index(limits, denominator)
        return max(low, 1), max(high, 1)

    def _element(self, array: ix.Array) -> Range:
        low, high = self.elements(array)
        for fact in bounds_of(array):
            least, most = self._index({}, fact.bound)
            match fact:
                case AtLeast():
                    low = max(low, least)
                case Below():
                    high = min(high, most - 1)
                case _:
                    assert_never(fact)
        return low, max(low, high)


# -- shape and size of the result -------------------------------------------------------------------------------------


MEMORY: Final = 2**63
"""Exclusive upper bound on the bytes of an array."""


def sizes_and_shape(program: Program, nest: LoopNest, call: Arguments) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes in the order of the parameters and the shape of the result. Raises `OutOfMemory`."""
    shape = tuple(ix.value_of(e, ix.leaf_values(call.sizes), index_elements(call.arrays)) for e in nest.output.extents)
    needed = [(prod(shape) * np.dtype(nest.output.dtype).itemsize, "the result")]
    for statement in statements(nest.body):
        if isinstance(statement, Allocate) and _of_sizes(statement.capacity):
            size = np.dtype(statement.buffer.dtype).itemsize
            needed.append((_magnitude(statement.capacity, call.sizes) * size, f"the buffer {statement.buffer.name}"))
    largest, what = max(needed)
    if largest >= MEMORY or max(call.sizes.values(), default=0) > LARGEST:
        raise OutOfMemory(
            f"the sizes of this call of {program.name} are too large for any memory",
            required=f"sizes up to 2**56, and fewer than 2**63 bytes; {what} would take {largest}",
            numbers=call.sizes,
        )
    return tuple(call.sizes[name] for name in nest.sizes), shape


def read_for_sizes(program: Program, nest: LoopNest, facts: Facts) -> frozenset[ix.Array]:
    """Return the arrays whose elements occur in shapes, assumptions or declared bounds of other elements."""
    looked_at = [*facts.stated(), *nest.output.extents, *(extent for array in program.inputs for extent in array.shape)]
    for assumption in program.assumptions:
        looked_at.extend(expressions(assumption))
    return frozenset(atom.array for e in looked_at for atom in ix.atoms(e) if isinstance(atom, ix.Read))


def _of_sizes(e: ix.Index) -> bool:
    """Return whether the expression depends on sizes alone, so that it is known before the call."""
    return not any(isinstance(atom, ix.Var | ix.Bound | ix.Read) for atom in ix.atoms(e))


def _magnitude(e: ix.Index, sizes: Mapping[str, int]) -> int:
    """Return a bound on the magnitude of the expression and of its intermediate results."""
    terms = ((abs(value), [_magnitude_of_atom(atom, sizes) for atom in monomial]) for monomial, value in e.terms)
    return sum(value * prod(factors) for value, factors in terms)


def _magnitude_of_atom(atom: ix.AnyAtom, sizes: Mapping[str, int]) -> int:
    match atom:
        case ix.Size(name):
            return sizes[name]
        case ix.Quotient(numerator, denominator):
            # A divisor that is not constant is at least 1.
            return _magnitude(numerator, sizes) // max(denominator.constant or 1, 1) + 1
        case ix.Extremum() | ix.Xor():
            # `IndexOverflowCheck` covers its operands: a minimum may be small where one of its choices is not.
            ranges = Ranges({name: (size, size) for name, size in sizes.items()}, lambda array: range_of(array.dtype))
            low, high = ranges.of(Operand(Inside(), {(atom,): 1})) or (0, 0)
            return max(abs(low), abs(high))
        case ix.Var() | ix.Bound() | ix.Read():
            raise AssertionError("a capacity over sizes alone")


# -- the check --------------------------------------------------------------------------------------------------------


MOST_POWER: Final = 62
"""Exponent of the largest power of two for which all sums are checked in advance."""
USUAL_POWER: Final = 20
"""Exponent of usual sizes. Arrays whose element types allow an overflow at these sizes are scanned in every call."""


class IndexOverflowCheck:
    """The sums of a loop nest that may overflow 64 bits, and a bound on sizes and elements below which none does.

    For sizes up to `reach`, a call scans only the elements of the `scanned` arrays, which are none for most nests.
    For larger sizes, the check uses the actual ranges of the call.
    """

    def __init__(self, nest: LoopNest) -> None:
        self._name: Final = nest.name
        self._sizes: Final = nest.sizes
        self._arrays: Final = {array.name: array for array in nest.inputs}
        found = {(operand.inside, tuple(operand.terms.items())): operand for operand in operands(nest)}
        self._doubtful: Final = self._failing(found.values(), LARGEST)
        usual = self._failing(self._doubtful, 2**USUAL_POWER)
        names = {array.name for operand in usual for array in _arrays_read(operand) if not is_limited(array)}
        self.scanned: Final = tuple(sorted(names))
        """Names of the arrays whose elements may cause an overflow even at usual sizes."""
        self.reach: Final = self._reach()
        """Largest size, and magnitude of scanned elements, for which all sums are known to fit."""

    def _failing(self, among: Iterable[Operand], limit: int) -> tuple[Operand, ...]:
        """Return the operands that may overflow with sizes up to the limit and any elements of their types."""
        ranges = Ranges(dict.fromkeys(self._sizes, (0, min(limit, LARGEST))), lambda array: range_of(array.dtype))
        return tuple(operand for operand in among if not fits(ranges.of(operand)))

    def _reach(self) -> int:
        """Return the greatest power of two up to which all sums fit, or -1."""
        enough, too_far = -1, MOST_POWER + 1
        while too_far - enough > 1:
            middle = (enough + too_far) // 2
            if self._all_fit(2**middle):
                enough = middle
            else:
                too_far = middle
        return 2**enough if enough >= 0 else -1

    def _all_fit(self, limit: int) -> bool:
        def elements(array: ix.Array) -> Range:
            return (-limit, limit) if array.name in self.scanned else range_of(array.dtype)

        ranges = Ranges(dict.fromkeys(self._sizes, (0, min(limit, LARGEST))), elements)
        return all(fits(ranges.of(operand)) for operand in self._doubtful)

    # -- calls --------------------------------------------------------------------------------------------------------

    def check(self, sizes: Mapping[str, int], arrays: Mapping[str, typing.Any]) -> bool:
        """Check a call, and return whether its elements were scanned. If not, the result depends on its sizes alone.

        Raises `IndexOverflow` if a sum may overflow.
        """
        elements = _ElementRanges(arrays)
        if max(sizes.values(), default=0) <= self.reach and all(
            elements.within(name, self.reach) for name in self.scanned
        ):
            return elements.were_scanned
        ranges = Ranges({name: (size, size) for name, size in sizes.items()}, lambda array: elements.range(array.name))
        for operand in self._doubtful:
            found = ranges.of(operand)
            if found is not None and not fits(found):
                raise self._refused(operand, found, ranges)
        return elements.were_scanned

    def _refused(self, operand: Operand, found: Range, ranges: Ranges) -> IndexOverflow:
        whole = _as_index(operand.terms)
        read = next(
            (atom for atom in ix.atoms(whole) if isinstance(atom, ix.Read) and not is_limited(atom.array)), None
        )
        if read is None:
            advice = "call it with smaller sizes"
        else:
            element = show_index(ix.index(read))
            advice = (
                f"declare range=(low, high) of {read.array.name}, "
                f"or guard with bounds of {element} in the outermost condition"
            )
        low, high = found
        problem = "may not" if low != high else "does not"
        known = f"known range is {low} to {high}" if low != high else f"value is {low}"
        return IndexOverflow(
            f"{show_index(whole)}, which {self._name} computes, {problem} fit into 64 bits in this call",
            required=f"-2**63 <= {show_index(whole)} < 2**63; its {known}",
            numbers={
                show_index(ix.index(atom)): _written(ranges.of(Operand(operand.inside, {(atom,): 1})))
                for atom in dict.fromkeys(ix.atoms(whole))
                if isinstance(atom, ix.Size | ix.Var | ix.Read)
            },
            suggestions=(advice,),
        )


class _ElementRanges:
    """The least and greatest element of each array of a call, computed on demand."""

    def __init__(self, arrays: Mapping[str, typing.Any]) -> None:
        self._arrays = arrays
        self._found: dict[str, Range] = {}

    def range(self, name: str) -> Range:
        if name not in self._found:
            array = self._arrays[name]
            self._found[name] = (int(array.min()), int(array.max())) if array.size else (0, 0)
        return self._found[name]

    @property
    def were_scanned(self) -> bool:
        return bool(self._found)

    def within(self, name: str, limit: int) -> bool:
        low, high = self.range(name)
        return -limit <= low and high <= limit


def _arrays_read(operand: Operand) -> Iterator[ix.Array]:
    """Yield the arrays whose elements occur in the sum or in a condition around it."""
    stated = [_as_index(operand.terms)]
    inside = operand.inside
    while inside.outside is not None and inside.predicate is not None:
        stated.extend(expressions(inside.predicate))
        inside = inside.outside
    for expression in stated:
        for atom in ix.atoms(expression):
            if isinstance(atom, ix.Read):
                yield atom.array


def _as_index(terms: Terms) -> ix.Index:
    return ix.linear((value, prod(map(_factor_as_index, factors), start=ix.ONE)) for factors, value in terms.items())


def _factor_as_index(factor: Factor) -> ix.Index:
    return factor.numerator % factor.denominator if isinstance(factor, Remainder) else ix.index(factor)


def _written(found: Range | None) -> str:
    low, high = found or (0, 0)
    return str(low) if low == high else f"{low} … {high}"
