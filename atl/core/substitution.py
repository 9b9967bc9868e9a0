"""Substitution in tensor expressions: shifting, opening and closing binders, all of it built from `rebuild`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from atl.core import predicate as predicates
from atl.core.index import Bound, Index, Leaf, Var, atoms, bound, index, map_leaves, shift
from atl.core.node import Node
from atl.core.predicate import Predicate
from atl.core.terms import (
    Access,
    Binary,
    Cast,
    Concat,
    Constant,
    Expr,
    Flatten,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Padding,
    PadLeft,
    PadRight,
    Reduce,
    Reshape,
    ReshapeOp,
    Select,
    Split,
    TensorVar,
    Transpose,
    TruncateLeft,
    TruncateRight,
    Type,
    Unary,
    Value,
)

fresh_uid: Iterator[int] = count(1 << 40)
"""Ids of variables opened while a program is written; small ids are left to those who open terms level by level."""


@dataclass(frozen=True, slots=True)
class Child:
    """A direct part of a term, with how many index and tensor binders stand between."""

    expr: Expr
    indices: int = 0
    tensors: int = 0


def children(expr: Expr) -> tuple[Child, ...]:
    """The tensor expressions directly below, from left to right. Each node remembers its own."""
    known: tuple[Child, ...] | None = getattr(expr, "below", None)
    if known is None:
        known = _children(expr)
        object.__setattr__(expr, "below", known)
    return known


def _children(expr: Expr) -> tuple[Child, ...]:
    match expr:
        case Input() | Local() | TensorVar() | Constant() | Value() | Padding():
            return ()
        case Gen(body=body) | Reduce(body=body):
            return (Child(body, indices=1),)
        case Let(value, body):
            return (Child(value), Child(body, tensors=1))
        case Guard(_, body) | Unary(_, body) | Cast(_, body) | Reshape(_, body) | Access(body, _):
            return (Child(body),)
        case Binary(_, left, right) | Concat(left, right) | Select(_, left, right):
            return (Child(left), Child(right))


def rebuild(
    expr: Expr,
    new: Callable[[Child], Expr],
    on_index: Callable[[Index], Index],
) -> Expr:
    """The term with its direct parts replaced: index expressions (also those in predicates and types) and children."""
    parts = tuple(new(child) for child in children(expr))
    made = _with_parts(expr, parts, on_index, lambda p: predicates.map_indices(p, on_index))
    if made is not expr:
        object.__setattr__(made, "source", expr.source)
    return made


def with_children(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """The term with other children, and all else as it is."""
    if all(part is child.expr for part, child in zip(parts, children(expr), strict=True)):
        return expr
    made = _with_parts(expr, parts, lambda i: i, lambda p: p)
    object.__setattr__(made, "source", expr.source)
    return made


def _with_parts(
    expr: Expr,
    parts: tuple[Expr, ...],
    on_index: Callable[[Index], Index],
    on_predicate: Callable[[Predicate], Predicate],
) -> Expr:
    match expr:
        case Input() | Constant():
            return expr
        case Local(position, of):
            return Local(position, map_type(of, on_index))
        case TensorVar(uid, name, of):
            return TensorVar(uid, name, map_type(of, on_index))
        case Padding(of):
            return Padding(map_type(of, on_index))
        case Value(value, dtype):
            return Value(on_index(value), dtype)
        case Gen(low, high, _, name, mark):
            return Gen(on_index(low), on_index(high), parts[0], name, mark)
        case Reduce(monoid, low, high, _, name, mark):
            return Reduce(monoid, on_index(low), on_index(high), parts[0], name, mark)
        case Guard(predicate, _):
            return Guard(on_predicate(predicate), parts[0])
        case Let(value, _, name, mark):
            same = parts[0].type == map_type(value.type, on_index)
            return Let(parts[0], parts[1], name, mark) if same else bind(parts[0], parts[1], name, mark)
        case Access(_, position):
            return Access(parts[0], on_index(position))
        case Unary(op, _):
            return Unary(op, parts[0])
        case Binary(op, _, _):
            return Binary(op, parts[0], parts[1])
        case Select(predicate, _, _):
            return Select(on_predicate(predicate), parts[0], parts[1])
        case Cast(dtype, _):
            return Cast(dtype, parts[0])
        case Concat(_, _):
            return Concat(parts[0], parts[1])
        case Reshape(op, _):
            return Reshape(map_op(op, on_index), parts[0])


def bind(value: Expr, body: Expr, name: str = "x", mark: str = "") -> Let:
    """let name := value in body, where the bound tensor has in the body just the type that the value has.

    A value that is replaced by an equal one may write its shape in another way.
    """

    def on_tensor(at: Local | TensorVar, indices: int, tensors: int) -> Expr | None:
        if isinstance(at, Local) and at.position == tensors:
            of = map_type(value.type, lambda extent: shift(extent, indices))
            return at if at.of == of else Local(at.position, of)
        return None

    return Let(value, transform(body, _keep, on_tensor, untouched=lambda at, i, t: at.loose_tensors <= t), name, mark)


def map_type(of: Type, on_index: Callable[[Index], Index]) -> Type:
    return Type(of.dtype, tuple(on_index(extent) for extent in of.shape))


def map_op(op: ReshapeOp, on_index: Callable[[Index], Index]) -> ReshapeOp:
    match op:
        case Transpose() | Flatten():
            return op
        case Split(by) | PadLeft(by) | PadRight(by) | TruncateLeft(by) | TruncateRight(by):
            return type(op)(on_index(by))


OnLeaf = Callable[[Leaf, int], Index]
OnTensor = Callable[[Local | TensorVar, int, int], Expr | None]


def transform(
    expr: Expr,
    on_leaf: OnLeaf,
    on_tensor: OnTensor | None = None,
    *,
    untouched: Callable[[Node, int, int], bool] = lambda node, indices, tensors: False,
) -> Expr:
    """Replaces the leaves of a term; the functions are told how many binders of each kind stand around the leaf.

    Terms and index expressions of which `untouched` says so stay as they are: none of their leaves is replaced.
    """
    done: dict[tuple[int, int, int], Expr] = {}

    def visit(at: Expr, indices: int, tensors: int) -> Expr:
        if untouched(at, indices, tensors):
            return at
        key = (id(at), indices, tensors)
        if key not in done:
            done[key] = one(at, indices, tensors)
        return done[key]

    def one(at: Expr, indices: int, tensors: int) -> Expr:
        if on_tensor is not None and isinstance(at, (Local, TensorVar)):
            replaced = on_tensor(at, indices, tensors)
            if replaced is not None:
                return replaced
        return rebuild(
            at,
            lambda child: visit(child.expr, indices + child.indices, tensors + child.tensors),
            lambda expression: (
                expression
                if untouched(expression, indices, tensors)
                else map_leaves(expression, lambda leaf: on_leaf(leaf, indices))
            ),
        )

    return visit(expr, 0, 0)


def unbound(indices: int = 0, tensors: int = 0) -> Callable[[Node, int, int], bool]:
    """For `transform`: what has no free variable from these de Bruijn positions on."""
    return lambda at, i, t: at.loose <= i + indices and at.loose_tensors <= t + tensors


def _keep(leaf: Leaf, _: int) -> Index:
    return index(leaf)


def shift_term(expr: Expr, indices: int = 0, tensors: int = 0) -> Expr:
    """De Bruijn shifting of the variables that are free in the term."""
    if (not indices or not expr.loose) and (not tensors or not expr.loose_tensors):
        return expr

    def on_leaf(leaf: Leaf, depth: int) -> Index:
        return bound(leaf.position + indices) if isinstance(leaf, Bound) and leaf.position >= depth else index(leaf)

    def on_tensor(at: Local | TensorVar, depth: int, tensor_depth: int) -> Expr | None:
        if isinstance(at, Local) and at.position >= tensor_depth:
            return Local(
                at.position + tensors,
                map_type(at.of, lambda e: map_leaves(e, lambda leaf: on_leaf(leaf, depth))),
            )
        return None

    return transform(
        expr,
        on_leaf,
        on_tensor,
        untouched=lambda at, i, t: (not indices or at.loose <= i) and (not tensors or at.loose_tensors <= t),
    )


def instantiate(body: Expr, value: Index) -> Expr:
    """The body of an index binder with its index replaced: e[value / i], seen from outside of the binder."""

    def on_leaf(leaf: Leaf, depth: int) -> Index:
        if isinstance(leaf, Bound) and leaf.position >= depth:
            if leaf.position > depth:
                return bound(leaf.position - 1)
            return map_leaves(value, lambda free: _raise(free, depth))
        return index(leaf)

    return transform(body, on_leaf, untouched=lambda at, i, t: at.loose <= i)


def _raise(leaf: Leaf, by: int) -> Index:
    return bound(leaf.position + by) if isinstance(leaf, Bound) else index(leaf)


def instantiate_tensor(body: Expr, value: Expr) -> Expr:
    """The body of a let with its tensor replaced: e2[e1 / x] (unfold_let, §4.2.1)."""

    def on_tensor(at: Local | TensorVar, indices: int, tensors: int) -> Expr | None:
        if isinstance(at, Local) and at.position >= tensors:
            return shift_term(value, indices, tensors) if at.position == tensors else Local(at.position - 1, at.of)
        return None

    return transform(body, _keep, on_tensor, untouched=lambda at, i, t: at.loose_tensors <= t)


def close(body: Expr, variable: Var) -> Expr:
    """The body of a new binder: the variable becomes its index."""

    def on_leaf(leaf: Leaf, depth: int) -> Index:
        if isinstance(leaf, Bound):
            return bound(leaf.position + 1 if leaf.position >= depth else leaf.position)
        return bound(depth) if leaf == variable else index(leaf)

    return transform(body, on_leaf, untouched=lambda at, i, t: variable.uid not in at.free and at.loose <= i)


def close_tensor(body: Expr, variable: TensorVar) -> Expr:
    """The body of a new let: the variable becomes its tensor."""

    def on_tensor(at: Local | TensorVar, _: int, tensors: int) -> Expr | None:
        match at:
            case Local(position, of) if position >= tensors:
                return Local(position + 1, of)
            case TensorVar(uid, of=of) if uid == variable.uid:
                return Local(tensors, of)
            case _:
                return None

    return transform(
        body, _keep, on_tensor, untouched=lambda at, i, t: variable.uid not in at.free and at.loose_tensors <= t
    )


def free_positions(expr: Expr) -> tuple[frozenset[int], frozenset[int]]:
    """The de Bruijn positions of the indices and of the let-bound tensors that a term uses from around it."""
    found: tuple[set[int], set[int]] = (set(), set())
    seen: set[tuple[int, int, int]] = set()

    def visit(at: Expr, indices: int, tensors: int) -> None:
        key = (id(at), indices, tensors)
        if (at.loose <= indices and at.loose_tensors <= tensors) or key in seen:
            return
        seen.add(key)
        if isinstance(at, Local) and at.position >= tensors:
            found[1].add(at.position - tensors)
        for expression in (*indices_in(at), *(at.type.shape if isinstance(at, Local | TensorVar) else ())):
            if expression.loose > indices:
                here = (atom.position for atom in atoms(expression) if isinstance(atom, Bound))
                found[0].update(position - indices for position in here if position >= indices)
        for child in children(at):
            visit(child.expr, indices + child.indices, tensors + child.tensors)

    visit(expr, 0, 0)
    return frozenset(found[0]), frozenset(found[1])


def subterms(expr: Expr) -> Iterator[Expr]:
    """The term and everything below it, from left to right, shared parts once."""
    seen: set[int] = set()
    stack = [expr]
    while stack:
        at = stack.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        yield at
        stack.extend(child.expr for child in reversed(children(at)))


def indices_in(expr: Expr) -> Iterator[Index]:
    """The index expressions that stand directly in a node."""
    match expr:
        case Input(array):
            yield from array.shape
        case Gen(low, high) | Reduce(_, low, high):
            yield from (low, high)
        case Guard(predicate, _) | Select(predicate, _, _):
            yield from predicates.expressions(predicate)
        case Access(_, position) | Value(position, _):
            yield position
        case Padding(of):
            yield from of.shape
        case Reshape(Split(by) | PadLeft(by) | PadRight(by) | TruncateLeft(by) | TruncateRight(by)):
            yield by
        case _:
            return
