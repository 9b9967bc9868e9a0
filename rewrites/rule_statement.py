"""Statements: a rule's equation with metavariables at certain ranks of elements, and its instances by substitution.

The Python function of a rule is called once for each choice of ranks. Its result becomes a `RuleStatement`: two terms
and premises that contain only metavariables. An instance is made by substitution; the function is called again only
for further permutations (`rule_checking.every_rank`). So the equation that was checked, the one that is applied and the
one in a certificate are the same.

In a statement an index metavariable is a `Var`, and so is each extent of a tensor metavariable. A tensor metavariable
is a `Metavariable` applied to its index and tensor arguments. A condition is a read of an array of truth values.
Element types are variables "?0", "?1", …; operands of one operation share a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations, product
from math import factorial, prod
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

from atl.core import predicate as pred
from atl.core import terms
from atl.core.dtypes import ANY_DTYPE, BOOL, is_variable
from atl.core.index import Array, Bound, Index, Leaf, Read, Var, atoms, bound, constant, index, map_leaves, read, shift
from atl.core.predicate import Any as Some
from atl.core.substitution import map_type, rebuild, shift_term, strengthen, transform, unbound
from atl.core.traversal import Child
from atl.errors import DtypeError, InvalidArgument, RankError, ShapeError, Source, brief
from atl.surface.values import Condition, IndexExpr, Tensor, as_index, as_predicate, as_tensor
from atl.text.printing import show, show_index
from rewrites.metavariables import Kind
from rewrites.rule_arguments import Argument, Arguments, Function, is_term, substituted

MAX_ELEMENT_RANK: Final = 4
"""Maximum rank of elements for which rules are checked."""
LARGEST_RANK: Final = 6
"""Maximum rank of elements at which a user-defined rule is used that is proved for every rank."""
MOST_PERMUTATIONS: Final = 36
"""Maximum number of permutations for which a rule is stated at one rank; a rule has no statement at higher ranks."""
_BASE: Final = 1 << 60
_EACH: Final = 16
"""Number of ids reserved for one metavariable and its extents."""

Ranks: TypeAlias = tuple[int, ...]
"""The rank of the elements of each group of metavariables, in the order of `groups_of`.

