"""Proofs that every element of a tensor is stored, so that its buffer need not be cleared first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import assert_never

from atl.checks.scope import Scope, reads
from atl.core import terms
from atl.core.index import ZERO, Bound, Index, Var, atoms, index
from atl.core.predicate import FALSE, Predicate, at_most, expressions, less, within
from atl.core.reshape_definitions import Positions, origin
from atl.core.substitution import map_op
from atl.core.traversal import amounts, divisors
from atl.prove import holds
from lowering.nest.loopnest import Accumulate, Block, Buffer, Cell, statements
from lowering.normalize import unconverted

_FIRST = 1 << 20
"""First id of the index variables of elements: above the ids of any scope, and the same in each analysis of a term."""


def fills(
    e: terms.Expr,
    scope: Scope,
    buffer: Buffer,
    stores: Block,
    *,
    added_after: int,
    sums_stored: bool,
    zeros: bool = False,
) -> bool:
    """Return whether `stores`, the lowering of the normalised term, is proved to assign every element before adding.

    This requires that no element of the term is padding, and that no statement adds to a cell that is not yet assigned.
    An addition of tensors is lowered to a statement that assigns and a later one that adds. `added_after` is the number
    of the latter; any further addition to the buffer fails the check.

    With `sums_stored`, all sums to a scalar ran in scalar variables, and are stored even if they are empty. With
    `zeros`, zeros are stored where a guard is false, and the term `is_filled_by_zeros`.
    """
    if additions(buffer, stores) > added_after:
        return False
    if zeros and sums_stored:
        return True  # proved by `is_filled_by_zeros`
    return _all_stored(e, scope, sums_stored=sums_stored, zeros=zeros)


def is_filled_by_zeros(e: terms.Expr, scope: Scope) -> bool:
    """Return whether storing zeros where guards are false makes all elements stored, and is necessary for that.

    Terms with truncations do not qualify: there would be no place for the zeros that are cut off.
    """
    if not _has_guards_only(e):
        return False
    return not _all_stored(e, scope, sums_stored=True) and _all_stored(e, scope, sums_stored=True, zeros=True)


def _has_guards_only(e: terms.Expr) -> bool:
    """Return whether a term consists of generations, guards, lets over scalars, and reshapes that keep all elements."""
    e = unconverted(e)
    match e:
        case terms.Gen(_, _, body) | terms.Let(_, body):
            return _has_guards_only(body)
        case terms.Guard(_, body):
            return _has_guards_only(body) and not (e.type.rank and _has_partial_extents(body))
        case terms.Rec(_, _, init, body):
            return _has_guards_only(init) and _has_guards_only(body)
        case terms.Concat(left, right):
            return _has_guards_only(left) and _has_guards_only(right)
        case terms.Reshape(terms.PadLeft() | terms.PadRight() | terms.Transpose() | terms.Flatten(), operand):
            return _has_guards_only(operand)
        case terms.Reshape() | terms.Padding() | terms.Named():
            return not e.type.rank
        case terms.Number() | terms.Access() | terms.Elementwise() | terms.Select() | terms.Reduce():
            return not e.type.rank
        case _:
            assert_never(e)


def has_guards_of_rows(e: terms.Expr) -> bool:
    """Return whether the guards of such a term do not depend on its last index, and so guard whole rows."""
    e = unconverted(e)
    match e:
        case terms.Gen(_, _, body) | terms.Let(_, body):
            return has_guards_of_rows(body)
        case terms.Guard(predicate, body):
            tested = (atom for part in expressions(predicate) for atom in atoms(part))
            return has_guards_of_rows(body) and (bool(e.type.rank) or not any(atom == Bound(0) for atom in tested))
        case terms.Concat(left, right) | terms.Rec(init=left, body=right):
            return has_guards_of_rows(left) and has_guards_of_rows(right)
        case terms.Reshape(_, operand):
            return has_guards_of_rows(operand)
        case terms.Padding() | terms.Named():
            return True
        case terms.Number() | terms.Access() | terms.Elementwise() | terms.Select() | terms.Reduce():
            return True
        case _:
            assert_never(e)


def _has_partial_extents(e: terms.Expr) -> bool:
    """Return whether a bound of a range in such a term may be undefined where a guard around it is false."""
    e = unconverted(e)
    match e:
        case terms.Gen(low, high, body):
            return any(divisors(end) or reads(end) for end in (low, high)) or _has_partial_extents(body)
        case terms.Guard(_, body) | terms.Let(_, body):
            return _has_partial_extents(body)
        case terms.Rec(low, high, init, body):
            own = any(divisors(end) or reads(end) for end in (low, high))
            return own or _has_partial_extents(init) or _has_partial_extents(body)
        case terms.Concat(left, right):
            return _has_partial_extents(left) or _has_partial_extents(right)
        case terms.Reshape(op, operand):
            return any(divisors(end) or reads(end) for end in amounts(op)) or _has_partial_extents(operand)
        case terms.Padding() | terms.Named():
            return False
        case terms.Number() | terms.Access() | terms.Elementwise() | terms.Select() | terms.Reduce():
            return False
        case _:
            assert_never(e)


def zeros_of(e: terms.Expr) -> terms.Expr:
    """Return a term of zeros with the shape of such a term."""
    match e:
        case terms.Gen(body=body):
            return replace(e, body=zeros_of(body))
        case terms.Guard(_, body) | terms.Let(_, body):
            return zeros_of(body)
        case terms.Rec(low, high, init, body, name):
            return terms.Concat(zeros_of(init), terms.Gen(low, high, zeros_of(body), name))
        case terms.Concat(left, right):
            return terms.Concat(zeros_of(left), zeros_of(right))
        case terms.Reshape(op, operand) if e.type.rank:
            return terms.Reshape(op, zeros_of(operand))
        case terms.Cast(dtype, operand) if e.type.rank:
            return terms.Cast(dtype, zeros_of(operand))
        case terms.Reshape() | terms.Padding() | terms.Named():
            return terms.Constant(0, e.type.dtype)
        case terms.Number() | terms.Access() | terms.Elementwise() | terms.Select() | terms.Reduce():
            return terms.Constant(0, e.type.dtype)
        case _:
            assert_never(e)


def _all_stored(e: terms.Expr, scope: Scope, *, sums_stored: bool, zeros: bool = False) -> bool:
    ids = count(_FIRST)
    at: list[Index] = []
    for extent in scope.shape(e.type):
        at.append(index(Var(next(ids), "e")))
        scope = scope.assume(within(ZERO, at[-1], extent))
    return _is_stored(e, tuple(at), scope, ids, sums_stored=sums_stored, zeros=zeros)


def stores_every_element(e: terms.Expr, scope: Scope) -> bool:
    """Return whether lowering is proved to store every element of a normalised term, where empty sums store nothing."""
    return _all_stored(e, scope, sums_stored=False)


def additions(buffer: Buffer, block: Block) -> int:
    """Count the statements of a block that add to elements of the buffer."""
    targets = (statement.target for statement in statements(block) if isinstance(statement, Accumulate))
    return sum(isinstance(target, Cell) and target.buffer == buffer for target in targets)


def _is_stored(
    e: terms.Expr, at: Positions, scope: Scope, ids: Iterator[int], *, sums_stored: bool, zeros: bool
) -> bool:
    """Return whether the element of `e` at `at` is proved to be stored.

    This follows the definition of pad-sets, but proves each part of a concatenation separately. The pad-set of the
    whole has a case for each part, and goals with many cases are slow to prove.
    """

    def part(e: terms.Expr, at: Positions, *, where: Predicate | None = None, position: Index | None = None) -> bool:
        inside = scope if where is None else scope.assume(where)
        if position is not None:
            inside = replace(inside, indices=(*inside.indices, position))
        return _is_stored(e, at, inside, ids, sums_stored=sums_stored, zeros=zeros)

    def known(predicate: Predicate) -> bool:
        return holds(scope.facts, predicate)

    e = unconverted(e)
    match e:
        case terms.Gen(low, _, body):
            return part(body, at[1:], position=scope.index(low) + at[0])
        case terms.Reduce("sum") if sums_stored and not e.type.rank:
            return True
        case terms.Reduce(monoid, low, high, body, name):
            first, last = scope.index(low), scope.index(high)
            if not known(less(first, last)):
                return False
            iteration = index(Var(next(ids), name))
            return monoid != "sum" or part(body, at, where=within(first, iteration, last), position=iteration)
        case terms.Guard(predicate, body):
            condition = scope.predicate(predicate)
            return (zeros or known(condition)) and part(body, at, where=condition)
        case terms.Let(_, body):
            return part(body, at)
        case terms.Rec(low, _, init, body):
            p, start = at[0], scope.index(low)
            return part(init, at, where=less(p, start)) and part(body, at[1:], where=at_most(start, p), position=p)
        case terms.Concat(left, right):
            first, *rest = at
            n = scope.index(left.type.shape[0])
            return part(left, at, where=less(first, n)) and part(right, (first - n, *rest), where=at_most(n, first))
        case terms.Reshape(op, operand):
            source = origin(map_op(op, scope.index), scope.shape(operand.type), at)
            is_pad = zeros and isinstance(op, terms.PadLeft | terms.PadRight)
            return (is_pad or known(source.present)) and part(operand, source.at, where=source.present)
        case terms.Binary(_, left) if e.type.rank:
            # Two statements with one destination: only the first one assigns, so it must assign every element.
            return part(left, at)
        case terms.Padding():
            return zeros or known(FALSE)
        case terms.Named() | terms.Number() | terms.Access() | terms.Elementwise() | terms.Select():
            return True
        case _:
            assert_never(e)
