"""Grade 2 for rules: at every size up to a bound, with every index, and for all element values, both sides are equal.

A rule is instantiated with integers for its index metavariables and generic arrays for its tensors; a function of
indices reads a generic array, a condition takes every threshold. Elements are polynomials, so that a run at one choice
of integers proves the equation there for all values. Where a premise is false, or a side has no meaning, nothing is
claimed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import prod
from random import Random
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import IndexExpr, Tensor
from atl.checks.scope import Scope, parts_in_scope
from atl.checks.wellformed import obligations
from atl.core.index import ONE, Array, Index, Size, constant, index
from atl.core.predicate import FALSE, TRUE, Predicate, equal
from atl.core.program import Program
from atl.core.terms import Expr, Input, Type
from atl.core.traversal import arrays_in, subterms
from atl.errors import ATLError, WrongArgument
from atl.meaning.interpret import denote
from atl.meaning.polynomials import Polynomials, symbol
from atl.meaning.scalars import Scalars
from atl.prove import Facts, Proved, prove
from rewrites.instantiation import Argument, Function, abstracted, applied, of_indices
from rewrites.matching.patterns import groups_of
from rewrites.rule import Equation, Kind, Rule

WINDOW: Final = range(-1, 4)
"""The values of index metavariables."""
EXTENTS: Final = range(4)
"""The extents of tensors."""
LARGE: Final[dict[range, Sequence[int]]] = {WINDOW: range(-2, 9), EXTENTS: range(7)}
NEGATIVE: Final[dict[range, Sequence[int]]] = {WINDOW: (-2, -1, -1, 0, 1, 2, 3)}
"""What indices and extents are drawn from besides, where not every choice can be tried."""
REACH: Final = 12
"""Generic functions of indices are told apart from -REACH to REACH; beyond they are zero."""
LOOKED_AT: Final = (0, 10, 4)
"""How many elements of each dimension a generic function of a tensor reads, by the number of dimensions."""
UNIT: Final = "unit"
"""A size that is one: with it an index is written in a way from which its value is not read off."""
SPELLED: Final = 40
"""How many choices of a rule are tried with such indices."""
CASES: Final = 300
"""The most choices of one rule; of a larger space as many are drawn by a seed."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A choice at which the sides of a rule differ; `first` is an element in which they do, if their shapes agree."""

    choice: str
    left: str
    right: str
    sizes: Mapping[str, int] = field(default_factory=dict, repr=False)
    first: tuple[tuple[int, ...], Any, Any] | None = field(default=None, repr=False)
    elements: Mapping[str, Any] = field(default_factory=dict, repr=False)


Side: TypeAlias = tuple[tuple[int, ...], npt.NDArray[Any]]
"""What a side of a rule means: its shape and its elements."""


@dataclass(slots=True)
class Verdict:
    """How a rule fared: in how many choices both sides were equal, and a counterexample, if there is one."""

    rule: str
    decided: int = 0
    passed_over: int = 0
    whole: bool = True
    counterexample: Counterexample | None = None
    ranks: set[int] = field(default_factory=set)


@lru_cache(maxsize=1024)
def symbols(name: str, extents: tuple[int, ...]) -> npt.NDArray[Any]:
    """An array whose elements are symbols; made once, as the same ones serve all choices of a rule."""
    made = np.empty(extents, dtype=object)
    for at in np.ndindex(*extents):
        made[at] = symbol(f"{name}{list(at)}")
    made.setflags(write=False)
    return made


def filled(extents: tuple[int, ...], element: Callable[[], Any]) -> npt.NDArray[Any]:
    """An array whose elements are made one after the other, row by row."""
    made = np.empty(extents, dtype=object)
    for at in np.ndindex(*extents):
        made[at] = element()
    return made


