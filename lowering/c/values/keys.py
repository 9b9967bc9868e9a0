"""Folds of floats by maximum or minimum in C, as loops over integer keys, which compilers vectorise.

`parallel` and `vector` loops fold keys too, because OpenMP's maximum of floats loses NaN. clang does not vectorise
reductions that are declared in the text: these took 5 to 20 times as long as the loop without a mark.
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

FULLY_UNROLLED: Final = 16
"""Largest constant number of iterations for which compilers unroll a loop and vectorise the loop around it, which keys
would prevent."""

_KEYS: Final = {"float32": "int32", "float64": "int64"}


def with_keys(scope: TextScope, loop: For) -> tuple[TextScope, list[str], list[str]]:
    """Bind keys for the variables that a loop folds into; return the scope, and lines before and after the loop."""
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
    """Print a fold into a variable that has a key in this scope; None if it has none."""
    if not isinstance(fold.target, Scalar) or _key_of(fold.target) not in scope.names.of:
        return None
    keyed = folded_name(scope, fold.target)
    return f"{keyed} = {helper(fold.op, _KEYS[fold.value.dtype])}({keyed}, {_into_key(fold)}({by}));"


def folded_name(scope: TextScope, target: Scalar) -> str:
    """Return the name of the variable's key, if it has one, else of the variable."""
    return scope.names.of.get(_key_of(target)) or scope.name(key(target))


def _key_of(target: Scalar) -> Hashable:
    return ("key", key(target))


def _into_key(fold: Accumulate) -> str:
    return f"{fold.op}_key_{C_TYPES[fold.value.dtype]}"


def folds_of(loop: For) -> dict[Scalar, Accumulate]:
    """Return the variables from outside of a loop that its iterations fold into, each with one fold."""
    inner = {made.variable for made in statements(loop.body) if isinstance(made, Declare)}
    found: dict[Scalar, Accumulate] = {}
    for statement in statements(loop.body):
        if isinstance(statement, Accumulate) and isinstance(statement.target, Scalar):
            found.setdefault(statement.target, statement)
    return {target: fold for target, fold in found.items() if target not in inner}


def only_folds(loop: For) -> bool:
    """Return whether each statement of a loop is a fold into a variable.

    Compilers vectorise such loops without a directive. With a directive, gcc does not vectorise the remaining
    iterations, and uses gather instructions: rows of 100 floats took 1.2 to 3 times as long. clang's code was the same.
    """
    return all(isinstance(each, Accumulate) and isinstance(each.target, Scalar) for each in loop.body)


def _keyed(loop: For) -> dict[Scalar, Accumulate]:
    """Return the float variables that get keys around this loop, which folds into them by maximum or minimum."""
    has_directive = loop.mark is LoopMark.PARALLEL or (loop.mark is LoopMark.VECTOR and not only_folds(loop))
    if not (has_directive or _is_long_fold(loop)):
        return {}
    into = folds_of(loop).items()
    return {to: fold for to, fold in into if fold.op in ("min", "max") and not is_integer(to.dtype)}


def _is_long_fold(loop: For) -> bool:
    """Return whether a loop without a directive has many iterations, with one folding operation for each variable."""
    count = (loop.high - loop.low).constant
    if loop.mark not in (LoopMark.NONE, LoopMark.VECTOR) or (count is not None and count <= FULLY_UNROLLED):
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
