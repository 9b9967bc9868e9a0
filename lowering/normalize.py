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

from atl.checks.scope import outermost
from atl.core import terms
from atl.core.index import ZERO, Bound, Index, Var, atoms, index
from atl.core.marks import LetMark, LoopMark
from atl.core.predicate import TRUE, Predicate, less, negation
from atl.core.program import Program
from atl.core.reshape_definitions import origin, positions_needed
from atl.core.substitution import bind, close, close_tensor, instantiate, instantiate_tensor
from atl.core.traversal import children
from atl.prove import Facts, proves
from lowering.nest.loopnest import RESULT_NAMES

_NAMES = "ijklpqrstuvw"


@dataclass(frozen=True, slots=True)
class _Binding:
    """A let that is being lifted out of arithmetic."""

    variable: terms.TensorVar
    value: terms.Expr
    mark: LetMark = LetMark.NONE


def normalize(
    program: Program, *, one_pass: bool = False, in_order: bool = False, own_buffers: bool = False
) -> Program:
    """Return the normal form of a program: an equal program with the same padding.

    With `one_pass`, all arithmetic is done element by element, so that all its elements are stored. In two statements,
    elements that neither of them reaches would not be stored. `in_order` does the same, except for additions of sums if
    the program is assembled: a sum starts at 0, so it is never -0, and x + 0 is x where the other sum has no terms.

    With `own_buffers`, the conversions of several results to a common type remain, and their operands are normalised.
    """
    facts = outermost(program).facts
    made = _Normalizer(facts, one_pass=one_pass, in_order=in_order, assembled=program.assembly is not None)
    return replace(program, body=(made.results if own_buffers else made.statement)(program.body))


