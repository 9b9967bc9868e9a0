"""Staging at a loop that reads only a part of a producer: the part is inferred (bounds inference) and staged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from atl.checks.scope import Scope
from atl.core.index import ONE, ZERO, Index, Size, atoms, bound, imax, imin, shift
from atl.core.predicate import Predicate, at_most
from atl.core.program import sizes_in
from atl.core.substitution import shift_term
from atl.core.terms import Access, Expr, Gen, Input, Let, Local, Place, Reduce
from atl.core.traversal import Path, children
from atl.prove import Facts, lower_bound, proves, simplify, upper_bound
from atl.text.printing import place_of, show_index
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.rule_arguments import Argument, Function
from rewrites.tactics.indices import closed
from rewrites.tactics.simplification import reduce_accesses, simplify_guards
from rewrites.tactics.storage.binding import bind, binders_between, first_path

_DIMENSIONS = "ijkl"


@dataclass(frozen=True, slots=True)
class Use:
    """Accesses to a producer at one place, with their indices, outermost dimension first."""

    path: Path
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Extent:
    """The range read along one dimension, `count` elements from `base` on, in terms of the buffer's scope."""

    base: Index
    count: Index


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a tensor, and the uses that read it."""

    uses: tuple[Use, ...]
    extents: tuple[Extent, ...]


Bounds: TypeAlias = tuple[Index, Index]
"""The least and the greatest index read along one dimension."""
Box: TypeAlias = tuple[Bounds, ...]
"""The bounds of one use in each dimension."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Uses that share a buffer, with the boxes they read."""

    uses: list[Use]
    boxes: list[Box]


def stage_region(work: Derivation, let: Path, above: Path, name: str) -> None:
    """Compute at the path `above` the part of a let's tensor that is read below it.

    let buf := ⊞[i < n] e(i) in ⊞[o < m] … buf[o*8 + ii] …  →  ⊞[o < m] let buf := ⊞[i < 8] e(o*8 + i) in … buf[ii] …

    Reads elsewhere keep a let, with its mark.
    """
    _expand_elements(work, let, above)
    around = work.term(let)
    assert isinstance(around, Let)
    work.rewrite("unfold_let", let)
    inside = (*let, *above[len(let) + 1 :])
    _compute_regions(work, let, inside, around.value, name)
    elsewhere = first_path(work.term(let), around.value, ())
    if elsewhere is None:
        work.mark(inside, around.mark)
    else:
        bind(work, let, elsewhere, around.name, around.mark)


def stage_input(work: Derivation, reads: Sequence[Path], above: Path, name: str | None) -> None:
    """Copy at the path `above` the part of an input that is read below it, at some of the `reads`.

    ⊞[o < m] … v[o*8 + ii] …  →  ⊞[o < m] let v := ⊞[i < 8] [o*8 + i < n] · v[o*8 + i] in … v[ii] …
    """
    arrays = {term.array for term in map(work.term, reads) if isinstance(term, Input)}
    if len(arrays) > 1:
        names = " and ".join(sorted(array.name for array in arrays))
        raise DoesNotApply(f"several inputs are read there: {names}", required="reads of one input")
    (array,) = arrays
    for at in reads:
        _expand_to_generations(work, at)
    bind(work, above, reads[0][len(above) :], name or array.name)
    stage_region(work, above, (*above, 1), name or array.name)
    match work.term(above):
        case Let(body=Let(value=Local())):
            # All of it is read, so the buffer is the let itself.
            work.rewrite("unfold_let", (*above, 1))
        case _:
            pass


def _expand_elements(work: Derivation, let: Path, above: Path) -> None:
    """Expand a let to generations in all of its dimensions: transpose v → ⊞[i < m] ⊞[j < n] v[j, i].

    This is skipped if it would only expand dimensions that are read entirely, so that their computation, such as
    Σ[k < m] ⊞[j < n] e, is preserved.
    """
    path, outer = (*let, 0), 0
    while isinstance(gen := work.term(path), Gen):
        path, outer = (*path, 0), outer + 1
    if not gen.type.rank or not _has_elements(gen) or _all_is_read(work, let, above, outer):
        return
    element = _expand_to_generations(work, path)
    if not isinstance(gen, Input | Local):
        reduce_accesses(work, element)
        work.repeat(["guard_guard"], element)
        simplify_guards(work, element)


def _all_is_read(work: Derivation, let: Path, above: Path, first: int) -> bool:
    """Return True if each use of a let below a place reads its dimensions from number `first` on entirely."""
    around = work.term(let)
    assert isinstance(around, Let)
    of = around.value.type
    indices, tensors = binders_between(around, above[len(let) :])
    uses = _uses(work.term(above), shift_term(Local(0, of), indices, tensors - 1), above, of.rank)
    scope = work.cursor(above).scope
    whole = [scope.index(shift(extent, indices)) - ONE for extent in of.shape]
    try:
        return first > 0 and all(
            _bounds(work, above, use, dimension) == (ZERO, whole[dimension])
            for use in uses
            for dimension in range(first, len(use.indices))
        )
    except DoesNotApply:
        return False


