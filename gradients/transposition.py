"""Transposition of tangents: a pairing Σ y · (tangent) moves inwards until it reads Σ (gradient) · dx.

The pairing of y and v is `rewrites.named_operators.pairing`. A term is *collected* if it is a chain of lets around a
sum of pairings with different variables: directions of inputs, and tangents of let-bound tensors. `Transposition.push`
turns a pairing with a tangent into a collected term, by one rule for each constructor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import assert_never

from atl.core import terms
from atl.core.index import bound, ceildiv, shift
from atl.core.substitution import free_positions, shift_term
from atl.core.terms import Expr
from atl.core.traversal import Path, children, subterms
from gradients.pairings import COTANGENT, Known, is_addition, is_read, no_step, operands_of, reads, too_many_dimensions
from gradients.recurrences import push_recurrence
from rewrites.derivation import Derivation
from rewrites.rule_arguments import Argument, Function
from rewrites.rule_statement import MAX_ELEMENT_RANK
from rewrites.tactics.storage.binding import bind


class Transposition:
    """Steps that transpose the pairings of one derivation."""

    def __init__(self, work: Derivation, directions: frozenset[str]) -> None:
        self.work = work
        self._directions = directions

    # -- pairings -----------------------------------------------------------------------------------------------------

    def push(self, path: Path, known: Known) -> None:
        """Collect the pairing with a tangent at a path."""
        work = self.work
        while True:
            y, v, rank = operands_of(self.work.term(path))
            if rank > MAX_ELEMENT_RANK:
                raise too_many_dimensions(rank)
            self._equalise_extents(path, v)
            match v:
                case terms.Input() | terms.Local():
                    return
                case _ if any(isinstance(each, terms.Reduce) for each in subterms(y)):
                    path, known = self._bind(path, known, rank)
                case terms.Padding():
                    self._adjoint("padding", path)
                    return
                case terms.Unary("neg") | terms.Binary("mul" | "div"):
                    self._adjoint(v.op, path)
                case terms.Reshape(op):
                    inside = (*path, *(0,) * rank, 1, *(0,) * rank)
                    word = op.form.word
                    if not work.attempt(f"adjoint_of_{word}", path) and not work.attempt(f"unfold_{word}", inside):
                        raise no_step(word)
                case terms.Access():
                    inside = (*path, *(0,) * rank, 1, *(0,) * rank)
                    if not work.attempt("adjoint_of_access", path) and not work.attempt("access_guard", inside):
                        raise no_step("access")
                case terms.Let(value):
                    self._push_let(path, known, value)
                    return
                case terms.Gen():
                    self._adjoint("gen", path)
                    self.push_below(path, known)
                    return
                case terms.Reduce() | terms.Guard() | terms.Select() | terms.Where() | terms.Concat() | terms.Binary():
                    if isinstance(v, terms.Guard) or is_read(y):
                        self._push_parts(path, known, v)
                        return
                    path, known = self._bind(path, known, rank)
                case terms.Rec():
                    if not isinstance(y, terms.Input | terms.Local):
                        path, known = self._bind(path, known, rank)
                    push_recurrence(self, path, known)
                    return
                case (
                    terms.Unary() | terms.Cast() | terms.Constant() | terms.Value() | terms.TensorVar()
                    | terms.Metavariable()
                ):  # fmt: skip
                    raise AssertionError(f"{type(v).__name__} is not linear")
                case _:
                    assert_never(v)

    def _equalise_extents(self, path: Path, v: Expr) -> None:
        """Write the extents of a pairing as the rules do, for its second operand.

        A program writes ⌈3 / n⌉ as 2 // n + 1 if n is positive, and the type of `split` is ⌈n / n⌉ = 1.
        """
        extents = v.type.shape
        if isinstance(v, terms.Reshape) and isinstance(v.op, terms.Split):
            extents = (ceildiv(v.operand.type.shape[0], v.op.by), *extents[1:])
        for depth, extent in enumerate(extents):
            at = (*path, *(0,) * depth)
            loop, wanted = self.work.term(at), shift(extent, depth)
            assert isinstance(loop, terms.Reduce)
            if loop.high != wanted:
                shifted = shift_term(loop, 1)
                assert isinstance(shifted, terms.Reduce)
                around = Function(("index",), replace(shifted, high=bound(0)))
                given: dict[str, Argument] = {"a": loop.high, "b": wanted, "e": around}
                self.work.attempted(self.work.rule("equal_index"), at, given, reverse=False)

    def _adjoint(self, word: str, path: Path) -> None:
        """Rewrite the pairing at a path by the rule for the constructor of this name."""
        if not self.work.attempt(f"adjoint_of_{word}", path):
            raise no_step(word)

    def _bind(self, path: Path, known: Known, rank: int) -> tuple[Path, Known]:
        """Bind the first operand of the pairing at a path. Return the place of the pairing."""
        bind(self.work, path, (*(0,) * rank, 0, *(0,) * rank), COTANGENT)
        return (*path, 1), (*known, False)

    def _push_parts(self, path: Path, known: Known, v: Expr) -> None:
        self._adjoint(_word(v), path)
        if isinstance(v, terms.Reduce | terms.Guard):
            self.push_below(path, known)
            return
        for position in (0, 1):
            part = (*path, position)
            if isinstance(v, terms.Select):
                self.push_below(part, known)
            else:
                self.push(part, known)
        self.add(path)

    def push_below(self, path: Path, known: Known) -> None:
        """Collect a sum or a guard around a pairing."""
        if self._move_let_out(path) or self._bind_read(path, known):
            self._collect_let(path, known, self.push_below)
            return
        self.push((*path, 0), known)
        self.move_out(path)

    def _move_let_out(self, path: Path) -> bool:
        """Move a let of a tangent out of the sum at a path, if the let does not depend on the sum's index."""
        work = self.work
        _, v, _ = operands_of(work.term((*path, 0)))
        if not (isinstance(v, terms.Let) and isinstance(work.term(path), terms.Reduce)):
            return False
        before = work.checkpoint
        if work.attempt("adjoint_of_let", (*path, 0)) and work.attempt("ll_sum_indep", path):
            return True
        work.rollback(before)
        return False

    def _bind_read(self, path: Path, known: Known) -> bool:
        """Bind a tangent outside of the sum at a path, if iterations read elements of it.

        Otherwise each iteration adds a whole tensor to the gradient.
        """
        loop = self.work.term(path)
        if not isinstance(loop, terms.Reduce):
            return False
        for inner, e in _read_inside(loop):
            if not is_read(e) and reads(e, self._directions, known):
                bind(self.work, path, inner, "t")
                return True
        return False

    def _push_let(self, path: Path, known: Known, value: Expr) -> None:
        if value.type.rank > MAX_ELEMENT_RANK:
            raise too_many_dimensions(value.type.rank)
        self._adjoint("let", path)
        self._collect_let(path, known, self.push)

    def _collect_let(self, path: Path, known: Known, push: Callable[[Path, Known], None]) -> None:
        """Collect a let around a pairing, or around a sum of pairings, which `push` collects."""
        work = self.work
        let = work.term(path)
        assert isinstance(let, terms.Let)
        is_tangent = reads(let.value, self._directions, known)
        push((*path, 1), (*known, is_tangent))
        if not is_tangent:
            return
        inside = self.below_lets((*path, 1))
        lets = len(inside) - len(path) - 1
        found = self.to_the_right(inside, lets)
        work.rewrite("unfold_let", path)
        inside = (*path, *(1,) * lets)
        if found:
            is_sum = is_addition(work.term(inside))
            self.push((*inside, 1) if is_sum else inside, (*known, *(False,) * lets))
            if is_sum:
                self.add(inside)

    # -- collected terms ----------------------------------------------------------------------------------------------

    def add(self, path: Path) -> None:
        """Collect the sum of two collected terms."""
        work = self.work
        for side in (0, 1):
            while isinstance(let := work.term((*path, side)), terms.Let):
                if not work.attempt(("ll_add_left", "ll_add_right")[side], path):
                    raise too_many_dimensions(let.value.type.rank)
                path = (*path, 1)
        self._join(path)

    def _join(self, path: Path) -> None:
        """Collect the sum of two sums of pairings."""
        work = self.work
        match work.term(path):
            case terms.Binary("add", terms.Padding(), _):
                work.rewrite("nothing_add", path)
            case terms.Binary("add", _, terms.Padding()):
                work.rewrite("add_nothing", path)
            case terms.Binary("add", _, terms.Binary("add")):
                work.rewrite("add_assoc", path, reverse=True)
                self._join((*path, 0))
                self._join(path)
            case terms.Binary("add", terms.Binary("add")):
                work.rewrite("add_assoc", path)
                if work.attempt("pairing_add", (*path, 1)):
                    return
                work.rewrite("add_comm", (*path, 1))
                work.rewrite("add_assoc", path, reverse=True)
                self._join((*path, 0))
            case _:
                work.attempt("pairing_add", path)

    def move_out(self, path: Path) -> None:
        """Collect a sum or a guard around a collected term."""
        work = self.work
        word = "guard" if isinstance(work.term(path), terms.Guard) else "sum"
        inside = self.below_lets((*path, 0))
        body = work.term(inside)
        if is_addition(body):
            while isinstance(work.term((*path, 0)), terms.Let):
                if not self._hoist(path, word):
                    self._duplicate_lets(path)
                    break
                path = (*path, 1)
            work.rewrite(f"{word}_add", path)
            self.move_out((*path, 0))
            self.move_out((*path, 1))
            self.add(path)
            return
        while len(inside) > len(path) + 1:
            inside = inside[:-1]
            if not work.attempt("let_unused", inside):
                work.rewrite("pairing_let", inside)
        work.rewrite(f"{word}_padding" if isinstance(body, terms.Padding) else f"pairing_{word}", path)

    def _hoist(self, path: Path, word: str) -> bool:
        """Move a let out of a sum or a guard; return whether it could be moved."""
        work = self.work
        if word == "guard":
            return work.attempt("ll_guarded", path)
        return work.attempt("ll_sum_indep", path) or work.attempt("ll_sum", path)

    def _duplicate_lets(self, path: Path) -> None:
        """Move the addition out of the lets below a path: each operand gets a copy of the lets."""
        inside = self.below_lets((*path, 0))
        while len(inside) > len(path) + 1:
            inside = inside[:-1]
            if not self.work.attempt("let_share_add", inside, reverse=True):
                raise too_many_dimensions(self.work.term((*inside, 0)).type.rank)

    def to_the_right(self, path: Path, position: int) -> bool:
        """Make the pairing with the tangent of a let the last one of a sum. Return whether there is one."""
        work = self.work
        e = work.term(path)
        if not is_addition(e):
            return self._is_with(path, position)
        if self._is_with((*path, 1), position):
            return True
        if not self.to_the_right((*path, 0), position):
            return False
        if is_addition(work.term((*path, 0))):
            work.rewrite("add_assoc", path)
            work.rewrite("add_comm", (*path, 1))
            work.rewrite("add_assoc", path, reverse=True)
        else:
            work.rewrite("add_comm", path)
        return True

    # -- queries ------------------------------------------------------------------------------------------------------

    def _is_with(self, path: Path, position: int) -> bool:
        if isinstance(self.work.term(path), terms.Padding):
            return False
        _, v, _ = operands_of(self.work.term(path))
        return isinstance(v, terms.Local) and v.position == position

    def below_lets(self, path: Path) -> Path:
        while isinstance(self.work.term(path), terms.Let):
            path = (*path, 1)
        return path


def _read_inside(e: Expr, path: Path = (), indices: int = 0, tensors: int = 0) -> Iterator[tuple[Path, Expr]]:
    """Yield the tensors of which a term reads elements under no condition, if no binder in it binds what they read."""
    for position, child in enumerate(children(e)):
        inner, crossed = indices + child.indices, tensors + child.tensors
        if isinstance(e, terms.Access) and not isinstance(child.expr, terms.Access):
            of_indices, of_tensors = free_positions(child.expr)
            if min(of_indices, default=inner) >= inner and min(of_tensors, default=crossed) >= crossed:
                yield (*path, position), shift_term(child.expr, -inner, -crossed)
        if not isinstance(e, terms.Guard | terms.Select):
            yield from _read_inside(child.expr, (*path, position), inner, crossed)


def _word(v: Expr) -> str:
    match v:
        case terms.Reduce():
            return v.monoid
        case terms.Binary():
            return v.op
        case _:
            return v.form.word