class Generic:
    """Generic arguments for a rule, for one choice of integers, and the arrays that they read."""

    def __init__(self, ranks: dict[str, int], choice: dict[str, int]) -> None:
        self.ranks = ranks
        self.choice = choice
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.inputs: list[Array] = []

    def argument(self, name: str, kind: Kind) -> Argument:
        match kind.sort:
            case "index":
                return constant(self.choice[name])
            case "condition":
                return self._condition(name, kind)
            case "tensor":
                return self._tensor(name, kind)

    def _condition(self, name: str, kind: Kind) -> Argument:
        at = self.choice[name]
        if not kind.parameters:
            return TRUE if at > 0 else FALSE
        # Each threshold, and each single index.
        holds = (lambda *i: _total(i) == at) if at % 2 else (lambda *i: _total(i) < at)
        return abstracted(of_indices(len(kind.parameters)), holds)

    def _tensor(self, name: str, kind: Kind) -> Argument:
        extents = [self.choice[f"{name}.{k}"] for k in range(kind.rank)] + [2] * self.ranks.get(kind.group, 0)
        indices = [parameter for parameter in kind.parameters if parameter.sort == "index"]
        tensors = [parameter for parameter in kind.parameters if parameter.sort == "tensor"]
        source = self.array(name, [2 * REACH + 1] * len(indices) + extents)
        if not kind.parameters:
            return source.node
        types: list[Any] = ["index" for _ in indices]
        types += [self.type_of(parameter) for parameter in tensors]

        def value(*given: Any) -> Tensor:
            out = source
            for position in given[: len(indices)]:
                out = out[position + REACH]
            for number, bound in enumerate(given[len(indices) :]):
                out = out + self.weighed(f"{name}_{number}", bound, extents)
            return out

        return abstracted(tuple(types), value)

    def weighed(self, name: str, bound: Tensor, extents: list[int]) -> Tensor:
        """Every element of a bound tensor, each with a weight of its own, in every element of a result.

        It is no linear function of the elements: a rule that holds of those only is found false.
        """
        bound = bound * bound + bound
        weights = self.array(name, [*extents, *(extent.node.constant or 0 for extent in bound.shape)])

        def total(*at: IndexExpr) -> Tensor:
            if not bound.rank:
                return weights[at] * bound if at else weights * bound
            return atl.sum(*bound.shape, lambda *k: weights[(*at, *k)] * bound[k])

        return atl.gen(*extents, total) if extents else total()

    def type_of(self, kind: Kind) -> Type:
        extents = [LOOKED_AT[kind.rank]] * kind.rank + [2] * self.ranks.get(kind.group, 0)
        return Type("float64", tuple(constant(extent) for extent in extents))

    def elements(self, name: str, extents: tuple[int, ...], /) -> npt.NDArray[Any]:
        """What an array holds: a symbol for each element, so that what is found holds for all values."""
        return symbols(name, extents)

    def array(self, name: str, extents: list[int]) -> Tensor:
        if name not in self.arrays:
            self.arrays[name] = self.elements(name, tuple(extents))
            self.inputs.append(Array(name, tuple(constant(extent) for extent in extents), "float64"))
        found = next(array for array in self.inputs if array.name == name)
        return Tensor(Input(found))


class Spelled(Generic):
    """Drawn from a wider window: indices are written with a size, functions may not use their parameters, and
    conditions hold anywhere.

    So nothing that a rule relies on is decided while it is stated: 0 // k is 0 whatever k is, and a function that does
    not use p // k asks for no positive k.
    """

    def __init__(self, ranks: dict[str, int], choice: dict[str, int], random: Random) -> None:
        super().__init__(ranks, choice)
        self.random = random
        self.written: list[Index] = []

    @staticmethod
    def drawn(rule: Rule, ranks: dict[str, int], random: Random) -> Spelled:
        # Small and often negative, or large; but a product of many sums has too many terms.
        other = LARGE if "product" not in rule.name and random.random() < 0.5 else NEGATIVE
        drawn = {name: random.choice(other.get(of, of)) for name, of in spaces(rule).items()}
        return Spelled(ranks, drawn, random)

    def _condition(self, name: str, kind: Kind) -> Argument:
        if not kind.parameters or self.random.random() < 0.5:
            return super()._condition(name, kind)
        period = self.random.randint(2, 5)
        rest = {place for place in range(period) if self.random.random() < 0.5}
        below = self.random.random() < 0.3
        at = self.choice[name]

        def holds(*i: IndexExpr) -> Any:
            anywhere: Any = _total(i) > at if below else False
            for place in rest:
                anywhere = (_total(i) % period == place) | anywhere
            return anywhere

        return abstracted(of_indices(len(kind.parameters)), holds)

    def argument(self, name: str, kind: Kind) -> Argument:
        made = super().argument(name, kind)
        if isinstance(made, Index):
            units = self.random.choice((0, 1, -1, self.choice[name]))
            written = index(Size(UNIT)) * units + (self.choice[name] - units)
            if self.written and self.random.random() < 0.5:
                # Close to another index, or to its opposite: so terms cancel.
                written = self.random.choice(self.written) * self.random.choice((1, -1)) + self.random.randint(-1, 1)
            self.written.append(written)
            return written
        if isinstance(made, Function) and not made.tensors and self.random.random() < 0.5:
            value: Any = applied(made)
            return abstracted(made.parameters, lambda *given: value(*(0 for _ in given)))
        return made


def _total(indices: tuple[IndexExpr, ...]) -> IndexExpr:
    total = indices[0]
    for other in indices[1:]:
        total = total + 2 * other
    return total


# -- deciding a rule --------------------------------------------------------------------------------------------------


def decide(rule: Rule, cases: int = CASES, seed: int = 0) -> Verdict:
    """Both sides of a rule at every choice, or at as many as are asked for, for elements of rank 0 and 1."""
    verdict = Verdict(rule.name, whole=size(spaces(rule)) <= cases)
    for ranks in ranks_of(rule):
        for choice in choices(rule, cases, seed):
            found = compared(rule, Generic(ranks, choice), Polynomials())
            if found is None:
                verdict.passed_over += 1
            elif isinstance(found, Counterexample):
                verdict.counterexample = found
                return verdict
            else:
                verdict.decided += 1
                verdict.ranks.update(ranks.values())
    verdict.counterexample = found_spelled_out(rule, seed)
    return verdict