class _Normalizer:
    """The normaliser. It keeps the binders of statements closed, since no term moves across them.

    Binders within arithmetic are opened and closed again where an element is read through them. `_ids` numbers the
    variables of opened binders.
    """

    def __init__(self, facts: Facts, *, one_pass: bool, in_order: bool, assembled: bool) -> None:
        self._facts = facts
        self._one_pass = one_pass or in_order
        self._adds_sums = assembled and in_order and not one_pass
        self._ids: Iterator[int] = count(1 << 50)

    # -- statements ---------------------------------------------------------------------------------------------------

    def results(self, e: terms.Expr) -> terms.Expr:
        """Normalise several results, of which each may be converted to a common type."""
        match e:
            case terms.Let(value, body, name, mark):
                return bind(self.statement(value), self.results(body), name, mark)
            case terms.Concat(left, right):
                return terms.Concat(self.results(left), self.results(right))
            case terms.Reshape(op, operand):
                return terms.Reshape(op, self.results(operand))
            case terms.Cast(dtype, operand) if e.type.rank:
                return terms.Cast(dtype, self.statement(operand))
            case terms.Named() | terms.Number() | terms.Access() | terms.Elementwise() | terms.Select():
                return self.statement(e)
            case terms.Gen() | terms.Reduce() | terms.Rec() | terms.Guard() | terms.Padding():
                return self.statement(e)
            case _:
                assert_never(e)

    def statement(self, e: terms.Expr) -> terms.Expr:
        """Normalise a term whose value is stored: keep its structure and make its leaves scalars."""
        match e:
            case terms.Gen(low, high, body, name, mark):
                return terms.Gen(low, high, self.statement(body), name, mark)
            case terms.Reduce(monoid, low, high, body, name, mark):
                if monoid != "sum" and e.type.rank:
                    in_order = not self._one_pass and mark in (LoopMark.NONE, LoopMark.UNROLL)
                    return replace(e, body=self._all_stored(body, monoid)) if in_order else self._generated(e)
                return terms.Reduce(monoid, low, high, self.statement(body), name, mark)
            case terms.Rec(low, high, init, body, name, rows, mark):
                return terms.Rec(low, high, self.statement(init), self.statement(body), name, rows, mark)
            case terms.Guard(predicate, body):
                return terms.Guard(predicate, self.statement(body))
            case terms.Let(value, body, name, mark):
                return bind(self.statement(value), self.statement(body), name, mark)
            case terms.Concat(left, right):
                return terms.Concat(self.statement(left), self.statement(right))
            case terms.Reshape(op, operand):
                return terms.Reshape(op, self.statement(operand))
            case terms.Padding():
                return e
            case terms.Named() | terms.Number() | terms.Access() | terms.Elementwise() | terms.Select():
                return self._arithmetic(e)
            case _:
                assert_never(e)

    def _all_stored(self, e: terms.Expr, monoid: terms.Monoid) -> terms.Expr:
        """Normalise a term of a fold: all elements are stored, zero where they are padding.

        If the term is a fold of the same kind and is proved to have terms, it remains a fold. Its terms are then folded
        into the same elements.
        """
        if isinstance(e, terms.Gen):
            return replace(e, body=self._all_stored(e.body, monoid))
        if isinstance(e, terms.Let):
            return bind(self.statement(e.value), self._all_stored(e.body, monoid), e.name, e.mark)
        if isinstance(e, terms.Reduce) and e.monoid == monoid and self._has_terms(e):
            return replace(e, body=self._all_stored(e.body, monoid))
        return self._generated(e)

    def _has_terms(self, e: terms.Reduce) -> bool:
        """Return whether the range of a reduction is proved not to be empty, from the assumptions of the program."""
        used = (atom for end in (e.low, e.high) for atom in atoms(end))
        return not any(isinstance(atom, Bound) for atom in used) and proves(self._facts, less(e.low, e.high))

    def _generated(self, e: terms.Expr) -> terms.Expr:
        """Expand a term whose padding is stored by v = gen i. v[i], as a reduction of tensors (§4.3.2)."""
        variables = [Var(next(self._ids), name) for name in islice(cycle(_NAMES), e.type.rank)]
        out = self.statement(_stored(self.read(e, tuple(index(variable) for variable in variables))))
        for variable, extent in zip(reversed(variables), reversed(e.type.shape), strict=True):
            out = terms.Gen(ZERO, extent, close(out, variable), variable.name)
        return out

    def _arithmetic(self, e: terms.Expr, names: str = _NAMES) -> terms.Expr:
        """Normalise elementwise arithmetic: keep two statements with one destination, or expand by v = gen i. v[i]."""
        bindings: list[_Binding] = []
        out: terms.Expr
        if not e.type.rank:
            out = self.scalar(e, bindings)
        elif self._is_two_statements(e):
            out = terms.Binary(e.op, self.statement(e.left), self.statement(e.right))
        else:
            once = self._without_lets(e, bindings)
            variable = Var(next(self._ids), names[0])
            element = self._arithmetic(self.read(once, (index(variable),)), names[1:] + names[0])
            out = terms.Gen(ZERO, e.type.shape[0], close(element, variable), variable.name)
        for binding in reversed(bindings):
            out = bind(binding.value, close_tensor(out, binding.variable), binding.variable.name, binding.mark)
        return out

    def _is_two_statements(self, e: terms.Expr) -> TypeGuard[terms.Binary]:
        if not isinstance(e, terms.Binary) or e.op not in ("add", "sub"):
            return False
        if self._one_pass and not (self._adds_sums and _is_of_sums(e)):
            return False
        return _has_order(e.left) or _has_order(e.right)

    def _without_lets(self, e: terms.Expr, bindings: list[_Binding]) -> terms.Expr:
        """Lift the lets out of a tensor within arithmetic, so that its elements do not compute them repeatedly.

        Lets below a generation are lifted after its dimension was expanded. Reshapes and sums with a let are bound as a
        whole: the let depends on an index that only the innermost loop determines.
        """
        match e:
            case terms.Let(value, body, name, mark):
                tensor = self._bound(self.statement(value), name, bindings, mark)
                return self._without_lets(instantiate_tensor(body, tensor), bindings)
            case terms.Rec(rows=rows):
                return self._bound(self.statement(e), rows, bindings)
            case terms.Unary(op, operand):
                return terms.Unary(op, self._without_lets(operand, bindings))
            case terms.Cast(dtype, operand):
                return terms.Cast(dtype, self._without_lets(operand, bindings))
            case terms.Binary(op, left, right):
                return terms.Binary(op, self._without_lets(left, bindings), self._without_lets(right, bindings))
            case terms.Where(test, left, right):
                return terms.Where(*(self._without_lets(part, bindings) for part in (test, left, right)))
            case terms.Select(predicate, left, right):
                return terms.Select(
                    predicate,
                    self._under(predicate, left, bindings, self._without_lets),
                    self._under(negation(predicate), right, bindings, self._without_lets),
                )
            case terms.Guard(predicate, body):
                return terms.Guard(predicate, self._under(predicate, body, bindings, self._without_lets))
            case terms.Concat(left, right):
                return terms.Concat(self._without_lets(left, bindings), self._without_lets(right, bindings))
            case terms.Access():
                positions, at = _positions(e)
                if isinstance(at, terms.Reshape | terms.Rec):
                    return _accessed(self._without_lets(at, bindings), positions)
                read = e if isinstance(at, terms.Input | terms.Local | terms.TensorVar) else self.read(at, positions)
                return read if isinstance(read, terms.Access) else self._without_lets(read, bindings)
            case terms.Reshape(op, operand):
                out = terms.Reshape(op, self._without_lets(operand, bindings))
                return self._bound(self.statement(out), "reshaped", bindings) if _has_let(out) else out
            case terms.Reduce("sum") if _has_let(e):
                return self._bound(self.statement(e), RESULT_NAMES[e.monoid], bindings)
            case terms.Named() | terms.Number() | terms.Gen() | terms.Reduce() | terms.Padding():
                return e
            case _:
                assert_never(e)

    # -- reads --------------------------------------------------------------------------------------------------------

    def read(self, e: terms.Expr, at: tuple[Index, ...]) -> terms.Expr:
        """Return e[at], with the access pushed inwards as far as possible. The result is a value, never padding."""
        if not at:
            return e
        first, *rest = at
        match e:
            case terms.Named():
                return _accessed(e, at)
            case terms.Access(tensor, position):
                return self.read(tensor, (position, *at))
            case terms.Gen(low, _, body):
                return self.read(instantiate(body, low + first), tuple(rest))
            case terms.Reduce(monoid, low, high, body, name, mark):
                variable = Var(next(self._ids), name)
                inner = self.read(instantiate(body, index(variable)), at)
                # A sum may skip elements that are padding; other reductions read them as zero.
                inner = inner if monoid == "sum" else _stored(inner)
                return terms.Reduce(monoid, low, high, close(inner, variable), name, mark)
            case terms.Rec(rows=rows):
                return terms.Let(e, _accessed(terms.Local(0, e.type), at), rows)
            case terms.Guard(predicate, body):
                return _or_zero(predicate, self.read(body, at))
            case terms.Let(value, body, name, mark):
                tensor = terms.TensorVar(next(self._ids), name, value.type)
                inner = self.read(instantiate_tensor(body, tensor), at)
                return terms.Let(value, close_tensor(inner, tensor), name, mark)
            case terms.Unary(op, operand):
                return terms.Unary(op, self.read(operand, at))
            case terms.Cast(dtype, operand):
                return terms.Cast(dtype, self.read(operand, at))
            case terms.Binary(op, left, right):
                return terms.Binary(op, self.read(left, at), self.read(right, at))
            case terms.Where(test, left, right):
                return terms.Where(*(self.read(part, at) for part in (test, left, right)))
            case terms.Select(predicate, left, right):
                return terms.Select(predicate, self.read(left, at), self.read(right, at))
            case terms.Concat(left, right):
                n = left.type.shape[0]
                return terms.Select(less(first, n), self.read(left, at), self.read(right, (first - n, *rest)))
            case terms.Padding(of):
                rest_of = terms.Type(of.dtype, of.shape[len(at) :])
                return terms.Padding(rest_of) if rest_of.rank else _zero(of)
            case terms.Reshape():
                return self._read_reshaped(e, at)
            case terms.Number():
                return e
            case _:
                assert_never(e)

    def _read_reshaped(self, e: terms.Reshape, at: tuple[Index, ...]) -> terms.Expr:
        """Return the element of a reshape by its definition, or zero where there is none."""
        if len(at) < positions_needed(e.op):
            return _accessed(e, at)
        where = origin(e.op, e.operand.type.shape, at)
        value = self.read(e.operand, where.at)
        return value if where.present == TRUE else _or_zero(where.present, value)

    # -- scalars ------------------------------------------------------------------------------------------------------

    def scalar(self, e: terms.Expr, bindings: list[_Binding]) -> terms.Expr:
        """Normalise a scalar within arithmetic. Other terms in it are bound by lets, in the order of evaluation."""
        match e:
            case terms.Number() | terms.Named():
                return e
            case terms.Access():
                positions, at = _positions(e)
                if isinstance(at, terms.Input | terms.Local | terms.TensorVar):
                    return e
                return self.scalar(self.read(at, positions), bindings)
            case terms.Unary(op, operand):
                return terms.Unary(op, self.scalar(operand, bindings))
            case terms.Cast(dtype, operand):
                return terms.Cast(dtype, self.scalar(operand, bindings))
            case terms.Binary(op, left, right):
                return terms.Binary(op, self.scalar(left, bindings), self.scalar(right, bindings))
            case terms.Where(test, left, right):
                return terms.Where(*(self.scalar(part, bindings) for part in (test, left, right)))
            case terms.Select(predicate, left, right):
                return terms.Select(
                    predicate,
                    self._under(predicate, left, bindings, self.scalar),
                    self._under(negation(predicate), right, bindings, self.scalar),
                )
            case terms.Guard(predicate, body):
                return _or_zero(predicate, self._under(predicate, body, bindings, self.scalar))
            case terms.Padding():
                return _zero(e.type)
            case terms.Reduce(monoid):
                value = self.statement(e)
                # Common subexpression elimination for sums.
                return _found(value, bindings) or self._bound(value, RESULT_NAMES[monoid], bindings)
            case terms.Let(value, body, name, mark):
                tensor = self._bound(self.statement(value), name, bindings, mark)
                return self.scalar(instantiate_tensor(body, tensor), bindings)
            case terms.Gen() | terms.Rec() | terms.Concat() | terms.Reshape():
                raise AssertionError("a scalar has no dimensions")
            case _:
                assert_never(e)

    def _bound(
        self, value: terms.Expr, name: str, bindings: list[_Binding], mark: LetMark = LetMark.NONE
    ) -> terms.TensorVar:
        variable = terms.TensorVar(next(self._ids), name, value.type)
        bindings.append(_Binding(variable, value, mark))
        return variable

    def _under(
        self,
        predicate: Predicate,
        e: terms.Expr,
        bindings: list[_Binding],
        of: Callable[[terms.Expr, list[_Binding]], terms.Expr],
    ) -> terms.Expr:
        """Normalise a branch, guarding the values that it binds by its condition (ll_iverson, 2.6)."""
        inner = list(bindings)
        out = of(e, inner)
        for at in range(len(bindings), len(inner)):
            binding = replace(inner[at], value=terms.Guard(predicate, inner[at].value))
            found = _found(binding.value, bindings)
            if found is None or binding.mark is not LetMark.NONE:
                bindings.append(binding)
                continue
            out = instantiate_tensor(close_tensor(out, binding.variable), found)
            for later in range(at + 1, len(inner)):
                value = instantiate_tensor(close_tensor(inner[later].value, binding.variable), found)
                inner[later] = replace(inner[later], value=value)
        return out


