"""What the calls of a session may be given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

from atl.errors import WrongArgument, brief


def check_takes(tactic: Callable[..., object], arguments: Sequence[object], options: Mapping[str, object]) -> None:
    """Raises `WrongArgument` unless a tactic takes a derivation and these arguments."""
    try:
        inspect.signature(tactic).bind(None, *arguments, **options)
    except TypeError as error:
        raise WrongArgument(
            f"{getattr(tactic, '__name__', 'the tactic')} does not take what is given: {error}",
            required="a function of one argument more than are given, which comes first: def tactic(work, …)",
        ) from None
    except ValueError:
        pass  # of what is written in C nothing is known


def check_flags(**flags: object) -> None:
    """Raises `WrongArgument` for a flag that is neither true nor false."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise WrongArgument(f"{name}={brief(value)}", required=f"{name}=True or {name}=False")
