"""The decorator of tactics: it makes a function of a derivation a method of sessions too."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper, wraps
from types import MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from atl.errors import InvalidArgument
from rewrites.derivation import Derivation

P = ParamSpec("P")


class RunsTactics(Protocol):
    """An object that runs tactics, such as a session."""

    def do(self, tactic: Any, /, *arguments: Any, **options: Any) -> Any: ...


S = TypeVar("S", bound=RunsTactics)


class Tactic(Generic[P]):
    """A tactic: called with a derivation it rewrites that, and as a method of a session it makes one call.

    Both take the same further arguments. The method has the signature and the docstring of the function, and returns
    the session.
    """

    __name__: str

    def __init__(self, function: Callable[Concatenate[Derivation, P], None]) -> None:
        check_documented(function)

        @wraps(function)
        def method(session: RunsTactics, /, *arguments: Any, **options: Any) -> Any:
            return session.do(self, *arguments, **options)

        method.__signature__ = inspect.signature(function).replace(return_annotation="Session")  # type: ignore[attr-defined]
        self.function, self.method = function, method
        update_wrapper(self, function)

    def __call__(self, work: Derivation, /, *arguments: P.args, **options: P.kwargs) -> None:
        self.function(work, *arguments, **options)

    @overload
    def __get__(self, session: None, owner: object = None) -> Tactic[P]: ...
    @overload
    def __get__(self, session: S, owner: object = None) -> Callable[P, S]: ...
    def __get__(self, session: Any, owner: object = None) -> Any:
        return self if session is None else MethodType(self.method, session)


def tactic(function: Callable[Concatenate[Derivation, P], None]) -> Tactic[P]:
    """Make a function a tactic. Listed in `rewrites.tactics.Tactics`, it is a method of sessions.

    The function takes a derivation, which asks the kernel for theorems, so a tactic cannot prove anything false. The
    parameters after it are those of the method; `rewrites.tactics.arg` has types for them, by which random tests draw
    arguments. The docstring contains before → after and an example.
    """
    return Tactic(function)


def check_documented(function: Callable[..., object], kind: Literal["tactic", "recipe"] = "tactic") -> None:
    """Raise `InvalidArgument` unless the docstring of a tactic or recipe shows before → after."""
    if "→" not in (function.__doc__ or ""):
        raise InvalidArgument(
            f"the docstring of the {kind} {name_of(function)} has no →",
            required="a docstring that shows before → after",
            suggestions=('"""Run a loop in blocks: ⊞[i < n] e → ⊞[io < n / k] ⊞[ii < k] e."""',),
        )


def name_of(function: object) -> str:
    """Return the name of a tactic in the record of a session; a callable object has the name of its class."""
    return str(getattr(function, "__name__", type(function).__name__))


def text_of(function: Callable[..., object]) -> tuple[str, str]:
    """Return the call of a tactic as a method of `s`, and its docstring."""
    return f"s.{name_of(function)}{parameters_of(function)}", inspect.getdoc(function) or ""


def parameters_of(function: Callable[..., object]) -> str:
    """Return the parameters without annotations and without the first one: the derivation or the session."""
    whole = inspect.signature(function)
    shown = [each.replace(annotation=inspect.Parameter.empty) for each in list(whole.parameters.values())[1:]]
    return str(whole.replace(parameters=shown, return_annotation=inspect.Signature.empty))
