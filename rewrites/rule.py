"""Rules: Python functions that state an equation in the surface language.

    @rule(family="access", source="§4.2.1")
    def get_gen(lo: Index, hi: Index, e: Body[Index], k: Index) -> Equation:
        \"\"\"Reading one element of a generation computes only that element; outside of its range it is padding.\"\"\"
        return equation(gen((lo, hi), e)[k], guard((0 <= k) & (k < hi - lo), e(lo + k)))

The annotations are the kinds of the metavariables. The function is called once for each rank of elements: when a
user-defined rule is declared, and when a rank of a rule of the catalogue is first used. Its result is stored as a
`RuleStatement`. The rewrite in both directions, its proof obligation, its property test, its hash and its text in
certificates are all derived from the statements.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Final, NoReturn

from atl.core.predicate import Predicate
from atl.errors import ATLError, InvalidArgument, InvalidName, RankError
from atl.surface.values import Condition, IndexExpr, Tensor
from rewrites.elaboration import stated
from rewrites.metavariables import (
    Body,
    BodyT,
    BodyU,
    Cond,
    Cube,
    Elem,
    ElemT,
    ElemU,
    Index,
    Indices,
    IndicesT,
    IndicesU,
    Kind,
    Matrix,
    MatrixT,
    PerAxis,
    Perm,
    PermT,
    Scalar,
    Vector,
    VectorT,
    is_kind,
)
from rewrites.rule_arguments import Arguments
from rewrites.rule_statement import (
    LARGEST_RANK,
    Equation,
    Ranks,
    RuleStatement,
    choices_of_ranks,
    equation,
    given,
    given_all,
    ranks_of,
)  # fmt: skip

# -- rules ------------------------------------------------------------------------------------------------------------


USER_FAMILY: Final = "user-defined"
"""The family of user-defined rules."""


MOST_RANK: Final = 10
"""Maximum rank of elements, limited by the ids of variables. Rules are checked up to `MAX_ELEMENT_RANK`."""


class LaterStatements(Mapping[Ranks, RuleStatement]):
    """Statements of a rule of which some are computed when they are first used."""


class RuleStatements(LaterStatements):
    """The statements of a rule's function by the ranks of elements, computed on first use and cached."""

    def __init__(self, function: Callable[..., Equation], metavariables: Mapping[str, Kind]) -> None:
        self.function = function
        self._metavariables = metavariables
        self._known: dict[Ranks, RuleStatement | None] = {}

    def __getitem__(self, ranks: Ranks) -> RuleStatement:
        if max(ranks, default=0) > MOST_RANK:
            raise KeyError(ranks)
        if ranks not in self._known:
            try:
                self._known[ranks] = stated(self.function, self._metavariables, ranks)
            except ATLError:
                self._known[ranks] = None  # the rule has no statement at these ranks
        found = self._known[ranks]
        if found is None:
            raise KeyError(ranks)
        return found

    def __iter__(self) -> Iterator[Ranks]:
        return (ranks for ranks in choices_of_ranks(self._metavariables) if ranks in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, eq=False, repr=False)
class Rule:
    """A named equation with metavariables. It has one statement for each supported choice of ranks of elements.

    `law` describes the equation in words. A corollary is `derived_from` other rules. `module` defines its function.
    """

    name: str
    family: str
    source: str
    law: str
    metavariables: Mapping[str, Kind]
    statements: Mapping[Ranks, RuleStatement] = field(repr=False)
    derived_from: tuple[str, ...] = ()
    module: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "metavariables", MappingProxyType(dict(self.metavariables)))
        if not isinstance(self.statements, LaterStatements):
            object.__setattr__(self, "statements", MappingProxyType(dict(self.statements)))

    def statement(self, arguments: Arguments) -> RuleStatement:
        """Return the statement for the ranks of these arguments, one for each metavariable.

        Raises `InvalidArgument` for missing and unknown arguments, `RankError` for unsupported ranks.
        """
        missing = [name for name in self.metavariables if name not in arguments]
        unknown = [name for name in arguments if name not in self.metavariables]
        if missing or unknown:
            raise InvalidArgument(
                f"the rule {self.name} {f'needs {missing[0]}' if missing else f'has no parameter {unknown[0]}'}",
                required=f"its parameters: {', '.join(self.metavariables)}",
            )
        ranks = ranks_of(self.metavariables, arguments)
        found = self.statements.get(ranks)
        if found is None:
            raise RankError(
                f"the rule {self.name} has no statement for elements of rank {', '.join(map(str, ranks))}",
                required=f"one of the ranks {ranks_text(self.statements)}",
            )
        return found

    def instance(self, arguments: Arguments, dtype: str | None = None) -> Equation:
        """Return the equation for these arguments; `dtype` is the element type if they do not determine one."""
        return self.statement(arguments).instance(arguments, dtype)

    def premises(self, arguments: Arguments) -> tuple[Predicate, ...]:
        """Return the premises of the equation for these arguments, without building its sides."""
        return self.statement(arguments).premises_for(arguments)

    @property
    def in_calls(self) -> str:
        """The rule as written in calls of a session: the quoted name, or the bare name of a user-defined rule."""
        return self.name if self.family == USER_FAMILY else f'"{self.name}"'

    def __deepcopy__(self, _: dict[int, object]) -> Rule:
        return self

    def __copy__(self) -> Rule:
        return replace(self)

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            f"the rule {self.name} cannot be pickled: its proof status belongs to the process that checked it",
            required="its name, by which another process finds it, or a certificate, which contains user-defined rules",
            suggestions=(
                f'from rewrites import rules; rules["{self.name}"]'
                if self.family != USER_FAMILY
                else "define it in a module that both processes import"
                if self.module in ("", "__main__")
                else f"from {self.module} import {self.name}",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.law}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from rewrites.session.display import rule_html

        return rule_html(self)


