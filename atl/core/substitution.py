"""Substitution in tensor expressions: shifting, opening and closing of binders, all based on `rebuild`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar, assert_never, cast

from atl.core import predicate as predicates
from atl.core.dtypes import BOOL, DEFAULT
from atl.core.forms import Formed, Part, Role, Slot, TensorBinder, slots_of
from atl.core.index import Bound, Index, Leaf, Var, atoms, bound, index, map_leaves, shift
from atl.core.marks import LetMark
from atl.core.node import Node
from atl.core.operations import COMPARISONS, BinaryOp
from atl.core.predicate import Predicate
from atl.core.terms import Access, Binary, Expr, Gen, Let, Local, ReshapeOp, TensorVar, Type, Where, rows_before
from atl.core.traversal import Child, amounts, children, indices_in

fresh_uid: Iterator[int] = count(1 << 40)
"""Ids of variables that are opened while a program is built. Small ids are reserved for opening terms by depth."""


def rebuild(
    expr: Expr,
    new: Callable[[Child], Expr],
    on_index: Callable[[Index], Index],
    on_predicate: Callable[[Predicate], Predicate] | None = None,
) -> Expr:
    """Return the term with its direct parts replaced: children and index expressions, including those in types.

    `on_predicate` replaces predicates; by default, `on_index` is applied to their index expressions.
    """
    parts = tuple(new(child) for child in children(expr))
    on_condition = on_predicate or (lambda p: predicates.map_indices(p, on_index))
    made = _with_parts(expr, parts, on_index, on_condition)
    if made is not expr:
        object.__setattr__(made, "source", expr.source)
    return made


def with_children(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """Return the term with other children."""
    if all(part is child.expr for part, child in zip(parts, children(expr), strict=True)):
        return expr
    made = _with_parts(expr, parts, _as_it_is, lambda p: p)
    object.__setattr__(made, "source", expr.source)
    return made


def with_child(expr: Expr, position: int, part: Expr) -> Expr:
    """Return the term with another child at this position."""
    before = children(expr)
    replaced = before[position]
    if part is replaced.expr:
        return expr
    if expr.form.part_lists:
        return with_children(expr, tuple(part if at == position else child.expr for at, child in enumerate(before)))
    fields = {slot.name: getattr(expr, slot.name) for slot in slots_of(type(expr))}
    fields[replaced.part.field] = part
    made = _with_types_of_values(expr, fields, _as_it_is)
    object.__setattr__(made, "source", expr.source)
    below = (Child(fields[child.part.field], child.part, child.indices, child.tensors) for child in before)
    object.__setattr__(made, "below", tuple(below))
    return made


def _with_parts(
    expr: Expr,
    parts: tuple[Expr, ...],
    on_index: Callable[[Index], Index],
    on_predicate: Callable[[Predicate], Predicate],
) -> Expr:
    left = iter(parts)
    made: dict[str, object] = {}
    changed = False
    replaced, kept = _divided_slots(type(expr))
    for slot in replaced:
        value = getattr(expr, slot.name)
        match slot.role:
            case Role.PART:
                made[slot.name] = next(left)
            case Role.PARTS:
                made[slot.name] = _kept_if_same(value, tuple(next(left) for _ in value))
            case Role.INDEX:
                made[slot.name] = on_index(value)
            case Role.INDICES:
                made[slot.name] = _kept_if_same(value, tuple(map(on_index, value)))
            case Role.PREDICATE:
                made[slot.name] = on_predicate(value)
            case Role.OPERATOR:
                made[slot.name] = map_op(value, on_index)
            case Role.TYPE | Role.KNOWN_TYPE:
                made[slot.name] = map_type(value, on_index)
            case Role.STATIC | Role.LITERAL | Role.ARRAY | Role.DTYPE | Role.VARIABLE | Role.HINT | Role.MARK:
                made[slot.name] = value
            case _:
                assert_never(slot.role)
        changed = changed or made[slot.name] is not value
    if not changed:
        return expr
    made.update((name, getattr(expr, name)) for name in kept)
    return _with_types_of_values(expr, made, on_index)


def _as_it_is(expression: Index) -> Index:
    return expression


def _with_types_of_values(expr: Expr, fields: dict[str, object], on_index: Callable[[Index], Index]) -> Expr:
    """Return the term with other fields, and update the types of the tensors that it binds to those of their values."""
    for part in type(expr).form.parts:
        for position, binder in enumerate(reversed(part.tensors)):
            of = getattr(expr, binder.value).type
            new = cast("Expr", fields[binder.value]).type
            if new != (of if on_index is _as_it_is else map_type(of, on_index)):
                fields[part.field] = _retyped(cast("Expr", fields[part.field]), position, type_in(part, binder, new))
    rebuilt: Expr = type(expr)(**fields)  # type: ignore[arg-type]
    return rebuilt


_divided: Final[dict[type[Formed], tuple[tuple[Slot, ...], tuple[str, ...]]]] = {}


def _divided_slots(of: type[Formed]) -> tuple[tuple[Slot, ...], tuple[str, ...]]:
    """Return the slots of a constructor that substitution may change, and the names of the other fields."""
    known = _divided.get(of)
    if known is None:
        replaced = tuple(slot for slot in slots_of(of) if slot.role not in _KEPT)
        known = _divided[of] = replaced, tuple(slot.name for slot in slots_of(of) if slot.role in _KEPT)
    return known


_KEPT: Final = frozenset({Role.STATIC, Role.LITERAL, Role.ARRAY, Role.DTYPE, Role.VARIABLE, Role.HINT, Role.MARK})


Many = TypeVar("Many", bound=tuple[object, ...])


def _kept_if_same(old: Many, new: Many) -> Many:
    return old if all(a is b for a, b in zip(new, old, strict=True)) else new


def bind(value: Expr, body: Expr, name: str = "x", mark: LetMark = LetMark.NONE) -> Let:
    """Return let name := value in body, with the type of the bound tensor in the body updated to the type of `value`.

    The types may differ if an equal value replaced another one, because equal shapes may have different expressions.
    """
    return Let(value, _retyped(body, 0, value.type), name, mark)


def binds_by_type(expr: Expr) -> bool:
    """Return whether each tensor that a node binds has exactly the type that follows from its value (`bind`)."""
    return all(
        _retyped(body, position, type_in(part, binder, getattr(expr, binder.value).type)) == body
        for part in type(expr).form.parts
        for position, binder in enumerate(reversed(part.tensors))
        for body in (getattr(expr, part.field),)
    )


def has_types_of(expr: Expr, around: Sequence[Type]) -> bool:
    """Return whether each free tensor of a term has exactly the type of its binder.

    `around` contains the types of the enclosing binders relative to the term, innermost last. Tensors that are bound
    further out are not checked.
    """
    seen: set[tuple[int, int, int]] = set()
    stack = [(expr, 0, 0)]
    while stack:
        at, indices, tensors = stack.pop()
        if at.loose_tensors <= tensors or (id(at), indices, tensors) in seen:
            continue
        seen.add((id(at), indices, tensors))
        if isinstance(at, Local) and at.position - tensors < len(around):
            of = around[-1 - (at.position - tensors)]
            if at.of != map_type(of, partial(shift, by=indices)):
                return False
        stack.extend((child.expr, indices + child.indices, tensors + child.tensors) for child in children(at))
    return True


def types_around(spine: Sequence[tuple[Expr, int]], count: int) -> tuple[Type, ...]:
    """Return the types of the `count` innermost tensors bound around a place, relative to this place.

    The spine contains the terms above the place from the outside in, each with the position of the next part.
    """
    found: list[Type] = []
    indices = 0
    for term, position in reversed(spine):
        if len(found) >= count:
            break
        part = children(term)[position].part
        found += (
            map_type(type_in(part, binder, getattr(term, binder.value).type), partial(shift, by=indices))
            for binder in reversed(part.tensors)
        )
        indices += len(part.indices)
    return tuple(reversed(found))


def type_in(part: Part, binder: TensorBinder, of: Type) -> Type:
    """Return the type of a bound tensor in a part, for a value of type `of` outside the node."""
    if binder.grows:
        return rows_before(of, bound(0), len(part.indices))
    return map_type(of, lambda extent: shift(extent, len(part.indices)))


def _retyped(body: Expr, position: int, of: Type) -> Expr:
    """Return the body of a binder with another type for the bound tensor."""

    def on_tensor(at: Local | TensorVar, indices: int, tensors: int) -> Expr | None:
        if isinstance(at, Local) and at.position == tensors + position:
            seen = map_type(of, lambda extent: shift(extent, indices))
            return at if at.of == seen else Local(at.position, seen)
        return None

    return transform(body, _keep, on_tensor, untouched=lambda at, i, t: at.loose_tensors <= t + position)


def map_type(of: Type, on_index: Callable[[Index], Index]) -> Type:
    """Apply a function to the extents of a type."""
    shape = tuple(on_index(extent) for extent in of.shape)
    return of if all(new is old for new, old in zip(shape, of.shape, strict=True)) else Type(of.dtype, shape)


def map_op(op: ReshapeOp, on_index: Callable[[Index], Index]) -> ReshapeOp:
    """Apply a function to the amounts of an operator."""
    old = amounts(op)
    new = tuple(on_index(amount) for amount in old)
    return op if all(a is b for a, b in zip(new, old, strict=True)) else type(op)(*new)


OnLeaf = Callable[[Leaf, int], Index]
OnTensor = Callable[[Local | TensorVar, int, int], Expr | None]


def transform(
    expr: Expr,
    on_leaf: OnLeaf,
    on_tensor: OnTensor | None = None,
    *,
    untouched: Callable[[Node, int, int], bool] = lambda node, indices, tensors: False,
) -> Expr:
    """Replace the leaves of a term. The functions receive the number of binders of each kind around the leaf.

    Terms and index expressions for which `untouched` is true are kept unchanged.
    """
    done: dict[tuple[int, int, int], Expr] = {}

    def visit(at: Expr, indices: int, tensors: int) -> Expr:
        if untouched(at, indices, tensors):
            return at
        key = (id(at), indices, tensors)
        if key not in done:
            done[key] = replaced(at, indices, tensors)
        return done[key]

    def replaced(at: Expr, indices: int, tensors: int) -> Expr:
        if on_tensor is not None and isinstance(at, (Local, TensorVar)):
            tensor = on_tensor(at, indices, tensors)
            if tensor is not None:
                return tensor
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
    """Return the `untouched` predicate for nodes without free variables from these de Bruijn positions on."""
    return lambda at, i, t: at.loose <= i + indices and at.loose_tensors <= t + tensors


def _keep(leaf: Leaf, _: int) -> Index:
    return index(leaf)


def shift_term(expr: Expr, indices: int = 0, tensors: int = 0) -> Expr:
    """Shift the free de Bruijn positions of the term."""
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
    """Return the body of an index binder with its index replaced: e[value / i], outside the binder."""

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
    """Return the body of a let with its tensor replaced: e2[e1 / x] (unfold_let, §4.2.1)."""

    def on_tensor(at: Local | TensorVar, indices: int, tensors: int) -> Expr | None:
        if isinstance(at, Local) and at.position >= tensors:
            return shift_term(value, indices, tensors) if at.position == tensors else Local(at.position - 1, at.of)
        return None

    return transform(body, _keep, on_tensor, untouched=lambda at, i, t: at.loose_tensors <= t)


def close(body: Expr, variable: Var) -> Expr:
    """Return the body of a new binder, whose index replaces the variable."""

    def on_leaf(leaf: Leaf, depth: int) -> Index:
        if isinstance(leaf, Bound):
            return bound(leaf.position + 1 if leaf.position >= depth else leaf.position)
        return bound(depth) if leaf == variable else index(leaf)

    return transform(body, on_leaf, untouched=lambda at, i, t: variable.uid not in at.free and at.loose <= i)


def close_tensor(body: Expr, variable: TensorVar) -> Expr:
    """Return the body of a new let, whose tensor replaces the variable."""

    def on_tensor(at: Local | TensorVar, _: int, tensors: int) -> Expr | None:
        match at:
            case Local(position, of) if position >= tensors:
                return Local(position + 1, of)
            case TensorVar(uid, of=of) if uid == variable.uid:
                return Local(tensors, of)
            case Local() | TensorVar():
                return None
            case _:
                assert_never(at)

    return transform(
        body, _keep, on_tensor, untouched=lambda at, i, t: variable.uid not in at.free and at.loose_tensors <= t
    )


def free_positions(expr: Expr) -> tuple[frozenset[int], frozenset[int]]:
    """Return the free de Bruijn positions of a term: those of indices, and those of let-bound tensors."""
    found: tuple[set[int], set[int]] = (set(), set())
    seen: set[tuple[int, int, int]] = set()

    def visit(at: Expr, indices: int, tensors: int) -> None:
        key = (id(at), indices, tensors)
        if (at.loose <= indices and at.loose_tensors <= tensors) or key in seen:
            return
        seen.add(key)
        if isinstance(at, Local) and at.position >= tensors:
            found[1].add(at.position - tensors)
        for expression in (*indices_in(at), *(at.type.shape if at.form.known_type else ())):
            if expression.loose > indices:
                here = (atom.position for atom in atoms(expression) if isinstance(atom, Bound))
                found[0].update(position - indices for position in here if position >= indices)
        for child in children(at):
            visit(child.expr, indices + child.indices, tensors + child.tensors)

    visit(expr, 0, 0)
    return frozenset(found[0]), frozenset(found[1])


# -- literals ---------------------------------------------------------------------------------------------------------


def strengthen(expr: Expr, dtype: str) -> Expr:
    """Return the term with this element type for its untyped literals and padding."""
    if expr.type.dtype is not None:
        return expr
    made = rebuild(expr, lambda child: strengthen(child.expr, dtype), lambda e: e)
    form = type(made).form
    untyped: dict[str, Any] = {name: dtype for name in form.dtypes if getattr(made, name) is None}
    untyped |= {name: Type(dtype, of.shape) for name in form.types if (of := getattr(made, name)).dtype is None}
    return replace(made, **untyped) if untyped else made


def agree(*terms: Expr) -> tuple[Expr, ...]:
    """Return the terms, with the element type of the typed ones for untyped literals."""
    dtype = next((term.type.dtype for term in terms if term.type.dtype is not None), None)
    return terms if dtype is None else tuple(strengthen(term, dtype) for term in terms)


def arithmetic(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    """Return a scalar operation; a scalar is combined with each element of a tensor.

    Literals that are compared with each other get the default type, because the type of the result determines none.
    """
    first, second = agree(left, right)
    if op in COMPARISONS and first.type.dtype is None:
        first, second = strengthen(first, DEFAULT), strengthen(second, DEFAULT)
    if 0 in (first.type.rank, second.type.rank) and first.type.rank != second.type.rank:
        return _spread(op, first, second)
    return Binary(op, first, second)


def choice(test: Expr, left: Expr, right: Expr) -> Expr:
    """Return where(test, left, right); the operands have equal shapes."""
    return Where(strengthen(test, BOOL), *agree(left, right))


def _spread(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    """Return a generation that applies the scalar operation to each element of the tensor operand."""
    larger = left if left.type.rank else right
    variables = [Var(next(fresh_uid), name) for name in "ijklpqrstuvw"[: larger.type.rank]]
    element: Expr = larger
    for variable in variables:
        element = Access(element, index(variable))
    node: Expr = Binary(op, element, right) if larger is left else Binary(op, left, element)
    for variable, extent in zip(reversed(variables), reversed(larger.type.shape), strict=True):
        node = Gen(index(0), extent, close(node, variable), variable.name)
    return node