They are followed by the number of each permutation among those of its rank, in the order of `permuted_groups`.
"""
Extent: TypeAlias = tuple[str, int]
"""A tensor metavariable and one of its dimensions."""
ElementTypes: TypeAlias = Mapping[str, str]
"""The element type of each type variable of a statement."""


@dataclass(frozen=True, slots=True)
class Equation:
    """The equation lhs = rhs under the premises. Every element of the `tests` must be true."""

    lhs: terms.Expr
    rhs: terms.Expr
    premises: tuple[pred.Predicate, ...] = ()
    tests: tuple[terms.Expr, ...] = ()


def equation(lhs: object, rhs: object, premises: tuple[pred.Predicate | terms.Expr, ...] = ()) -> Equation:
    """Return the equation lhs = rhs under the premises, which `given` and `given_all` make.

    Raises `InvalidArgument` for premises that they did not make.
    """
    for each in premises if isinstance(premises, tuple | list) else (premises,):
        if not (pred.is_predicate(each) or (is_term(each) and each.type.dtype == BOOL)):
            raise InvalidArgument(
                f"{brief(each)} is not a premise",
                required="given(lo <= hi), of conditions on indices and sizes, or given_all(low <= high), of elements",
                suggestions=(f"equation(left, right, {'given_all' if isinstance(each, Tensor) else 'given'}(…))",),
            )
    tests = tuple(each for each in premises if is_term(each))
    conditions = tuple(each for each in premises if pred.is_predicate(each))
    return Equation(as_tensor(lhs).node, as_tensor(rhs).node, conditions, tests)


def given_all(*tests: Tensor) -> tuple[terms.Expr, ...]:
    """Return the premises that every element of these tests is true: `given_all(low <= high)`.

    A test has the shape of the sides, or is a single number. The rule applies where the tests are proved for all
    elements that arrays can have.
    """
    for test in tests:
        if not isinstance(test, Tensor) or test.dtype != BOOL:
            raise InvalidArgument(
                f"{brief(test)} is not a comparison of elements",
                required="given_all(low <= high) for tensors, and given(n <= m) for indices and sizes",
            )
    return tuple(test.node for test in tests)


def given(*conditions: Condition | bool) -> tuple[pred.Predicate, ...]:
    """Return the premises of an equation, one for each conjunct.

    Premises are conditions on indices and sizes. Raises `InvalidArgument` for tests of elements, whose values are
    unknown where a rule is applied.
    """
    for condition in conditions:
        if isinstance(condition, Tensor):
            raise InvalidArgument(
                f"the premise {show(condition.node)} is about values of elements, not about indices and sizes",
                required="conditions on indices and sizes: given(lo <= hi)",
                suggestions=("given_all(low <= high), for a premise about every element",),
            )
    return tuple(part for c in conditions for part in pred.conjuncts(as_predicate(c)))


def groups_of(metavariables: Mapping[str, Kind]) -> list[str]:
    """Return the groups of tensor metavariables; the elements of a group have the same rank."""
    return sorted({kind.group for kind in _kinds(metavariables) if kind.sort == "tensor" and kind.group})


def _kinds(metavariables: Mapping[str, Kind]) -> list[Kind]:
    kinds = list(metavariables.values())
    return kinds + [parameter for kind in kinds for parameter in kind.parameters]


def choices_of_ranks(metavariables: Mapping[str, Kind], most: int = MAX_ELEMENT_RANK) -> Iterator[Ranks]:
    """Yield every choice of ranks for the groups of a rule, with every choice of its permutations."""
    for ranks in product(range(most + 1), repeat=len(groups_of(metavariables))):
        if is_checked(metavariables, ranks):
            counts = _numbers_of_permutations(metavariables, ranks)
            yield from ((*ranks, *numbers) for numbers in product(*map(range, counts)))


def is_checked(metavariables: Mapping[str, Kind], ranks: Ranks) -> bool:
    """Return whether rules are checked at these ranks of the groups, for each choice of their permutations."""
    counts = _numbers_of_permutations(metavariables, ranks)
    return max(ranks, default=0) <= MAX_ELEMENT_RANK and prod(counts) <= MOST_PERMUTATIONS


def _numbers_of_permutations(metavariables: Mapping[str, Kind], ranks: Ranks) -> list[int]:
    of_group = dict(zip(groups_of(metavariables), ranks, strict=True))
    return [factorial(of_group.get(group, 0)) for group in permuted_groups(metavariables).values()]


def is_choice_of_ranks(metavariables: Mapping[str, Kind], ranks: Ranks) -> bool:
    """Return whether these can be the ranks of the elements of a rule, with the numbers of its permutations."""
    groups, permuted = len(groups_of(metavariables)), permuted_groups(metavariables)
    if len(ranks) != groups + len(permuted) or not all(0 <= rank <= LARGEST_RANK for rank in ranks[:groups]):
        return False
    counts = _numbers_of_permutations(metavariables, ranks[:groups])
    return all(0 <= number < count for number, count in zip(ranks[groups:], counts, strict=True))


def permuted_groups(metavariables: Mapping[str, Kind]) -> dict[str, str]:
    """Return the group whose axes each permutation among the metavariables permutes."""
    kinds = metavariables.values()
    return {kind.of_axis[0]: kind.group for kind in kinds if kind.permutes and kind.of_axis is not None}


def orders_of(metavariables: Mapping[str, Kind], ranks: Ranks) -> dict[str, tuple[int, ...]]:
    """Return the permutations among the metavariables at these ranks."""
    groups, permuted = groups_of(metavariables), permuted_groups(metavariables)
    rank_of_group = dict(zip(groups, ranks[: len(groups)], strict=True))
    return {
        name: permutations_of(rank_of_group.get(group, 0))[number]
        for (name, group), number in zip(permuted.items(), ranks[len(groups) :], strict=True)
    }


@lru_cache(maxsize=64)
def permutations_of(rank: int) -> tuple[tuple[int, ...], ...]:
    """Return the permutations of the axes of a rank, in lexicographic order."""
    return tuple(permutations(range(rank)))


def ranks_of(metavariables: Mapping[str, Kind], arguments: Arguments) -> Ranks:
    """Return the ranks of the elements of these arguments, and the numbers of the permutations among them.

    Raises `RankError` if two ranks in a group differ, or if a permutation does not have each axis once.
    """
    found: dict[str, int] = {}

    def note(name: str, kind: Kind, rank: int) -> None:
        if kind.sort == "tensor" and kind.group and found.setdefault(kind.group, rank - kind.rank) != rank - kind.rank:
            raise RankError(
                f"{name} has elements of rank {rank - kind.rank}, other metavariables of rank {found[kind.group]}",
                required="elements of the same rank for all metavariables of a group",
            )

    for name, kind in metavariables.items():
        argument = arguments[name]
        body = argument.body if isinstance(argument, Function) else argument
        if is_term(body):
            note(name, kind, body.type.rank)
        if isinstance(argument, Function):
            for parameter, of in zip(kind.parameters, argument.parameters, strict=False):
                if isinstance(of, terms.Type):
                    note(name, parameter, of.rank)
    numbers = []
    for name, group in permuted_groups(metavariables).items():
        rank = found.get(group, 0)
        axes = tuple(arguments[f"{name}_{axis}"] for axis in range(rank))
        order = tuple(axis.constant if isinstance(axis, Index) else None for axis in axes)
        if rank > LARGEST_RANK or order not in permutations_of(rank):
            raise RankError(
                f"{name} = {order} is not a permutation of the axes of elements of rank {rank}",
                required=f"each of the {rank} axes once, and a rank of {LARGEST_RANK} or less",
            )
        numbers.append(permutations_of(rank).index(order))
    return (*(found.get(group, 0) for group in groups_of(metavariables)), *numbers)


# -- statements -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RuleStatement:
    """An equation with metavariables, at certain ranks of elements.

    `names` and `extents` map the id of each variable to its metavariable, or to its extent. `element_types` holds the
    type variable or the concrete type of each tensor metavariable, `parameter_types` that of each tensor parameter.
    The equation holds where every element of the `tests` is true (`rewrites.rule_checking.element_premises`).
    """

    metavariables: Mapping[str, Kind]
    ranks: Ranks
    lhs: terms.Expr
    rhs: terms.Expr
    premises: tuple[pred.Predicate, ...]
    element_types: Mapping[str, str]
    parameter_types: Mapping[tuple[str, int], str]
    type_variables: tuple[str, ...]
    tests: tuple[terms.Expr, ...] = ()
    names: Mapping[int, str] = field(init=False)
    extents: Mapping[int, Extent] = field(init=False)

    @property
    def rank_of_group(self) -> dict[str, int]:
        """The rank of the elements of each group."""
        return dict(zip(groups_of(self.metavariables), self.ranks, strict=False))

    @property
    def element_ranks(self) -> Ranks:
        """The rank of the elements of each group, in the order of `groups_of`, without permutations."""
        return tuple(self.rank_of_group.values())

    def __post_init__(self) -> None:
        variables = Variables(self.metavariables, self.ranks)
        object.__setattr__(self, "names", MappingProxyType(variables.names))
        object.__setattr__(self, "extents", MappingProxyType(variables.extents))

    def instance(self, arguments: Arguments, dtype: str | None = None) -> Equation:
        """Return the equation for these arguments; `dtype` is the element type if they do not determine one.

        Raises `DtypeError`, `RankError` or `ShapeError` if the sides cannot be built from the arguments.
        """
        return _Instance(self, arguments, dtype).equation()

    def premises_for(self, arguments: Arguments) -> tuple[pred.Predicate, ...]:
        """Return the premises for these arguments, without building the sides."""
        return _Instance(self, arguments, None).premises()

    def extents_for(self, arguments: Arguments) -> tuple[Index, ...]:
        """Return the extents of the tensors among these arguments; those that depend on a parameter are left out."""
        made = _Instance(self, arguments, None)
        found = (made.fixed_extent(*extent) for extent in self.extents.values())
        return tuple(extent for extent in found if extent is not None)

    def types_of(self, arguments: Arguments, dtype: str | None = None) -> ElementTypes:
        """Return the element types that these arguments determine for the type variables."""
        return _Instance(self, arguments, dtype).types


def axis_numbers(stated: RuleStatement) -> dict[str, int]:
    """Return the axis number of each metavariable that is an entry of a permutation; 0 for axes above its rank."""
    orders = orders_of(stated.metavariables, stated.ranks)
    found: dict[str, int] = {}
    for name, kind in stated.metavariables.items():
        if kind.permutes and kind.of_axis is not None:
            whole, axis = kind.of_axis
            found[name] = orders[whole][axis] if axis < len(orders[whole]) else 0
    return found


@lru_cache(maxsize=1024)
def unused_indices(stated: RuleStatement) -> frozenset[str]:
    """Return the index metavariables that a statement does not use, such as those of axes above its rank."""
    used: set[int] = set()
    for part in (stated.lhs, stated.rhs, *stated.premises, *stated.tests):
        used |= part.free
    indices = ((uid, name) for uid, name in stated.names.items() if stated.metavariables[name].sort == "index")
    return frozenset(name for uid, name in indices if uid not in used)


class Variables:
    """The variables of a statement: one for each metavariable and for each extent of a tensor metavariable."""

    def __init__(self, metavariables: Mapping[str, Kind], ranks: Ranks) -> None:
        self.metavariables = metavariables
        self.ranks = ranks
        groups = groups_of(metavariables)
        self.rank_of_group = dict(zip(groups, ranks[: len(groups)], strict=True))
        self.orders = orders_of(metavariables, ranks)
        self.names: dict[int, str] = {}
        self.extents: dict[int, Extent] = {}
        self.types: dict[str, terms.Type] = {}
        self.arrays: dict[str, Array] = {}
        self._uids: dict[str, int] = {}
        for position, (name, kind) in enumerate(metavariables.items()):
            uid = self._uids[name] = _BASE + position * _EACH
            if kind.sort == "condition":
                self.arrays[name] = Array(name, tuple(constant(0) for _ in kind.parameters), BOOL)
                continue
            self.names[uid] = name
            if kind.sort == "tensor":
                dimensions = range(self.rank(kind))
                self.extents.update({uid + 1 + dimension: (name, dimension) for dimension in dimensions})
                self.types[name] = terms.Type(ANY_DTYPE, tuple(index(self.extent(name, at)) for at in dimensions))

    def rank(self, kind: Kind) -> int:
        """Return the rank of a tensor of this kind."""
        return kind.rank + self.rank_of_group.get(kind.group, 0)

    def extent(self, name: str, dimension: int) -> Var:
        """Return the variable for an extent of a tensor metavariable."""
        return Var(self._uids[name] + 1 + dimension, f"{name}_{dimension}")

    def uid(self, name: str) -> int:
        """Return the id of a metavariable's own variable."""
        return self._uids[name]

    def variable(self, uid: int) -> Var | None:
        """Return the index variable with this id, if there is one."""
        if uid in self.extents:
            return self.extent(*self.extents[uid])
        name = self.names.get(uid)
        return Var(uid, name) if name is not None and self.metavariables[name].sort == "index" else None

    def given(self) -> dict[str, object]:
        """Return the values that the function of the rule is called with, by name: of `Indices`, a tuple."""
        out: dict[str, object] = {}
        axes: dict[str, list[object]] = {}
        for name, kind in self.metavariables.items():
            if kind.of_axis is None:
                out[name] = self.surface(name)
                continue
            whole, axis = kind.of_axis
            if kind.group not in self.rank_of_group:
                raise InvalidArgument(
                    f"{whole} is for the axes of elements of which the rule has none",
                    required="a tensor among the parameters whose elements have these axes, such as v: Elem",
                )
            found = axes.setdefault(whole, [])
            if axis < self.rank_of_group[kind.group]:
                found.append(self.orders[whole][axis] if kind.permutes else self.surface(name))
        return {**out, **{whole: tuple(found) for whole, found in axes.items()}}

    def surface(self, name: str) -> object:
        """Return the value of a metavariable that the function of the rule is called with."""
        kind = self.metavariables[name]
        if kind.sort == "index":
            return IndexExpr(index(Var(self._uids[name], name)))
        call = self._condition(name) if kind.sort == "condition" else self._tensor(name)
        return call if kind.parameters else call()

    def _condition(self, name: str) -> Callable[..., Condition]:
        def call(*at: object) -> Condition:
            self._check_count(name, at)
            return Condition(pred.NonNegative(read(self.arrays[name], tuple(map(as_index, at)))))

        return call

    def _tensor(self, name: str) -> Callable[..., Tensor]:
        kinds = self.metavariables[name].parameters

        def call(*at: object) -> Tensor:
            self._check_count(name, at)
            pairs = list(zip(kinds, at, strict=True))
            indices = tuple(as_index(value) for kind, value in pairs if kind.sort == "index")
            tensors = tuple(as_tensor(value).node for kind, value in pairs if kind.sort == "tensor")
            return Tensor(terms.Metavariable(self._uids[name], name, self.types[name], indices, tensors))

        return call

    def _check_count(self, name: str, at: tuple[object, ...]) -> None:
        wanted = len(self.metavariables[name].parameters)
        if len(at) != wanted:
            raise InvalidArgument(
                f"{name} takes {wanted} argument{'' if wanted == 1 else 's'}, {len(at)} given",
                required="one argument for each parameter in its annotation",
            )


