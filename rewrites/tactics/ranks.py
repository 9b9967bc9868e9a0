"""Tactics for programs on several ranks: device loops, exchanges, and partial sums (`docs/distributed.md`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from atl.checks.scope import Scope
from atl.checks.wellformed import make_program
from atl.core.index import ZERO, Index, Quotient, Read, atoms, polynomial, quotient_exactly
from atl.core.marks import DEVICES, LoopMark
from atl.core.predicate import less
from atl.core.substitution import free_positions, with_child
from atl.core.terms import Concat, Gen, Guard, Input, Let, Local, Reduce
from atl.core.traversal import Path
from atl.errors import ATLError, InvalidArgument, brief
from atl.prove import proves
from atl.text.printing import place_of
from layouts.sharding import AXES
from lowering.ranks.forming import form
from lowering.ranks.reads import access_chain
from lowering.ranks.steps import RankProgram
from rewrites.cursors.cursor import Cursor
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.indices import closed, simplify_indices
from rewrites.tactics.loops import first_possible, split_at
from rewrites.tactics.nests.interchange import interchange_at
from rewrites.tactics.simplification import find_lets, simplify_guards
from rewrites.tactics.storage.binding import check_name
from rewrites.tactics.storage.borders import pad
from rewrites.tactics.storage.staging import below_lets, loops_around, loops_between, stage_at, stage_below
from rewrites.tactics.tactic import tactic


@tactic
def distribute(work: Derivation, name: arg.Loop, axis: arg.Axis) -> None:
    """Run the iterations of a loop on the ranks along an axis of the mesh, x, y or z.

    Σ[k < n] ⊞[d < P] e  →  ⊞[d < P | device.x] Σ[k < n] e

    The loop is moved out of sums around it. It must then fill the outermost dimension of the result or of a let, except
    for other device loops: a tensor is sharded along its leading dimensions.

    >>> s = reschedule(atl.parse("f (x : float32[P | device.x, n]) : float32[P, n] := ⊞[d < P] ⊞[i < n] 2 * x[d, i]"))
    >>> s.distribute("d", "x")
    f (x : float32[P | device.x, n]) : float32[P, n] :=
      ⊞[d < P | device.x] ⊞[i < n] 2 * x[d, i]
    """
    mark = _axis(axis)

    def distributed(cursor: Cursor) -> None:
        path = cursor.path
        if not isinstance(cursor.term, Gen):
            raise DoesNotApply(
                f"{cursor.called[0]} is not a loop that fills a tensor",
                place=place_of(work.goal, path),
                required="a generation; s.reduce_over(…) computes a sum by partial sums",
            )
        while path and isinstance(above := work.term(path[:-1]), Reduce) and above.monoid == "sum":
            interchange_at(work, path[:-1])
            path = path[:-1]
        _check_leading(work, path)
        work.mark(path, mark)

    first_possible(work, name, distributed)


def _axis(axis: object) -> LoopMark:
    if not isinstance(axis, str) or axis not in AXES:
        raise InvalidArgument(f"axis {brief(axis)}", required=f"an axis of a mesh: {', '.join(AXES)}")
    return AXES[axis]


def _check_leading(work: Derivation, path: Path) -> None:
    """Raise `DoesNotApply` unless the loop fills the leading dimension of the result or of a let."""
    at = path
    while at and isinstance(above := work.term(at[:-1]), Gen) and above.mark in DEVICES:
        at = at[:-1]
    if not at or isinstance(work.term(at[:-1]), Let):
        return
    called = work.cursor(path).called[0]
    raise DoesNotApply(
        f"{called} does not fill the leading dimension of the result or of a let",
        place=place_of(work.goal, path),
        required="only device loops around it",
        suggestions=("s.shard_result(atl.shards(…)) and s.reduce_over(…) make such loops",),
    )


# -- exchanges --------------------------------------------------------------------------------------------------------


@tactic
def exchange(
    work: Derivation, what: arg.Operand, *, at: arg.Around | None = None, name: arg.NewName | None = None
) -> None:
    """Bind what a rank reads of an operand to a let, which becomes an exchange if another rank holds it.

    ⊞[d < P | device.x] … B[k, q] …  →  ⊞[d < P | device.x] let Ball := ⊞[k < P] ⊞[q < kb] B[k, q] in … Ball[k, q] …

    With `at`, each iteration of that loop makes the exchange; otherwise it is before everything. If guards keep reads
    in range, as in a stencil, the let gets a border of zeros (`pad`); otherwise the operand is staged (`stage`). For a
    halo, call this before `s.shard`, which then splits the let where the owner changes. For a sharded operand, the
    exchange is proved to have a form (`docs/distributed.md`). Raises `DoesNotApply` and `IllegalExchange`.

    >>> s = reschedule(atl.parse(
    ...     "f (B : float32[P | device.x, kb], x : float32[P | device.x, P, kb]) : float32[P] := "
    ...     "⊞[d < P | device.x] Σ[k < P] Σ[q < kb] x[d, k, q] * B[k, q]"))
    >>> s.exchange("B", name="whole")
    f (B : float32[P | device.x, kb], x : float32[P | device.x, P, kb]) : float32[P] :=
      let whole := ⊞[i < P] ⊞[j < kb] B[i, j] in
      ⊞[d < P | device.x] Σ[k < P] Σ[q < kb] x[d, k, q] * whole[k, q]
    -- whole holds P x kb elements: it grows with P and kb
    """
    check_name(name)
    called = name or f"{what if isinstance(what, str) and what.isidentifier() else 'operand'}_read"

    def exchanged(above: Path) -> None:
        start = work.checkpoint
        try:
            pad(work, what, at=at, name=called)
        except ATLError:
            work.rollback(start)
            stage_below(work, what, above, called)
        let = _let_at(work, called)
        if _reads_sharded(work, (*let, 0)):
            _check_owners(work, let)
            _formed(work, let)

    if at is None:
        exchanged(())
    else:
        first_possible(work, at, lambda cursor: exchanged((*cursor.path, 0)))


def _reads_sharded(work: Derivation, below: Path) -> bool:
    names = {each.name for each in work.goal.sharded}
    return any(isinstance(cursor.term, Input) and cursor.term.array.name in names for cursor in work.cursors(below))


def _check_owners(work: Derivation, let: Path) -> None:
    """Raise `DoesNotApply` if reads of the let find the owner by division: whole shards would be exchanged."""
    for owner, _ in _owners(work, (*let, 1)):
        found = list(atoms(owner))
        if any(isinstance(atom, Quotient) for atom in found) and not any(isinstance(atom, Read) for atom in found):
            term = work.term(let)
            assert isinstance(term, Let)
            raise DoesNotApply(
                f"whole shards would be exchanged for {term.name}, since reads find the owner by division",
                place=place_of(work.goal, let),
                required="an exchange before its operand is sharded",
                suggestions=("call s.exchange(…) before s.shard(…), which then splits the halo from own elements",),
            )


def _let_at(work: Derivation, called: str) -> Path:
    return find_lets(work, called)[-1].path


def _formed(work: Derivation, let: Path) -> RankProgram:
    """Return the steps of one rank that compute a let: the program with the let's value as the body."""
    term = work.term(let)
    assert isinstance(term, Let)
    body = term.value
    for depth in range(len(let), 0, -1):
        outer = work.term(let[: depth - 1])
        position = let[depth - 1]
        if isinstance(outer, Let) and position == 0:
            continue
        body = with_child(outer, position, body)
    goal = work.goal
    made = make_program(goal.name, goal.inputs, body, goal.assumptions)
    return form(replace(made, sharded=goal.sharded))