def unconverted(e: terms.Expr) -> terms.Expr:
    """Return one of several results before its conversion to their common type, or the term itself.

    In a normalised program only results are tensors that are converted; other conversions are of elements.
    """
    return e.operand if isinstance(e, terms.Cast) and e.type.rank else e


def _found(value: terms.Expr, bindings: list[_Binding]) -> terms.TensorVar | None:
    """Return the variable that is already bound to this scalar value."""
    if value.type.rank:
        return None
    return next((binding.variable for binding in bindings if binding.value == value), None)


def _has_order(e: terms.Expr) -> bool:
    """Return whether elementwise evaluation would change the loop order of an operand, or repeat work.

    This holds for sums of tensors, for operands with a let below their loops, and for scatters of one element.
    """
    match e:
        case terms.Let(_, body):
            return _has_order(body)
        case terms.Binary("add" | "sub", left, right) if e.type.rank:
            return _has_order(left) or _has_order(right)
        case terms.Reduce("sum"):
            return e.type.rank > 0
        case terms.Reshape(op=terms.Place()):
            return True
        case terms.Gen() | terms.Guard() | terms.Concat() | terms.Reshape():
            return _has_let(e) or any(_has_order(child.expr) for child in children(e))
        case terms.Named() | terms.Number() | terms.Padding():
            return False
        case terms.Access() | terms.Elementwise() | terms.Select() | terms.Reduce() | terms.Rec():
            return False
        case _:
            assert_never(e)


