"""Operations on Axe layouts: normal form, groups, tiles, direct sums, fused axes.

Every quotient that an operation finds is multiplied out and compared; if there is none, `NoLayout` is raised. (The
conditions in the paper's appendices accept some wrong factors and reject some correct ones, so they are not used.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from atl.core.index import Index, Size, atoms
from atl.errors import InvalidArgument, brief
from layouts.algebra.coalesce import coalesced, same_stride
from layouts.axe.axes import Axis, Iter, Location, Shape, axis, extents_of, sizes_of_axes
from layouts.axe.layout import Axe, need_axe, ranges, span
from layouts.axe.replicas import Run, listed, number, same_copies
from layouts.errors import CannotTabulate, LayoutError, NoLayout
from layouts.foundation.facts import EMPTY, Known, positive
from layouts.foundation.layout import Mode
from layouts.foundation.semimodule import Coordinate
from layouts.foundation.tuples import Extent, product, shown

MOST_TRIED: Final = 20
"""Number of assignments of sizes that are tried to find a difference between two layouts."""
MOST_WORK: Final = 500_000
"""Bound on the work for writing a set of replicas as iters, about 0.1 s; beyond it the given iters are kept."""


def canonicalize(layout: Axe) -> Axe:
    """Return the shortest sharded iters with the same map, and a canonical form of the set of replicas.

    Equal layouts have equal canonical forms. Replicas are written as the longest runs of the smallest strides along
    each axis. If they overlap in so many ways that no runs are found in about 0.1 s, the given iters are kept. Negative
    strides become positive with a lower offset. With symbolic sizes, iters are merged only if they are proved to be
    contiguous for all sizes. Raises `NoLayout` or `CannotTabulate` if a set of replicas is not determined.

    >>> from layouts.axe import R, S
    >>> canonicalize(S[(8, 2, 4, 2, 3, 6):(2, 1, 4, 24, 6, 1)]), canonicalize(S[4:1] + R[(2, 2):(2, 1)])
    (S[(16,4,2,18):(1,4,24,1)], S[4:1] + R[4:1])
    >>> import atl
    >>> n = atl.sizes("n")
    >>> canonicalize(S[(n, 4):(4, 1)] + R[(2, n):(n, 1)])
    S[4*n:1] + R[2*n:1]
    """
    need_axe(layout)
    modes = coalesced(layout.strides().modes, layout.known)
    sharded = iters_of(modes, layout.axes)
    replicated, shift = _replicas(layout)
    return Axe(sharded, replicated, layout.offset.plus(shift), known=layout.known)


def same_locations(first: Axe, second: Axe) -> bool:
    """Return whether both map each element to the same set of locations, for all sizes that satisfy the known facts.

    Raises `CannotTabulate` if this is unknown: it is not proved, and no tested sizes refute it.

    >>> import atl
    >>> from layouts.axe import S
    >>> n = atl.sizes("n")
    >>> same_locations(S[(n, 4):(4, 1)], S[4 * n:1]), same_locations(S[(n, 4):(4, 1)], S[(4, n):(n, 2)])
    (True, False)
    """
    need_axe(first, second)
    axes = sorted({*first.axes, *second.axes})
    known = first.known.joined(second.known)
    if _known_to_be_the_same(first, second, axes, known):
        return True
    symbolic = [*first.symbolic(), *second.symbolic()]
    if not symbolic:
        return False
    for numbers in _numbers(symbolic):
        try:
            one, other = first.where(**numbers), second.where(**numbers)
            known.where(numbers)
            if not _known_to_be_the_same(one, other, axes, EMPTY):
                return False
        except (LayoutError, NoLayout, InvalidArgument):  # these numbers contradict the facts
            continue
    raise CannotTabulate(
        f"it is not known for all sizes whether {first} and {second} have the same locations",
        required="numbers for sizes, or facts that imply it: layout.where(...), layout.given(...)",
    )


def _known_to_be_the_same(first: Axe, second: Axe, axes: Sequence[Axis], known: Known) -> bool:
    try:
        (one, replicas), (other, other_replicas) = (
            Axe(each.sharded, each.replicated, each.offset, known=known).normal(axes) for each in (first, second)
        )
    except (NoLayout, CannotTabulate):
        if first.symbolic() or second.symbolic():
            return first == second
        raise
    modes, wanted = coalesced(one.modes, known), coalesced(other.modes, known)
    return (
        same_stride(one.offset, other.offset, known)
        and replicas.keys() == other_replicas.keys()
        and all(same_copies(replicas[at], other_replicas[at], known) for at in replicas)
        and len(modes) == len(wanted)
        and all(known.same(n, m) and same_stride(d, e, known) for (n, d), (m, e) in zip(modes, wanted, strict=True))
    )


def _numbers(symbolic: Sequence[Index]) -> Iterator[dict[str, int]]:
    """Return sample numbers for the sizes in these expressions."""
    names = sorted({atom.name for part in symbolic for atom in atoms(part) if isinstance(atom, Size)})
    random = Random(0)
    for _ in range(MOST_TRIED):
        yield {name: random.choice((1, 2, 3, 4, 5, 6, 8, 12, 16)) for name in names}


def iters_of(modes: Sequence[Mode], axes: Sequence[Axis]) -> list[Iter]:
    """Return modes along coordinates as iters, slowest first. Raises `NoLayout` if a mode moves along two axes."""
    found: list[Iter] = []
    for extent, stride in modes:
        if extent == 1:
            continue
        steps = [(at, stride[location]) for location, at in enumerate(axes)] if isinstance(stride, Coordinate) else []
        moving = [(at, step) for at, step in steps if step != 0]
        if len(moving) != 1:
            raise NoLayout(
                f"a part of extent {extent} moves by {' + '.join(f'{step}@{at}' for at, step in moving) or '0'}",
                required="iters along one axis each",
            )
        found.append(Iter(extent, moving[0][1], moving[0][0]))
    return found[::-1] or [Iter(1, 1)]


def _replicas(layout: Axe) -> tuple[list[Iter], Location]:
    steps, shift = layout.spread()
    found: list[Iter] = []
    for at, reached in steps.items():
        if isinstance(reached, Run):
            found += [Iter(reached.extent, reached.stride, at)]
            continue
        iters = [each for each in layout.replicated if each.axis == at and each.extent != 1]
        found += [Iter(extent, stride, at) for extent, stride in _sums_of_runs(reached) or _merged(iters)]
    return found, shift


def _sums_of_runs(steps: Sequence[int], work: list[int] | None = None) -> list[tuple[int, int]] | None:
    """Return extents and strides, smallest stride first, whose sums are this set; None if none are found.

    The smallest positive element is a stride. Its longest run is tried first, with all possible continuations. `work`
    counts shift the elements that are visited, to bound the search.
    """
    held = set(steps)
    left = [MOST_WORK] if work is None else work
    if len(held) == 1:
        return []
    stride = min(step for step in held if step > 0)
    longest = 2
    while longest * stride in held:
        longest += 1
    for extent in range(longest, 1, -1):
        left[0] -= len(held) * extent.bit_length()
        if left[0] < 0:
            return None
        starts = _starts(held, stride, extent)
        if len(starts) < len(held) and _union_of_runs(starts, stride, extent) == held:
            rest = _sums_of_runs(sorted(starts), left)
            if rest is not None:
                return [(extent, stride), *rest]
    return None


def _starts(held: set[int], stride: int, extent: int) -> set[int]:
    """Return the start points of runs of this extent within a set; two shorter runs make a longer one."""
    found, length = held, 1
    while length < extent:
        on = min(length, extent - length)
        found = {step for step in found if step + on * stride in found}
        length += on
    return found


def _union_of_runs(starts: set[int], stride: int, extent: int) -> set[int]:
    """Return the union of the runs of this extent with these start points."""
    found, length = starts, 1
    while length < extent:
        on = min(length, extent - length)
        found = found | {step + on * stride for step in found}
        length += on
    return found


def _merged(iters: Sequence[Iter]) -> list[tuple[int, int]]:
    """Return the given iters, ordered, with contiguous ones merged."""
    found: list[tuple[int, int]] = []
    for each in sorted(iters, key=lambda each: (abs(number(each.stride)), number(each.extent))):
        assert isinstance(each.extent, int)  # lists contain only numbers
        assert isinstance(each.stride, int)
        extent, stride = each.extent, abs(each.stride)
        if found:
            before, step = found[-1]
            if stride % step == 0 and stride <= before * step:
                found[-1] = (before + (extent - 1) * (stride // step), step)
                continue
        found.append((extent, stride))
    return found


@dataclass(frozen=True, slots=True)
class Grouped:
    """A layout with its iters in blocks: block k is from `separators[k]` to `separators[k + 1]`."""

    layout: Axe
    separators: tuple[int, ...]

    def block(self, number: int) -> tuple[Iter, ...]:
        """Return the iters of a block."""
        return self.layout.sharded[self.separators[number] : self.separators[number + 1]]


def group(layout: Axe, shape: Shape) -> Grouped:
    """Return the same layout, with iters split so that they form blocks of these extents.

    Raises `NoLayout` if an iter cannot be split there, or it is not known to be divisible.

    >>> from layouts.axe import S
    >>> group(S[30:1], (6, 5)), group(group(S[30:1], (6, 5)).layout, (2, 15))
    (Grouped(layout=S[(6,5):(5,1)], separators=(0, 1, 2)), Grouped(layout=S[(2,3,5):(15,5,1)], separators=(0, 1, 3)))
    """
    need_axe(layout)
    extents = extents_of(shape)
    known = layout.known.joined(positive(extents))
    if not known.same(product(tuple(extents)), layout.size):
        raise LayoutError(f"{layout} has {layout.size} elements, and {shown(tuple(extents))} {product(tuple(extents))}",
                          required="the same number")  # fmt: skip
    left = [each for each in layout.sharded if each.extent != 1]
    blocks: list[list[Iter]] = []
    for extent in reversed(extents):
        block: list[Iter] = []
        needed = extent
        while needed != 1:
            last = left.pop() if left else Iter(1, 1)
            if last.extent == 1:
                rest: Extent | None = None
            elif (rest := known.quotient(needed, last.extent)) is not None:
                block.insert(0, last)
                needed = rest
            elif (rest := known.quotient(last.extent, needed)) is not None:
                left.append(Iter(rest, last.stride * needed, last.axis))
                block.insert(0, Iter(needed, last.stride, last.axis))
                needed = 1
            if rest is None:
                raise NoLayout(
                    f"cannot group {layout} by {shown(tuple(extents))}: {last} does not fit in a block of {needed}",
                    required="extents of which one provably divides the other",
                )
        blocks.insert(0, block)
    separators = [0]
    for block in blocks:
        separators.append(separators[-1] + len(block))
    iters = [each for block in blocks for each in block]
    made = Axe(iters or [Iter(1, 1)], layout.replicated, layout.offset, known=layout.known)
    return Grouped(made, tuple(separators))


def direct_sum(first: Axe, second: Axe, first_shape: Shape, second_shape: Shape) -> Axe:
    """Return the layout on coordinates (x, y), dimension by dimension, with location first(x) + second(y).

    >>> from layouts.axe import S
    >>> direct_sum(S[(2, 2):(8, 2)], S[(2, 2):(4, 1)], (2, 2), (2, 2))
    S[16:1]
    """
    need_axe(first, second)
    if len(extents_of(first_shape)) != len(extents_of(second_shape)):
        raise LayoutError(f"{brief(first_shape)} and {brief(second_shape)}", required="the same number of dimensions")
    outer, inner = group(first, first_shape), group(second, second_shape)
    iters = [
        each for number in range(len(extents_of(first_shape))) for part in (outer, inner) for each in part.block(number)
    ]  # fmt: skip
    replicated = (*first.replicated, *second.replicated)
    known = first.known.joined(second.known)
    return canonicalize(Axe(iters or [Iter(1, 1)], replicated, first.offset.plus(second.offset), known=known))


def tile(outer: Axe, inner: Axe, outer_shape: Shape, inner_shape: Shape) -> Axe:
    """Repeat `inner` as tiles at the locations of `outer`, whose steps are scaled by the span of a tile on each axis.

    >>> from layouts.axe import S
    >>> tile(S[(8, 8):(8, 1)], S[(2, 4):(1, 2)], (8, 8), (2, 4))
    S[(8,2,32):(64,1,2)]
    """
    need_axe(outer, inner)
    return direct_sum(_scaled(outer, span(inner)), inner, outer_shape, inner_shape)


def _scaled(layout: Axe, by: Mapping[Axis, Extent]) -> Axe:
    def times(iters: Sequence[Iter]) -> list[Iter]:
        return [Iter(each.extent, each.stride * by.get(each.axis, 1), each.axis) for each in iters]

    offset = Location({at: steps * by.get(at, 1) for at, steps in layout.offset.parts.items()})
    return Axe(times(layout.sharded), times(layout.replicated), offset, known=layout.known)


def direct_sum_of(whole: Axe, second: Axe, whole_shape: Shape, second_shape: Shape) -> Axe:
    """Return the first summand: the layout whose direct sum with `second` is `whole`.

    Raises `NoLayout` if there is none.

    >>> from layouts.axe import S
    >>> direct_sum_of(S[16:1], S[(2, 2):(4, 1)], (4, 4), (2, 2))
    S[(2,2):(8,2)]
    """
    need_axe(whole, second)
    return _first_summand(whole, second, whole_shape, second_shape, {})


def _first_summand(
    whole: Axe, second: Axe, whole_shape: Shape, second_shape: Shape, spans: Mapping[Axis, Extent]
) -> Axe:
    """Return the first summand; its replicas move along each axis by multiples of `spans`."""
    known = whole.known.joined(second.known)
    shape = _quotient(whole_shape, second_shape, known)
    mixed = [extent for pair in zip(shape, extents_of(second_shape), strict=True) for extent in pair]
    parts = group(canonicalize(whole), mixed)
    iters = [each for number in range(len(shape)) for each in parts.block(2 * number)]
    first, other = canonicalize(whole), canonicalize(second)
    offset = Location({at: first.offset[at] - other.offset[at] for at in {*whole.axes, *second.axes}})
    found = Axe(iters or [Iter(1, 1)], _left_of_replicas(first, other, spans), offset, known=known)
    if same_locations(direct_sum(found, second, shape, second_shape), whole):
        return canonicalize(found)
    raise NoLayout(f"{whole} is not a direct sum with {second}", required="a layout that contains the summand")


def _left_of_replicas(whole: Axe, part: Axe, spans: Mapping[Axis, Extent]) -> list[Iter]:
    """Return replicas that, added to those of `part`, give those of `whole`, in multiples of `spans` on each axis."""
    found: list[Iter] = []
    added, _ = part.spread()
    for at, all_ in whole.spread()[0].items():
        if at not in added:
            found += [each for each in whole.replicated if each.axis == at]
            continue
        if same_copies(all_, added[at], whole.known.joined(part.known)):
            continue
        held, others, by = (
            set(map(number, listed(all_))),
            tuple(map(number, listed(added[at]))),
            number(spans.get(at, 1)),
        )
        inside = (step for step in held if all(step + other in held for other in others))
        left = sorted(step for step in inside if step % by == 0)
        if left and left[0] == 0:
            runs = _sums_of_runs(left) or _filling(set(left), others, held)
            found += [Iter(extent, stride, at) for extent, stride in runs or ()]
    return found


def _filling(among: set[int], others: Sequence[int], held: set[int]) -> list[tuple[int, int]] | None:
    """Return extents and strides with sums in `among` which, added to `others`, give `held`; None if there are none.

    All fitting elements together need not be sums of runs, so runs are tried one by one, smallest stride and longest
    run first. Raises `CannotTabulate` if there are too many to try.
    """
    work = MOST_WORK

    def filled(sums: set[int], above: int) -> list[tuple[int, int]] | None:
        nonlocal work
        if {step + other for step in sums for other in others} == held:
            return []
        for stride in sorted(step for step in among if step > above):
            reached, extent = [sums], 1
            while (more := {step + extent * stride for step in sums}) <= among:
                reached.append(reached[-1] | more)
                extent += 1
                work -= len(reached[-1])
                if work < 0:
                    raise CannotTabulate(
                        f"no runs for the remaining {len(among)} replicas were found within the search limit",
                        required="replicas with fewer overlaps",
                    )
            for count in range(extent, 1, -1):
                if len(reached[count - 1]) > len(sums) and (rest := filled(reached[count - 1], stride)) is not None:
                    return [(count, stride), *rest]
        return None

    return filled({0}, 0)


def tile_of(whole: Axe, inner: Axe, whole_shape: Shape, inner_shape: Shape) -> Axe:
    """Return the outer layout for which tiles of `inner` make up `whole`. Raises `NoLayout` if there is none.

    >>> from layouts.axe import S
    >>> tile_of(S[(8, 2, 32):(64, 1, 2)], S[(2, 4):(1, 2)], (16, 32), (2, 4))
    S[64:1]
    """
    need_axe(whole, inner)
    spans = span(inner)
    try:
        tiles = Axe(inner.sharded, inner.replicated, known=inner.known)
        outer = _first_summand(whole, tiles, whole_shape, inner_shape, spans)
    except NoLayout as refused:
        raise NoLayout(
            f"{whole} does not consist of tiles {inner}", required="a layout made of such tiles"
        ) from refused
    start = Location({at: outer.offset[at] - inner.offset[at] for at in {*outer.axes, *inner.axes}})
    steps = [(each.stride, spans.get(each.axis, 1)) for each in (*outer.sharded, *outer.replicated) if each.extent != 1]
    steps += [(start[at], spans.get(at, 1)) for at in start.parts]
    if any(outer.known.quotient(stride, by) is None for stride, by in steps):
        raise NoLayout(
            f"{whole} does not consist of tiles {inner}: the tiles would be at {outer}",
            required=f"steps that are multiples of the span of a tile, {dict(spans)}",
        )

    def divided(iters: Sequence[Iter]) -> list[Iter]:
        return [
            Iter(each.extent, _times(outer.known, each.stride, spans.get(each.axis, 1)), each.axis) for each in iters
        ]

    offset = Location({at: _times(outer.known, start[at], spans.get(at, 1)) for at in start.parts})
    return canonicalize(Axe(divided(outer.sharded), divided(outer.replicated), offset, known=outer.known))


def _times(known: Known, step: Extent, by: Extent) -> Extent:
    """Return step / by; 1 if there is only one element."""
    exact = known.quotient(step, by)
    return 1 if exact is None else exact


def fuse(layout: Axe, into: str | Axis, sizes: Sequence[tuple[str | Axis, object]]) -> Axe:
    """Fuse several axes into one. `sizes` lists the axes, fastest first, each with its size.

    >>> from layouts.axe import S, axis
    >>> warp, lane, thread = map(axis, ("warp", "lane", "thread"))
    >>> fuse(S[(2, 8, 2, 4):(2 @ warp, 4 @ lane, 1 @ warp, 1 @ lane)], thread, [(lane, 32), (warp, 4)])
    S[(2,8,2,4):(64@thread,4@thread,32@thread,1@thread)]
    """
    along, fused = axis(into), sizes_of_axes(sizes)
    _need_inside(layout, fused)
    steps: dict[Axis, Extent] = {}
    unit: Extent = 1
    for at, size in fused:
        steps[at] = unit
        unit *= size
    if along in layout.axes and along not in steps:
        raise NoLayout(f"{layout} already has locations along {along}", required="a new axis")

    def moved(iters: Sequence[Iter]) -> list[Iter]:
        return [
            Iter(each.extent, each.stride * steps[each.axis], along) if each.axis in steps else each for each in iters
        ]

    offset = Location({})
    for at, held in layout.offset.parts.items():
        offset = offset.plus(Location({along: held * steps[at]} if at in steps else {at: held}))
    return canonicalize(Axe(moved(layout.sharded), moved(layout.replicated), offset, known=layout.known))


def _need_inside(layout: Axe, sizes: Sequence[tuple[Axis, Extent]]) -> None:
    """Raise `NoLayout` for locations outside the size of an axis, which fusion would map to its neighbour."""
    reached = ranges(layout)
    for at, size in sizes:
        first, last = reached.get(at, (0, 0))
        if not layout.known.less(-1, first) or not layout.known.less(last, size):
            raise NoLayout(f"{layout} has locations {first} to {last} on {at}", required=f"0 to {size - 1}, its size")


def _quotient(whole: Shape, part: Shape, known: Known) -> list[Extent]:
    wholes, parts = extents_of(whole), extents_of(part)
    known = known.joined(positive([*wholes, *parts]))
    found = [known.quotient(a, b) for a, b in zip(wholes, parts, strict=False)]
    exact = [each for each in found if each is not None]
    if len(wholes) != len(parts) or len(exact) < len(parts):
        raise NoLayout(
            f"{brief(whole)} in tiles of {brief(part)}", required="one extent for each dimension, which divides it"
        )
    return exact
