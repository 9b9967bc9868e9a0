"""Associativity of a user's combination of states, as a user-defined rule that is checked when it is stated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final

from atl.core.index import Index
from atl.errors import InvalidArgument, brief
from atl.parameters import check_calls
from atl.surface.operators import takes
from atl.surface.recurrences import StatesForm
from atl.surface.values import IndexExpr, Tensor
from rewrites.elaboration import stated
from rewrites.errors import FalseRule
from rewrites.metavariables import MOST_DIMENSIONS, Kind
from rewrites.rule import USER_FAMILY, Equation, Rule, equation, given, is_name
from rewrites.rule_checking.registry import register

LAW: Final = "States may be combined in any grouping: the combination is associative."


def associative(combine: Callable[..., Any], states: int | Sequence[str] | None = None) -> Rule:
    """State that a combination of scalar states is associative, and check it: combine(combine(a, b), c) = ….

    `states` is the number of states of a tuple, or the names of those of a dictionary; by default, a state is one
    tensor. The result is a user-defined rule, which may be only tested: `proof_status` returns how it was proved, and
    `s.rw` applies it.

    Raises `FalseRule` with numbers that break it, and `InvalidArgument`.

    >>> import atl
    >>> from rewrites.user_rules import proof_status
    >>> print(proof_status(atl.associative(lambda a, b: atl.maximum(a, b))))
    proved for all sizes
    >>> atl.associative(lambda a, b: (a[0] + b[0], a[1] - b[1]), 2)
    Traceback (most recent call last):
    rewrites.errors.FalseRule: the combination is not associative: combine(combine(a, b), c) differs [ATL713]
      required: combine(combine(a, b), c) = combine(a, combine(b, c))
      breaks at: a_1 = 1, b_1 = 2, c_1 = 3: at [1] the left side is -4, the right one 2
    """
    check_combination(combine)
    return associativity(combine, _form_of(states), ())


def check_combination(combine: object) -> None:
    """Raise `InvalidArgument` for anything but a function of two parameters."""
    if not callable(combine) or not takes(combine, 2):
        raise InvalidArgument(f"combine={brief(combine)}", required="a function of two states that returns one")


def _form_of(states: object) -> StatesForm:
    if states is None:
        return StatesForm(1, several=False)
    if isinstance(states, int) and not isinstance(states, bool) and states > 0:
        return StatesForm(states, several=True)
    if isinstance(states, list | tuple) and states and all(isinstance(name, str) for name in states):
        names: tuple[str, ...] = tuple(states)
        _check_distinct(names)
        return StatesForm(len(names), several=True, names=names)
    raise InvalidArgument(f"states={brief(states)}", required="the number of states of a tuple, or the names of states")


def _check_distinct(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise InvalidArgument(f"states={brief(names)}", required="different names of states")


def associativity(combine: Callable[..., Any], form: StatesForm, shape: Sequence[Index | None]) -> Rule:
    """State that a combination is associative, for states of this shape. An extent may be unknown, None.

    The metavariables are the states of a, then those of b, then those of c.
    """
    if len(shape) > MOST_DIMENSIONS:
        raise InvalidArgument(f"states of {len(shape)} dimensions", required=f"at most {MOST_DIMENSIONS} dimensions")
    of_states = map(str, form.names or range(form.count)) if form.several else ("",)
    called = [f"{row}{'_' * (state != '')}{state}" for state in of_states for row in "abc"]
    names = [name for row in range(3) for name in called[row::3]]
    kinds = dict.fromkeys(names, Kind("tensor", len(shape), ""))

    def both(a: Any, b: Any) -> Any:
        made = combine(a, b)
        form.listed(made, "the combination")
        return made

    def law(**states: Tensor) -> Equation:
        given_states = [states[name] for name in names]
        first = given_states[0]
        extents = [
            (each.shape[at], first.shape[at] if extent is None else IndexExpr(extent))
            for at, extent in enumerate(shape)
            for each in given_states
        ]
        premises = given(*(own == wanted for own, wanted in extents if own is not wanted))
        rows = [form.of_states(given_states[at : at + form.count]) for at in range(0, 3 * form.count, form.count)]
        a, b, c = rows
        return equation(form.joined(both(both(a, b), c)), form.joined(both(a, both(b, c))), premises)

    own = getattr(combine, "__name__", "")
    name = f"{own if is_name(own) else 'combine'}_is_associative"
    statement = stated(law, kinds, ())
    made = Rule(name, USER_FAMILY, "", LAW, kinds, MappingProxyType({(): statement}))
    try:
        register(made)
    except FalseRule as error:
        raise FalseRule(
            "the combination is not associative: combine(combine(a, b), c) differs",
            required="combine(combine(a, b), c) = combine(a, combine(b, c))",
            numbers=error.numbers or {},
        ) from error
    return made


__all__ = ["associative", "associativity"]
check_calls(globals())