def _is_of_sums(e: terms.Expr) -> bool:
    """Return whether each element of a tensor is a sum, or a sum of such tensors."""
    match e:
        case terms.Reduce("sum"):
            return True
        case terms.Gen(body=body) | terms.Guard(body=body) | terms.Reshape(operand=body):
            return _is_of_sums(body)
        case terms.Binary("add" | "sub", left, right):
            return _is_of_sums(left) and _is_of_sums(right)
        case terms.Reduce() | terms.Elementwise() | terms.Access() | terms.Select() | terms.Let() | terms.Rec():
            return False
        case terms.Concat() | terms.Named() | terms.Number() | terms.Padding():
            return False
        case _:
            assert_never(e)


def _has_let(e: terms.Expr) -> bool:
    """Return whether a tensor contains a let that is computed once for several of its elements."""
    if not e.type.rank or (isinstance(e, terms.Reduce) and e.monoid != "sum"):
        return False  # a maximum of tensors is done element by element, whatever is in it
    return isinstance(e, terms.Let | terms.Rec) or any(_has_let(child.expr) for child in children(e))


def _or_zero(predicate: Predicate, e: terms.Expr) -> terms.Expr:
    """Return a read of a guarded tensor: a selection of zero for a scalar, or a guard if indices remain to be read."""
    return terms.Guard(predicate, e) if e.type.rank else terms.Select(predicate, e, _zero(e.type))