def ranks_text(statements: Mapping[Ranks, RuleStatement]) -> str:
    """Return the ranks of the statements as text: "0, 1, 2" or "(0, 0), (0, 1)"."""
    every = dict.fromkeys(stated.element_ranks for stated in statements.values())
    return ", ".join(str(ranks[0]) if len(ranks) == 1 else str(ranks) for ranks in every) or "none"


def rule(
    *, family: str, source: str = "", derived_from: tuple[str, ...] = ()
) -> Callable[[Callable[..., Equation]], Rule]:
    """Declare a rule. `derived_from` makes it a corollary: it lists, in order, the rules that derive it."""

    def declare(function: Callable[..., Equation]) -> Rule:
        _check_new(function)
        kinds = metavariables_of(function)
        return Rule(
            function.__name__, family, source, inspect.getdoc(function) or "", kinds, RuleStatements(function, kinds),
            derived_from, function.__module__,
        )  # fmt: skip

    return declare


@dataclass(frozen=True, eq=False)
class Schema:
    """Rules that differ only in one name, such as that of an operation."""

    rules: tuple[Rule, ...]


def rules(
    *, named: str, over: Sequence[str], family: str, source: str = "", derived_from: tuple[str, ...] = ()
) -> Callable[[Callable[..., Equation]], Schema]:
    """Declare one rule for each name in `over`, which the first parameter receives. `named` is a format: "{}_swap"."""

    def declare(function: Callable[..., Equation]) -> Schema:
        _check_new(function)
        law, (_, *kinds) = inspect.getdoc(function) or "", metavariables_of(function, 1).items()
        return Schema(
            tuple(
                Rule(
                    named.format(name), family, source, law, dict(kinds),
                    RuleStatements(partial(function, name), dict(kinds)),
                    tuple(step.format(name) for step in derived_from), function.__module__,
                )
                for name in over
            )
        )  # fmt: skip

    return declare


def _check_new(function: Callable[..., Equation]) -> None:
    """Refuse a second declaration of a name, which would silently replace the first."""
    if isinstance(function.__globals__.get(function.__name__), Rule | Schema):
        raise InvalidName(
            f"{function.__module__} already declares a rule {function.__name__}",
            required="a different name for every rule",
        )


def is_name(value: object) -> bool:
    """Return whether this is a valid name of a rule or a parameter."""
    return type(value) is str and value.isidentifier()


def metavariables_of(function: Callable[..., Equation], names: int = 0) -> dict[str, Kind]:
    """Return the kinds of a rule's parameters; the first `names` of them need none.

    Raises `InvalidArgument`, `NameError`.
    """
    kinds = inspect.get_annotations(function, eval_str=True)
    metavariables: dict[str, Kind] = {}
    for name, kind in kinds.items():
        if name != "return":
            metavariables |= kind.kinds(name, LARGEST_RANK) if type(kind) is PerAxis else {name: kind}
    wrong = [name for name, kind in list(metavariables.items())[names:] if not (is_name(name) and is_kind(kind))]
    if wrong:
        raise InvalidArgument(
            f"the parameter {wrong[0]} of the rule {function.__name__} has no kind",
            required="an annotation such as Index, Cond, Elem, Vector, Body[Index]",
        )
    return metavariables


__all__ = [
    "USER_FAMILY",
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
    "Indices",
    "IndicesT",
    "IndicesU",
    "Kind",
    "Matrix",
    "MatrixT",
    "Perm",
    "PermT",
    "Rule",
    "RuleStatement",
    "RuleStatements",
    "Scalar",
    "Schema",
    "Tensor",
    "Vector",
    "VectorT",
    "equation",
    "given",
    "given_all",
    "rule",
    "rules",
]  # fmt: skip
