"""Sparsification by rules alone: from the meaning of a sparse operand to loops over its entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from atl.checks.safety import safely_tested
from atl.core.dtypes import STORED
from atl.core.index import AnyAtom, Bound, Read, atoms
from atl.core.operations import NOT_ZERO_AT_ZERO, ZERO_AT_ZERO
from atl.core.predicate import conjunction, conjuncts, expressions
from atl.core.program import Program
from atl.core.terms import Access, Binary, Expr, Gen, Guard, Input, Let, Place, Reduce, Reshape, Unary
from atl.core.traversal import Path
from atl.errors import ATLError, Location
from atl.text.printing import place_of
from rewrites import kernel
from rewrites.cursors.cursor import Cursor, walk
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics.indices import simplify_conditions, simplify_indices
from rewrites.tactics.loops import WORD_OF
from rewrites.tactics.nests.guards import guard_to_bound, split_guard
from rewrites.tactics.simplification import OF_ACCESSES, simplify_guards
from rewrites.tactics.sparse.folds import fold_entries
from rewrites.tactics.sparse.functions import apply_functions, has_functions, is_guarded_sum, store_zeros
from rewrites.tactics.sparse.loop_elimination import (
    CannotEliminate,
    depends_on,
    eliminate_loop,
    fixed_below,
    hoist_matching_sums,
    solutions,
)
from rewrites.tactics.sparse.searches import eliminate_searches, note_searches

READ_RULES: Final = (*OF_ACCESSES, "place_access")
ONLY_SUMS: Final = "an operand within loops, sums, products, quotients and functions with f(0) = 0"
CONVERSIONS_OUT: Final = tuple(f"gen_cast_{dtype}" for dtype in STORED)
"""Rules that move conversions to types that are only stored out of loops: entries of such types cannot be added."""
GATHER_GUARDS: Final = ("guard_guard", "guard_mul_left", "guard_mul_right", "guard_div_left")
"""Rules that move conditions out of products."""


def sparsify(work: Derivation, *, bounds: bool = True) -> None:
    """Turn dense loops over decompressed operands into loops over their entries.

    Arithmetic on whole operands is done element by element. Reads of elements are reduced, conditions are gathered,
    sums leave products, and matching sums over entries are hoisted. Each loop whose index is determined by an equation
    moves inward to the equation and is eliminated; for a generation, the element is scattered. Raises `DoesNotApply`
    for a loop that is still dense, with the rules that a strict derivation refused. With `bounds`, conditions of loops
    within blocks become their bounds.
    """
    start = work.theorem
    try:
        _sparsify(work)
        if bounds:
            _bound_blocks(work)
    except DoesNotApply as error:
        if start.strict:
            _name_refused_rules(error, start.rhs, work)
        raise


def _name_refused_rules(error: DoesNotApply, start: Program, work: Derivation) -> None:
    """Add to the error of a strict derivation the rules that round, if the tactic succeeds with them."""
    loose = Derivation(kernel.reflexivity(start), work.rules)
    try:
        _sparsify(loose)
    except DoesNotApply:
        return
    names = [rule.name for rule in loose.theorem.rounding]
    if not names:
        return
    error.summary += f", because strict=True refuses {' and '.join(names)}, which round{'s' * (len(names) == 1)}"
    error.required = "rules that keep the bits of floats, because the derivation is strict"
    kept = "the kernel has the bits of the sparse goal"
    error.suggestions = (f"sparsify in a session without strict=True, then call s.compile(strict=True): {kept}",)


def _sparsify(work: Derivation) -> None:
    while _elementwise(work):
        work.repeat(work.known(READ_RULES))
    distinct = _apply_functions(work)
    work.repeat(work.known(CONVERSIONS_OUT))
    while work.repeat(work.known((*READ_RULES, *GATHER_GUARDS))) + _sums_out(work):
        pass
    _eliminate_level_sums(work)
    while _split_additions(work):
        pass
    _eliminate_level_sums(work)
    fold_entries(work)
    _guards_out(work)
    hoist_matching_sums(work)
    while any(
        _eliminated(work, cursor.path, within=False)
        for cursor in list(work.cursors(top_down=True))
        if _may_eliminate(cursor.term)
    ):
        pass
    simplify_guards(work)
    simplify_conditions(work, ())
    simplify_indices(work)
    _guards_out(work)
    eliminate_searches(work)
    _safe_first(work)
    _sums_into_places(work)
    _check_sparse(work, distinct=distinct)
    note_searches(work, distinct=distinct)


def _apply_functions(work: Derivation) -> bool:
    """Apply functions with f(0) = 0 to entries instead of sums of entries.

    Returns False if this is not possible because several entries may have the same coordinates.
    """
    work.repeat(work.known((*READ_RULES, "guard_guard")))
    if has_functions(work):
        _eliminate_level_sums(work, within=False)
        _guards_out(work)
        distinct = apply_functions(work)
        store_zeros(work)
        return distinct
    return True


# -- preparation ------------------------------------------------------------------------------------------------------


def _elementwise(work: Derivation) -> bool:
    """Expand the first arithmetic on a whole decompressed operand: x * y → ⊞[i < n] (x * y)[i]; reads move inward."""
    for cursor in work.cursors(top_down=True):
        term = cursor.term
        if not isinstance(term, Binary | Unary) or not term.type.rank or not _has_places(term):
            continue
        is_read = cursor.path and isinstance(work.term(cursor.path[:-1]), Access)
        if not is_read and work.attempt("gen_eta", cursor.path, reverse=True):
            return True
    return False


def _has_places(term: Expr) -> bool:
    """Return True for arithmetic on tensors, one of which is a sum of scattered elements."""
    match term:
        case Binary(_, left, right):
            return _has_places(left) or _has_places(right)
        case Unary(_, operand) | Reduce("sum", body=operand) | Guard(body=operand):
            return _has_places(operand)
        case Reshape(Place()):
            return True
        case _:
            return False


def _sums_out(work: Derivation) -> int:
    """Move sums out of products: (Σp [q] · a) * b → Σp ([q] · a) * b; (Σp [q] · a + c) * b is distributed."""
    before = work.taken
    for cursor in list(work.cursors()):
        path = cursor.path
        match work.term(path):
            case Binary("mul", left, _) if is_guarded_sum(left):
                work.attempt("sum_mul_right", path, reverse=True)
            case Binary("mul", _, right) if is_guarded_sum(right):
                work.attempt("sum_mul_left", path, reverse=True)
            case Binary("div", left, _) if is_guarded_sum(left):
                work.attempt("sum_div", path, reverse=True)
            case Unary("neg", operand) if is_guarded_sum(operand):
                work.attempt("sum_neg", path, reverse=True)
            case Unary("neg", Guard()):
                work.attempt("guard_neg", path, reverse=True)
            case Binary("mul", left, _) if _as_addition(work, (*path, 0), left):
                work.attempt("add_mul", path)
            case Binary("mul", _, right) if _as_addition(work, (*path, 1), right):
                work.attempt("mul_add", path)
            case Binary("div", left, _) if _as_addition(work, (*path, 0), left):
                work.attempt("add_div", path)
            case Unary("neg", operand) if _as_addition(work, (*path, 0), operand):
                work.attempt("neg_add", path)
            case _:
                pass
    return work.taken - before


def _as_addition(work: Derivation, path: Path, term: Expr) -> bool:
    """Return True if the term adds a sum of guarded terms to something; a difference is rewritten to an addition."""
    if not isinstance(term, Binary) or term.op not in ("add", "sub") or not _adds_guarded(term):
        return False
    return term.op == "add" or work.attempt("sub_neg", path)


def _adds_guarded(term: Expr) -> bool:
    match term:
        case Binary("add" | "sub", left, right):
            return _adds_guarded(left) or _adds_guarded(right)
        case _:
            return is_guarded_sum(term)


def _split_additions(work: Derivation) -> int:
    """Split loops over an addition if they can be eliminated in one part only.

    ⊞i (Σp [i = a] · b) + c → (⊞i Σp [i = a] · b) + ⊞i c, and likewise for sums. Of (a + b) + c the outer addition is
    moved out first.
    """
    before = work.taken
    for cursor in list(work.cursors()):
        match work.term(cursor.path):
            case Binary("add" | "sub" as op, left, right):
                for path in _loops_to_split(cursor, left, right):
                    rule = {Gen: "gen", Reduce: "sum", Guard: "guard"}[type(work.term(path))]
                    if not work.attempt(f"{rule}_{op}", path):
                        break
            case _:
                pass
    return work.taken - before


def _fixed_in_part(term: Expr, position: int) -> bool:
    """Return True if a condition in one of the added parts determines the index at a position."""
    match term:
        case Binary("add" | "sub", left, right):
            return _fixed_in_part(left, position) or _fixed_in_part(right, position)
        case _:
            return fixed_below(term, position)


def _loops_to_split(cursor: Cursor, left: Expr, right: Expr) -> list[Path]:
    """Return the nodes around an addition, inside out, up to the last loop whose index a part determines."""
    around: list[Path] = []
    wanted, position = 0, 0
    for above in reversed(cursor.spine()[:-1]):
        match above.term:
            case Gen() | Reduce("sum"):
                around.append(above.path)
                if _fixed_in_part(left, position) or _fixed_in_part(right, position):
                    wanted = len(around)
                position += 1
            case Guard():
                around.append(above.path)
            case _:
                break
    return around[:wanted]


# -- loop elimination -------------------------------------------------------------------------------------------------


def _eliminate_level_sums(work: Derivation, *, within: bool = True) -> None:
    """Eliminate the sums of the levels that only select an entry: Σ[i < n] [k = i] · e(i) → e(k).

    With `within`, only if k is proved to be within the range.
    """
    while any(
        _eliminated(work, cursor.path, within=within)
        for cursor in list(work.cursors())
        if isinstance(cursor.term, Reduce) and _may_eliminate(cursor.term)
    ):
        pass


def _may_eliminate(term: Expr) -> bool:
    match term:
        case Gen(body=body) | Reduce("sum", body=body):
            return fixed_below(body)
        case _:
            return False


def _eliminated(work: Derivation, path: Path, *, within: bool) -> bool:
    point = work.checkpoint
    try:
        eliminate_loop(work, path, within=within)
    except (CannotEliminate, ATLError):
        work.rollback(point)
        return False
    return True


# -- clean-up ---------------------------------------------------------------------------------------------------------


def _guards_out(work: Derivation) -> None:
    """Hoist conditions that do not depend on an entry: Σp [q ∧ r(p)] · e → [q] · Σp [r(p)] · e."""
    for cursor in list(work.cursors()):
        match work.term(cursor.path):
            case Reduce("sum", body=Guard(body=Guard())):
                work.rewrite("guard_guard", (*cursor.path, 0))
            case _:
                pass
        match work.term(cursor.path):
            case Reduce("sum", body=Guard(predicate)):
                out = [part for part in conjuncts(predicate) if not depends_on(0, *expressions(part))]
                if split_guard(work, (*cursor.path, 0), out):
                    work.rewrite("sum_guard", cursor.path, reverse=True)
            case _:
                pass


def _safe_first(work: Derivation) -> None:
    """Order conjuncts so that each read is safe when tested left to right.

    [0 <= crd[k] ∧ k < n] · e → [k < n ∧ 0 <= crd[k]] · e
    """
    for cursor in list(work.cursors()):
        if isinstance(cursor.term, Guard) and len(parts := conjuncts(cursor.term.predicate)) > 1:
            ordered = safely_tested(cursor.term.predicate, cursor.scope)
            if len(ordered) == len(parts) and tuple(ordered) != parts:
                work.attempt("guard_equivalent", cursor.path, q=conjunction(ordered))


def _bound_blocks(work: Derivation) -> None:
    """Turn conditions on coordinates of blocks into bounds of the loops within: Σ[q < 4] [4*crd[p] + q < n] · e.

    A condition is kept if its loop reads a dense tensor there: a padded tensor needs no condition, and a loop around of
    constant extent is vectorised together with further loops.
    """
    for path in [cursor.path for cursor in work.cursors()]:  # inner loops first
        cursor = work.cursor(path)
        match cursor.term:
            case Reduce("sum", low, high, Guard(predicate)) if (high - low).constant is not None:
                coordinates = any(isinstance(atom, Read) for e in expressions(predicate) for atom in atoms(e))
                if coordinates and not _reads_dense(work, cursor.child(0)):
                    guard_to_bound(work, path)
            case _:
                pass


def _reads_dense(work: Derivation, body: Cursor) -> bool:
    """Return whether a term reads a tensor other than the arrays of sparse operands by the index of the loop around."""
    packed = {name for operand in work.goal.packed for name in operand.arrays}
    variable = body.scope.indices[-1]

    def is_dense(at: Cursor) -> bool:
        match at.term:
            case Access(tensor, position):
                stored = isinstance(tensor, Input) and tensor.array.name in packed
                return not stored and variable.atom in tuple(atoms(at.scope.index(position)))
            case _:
                return False

    return any(map(is_dense, walk(body)))


def _sums_into_places(work: Derivation) -> None:
    """Move sums into scatters, so that the whole sum is stored once: Σp [q] · place n a e → place n a Σp [q] · e."""
    for cursor in list(work.cursors()):
        point = work.checkpoint
        term = work.term(cursor.path)
        if isinstance(term, Reduce) and term.monoid == "sum":
            if isinstance(term.body, Guard):
                work.attempt("place_of_guard", (*cursor.path, 0), reverse=True)
            if not work.attempt("place_of_sum", cursor.path, reverse=True):
                work.rollback(point)


def _check_sparse(work: Derivation, *, distinct: bool) -> None:
    """Raise `DoesNotApply`, with the reason, for a loop whose index is still compared with coordinates.

    If `distinct` is false, a function was not applied because several entries may have the same coordinates.
    """
    for cursor in work.cursors():
        if not isinstance(cursor.term, Guard):
            continue
        loops = [above for above in reversed(cursor.spine()[:-1]) if isinstance(above.term, Gen | Reduce)]
        for position, loop in enumerate(loops):
            if _leads(position, loops):
                continue
            if any(_is_entry(a, loops) for e in solutions(cursor.term.predicate, position) for a in atoms(e)):
                summary = f"the loop {loop.called[0]} is still dense: {_why(work, loop, cursor)}"
                place = place_of(work.goal, cursor.path)
                function = _function_of_sum(loop, cursor)
                if function:
                    raise _several_entries(loop, function, place)
                fold = next((each for each in map(_other_fold, (loop, *_between(loop, cursor))) if each), None)
                if fold:
                    raise _no_fold(work.goal.packed[-1].name, fold, summary, place)
                operand = work.goal.packed[-1]
                if distinct:
                    lets = [at.called[0] for at in _between(loop, cursor) if isinstance(at.term, Let)]
                    suggestions = how_to_move_let(lets[0]) if lets else _instead_of_extremum(operand.name, loop, cursor)
                    raise DoesNotApply(summary, place=place, required=ONLY_SUMS, suggestions=suggestions)
                rows = "CSR" if len(operand.shape) == 2 else "CSF"
                raise DoesNotApply(
                    summary,
                    place=place,
                    required=f"at most one entry for each element of {operand.name}, "
                    f"which {operand.format} does not declare",
                    suggestions=(f"sparsify({operand.name!r}, {rows}.sorted())",),
                )


def how_to_move_let(name: str) -> tuple[str, ...]:
    """Return the calls that move a let out of the loops over entries, as suggestions."""
    return (
        f"s.hoist({name!r}) before this call, which computes {name} for all iterations of the loop",
        f"s.inline({name!r}) before this call, which computes {name} for each entry",
    )


def _function_of_sum(loop: Cursor, guard: Cursor) -> str | None:
    """Return a function with f(0) = 0, or an extremum, around a sum that adds several entries to one element.

    A sum does so if its index is in no condition, as p in Σp Σp1 [j = crd[p1]] · e.
    """
    spine = _between(loop, guard)
    function: str | None = None
    for number, at in enumerate(spine):
        if isinstance(at.term, Unary) and at.term.op in NOT_ZERO_AT_ZERO:
            return None
        if isinstance(at.term, Unary | Binary) and at.term.op in (*ZERO_AT_ZERO, "min", "max") and at.term.op != "neg":
            function = function or at.term.op
        elif isinstance(at.term, Reduce) and function:
            position, fixed = 0, False
            for below in (*spine[number + 1 :], guard):
                if isinstance(below.term, Guard):
                    fixed |= depends_on(position, *expressions(below.term.predicate))
                position += isinstance(below.term, Gen | Reduce)
            if not fixed:
                return function
    return None


def _other_fold(at: Cursor) -> str | None:
    return at.term.monoid if isinstance(at.term, Reduce) and at.term.monoid != "sum" else None


def _no_fold(operand: str, fold: str, summary: str, place: Location) -> DoesNotApply:
    if fold not in ("min", "max"):
        return DoesNotApply(summary, place=place, required=ONLY_SUMS)
    return DoesNotApply(
        summary,
        place=place,
        required=f"a {fold} over the columns of a format with dense rows and at most one entry for each element",
        suggestions=(
            f"sparsify({operand!r}, CSR.sorted()) for a {fold} over the last dimension",
            f"sparsify({operand!r}, CSC.sorted()) for a {fold} over the first one of a matrix",
        ),
    )


def _several_entries(loop: Cursor, function: str, place: Location) -> DoesNotApply:
    return DoesNotApply(
        f"the loop {loop.called[0]} is still dense: several entries may be added to one element below {function}",
        place=place,
        required=f"at most one entry for each element to which {function} is applied",
        suggestions=(
            f"assemble the sum as CSR.sorted() or another sorted format, and apply {function} in a second kernel",
        ),
    )


def _instead_of_extremum(operand: str, loop: Cursor, guard: Cursor) -> tuple[str, ...]:
    """Return suggestions for entries inside an extremum of two operands: it may not be padding where one of them is."""
    for at in guard.spine()[len(loop.path) + 1 : -1]:
        match at.term:
            case Binary("min" | "max" as op):
                return (
                    f"pass a tensor with the {op} of both operands, computed before the call, and sparsify that tensor",
                    f"leave {operand} dense: omit sparsify({operand!r}, …)",
                )
            case _:
                pass
    return ()


def _leads(position: int, loops: Sequence[Cursor]) -> bool:
    """Return True if a loop's index is needed to find entries, as j in Σ[pos[j] <= p < pos[j + 1]]."""
    for further, inner in enumerate(loops[:position]):
        assert isinstance(inner.term, Gen | Reduce)
        read = (atom for e in (inner.term.low, inner.term.high) for atom in atoms(e) if isinstance(atom, Read))
        if any(depends_on(position - further - 1, *atom.indices) for atom in read):
            return True
    return False