# -- conditions -------------------------------------------------------------------------------------------------------


def condition_variable(predicate: pred.Predicate) -> tuple[str, tuple[Index, ...]] | None:
    """Return the name and the indices of a condition metavariable; None for any other predicate."""
    if not isinstance(predicate, pred.NonNegative):
        return None
    match predicate.expression.atom:
        case Read(array, indices) if array.dtype == BOOL:
            return array.name, indices
        case _:
            return None


def map_predicate(
    predicate: pred.Predicate,
    on_index: Callable[[Index], Index],
    on_condition: Callable[[str, tuple[Index, ...]], pred.Predicate],
) -> pred.Predicate:
    """Replace the indices and the condition metavariables in a predicate of a statement."""
    for turned in (False, True):
        variable = condition_variable(pred.negation(predicate) if turned else predicate)
        if variable is not None:
            found = on_condition(*variable)
            return pred.negation(found) if turned else found
    match predicate:
        case pred.NonNegative() | pred.Zero() | pred.NonZero():
            return pred.map_indices(predicate, on_index)
        case pred.All(parts):
            return pred.conjunction(map_predicate(part, on_index, on_condition) for part in parts)
        case Some(parts):
            return pred.disjunction(map_predicate(part, on_index, on_condition) for part in parts)
        case _:
            assert_never(predicate)


