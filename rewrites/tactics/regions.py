"""Staging of a producer at a loop inside of which only a part of it is read: the part is found, and computed there."""

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
from rewrites.instantiation import Argument, Function
from rewrites.tactics.indices import closed
from rewrites.tactics.simplification import reduce_accesses, simplify_guards
from rewrites.tactics.storage.binding import bind, binders_between, first_path

_DIMENSIONS = "ijkl"


@dataclass(frozen=True, slots=True)
class Use:
    """Where a producer is read: the place of the accesses to it, and their indices, outermost dimension first."""

    path: Path
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Extent:
    """Along one dimension, what is read: from a base on, so many elements; as seen from the place of the buffer."""

    base: Index
    count: Index


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a tensor that is read, and the uses that read it."""

    uses: tuple[Use, ...]
    extents: tuple[Extent, ...]


Bounds: TypeAlias = tuple[Index, Index]
"""The least and the greatest index that is read along one dimension."""
Box: TypeAlias = tuple[Bounds, ...]
"""What one use reads, dimension by dimension."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Uses that are to read from one buffer, with what each of them reads."""

    uses: list[Use]
    boxes: list[Box]


def stage_region(work: Derivation, let: Path, above: Path, name: str) -> None:
    """Computes at the path `above` what is read below it of the tensor that the let at `let` binds.

    let buf := ⊞[i < n] e(i) in ⊞[o < m] … buf[o*8 + ii] …  →  ⊞[o < m] let buf := ⊞[i < 8] e(o*8 + i) in … buf[ii] …

    What is read elsewhere is bound again. The mark of the let stays with what is read elsewhere, if anything is.
    """
    _elements_written_out(work, let, above)
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
    """Copies at the path `above` what is read below it of an input, at some of the paths `reads` that read it.

    ⊞[o < m] … v[o*8 + ii] …  →  ⊞[o < m] let v := ⊞[i < 8] [o*8 + i < n] · v[o*8 + i] in … v[ii] …
    """
    arrays = {term.array for term in map(work.term, reads) if isinstance(term, Input)}
    if len(arrays) > 1:
        names = " and ".join(sorted(array.name for array in arrays))
        raise DoesNotApply(f"{names} are read there: these are several inputs", required="reads of one input")
    (array,) = arrays
    for at in reads:
        _written_as_generations(work, at)
    bind(work, above, reads[0][len(above) :], name or array.name)
    stage_region(work, above, (*above, 1), name or array.name)
    match work.term(above):
        case Let(body=Let(value=Local())):
            # All of it is read: the buffer is what was bound.
            work.rewrite("unfold_let", (*above, 1))
        case _:
            pass


def _elements_written_out(work: Derivation, let: Path, above: Path) -> None:
    """Writes a let as generations in all of its dimensions: transpose v → ⊞[i < m] ⊞[j < n] v[j, i].

    Not where only dimensions of which all is read would be gained: how they are computed, say Σ[k < m] ⊞[j < n] e,
    stays as it is.
    """
    path, outer = (*let, 0), 0
    while isinstance(gen := work.term(path), Gen):
        path, outer = (*path, 0), outer + 1
    if not gen.type.rank or not _has_elements(gen) or _all_is_read(work, let, above, outer):
        return
    element = _written_as_generations(work, path)
    if not isinstance(gen, Input | Local):
        reduce_accesses(work, element)
        work.repeat(["guard_guard"], element)
        simplify_guards(work, element)


def _all_is_read(work: Derivation, let: Path, above: Path, first: int) -> bool:
    """Whether each use of a let below a place reads all of its dimensions from the one with the number `first` on."""
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
    """Whether an element of a tensor is computed by itself, with nothing that is there for several of them."""
    match tensor:
        case Let() | Place():
            return False
        case Gen():
            return True
        case _:
            return all(_has_elements(child.expr) for child in children(tensor) if child.expr.type.rank)


def _written_as_generations(work: Derivation, path: Path) -> Path:
    """v → ⊞[i < n] ⊞[j < m] v[i, j]: what lies outside of it is guarded then, where it is read. Its element's path."""
    for dimension in range(work.term(path).type.rank):
        work.rewrite("gen_eta", path, reverse=True)
        work.rename(path, _DIMENSIONS[dimension % len(_DIMENSIONS)])
        path = (*path, 0)
    return path


def _compute_regions(work: Derivation, let: Path, above: Path, value: Expr, name: str) -> None:
    """Computes what is read of a value below a place in as many buffers as there are regions that lie apart."""
    indices, tensors = binders_between(work.term(let), above[len(let) :])
    loops = _outer_loops(value)
    uses = _uses(work.term(above), shift_term(value, indices, tensors), above, len(loops))
    if not uses:
        raise DoesNotApply(
            f"{name} is not read there", place=place_of(work.goal, above), required="a loop inside of which it is read"
        )
    rank = min(len(use.indices) for use in uses)
    uses = [Use(use.path + (0,) * (len(use.indices) - rank), use.indices[:rank]) for use in uses]
    regions = _regions(work, above, uses, rank)
    for region in regions:
        for use in region.uses:
            _read_from_region(work, above, use, region.extents, loops)
    for count, region in enumerate(regions):
        # Each buffer stands inside of those before it.
        inside = above + (1,) * count
        bind(work, inside, (*region.uses[0].path[len(above) :], *(0,) * rank), name)
        reduce_accesses(work, (*inside, 0))
        work.sweep(["guard_guard"], (*inside, 0))
        _without_single_indices(work, (*inside, 0))
        simplify_guards(work, (*inside, 0))
        note_growth(work, inside)