def _is_entry(atom: AnyAtom, loops: Sequence[Cursor]) -> bool:
    """Return True for an atom that identifies an entry of an operand: a coordinate read, or the index of a sum."""
    return isinstance(atom, Read) or (isinstance(atom, Bound) and isinstance(loops[atom.position].term, Reduce))


def _between(loop: Cursor, guard: Cursor) -> Sequence[Cursor]:
    """Return the nodes between a loop and a guard inside it."""
    return guard.spine()[len(loop.path) + 1 : -1]


def _why(work: Derivation, loop: Cursor, guard: Cursor) -> str:
    if isinstance(loop.term, Reduce) and loop.term.monoid != "sum":
        return f"it is a {loop.term.monoid}, not a sum"
    for at in _between(loop, guard):
        match at.term:
            case Unary(op) | Binary(op):
                return f"entries are found below {op}, and a sum cannot be moved out of it"
            case Gen() | Guard() | Reshape(Place()):
                pass
            case Reshape(op):
                return f"entries are found below {WORD_OF[type(op)]}, and a sum cannot be moved out of it"
            case Reduce(monoid):
                if monoid != "sum":
                    return f"entries are found below a {monoid}, and a sum cannot be moved out of it"
            case _:
                return f"entries are found below {type(at.term).__name__.lower()}, and a sum cannot be moved out of it"
    point = work.checkpoint
    try:
        eliminate_loop(work, loop.path, within=False)
    except CannotEliminate as reason:
        return str(reason)
    except ATLError as error:
        return error.summary
    finally:
        work.rollback(point)
    return "it was not tried"
