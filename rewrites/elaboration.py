"""Construction of statements from the functions of rules, with the check that they use only metavariables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

from atl.checks.validation import check_class, validated_index, validated_predicate
from atl.core import terms
from atl.core.dtypes import ANY_DTYPE, BOOL, ELEMENTS, checked_dtype, is_variable
from atl.core.index import Index, Read, Size, Var, atoms, read
from atl.core.operations import COMPARISONS
from atl.core.predicate import NonNegative, Predicate, conjuncts
from atl.core.substitution import binds_by_type, rebuild
from atl.core.traversal import children
from atl.errors import DtypeError, InvalidArgument, RankError, brief
from atl.surface.numpy_forms import without_broadcasting
from rewrites.metavariables import Kind
from rewrites.rule_statement import Equation, Ranks, RuleStatement, Variables, map_predicate


def stated(function: Callable[..., object], metavariables: Mapping[str, Kind], ranks: Ranks) -> RuleStatement:
    """Call the function of a rule once, for elements of these ranks, and return its statement.

    Raises the errors of the function, and `InvalidArgument` for a result that is not an equation of metavariables.
    """
    variables = Variables(metavariables, ranks)
    with without_broadcasting():
        made = function(**variables.given())
    if type(made) is not Equation:
        raise InvalidArgument(
            f"the function of a rule returned {brief(made)}", required="equation(left, right, given(premises))"
        )
    return checked(variables, made)


def checked(variables: Variables, made: Equation) -> RuleStatement:
    """Return an equation as a statement, with its element types as variables.

    Raises `InvalidArgument` if the equation contains anything but metavariables.
    """
    return _Checked(variables).statement(made)


# -- checks -----------------------------------------------------------------------------------------------------------

_Class: TypeAlias = "str | int | tuple[str, int]"
"""A member of an equivalence class of equal element types: a type, metavariable, parameter, or numbered node."""
_ITSELF: Final = -1
"""The position that denotes a metavariable itself rather than one of its parameters."""


class _Checked:
    """Checks that an equation uses only its metavariables, and infers which parts have equal element types."""

    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        self._parents: dict[_Class, _Class] = {}
        self._numbers = count()
        self._called: dict[_Class, str] = {}

    def statement(self, made: Equation) -> RuleStatement:
        variables = self.variables
        premises = tuple(self._predicate(premise) for premise in made.premises)
        sides = (made.lhs, made.rhs)
        self._join(*(self._class(side, ()) for side in sides))
        for test in made.tests:
            self._join(self._class(test, ()), BOOL)
            if test.type.rank not in (0, made.lhs.type.rank):
                raise RankError(
                    f"a premise is about elements of a tensor of rank {test.type.rank}, and the sides have rank"
                    f" {made.lhs.type.rank}",
                    required="a test of the shape of the sides, or of a single number",
                    suggestions=("use where(test, …, …) in the sides, at the elements that the test is about",),
                )
        kinds = variables.metavariables
        tensors = [name for name, kind in kinds.items() if kind.sort == "tensor"]
        parameters = [
            (name, at)
            for name in tensors
            for at in range(sum(parameter.sort == "tensor" for parameter in kinds[name].parameters))
        ]
        element_types = {name: self._dtype((name, _ITSELF)) for name in tensors}
        parameter_types = {each: self._dtype(each) for each in parameters}
        self._numbers = count()
        lhs, rhs, *tests = (self._retyped(part, ()) for part in (*sides, *made.tests))
        for part in (lhs, rhs, *premises, *tests):
            if part.loose or part.loose_tensors:
                raise _foreign("an index or a tensor that is bound outside of the rule")
        return RuleStatement(
            MappingProxyType(dict(kinds)),
            variables.ranks,
            lhs,
            rhs,
            tuple(part for premise in premises for part in conjuncts(premise)),
            MappingProxyType(element_types),
            MappingProxyType(parameter_types),
            tuple(dict.fromkeys(self._called.values())),
            tuple(tests),
        )

    # Union-find of equal element types. A concrete type (a string of `ELEMENTS`) represents its class.

    def _root(self, of: _Class) -> _Class:
        while of in self._parents:
            of = self._parents[of]
        return of

    def _join(self, one: _Class, other: _Class) -> _Class:
        first, second = self._root(one), self._root(other)
        if first == second:
            return first
        if first in ELEMENTS and second in ELEMENTS:
            raise DtypeError(
                f"the sides of a rule have elements of {first} and {second}", required="one element type on both sides"
            )
        if first in ELEMENTS:
            first, second = second, first
        self._parents[first] = second
        return second

    def _dtype(self, of: _Class) -> str:
        root = self._root(of)
        if isinstance(root, str) and root in ELEMENTS:
            return root
        return self._called.setdefault(root, f"{ANY_DTYPE}{len(self._called)}")

    def _class(self, term: terms.Expr, around: tuple[_Class, ...]) -> _Class:
        """Return the class of a term's element type; `around` are the classes of the enclosing let-bound tensors."""
        check_class(term)
        match term:
            case terms.Metavariable():
                self._check_application(term)
                for at, tensor in enumerate(term.tensors):
                    self._join((term.name, at), self._class(tensor, around))
                return term.name, _ITSELF
            case terms.Constant(dtype=dtype) | terms.Value(dtype=dtype) | terms.Padding(terms.Type(dtype)):
                number = next(self._numbers)
                return number if dtype is None or is_variable(dtype) else self._join(number, checked_dtype(dtype))
            case terms.Local(position):
                if position >= len(around):
                    raise _foreign("a tensor that is bound outside of the rule")
                return around[-1 - position]
            case terms.Cast(dtype, operand):
                self._class(operand, around)
                return dtype
            case terms.Let(value, body):
                return self._class(body, (*around, self._class(value, around)))
            case terms.Where(test, left, right):
                self._join(self._class(test, around), BOOL)
                return self._join(self._class(left, around), self._class(right, around))
            case terms.Binary(op, left, right) if op in COMPARISONS:
                self._join(self._class(left, around), self._class(right, around))
                return BOOL
            case terms.Rec(_, _, init, body):
                rows = self._class(init, around)
                return self._join(rows, self._class(body, (*around, rows)))
            case terms.Binary(_, left, right) | terms.Select(_, left, right) | terms.Concat(left, right):
                return self._join(self._class(left, around), self._class(right, around))
            case terms.Gen() | terms.Reduce() | terms.Guard() | terms.Access() | terms.Unary() | terms.Reshape():
                (child,) = children(term)
                return self._class(child.expr, around)
            case terms.Input(array):
                raise _foreign(array.name)
            case terms.TensorVar(_, name):
                raise _foreign(name)
            case _:
                assert_never(term)

    def _retyped(self, term: terms.Expr, around: tuple[str, ...]) -> terms.Expr:
        """Rebuild the term with type variables. Nodes are numbered in the same order as in `_class`."""
        match term:
            case terms.Metavariable():
                tensors = tuple(self._retyped(tensor, around) for tensor in term.tensors)
                of = terms.Type(self._dtype((term.name, _ITSELF)), self.variables.types[term.name].shape)
                indices = tuple(map(self._index, term.indices))
                return terms.Metavariable(self.variables.uid(term.name), term.name, of, indices, tensors)
            case terms.Constant(value):
                return terms.Constant(value, self._dtype(next(self._numbers)))
            case terms.Value(value):
                return terms.Value(self._index(value), self._dtype(next(self._numbers)))
            case terms.Padding(terms.Type(_, shape)):
                return terms.Padding(terms.Type(self._dtype(next(self._numbers)), tuple(map(self._index, shape))))
            case terms.Local(position, terms.Type(_, shape)):
                return terms.Local(position, terms.Type(around[-1 - position], tuple(map(self._index, shape))))
            case terms.Let(value, body, name, mark):
                made = self._retyped(value, around)
                return _bound(terms.Let(made, self._retyped(body, (*around, str(made.type.dtype))), name, mark), name)
            case terms.Rec(low, high, init, body, name, rows, mark):
                made = self._retyped(init, around)
                later = self._retyped(body, (*around, str(made.type.dtype)))
                return _bound(terms.Rec(self._index(low), self._index(high), made, later, name, rows, mark), rows)
            case _:
                return rebuild(term, lambda child: self._retyped(child.expr, around), self._index, self._predicate)

    # -- contents of a statement

    def _check_application(self, term: terms.Metavariable) -> None:
        variables = self.variables
        kind = variables.metavariables.get(term.name)
        known = kind is not None and kind.sort == "tensor" and term.uid == variables.uid(term.name)
        if kind is None or not known or term.of != variables.types[term.name]:
            raise _foreign(term.name)
        tensors = [parameter for parameter in kind.parameters if parameter.sort == "tensor"]
        if len(term.indices) + len(term.tensors) != len(kind.parameters) or len(term.tensors) != len(tensors):
            raise _foreign(f"{term.name} with wrong arguments")
        for parameter, tensor in zip(tensors, term.tensors, strict=True):
            if tensor.type.rank != variables.rank(parameter):
                raise RankError(
                    f"{term.name} is applied to a tensor of rank {tensor.type.rank}",
                    required=f"a tensor of rank {variables.rank(parameter)}",
                )

    def _index(self, expression: Index) -> Index:
        for atom in atoms(expression):
            match atom:
                case Size(name):
                    raise _foreign(name)
                case Var(uid, name) if self.variables.variable(uid) != atom:
                    raise _foreign(name)
                case Read(array):
                    raise _foreign(f"{array.name} as a number" if array.dtype == BOOL else array.name)
                case _:
                    pass
        return validated_index(expression)

    def _predicate(self, predicate: Predicate) -> Predicate:
        return map_predicate(validated_predicate(predicate), self._index, self._condition)

    def _condition(self, name: str, at: tuple[Index, ...]) -> Predicate:
        array = self.variables.arrays.get(name)
        if array is None or len(array.shape) != len(at):
            raise _foreign(name)
        return NonNegative(read(array, tuple(map(self._index, at))))


def _bound(made: terms.Let | terms.Rec, name: str) -> terms.Expr:
    """Return a node that binds a tensor with the type that follows from its value."""
    if not binds_by_type(made):
        raise _foreign(f"the let-bound {name} with a type that differs from its value's")
    return made


def _foreign(what: str) -> InvalidArgument:
    return InvalidArgument(
        f"a rule uses {what}, which is not one of its parameters",
        required="sides and premises that contain only the parameters",
        suggestions=("make it a parameter of the rule, for instance n: Index",),
    )
