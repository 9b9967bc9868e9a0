"""Injectivity of a layout, and whether its locations fill a box (bijectivity).

A strided layout is injective if its strides can be ordered such that each exceeds the span of all modes before it: the
highest digit in which two coordinates differ then decides. Otherwise, groups of modes that overlap only each other are
decided one by one. Over F2 the rank of the matrix decides. A formula with an inverse is injective if inverse(to(x)) = x
is proved, digit by digit. For other small functions a table decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import gcd, prod
from typing import Any, Final

import numpy as np

from atl.core.index import ZERO, Index, Leaf, Size, index
from atl.core.predicate import Predicate, within
from atl.core.predicate import equal as same_index
from atl.errors import InvalidArgument, brief
from atl.prove import Answer, Model, Proved, Refuted, Unknown, prove, without_smt
from atl.prove.facts import Facts
from atl.text.printing import show_predicate
from layouts.algebra.coalesce import is_zero, same_stride
from layouts.axe.layout import Axe
from layouts.foundation.bounds import bounds
from layouts.foundation.box import Box
from layouts.foundation.facts import Known, in_order
from layouts.foundation.function import MOST_ELEMENTS, Chain, Function, IndexFunction, need_function
from layouts.foundation.layout import Layout, compact, part_of
from layouts.foundation.segments import Segments
from layouts.foundation.semimodule import BITS, COORDINATES, F2, Array, Coordinate
from layouts.foundation.tuples import Extent, Shape, as_nested, extent_of, leaves, plain_index, product
from layouts.foundation.variables import any_digits, key_variables
from layouts.linear.bits import dependence, rank
from layouts.linear.layout import LinearLayout
from layouts.proofs.location_cases import location_cases
from layouts.proofs.relation import Relation, by_relation
from layouts.proofs.witness import first_sampled, named, refuted, samples

Numbers = Sequence[tuple[int, int, int]]
FEW: Final = 16
"""Number of bits of locations to search for collisions, among overlapping modes that are too large for a table."""


def injective(a: Function, *, given: Iterable[object] = ()) -> Answer:
    """Return whether a maps different coordinates to different locations.

    `Refuted` holds two coordinates i and j, digit by digit, with the same location, and numbers for symbolic sizes.

    >>> from layouts import Layout
    >>> import atl
    >>> n, m, k = atl.sizes("n m k")
    >>> injective(Layout((n, m, k), (m * k, k, 1)))
    Proved(layer='structure', vacuous=False)
    >>> injective(Layout((2, 3), (3, 2))), injective(Layout((2, 4), (3, 1))).model.numbers
    (Proved(layer='table', vacuous=False), {'i0': 1, 'i1': 0, 'j0': 0, 'j1': 3})
    """
    need_function(a)
    known = a.known.given(given)
    if a.known_injective:
        return Proved("structure")
    match a:
        case Layout():
            answer = _of_strides(a, known)
        case Chain(outer=outer, inner=inner):
            answer = _of_chain(a, outer, inner)
        case Axe() if not a.replicates:
            answer = _of_strides(Layout.of_modes(a.strides().modes[::-1], offset=a.strides().offset), known)
        case IndexFunction():
            answer = prove_inverse(a, known)
        case LinearLayout():
            found_pair = dependence(a.columns)
            return refuted(a, ("i", found_pair), ("j", 0)) if found_pair else Proved("structure")
        case _:
            answer = Unknown(f"no method for functions such as {a}")
    if not isinstance(answer, Unknown):
        return answer
    if a.has_table:
        return collision(a) or Proved("table")
    found = first_sampled(collision, known, a)
    return found or by_relation(lambda: Relation(a, known=known).is_injective(), answer)


def collision(a: Function) -> Refuted | None:
    """Return two coordinates with the same location, found in the table."""
    values = a.table()
    found = _repeated(values)
    return None if found is None else refuted(a, ("i", found[1]), ("j", found[0]))


def _repeated(values: Array) -> tuple[int, int] | None:
    """Return the indices of two equal values."""
    if values.dtype == object:  # NumPy does not sort rows of Python integers
        rows = [tuple(row) if values.ndim > 1 else row for row in values.tolist()]
        first = {row: at for at, row in reversed(list(enumerate(rows)))}
        values = np.array([first[row] for row in rows], dtype=np.int64)
    elif values.ndim > 1:
        _, values = np.unique(values, axis=0, return_inverse=True)
        values = values.reshape(-1)
    if not len(values):
        return None
    low, high = int(values.min()), int(values.max())
    if high - low < 4 * len(values) + 64:
        counts = np.bincount((values - low).astype(np.int64))
        if counts.max(initial=0) <= 1:
            return None
        location = low + int(np.argmax(counts > 1))
    else:
        ordered = np.sort(values)
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if not len(twice):
            return None
        location = int(ordered[twice[0]])
    first, second = np.flatnonzero(values == location)[:2]
    return int(first), int(second)


# -- strides ----------------------------------------------------------------------------------------------------------


def _of_strides(a: Layout, known: Known) -> Answer:
    module = a.semimodule
    if not a.is_vectorised:
        return Unknown("there is no table of values, and the strides are of a user's semimodule")
    modes = [(n, d) for n, d in a.modes if n != 1]
    for position, (n, d) in enumerate(a.modes):
        if is_zero(d) and n != 1:
            if isinstance(n, int):
                return _zero_stride_collision(a, position, known)
            return Unknown(f"mode {position}, of extent {n}, has stride zero")
    if module is BITS:
        return _over_f2(a)
    if module is COORDINATES:
        return _over_coordinates(a, known)
    if a.is_constant:
        return _of_numbers(a, [(n, d, k) for k, (n, d) in enumerate(a.modes) if _moves(n, d)])  # type: ignore[misc]
    symbols = [(n, d) for n, d in modes if isinstance(d, int | Index)]
    left = in_order(symbols, known)
    return Proved("structure") if left is not None else Unknown("no order of the strides is proved")


def _zero_stride_collision(a: Layout, position: int, known: Known) -> Answer:
    """Return the collision of digits 0 and 1 of a mode of stride zero."""
    sizes: dict[str, int] = {}
    if not all(isinstance(n, int) for n, _ in a.modes) or not a.is_constant:
        found = next(samples(known, a), None)
        if found is None:
            return Unknown(f"mode {position} has stride zero, and no sizes that satisfy the facts were found")
        sizes = found
    digits = [0] * len(a.modes)
    names: list[tuple[Leaf, int]] = [(Size(name), value) for name, value in sizes.items()]
    for name, moved in (("i", 1), ("j", 0)):
        digits[position] = moved
        names += named(digits, name)
    return Refuted(Model(tuple(names)))


def _moves(n: object, d: object) -> bool:
    return isinstance(n, int) and isinstance(d, int) and n != 1


def _of_numbers(a: Layout, modes: Numbers) -> Answer:
    """Decide each group of modes that overlap only each other by a separate table."""
    tabulated = False
    for group in groups(modes):
        if len(group) == 1:
            continue
        tabulated = True
        few = [(min(n, 1 << FEW // len(group)), d, position) for n, d, position in group]
        if prod(n for n, _, _ in group) > MOST_ELEMENTS:
            found = _pair_collision(a, group) or _group_collision(a, few)
            return found or Unknown("the modes that overlap are too large for a table")
        if (found_pair := _group_collision(a, group)) is not None:
            return found_pair
    return Proved("table" if tabulated else "structure")


def _group_collision(a: Layout, group: Numbers) -> Refuted | None:
    """Return two coordinates that differ only in these modes and have the same location, found in a table."""
    part = Layout.of_modes([(n, d) for n, d, _ in group])
    if (found_pair := _repeated(part.table())) is None:
        return None
    digits = [[0] * len(a.modes), [0] * len(a.modes)]
    for found, at in zip(digits, (found_pair[1], found_pair[0]), strict=True):
        for (_, _, position), digit in zip(group, part.box.digits(at), strict=True):
            found[position] = digit
    return refuted(a, ("i", a.box.join(digits[0])), ("j", a.box.join(digits[1])))


def _pair_collision(a: Layout, group: Numbers) -> Refuted | None:
    """Return a collision within two modes: multiples of the two strides that are equal."""
    for (n, d, first), (m, e, second) in combinations(group, 2):
        common = gcd(d, e)
        if abs(e) // common < n and abs(d) // common < m:
            one, other = [0] * len(a.modes), [0] * len(a.modes)
            one[first] = abs(e) // common
            (other if d * e > 0 else one)[second] = abs(d) // common
            return refuted(a, ("i", a.box.join(one)), ("j", a.box.join(other)))
    return None


def groups(modes: Numbers) -> list[list[tuple[int, int, int]]]:
    """Return the modes ordered by stride, cut wherever all following strides exceed the span of the modes before.

    A layout is injective if and only if each group is: a difference of digits in earlier groups is smaller than any
    nonzero multiple of later strides. Entries of a mode after extent and stride are kept.
    """
    ordered = sorted(modes, key=lambda mode: abs(mode[1]))
    common = [0]
    for mode in reversed(ordered):
        common.append(gcd(common[-1], mode[1]))
    common.reverse()
    out: list[list[tuple[int, int, int]]] = []
    start, span = 0, 0
    for position, (n, d, _) in enumerate(ordered):
        span += (n - 1) * abs(d)
        if position + 1 == len(ordered) or common[position + 1] > span:
            out.append(list(ordered[start : position + 1]))
            start = position + 1
    return out


def _over_coordinates(a: Layout, known: Known) -> Answer:
    """Decide each axis separately, if each mode moves along one axis."""
    axes: dict[int, list[tuple[Extent, Extent, int]]] = {}
    for position, (n, d) in enumerate(a.modes):
        moved = [axis for axis, part in enumerate(d) if part != 0] if isinstance(d, Coordinate) else []
        if n == 1:
            continue
        if len(moved) != 1 or not isinstance(d, Coordinate):
            return Unknown(f"the mode {n}:{d} moves along several axes")
        axes.setdefault(moved[0], []).append((n, d[moved[0]], position))
    layer: Answer = Proved("structure")
    for along in axes.values():
        numbers = [(n, d, position) for n, d, position in along if isinstance(n, int) and isinstance(d, int)]
        if len(numbers) == len(along):
            answer = _of_numbers(a, numbers)
            if not isinstance(answer, Proved):
                return answer
            layer = answer if answer.layer == "table" else layer
        elif in_order([(n, d) for n, d, _ in along], known) is None:
            return Unknown("no order of the strides is proved")
    return layer


def _over_f2(a: Layout) -> Answer:
    """Decide a layout on a shape of powers of two: its matrix over F2 must have independent columns."""
    columns: list[int] = []
    for n, d in a.modes:
        if not isinstance(n, int) or n & (n - 1) or not isinstance(d, F2):
            return Unknown(f"the extent {n} is not a power of two") if n != 1 else Unknown("a stride is not over F2")
        columns += [d.bits << bit for bit in range(n.bit_length() - 1)]
    return Proved("structure") if rank(columns) == len(columns) else Unknown("the columns are linearly dependent")


# -- other functions --------------------------------------------------------------------------------------------------


def _of_chain(a: Chain, outer: Function, inner: Function) -> Answer:
    """Prove a composition injective: both parts are, and the outer function is defined on all inner locations."""
    first = injective(inner)
    if isinstance(first, Refuted):
        return first
    if isinstance(first, Unknown) or not isinstance(second := injective(outer), Proved):
        return Unknown(f"it is not known whether both parts of {a} are injective")
    if (ends := bounds(inner)) is None or not a.known.less(-1, ends[0]) or not a.known.less(ends[1], outer.size):
        return Unknown(f"the locations of {inner} are not proved to be in the domain of {outer}")
    return first if first.layer == "table" else second


def prove_inverse(a: IndexFunction, known: Known) -> Answer:
    """Return whether inverse(to(x)) = x is proved, digit by digit, for symbolic digits in the box."""
    if a.inverse is None:
        return Unknown(f"{a} has no inverse")
    digits, inside = any_digits(list(leaves(a.shape)), known)
    facts: Facts = inside.facts
    try:
        location = a.location_digits(digits)
        returned = list(map(plain_index, a.inverse(*location)))
    except TypeError:
        return Unknown(f"{a} is not a formula over index expressions")
    if len(returned) != len(digits):
        raise InvalidArgument(
            f"the inverse of {a} returns {len(returned)} digits", required=f"{len(digits)}, one for each extent"
        )
    if isinstance(a.onto, Segments):
        if (open_ := _open_of_segments(a.onto, location, known.facts, facts)) is not None:
            return Unknown(f"the condition {show_predicate(open_)} on the segments is not proved")
    elif a.onto is not None:
        # Flat locations differ if their digits do, provided each digit is within its extent.
        for part, extent in zip(location, a.onto.extents, strict=True):
            if not isinstance(prove(facts, within(ZERO, index(part), index(extent)), thorough=False), Proved):
                return Unknown(f"0 <= {part} < {extent}, for a digit of the location, is not proved")
    open_digit = _open_digit(digits, returned, facts)
    if open_digit is None:
        return Proved("linear")
    cases = list(location_cases(digits, list(map(index, location)), inside))
    for case in cases:
        came = [case.simple(index(plain_index(part))) for part in a.inverse(*case.location)]
        if (in_case := _open_digit(case.digits, came, case.known.facts)) is not None:
            return Unknown(f"the inverse is not proved: {in_case}")
    return Proved("linear") if cases else Unknown(f"the inverse is not proved: {open_digit}")


def _open_digit(digits: Sequence[Index], returned: Sequence[Any], facts: Facts) -> str | None:
    """Return the first equation, of a digit and the one that the inverse returns, that is not proved."""
    for digit, came in zip(digits, returned, strict=True):
        goal = same_index(digit, index(came))
        answer = prove(facts, goal, thorough=False)
        if isinstance(answer, Unknown):
            with without_smt():
                answer = prove(facts, goal)
        if not isinstance(answer, Proved):
            return f"{came} = {digit}"
    return None


def _stays_within(a: IndexFunction, whole: Extent, known: Known) -> bool:
    """Return whether all locations are proved to be below `whole`, by their digits or segment by segment."""
    digits, inside = any_digits(list(leaves(a.shape)), known)
    try:
        location = a.location_digits(digits)
    except TypeError:
        return False
    if isinstance(a.onto, Box):
        boxed = zip(location, a.onto.extents, strict=True)
        limits = [within(ZERO, index(part), index(extent)) for part, extent in boxed]
        return same_stride(product(a.onto.shape), whole, known) and all(map(inside.holds, limits))
    flat = location[0] if a.onto is None else a.onto.join(location)
    return isinstance(prove(inside.facts, within(ZERO, index(flat), index(whole))), Proved)


def _open_of_segments(segments: Segments, location: Sequence[Any], known: Facts, inside: Facts) -> Predicate | None:
    """Return a condition on segments that is not proved: positions are within segments, and segments do not overlap."""
    one, other = map(index, key_variables())
    limits, disjoint = segments.disjoint(one, other)
    goals = [*((inside, goal) for goal in segments.inside(location)), (known.assume(*limits), disjoint)]
    return next((goal for facts, goal in goals if not isinstance(prove(facts, goal), Proved)), None)


def bijective(a: Function, onto: object = None, *, given: Iterable[object] = ()) -> Answer:
    """Return whether a is injective and its locations are all those below `onto`, a number, or a shape for coordinates.

    The default for `onto` is the size of a. `Refuted` holds two coordinates with the same location, or a coordinate i
    outside the box, or a location p that is not reached.

    >>> from layouts import E, Layout
    >>> bijective(Layout((4, 8), (8, 1))), bijective(Layout((4, 8), (8, 1)), 40).model.numbers
    (Proved(layer='structure', vacuous=False), {'p': 32})
    >>> import atl
    >>> n, m = atl.sizes("n m")
    >>> bijective(Layout((n, m), (E(1), E(0))), (m, n))
    Proved(layer='structure', vacuous=False)
    """
    need_function(a)
    known = a.known.given(given)
    target = as_nested(a.size if onto is None else onto, extent_of)
    flat: Function = a
    if isinstance(a, Layout) and a.semimodule is COORDINATES:
        if not _stays_inside(a, target, known):
            return _onto_by_table(a, target, known)
        flat = _flattened(a, target)
    answer = injective(flat, given=given)
    if isinstance(answer, Refuted) or (a.known_bijective and same_stride(product(target), a.size, known)):
        return answer
    if isinstance(a, LinearLayout) and a.is_surjective and same_stride(product(target), a.size, known):
        return answer
    ends = bounds(flat)
    whole = product(target)
    inside = ends is not None and known.less(-1, ends[0]) and known.less(ends[1], whole)
    if isinstance(a, IndexFunction) and isinstance(answer, Proved):
        inside = inside or _stays_within(a, whole, known)
    if isinstance(answer, Proved) and inside and same_stride(a.size, whole, known):
        return answer  # injective, with as many locations as elements
    return _onto_by_table(a, target, known)


def _stays_inside(a: Layout, target: Shape, known: Known) -> bool:
    """Return whether every component of the coordinates is proved to be within its extent."""
    extents = tuple(leaves(target))
    if a.width > len(extents):
        return False
    for axis, extent in enumerate(extents):
        reach: Extent = a.offset[axis] if isinstance(a.offset, Coordinate) else 0
        for n, d in a.modes:
            if not isinstance(d, Coordinate):
                continue
            if not known.less(-1, d[axis]):
                return False
            reach = reach + (n - 1) * d[axis]
        if not known.less(reach, extent):
            return False
    return True


def _flattened(a: Layout, target: Shape) -> Layout:
    """Return the layout with flat indices of the target instead of coordinates."""
    steps = [step for step in leaves(compact(target)) if isinstance(step, int | Index)]

    def flat(stride: object) -> Extent:
        total: Extent = 0
        if isinstance(stride, Coordinate):
            for axis, step in enumerate(steps):
                total = total + stride[axis] * step
        return total

    strides = tuple(flat(d) for _, d in a.modes)
    made = part_of(tuple(n for n, _ in a.modes), strides, a.known)
    made.offset = flat(a.offset)
    return made


def _onto_by_table(a: Function, target: Shape, known: Known) -> Answer:
    """Decide by the table: a collision, a location outside, or a location that is not reached."""
    if not a.has_table or not all(isinstance(extent, int) for extent in leaves(target)):
        found = first_sampled(lambda placed, box: _not_onto(placed, box.shape), known, a, Layout(target))
        return found or Unknown(f"it is not known whether the locations are all those of {brief(target)}")
    return _not_onto(a, target) or Proved("table")


def _not_onto(a: Function, target: Shape) -> Refuted | None:
    if (found_pair := collision(a)) is not None:
        return found_pair
    values = a.table()
    extents = [extent for extent in leaves(target) if isinstance(extent, int)]
    rows = values.reshape((len(values), -1))
    inside = np.ones(len(rows), dtype=bool)
    flat = np.zeros(len(rows), dtype=np.int64)
    step = 1
    for axis in range(max(rows.shape[1], len(extents))):
        part = rows[:, axis] if axis < rows.shape[1] else np.zeros(len(rows), dtype=np.int64)
        extent = extents[axis] if axis < len(extents) else 1
        within = np.asarray((part >= 0) & (part < extent), dtype=bool)
        inside &= within
        flat += np.where(within, part, 0).astype(np.int64) * step  # values outside may exceed machine integers
        step *= extent
    if not inside.all():
        return refuted(a, ("i", int(np.argmin(inside))))
    if len(rows) == step:
        return None
    hit = np.zeros(step, dtype=bool)
    hit[flat] = True
    return Refuted(Model(tuple(named((int(np.argmin(hit)),), "p"))))
