"""Fusing, staging and hoisting: computing producers at their uses, or in a buffer at a chosen loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

from atl.checks.safety import unsafe_accesses
from atl.core.index import ONE, ZERO, Bound, Index, Leaf, atoms, bound, imax, imin, index, shift
from atl.core.marks import AnyLoopMark
from atl.core.predicate import Predicate, at_most, conjunction, conjuncts, substitute
from atl.core.substitution import free_positions, shift_term, transform
from atl.core.terms import Access, Expr, Gen, Guard, Input, Let, Rec, Reduce, Reshape, Select
from atl.core.traversal import Path, children
from atl.prove import lower_bound, simplify, upper_bound
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor, binders
from rewrites.cursors.targets import Target, chosen, nothing_chosen
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.rule_arguments import Argument, Function
from rewrites.tactics import arg
from rewrites.tactics.indices import closed
from rewrites.tactics.loops import find_loops, first_possible
from rewrites.tactics.nests.guards import used_positions
from rewrites.tactics.regions import note_growth, stage_input, stage_region
from rewrites.tactics.simplification import find_lets, guard_reads, reduce_accesses, simplify_guards
from rewrites.tactics.storage import binding
from rewrites.tactics.storage.padding import keep_padding
from rewrites.tactics.tactic import tactic

# -- fusing -----------------------------------------------------------------------------------------------------------


@tactic
def fuse(work: Derivation, name: arg.Let) -> None:
    """Fuse a producer into its consumer (compute_at): let buf := ⊞[i < n] e(i) in … buf[k] … → … e(k) …; simplify
    guards.

    >>> s = reschedule(atl.parse(
    ...     "f (x : float32[n]) : float32[n] "
    ...     ":= let y := ⊞[i < n] 2 * x[i] in ⊞[i < n] y[i] + 1.0"))
    >>> s.fuse("y")
    f (x : float32[n]) : float32[n] :=
      ⊞[i < n] 2 * x[i] + 1.0
    """
    path = find_lets(work, name)[0].path
    work.rewrite("unfold_let", path)
    reduce_accesses(work, path)
    simplify_guards(work, path)


# -- staging ----------------------------------------------------------------------------------------------------------


@tactic
def stage(
    work: Derivation,
    what: arg.Term,
    *,
    at: arg.Around | None = None,
    name: arg.NewName | None = None,
    nth: arg.Number | None = None,
) -> None:
    """Stage a subterm in a buffer at each iteration of the loop `at`, or before everything (cache_read, compute_at).

    ⊞[i < n] … e(i) …  →  let buf := ⊞[i < n] e(i) in ⊞[i < n] … buf[i] …

    The buffer has a dimension for each loop in between on which the subterm depends. If the range of such a loop
    depends on a loop that the subterm does not use, as in a triangle, the dimension has the maximal extent. Guards in
    between on the loops of the buffer are kept around the elements. Guards that always hold, or are on other loops,
    stay outside the buffer. The buffer serves all equal subterms, or only match number `nth`, counted from 0.

    For a let around the loop, the part that is read inside the loop is computed there, in a buffer of that size. The
    let remains for other reads, if any. For an input, the part read inside the loop is copied. For a pattern that
    matches several reads, the copy has every element that any of them reads. Disjoint reads, such as A[i, _] and A[j,
    _], get separate buffers.

    If the loops in between then only copy the buffer, the loops that fill it get the same marks.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] Σ[p < n] exp(x[p]) * x[i]"))
    >>> s.stage("exp(_)", at="i", name="power")
    f (x : float32[n]) : float32[n] :=
      ⊞[i < n] let power := ⊞[p < n] exp(x[p]) in Σ[p < n] power[p] * x[i]
    -- power holds n elements: it grows with n
    """
    binding.check_name(name)
    binding.check_nth(nth)
    if at is None:
        stage_below(work, what, (), name, nth)
    else:
        first_possible(work, at, lambda cursor: stage_below(work, what, (*cursor.path, 0), name, nth))


def stage_below(work: Derivation, what: Target, path: Path, name: str | None, nth: int | None = None) -> None:
    """Stage a subterm at a place, like `stage`."""
    let = _let_around(work, what, path)
    if let is not None:
        if nth is not None:
            raise DoesNotApply(
                f"nth={nth} has no effect for the let {let.called[0]}, whose reads are staged together",
                place=place_of(work.goal, let.path),
                required="no nth=, or a pattern of the reads",
            )
        stage_region(work, let.path, path, name or let.called[0])
        return
    cursors = binding.nth_of(_producers(work, what, path), nth, what)
    cursor = cursors[0]
    if isinstance(cursor.term, Input) or len({cursor.term for cursor in cursors}) > 1:
        inputs = [_input_read(work, cursor) for cursor in cursors]
        reads = [read for read in inputs if read is not None]
        if reads and (len(reads) == len(cursors) or isinstance(cursor.term, Input)):
            stage_input(work, reads, path, name)
            return
    path = below_lets(work, cursor.path, path)
    kept = keep_padding(work, cursor.path)
    inner, wrapped = _hoist_to_highest(work, (*cursor.path, 0) if kept else cursor.path, path, alone=nth is not None)
    if kept and wrapped:
        work.rewrite("unfold_let", (*inner[:-1], 1, *cursor.path[len(inner) - 1 :]))
    use = stage_at(work, inner, path, name or "buf", equals=nth is None)
    if wrapped or kept:
        work.rewrite("unfold_let", use[:-1])


def _let_around(work: Derivation, what: Target, path: Path) -> Cursor | None:
    """Return the selected let, if it is around this place."""
    return next(
        (
            cursor
            for cursor in chosen(work.goal, what, top_down=True)
            if isinstance(cursor.term, Let) and path[: len(cursor.path) + 1] == (*cursor.path, 1)
        ),
        None,
    )


def _producers(work: Derivation, what: Target, below: Path) -> list[Cursor]:
    """Return the selected terms below a place, from the outside in; for a let selected by name, its value."""
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
    """Return the error for a term that is not inside the loop, or for a let whose value the loop computes."""
    place = place_of(work.goal, below)
    if not isinstance(cursor.term, Let) or below[: len(cursor.path) + 1] != (*cursor.path, 0):
        required = "a loop around it; for a let, a loop that reads it"
        return DoesNotApply(f"{what} is not inside that loop", place=place, required=required)
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
        f"that loop computes {name} and does not read it",
        place=place,
        required=f"a loop that reads {name}; of several loops with this name, the first one is selected",
        suggestions=(f's.stage("{name}", at="{names[0]}")',) if names else ("select the loop by a pattern",),
    )


def _input_read(work: Derivation, cursor: Cursor) -> Path | None:
    """Return the path of the input that is read by the access at a place, if any."""
    path, term = cursor.path, cursor.term
    while isinstance(term, Access):
        path, term = (*path, 0), term.tensor
    return path if isinstance(term, Input) and path and isinstance(work.term(path[:-1]), Access) else None


def below_lets(work: Derivation, path: Path, above: Path) -> Path:
    """Return the place below the lets at a place on which the subterm at a path depends."""
    while isinstance(work.term(above), Let) and path[: len(above) + 1] == (*above, 1):
        _, tensors = binding.binders_between(work.term(above), path[len(above) :])
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
    """Bind the subterm at a path, with all `equals`, at a place above it; return the path of the buffer's use.

    The buffer's dimensions are the loops in between, or those at the de Bruijn positions `order`. Its elements are
    `guarded` like the subterm, or else computed for all iterations of these loops. A term of a fold other than a sum
    has no guard, since a zero would enter the fold: its reads are repeated at borders.
    """
    guarded = guarded and not repeat_in_folds(work, path, above, order)
    use = buffered(work, path, above, name, equals=equals, order=order, guarded=guarded)
    guard_reads(work, (*above, 0))
    note_growth(work, above)
    return use


def buffered(
    work: Derivation,
    path: Path,
    above: Path,
    name: str,
    *,
    equals: bool = False,
    order: Sequence[int] | None = None,
    guarded: bool = True,
) -> Path:
    """Bind a subterm like `stage_at`, where its reads may be unsafe without the guards in between."""
    binding.check_free(work, above, path[len(above) :], of_lets=True)
    uses = [path, *(_equal_to(work, path, above) if equals else ())]
    marks = _marks_between(work, path, above) if len(uses) == 1 and _only_copied(work, path, above) else []
    filled = [_read_from_buffer(work, use, above, order, guarded=guarded) for use in uses]
    at = filled[0]
    binding.bind(work, above, at[len(above) :], name)
    _mark_loops(work, (*above, 0), marks)
    simplify_guards(work, (*above, 0))
    return (*above, 1, *path[len(above) :])


def repeat_in_folds(work: Derivation, path: Path, above: Path, order: Sequence[int] | None = None) -> bool:
    """Repeat the borders of a term of a fold that guards it inside `above`; return whether it is such a term."""
    if not (_is_term_of_fold(work, path, above) and _relevant_guards(work, path, above)):
        return False
    repeat_borders(work, path, above, order)
    return True


def _is_term_of_fold(work: Derivation, path: Path, above: Path) -> bool:
    """Return whether padding at a path would enter a maximum, minimum or product inside `above`."""
    for term, _ in _between(work, path, above):
        if isinstance(term, Reduce) and term.monoid != "sum":
            return True
        if not isinstance(term, Gen | Reduce | Guard | Reshape | Let | Access):
            return False
    return False


def repeat_borders(work: Derivation, path: Path, above: Path, order: Sequence[int] | None = None) -> None:
    """Clamp the reads below a place that need the guards between it and `above`: x[k] → x[min(k, n - 1)].

    Inside these guards, both are equal. Without them, the element at the border is read again, which is for folds that
    cannot leave out a term.
    """
    before, rank = work.checkpoint, len(order if order is not None else _dimensions(work, path, above))
    buffered(work, path, above, "x", order=order, guarded=False)
    inside, found = (*above, 0, *(0,) * rank), list[tuple[Path, bool, bool]]()
    for at, _ in unsafe_accesses(work.goal, (*above, 0)):
        term = work.term(at)
        if isinstance(term, Access):
            last = term.tensor.type.shape[0] - ONE
            low, high = (work.can_prove(at, part) for part in (at_most(ZERO, term.index), at_most(term.index, last)))
            found.append(((*path, *at[len(inside) :]), low, high))
    work.rollback(before)
    for at, low, high in found:
        term = work.term(at)
        assert isinstance(term, Access)
        index = term.index if high else imin(term.index, term.tensor.type.shape[0] - ONE)
        work.rewrite("access_at", at, j=index if low else imax(ZERO, index))


def _read_from_buffer(work: Derivation, path: Path, above: Path, order: Sequence[int] | None, *, guarded: bool) -> Path:
    """Rewrite e(i) → (⊞[i < n] [p(i)] · e(i))[i] over the loops in between; return the path of the generation."""
    for predicate in _relevant_guards(work, path, above) if guarded else ():
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
            "e": Function(("index",), over_index(value, position)),
        }
        work.apply(work.rule("get_gen"), at, arguments, reverse=True)
        work.rename((*at, 0), _loop_name(work, path, position))
        at = (*at, 0)
    return at


def _buffer(work: Derivation, path: Path, above: Path) -> Expr | None:
    """Return the buffer's value for the subterm at a path, in the scope of `above`; None if it is not closed there."""
    value = work.term(path)
    for predicate in _relevant_guards(work, path, above):
        value = Guard(predicate, value)
    try:
        dimensions = _dimensions(work, path, above)
    except DoesNotApply:
        return None
    for position, low, high in dimensions:
        value = Gen(low, high, over_index(value, position))
    indices, tensors = binding.binders_between(work.term(above), path[len(above) :])
    used, tensors_used = free_positions(value)
    if any(position < indices for position in used) or any(position < tensors for position in tensors_used):
        return None
    return shift_term(value, -indices, -tensors)