def split_at_owners(work: Derivation) -> None:
    """Split the loops that fill lets inside of device loops where the owner of what is read changes."""
    done: set[str] = set()
    while True:
        lets = [
            cursor
            for cursor in work.cursors(top_down=True)
            if isinstance(cursor.term, Let)
            and cursor.term.name not in done
            and any(isinstance(above.term, Gen) and above.term.mark in DEVICES for above in cursor.spine()[:-1])
        ]
        if not lets:
            return
        assert isinstance(lets[0].term, Let)
        done.add(lets[0].term.name)
        _split_at_owners(work, lets[0].path)


def _split_at_owners(work: Derivation, let: Path) -> None:
    """Split the loops of a let's value where the owner of what is read changes: (d*b + i - 1) // b at i = 1, b + 1."""
    _split_below(work, (*let, 0))
    simplify_guards(work, (*let, 0))
    simplify_indices(work, (*let, 0))


def _split_below(work: Derivation, path: Path) -> None:
    term = work.term(path)
    match term:
        case Concat():
            _split_below(work, (*path, 0))
            _split_below(work, (*path, 1))
        case Guard():
            _split_below(work, (*path, 0))
        case Gen():
            bounds = _owner_changes(work, path)
            if bounds:
                for part in split_at(work, path, bounds):
                    work.rename(part, term.name)
                    simplify_guards(work, part)
                    simplify_indices(work, part)
                    _split_below(work, (*part, 0))
            else:
                _split_below(work, (*path, 0))
        case _:
            pass