def _has_elements(tensor: Expr) -> bool:
    """Return True if an element of a tensor can be computed alone, without work shared by several elements."""
    match tensor:
        case Let() | Place():
            return False
        case Gen():
            return True
        case _:
            return all(_has_elements(child.expr) for child in children(tensor) if child.expr.type.rank)


def _expand_to_generations(work: Derivation, path: Path) -> Path:
    """Expand v → ⊞[i < n] ⊞[j < m] v[i, j], so that out-of-range reads get a guard; return the path of the element."""
    for dimension in range(work.term(path).type.rank):
        work.rewrite("gen_eta", path, reverse=True)
        work.rename(path, _DIMENSIONS[dimension % len(_DIMENSIONS)])
        path = (*path, 0)
    return path


def _compute_regions(work: Derivation, let: Path, above: Path, value: Expr, name: str) -> None:
    """Compute the parts of a value that are read below a place, in a separate buffer for each region."""
    indices, tensors = binders_between(work.term(let), above[len(let) :])
    loops = _outer_loops(value)
    uses = _uses(work.term(above), shift_term(value, indices, tensors), above, len(loops))
    if not uses:
        raise DoesNotApply(
            f"{name} is not read there", place=place_of(work.goal, above), required="a loop that reads it"
        )
    rank = min(len(use.indices) for use in uses)
    uses = [Use(use.path + (0,) * (len(use.indices) - rank), use.indices[:rank]) for use in uses]
    regions = _regions(work, above, uses, rank)
    for region in regions:
        for use in region.uses:
            _read_from_region(work, above, use, region.extents, loops)
    for count, region in enumerate(regions):
        # Each buffer is inside the previous ones.
        inside = above + (1,) * count
        bind(work, inside, (*region.uses[0].path[len(above) :], *(0,) * rank), name)
        reduce_accesses(work, (*inside, 0))
        work.sweep(["guard_guard"], (*inside, 0))
        _without_single_indices(work, (*inside, 0))
        simplify_guards(work, (*inside, 0))
        note_growth(work, inside)


def _without_single_indices(work: Derivation, path: Path) -> None:
    """Replace the index in buffer dimensions of extent one: ⊞[i < 1] e(i) → ⊞[i < 1] e(0)."""
    while isinstance(gen := work.term(path), Gen):
        if gen.high - gen.low == ONE:
            work.rewrite("gen_one", path)
        path = (*path, 0)


def note_growth(work: Derivation, let: Path) -> None:
    """Add a note if the buffer at a path grows with a size of the original program.

    Sizes introduced by tiling are not counted, since the user chooses them.
    """
    cursor = work.cursor(let)
    assert isinstance(cursor.term, Let)
    shape = [cursor.scope.index(extent) for extent in cursor.term.value.type.shape]
    start = work.theorem.lhs
    own = {size.name for size in sizes_in(start.inputs, start.body, ())}
    grows = sorted({at.name for extent in shape for at in atoms(extent) if isinstance(at, Size) and at.name in own})
    if grows:
        extents = " x ".join(show_index(extent) for extent in shape)
        work.notes.append(f"{cursor.called[0]} holds {extents} elements: it grows with {' and '.join(grows)}")


def _outer_loops(value: Expr) -> list[Gen]:
    """Return the outermost generations of a tensor."""
    found = []
    while isinstance(value, Gen):
        found.append(value)
        value = value.body
    return found


def _uses(term: Expr, value: Expr, path: Path, most: int) -> list[Use]:
    """Return the accesses to a value, with at most `most` indices; the value is in terms of the term's scope."""
    read: list[Index] = []
    at, below = term, path
    while isinstance(at, Access):
        read.append(at.index)
        at, below = at.tensor, (*below, 0)
    if read and at == value:
        drop = max(0, len(read) - most)
        return [Use(path + (0,) * drop, tuple(reversed(read))[:most])]
    found = []
    for position, child in enumerate(children(term)):
        inside = shift_term(value, child.indices, child.tensors)
        found += _uses(child.expr, inside, (*path, position), most)
    return found


def _regions(work: Derivation, above: Path, uses: Sequence[Use], rank: int) -> list[Region]:
    """Group the uses into regions: uses that read the same part, or parts at a constant distance, share a region.

    A row i and a row j of a matrix are two regions, since one region would include all rows between them.
    """
    facts = work.cursor(above).scope.facts
    groups: list[_Group] = []
    for use in uses:
        read = tuple(_bounds(work, above, use, dimension) for dimension in range(rank))
        near = [group for group in groups if any(_belong_together(facts, read, other) for other in group.boxes)]
        groups = [group for group in groups if group not in near]
        groups.append(
            _Group(
                [*(earlier for group in near for earlier in group.uses), use],
                [*(box for group in near for box in group.boxes), read],
            )
        )
    groups.sort(key=lambda group: uses.index(group.uses[0]))
    scope = work.cursor(above).scope
    return [
        Region(
            tuple(group.uses),
            tuple(_hull(facts, [box[dimension] for box in group.boxes], scope) for dimension in range(rank)),
        )
        for group in groups
    ]


