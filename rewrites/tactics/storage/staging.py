"""Tactics on what is stored: producers computed where they are used, or kept in a buffer at a chosen loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from atl.core.index import Bound, Index, Leaf, atoms, bound, imax, index, shift
from atl.core.marks import LoopMark
from atl.core.predicate import Predicate, conjunction, conjuncts, substitute
from atl.core.substitution import free_positions, shift_term, transform
from atl.core.terms import Access, Expr, Gen, Guard, Input, Let, Reduce, Reshape, Select
from atl.core.traversal import Path, children
from atl.prove import lower_bound, simplify, upper_bound
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor, binders
from rewrites.cursors.targets import Target, chosen, nothing_chosen
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.instantiation import Argument, Function
from rewrites.tactics.indices import closed
from rewrites.tactics.loops import first_possible, loops
from rewrites.tactics.nests.guards import used_positions
from rewrites.tactics.regions import note_growth, stage_input, stage_region
from rewrites.tactics.simplification import guard_reads, lets_called, reduce_accesses, simplify_guards
from rewrites.tactics.storage.binding import (
    abstracted,
    bind,
    binders_between,
    check_free,
    check_name,
    check_nth,
    nth_of,
    parameters_of_let,
)
from rewrites.tactics.storage.padding import padding_kept

# -- computing where it is used ---------------------------------------------------------------------------------------


def fuse(work: Derivation, name: Target) -> None:
    """Computes a producer where it is used: let buf := ⊞[i < n] e(i) in … buf[k] … → … e(k) …; guards simplify.

    >>> s = reschedule(atl.parse(
    ...     "f (x : float32[n]) : float32[n] "
    ...     ":= let y := ⊞[i < n] 2 * x[i] in ⊞[i < n] y[i] + 1.0"))
    >>> s.fuse("y")
    f (x : float32[n]) : float32[n] :=
      ⊞[i < n] 2 * x[i] + 1.0
    """
    path = lets_called(work, name)[0].path
    work.rewrite("unfold_let", path)
    reduce_accesses(work, path)
    simplify_guards(work, path)


# -- staging ----------------------------------------------------------------------------------------------------------


def stage(
    work: Derivation, what: Target, *, at: Target | None = None, name: str | None = None, nth: int | None = None
) -> None:
    """Computes a subterm ahead, into a buffer: within each iteration of the loop `at`, or else before everything.

    ⊞[i < n] … e(i) …  →  let buf := ⊞[i < n] e(i) in ⊞[i < n] … buf[i] …

    The buffer has a dimension for each loop between that the subterm depends on; where the range of such a loop depends
    on one that the subterm does not depend on, as in a triangle, the buffer is as long as the longest. The guards
    between are kept around its elements unless they always hold, or speak of other loops. It serves all equal subterms,
    or, with `nth`, only that one of those that are meant, counted from 0.

    Of a let that stands around the loop, what is read inside of the loop is computed there, into a buffer of that size.
    The let stays for what is read elsewhere, and goes when nothing is. Of an input, what is read inside of the loop is
    copied; of a pattern that fits several reads of it, what those read. Reads that lie apart, as A[i, _] and A[j, _]
    do, have a buffer each.

    Where the loops between only copy the buffer afterwards, those that fill it are marked as they are.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] Σ[p < n] exp(x[p]) * x[i]"))
    >>> s.stage("exp(_)", at="i", name="power")
    f (x : float32[n]) : float32[n] :=
      ⊞[i < n] let power := ⊞[p < n] exp(x[p]) in Σ[p < n] power[p] * x[i]
    -- power holds n elements: it grows with n
    """
    check_name(name)
    check_nth(nth)
    if at is None:
        stage_below(work, what, (), name, nth)
    else:
        first_possible(work, at, lambda cursor: stage_below(work, what, (*cursor.path, 0), name, nth))


def stage_below(work: Derivation, what: Target, path: Path, name: str | None, nth: int | None = None) -> None:
    """Computes a subterm ahead at a place, as `stage` does."""
    let = _let_around(work, what, path)
    if let is not None:
        if nth is not None:
            raise DoesNotApply(
                f"{let.called[0]} is a let, of which all that is read there is staged together",
                place=place_of(work.goal, let.path),
                required="no nth=, or a pattern of what is read, of which there are several places",
            )
        stage_region(work, let.path, path, name or let.called[0])
        return
    cursors = nth_of(_producers(work, what, path), nth, what)
    cursor = cursors[0]
    if isinstance(cursor.term, Input) or len({cursor.term for cursor in cursors}) > 1:
        inputs = [_input_read(work, cursor) for cursor in cursors]
        reads = [read for read in inputs if read is not None]
        if reads and (len(reads) == len(cursors) or isinstance(cursor.term, Input)):
            stage_input(work, reads, path, name)
            return
    path = below_lets(work, cursor.path, path)
    kept = padding_kept(work, cursor.path)
    inner, wrapped = _highest(work, (*cursor.path, 0) if kept else cursor.path, path, alone=nth is not None)
    if kept and wrapped:
        work.rewrite("unfold_let", (*inner[:-1], 1, *cursor.path[len(inner) - 1 :]))
    use = stage_at(work, inner, path, name or "buf", equals=nth is None)
    if wrapped or kept:
        work.rewrite("unfold_let", use[:-1])


def _let_around(work: Derivation, what: Target, path: Path) -> Cursor | None:
    """The let that is meant, if it stands around this place."""
    return next(
        (
            cursor
            for cursor in chosen(work.goal, what, top_down=True)
            if isinstance(cursor.term, Let) and path[: len(cursor.path) + 1] == (*cursor.path, 1)
        ),
        None,
    )


def _producers(work: Derivation, what: Target, below: Path) -> list[Cursor]:
    """What is meant below a place, from the outside in; of a let that is named, its value."""
    everywhere = list(chosen(work.goal, what, top_down=True))
    found = [cursor for cursor in everywhere if cursor.path[: len(below)] == below]
    if everywhere and not found:
        raise _not_below(work, what, everywhere[0], below)
    if not found:
        raise nothing_chosen(work.goal, what, operand=True)
    if isinstance(what, str) and isinstance(found[0].term, Let) and what in found[0].called:
        return [found[0].child(0)]
    return found


def _not_below(work: Derivation, what: Target, cursor: Cursor, below: Path) -> DoesNotApply:
    """What to say of something that is not within a loop; it may be the let whose value the loop computes."""
    place = place_of(work.goal, below)
    if not isinstance(cursor.term, Let) or below[: len(cursor.path) + 1] != (*cursor.path, 0):
        required = "a loop around it, or one inside of the let, if it is a let"
        return DoesNotApply(f"{what} does not stand inside of that loop", place=place, required=required)
    name = cursor.called[0]
    inside = (*cursor.path, 1)
    loops_inside = (
        each
        for each in binders(work.goal)
        if each.path[: len(inside)] == inside and isinstance(each.term, Gen | Reduce)
    )
    firsts = ((loop, next(chosen(work.goal, loop.called[0], top_down=True))) for loop in loops_inside)
    names = [loop.called[0] for loop, first in firsts if loop.path == first.path]
    return DoesNotApply(
        f"{name} is not read inside of that loop, which computes it",
        place=place,
        required=f"a loop that reads {name}; of several loops of one name, the first one is meant",
        suggestions=(f's.stage("{name}", at="{names[0]}")',) if names else ("choose the loop by a pattern",),
    )


def _input_read(work: Derivation, cursor: Cursor) -> Path | None:
    """The place of the input of which an element, or a row, is read at a place, if one is."""
    path, term = cursor.path, cursor.term
    while isinstance(term, Access):
        path, term = (*path, 0), term.tensor
    return path if isinstance(term, Input) and path and isinstance(work.term(path[:-1]), Access) else None


def below_lets(work: Derivation, path: Path, above: Path) -> Path:
    """The place below the lets which stand at a place, and on which the subterm at a path depends."""
    while isinstance(work.term(above), Let) and path[: len(above) + 1] == (*above, 1):
        _, tensors = binders_between(work.term(above), path[len(above) :])
        if all(position >= tensors for position in free_positions(work.term(path))[1]):
            break
        above = (*above, 1)
    return above


def stage_at(
    work: Derivation,
    path: Path,
    above: Path,
    name: str,
    *,
    equals: bool = False,
    order: Sequence[int] | None = None,
    guarded: bool = True,
) -> Path:
    """Binds the subterm at a path at a place above it, with all `equals`. The path of the buffer's use in its place.

    The buffer's dimensions are those of the loops between, or of those at these de Bruijn positions, in this order. Its
    elements are `guarded` as the subterm is, or else computed for all iterations of these loops.
    """
    check_free(work, above, path[len(above) :], of_lets=True)
    uses = [path, *(_equal_to(work, path, above) if equals else ())]
    marks = _marks_between(work, path, above) if len(uses) == 1 and _only_copied(work, path, above) else []
    filled = [_read_from_buffer(work, use, above, order, guarded=guarded) for use in uses]
    at = filled[0]
    bind(work, above, at[len(above) :], name)
    _mark_loops(work, (*above, 0), marks)
    simplify_guards(work, (*above, 0))
    guard_reads(work, (*above, 0))
    note_growth(work, above)
    return (*above, 1, *path[len(above) :])


def _read_from_buffer(work: Derivation, path: Path, above: Path, order: Sequence[int] | None, *, guarded: bool) -> Path:
    """e(i) → (⊞[i < n] [p(i)] · e(i))[i], over the loops between that it depends on. The path of the generation."""
    for predicate in _that_matter(work, path, above) if guarded else ():
        work.rewrite("guard_true", path, reverse=True, p=predicate)
    at, between = path, _dimensions(work, path, above)
    if order is not None:
        between = [loop for position in reversed(order) for loop in between if loop[0] == position]
    for position, low, high in between:
        value = work.term(at)
        arguments: dict[str, Argument] = {
            "lo": low,
            "hi": high,
            "k": bound(position) - low,
            "e": Function(("index",), transform(value, partial(_generalised, position))),
        }
        work.apply(work.rule("get_gen"), at, arguments, reverse=True)
        work.rename((*at, 0), _loop_name(work, path, position))
        at = (*at, 0)
    return at


def _buffer(work: Derivation, path: Path, above: Path) -> Expr | None:
    """What the buffer for the subterm at a path would hold, as seen from the place above, if it can stand there."""
    value = work.term(path)
    for predicate in _that_matter(work, path, above):
        value = Guard(predicate, value)
    try:
        dimensions = _dimensions(work, path, above)
    except DoesNotApply:
        return None
    for position, low, high in dimensions:
        value = Gen(low, high, transform(value, partial(_generalised, position)))
    indices, tensors = binders_between(work.term(above), path[len(above) :])
    used, tensors_used = free_positions(value)
    if any(position < indices for position in used) or any(position < tensors for position in tensors_used):
        return None
    return shift_term(value, -indices, -tensors)


def _equal_to(work: Derivation, path: Path, above: Path) -> list[Path]:
    """The other places for which the buffer of the subterm at a path would hold the same."""
    term = work.term(path)
    wanted = _buffer(work, path, above)
    return [
        cursor.path
        for cursor in work.cursors(above)
        if type(cursor.term) is type(term)
        and cursor.term.type.rank == term.type.rank
        and cursor.path[: len(path)] != path
        and wanted is not None
        and _buffer(work, cursor.path, above) == wanted
    ]


def _only_copied(work: Derivation, path: Path, above: Path) -> bool:
    """Whether nothing is computed between two places: whether the loops there copy the buffer, once there is one."""
    return all(isinstance(term, Gen | Guard | Reshape) for term, _ in _between(work, path, above))


def _marks_between(work: Derivation, path: Path, above: Path) -> list[LoopMark]:
    """The marks of the generations between two places on which the subterm depends, from the outside in."""
    used = free_positions(work.term(path))[0]
    found = [(term.mark, below) for term, below in _between(work, path, above) if isinstance(term, Gen)]
    return [mark for mark, position in found if position in used][::-1]


def _mark_loops(work: Derivation, path: Path, marks: Sequence[LoopMark]) -> None:
    for mark in marks:
        work.mark(path, mark)
        path = (*path, 0)


def _highest(work: Derivation, path: Path, above: Path, *, alone: bool) -> tuple[Path, bool]:
    """Brings the subterm to the highest place where it means the same and is not guarded by less.

    Unless it stands there itself, it becomes the value of a let, with or without those that equal it: whether it did is
    told too.
    """
    value, inside = work.term(path), path
    while len(path) > len(above):
        around = work.term(path[:-1])
        child = children(around)[path[-1]]
        stays = not (isinstance(around, Guard | Select) or child.tensors)
        if not stays or (child.indices and 0 in free_positions(value)[0]):
            break
        if child.indices:
            value = shift_term(value, -1, 0)
        path = path[:-1]
    term = work.term(path)
    if term == value:
        return path, False
    value_name, body_name = parameters_of_let(work)
    opened, bound_value = shift_term(term, 0, 1), shift_term(value, 0, 1)
    only = inside[len(path) :] if alone else None
    body = abstracted(opened, bound_value, 0, 0, only=only)
    arguments = {value_name: value, body_name: Function((value.type,), body)}
    work.apply(work.rule("unfold_let"), path, arguments, reverse=True)
    return (*path, 0), True


def _generalised(position: int, leaf: Leaf, depth: int) -> Index:
    """One more binder: the index at `place` becomes its own, all others are one further out."""
    if not isinstance(leaf, Bound) or leaf.position < depth:
        return index(leaf)
    if leaf.position - depth == position:
        return bound(depth)
    return bound(leaf.position + 1)


def _between(work: Derivation, path: Path, above: Path) -> Iterator[tuple[Expr, int]]:
    """The terms between two places, from the inside out, with how many index binders stand below each."""
    below = 0
    for length in range(len(path) - 1, len(above) - 1, -1):
        term = work.term(path[:length])
        yield term, below
        below += children(term)[path[length]].indices


def loops_between(work: Derivation, path: Path, above: Path) -> list[tuple[int, Index, Index]]:
    """The loops between two places, from the inside out: their de Bruijn position at the inner, and their bounds."""
    out = []
    for term, below in _between(work, path, above):
        if isinstance(term, Gen | Reduce):
            out.append((below, shift(term.low, below + 1), shift(term.high, below + 1)))
    return out


def _dimensions(work: Derivation, path: Path, above: Path) -> list[tuple[int, Index, Index]]:
    """Those of the loops between on which the subterm depends, which are the dimensions of its buffer, inside out.

    Of a range that depends on another loop, on which the subterm does not, all that any iteration of that loop runs
    over: the buffer for Σ[jo < io] e(jo) in ⊞[io < n] holds e(jo) for all jo < n - 1.
    """
    cursor, used = work.cursor(path), free_positions(work.term(path))[0]
    between = loops_between(work, path, above)
    around = [at.loop for at in cursor.spine()[len(above) : -1] if isinstance(at.term, Gen | Reduce)]
    other = {position for position, _, _ in between} - used
    over = [loop for loop, (position, _, _) in zip(around, between[::-1], strict=True) if position in other]
    facts, scope = work.cursor(above).scope.facts, cursor.scope

    def widest(low: Index, high: Index) -> tuple[Index, Index]:
        if not other & _positions_in(low, high):
            return low, high
        least, most = lower_bound(facts, scope.index(low), over), upper_bound(facts, scope.index(high), over)
        if least is None or most is None:
            return low, high
        return closed(least, scope), closed(simplify(facts, imax(least, most)), scope)

    found = [(position, *widest(low, high)) for position, low, high in between if position in used]
    for position, low, high in found:
        outer = _positions_in(high - low) & {other for other, _, _ in found}
        if outer:
            raise _ragged(work, path, position, min(outer))
    return found


def _positions_in(*expressions: Index) -> set[int]:
    return {atom.position for expression in expressions for atom in atoms(expression) if isinstance(atom, Bound)}


def _ragged(work: Derivation, path: Path, inner: int, outer: int) -> DoesNotApply:
    """What to say where a buffer would have rows of different lengths: the range of a loop depends on an outer one."""
    around = [at for at in work.cursor(path).spine()[:-1] if isinstance(at.term, Gen | Reduce)][::-1]
    name, depends_on = around[inner].called[0], around[outer].called[0]
    return DoesNotApply(
        f"the buffer would have rows of different lengths: it depends on {depends_on} and {name}, and the range of "
        f"the loop {name} depends on {depends_on}",
        place=place_of(work.goal, around[inner].path),
        required="loops between whose ranges do not depend on each other",
        suggestions=(f"keep it within each iteration of {depends_on}: at={depends_on!r}, in s.stage or s.pack",),
    )


def _loop_name(work: Derivation, path: Path, position: int) -> str:
    count = 0
    for length in range(len(path) - 1, -1, -1):
        term = work.term(path[:length])
        if isinstance(term, Gen | Reduce):
            if count == position:
                return term.name
            count += 1
    return "i"


def _guards_between(work: Derivation, path: Path, above: Path) -> list[Predicate]:
    """The conditions of the guards between two places, as they are written at the inner one."""
    out = []
    for length in range(len(path) - 1, len(above) - 1, -1):
        term = work.term(path[:length])
        if isinstance(term, Guard):
            below, _ = binders_between(term, path[length:])
            out.append(substitute(term.predicate, partial(raised, below)))
    return out


def _that_matter(work: Derivation, path: Path, above: Path) -> list[Predicate]:
    """The conditions of the guards between, without those that speak of loops on which the subterm does not depend.

    Those would make the buffer larger by a dimension, in which all is the same. They stay where it is read.
    """
    between = {position for position, _, _ in loops_between(work, path, above)}
    inside = free_positions(work.term(path))[0]
    kept = [
        [part for part in conjuncts(guard) if used_positions(part) & between <= inside]
        for guard in _guards_between(work, path, above)
    ]
    return [conjunction(parts) for parts in kept if parts]


def raised(by: int, leaf: Leaf) -> Index:
    """An index as it is written below so many more binders."""
    return bound(leaf.position + by) if isinstance(leaf, Bound) else index(leaf)


def hoist(work: Derivation, name: Target, *, out_of: Target | None = None) -> None:
    """Moves a let out of the nearest loop around it, or out of the loop `out_of`.

    ⊞[i < n] let x := e in b  →  let x := e in ⊞[i < n] b, or let x := ⊞[i < n] e in ⊞[i < n] b(x[i]) if e depends on i.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] let y := 2 * x[i] in y * y"))
    >>> s.hoist("y")
    f (x : float32[n]) : float32[n] :=
      let y := ⊞[i < n] 2 * x[i] in ⊞[i < n] y[i] * y[i]
    -- y holds n elements: it grows with n
    """
    chosen_loops = {cursor.path for cursor in loops(work, out_of)} if out_of is not None else None

    def hoisted(cursor: Cursor) -> None:
        assert isinstance(cursor.term, Let)
        around = [above.path for above in cursor.spine()[:-1] if isinstance(above.term, Gen | Reduce)]
        if not around:
            raise DoesNotApply(f"no loop stands around {cursor.called[0]}", required="a let inside of a loop")
        meant = around[-1:] if chosen_loops is None else [path for path in around if path in chosen_loops]
        if not meant:
            raise DoesNotApply(
                f"{cursor.called[0]} does not stand inside of that loop", required=f"a loop around {cursor.called[0]}"
            )
        # Its own name, when it is not chosen by the one that it has been given.
        own = name if isinstance(name, str) and name in cursor.called else cursor.term.name
        stage_at(work, (*cursor.path, 0), meant[0], own)
        work.mark(meant[0], cursor.term.mark)
        work.rewrite("unfold_let", (*meant[0], 1, *cursor.path[len(meant[0]) :]))

    work.try_each(lets_called(work, name), hoisted)