def _owner_changes(work: Derivation, path: Path) -> list[Index]:
    """Return the indices of a loop, proved to be inside its range, at which the owner of a read changes."""
    loop = work.term(path)
    assert isinstance(loop, Gen)
    around = work.cursor(path)
    position = len(around.scope.indices)
    low, high = around.scope.index(loop.low), around.scope.index(loop.high)
    found: list[Index] = []
    for owner, scope in _owners(work, path):
        variable = scope.indices[position]
        for atom in atoms(scope.index(owner)):
            if not isinstance(atom, Quotient) or len(atom.denominator.terms) != 1:
                continue
            rest = atom.numerator - variable
            inner = {each.atom for each in scope.indices[position:]}
            if any(each in inner for part in (rest, atom.denominator) for each in atoms(part)):
                continue
            offset = _without_multiples(rest, atom.denominator)
            for part in range(-1, 3):
                at = atom.denominator * part - offset
                inside = (less(low, at), less(at, high))
                if at not in found and all(proves(around.scope.facts, condition) for condition in inside):
                    found.append(at)
    ordered: list[Index] = []
    for at in found:
        place = sum(proves(around.scope.facts, less(other, at)) for other in ordered)
        ordered.insert(place, at)
    return [closed(at, around.scope) for at in ordered]


def _without_multiples(expression: Index, divisor: Index) -> Index:
    """Return the sum of the terms of an expression that a divisor of one term does not divide."""
    left = ZERO
    for monomial, coefficient in expression.terms:
        term = polynomial({monomial: coefficient})
        left = left if quotient_exactly(term, divisor) is not None else left + term
    return left


def _owners(work: Derivation, below: Path) -> Iterator[tuple[Index, Scope]]:
    """Yield the indices of sharded dimensions in reads of inputs and lets below a path, with their scopes."""
    axes = {each.name: each.axes for each in work.goal.sharded}
    for cursor in work.cursors(below):
        tensor, at = access_chain(cursor.term)
        if not at:
            continue
        if isinstance(tensor, Input) and tensor.array.name in axes:
            sharded = axes[tensor.array.name]
            yield from ((i, cursor.scope) for i, axis in zip(at, sharded, strict=False) if axis in DEVICES)
        elif isinstance(tensor, Local):
            yield from ((i, cursor.scope) for i in at)


# -- partial sums -----------------------------------------------------------------------------------------------------


@tactic
def reduce_over(work: Derivation, name: arg.Sum, axis: arg.Axis, *, part: arg.NewName = "part") -> None:
    """Compute a reduction over the ranks of an axis by partial results, one for each rank.

    ⊞[i < n] Σ[d < P] e(d, i)  →  let part := ⊞[d < P | device.x] ⊞[i < n] e(d, i) in ⊞[i < n] Σ[d < P] part[d, i]

    The sum over the ranks is then an all-reduce; if each rank needs a part of it, a reduce-scatter. If it is an operand
    of another operation, it is bound to a let itself.

    >>> s = reschedule(atl.parse(
    ...     "f (x : float32[P | device.x, n]) : float32[P, n] := "
    ...     "⊞[d < P | device.x] ⊞[i < n] x[d, i] / Σ[e < P] Σ[j < n] x[e, j]"))
    >>> s.reduce_over("e", "x", part="sums")
    f (x : float32[P | device.x, n]) : float32[P, n] :=
      let sums := ⊞[e < P | device.x] Σ[j < n] x[e, j] in
      let total := Σ[e < P] sums[e] in
      ⊞[d < P | device.x] ⊞[i < n] x[d, i] / total
    -- sums holds P elements: it grows with P
    """
    mark = _axis(axis)
    check_name(part)

    def reduced(cursor: Cursor) -> None:
        path = cursor.path
        if not isinstance(cursor.term, Reduce):
            raise DoesNotApply(
                f"{cursor.called[0]} is not a reduction", place=place_of(work.goal, path), required="a reduction"
            )
        above = below_lets(work, path, ())
        inner = (*path, 0)
        used = free_positions(work.term(inner))[0]
        between = [position for position, _, _ in loops_between(work, inner, above) if position in used]
        own = [position for position in between if position == 0]
        if not own:
            raise DoesNotApply(
                f"the terms of {cursor.called[0]} are all equal",
                place=place_of(work.goal, path),
                required="terms that depend on the rank",
            )
        order = [0, *(position for position in reversed(between) if position)]
        loops = loops_around(work.cursor(inner))[::-1]
        marks = [getattr(loops[position].term, "mark", None) for position in order]
        use = stage_at(work, inner, above, part, order=order, guarded=False)
        work.mark((*above, 0), mark)
        for depth, outer in enumerate(marks[1:], 1):
            # Loops over other axes of the mesh keep them: each rank computes its part only.
            if isinstance(outer, LoopMark) and outer in DEVICES and outer is not mark:
                work.mark((*above, *(0,) * (depth + 1)), outer)
        _bind_total(work, use[:-1], (*above, 1))

    first_possible(work, name, reduced)


def _bind_total(work: Derivation, path: Path, above: Path) -> None:
    """Bind a reduction to a let, unless it is the value of a let or the result, in loops and guards alone."""
    at = path
    while len(at) > len(above) and isinstance(work.term(at[:-1]), Gen | Guard):
        at = at[:-1]
    if at == above or (isinstance(work.term(at[:-1]), Let) and at[-1] == 0):
        return
    stage_at(work, path, above, "total", equals=True, guarded=False)
