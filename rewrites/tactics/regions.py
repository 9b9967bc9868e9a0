"""Staging of a producer at a loop inside of which only a part of it is read: the part is found, and computed there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from atl.checks.wellformed import Path
from atl.core.index import ONE, ZERO, Index, Leaf, Var, bound, imax, imin, index, map_leaves, shift
from atl.core.predicate import Predicate, at_most
from atl.core.substitution import children, shift_term
from atl.core.terms import Access, Expr, Gen, Input, Let, Local, Reduce
from atl.prove import Facts, Proved, lower_bound, prove, simplify, upper_bound
from atl.text.printing import place_of
from rewrites.derivation import Derivation
from rewrites.errors import NoSite
from rewrites.instantiation import Argument, Function
from rewrites.places.site import Site
from rewrites.tactics.binding import bind, binders_between, first_path
from rewrites.tactics.simplification import reduce_accesses, simplify_guards

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


def stage_region(work: Derivation, let: Path, above: Path, name: str) -> None:
    """Computes at the path `above` what is read below it of the tensor that the let at `let` binds.

    let buf := ⊞[i < n] e(i) in ⊞[o < m] … buf[o*8 + ii] …  →  ⊞[o < m] let buf := ⊞[i < 8] e(o*8 + i) in … buf[ii] …

    What is read elsewhere is bound again. The mark of the let stays with what is read elsewhere, if anything is.
    """
    around = work.term(let)
    assert isinstance(around, Let)
    if isinstance(around.value, Input):
        _written_as_generations(work, (*let, 0))
        around = work.term(let)
        assert isinstance(around, Let)
    names = _loop_names(around.value)
    work.rewrite("unfold_let", let)
    inside = (*let, *above[len(let) + 1 :])
    _compute_region(work, let, inside, around.value, names, name)
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
        raise NoSite(f"{names} are read there: these are several inputs", required="reads of one input")
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


def _written_as_generations(work: Derivation, path: Path) -> None:
    """v → ⊞[i < n] ⊞[j < m] v[i, j]: what lies outside of it is guarded then, where it is read."""
    for dimension in range(work.term(path).type.rank):
        work.rewrite("gen_eta", path, reverse=True)
        work.rename(path, _DIMENSIONS[dimension % len(_DIMENSIONS)])
        path = (*path, 0)


def _compute_region(work: Derivation, let: Path, above: Path, value: Expr, names: list[str], name: str) -> None:
    indices, tensors = binders_between(work.term(let), above[len(let) :])
    uses = _uses(work.term(above), shift_term(value, indices, tensors), above, len(names))
    if not uses:
        raise NoSite(
            f"{name} is not read there", place=place_of(work.goal, above), required="a loop inside of which it is read"
        )
    rank = min(len(use.indices) for use in uses)
    uses = [Use(use.path + (0,) * (len(use.indices) - rank), use.indices[:rank]) for use in uses]
    region = [_extent(work, above, uses, dimension) for dimension in range(rank)]
    for use in uses:
        _read_from_region(work, above, use, region, names)
    bind(work, above, (*uses[0].path[len(above) :], *(0,) * rank), name)
    reduce_accesses(work, (*above, 0))
    work.sweep(["guard_guard"], (*above, 0))
    simplify_guards(work, (*above, 0))


def _loop_names(value: Expr) -> list[str]:
    """The names of the generations that a tensor starts with."""
    names = []
    while isinstance(value, Gen):
        names.append(value.name)
        value = value.body
    return names


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


def _extent(work: Derivation, above: Path, uses: Sequence[Use], dimension: int) -> Extent:
    """What is read along a dimension: bounds of the indices over the loops between the buffer and its uses."""
    outside = work.site(above).scope
    lows, highs = [], []
    for use in uses:
        site = work.site(use.path)
        opened = site.scope.index(use.indices[dimension])
        ranges = _loops_between(site, len(above))
        low = lower_bound(outside.facts, opened, ranges)
        high = upper_bound(outside.facts, opened, ranges)
        if low is None or high is None:
            raise NoSite(
                f"no bounds are found for the index {opened}, over the loops inside",
                place=place_of(work.goal, use.path),
                required="indices that are bounded by the loops between the buffer and its uses",
            )
        lows.append(low)
        highs.append(high)
    base = _extreme(outside.facts, lows, imin, at_most)
    top = _extreme(outside.facts, highs, imax, lambda a, b: at_most(b, a))
    count = simplify(outside.facts, imax(ZERO, top - base + ONE))
    return Extent(_closed(base, len(outside.indices)), _closed(count, len(outside.indices)))


def _loops_between(site: Site, length: int) -> list[tuple[Var, Index, Index]]:
    found = []
    for above in site.spine():
        if len(above.path) >= length and above is not site and isinstance(above.term, Gen | Reduce):
            variable = Var(len(above.scope.indices), above.term.name)
            found.append((variable, above.scope.index(above.term.low), above.scope.index(above.term.high)))
    return found


def _extreme(
    facts: Facts,
    candidates: Sequence[Index],
    combined: Callable[..., Index],
    beyond: Callable[[Index, Index], Predicate],
) -> Index:
    """The one that is proved to be least, or greatest, of all; or else their minimum, or maximum."""
    for candidate in candidates:
        if all(isinstance(prove(facts, beyond(candidate, other)), Proved) for other in candidates):
            return candidate
    return combined(*candidates)


def _closed(expression: Index, depth: int) -> Index:
    """The expression with bound indices in place of the variables that a scope of this depth opens them to."""

    def leaf(at: Leaf) -> Index:
        return bound(depth - 1 - at.uid) if isinstance(at, Var) else index(at)

    return map_leaves(expression, leaf)


def _read_from_region(work: Derivation, above: Path, use: Use, region: Sequence[Extent], names: Sequence[str]) -> None:
    """v[i] → (⊞[t < count] v[base + t])[i - base], in every dimension, the last one first."""
    by, _ = binders_between(work.term(above), use.path[len(above) :])
    here = [Extent(shift(extent.base, by), shift(extent.count, by)) for extent in region]
    rank = len(region)
    value = work.term((*use.path, *(0,) * rank))
    for dimension in range(rank - 1, -1, -1):
        arguments: dict[str, Argument] = {
            "lo": ZERO,
            "hi": here[dimension].count,
            "e": Function(("index",), _rows(value, use.indices, here, dimension, names)),
            "k": use.indices[dimension] - here[dimension].base,
        }
        path = (*use.path, *(0,) * (rank - 1 - dimension))
        work.apply(work.rule("get_gen"), path, arguments, reverse=True)
        work.rename((*path, 0), names[dimension])


def _rows(value: Expr, indices: Sequence[Index], here: Sequence[Extent], first: int, names: Sequence[str]) -> Expr:
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
        term = Gen(ZERO, shift(here[dimension].count, dimension - first), term, names[dimension])
    return term