def found_spelled_out(rule: Rule, seed: int = 0) -> Counterexample | None:
    """A choice at which the sides differ, if one is found, with indices and functions of which nothing is decided."""
    random = Random(f"{rule.name} {seed}")
    for ranks in ranks_of(rule):
        for _ in range(SPELLED):
            found = compared(rule, Spelled.drawn(rule, ranks, random), Polynomials())
            if isinstance(found, Counterexample):
                return found
    return None


def instance(rule: Rule, generic: Generic) -> Equation | None:
    """The rule for these arguments, where it claims something: its premises hold and both sides have a meaning."""
    try:
        stated = rule.instance({name: generic.argument(name, kind) for name, kind in rule.metavariables.items()})
    except ATLError:
        return None
    if all(map(_holds, stated.premises)) and _meaningful(stated.lhs) and _meaningful(stated.rhs):
        return stated
    return None


def compared(rule: Rule, generic: Generic, scalars: Scalars[Any]) -> Counterexample | bool | None:
    """True where the sides are equal, in shape and in values; None where the rule claims nothing."""
    stated = instance(rule, generic)
    if stated is None:
        return None
    left, right = (_meant(rule, term, generic, scalars) for term in (stated.lhs, stated.rhs))
    return counterexample(generic, left, right, operator.ne) or True


def _meant(rule: Rule, term: Expr, generic: Generic, scalars: Scalars[Any]) -> Side:
    _check_closed(rule, Program("side", tuple(generic.inputs), term))
    return meant(term, generic, scalars)


def meant(term: Expr, generic: Generic, scalars: Scalars[Any]) -> Side:
    """What a side means for the arrays of these arguments."""
    program = Program("side", tuple(generic.inputs), term)
    meaning = denote(program, dict.fromkeys(program.sizes, 1), generic.arrays, scalars)
    return meaning.shape, meaning.to_numpy(object)


def counterexample(
    generic: Generic, left: Side, right: Side, differ: Callable[[Any, Any], bool]
) -> Counterexample | None:
    """What there is to say where the sides differ, in their shapes or in an element; None where they do not."""
    (shape, ours), (other, theirs) = left, right
    first = None
    if shape == other:
        differing = (at for at in np.ndindex(*shape) if differ(ours[at], theirs[at]))
        first = next(((at, ours[at], theirs[at]) for at in differing), None)
        if first is None:
            return None
    shown = f"{shape} {ours.tolist()}"[:400], f"{other} {theirs.tolist()}"[:400]
    return Counterexample(str(generic.choice), *shown, dict(generic.choice), first)


def _check_closed(rule: Rule, side: Program) -> None:
    """A rule is about its metavariables: a size of its own would be tried at one value only."""
    foreign = [size for size in side.sizes if size != UNIT]
    foreign += [array.name for part in subterms(side.body) for array in arrays_in(part) if array not in side.inputs]
    if foreign:
        raise WrongArgument(
            f"the rule {rule.name} speaks of {foreign[0]}, which is none of its parameters",
            required="sides that are made of its parameters alone",
            suggestions=(f"make it a parameter: def {rule.name}({foreign[0]}: Index, …)",),
        )


KNOWN: Final = Facts((equal(index(Size(UNIT)), ONE),))


def _holds(premise: Predicate) -> bool:
    return isinstance(prove(KNOWN, premise), Proved)


def _meaningful(term: Expr) -> bool:
    for _, at, scope in parts_in_scope(term, Scope(KNOWN)):
        for obligation in obligations(at, scope):
            if not isinstance(prove(scope.facts, obligation.goal), Proved):
                return False
    return True


def ranks_of(rule: Rule) -> Iterator[dict[str, int]]:
    """The ranks of elements at which a rule is tried."""
    groups = groups_of(rule)
    for ranks in product((0, 1), repeat=len(groups)):
        yield dict(zip(groups, ranks, strict=True))


def spaces(rule: Rule) -> dict[str, range]:
    """What is chosen for a rule: values of index metavariables, thresholds of conditions, and extents of tensors."""
    found: dict[str, range] = {}
    for name, kind in rule.metavariables.items():
        if kind.sort == "index":
            found[name] = WINDOW
        elif kind.sort == "condition":
            found[name] = range(-1, 5) if kind.parameters else range(2)
        else:
            found.update({f"{name}.{k}": EXTENTS for k in range(kind.rank)})
    return found


def size(of: dict[str, range]) -> int:
    """How many choices there are."""
    return prod(map(len, of.values()))


def choices(
    rule: Rule, most: int, seed: int = 0, extra: Mapping[str, range] = MappingProxyType({})
) -> Iterator[dict[str, int]]:
    """Every choice, or so many that are drawn; `extra` names more to be chosen."""
    of = {**spaces(rule), **extra}
    if size(of) <= most:
        for values in product(*of.values()):
            yield dict(zip(of, values, strict=True))
        return
    random = Random(f"{rule.name} {seed}")
    for _ in range(most):
        yield {name: random.choice(space) for name, space in of.items()}
