"""Gathering: sums that scatter to computed positions become sums that read, for each element, what is added to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from atl.core.index import ONE, Bound, Index, Quotient, Read, atoms, bound, index
from atl.core.marks import LoopMark
from atl.core.predicate import NonNegative, Predicate, Zero, conjunction, conjuncts, within
from atl.core.terms import Access, Binary, Expr, Gen, Guard, Let, Place, Reduce, Reshape, Unary
from atl.core.traversal import Path, children, subterms
from atl.errors import ATLError, InvalidArgument, brief
from atl.text.printing import text_at
from rewrites.cursors.cursor import Cursor, binders, positions
from rewrites.derivation import Derivation
from rewrites.diagnostics import diagnostics, new_diagnostics
from rewrites.errors import DoesNotApply, known_names
from rewrites.tactics import arg
from rewrites.tactics.indices import simplify_conditions, simplify_indices
from rewrites.tactics.nests.guards import guard_to_bound, lift_guard, lift_guards, solve, split_extrema, used_positions
from rewrites.tactics.simplification import OF_ACCESSES, guard_reads, linear_in, simplify_guards
from rewrites.tactics.sparse.loop_elimination import CannotEliminate, eliminate_loop, fixed_below
from rewrites.tactics.tactic import tactic

_READS: Final = (*OF_ACCESSES, "place_access")
_OUT_OF: Final = (
    "ll_sum_indep", "ll_sum", "ll_gen_indep", "ll_gen", "ll_guard", "ll_place", "ll_add_left", "ll_add_right",
    "ll_sub_left", "ll_sub_right", "ll_neg",
)  # fmt: skip
"""Rules that move a let out of a sum of placed terms."""
_ELEMENT: Final = "q"
"""The name of the loops over the elements of a result, if no index is their position."""


@tactic
def gather(work: Derivation, *, keep: arg.SumNames = ()) -> None:
    """Turn scatters into gathers: each element of the result sums what the scatter adds to it.

    Σ[p < m] place n (a(p)) e(p)  →  ⊞[q < n] [0 <= b(q) < m] · e(b(q)), where p = b(q) is the solution of a(p) = q

    Where several sums could be solved for, as in q = p + r, those of constant extent remain, and of the others the
    inner ones; `keep` names sums that remain. Lets are bound outside of these sums first. A scatter to positions that
    are data, as of an embedding, remains, and a note says so. If these are sorted (`monotonic=`) and the terms are
    numbers, its loop is marked `runs`: terms with equal positions are added first. Raises `DoesNotApply` if no scatter
    can be gathered, and `InvalidArgument` if `keep` names no sum.

    >>> s = reschedule(atl.parse("f (w : float32[3], d : float32[n]) : float32[n + 2] := "
    ...     "Σ[i < n] Σ[r < 3] place (n + 2) (i + r) (w[r] * d[i])"))
    >>> s.gather()
    f (w : float32[3], d : float32[n]) : float32[n + 2] :=
      ⊞[q < n + 2] Σ[r < 3] [r <= q < r + n] · w[r] * d[q - r]
    """
    kept = _checked(work, keep)
    before = work.checkpoint
    remaining = dict[Path, str]()
    gathered, blocking = False, diagnostics(work.goal)
    _sums_into_data_places(work)
    while (path := next((each for each in _scatters(work, (), remaining) if each not in remaining), None)) is not None:
        point = work.checkpoint
        try:
            _Scatter(work, path, kept).gather()
            if made := new_diagnostics(blocking, diagnostics(work.goal)):
                raise _Remains(f"as a formula for each element it would not compile: {made[0].summary}")
            gathered = True
        except (_Remains, ATLError) as error:
            work.rollback(point)
            remaining[path] = error.summary if isinstance(error, ATLError) else str(error)
    reasons = list(dict.fromkeys(remaining.values()))
    for path in remaining:
        gathered |= _marked_as_runs(work, path)
    if not gathered:
        work.rollback(before)
        raise DoesNotApply(
            reasons[0] if reasons else "the goal has no placed terms",
            required="a sum of placed terms whose positions determine its index: Σ[p < m] place n (p + 1) x[p]",
        )
    work.notes.extend(f"a scatter remains: {why}" for why in reasons)


class _Remains(Exception):
    """The reason why a scatter cannot become a gather."""


def _checked(work: Derivation, keep: object) -> frozenset[str]:
    """Return the names of the sums to keep. Raises `InvalidArgument` if the goal has no sum of a name."""
    names: tuple[object, ...] = tuple(keep) if isinstance(keep, Sequence) and not isinstance(keep, str) else (keep,)
    known = [cursor.term.name for cursor in binders(work.goal) if isinstance(cursor.term, Reduce)]
    for name in names:
        if name not in known:
            raise InvalidArgument(
                f"keep={brief(name)} does not name a sum", required=f"names of sums of the goal: {known_names(known)}"
            )
    return frozenset(map(str, names))


# -- scatters ---------------------------------------------------------------------------------------------------------


def _scatters(work: Derivation, path: Path, remaining: dict[Path, str]) -> Iterator[Path]:
    """Yield the outermost scatters; those whose positions are data are put into `remaining`, with this reason."""
    term = work.term(path)
    if not any(isinstance(each, Reshape) and isinstance(each.op, Place) for each in subterms(term)):
        return
    if (data := _data_place(work, path)) is not None:
        remaining[data] = f"the positions of {text_at(work.goal, data)} are data"
        yield from _scatters(work, (*data, 0), remaining)
    elif _may_gather(term) and not isinstance(term, Gen):
        yield path
    else:
        for position in positions(term):
            yield from _scatters(work, (*path, position), remaining)


def _may_gather(term: Expr) -> bool:
    """Return True for placed terms at computed positions, and for sums, additions and generations of them."""
    match term:
        case Reshape(Place(at=at)):
            return not _is_data(at)
        case Gen(body=body) | Reduce("sum", body=body) | Guard(_, body) | Let(_, body) | Unary("neg", body):
            return bool(term.type.rank) and _may_gather(body)
        case Binary("add" | "sub", left, right):
            return _may_gather(left) and _may_gather(right)
        case _:
            return False


def _is_data(position: Index) -> bool:
    return any(isinstance(atom, Read) for atom in atoms(position))


def _data_place(work: Derivation, path: Path) -> Path | None:
    """Return the path of the placed term below sums and guards, if its position is read from a tensor."""
    match work.term(path):
        case Reduce("sum") | Guard():
            return _data_place(work, (*path, 0))
        case Reshape(Place(at=at)) if _is_data(at):
            return path
        case _:
            return None


def _marked_as_runs(work: Derivation, path: Path) -> bool:
    """Mark the loop around a placed number as segmented reduction if its positions are sorted; return whether it is."""
    term, loop = work.term(path), path[:-1]
    if not (path and isinstance(term, Reshape) and isinstance(term.op, Place) and not term.operand.type.rank):
        return False
    read = next((each for each in atoms(term.op.at) if isinstance(each, Read)), None)
    if read is None or term.op.at != index(read) or not read.array.monotonic or read.indices != (bound(0),):
        return False
    if not isinstance(work.term(loop), Reduce):
        return False
    work.mark(loop, LoopMark.RUNS)
    return True


def _sums_into_data_places(work: Derivation) -> None:
    """Move sums into placed terms whose position is data: Σj [p] · place n t[i] e → place n t[i] Σj [p] · e."""
    for cursor in list(work.cursors()):
        if isinstance(cursor.term, Reduce) and _data_place(work, cursor.path) is not None:
            lift_guard(work, cursor.path)
            path = (*cursor.path, 0) if isinstance(work.term(cursor.path), Guard) else cursor.path
            point = work.checkpoint
            if isinstance(work.term((*path, 0)), Guard):
                work.attempt("place_of_guard", (*path, 0), reverse=True)
            if not work.attempt("place_of_sum", path, reverse=True):
                work.rollback(point)


def _names(term: Expr, around: tuple[str, ...]) -> tuple[str, ...]:
    """Return names for the loops over the elements of a scatter: of the indices that are positions, `q` for others.

    `around` are the names of the indices in scope, outermost first.
    """
    match term:
        case Reshape(Place(at=at), operand):
            inner = _names(operand, around)
            if isinstance(at.atom, Bound) and at.atom.position < len(around):
                return (around[~at.atom.position], *inner)
            return (_ELEMENT, *inner)
        case Gen(body=body, name=name):
            return (name, *_names(body, (*around, name)))
        case Reduce(body=body, name=name):
            return _names(body, (*around, name))
        case Guard(_, body) | Let(_, body) | Unary("neg", body) | Binary("add" | "sub", body, _):
            return _names(body, around)
        case _:
            return (_ELEMENT,) * term.type.rank


# -- one scatter ------------------------------------------------------------------------------------------------------


class _Scatter:
    """A scatter at a path, which becomes a gather."""

    def __init__(self, work: Derivation, path: Path, kept: frozenset[str]) -> None:
        self.work, self.path, self.kept = work, path, kept
        self.rank = self.depth = 0

    def gather(self) -> None:
        """Rewrite the scatter. Raises `_Remains` if positions do not determine enough indices."""
        work = self.work
        while work.sweep(_OUT_OF, self.path, where=self._binds_inside):
            pass
        while isinstance(work.term(self.path), Let):
            self.path = (*self.path, 1)
        self._by_elements()
        while work.sweep(work.known(_READS), self.path, where=self._reads_element):
            pass
        for cursor in work.cursors(self.path):
            if isinstance(cursor.term, Access) and _may_gather(cursor.term.tensor):
                raise _Remains(f"the rules for sums and placed terms do not apply to {text_at(work.goal, cursor.path)}")
        while self._solved_for_one():
            pass
        self._check()
        simplify_guards(work, self.path)
        simplify_conditions(work, self.path)
        simplify_indices(work, self.path)
        self._bounds()
        guard_reads(work, self.path)

    def _binds_inside(self, path: Path) -> bool:
        """Return whether an operand of a sum of placed terms is a let around a tensor."""
        term = self.work.term(path)
        inside = (child.expr for child in children(term))
        return _may_gather(term) and any(isinstance(each, Let) and each.type.rank > 0 for each in inside)

    def _by_elements(self) -> None:
        """Write the tensor as generations of its elements: v → ⊞[q < n] v[q]."""
        path = self.path
        self.rank = self.work.term(path).type.rank
        self.depth = len(self.work.cursor(path).scope.indices)
        for name in _names(self.work.term(path), ()):
            self.work.rewrite("gen_eta", path, reverse=True, n=self.work.term(path).type.shape[0])
            self.work.rename(path, name)
            path = (*path, 0)

    def _reads_element(self, path: Path) -> bool:
        """Return whether a term reads at the index of a loop over the elements."""
        cursor = self.work.cursor(path)
        if not isinstance(cursor.term, Access):
            return False
        at = cursor.term.index.atom
        return isinstance(at, Bound) and self._is_of_element(cursor, at.position)

    def _is_of_element(self, cursor: Cursor, position: int) -> bool:
        """Return whether the index at a de Bruijn position is that of a loop over the elements."""
        depth = len(cursor.scope.indices) - 1 - position
        return self.depth <= depth < self.depth + self.rank

    def _solved_for_one(self) -> bool:
        """Eliminate one sum whose index the position of an element determines."""
        work = self.work
        work.sweep(["sum_add", "sum_sub"], self.path, where=self._splits)
        work.repeat(["guard_guard"], self.path)
        lift_guards(work, self.path)
        self._solve_quotients()
        for cursor in self._candidates():
            point = work.checkpoint
            try:
                eliminate_loop(work, cursor.path, within=False)
            except (CannotEliminate, ATLError):
                work.rollback(point)
            else:
                return True
        return False

    def _solve_quotients(self) -> None:
        """Solve conditions on quotients: [q = p // k] → [k*q <= p < k*q + k]."""
        for cursor in list(self.work.cursors(self.path)):
            if isinstance(cursor.term, Guard):
                parts = conjuncts(cursor.term.predicate)
                solved = conjunction(_without_quotient(part) for part in parts)
                if solved != cursor.term.predicate:
                    self.work.attempt("guard_equivalent", cursor.path, q=solved)

    def _splits(self, path: Path) -> bool:
        """Return whether a sum adds terms of which one determines its index."""
        match self.work.term(path):
            case Reduce("sum", body=Binary("add" | "sub", left, right)):
                return fixed_below(left) or fixed_below(right)
            case _:
                return False

    def _candidates(self) -> list[Cursor]:
        """Return the sums to solve for: those of symbolic extent first, then larger ones, outer ones first."""
        found = [
            cursor
            for cursor in self.work.cursors(self.path, top_down=True)
            if isinstance(cursor.term, Reduce) and cursor.term.name not in self.kept and fixed_below(cursor.term.body)
            if not cursor.term.type.rank and cursor.term.monoid == "sum"
        ]
        return sorted(found, key=_solved_first)

    def _check(self) -> None:
        """Raise `_Remains` if an element would be compared with the positions of all terms of a sum."""
        for cursor in self.work.cursors(self.path):
            if not isinstance(cursor.term, Guard):
                continue
            loops = _loops(cursor)
            for part in conjuncts(cursor.term.predicate):
                used = used_positions(part) if isinstance(part, Zero) else set()
                sums = [loops[position] for position in sorted(used) if isinstance(loops[position], Reduce)]
                if sums and any(self._is_of_element(cursor, position) for position in used):
                    names = [each.name for each in sums if isinstance(each, Reduce)]
                    kept = ", which keep= excludes" if self.kept.issuperset(names) else ""
                    compared = text_at(self.work.goal, cursor.path)
                    raise _Remains(f"no equation determines {' or '.join(names)}{kept}, in {compared}")

    def _bounds(self) -> None:
        """Turn guards into bounds of the sums that remain, where this reduces their iterations.

        A guard that may exclude terms at both ends of a range, as in [r <= q < r + n], is a border, and stays.
        """
        for cursor in list(self.work.cursors(self.path)):
            if self._is_narrow(cursor):
                lift_guards(self.work, (*cursor.path, 0))
                guard_to_bound(self.work, cursor.path)
        self.work.sweep(["sum_one"], self.path)

    def _is_narrow(self, cursor: Cursor) -> bool:
        """Return whether a guard limits a sum at one end, or to a number of terms other than an extent."""
        term = cursor.term
        if not (isinstance(term, Reduce) and term.monoid == "sum" and isinstance(term.body, Guard)):
            return False
        inner = cursor.child(0)
        facts, variable = inner.scope.facts, inner.scope.indices[-1]
        parts = [part for part in split_extrema(term.body.predicate) if isinstance(part, NonNegative)]
        opened = [inner.scope.predicate(part) for part in parts]
        if any(True for part in opened for _ in solve(facts, part, variable, steep=True)):
            return True
        limits = [limit for part in opened for limit in solve(facts, part, variable)]
        lows, highs = ([limit.at for limit in limits if limit.ends is ends] for ends in (False, True))
        if not (lows and highs):
            return bool(limits)
        return term.name in self.kept or any((high - low).constant is not None for low in lows for high in highs)


def _loops(cursor: Cursor) -> list[Expr]:
    """Return the terms that bind the indices in scope at a place, by de Bruijn position."""
    found: list[Expr] = []
    for above, below in pairwise(cursor.spine()):
        found += [above.term] * (len(below.scope.indices) - len(above.scope.indices))
    return found[::-1]


def _without_quotient(part: Predicate) -> Predicate:
    """Return a condition v = p // k as k*v <= p < k*v + k, and others as they are."""
    if isinstance(part, Zero):
        for atom in atoms(part.expression):
            if isinstance(atom, Quotient):
                for factor, rest in linear_in(part, index(atom)):
                    if factor == ONE:
                        low = -rest * atom.denominator
                        return within(low, atom.numerator, low + atom.denominator)
    return part


def _solved_first(cursor: Cursor) -> tuple[bool, int]:
    assert isinstance(cursor.term, Reduce)
    extent = (cursor.term.high - cursor.term.low).constant
    return (False, 0) if extent is None else (True, -extent)
