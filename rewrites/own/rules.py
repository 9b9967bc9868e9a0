"""A rule of a user's own: `@rule` on a function that states an equation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Final, overload

from atl.errors import WrongArgument, brief
from rewrites.grading.graded import judge, standing_of
from rewrites.grading.standing import Standing
from rewrites.own.frozen import frozen
from rewrites.rule import Equation, Rule, declared

FAMILY: Final = "own"


@overload
def rule(function: Callable[..., Equation], /) -> Rule: ...
@overload
def rule(*, source: str = "") -> Callable[[Callable[..., Equation]], Rule]: ...
def rule(
    function: Callable[..., Equation] | None = None, /, *, source: str = ""
) -> Rule | Callable[[Callable[..., Equation]], Rule]:
    """Makes a rule of a function that states an equation, and judges it at once, in a second or a few.

    Its parameters are metavariables, each annotated with what it ranges over: `Index`, `Cond`, `Elem`, `Vector`,
    `Body[Index]`, …; its docstring is the law; it returns `equation(left, right, given(premises))`. The rule is tried
    with random elements (grade 1) and at small sizes for all elements (grade 2), and a proof for all sizes is tried
    (grade 3). It is then used by itself, `s.rw(twice)`. A theorem that rests on one of grade 1 or 2 says so in
    its text, in its certificate and in what `atl check` answers.

    What the function uses of its module is taken as it is now: a number that is changed later changes no rule. What may
    change in a way that is not seen here, such as an attribute of a class, a list or a counter, is refused, and so is
    a look at how an argument is written: by `.node`, `.dtype` or `isinstance`.

    Raises `FalseRule` with sizes and elements that break it, `UntriedRule` where it claims nothing, `WrongArgument`,
    `WrongName`.

    >>> from rewrites.own import Body, Equation, Index, equation, rule
    >>> import atl
    >>> @rule
    ... def forget_the_last(n: Index, e: Body[Index]) -> Equation:
    ...     \"\"\"A sum does not need its last term.\"\"\"
    ...     return equation(atl.sum(n, lambda i: e(i)), atl.sum(n - 1, lambda i: e(i)))
    Traceback (most recent call last):
    rewrites.errors.FalseRule: forget_the_last is false: its sides differ [ATL713]
      required: sides that are equal wherever the premises hold and both have a meaning
      breaks at: n = 1, e(0) = 1: the left side is 1, the right one 0
      try: state what it needs as a premise: equation(left, right, given(…))
    """
    if function is None:
        return lambda stated: _judged(stated, source)
    return _judged(function, source)


def grade(stated: Rule) -> Standing:
    """How far a rule of one's own is known to be true: prints as "grade 2: …", with what stands in the way of a proof.

    Raises `WrongArgument` for what is none.
    """
    found = standing_of(stated) if isinstance(stated, Rule) else None
    if found is None:
        raise WrongArgument(f"{brief(stated)} is no rule of your own", required="what @rule has made of a function")
    return found


def _judged(function: Callable[..., Equation], source: str) -> Rule:
    if not isinstance(function, FunctionType):
        raise WrongArgument(f"{brief(function)} states no rule", required="@rule on a function")
    if not inspect.getdoc(function):
        raise WrongArgument(
            f"the rule {function.__name__} does not say its law",
            required="a docstring: the law in a sentence",
            suggestions=('"""A sum of differences of neighbours is the difference of the ends."""',),
        )
    try:
        states, uses = frozen(function)
        made = declared(function, states, family=FAMILY, source=source, uses=uses)
    except NameError as error:
        raise WrongArgument(
            f"an annotation of {function.__name__} is not known: {error}",
            required="kinds of rewrites.own at the top of the module: Index, Cond, Elem, Body[Index], …",
        ) from error
    _check_parameters(function, made)
    judge(made)
    return made


def _check_parameters(function: FunctionType, made: Rule) -> None:
    for name, parameter in inspect.signature(function).parameters.items():
        plain = (
            parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and parameter.default is inspect.Parameter.empty
        )
        if not plain or name not in made.metavariables:
            raise WrongArgument(
                f"the parameter {name} of the rule {made.name} is no metavariable",
                required="a plain parameter with an annotation such as Index, Cond, Elem, Vector, Body[Index]",
            )