def _belong_together(facts: Facts, one: Box, other: Box) -> bool:
    """Return True if two parts of a tensor share a buffer without including much that neither of them reads.

    They do if they are at a constant distance in every dimension, or in all but one in which they overlap or adjoin, or
    if one contains the other.
    """
    varying = [
        (a, b)
        for a, b in zip(one, other, strict=True)
        if (a[0] - b[0]).constant is None or (a[1] - b[1]).constant is None
    ]
    swapped = [(b, a) for a, b in varying]
    if len(varying) == 1 and any(_overlaps_or_adjoins(facts, first, second) for first, second in (*varying, *swapped)):
        return True
    return any(all(_contains(facts, outer, inner) for outer, inner in pairs) for pairs in (varying, swapped))


def _overlaps_or_adjoins(facts: Facts, first: Bounds, second: Bounds) -> bool:
    """Return True if the second range starts within the first one or directly after it, and does not end earlier."""
    begins = proves(facts, at_most(first[0], second[0])) and proves(facts, at_most(second[0], first[1] + ONE))
    return begins and proves(facts, at_most(first[1], second[1]))


def _contains(facts: Facts, outer: Bounds, inner: Bounds) -> bool:
    return proves(facts, at_most(outer[0], inner[0])) and proves(facts, at_most(inner[1], outer[1]))


def _hull(facts: Facts, read: Sequence[Bounds], scope: Scope) -> Extent:
    """Return the range read along one dimension by all uses; `scope` is the buffer's."""
    base = _extreme(facts, [low for low, _ in read], imin, at_most)
    top = _extreme(facts, [high for _, high in read], imax, lambda a, b: at_most(b, a))
    count = simplify(facts, imax(ZERO, top - base + ONE))
    return Extent(closed(base, scope), closed(count, scope))


def hull_of(work: Derivation, above: Path, uses: Sequence[Use], dimension: int) -> Extent:
    """Return the range that uses read along a dimension, in terms of the scope of `above`."""
    scope = work.cursor(above).scope
    return _hull(scope.facts, [_bounds(work, above, use, dimension) for use in uses], scope)


def _bounds(work: Derivation, above: Path, use: Use, dimension: int) -> Bounds:
    """Return the bounds of a use's index along a dimension, over the loops between the buffer and the use."""
    facts, cursor = work.cursor(above).scope.facts, work.cursor(use.path)
    opened = cursor.scope.index(use.indices[dimension])
    between = cursor.spine()[len(above) : -1]
    ranges = [at.loop for at in between if isinstance(at.term, Gen | Reduce)]
    low, high = lower_bound(facts, opened, ranges), upper_bound(facts, opened, ranges)
    if low is None or high is None:
        raise DoesNotApply(
            f"no bounds were found for the index {opened} over the loops inside",
            place=place_of(work.goal, use.path),
            required="indices that are bounded by the loops between the buffer and its uses",
        )
    return low, high


def _extreme(
    facts: Facts,
    candidates: Sequence[Index],
    combined: Callable[..., Index],
    beyond: Callable[[Index, Index], Predicate],
) -> Index:
    """Return the candidate proved to be the least (or greatest), or else their minimum (or maximum)."""
    for candidate in candidates:
        if all(proves(facts, beyond(candidate, other)) for other in candidates):
            return candidate
    return combined(*candidates)


def _read_from_region(work: Derivation, above: Path, use: Use, region: Sequence[Extent], loops: Sequence[Gen]) -> None:
    """Read through a buffer: v[i] → (⊞[t < count] v[base + t])[i - base], in every dimension, last one first."""
    by, _ = binders_between(work.term(above), use.path[len(above) :])
    here = [Extent(shift(extent.base, by), shift(extent.count, by)) for extent in region]
    rank = len(region)
    value = work.term((*use.path, *(0,) * rank))
    for dimension in range(rank - 1, -1, -1):
        arguments: dict[str, Argument] = {
            "lo": ZERO,
            "hi": here[dimension].count,
            "e": Function(("index",), _rows(value, use.indices, here, dimension, loops)),
            "k": use.indices[dimension] - here[dimension].base,
        }
        path = (*use.path, *(0,) * (rank - 1 - dimension))
        work.apply(work.rule("get_gen"), path, arguments, reverse=True)
        work.rename((*path, 0), loops[dimension].name)
        work.mark((*path, 0), loops[dimension].mark)


def _rows(value: Expr, indices: Sequence[Index], here: Sequence[Extent], first: int, loops: Sequence[Gen]) -> Expr:
    """Return ⊞ … v[i]…[base + t]…, under a binder for the dimension `first`, with a generation for each later one."""
    rank = len(here)
    binders = rank - first
    term = shift_term(value, binders)
    for dimension in range(rank):
        position = shift(indices[dimension], binders)
        if dimension >= first:
            position = shift(here[dimension].base, binders) + bound(rank - 1 - dimension)
        term = Access(term, position)
    for dimension in range(rank - 1, first, -1):
        term = Gen(
            ZERO, shift(here[dimension].count, dimension - first), term, loops[dimension].name, loops[dimension].mark
        )
    return term
