"""Normalisation before lowering (§4.3.2, as completed by E32): an equal program whose leaves are scalars.

Tensor arithmetic and tensor-valued leaves become generations. Accesses are pushed inwards until they read named
tensors. Within arithmetic, guards become selections of zero, and reductions become lets, which are lifted out of the
arithmetic. All accesses are assumed safe (`atl.check_safe`), so an access to a generation is its body at that index,
without a guard.

Normalisation preserves the decisions of a schedule. A sum or difference of tensors whose loops have an order
(`_has_order`) remains a node, and becomes two statements with one destination. Other arithmetic is done element by
element, one dimension at a time. A let in an operand is then computed once, outside of the loops of later dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, cycle, islice
from typing import TypeGuard, assert_never

from atl.core.index import ZERO, Index, Var, index
from atl.core.marks import LetMark
from atl.core.predicate import TRUE, Predicate, less, negation
from atl.core.program import Program
from atl.core.reshape_definitions import origin, positions_needed
from atl.core.substitution import bind, close, close_tensor, instantiate, instantiate_tensor
from atl.core.terms import (
    Access,
    Binary,
    Cast,
    Concat,
    Constant,
    Expr,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Metavariable,
    Padding,
    Place,
    Reduce,
    Reshape,
    Select,
    TensorVar,
    Type,
    Unary,
    Value,
)
from atl.core.traversal import children
from lowering.folds import RESULT_NAMES

_NAMES = "ijklpqrstuvw"


@dataclass(frozen=True, slots=True)
class _Binding:
    """A let that is being lifted out of arithmetic."""

    variable: TensorVar
    value: Expr
    mark: LetMark = LetMark.NONE


def normalize(program: Program, *, one_pass: bool = False) -> Program:
    """Return the normal form of a program: an equal program with the same padding.

    With `one_pass`, all arithmetic is done element by element, so that all its elements are stored. Two statements
    would not store to elements that neither of them reaches.
    """
    return replace(program, body=_Normalizer(one_pass=one_pass).statement(program.body))


class _Normalizer:
    """The normaliser. It keeps the binders of statements closed, since no term moves across them.

    Binders within arithmetic are opened and closed again where an element is read through them. `_ids` numbers the
    variables of opened binders.
    """

    def __init__(self, *, one_pass: bool) -> None:
        self._one_pass = one_pass
        self._ids: Iterator[int] = count(1 << 50)

    # -- statements ---------------------------------------------------------------------------------------------------

    def statement(self, e: Expr) -> Expr:
        """Normalise a term whose value is stored: keep its structure and make its leaves scalars."""
        match e:
            case Gen(low, high, body, name, mark):
                return Gen(low, high, self.statement(body), name, mark)
            case Reduce(monoid, low, high, body, name, mark):
                if monoid != "sum" and e.type.rank:
                    return self._generated(e)
                return Reduce(monoid, low, high, self.statement(body), name, mark)
            case Guard(predicate, body):
                return Guard(predicate, self.statement(body))
            case Let(value, body, name, mark):
                return bind(self.statement(value), self.statement(body), name, mark)
            case Concat(left, right):
                return Concat(self.statement(left), self.statement(right))
            case Reshape(op, operand):
                return Reshape(op, self.statement(operand))
            case Padding():
                return e
            case Input() | Local() | TensorVar() | Metavariable() | Constant() | Value():
                return self._arithmetic(e)
            case Access() | Unary() | Binary() | Cast() | Select():
                return self._arithmetic(e)
            case _:
                assert_never(e)

    def _generated(self, e: Reduce) -> Expr:
        """Expand a reduction of tensors by v = gen i. v[i] to a reduction of scalars (§4.3.2)."""
        variables = [Var(next(self._ids), name) for name in islice(cycle(_NAMES), e.type.rank)]
        out = self.statement(self.read(e, tuple(index(variable) for variable in variables)))
        for variable, extent in zip(reversed(variables), reversed(e.type.shape), strict=True):
            out = Gen(ZERO, extent, close(out, variable), variable.name)
        return out

    def _arithmetic(self, e: Expr, names: str = _NAMES) -> Expr:
        """Normalise elementwise arithmetic: keep two statements with one destination, or expand by v = gen i. v[i]."""
        bindings: list[_Binding] = []
        out: Expr
        if not e.type.rank:
            out = self.scalar(e, bindings)
        elif self._is_two_statements(e):
            out = Binary(e.op, self.statement(e.left), self.statement(e.right))
        else:
            once = self._without_lets(e, bindings)
            variable = Var(next(self._ids), names[0])
            element = self._arithmetic(self.read(once, (index(variable),)), names[1:] + names[0])
            out = Gen(ZERO, e.type.shape[0], close(element, variable), variable.name)
        for binding in reversed(bindings):
            out = bind(binding.value, close_tensor(out, binding.variable), binding.variable.name, binding.mark)
        return out

    def _is_two_statements(self, e: Expr) -> TypeGuard[Binary]:
        if self._one_pass or not isinstance(e, Binary) or e.op not in ("add", "sub"):
            return False
        return _has_order(e.left) or _has_order(e.right)

    def _without_lets(self, e: Expr, bindings: list[_Binding]) -> Expr:
        """Lift the lets out of a tensor within arithmetic, so that its elements do not compute them repeatedly.

        Lets below a generation are lifted after its dimension was expanded. Reshapes and sums with a let are bound as a
        whole: the let depends on an index that only the innermost loop determines.
        """
        match e:
            case Let(value, body, name, mark):
                tensor = self._bound(self.statement(value), name, bindings, mark)
                return self._without_lets(instantiate_tensor(body, tensor), bindings)
            case Unary(op, operand):
                return Unary(op, self._without_lets(operand, bindings))
            case Cast(dtype, operand):
                return Cast(dtype, self._without_lets(operand, bindings))
            case Binary(op, left, right):
                return Binary(op, self._without_lets(left, bindings), self._without_lets(right, bindings))
            case Select(predicate, left, right):
                return Select(
                    predicate,
                    self._under(predicate, left, bindings, self._without_lets),
                    self._under(negation(predicate), right, bindings, self._without_lets),
                )
            case Guard(predicate, body):
                return Guard(predicate, self._under(predicate, body, bindings, self._without_lets))
            case Concat(left, right):
                return Concat(self._without_lets(left, bindings), self._without_lets(right, bindings))
            case Access():
                positions, at = _positions(e)
                if isinstance(at, Reshape):
                    return _accessed(self._without_lets(at, bindings), positions)
                read = e if isinstance(at, Input | Local | TensorVar) else self.read(at, positions)
                return read if isinstance(read, Access) else self._without_lets(read, bindings)
            case Reshape(op, operand):
                out = Reshape(op, self._without_lets(operand, bindings))
                return self._bound(self.statement(out), "reshaped", bindings) if _has_let(out) else out
            case Reduce("sum") if _has_let(e):
                return self._bound(self.statement(e), RESULT_NAMES[e.monoid], bindings)
            case Input() | Local() | TensorVar() | Metavariable() | Constant() | Value() | Gen() | Reduce() | Padding():
                return e
            case _:
                assert_never(e)

    # -- reads --------------------------------------------------------------------------------------------------------

    def read(self, e: Expr, at: tuple[Index, ...]) -> Expr:
        """Return e[at], with the access pushed inwards as far as possible. The result is a value, never padding."""
        if not at:
            return e
        first, *rest = at
        match e:
            case Input() | Local() | TensorVar() | Metavariable():
                return _accessed(e, at)
            case Access(tensor, position):
                return self.read(tensor, (position, *at))
            case Gen(low, _, body):
                return self.read(instantiate(body, low + first), tuple(rest))
            case Reduce(monoid, low, high, body, name, mark):
                variable = Var(next(self._ids), name)
                inner = self.read(instantiate(body, index(variable)), at)
                # A sum may skip elements that are padding; other reductions read them as zero.
                inner = inner if monoid == "sum" else _stored(inner)
                return Reduce(monoid, low, high, close(inner, variable), name, mark)
            case Guard(predicate, body):
                return _or_zero(predicate, self.read(body, at))
            case Let(value, body, name, mark):
                tensor = TensorVar(next(self._ids), name, value.type)
                inner = self.read(instantiate_tensor(body, tensor), at)
                return Let(value, close_tensor(inner, tensor), name, mark)
            case Unary(op, operand):
                return Unary(op, self.read(operand, at))
            case Cast(dtype, operand):
                return Cast(dtype, self.read(operand, at))
            case Binary(op, left, right):
                return Binary(op, self.read(left, at), self.read(right, at))
            case Select(predicate, left, right):
                return Select(predicate, self.read(left, at), self.read(right, at))
            case Concat(left, right):
                n = left.type.shape[0]
                return Select(less(first, n), self.read(left, at), self.read(right, (first - n, *rest)))
            case Padding(of):
                rest_of = Type(of.dtype, of.shape[len(at) :])
                return Padding(rest_of) if rest_of.rank else _zero(of)
            case Reshape():
                return self._read_reshaped(e, at)
            case Constant() | Value():
                return e
            case _:
                assert_never(e)

    def _read_reshaped(self, e: Reshape, at: tuple[Index, ...]) -> Expr:
        """Return the element of a reshape by its definition, or zero where there is none."""
        if len(at) < positions_needed(e.op):
            return _accessed(e, at)
        where = origin(e.op, e.operand.type.shape, at)
        value = self.read(e.operand, where.at)
        return value if where.present == TRUE else _or_zero(where.present, value)

    # -- scalars ------------------------------------------------------------------------------------------------------

    def scalar(self, e: Expr, bindings: list[_Binding]) -> Expr:
        """Normalise a scalar within arithmetic. Other terms in it are bound by lets, in the order of evaluation."""
        match e:
            case Constant() | Value() | Local() | TensorVar() | Metavariable() | Input():
                return e
            case Access():
                positions, at = _positions(e)
                if isinstance(at, Input | Local | TensorVar):
                    return e
                return self.scalar(self.read(at, positions), bindings)
            case Unary(op, operand):
                return Unary(op, self.scalar(operand, bindings))
            case Cast(dtype, operand):
                return Cast(dtype, self.scalar(operand, bindings))
            case Binary(op, left, right):
                return Binary(op, self.scalar(left, bindings), self.scalar(right, bindings))
            case Select(predicate, left, right):
                return Select(
                    predicate,
                    self._under(predicate, left, bindings, self.scalar),
                    self._under(negation(predicate), right, bindings, self.scalar),
                )
            case Guard(predicate, body):
                return _or_zero(predicate, self._under(predicate, body, bindings, self.scalar))
            case Padding():
                return _zero(e.type)
            case Reduce(monoid):
                value = self.statement(e)
                # Common subexpression elimination for sums.
                return _found(value, bindings) or self._bound(value, RESULT_NAMES[monoid], bindings)
            case Let(value, body, name, mark):
                tensor = self._bound(self.statement(value), name, bindings, mark)
                return self.scalar(instantiate_tensor(body, tensor), bindings)
            case Gen() | Concat() | Reshape():
                raise AssertionError("a scalar has no dimensions")
            case _:
                assert_never(e)

    def _bound(self, value: Expr, name: str, bindings: list[_Binding], mark: LetMark = LetMark.NONE) -> TensorVar:
        variable = TensorVar(next(self._ids), name, value.type)
        bindings.append(_Binding(variable, value, mark))
        return variable

    def _under(
        self, predicate: Predicate, e: Expr, bindings: list[_Binding], of: Callable[[Expr, list[_Binding]], Expr]
    ) -> Expr:
        """Normalise a branch, guarding the values that it binds by its condition (ll_iverson, 2.6)."""
        inner = list(bindings)
        out = of(e, inner)
        for at in range(len(bindings), len(inner)):
            binding = replace(inner[at], value=Guard(predicate, inner[at].value))
            found = _found(binding.value, bindings)
            if found is None or binding.mark is not LetMark.NONE:
                bindings.append(binding)
                continue
            out = instantiate_tensor(close_tensor(out, binding.variable), found)
            for later in range(at + 1, len(inner)):
                value = instantiate_tensor(close_tensor(inner[later].value, binding.variable), found)
                inner[later] = replace(inner[later], value=value)
        return out


def _found(value: Expr, bindings: list[_Binding]) -> TensorVar | None:
    """Return the variable that is already bound to this scalar value."""
    if value.type.rank:
        return None
    return next((binding.variable for binding in bindings if binding.value == value), None)


def _has_order(e: Expr) -> bool:
    """Return whether elementwise evaluation would change the loop order of an operand, or repeat work.

    This holds for sums of tensors, for operands with a let below their loops, and for scatters of one element.
    """
    match e:
        case Let(_, body):
            return _has_order(body)
        case Binary("add" | "sub", left, right) if e.type.rank:
            return _has_order(left) or _has_order(right)
        case Reduce("sum"):
            return e.type.rank > 0
        case Reshape(op=Place()):
            return True
        case Gen() | Guard() | Concat() | Reshape():
            return _has_let(e) or any(_has_order(child.expr) for child in children(e))
        case Input() | Local() | TensorVar() | Metavariable() | Constant() | Value() | Padding():
            return False
        case Access() | Unary() | Binary() | Cast() | Select() | Reduce():
            return False
        case _:
            assert_never(e)


def _has_let(e: Expr) -> bool:
    """Return whether a tensor contains a let that is computed once for several of its elements."""
    if not e.type.rank or (isinstance(e, Reduce) and e.monoid != "sum"):
        return False  # a maximum of tensors is done element by element, whatever is in it
    return isinstance(e, Let) or any(_has_let(child.expr) for child in children(e))


def _or_zero(predicate: Predicate, e: Expr) -> Expr:
    """Return a read of a guarded tensor: a selection of zero for a scalar, or a guard if indices remain to be read."""
    return Guard(predicate, e) if e.type.rank else Select(predicate, e, _zero(e.type))


def _stored(e: Expr) -> Expr:
    """Return a scalar that is defined everywhere: zero where it is padding."""
    match e:
        case Guard(predicate, body):
            return e if e.type.rank else _or_zero(predicate, _stored(body))
        case Padding(of):
            return e if of.rank else _zero(of)
        case Let(value, body, name, mark):
            return bind(value, _stored(body), name, mark)
        case Input() | Local() | TensorVar() | Metavariable() | Constant() | Value() | Access() | Reduce():
            return e
        case Unary() | Binary() | Cast() | Select() | Gen() | Concat() | Reshape():
            return e
        case _:
            assert_never(e)


def _zero(of: Type) -> Constant:
    return Constant(0, of.dtype)


def _accessed(e: Expr, at: tuple[Index, ...]) -> Expr:
    for position in at:
        e = Access(e, position)
    return e


def _positions(e: Expr) -> tuple[tuple[Index, ...], Expr]:
    """Return the positions of a chain of accesses, outermost dimension first, and the accessed tensor."""
    positions: list[Index] = []
    while isinstance(e, Access):
        positions.append(e.index)
        e = e.tensor
    return tuple(reversed(positions)), e
