"""Checks of the arguments of a session's calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from atl.errors import ATLError, Location, Source, WrongArgument
from rewrites.errors import unknown_name
from rewrites.session.display import written

C = TypeVar("C", bound=type)


def checks_arguments(cls: C) -> C:
    """Make each public method of a class raise `WrongArgument` for missing, unknown and superfluous arguments."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_"):
            setattr(cls, name, _checking(name, method))
    return cls


def _checking(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    refusal = _refusal
    refused = ATLError

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except TypeError as error:
            trace = error.__traceback__
            if isinstance(error, refused) or trace is None or trace.tb_next is not None:
                raise  # from within the method
            raise refusal(name, method, arguments[1:], options) from None

    # doctest runs the examples of a function that has the globals of the module, so `call` uses no globals of this one.
    checked = FunctionType(call.__code__, method.__globals__, name, None, call.__closure__)
    return wraps(method)(checked)


def _refusal(
    name: str, method: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
) -> WrongArgument:
    """Return the error of a call whose arguments do not fit the parameters of the method."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    positional = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    known = [each.name for each in parameters]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    unknown = [option for option in options if option not in known and not takes_any]
    given = {*positional[: len(arguments)], *options}
    required = [each for each in parameters if each.default is each.empty and each.kind in _NEEDED]
    missing = [each.name for each in required if each.name not in given]
    suggestions: tuple[str, ...] = ()
    if unknown:
        summary = f"s.{name} has no parameter {unknown[0]!r}"
        suggestions = unknown_name("parameter", unknown[0], known, required="").suggestions
    elif len(arguments) > len(positional):
        plural = "" if len(positional) == 1 else "s"
        summary = f"s.{name} takes {len(positional) or 'no'} positional argument{plural}, got {len(arguments)}"
        suggestions = _grouped(name, parameters, len(positional), arguments)
    elif missing:
        summary = f"missing argument{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))} of s.{name}"
    else:
        summary = f"s.{name} got {next(each for each in positional if each in options)!r} twice"
    return WrongArgument(
        summary,
        place=Location(source=Source.caller()),
        required=f"s.{name}{_without_types(parameters)}",
        suggestions=suggestions,
    )


_NEEDED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _without_types(parameters: Sequence[inspect.Parameter]) -> inspect.Signature:
    return inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])


def _grouped(
    name: str, parameters: Sequence[inspect.Parameter], count: int, arguments: Sequence[Any]
) -> tuple[str, ...]:
    """Suggest lists where a method that takes several loops was given each as an argument: tile("i", "j", 8, 8)."""
    if not count or len(arguments) % count or "Sequence[Chosen]" not in str(parameters[0].annotation):
        return ()
    each = len(arguments) // count
    lists = [written(list(arguments[at : at + each])) for at in range(0, len(arguments), each)]
    return (f"s.{name}({', '.join(lists)})",)
