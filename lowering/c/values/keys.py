"""Folds of floats by maximum or minimum in C: loops over integer keys, of which compilers make vectors.

Loops that are marked `parallel` or `vector` fold keys too. OpenMP's maximum of floats loses NaN. clang makes no vectors
of a reduction that is declared in the text: it took 5 to 20 times as long as the loop without a mark.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, assert_never

from atl.core.dtypes import is_integer
from atl.core.marks import LoopMark
from atl.core.terms import BinaryOp
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
    for target, fold in _keyed(loop).items():
        if _key_of(target) not in scope.names.of:
            name, dtype = scope.name(key(target)), target.dtype
            keyed, scope = scope.bind(_key_of(target), f"{name}_key")
            before.append(f"{C_TYPES[_KEYS[dtype]]} {keyed} = {_into_key(fold)}({name});")
            after.append(f"{name} = {C_TYPES[dtype]}_of_key({keyed});")
    return scope, before, after


def fold_of_keys(scope: TextScope, fold: Accumulate, by: str) -> str | None:
    """A fold with this text into a variable that has a key here; nothing, where it has none."""
    if not isinstance(fold.target, Scalar) or _key_of(fold.target) not in scope.names.of:
        return None
    keyed = folded_name(scope, fold.target)
    return f"{keyed} = {helper(fold.op, _KEYS[fold.value.dtype])}({keyed}, {_into_key(fold)}({by}));"


def folded_name(scope: TextScope, target: Scalar) -> str:
    """The name of what is folded into: of the variable's key where it has one, else of the variable."""
    return scope.names.of.get(_key_of(target)) or scope.name(key(target))


def _key_of(target: Scalar) -> Hashable:
    return ("key", key(target))


def _into_key(fold: Accumulate) -> str:
    return f"{fold.op}_key_{C_TYPES[fold.value.dtype]}"


def folds_of(loop: For) -> dict[Scalar, Accumulate]:
    """Return the variables from outside of a loop that its iterations fold into, each with one fold."""
    own = {made.variable for made in statements(loop.body) if isinstance(made, Declare)}
    found: dict[Scalar, Accumulate] = {}
    for statement in statements(loop.body):
        if isinstance(statement, Accumulate) and isinstance(statement.target, Scalar):
            found.setdefault(statement.target, statement)
    return {target: fold for target, fold in found.items() if target not in own}


def only_folds(loop: For) -> bool:
    """Whether a loop does nothing but fold into variables, in each iteration.

    Compilers make vectors of it without a directive. With one, gcc makes no short vectors of the last iterations, and
    gathers: rows of 100 floats took 1.2 to 3 times as long. clang's code was the same.
    """
    return all(isinstance(each, Accumulate) and isinstance(each.target, Scalar) for each in loop.body)


def _keyed(loop: For) -> dict[Scalar, Accumulate]:
    """The variables of floats that get keys around this loop, which folds into them by maximum or minimum."""
    has_directive = loop.mark is LoopMark.PARALLEL or (loop.mark is LoopMark.VECTOR and not only_folds(loop))
    if not (has_directive or _is_long_fold(loop)):
        return {}
    into = folds_of(loop).items()
    return {to: fold for to, fold in into if fold.op in ("min", "max") and not is_integer(to.dtype)}


def _is_long_fold(loop: For) -> bool:
    """Whether a loop without a directive has many iterations, which fold into each variable by one operation."""
    count = (loop.high - loop.low).constant
    if loop.mark not in (LoopMark.NONE, LoopMark.VECTOR) or (count is not None and count <= FEW):
        return False
    found: dict[Hashable, BinaryOp] = {}
    for statement in statements(loop.body):
        match statement:
            case Accumulate(Scalar() as target, op):
                if found.setdefault(key(target), op) != op:
                    return False
            case If():
                pass
            case For() | Accumulate() | Assign() | Declare() | Allocate() | Clear() | Free():
                return False
            case _:
                assert_never(statement)
    folds = [statement for statement in statements(loop.body) if isinstance(statement, Accumulate)]
    return not any(isinstance(read, Scalar) and key(read) in found for fold in folds for read in sources(fold.value))
