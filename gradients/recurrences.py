"""Transposition of recurrences: the pairing of y with the rows R of a recurrence that is linear in its earlier rows.

The rows l of the recurrence in reverse order are y + C(l), where C(l) collects what each row contributes to the
cotangents of the rows before it. So y is l - C(l), and in its pairing with R the contributions cancel:

    Σ y · R  =  Σ l · R - Σ C(l) · R  =  Σ l · (row of R) - Σ C(l) · R  =  Σ l · (terms of the row without R)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

from atl.core import terms
from atl.core.index import Var, index, shift
from atl.core.predicate import within
from atl.core.substitution import close, close_tensor, fresh_uid, instantiate, instantiate_tensor, shift_term
from atl.core.terms import Expr, TensorVar, rows_before
from atl.core.traversal import Path
from atl.errors import ATLError
from atl.surface.values import Tensor
from gradients.pairings import COTANGENT, Known, is_addition, no_step, operands_of
from rewrites.derivation import Derivation
from rewrites.egraph.equality import replace_at
from rewrites.kernel import reflexivity, symmetry
from rewrites.named_operators import pairing
from rewrites.tactics.indices import simplify_indices
from rewrites.tactics.nests.guards import guard_to_bound, lift_guards
from rewrites.tactics.simplification import OF_ACCESSES, simplify_guards
from rewrites.tactics.sparse.loop_elimination import CannotEliminate, eliminate_loop, fixed_below
from rewrites.tactics.storage.binding import bind

_READS: Final = [*OF_ACCESSES, "place_access"]


class Transposition(Protocol):
    """The steps of `gradients.transposition.Transposition` that a recurrence needs."""

    work: Derivation

    def push(self, path: Path, known: Known) -> None: ...
    def push_below(self, path: Path, known: Known) -> None: ...
    def move_out(self, path: Path) -> None: ...
    def add(self, path: Path) -> None: ...
    def below_lets(self, path: Path) -> Path: ...
    def to_the_right(self, path: Path, position: int) -> bool: ...


@dataclass(frozen=True)
class Rows:
    """The pairing of a recurrence, at a path: Σ of the first rows + Σ of the other terms + contributions to rows.

    `first` and `others` are paths, if there are such terms. `part` is the contribution of row q to the rows before it,
    a term of the index q and the cotangent of row q, or None.
    """

    first: Path | None
    others: Path | None
    part: Expr | None


def push_recurrence(t: Transposition, path: Path, known: Known) -> None:
    """Collect the pairing at a path of a tensor that is read and a recurrence."""
    work = t.work
    y, v, _ = operands_of(work.term(path))
    assert isinstance(v, terms.Rec)
    before = work.checkpoint
    rows = _by_rows(t, path, known)
    if rows.part is not None:
        work.rollback(before)
        _introduce_cotangents(work, path, y, v, rows.part)
        work.repeat(_READS, (*path, 0, 1, 0))
        _collapse(work, (*path, 0, 1, 1))
        path, known = (*path, 1), (*known, False)
        work.rewrite("pairing_add", path, reverse=True)
        rows = _by_rows(t, (*path, 0), known)
        rows = _without_contributions(work, path, rows, v.type.rank)
    _collect(t, path, known, rows)


def _collect(t: Transposition, path: Path, known: Known, rows: Rows) -> None:
    for part in (rows.others, rows.first):
        if part == rows.others and part is not None:
            t.move_out(part)
        elif part is not None:
            t.push_below(part, known)
    if rows.first is not None and rows.others is not None:
        t.add(path)


def _by_rows(t: Transposition, path: Path, known: Known) -> Rows:
    """Take the steps from Σ y · R to the sum of what its rows are paired with."""
    work = t.work
    _, v, rank = operands_of(work.term(path))
    assert isinstance(v, terms.Rec)
    inner = (0,) * (rank - 1)
    _by_elements(work, (*path, *(0,) * rank, 1, *(0,) * rank))
    work.rewrite("adjoint_of_gen", path)
    later, first = path, None
    if v.low != index(0):
        work.rewrite("split_sum", path, k=v.low)
        first, later = (*path, 0), (*path, 1)
        work.rewrite("rec_get_first", (*first, 0, *inner, 1, *inner))
        work.repeat(OF_ACCESSES, (*first, 0, *inner, 1, *inner))
        work.attempt("get_gen", (*first, 0, *inner, 0, *inner))
    row = (*later, 0)
    work.attempt("get_gen", (*row, *inner, 0, *inner))
    bind(work, row, (*inner, 0, *inner), COTANGENT)
    read = (*row, 1, *inner, 1, *inner)
    work.rewrite("rec_get", read)
    _by_elements(work, (*read, 0))
    work.rewrite("rec_truncate", (*read, 0, 0), m=shift(v.high, rank + 1))
    work.rewrite("adjoint_of_let", (*row, 1))
    t.push((*row, 1, 1), (*known, False, True))
    others, part = _separated(t, later)
    return Rows(first, others, part)


def _separated(t: Transposition, later: Path) -> tuple[Path | None, Expr | None]:
    """Divide Σ (terms of a row + the pairing with the rows before) into two sums.

    Returns the path of the first sum, and the first operand of the pairing in the second one.
    """
    work = t.work
    row = (*later, 0)
    base = (*row, 1, 1)
    inside = t.below_lets(base)
    lets = len(inside) - len(base)
    if not t.to_the_right(inside, lets):
        work.rewrite("unfold_let", (*row, 1))
        return later, None
    both = is_addition(work.term(inside))
    if both:
        for length in range(len(inside) - 1, len(base) - 1, -1):
            work.rewrite("let_share_add", inside[:length], reverse=True)
    side: Path = (1,) if both else ()
    for depth in range(lets - 1, -1, -1):
        _into_pairing(work, (*base, *side, *(1,) * depth))
    work.rewrite("unfold_let", (*row, 1))
    if both:
        work.rewrite("let_share_add", row, reverse=True)
    _into_pairing(work, (*row, *side))
    part, _, _ = operands_of(work.term((*row, *side)))
    if both:
        work.rewrite("sum_add", later)
    _scatter_rows(work, (*later, *side))
    return (*later, 0) if both else None, part.body if isinstance(part, terms.Let) else shift_term(part, 0, 1)


def _into_pairing(work: Derivation, path: Path) -> None:
    """Move a let into the first operand of the pairing in it."""
    if not work.attempt("let_unused", path):
        work.rewrite("pairing_let", path)


def _scatter_rows(work: Derivation, path: Path) -> None:
    """Turn Σ_q (the pairing of a term with the rows before q) into a pairing with all rows."""
    work.rewrite("adjoint_of_gen", (*path, 0))
    if not work.attempt("adjoint_of_access", (*path, 0, 0)):
        raise no_step("rec")
    work.rewrite("pairing_sum", (*path, 0))
    work.rewrite("pairing_sum", path)


def _introduce_cotangents(work: Derivation, path: Path, y: Expr, v: terms.Rec, part: Expr) -> None:
    """Replace y by let l := the recurrence of the cotangents in l - (their contributions to rows before)."""
    cotangents = _cotangents(y, v, part)
    bound = TensorVar(next(fresh_uid), COTANGENT, cotangents.type)
    difference = terms.Binary("add", _reversed(bound, v), terms.Unary("neg", _contributions(bound, v, part)))
    paired = pairing(Tensor(difference), Tensor(v)).node
    whole = terms.Let(cotangents, close_tensor(paired, bound), COTANGENT)
    other = Derivation(reflexivity(replace(work.goal, body=replace_at(work.goal.body, path, whole))), work.rules)
    rank = v.type.rank
    other.rewrite("unfold_let", path)
    side = (*path, *(0,) * rank, 0, *(0,) * rank)
    row = (*side, 0, 0)
    other.rewrite("rec_get", row)
    _by_elements(other, (*row, 0))
    other.rewrite("rec_truncate", (*row, 0, 0), m=shift(v.high, rank + 2))
    other.rewrite("unfold_let", row)
    _by_elements(other, (*side, 1, 0))
    element = (*side, 1, 0, 0)
    other.rewrite("get_sum", element)
    other.rewrite("get_sum", (*element, 0))
    other.rewrite("place_access", (*element, 0, 0))
    other.rewrite("sum_delta_only", (*element, 0))
    if other.attempt("ll_get", (*element, 0, 0)):
        other.rewrite("unfold_let", (*element, 0, 0))
    other.repeat(["get_gen"], side)
    other.rewrite("gen_add", (*side, 0))
    other.rewrite("gen_eta", (*side, 0, 0))
    other.rewrite("add_assoc", side)
    other.rewrite("sub_neg", (*side, 1), reverse=True)
    other.rewrite("sub_self", (*side, 1))
    other.rewrite("add_nothing", side)
    work.follow(symmetry(other.theorem))


def _cotangents(y: Expr, v: terms.Rec, part: Expr) -> terms.Rec:
    """Return the cotangents of rows, the last row first: each row of y with the contributions of later rows."""
    s, q = Var(next(fresh_uid), "s"), Var(next(fresh_uid), v.name)
    none = terms.Padding(terms.Type(v.type.dtype, (index(0), *v.type.shape[1:])))
    rows = TensorVar(next(fresh_uid), COTANGENT, rows_before(none.type, index(s)))
    at = v.high - 1 - index(s)
    of_row = terms.Access(_of_row(part, rows, v, q), at)
    guarded = terms.Guard(within(index(0), at, index(q)), of_row)
    later = terms.Reduce("sum", v.low, v.high, close(guarded, q), v.name)
    row = terms.Binary("add", terms.Access(y, at), later)
    return terms.Rec(index(0), v.high, none, close(close_tensor(row, rows), s), "s", COTANGENT)


def _contributions(cotangents: TensorVar, v: terms.Rec, part: Expr) -> Expr:
    """Return what the cotangents of rows contribute to those of the rows before them."""
    q, k = Var(next(fresh_uid), v.name), Var(next(fresh_uid), "k")
    own = terms.Access(cotangents, v.high - 1 - index(q))
    bound = terms.Let(own, instantiate(part, index(q)), COTANGENT)
    placed = terms.Reshape(terms.Place(v.high, index(k)), terms.Access(bound, index(k)))
    inner = terms.Reduce("sum", index(0), index(q), close(placed, k), k.name)
    return terms.Reduce("sum", v.low, v.high, close(inner, q), v.name)


def _collapse(work: Derivation, path: Path) -> None:
    """Replace sums over later rows by the rows whose positions are known, as far as possible."""
    work.repeat(_READS, path)
    while work.sweep(["guard_add", "sum_add"], path) + work.sweep(["let_share_add"], path, reverse=True):
        pass
    while any(_eliminated(work, cursor.path) for cursor in work.cursors(path, top_down=True)):
        pass
    simplify_guards(work, path)
    simplify_indices(work, path)
    for cursor in list(work.cursors(path)):
        if isinstance(cursor.term, terms.Reduce):
            guard_to_bound(work, cursor.path)
    simplify_guards(work, path)
    while work.sweep(["guard_add", "sum_add"], path, reverse=True) + work.sweep(["let_share_add"], path):
        pass


def _eliminated(work: Derivation, path: Path) -> bool:
    """Eliminate the sum at a path if a condition determines its index. Return whether it does."""
    before = work.checkpoint
    if isinstance(loop := work.term(path), terms.Reduce) and loop.monoid == "sum":
        lift_guards(work, (*path, 0))
        if fixed_below(work.term((*path, 0))):
            try:
                eliminate_loop(work, path, within=False)
            except (CannotEliminate, ATLError):
                pass
            else:
                return True
        work.rollback(before)
    return False


def _reversed(cotangents: TensorVar, v: terms.Rec) -> Expr:
    q = Var(next(fresh_uid), v.name)
    return terms.Gen(index(0), v.high, close(terms.Access(cotangents, v.high - 1 - index(q)), q), v.name)


def _of_row(part: Expr, cotangents: TensorVar, v: terms.Rec, q: Var) -> Expr:
    """Return the contribution of row q, for these cotangents."""
    return instantiate_tensor(instantiate(part, index(q)), terms.Access(cotangents, v.high - 1 - index(q)))


def _without_contributions(work: Derivation, path: Path, rows: Rows, rank: int) -> Rows:
    """Remove the contributions to rows, which cancel, from the sum of what rows are paired with and its negation."""
    at = path
    for part in (rows.first, rows.others):
        if part is not None:
            work.rewrite("add_assoc", at)
            at = (*at, 1)
    work.rewrite("pairing_add", at)
    side = (*at, *(0,) * rank, 0, *(0,) * rank)
    work.rewrite("sub_neg", side, reverse=True)
    work.rewrite("sub_self", side)
    work.repeat(["padding_access"], at)
    while not isinstance(work.term(at), terms.Padding):
        inner = at
        while isinstance(work.term(inner), terms.Reduce) and not isinstance(work.term((*inner, 0)), terms.Padding):
            inner = (*inner, 0)
        if isinstance(work.term(inner), terms.Reduce):
            work.rewrite("sum_padding", inner)
        else:
            work.rewrite("mul_comm", inner)
            work.rewrite("mul_padding", inner)
    while len(at) > len(path):
        at = at[:-1]
        work.attempt("add_nothing", at)
    first = None if rows.first is None else (*path, 0) if rows.others is not None else path
    others = None if rows.others is None else (*path, 1) if rows.first is not None else path
    return Rows(first, others, rows.part)


def _by_elements(work: Derivation, path: Path) -> None:
    """Write a tensor as the generation of its elements."""
    work.rewrite("gen_eta", path, reverse=True, n=work.term(path).type.shape[0])
