"""Rules as data: a rule is a Python function that states an equation in the surface language.

    @rule(family="access", source="§4.2.1")
    def get_gen(lo: Index, hi: Index, e: Body[Index], k: Index) -> Equation:
        \"\"\"Reading one element of a generation computes only that element, where there is one.\"\"\"
        return equation(gen((lo, hi), e)[k], guard((0 <= k) & (k < hi - lo), e(lo + k)))

The annotations say what each metavariable ranges over. From this one declaration come the rewrite in both directions,
its proof obligation, its property test and its mutants.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from atl.errors import WrongArgument
from atl.predicate import TRUE, Predicate, conjuncts
from atl.surface import Condition, IndexExpr, Tensor, as_predicate, as_tensor
from atl.terms import Expr
from rewrites.instantiation import Arguments, as_surface


@dataclass(frozen=True, slots=True)
class Equation:
    """What a rule states: lhs = rhs, given its premises."""

    lhs: Expr
    rhs: Expr
    premises: tuple[Predicate, ...] = ()


def equation(lhs: object, rhs: object, premises: tuple[Predicate, ...] = ()) -> Equation:
    """lhs = rhs, given the premises."""
    return Equation(as_tensor(lhs).node, as_tensor(rhs).node, premises)


def given(*conditions: Condition | bool) -> tuple[Predicate, ...]:
    """The premises of an equation; each conjunct is one."""
    return tuple(part for c in conditions for part in conjuncts(as_predicate(c)) if part != TRUE)


# -- what metavariables range over ------------------------------------------------------------------------------------

Sort: TypeAlias = Literal["index", "condition", "tensor"]
DEFAULT_GROUP: Final = "s"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a metavariable ranges over.

    A tensor has `rank` dimensions and then those of its element, whose number is the same for all metavariables of one
    `group`; group "" is for tensors of exactly this rank. A function has `parameters`, indices or tensors.
    """

    sort: Sort
    rank: int = 0
    group: str = DEFAULT_GROUP
    parameters: tuple[Kind, ...] = ()

    def __getitem__(self, parameters: Kind | tuple[Kind, ...]) -> Kind:
        """A function: `Body[Index]`, `Cond[Index]`."""
        many = parameters if isinstance(parameters, tuple) else (parameters,)
        return Kind(self.sort, self.rank, self.group, many)

    def of(self, group: str) -> Kind:
        """The same, with elements of a rank of their own."""
        return Kind(self.sort, self.rank, group, self.parameters)


Index: Final = Kind("index")
"""An index expression."""
Cond: Final = Kind("condition")
"""A predicate; `Cond[Index]` is one of an index."""
Elem: Final = Kind("tensor")
"""A tensor of any rank: an element of another one."""
Scalar: Final = Kind("tensor", group="")
"""A tensor of rank 0."""
Vector: Final = Kind("tensor", rank=1)
"""A tensor of rank 1 or more."""
Matrix: Final = Kind("tensor", rank=2)
"""A tensor of rank 2 or more."""
Body: Final = Elem
"""With parameters: a function to tensors of any rank, `Body[Index]`, `Body[Elem.of("t")]`."""


# -- rules ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rule:
    """A named equation. `instance` builds it for given arguments; `follows` names the rules that a corollary follows from."""

    name: str
    family: str
    source: str
    law: str
    metavariables: Mapping[str, Kind]
    states: Callable[..., Equation] = field(repr=False)
    follows: tuple[str, ...] = ()

    def instance(self, arguments: Arguments) -> Equation:
        """The equation for these arguments, one for each metavariable."""
        missing = [name for name in self.metavariables if name not in arguments]
        unknown = [name for name in arguments if name not in self.metavariables]
        if missing or unknown:
            raise WrongArgument(
                f"the rule {self.name} {f'needs {missing[0]}' if missing else f'has no parameter {unknown[0]}'}",
                required=f"its parameters: {', '.join(self.metavariables)}",
            )
        return self.states(**{name: as_surface(arguments[name]) for name in self.metavariables})

    @property
    def digest(self) -> str:
        """A hash of the rule's text: a certificate names the rules that it was made with."""
        text = inspect.getsource(self.states)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.name}: {self.law}"


def rule(*, family: str, source: str = "", follows: tuple[str, ...] = ()) -> Callable[[Callable[..., Equation]], Rule]:
    """Declares a rule. `follows` makes it a corollary: the names of the rules, in order, by which its sides are equal."""

    def declare(function: Callable[..., Equation]) -> Rule:
        kinds = inspect.get_annotations(function, eval_str=True)
        metavariables = {name: kind for name, kind in kinds.items() if name != "return"}
        wrong = [name for name, kind in metavariables.items() if not isinstance(kind, Kind)]
        if wrong:
            raise WrongArgument(
                f"the parameter {wrong[0]} of the rule {function.__name__} has no kind",
                required="an annotation such as Index, Cond, Elem, Vector, Body[Index]",
            )
        law = inspect.getdoc(function) or ""
        return Rule(function.__name__, family, source, law, metavariables, function, follows)

    return declare


__all__ = [
    "Body", "Cond", "Condition", "Elem", "Equation", "Index", "IndexExpr", "Kind", "Matrix", "Rule", "Scalar", "Tensor",
    "Vector", "equation", "given", "rule",
]  # fmt: skip
