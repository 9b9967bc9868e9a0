"""Normalisation before lowering (§4.3.2, as completed by E32): an equal program whose leaves are scalars.

Tensor arithmetic and tensor-valued leaves become generations; an access to anything but a named tensor is pushed
inwards until it is one; inside of arithmetic, guards become selections of zero, and reductions are bound by lets,
which are lifted to where statements stand. The accesses of the program are taken to be safe (`atl.check_safe`): so an
access to a generation is its body at that index, with no guard around.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import assert_never

from atl.definitions import origin
from atl.index import ZERO, Index, Var, index
from atl.predicate import TRUE, Predicate, less, negation
from atl.program import Program
from atl.substitution import bind, close, close_tensor, instantiate, instantiate_tensor
from atl.terms import (
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
    Padding,
    Reduce,
    Reshape,
    Select,
    TensorVar,
    Type,
    Unary,
    Value,
)

_NAMES = "ijklpqrstuvw"


@dataclass(frozen=True, slots=True)
class _Binding:
    """A let that is on its way up to the statement."""

    variable: TensorVar
    value: Expr


def normalize(program: Program) -> Program:
    """The program in normal form; equal to it as an equation, and with the same padding."""
    return replace(program, body=_Normalizer().statement(program.body))


class _Normalizer:
    """Opens binders on the way down and closes them on the way up; `_ids` numbers the opened variables."""

    def __init__(self) -> None:
        self._ids: Iterator[int] = count(1 << 50)

    # -- statements ---------------------------------------------------------------------------------------------------

    def statement(self, e: Expr) -> Expr:
        """A term whose value is stored: structure is kept, leaves become scalars."""
        match e:
            case Gen(low, high, body, name, mark):
                variable = Var(next(self._ids), name)
                inner = self.statement(instantiate(body, index(variable)))
                return Gen(low, high, close(inner, variable), name, mark)
            case Reduce(monoid, low, high, body, name, mark):
                if monoid != "sum" and e.type.rank:
                    return self._generated(e)
                variable = Var(next(self._ids), name)
                inner = self.statement(instantiate(body, index(variable)))
                return Reduce(monoid, low, high, close(inner, variable), name, mark)
            case Guard(predicate, body):
                return Guard(predicate, self.statement(body))
            case Let(value, body, name, mark):
                tensor = TensorVar(next(self._ids), name, value.type)
                inner = self.statement(instantiate_tensor(body, tensor))
                return bind(self.statement(value), close_tensor(inner, tensor), name, mark)
            case Concat(left, right):
                return Concat(self.statement(left), self.statement(right))
            case Reshape(op, operand):
                return Reshape(op, self.statement(operand))
            case Padding():
                return e
            case _:
                return self._leaf(e) if not e.type.rank else self._generated(e)

    def _generated(self, e: Expr) -> Expr:
        """v = gen i. v[i], down to scalars (§4.3.2)."""
        variables = [Var(next(self._ids), name) for name in _NAMES[: e.type.rank]]
        out = self.statement(self.read(e, tuple(index(variable) for variable in variables)))
        for variable, extent in zip(reversed(variables), reversed(e.type.shape), strict=True):
            out = Gen(ZERO, extent, close(out, variable), variable.name)
        return out

    def _leaf(self, e: Expr) -> Expr:
        """A scalar to be stored, under the lets that it needs."""
        bindings: list[_Binding] = []
        out = self.scalar(e, bindings)
        for binding in reversed(bindings):
            out = bind(binding.value, close_tensor(out, binding.variable), binding.variable.name)
        return out

    # -- reads --------------------------------------------------------------------------------------------------------

    def read(self, e: Expr, at: tuple[Index, ...]) -> Expr:
        """e[at], as many positions as e has dimensions, pushed inwards. What is read is a value, never padding."""
        if not at:
            return e
        first, *rest = at
        match e:
            case Input() | Local() | TensorVar():
                return _accessed(e, at)
            case Access(tensor, position):
                return self.read(tensor, (position, *at))
            case Gen(low, _, body):
                return self.read(instantiate(body, low + first), tuple(rest))
            case Reduce(monoid, low, high, body, name, mark):
                variable = Var(next(self._ids), name)
                inner = self.read(instantiate(body, index(variable)), at)
                return Reduce(monoid, low, high, close(inner, variable), name, mark)
            case Guard(predicate, body):
                return Select(predicate, self.read(body, at), _zero(e.type))
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
            case Padding():
                return _zero(e.type)
            case Reshape():
                return self._read_reshaped(e, at)
            case Constant() | Value():
                return e
            case _:
                assert_never(e)

    def _read_reshaped(self, e: Reshape, at: tuple[Index, ...]) -> Expr:
        """The element of a reshape by its definition; where there is none it reads as zero."""
        where = origin(e.op, e.operand.type.shape, at)
        value = self.read(e.operand, where.at)
        return value if where.present == TRUE else Select(where.present, value, _zero(e.type))

    # -- scalars ------------------------------------------------------------------------------------------------------

    def scalar(self, e: Expr, bindings: list[_Binding]) -> Expr:
        """A scalar inside of arithmetic; what is no arithmetic is bound, in the order of evaluation."""
        match e:
            case Constant() | Value() | Local() | TensorVar() | Input():
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
                    self._under(predicate, left, bindings),
                    self._under(negation(predicate), right, bindings),
                )
            case Guard(predicate, body):
                return Select(predicate, self._under(predicate, body, bindings), _zero(e.type))
            case Padding():
                return _zero(e.type)
            case Reduce(name=name):
                return self._bound(self.statement(e), _result_name(e), bindings)
            case Let(value, body, name):
                tensor = self._bound(self.statement(value), name, bindings)
                return self.scalar(instantiate_tensor(body, tensor), bindings)
            case Gen() | Concat() | Reshape():
                raise AssertionError("a scalar has no dimensions")
            case _:
                assert_never(e)

    def _bound(self, value: Expr, name: str, bindings: list[_Binding]) -> TensorVar:
        variable = TensorVar(next(self._ids), name, value.type)
        bindings.append(_Binding(variable, value))
        return variable

    def _under(self, predicate: Predicate, e: Expr, bindings: list[_Binding]) -> Expr:
        """A branch: what it binds is computed only where the branch is taken (ll_iverson, 2.6)."""
        inner: list[_Binding] = []
        out = self.scalar(e, inner)
        bindings.extend(replace(binding, value=Guard(predicate, binding.value)) for binding in inner)
        return out


def _result_name(e: Reduce) -> str:
    return {"sum": "total", "product": "product", "max": "greatest", "min": "least"}[e.monoid]


def _zero(of: Type) -> Constant:
    return Constant(0, of.dtype)


def _accessed(e: Expr, at: tuple[Index, ...]) -> Expr:
    for position in at:
        e = Access(e, position)
    return e


def _positions(e: Expr) -> tuple[tuple[Index, ...], Expr]:
    """The positions of a chain of accesses, outermost dimension first, and what is accessed."""
    positions: list[Index] = []
    while isinstance(e, Access):
        positions.append(e.index)
        e = e.tensor
    return tuple(reversed(positions)), e