def _stored(e: terms.Expr) -> terms.Expr:
    """Return a scalar that is defined everywhere: zero where it is padding."""
    match e:
        case terms.Guard(predicate, body):
            return e if e.type.rank else _or_zero(predicate, _stored(body))
        case terms.Padding(of):
            return e if of.rank else _zero(of)
        case terms.Let(value, body, name, mark):
            return bind(value, _stored(body), name, mark)
        case terms.Named() | terms.Number() | terms.Access() | terms.Reduce():
            return e
        case terms.Elementwise() | terms.Select() | terms.Gen() | terms.Rec() | terms.Concat() | terms.Reshape():
            return e
        case _:
            assert_never(e)


def _zero(of: terms.Type) -> terms.Constant:
    return terms.Constant(0, of.dtype)


def _accessed(e: terms.Expr, at: tuple[Index, ...]) -> terms.Expr:
    for position in at:
        e = terms.Access(e, position)
    return e


def _positions(e: terms.Expr) -> tuple[tuple[Index, ...], terms.Expr]:
    """Return the positions of a chain of accesses, outermost dimension first, and the accessed tensor."""
    positions: list[Index] = []
    while isinstance(e, terms.Access):
        positions.append(e.index)
        e = e.tensor
    return tuple(reversed(positions)), e
