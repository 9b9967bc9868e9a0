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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import ClassVar

from atl.core.literals import strengthen
from atl.core.predicate import TRUE, Predicate, conjuncts
from atl.core.terms import Expr
from atl.errors import WrongArgument, WrongName, brief
from atl.surface.numpy_forms import shapes_as_they_are
from atl.surface.values import Condition, IndexExpr, Tensor, as_predicate, as_tensor
from rewrites.instantiation import Arguments, as_surface
from rewrites.kinds import (
    Body,
    BodyT,
    BodyU,
    Cond,
    Cube,
    Elem,
    ElemT,
    ElemU,
    Index,
    Kind,
    Matrix,
    MatrixT,
    Scalar,
    Vector,
    VectorT,
)
from rewrites.rewordings import first_wording


@dataclass(frozen=True, slots=True)
class Equation:
    """What a rule states: lhs = rhs, given its premises."""

    lhs: Expr
    rhs: Expr
    premises: tuple[Predicate, ...] = ()

    def of_elements(self, dtype: str | None) -> Equation:
        """The same with elements of this type, where a side has none: in e - e = 0 the 0, and Σ[i < n] value(i)."""
        if dtype is None or (self.lhs.type.dtype is not None and self.rhs.type.dtype is not None):
            return self
        return Equation(strengthen(self.lhs, dtype), strengthen(self.rhs, dtype), self.premises)


def equation(lhs: object, rhs: object, premises: tuple[Predicate, ...] = ()) -> Equation:
    """lhs = rhs, given the premises."""
    return Equation(as_tensor(lhs).node, as_tensor(rhs).node, premises)


def given(*conditions: Condition | bool) -> tuple[Predicate, ...]:
    """The premises of an equation; each conjunct is one."""
    return tuple(part for c in conditions for part in conjuncts(as_predicate(c)) if part != TRUE)


# -- rules ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Rule:
    """A named equation. `instance` builds it for given arguments; a corollary `follows` from other rules.

    `uses` are the constants and functions, as text, that its function takes from elsewhere.
    """

    name: str
    family: str
    source: str
    law: str
    metavariables: Mapping[str, Kind]
    states: Callable[..., Equation] = field(repr=False)
    follows: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    displayed_by: ClassVar[Callable[[Rule], str]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "metavariables", MappingProxyType(dict(self.metavariables)))

    def stated(self, **arguments: object) -> Equation:
        """What the function states of these: nothing is spread as NumPy would, or an extent of 1 made another law."""
        with shapes_as_they_are():
            return self.states(**arguments)

    def instance(self, arguments: Arguments) -> Equation:
        """The equation for these arguments, one for each metavariable."""
        missing = [name for name in self.metavariables if name not in arguments]
        unknown = [name for name in arguments if name not in self.metavariables]
        if missing or unknown:
            raise WrongArgument(
                f"the rule {self.name} {f'needs {missing[0]}' if missing else f'has no parameter {unknown[0]}'}",
                required=f"its parameters: {', '.join(self.metavariables)}",
            )
        stated = self.stated(**{name: as_surface(arguments[name]) for name in self.metavariables})
        if not isinstance(stated, Equation):
            raise WrongArgument(
                f"the rule {self.name} returns {brief(stated)}", required="equation(left, right, given(premises))"
            )
        return stated

    @property
    def declaration(self) -> Callable[..., Equation]:
        """The function that states the rule, as it is written."""
        return self.states.func if isinstance(self.states, partial) else self.states

    @property
    def digest(self) -> str:
        """A hash of the rule's text, as it was first worded, and of what it uses: a certificate names its rules so."""
        chosen = self.states.args if isinstance(self.states, partial) else ()
        written = first_wording(self.declaration.__name__, inspect.getsource(self.declaration))
        text = "\n".join((*chosen, *self.uses, written))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.name}: {self.law}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return type(self).displayed_by(self)

    @classmethod
    def display_with(cls, display: Callable[[Rule], str]) -> None:
        """Hands in what a notebook displays, which matches rules and so stands above them."""
        cls.displayed_by = display


def rule(*, family: str, source: str = "", follows: tuple[str, ...] = ()) -> Callable[[Callable[..., Equation]], Rule]:
    """Declares a rule. `follows` makes it a corollary: the rules, in order, by which its sides are equal."""

    def declare(function: Callable[..., Equation]) -> Rule:
        _check_new(function)
        return declared(function, function, family=family, source=source, follows=follows)

    return declare


def declared(
    function: Callable[..., Equation],
    states: Callable[..., Equation],
    *,
    family: str,
    source: str = "",
    follows: tuple[str, ...] = (),
    uses: tuple[str, ...] = (),
) -> Rule:
    """The rule that a function declares by its name, its docstring and its annotations; `states` says the equation."""
    law = inspect.getdoc(function) or ""
    return Rule(function.__name__, family, source, law, _metavariables(function), states, follows, uses)


@dataclass(frozen=True, eq=False)
class Schema:
    """Rules that differ in one name only, such as that of an operation."""

    rules: tuple[Rule, ...]


def rules(
    *, named: str, over: Sequence[str], family: str, source: str = "", follows: tuple[str, ...] = ()
) -> Callable[[Callable[..., Equation]], Schema]:
    """Declares a rule for each name that its first parameter is given; `named` says what they are called: "{}_swap"."""

    def declare(function: Callable[..., Equation]) -> Schema:
        _check_new(function)
        law, (_, *kinds) = inspect.getdoc(function) or "", _metavariables(function, 1).items()
        return Schema(
            tuple(
                Rule(
                    named.format(name), family, source, law, dict(kinds), partial(function, name),
                    tuple(step.format(name) for step in follows),
                )
                for name in over
            )
        )  # fmt: skip

    return declare


def _check_new(function: Callable[..., Equation]) -> None:
    """Another declaration of the same name would silently take the place of the first one."""
    if isinstance(function.__globals__.get(function.__name__), Rule | Schema):
        raise WrongName(
            f"there is a rule {function.__name__} in {function.__module__} already",
            required="a name of its own for every rule",
        )


def _metavariables(function: Callable[..., Equation], names: int = 0) -> dict[str, Kind]:
    """The kinds of a rule's parameters, the first of which may be names."""
    kinds = inspect.get_annotations(function, eval_str=True)
    metavariables = {name: kind for name, kind in kinds.items() if name != "return"}
    wrong = [name for name, kind in list(metavariables.items())[names:] if not isinstance(kind, Kind)]
    if wrong:
        raise WrongArgument(
            f"the parameter {wrong[0]} of the rule {function.__name__} has no kind",
            required="an annotation such as Index, Cond, Elem, Vector, Body[Index]",
        )
    return metavariables


__all__ = [
    "Body",
    "BodyT",
    "BodyU",
    "Cond",
    "Condition",
    "Cube",
    "Elem",
    "ElemT",
    "ElemU",
    "Equation",
    "Index",
    "IndexExpr",
    "Kind",
    "Matrix",
    "MatrixT",
    "Rule",
    "Scalar",
    "Schema",
    "Tensor",
    "Vector",
    "VectorT",
    "equation",
    "given",
    "rule",
    "rules",
]  # fmt: skip
