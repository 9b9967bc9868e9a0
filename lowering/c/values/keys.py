"""Folds of floats by maximum or minimum in C: loops over integer keys, of which compilers make vectors."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, assert_never

from atl.core.dtypes import is_integer
from atl.core.marks import LoopMark
from lowering.c.values.scalars import C_TYPES, helper
from lowering.nest.loopnest import Accumulate, Allocate, Assign, Clear, Declare, For, Free, If, Scalar, key, statements
from lowering.nest.text_scope import TextScope
from lowering.nest.tiles import sources

FEW: Final = 16
"""Loops of so many iterations at most, where that is known, compilers write out, and make vectors of the loop around
them: keys would only be in the way."""

_KEYS: Final = {"float32": "int32", "float64": "int64"}


def with_keys(scope: TextScope, loop: For) -> tuple[TextScope, list[str], list[str]]:
    """The place before a loop where the variables that it folds into have keys, and the lines before and after it."""
    before: list[str] = []
    after: list[str] = []
    for fold in _folds(loop):
        if isinstance(fold.target, Scalar):
            name, dtype = scope.name(key(fold.target)), fold.value.dtype
            keyed, scope = scope.bind(_key_of(fold.target), f"{name}_key")
            before.append(f"{C_TYPES[_KEYS[dtype]]} {keyed} = {_into_key(fold)}({name});")
            after.append(f"{name} = {C_TYPES[dtype]}_of_key({keyed});")
    return scope, before, after


def fold_of_keys(scope: TextScope, fold: Accumulate, by: str) -> str | None:
    """A fold with this text into a variable that has a key here; nothing, where it has none."""
    keyed = scope.names.of.get(_key_of(fold.target)) if isinstance(fold.target, Scalar) else None
    if keyed is None:
        return None
    return f"{keyed} = {helper(fold.op, _KEYS[fold.value.dtype])}({keyed}, {_into_key(fold)}({by}));"


def _key_of(target: Scalar) -> Hashable:
    return ("key", key(target))


def _into_key(fold: Accumulate) -> str:
    return f"{fold.op}_key_{C_TYPES[fold.value.dtype]}"


def _folds(loop: For) -> tuple[Accumulate, ...]:
    """One fold for each variable of floats into which a loop folds by maximum or minimum.

    None, where the loop does anything else than to fold, is marked, or has few iterations.
    """
    count = (loop.high - loop.low).constant
    if loop.mark is not LoopMark.NONE or (count is not None and count <= FEW):
        return ()
    found: dict[Hashable, Accumulate] = {}
    for statement in statements(loop.body):
        match statement:
            case Accumulate(Scalar() as target, op):
                if found.setdefault(key(target), statement).op != op:
                    return ()
            case If():
                pass
            case For() | Accumulate() | Assign() | Declare() | Allocate() | Clear() | Free():
                return ()
            case _:
                assert_never(statement)
    folds = [statement for statement in statements(loop.body) if isinstance(statement, Accumulate)]
    if any(isinstance(read, Scalar) and key(read) in found for fold in folds for read in sources(fold.value)):
        return ()
    return tuple(fold for fold in found.values() if fold.op in ("min", "max") and not is_integer(fold.value.dtype))
