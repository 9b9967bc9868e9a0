"""Equality of layouts as functions.

Four methods are tried in order. Coalesced modes over integers or coordinates are unique, so they decide numeric layouts
and give an index of the first difference. Tables decide other numeric functions. For symbolic layouts the strides of a
common refinement are compared. Last, the prover compares the formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from atl.core.index import ZERO, Index, index
from atl.core.predicate import equal as same_index
from atl.core.predicate import within
from atl.prove import Answer, Model, Proved, Refuted, Unknown, prove
from layouts.algebra.coalesce import coalesced, is_zero, same_stride
from layouts.axe import Axe, same_locations
from layouts.errors import CannotTabulate
from layouts.foundation.box import Box
from layouts.foundation.facts import EMPTY, Known
from layouts.foundation.function import Chain, Function, IndexFunction, need_function
from layouts.foundation.layout import Layout, Mode
from layouts.foundation.semimodule import BITS
from layouts.foundation.tuples import Extent, Shape, modes_of, product
from layouts.foundation.variables import digit_variables, witness_variables
from layouts.linear.layout import LinearLayout
from layouts.proofs.relation import Relation, by_relation
from layouts.proofs.witness import first_sampled, named, refuted


def equal(a: Function, b: Function, *, given: Iterable[object] = ()) -> Answer:
    """Return whether a and b have the same size, and the same value at every coordinate or every index.

    If one has row-major and the other colexicographic indices, coordinates are compared, on the finest modes that the
    modes of both make up. So a LEGO or Axe layout, which has no nested modes, equals the layout it was made of.
    Otherwise indices are compared: `Layout((2, 3), (1, 2))` equals `Layout(6)`.

    `Proved` names the method. `Refuted` holds the digits of an index, in the shape of a, at which they differ (or which
    one of them lacks), with numbers for symbolic sizes. Otherwise the answer is `Unknown`. Any two functions can be
    compared. For layouts over named axes, all locations of an element are compared, axis by axis.

    >>> from layouts import Layout, composition
    >>> equal(Layout((2, 3), (1, 2)), Layout(6))
    Proved(layer='structure', vacuous=False)
    >>> equal(Layout((2, 3), (1, 2)), Layout((2, 3), (1, 3))).model.numbers
    {'i0': 0, 'i1': 1}
    >>> import atl
    >>> n = atl.sizes("n")
    >>> equal(Layout((4, n), (n, 1)), composition(Layout((4, n), (n, 1)), Layout((2, 2 * n), (1, 2))))
    Proved(layer='structure', vacuous=False)
    """
    need_function(a)
    need_function(b)
    if isinstance(a, Axe) and isinstance(b, Axe):
        return _along_axes(a, b, a.known.joined(b.known).given(given))
    known = a.known.joined(b.known).given(given)
    if a.box.row_major != b.box.row_major and (common := _common_modes(a.shape, b.shape, known)) is not None:
        first, second = common
        answer = _compared(_on_modes(a, first), _on_modes(b, second), known)
        return _in_digits_of(first, answer) if a.box.row_major and isinstance(answer, Refuted) else answer
    return _compared(a, b, known)


def _compared(a: Function, b: Function, known: Known) -> Answer:
    """Return whether they have the same value at every index, each in its own index order."""
    if isinstance(a, Layout) and isinstance(b, Layout):
        if not (a.is_vectorised and b.is_vectorised):
            if a.modes == b.modes and a.offset == b.offset:
                return Proved("structure")
            numbers = a.has_table and b.has_table
            return (by_table(a, b) or Proved("table")) if numbers else Unknown("there is no table of values")
        # Equal layouts have equal coalesced modes, so no common refinement is needed.
        first, second = coalesced(a.modes, known), coalesced(b.modes, known)
        if _same_modes(first, second, known) and same_stride(a.offset, b.offset, known):
            return Proved("structure")
        if a.is_constant and b.is_constant and a.semimodule is not BITS and b.semimodule is not BITS:
            return refuted(a, ("i", _first_difference(a, b, first, second)))
    if isinstance(a, LinearLayout) and isinstance(b, LinearLayout) and a.columns == b.columns:
        return Proved("structure")
    if a.has_table and b.has_table:
        return by_table(a, b) or Proved("table")
    if (found := first_sampled(by_table, known, a, b)) is not None:
        return found
    return by_formula(a, b, known)


Part: TypeAlias = tuple[Extent, ...]
"""The extents of the modes that make up one coordinate."""


def _common_modes(a: Shape, b: Shape, known: Known) -> tuple[list[Part], list[Part]] | None:
    """Return the modes of both shapes, grouped into the shortest parts of equal size; None if unknown."""
    left, right = ([product(mode) for mode in reversed(modes_of(shape))] for shape in (a, b))
    first: list[Part] = []
    second: list[Part] = []
    while left and right:
        one: Part = (left.pop(),)
        other: Part = (right.pop(),)
        while not known.same(n := product(one), m := product(other)):
            if right and _is_less(m, n, known):
                other = (*other, right.pop())
            elif left and _is_less(n, m, known):
                one = (*one, left.pop())
            else:
                return None
        first.append(one)
        second.append(other)
    if not known.same(product((*left, *right)), 1):
        return None
    first[-1], second[-1] = (*first[-1], *reversed(left)), (*second[-1], *reversed(right))
    return first, second


def _is_less(n: Extent, m: Extent, known: Known) -> bool:
    """Return whether n is less than m, given that they differ; for sizes, whether n is proved to divide m."""
    return n < m if isinstance(n, int) and isinstance(m, int) else known.quotient(m, n) is not None


def _on_modes(function: Function, parts: Sequence[Part]) -> Function:
    """Return the function with a digit for each part of its modes, colexicographic instead of row-major."""
    if not function.box.row_major:
        return function

    def to(*digits: Any) -> Any:
        whole = (digit for part, at in zip(parts, digits, strict=True) for digit in Box(part, True).digits(at))
        return function.at(tuple(whole))

    return IndexFunction(tuple(map(product, parts)), to)


def _in_digits_of(parts: Sequence[Part], answer: Refuted) -> Refuted:
    """Return a witness with a digit for each part, converted to a row-major digit for each mode."""
    variables = witness_variables(len(parts), "i")
    digits: list[int] = []
    for part, variable in zip(parts, variables, strict=True):
        extents = tuple(answer.model.value(index(extent)) for extent in part)
        digits += Box(extents, row_major=True).digits(answer.model.leaf(variable))
    sizes = tuple((leaf, value) for leaf, value in answer.model.leaves if leaf not in variables)
    return Refuted(Model((*sizes, *named(digits, "i"))))


def _along_axes(a: Axe, b: Axe, known: Known) -> Answer:
    """Compare by the names of axes; if elements have several locations, compare the sets."""
    if a.symbolic() or b.symbolic():
        return _along_axes_of_sizes(a, b, known)
    axes = sorted({*a.axes, *b.axes})
    (one, its), (other, others) = a.normal(axes), b.normal(axes)
    if its != others:
        return refuted(a, ("i", 0))
    first, second = coalesced(one.modes, EMPTY), coalesced(other.modes, EMPTY)
    if _same_modes(first, second, EMPTY) and same_stride(one.offset, other.offset, EMPTY):
        return Proved("structure")
    return refuted(a, ("i", _first_difference(one, other, first, second)))


def _along_axes_of_sizes(a: Axe, b: Axe, known: Known) -> Answer:
    try:
        if same_locations(a, Axe(b.sharded, b.replicated, b.offset, known=known)):
            return Proved("structure")
    except CannotTabulate:
        pass

    def differ(x: Function, y: Function) -> Refuted | None:
        assert isinstance(x, Axe)
        assert isinstance(y, Axe)
        found = _along_axes(x, y, known)
        return found if isinstance(found, Refuted) else None

    found = first_sampled(differ, known, a, b)
    return found or Unknown("the iters and replicas are not proved equal, and no tested numbers show a difference")


def _same_modes(first: Sequence[Mode], second: Sequence[Mode], known: Known) -> bool:
    return len(first) == len(second) and all(
        known.same(n, m) and same_stride(d, e, known) for (n, d), (m, e) in zip(first, second, strict=True)
    )


def _first_difference(a: Layout, b: Layout, first: Sequence[Mode], second: Sequence[Mode]) -> int:
    """Return an index at which two numeric layouts differ, given that their coalesced modes or offsets differ."""
    if not (a.offset == b.offset or (is_zero(a.offset) and is_zero(b.offset))):
        return 0
    width = 1
    for (n, d), (m, e) in zip(first, second, strict=False):
        assert isinstance(n, int)
        assert isinstance(m, int)
        if not same_stride(d, e, a.known):
            break
        if n != m:  # the shorter mode ends; the next value is not on its line, or the modes would have been merged
            return width * min(n, m)
        width *= n
    return width


def by_table(a: Function, b: Function) -> Refuted | None:
    """Return the first index at which the tables of two functions differ."""
    x, y = _rows(a), _rows(b)
    common = min(len(x), len(y))
    wide = max(x.shape[1], y.shape[1])
    x, y = (np.pad(rows, ((0, 0), (0, wide - rows.shape[1]))) for rows in (x, y))
    off = np.flatnonzero((x[:common] != y[:common]).any(axis=1))
    if len(off):
        return refuted(a, ("i", int(off[0])))
    return None if len(x) == len(y) else refuted(a, ("i", common))


def _rows(function: Function) -> Any:
    values = function.table()
    return values.reshape((len(values), -1))


def by_formula(a: Function, b: Function, known: Known) -> Answer:
    """Compare the two values at one symbolic index with the prover."""
    if not known.same(a.size, b.size):
        return Unknown(f"it is not known whether the sizes {a.size} and {b.size} are equal")
    (at,) = digit_variables(1)
    try:
        x, y = a.at(a.box.digits(at)), b.at(b.box.digits(at))
    except TypeError:
        return Unknown("one of the functions is not a formula over index expressions")
    if not isinstance(x, int | Index) or not isinstance(y, int | Index):
        return Unknown("the values are not index expressions")
    facts = known.facts.assume(within(ZERO, at, index(a.size)))
    answer = prove(facts, same_index(index(x), index(y)), thorough=False)
    if isinstance(answer, Proved):
        return answer
    unknown = Unknown(f"it is not known whether {x} = {y}")
    flat = Layout(a.size)

    def question() -> bool:
        one, other = (Relation(Chain(part, flat), known=known) for part in (a, b))
        return one.is_equal(other)

    whole = isinstance(a, Layout) and isinstance(b, Layout)
    return by_relation(question, unknown) if whole else unknown