# -- instances --------------------------------------------------------------------------------------------------------


class _Instance:
    """Substitution of arguments for the metavariables of a statement."""

    def __init__(self, statement: RuleStatement, arguments: Arguments, dtype: str | None) -> None:
        self.statement = statement
        self.arguments = arguments
        self.types = self._types(dtype)
        self._source: Source | None = None
        self._shapes: list[pred.Predicate] = []
        self._claimed: dict[tuple[str, int], Index] = {}

    def equation(self) -> Equation:
        self._source = Source.caller()
        lhs, rhs = (self._term(side, 0, 0) for side in (self.statement.lhs, self.statement.rhs))
        tests = tuple(self._term(test, 0, 0) for test in self.statement.tests)
        return Equation(lhs, rhs, (*self.premises(), *dict.fromkeys(self._shapes)), tests)

    def premises(self) -> tuple[pred.Predicate, ...]:
        found = (self._predicate(premise, 0) for premise in self.statement.premises)
        return tuple(part for premise in found for part in pred.conjuncts(premise))

    # -- element types

    def _types(self, dtype: str | None) -> ElementTypes:
        found: dict[str, str] = {}
        for name, variable in self.statement.element_types.items():
            self._note(found, variable, name, _body(self.arguments.get(name)))
        for (name, at), variable in self.statement.parameter_types.items():
            argument = self.arguments.get(name)
            parameters = argument.parameters if isinstance(argument, Function) else ()
            of = [parameter for parameter in parameters if isinstance(parameter, terms.Type)]
            self._note(found, variable, name, of[at] if at < len(of) else None)
        side = str(self.statement.lhs.type.dtype)
        if dtype is not None and is_variable(side):
            found.setdefault(side, dtype)
        return found

    def _note(self, found: dict[str, str], variable: str, name: str, of: object) -> None:
        dtype = of.type.dtype if is_term(of) else of.dtype if isinstance(of, terms.Type) else None
        if dtype is None:
            return
        wanted = found.setdefault(variable, dtype) if is_variable(variable) else variable
        if wanted != dtype:
            raise DtypeError(
                f"{name} has elements of {dtype}, where the rule has {wanted}",
                required="operands of one element type",
                suggestions=(f'atl.cast("{wanted}", …)',),
            )

    def _dtype(self, of: str | None) -> str | None:
        return self.types.get(of) if of is not None and is_variable(of) else of

    def _type(self, of: terms.Type, depth: int) -> terms.Type:
        return terms.Type(self._dtype(of.dtype), tuple(self._index(extent, depth) for extent in of.shape))

    # -- terms

    def _term(self, at: terms.Expr, indices: int, tensors: int) -> terms.Expr:
        match at:
            case terms.Metavariable():
                return self._application(at, indices, tensors)
            case terms.Constant(value, dtype):
                return terms.Constant(value, self._dtype(dtype))
            case terms.Value(value, dtype):
                return terms.Value(self._index(value, indices), self._dtype(dtype))
            case terms.Padding(of):
                return terms.Padding(self._type(of, indices))
            case terms.Local(position, of):
                return terms.Local(position, self._type(of, indices))
            case _:

                def child(part: Child) -> terms.Expr:
                    return self._term(part.expr, indices + part.indices, tensors + part.tensors)

                made = rebuild(at, child, lambda e: self._index(e, indices), lambda p: self._predicate(p, indices))
                # Point to the line that applies the rule, not to the first use of the cached statement.
                object.__setattr__(made, "source", self._source)  # a new node, as all leaves are new
                return made

    def _application(self, at: terms.Metavariable, indices: int, tensors: int) -> terms.Expr:
        argument = self.arguments[at.name]
        dtype = self._dtype(at.of.dtype)
        if not isinstance(argument, Function):
            assert is_term(argument)
            made = shift_term(argument, indices, tensors)
        else:
            assert is_term(argument.body)
            body = shift_under(argument.body, indices, tensors, argument.indices, argument.tensors)
            given_indices = tuple(self._index(expression, indices) for expression in at.indices)
            given_tensors = tuple(self._term(tensor, indices, tensors) for tensor in at.tensors)
            made = substituted(body, given_indices, given_tensors)
            self._claim_shape(at, made, indices)
        return made if dtype is None else strengthen(made, dtype)

    def _claim_shape(self, at: terms.Metavariable, made: terms.Expr, depth: int) -> None:
        """Require that a function returns tensors of one shape, as the statement assumes.

        The required shape is that of the function's body. It may depend on a parameter; then the shape at the first
        application is required. A shape that is written differently becomes a premise.
        """
        for dimension, extent in enumerate(made.type.shape):
            if any(isinstance(atom, Bound) and atom.position < depth for atom in atoms(extent)):
                raise ShapeError(
                    f"the shape of the result of {at.name} depends on an index that is bound in the rule",
                    required="a function that returns tensors of one shape",
                )
            here = shift(extent, -depth, depth)
            claimed = self.fixed_extent(at.name, dimension)
            if claimed is None:
                claimed = self._claimed.setdefault((at.name, dimension), here)
            if here != claimed:
                self._shapes.append(self._equal_extents(at.name, here, claimed))

    def _equal_extents(self, name: str, here: Index, claimed: Index) -> pred.Predicate:
        same = pred.equal(here, claimed)
        if same == pred.FALSE:
            raise ShapeError(
                f"{name} returns tensors of different shapes: a dimension is {show_index(here)} at one place"
                f" of the rule and {show_index(claimed)} at another",
                required="a function that returns tensors of one shape",
            )
        return same

    # -- indices and predicates

    def _index(self, expression: Index, depth: int) -> Index:
        return map_leaves(expression, lambda leaf: self._leaf(leaf, depth))

    def _leaf(self, leaf: Leaf, depth: int) -> Index:
        if not isinstance(leaf, Var):
            return index(leaf)
        extent = self.statement.extents.get(leaf.uid)
        if extent is not None:
            return shift(self._extent(*extent), depth)
        value = self.arguments[self.statement.names[leaf.uid]]
        assert isinstance(value, Index)
        return shift(value, depth)

    def _extent(self, name: str, dimension: int) -> Index:
        found = self.fixed_extent(name, dimension)
        if found is None:
            raise ShapeError(
                f"dimension {dimension} of {name} has an extent that depends on its index",
                required="a function that returns tensors of one shape",
            )
        return found

    def fixed_extent(self, name: str, dimension: int) -> Index | None:
        """Return an extent of an argument; None if it depends on a parameter of the argument."""
        argument = self.arguments[name]
        own = argument.indices if isinstance(argument, Function) else 0
        body = _body(argument)
        assert is_term(body)
        found = body.type.shape[dimension]
        if any(isinstance(atom, Bound) and atom.position < own for atom in atoms(found)):
            return None
        return shift(found, -own)

    def _predicate(self, predicate: pred.Predicate, depth: int) -> pred.Predicate:
        def on_condition(name: str, at: tuple[Index, ...]) -> pred.Predicate:
            found = self.arguments[name]
            if isinstance(found, Function):
                assert pred.is_predicate(found.body)
                own = found.indices
                body = pred.map_indices(found.body, lambda e: shift(e, depth, own))
                return substituted(body, tuple(self._index(place, depth) for place in at), ())
            assert pred.is_predicate(found)
            return pred.map_indices(found, lambda e: shift(e, depth))

        return map_predicate(predicate, lambda e: self._index(e, depth), on_condition)


def _body(argument: Argument | None) -> Argument | None:
    return argument.body if isinstance(argument, Function) else argument


def shift_under(body: terms.Expr, indices: int, tensors: int, own: int, own_tensors: int) -> terms.Expr:
    """Shift the body of a function under more binders; its parameters stay."""
    if not indices and not tensors:
        return body

    def on_leaf(leaf: Leaf, depth: int) -> Index:
        if isinstance(leaf, Bound) and leaf.position >= own + depth:
            return bound(leaf.position + indices)
        return index(leaf)

    def on_tensor(at: terms.Local | terms.TensorVar, depth: int, tensor_depth: int) -> terms.Expr | None:
        if isinstance(at, terms.Local) and at.position >= own_tensors + tensor_depth:
            of = map_type(at.of, lambda e: map_leaves(e, lambda leaf: on_leaf(leaf, depth)))
            return terms.Local(at.position + tensors, of)
        return None

    return transform(body, on_leaf, on_tensor, untouched=unbound(own, own_tensors))