def _without_single_indices(work: Derivation, path: Path) -> None:
    """⊞[i < 1] e(i) → ⊞[i < 1] e(0) in the dimensions of a buffer: conditions speak of the loops around it then."""
    while isinstance(gen := work.term(path), Gen):
        if gen.high - gen.low == ONE:
            work.rewrite("gen_one", path)
        path = (*path, 0)


def note_growth(work: Derivation, let: Path) -> None:
    """Notes of the buffer at a path if it grows with a size of the program that was to be scheduled.

    The sizes that came in with tiles are chosen by whoever tiles.
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
    """The generations that a tensor starts with."""
    found = []
    while isinstance(value, Gen):
        found.append(value)
        value = value.body
    return found


def _uses(term: Expr, value: Expr, path: Path, most: int) -> list[Use]:
    """The accesses to a value, with no more indices than it has generations; the value is as seen from the term."""
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
    """What is read: a region for the uses that read the same part, or parts at a constant distance, and so for others.

    A row i and a row j of a matrix are two regions: in one there would be all rows between them.
    """
    facts = work.cursor(above).scope.facts
    groups: list[_Group] = []
    for use in uses:
        read = tuple(_bounds(work, above, use, dimension) for dimension in range(rank))
        near = [group for group in groups if any(_near(facts, read, other) for other in group.boxes)]
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


def _near(facts: Facts, one: Box, other: Box) -> bool:
    """Whether two parts of a tensor belong in one buffer: with both, it holds little that neither of them reads.

    They do if they lie at a constant distance in every dimension, or in all but one, in which they meet, or if one of
    them holds the other.
    """
    apart = [
        (a, b)
        for a, b in zip(one, other, strict=True)
        if (a[0] - b[0]).constant is None or (a[1] - b[1]).constant is None
    ]
    swapped = [(b, a) for a, b in apart]
    if len(apart) == 1 and any(_goes_on(facts, first, second) for first, second in (*apart, *swapped)):
        return True
    return any(all(_holds_all_of(facts, outer, inner) for outer, inner in pairs) for pairs in (apart, swapped))


def _goes_on(facts: Facts, first: Bounds, second: Bounds) -> bool:
    """Whether a range begins within another one, or right behind it, and ends no sooner."""
    begins = proves(facts, at_most(first[0], second[0])) and proves(facts, at_most(second[0], first[1] + ONE))
    return begins and proves(facts, at_most(first[1], second[1]))


def _holds_all_of(facts: Facts, outer: Bounds, inner: Bounds) -> bool:
    return proves(facts, at_most(outer[0], inner[0])) and proves(facts, at_most(inner[1], outer[1]))


def _hull(facts: Facts, read: Sequence[Bounds], scope: Scope) -> Extent:
    """What is read along one dimension, by all uses together; `scope` is the buffer's."""
    base = _extreme(facts, [low for low, _ in read], imin, at_most)
    top = _extreme(facts, [high for _, high in read], imax, lambda a, b: at_most(b, a))
    count = simplify(facts, imax(ZERO, top - base + ONE))
    return Extent(closed(base, scope), closed(count, scope))


def _bounds(work: Derivation, above: Path, use: Use, dimension: int) -> Bounds:
    """The least and the greatest index of a use along a dimension, over the loops between the buffer and it."""
    facts, cursor = work.cursor(above).scope.facts, work.cursor(use.path)
    opened = cursor.scope.index(use.indices[dimension])
    between = cursor.spine()[len(above) : -1]
    ranges = [at.loop for at in between if isinstance(at.term, Gen | Reduce)]
    low, high = lower_bound(facts, opened, ranges), upper_bound(facts, opened, ranges)
    if low is None or high is None:
        raise DoesNotApply(
            f"no bounds are found for the index {opened}, over the loops inside",
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
    """The one that is proved to be least, or greatest, of all; or else their minimum, or maximum."""
    for candidate in candidates:
        if all(proves(facts, beyond(candidate, other)) for other in candidates):
            return candidate
    return combined(*candidates)


def _read_from_region(work: Derivation, above: Path, use: Use, region: Sequence[Extent], loops: Sequence[Gen]) -> None:
    """v[i] → (⊞[t < count] v[base + t])[i - base], in every dimension, the last one first."""
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
    """⊞ … v[i]…[base + t]…, under a binder for the dimension `first`, with a generation for each one after it."""
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
