"""Typed errors for calls whose arguments do not fit the parameters: missing, unknown and surplus arguments."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import wraps
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from atl.errors import ATLError, InvalidArgument, Location, Source, brief, did_you_mean

C = TypeVar("C", bound=type)


def check_calls(namespace: MutableMapping[str, Any]) -> None:
    """Make the public functions and classes of a package raise `InvalidArgument` for arguments that do not fit.

    Functions are replaced in the namespace of the package, which its `__init__.py` passes, and where they are defined,
    so that pickle finds them. Classes are changed.
    """
    for name in namespace["__all__"]:
        match namespace.get(name):
            case FunctionType() as function:
                namespace[name] = checked = checking(name, function)
                defined = vars(sys.modules[function.__module__])
                if defined.get(function.__name__) is function:
                    defined[function.__name__] = checked
            case type() as cls if not getattr(cls, "_is_protocol", False):
                for special, label in (("__init__", name), ("__call__", name.lower())):
                    method = getattr(cls, special, None)
                    is_checked = special in vars(cls) and hasattr(method, "__wrapped__")  # by another package
                    if isinstance(method, FunctionType) and not is_checked:
                        setattr(cls, special, checking(label, method, receiver=True))
            case _:
                pass


def checks_arguments(cls: C) -> C:
    """Make each public method of the class of a session `s` raise `InvalidArgument` for arguments that do not fit."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_"):
            setattr(cls, name, checking(f"s.{name}", method, receiver=True))
    return cls


def checking(label: str, function: Callable[..., Any], *, receiver: bool = False) -> Callable[..., Any]:
    """Return a function that does the same, but raises `InvalidArgument` if the arguments do not fit.

    `label` is the name in messages. With `receiver`, the first argument is not the caller's. A function that takes any
    arguments is returned as it is, so that calls of a kernel cost less.
    """
    wrong, ours = wrong_arguments, ATLError
    signature = inspect.signature
    parameters = list(signature(function).parameters.values())[receiver:]
    if {each.kind for each in parameters} >= set(_ANY) and not any(map(_is_required, parameters)):
        return function

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except TypeError as error:
            if isinstance(error, ours):
                raise
            try:
                signature(function).bind(*arguments, **options)
            except TypeError:
                raise wrong(label, function, arguments, options, receiver=receiver) from None
            raise  # raised inside the function

    # doctest collects a function by its globals, so `call` gets the function's and may not use globals of this module.
    checked = FunctionType(call.__code__, function.__globals__, function.__name__, None, call.__closure__)
    return wraps(function)(checked)


def unchecked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that `checking` was applied to; any other function is returned as it is."""
    if isinstance(function, FunctionType) and function.__code__ in checking.__code__.co_consts:
        return cast(Callable[..., Any], vars(function)["__wrapped__"])
    return function


def wrong_arguments(
    label: str, function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any], *, receiver: bool
) -> InvalidArgument:
    """Return the error for a call whose arguments do not fit the parameters of the function."""
    parameters = list(inspect.signature(function).parameters.values())[receiver:]
    arguments = arguments[receiver:]
    positional = [each.name for each in parameters if each.kind in _POSITIONAL]
    by_name = [each.name for each in parameters if each.kind in _BY_NAME]
    kinds = {each.kind for each in parameters}
    unknown = [option for option in options if option not in by_name]
    given = {*positional[: len(arguments)], *options}
    required = [
        each.name for each in parameters if each.default is each.empty and each.kind in {*_POSITIONAL, *_BY_NAME}
    ]
    missing = [name for name in required if name not in given]
    suggestions: tuple[str, ...] = ()
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        summary = f"{label} has no parameter {unknown[0]!r}"
        suggestions = did_you_mean(unknown[0], by_name)
    elif len(arguments) > len(positional) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        plural = "" if len(positional) == 1 else "s"
        summary = f"{label} takes {len(positional) or 'no'} positional argument{plural}, got {len(arguments)}"
        suggestions = _grouped(label, parameters, len(positional), arguments)
    elif missing:
        summary = f"missing argument{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))} of {label}"
    else:
        summary = f"{label} got {next(each for each in positional if each in options)!r} twice"
    return InvalidArgument(
        summary,
        place=Location(source=Source.caller()),
        required=f"{label}{_without_types(parameters)}",
        suggestions=suggestions,
    )


_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ANY: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in _ANY


def _without_types(parameters: Sequence[inspect.Parameter]) -> inspect.Signature:
    return inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])


def _grouped(
    label: str, parameters: Sequence[inspect.Parameter], count: int, arguments: Sequence[Any]
) -> tuple[str, ...]:
    """Suggest lists where each of several loops was passed as an argument: tile("i", "j", 8, 8)."""
    if not count or len(arguments) % count or parameters[0].annotation != "arg.Loops":
        return ()
    each = len(arguments) // count
    lists = [f"[{', '.join(map(brief, arguments[at : at + each]))}]" for at in range(0, len(arguments), each)]
    return (f"{label}({', '.join(lists)})",)