def _equal_to(work: Derivation, path: Path, above: Path) -> list[Path]:
    """Return the other places whose buffer would have the same value."""
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
    """Return True if nothing is computed between two places, so that the loops only copy the buffer."""
    return all(isinstance(term, Gen | Guard | Reshape) for term, _ in _between(work, path, above))


def _marks_between(work: Derivation, path: Path, above: Path) -> list[AnyLoopMark]:
    """Return the marks of the generations between two places on which the subterm depends, outermost first."""
    used = free_positions(work.term(path))[0]
    found = [(term.mark, below) for term, below in _between(work, path, above) if isinstance(term, Gen)]
    return [mark for mark, position in found if position in used][::-1]


def _mark_loops(work: Derivation, path: Path, marks: Sequence[AnyLoopMark]) -> None:
    for mark in marks:
        work.mark(path, mark)
        path = (*path, 0)


def _hoist_to_highest(work: Derivation, path: Path, above: Path, *, alone: bool) -> tuple[Path, bool]:
    """Move the subterm to the highest place where it is well-defined and has the same guards.

    Unless it already is there, it becomes the value of a let, with or without equal subterms. Returns the path, and
    whether there is a let.
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
    value_name, body_name = binding.parameters_of_let(work)
    opened, bound_value = shift_term(term, 0, 1), shift_term(value, 0, 1)
    only = inside[len(path) :] if alone else None
    body = binding.abstracted(opened, bound_value, 0, 0, only=only)
    arguments = {value_name: value, body_name: Function((value.type,), body)}
    work.apply(work.rule("unfold_let"), path, arguments, reverse=True)
    return (*path, 0), True


def over_index(value: Expr, position: int) -> Expr:
    """Abstract a term over the index at a de Bruijn position, which becomes a new innermost index."""
    return transform(value, partial(_abstract_index, position))


def _abstract_index(position: int, leaf: Leaf, depth: int) -> Index:
    """Abstract over the index at `position`: it becomes the new innermost index, and all others shift by one."""
    if not isinstance(leaf, Bound) or leaf.position < depth:
        return index(leaf)
    if leaf.position - depth == position:
        return bound(depth)
    return bound(leaf.position + 1)


def _between(work: Derivation, path: Path, above: Path) -> Iterator[tuple[Expr, int]]:
    """Yield the nodes between two places, inside out, with the number of index binders below each."""
    below = 0
    for length in range(len(path) - 1, len(above) - 1, -1):
        term = work.term(path[:length])
        yield term, below
        below += children(term)[path[length]].indices


def loops_between(work: Derivation, path: Path, above: Path) -> list[tuple[int, Index, Index]]:
    """Return the loops between two places, inside out: de Bruijn position at the inner place, and bounds."""
    out, below = [], 0
    for at in loops_around(work.cursor(path))[::-1]:
        if len(at.path) < len(above):
            break
        assert isinstance(at.term, Gen | Reduce | Rec)
        below, _ = binding.binders_between(at.term, path[len(at.path) :])
        out.append((below - 1, shift(at.term.low, below), shift(at.term.high, below)))
    return out


def loops_around(cursor: Cursor) -> list[Cursor]:
    """Return the loops around a place, and the recurrences whose rows it is in, from the outside in."""
    spine = cursor.spine()
    return [
        at
        for at, inner in pairwise(spine)
        if isinstance(at.term, Gen | Reduce | Rec) and children(at.term)[inner.path[-1]].indices
    ]


def _dimensions(work: Derivation, path: Path, above: Path) -> list[tuple[int, Index, Index]]:
    """Return the loops in between on which the subterm depends, inside out: the dimensions of its buffer.

    If a range depends on a loop that the subterm does not use, the result is the union over that loop's iterations.
    So the buffer for Σ[jo < io] e(jo) in ⊞[io < n] contains e(jo) for all jo < n - 1.
    """
    cursor, used = work.cursor(path), free_positions(work.term(path))[0]
    between = loops_between(work, path, above)
    around = [at.loop for at in loops_around(cursor) if len(at.path) >= len(above)]
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
    """Return the error for a buffer with rows of different lengths."""
    around = loops_around(work.cursor(path))[::-1]
    name, depends_on = around[inner].called[0], around[outer].called[0]
    return DoesNotApply(
        f"the buffer would have rows of different lengths: it depends on {depends_on} and {name}, and the range of "
        f"the loop {name} depends on {depends_on}",
        place=place_of(work.goal, around[inner].path),
        required="loops between whose ranges do not depend on each other",
        suggestions=(f"stage it in each iteration of {depends_on}: at={depends_on!r}, in s.stage or s.pack",),
    )


def _loop_name(work: Derivation, path: Path, position: int) -> str:
    around = loops_around(work.cursor(path))[::-1]
    for loop, (at, _, _) in zip(around, loops_between(work, path, ()), strict=True):
        if at == position and isinstance(loop.term, Gen | Reduce | Rec):
            return loop.term.name
    return "i"


def guards_between(work: Derivation, path: Path, above: Path) -> list[Predicate]:
    """Return the conditions of the guards between two places, as written at the inner one."""
    out = []
    for length in range(len(path) - 1, len(above) - 1, -1):
        term = work.term(path[:length])
        if isinstance(term, Guard):
            below, _ = binding.binders_between(term, path[length:])
            out.append(substitute(term.predicate, partial(raised, below)))
    return out


def _relevant_guards(work: Derivation, path: Path, above: Path) -> list[Predicate]:
    """Return the conditions of the guards in between, except those on loops that the subterm does not use.

    Those would add a dimension to the buffer along which it is constant. They stay around the reads.
    """
    between = {position for position, _, _ in loops_between(work, path, above)}
    inside = free_positions(work.term(path))[0]
    kept = [
        [part for part in conjuncts(guard) if used_positions(part) & between <= inside]
        for guard in guards_between(work, path, above)
    ]
    return [conjunction(parts) for parts in kept if parts]


def raised(by: int, leaf: Leaf) -> Index:
    """Shift an index for use below `by` more binders."""
    return bound(leaf.position + by) if isinstance(leaf, Bound) else index(leaf)


@tactic
def hoist(work: Derivation, name: arg.Let, *, out_of: arg.Around | None = None) -> None:
    """Hoist a let out of the nearest loop around it, or out of the loop `out_of` (loop-invariant code motion).

    ⊞[i < n] let x := e in b  →  let x := e in ⊞[i < n] b, or let x := ⊞[i < n] e in ⊞[i < n] b(x[i]) if e depends on i.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] let y := 2 * x[i] in y * y"))
    >>> s.hoist("y")
    f (x : float32[n]) : float32[n] :=
      let y := ⊞[i < n] 2 * x[i] in ⊞[i < n] y[i] * y[i]
    -- y holds n elements: it grows with n
    """
    chosen_loops = {cursor.path for cursor in find_loops(work, out_of)} if out_of is not None else None

    def hoisted(cursor: Cursor) -> None:
        assert isinstance(cursor.term, Let)
        around = [above.path for above in cursor.spine()[:-1] if isinstance(above.term, Gen | Reduce)]
        if not around:
            raise DoesNotApply(f"no loop is around {cursor.called[0]}", required="a let inside a loop")
        meant = around[-1:] if chosen_loops is None else [path for path in around if path in chosen_loops]
        if not meant:
            raise DoesNotApply(
                f"{cursor.called[0]} is not inside that loop", required=f"a loop around {cursor.called[0]}"
            )
        # Use the stored name unless the let was selected by its displayed name.
        own = name if isinstance(name, str) and name in cursor.called else cursor.term.name
        stage_at(work, (*cursor.path, 0), meant[0], own)
        work.mark(meant[0], cursor.term.mark)
        work.rewrite("unfold_let", (*meant[0], 1, *cursor.path[len(meant[0]) :]))

    work.try_each(find_lets(work, name), hoisted)
