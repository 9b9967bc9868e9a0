"""User-defined rules: `@rule` on a function that returns an equation, and files of them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType, MappingProxyType
from typing import overload

from atl.core.dtypes import ANY_DTYPE
from atl.errors import ATLError, DtypeError, InvalidArgument, brief
from atl.files.atomic import as_path
from atl.files.programs import load_module
from rewrites.elaboration import stated
from rewrites.metavariables import Kind
from rewrites.rule import USER_FAMILY, Equation, Rule, is_name, metavariables_of
from rewrites.rule_checking.every_rank import further
from rewrites.rule_checking.registry import register, status_of
from rewrites.rule_checking.status import ProofStatus
from rewrites.rule_statement import Ranks, RuleStatement, choices_of_ranks
from rewrites.user_rules import tactics

# -- declaration ------------------------------------------------------------------------------------------------------


@overload
def rule(function: Callable[..., Equation], /) -> Rule: ...
@overload
def rule(*, source: str = "") -> Callable[[Callable[..., Equation]], Rule]: ...
def rule(
    function: Callable[..., Equation] | None = None, /, *, source: str = ""
) -> Rule | Callable[[Callable[..., Equation]], Rule]:
    """Declare a rule by a function that returns an equation, and check it, which takes a second or a few.

    The function's parameters are metavariables, each annotated with its kind: `Index`, `Cond`, `Elem`, `Vector`,
    `Body[Index]`, …. Its docstring describes the equation, and it returns `equation(left, right, given(premises))`.

    The rule is checked with random elements (*tested*), at small sizes for all elements (*bounded*), and by a proof for
    all sizes (*proved*). Pass the rule itself to a session: `s.rw(twice)`. A theorem that uses an unproved rule says
    so in its text, in its certificate and in the output of `atl check`.

    The function is called here, once for each rank of elements up to 4, and at 5 and 6 if a proof can hold at every
    rank. The equations that it returns are checked, applied and recorded. It is called again only for further
    permutations of the axes, and must then return the equation that was proved, with its axes in another order. A rule
    is used only at ranks for which the function returned an equation, above rank 4 only if this follows from the
    others, and on integers only if it was not found false for them.

    Raises `FalseRule` with sizes and elements that break the rule, `UntriedRule` if it has no instance that could be
    tried, `InvalidArgument`, `InvalidName`.

    >>> from rewrites.user_rules import Body, Equation, Index, equation, rule
    >>> import atl
    >>> @rule
    ... def forget_the_last(n: Index, e: Body[Index]) -> Equation:
    ...     \"\"\"A sum does not need its last term.\"\"\"
    ...     return equation(atl.sum(n, lambda i: e(i)), atl.sum(n - 1, lambda i: e(i)))
    Traceback (most recent call last):
    rewrites.errors.FalseRule: forget_the_last is false: its sides differ [ATL713]
      required: sides that are equal wherever the premises hold and both sides are well-formed
      breaks at: n = 1, e(0) = 1: the left side is 1, the right one 0
      try: add the missing condition as a premise: equation(left, right, given(…))
    """
    if function is None:
        return lambda declared: _declare(declared, source)
    return _declare(function, source)


def proof_status(stated: Rule) -> ProofStatus:
    """Return the proof status of a user-defined rule. It prints as "bounded: …", with the reason why it is not proved.

    Raises `InvalidArgument` for anything else.
    """
    found = status_of(stated) if isinstance(stated, Rule) else None
    if found is None:
        raise InvalidArgument(f"{brief(stated)} is not a user-defined rule", required="a function decorated with @rule")
    return found


def _declare(function: Callable[..., Equation], source: str) -> Rule:
    if not isinstance(function, FunctionType):
        raise InvalidArgument(f"{brief(function)} is not a function", required="@rule on a function")
    if not is_name(function.__name__) or type(source) is not str:
        raise InvalidArgument(
            f"the rule {brief(function.__name__)} with source={brief(source)} has an invalid name or source",
            required="a Python identifier as name, and a string as source",
        )
    law = inspect.getdoc(function)
    if not law:
        raise InvalidArgument(
            f"the rule {function.__name__} has no docstring",
            required="a docstring that describes the equation in a sentence",
            suggestions=('"""A sum of differences of neighbours is the difference of the ends."""',),
        )
    try:
        kinds, parameters = metavariables_of(function), list(inspect.signature(function).parameters.values())
    except ATLError:
        raise
    except Exception as error:
        raise InvalidArgument(
            f"a parameter of {function.__name__} cannot be read: {type(error).__name__}: {error}",
            required="kinds of rewrites.user_rules at the top of the module: Index, Cond, Elem, Body[Index], …",
        ) from error
    _check_parameters(function.__name__, parameters, kinds)
    statements = _statements(function, kinds)
    made = Rule(function.__name__, USER_FAMILY, source, law, kinds, statements, module=_module_of(function))
    made = replace(made, statements=further(made, lambda ranks: stated(function, kinds, ranks)))
    register(made)
    return made


def _module_of(function: FunctionType) -> str:
    """Return the module that a rule can be imported from; "" for a rule declared inside a function."""
    return str(function.__module__) if function.__qualname__ == function.__name__ else ""


def _statements(function: Callable[..., Equation], kinds: Mapping[str, Kind]) -> Mapping[Ranks, RuleStatement]:
    """Call the function at each rank of elements and return the statements.

    The function may fail at some ranks; the rule then does not apply to elements of these ranks.
    """
    found: dict[Ranks, RuleStatement] = {}
    failed: list[Exception] = []
    for ranks in choices_of_ranks(kinds):
        try:
            made = stated(function, kinds, ranks)
            if made.lhs == made.rhs:
                raise InvalidArgument("both sides are the same", required="an equation of two different terms")
            found[ranks] = made
        except Exception as error:  # noqa: BLE001 (a user's function may raise anything)
            failed.append(error)
    if not found:
        first = failed[0]
        why = first.summary if isinstance(first, ATLError) else f"{type(first).__name__}: {first}"
        raise InvalidArgument(
            f"the rule {function.__name__} has no valid equation: {why}",
            required="a function of metavariables that returns equation(left, right, given(premises))",
            suggestions=(*_of_functions(kinds), *_suggested(first)),
        ) from first
    return MappingProxyType(found)


def _suggested(error: Exception) -> tuple[str, ...]:
    if isinstance(error, DtypeError) and ANY_DTYPE in error.summary:
        return (f"{ANY_DTYPE} is the element type of the rule's parameters: make the other tensor one of them",)
    return error.suggestions if isinstance(error, ATLError) else ()


def _of_functions(kinds: Mapping[str, Kind]) -> list[str]:
    """Suggest Body[Index] for each Body[Scalar], which is a function of a number rather than of an index."""
    scalar = ("tensor", 0, "")
    of_numbers = [
        name for name, kind in kinds.items() if any((at.sort, at.rank, at.group) == scalar for at in kind.parameters)
    ]
    return [f"{name}: Body[Index], if {name} is a function of an index" for name in of_numbers]


def _check_parameters(of: str, parameters: Sequence[inspect.Parameter], kinds: Mapping[str, Kind]) -> None:
    for parameter in parameters:
        plain = (
            parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and parameter.default is inspect.Parameter.empty
        )
        whole = {kind.of_axis[0] for kind in kinds.values() if kind.of_axis is not None}
        if not plain or parameter.name not in {*kinds, *whole}:
            raise InvalidArgument(
                f"the parameter {parameter.name} of the rule {of} is not a metavariable",
                required="a plain parameter with an annotation such as Index, Cond, Elem, Vector, Body[Index]",
            )


# -- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UserDefinitions:
    """The rules and tactics that a module declares, by name."""

    rules: dict[str, Rule] = field(default_factory=dict)
    tactics: dict[str, Callable[..., object]] = field(default_factory=dict)


def read(path: str | os.PathLike[str]) -> UserDefinitions:
    """Run a Python file and return the rules and tactics that it declares. Each rule is checked when it is declared.

    Raises the errors of the file, and `InvalidArgument` for a file that cannot be run.
    """
    file = as_path(path, like="rules.py")
    values = list(vars(load_module(str(file))).values())
    known = tactics.tactics()
    stated = {value.name: value for value in values if isinstance(value, Rule) and status_of(value) is not None}
    found = {name: made for name, made in known.items() if any(made is value for value in values)}
    return UserDefinitions(stated, found)
