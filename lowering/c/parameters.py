"""The parameters of the function that a nest becomes, in their order: its inputs, its sizes, its result."""

from __future__ import annotations

from collections.abc import Hashable

from atl.core.index import Size
from lowering.c.values.scalars import C_TYPES
from lowering.nest.loopnest import LoopNest, key
from lowering.nest.text_scope import TextScope


def declaration(nest: LoopNest, name: str) -> str:
    """The function's declaration in the C that cffi reads."""
    return f"int {name}({', '.join(kind for _, kind in _types(nest))});"


def parameters_of(nest: LoopNest, scope: TextScope, *, restrict: bool = False) -> list[tuple[str, str]]:
    """Each parameter's name in a scope, and its declaration; where asked for, pointers say that nothing is shared."""
    out: list[tuple[str, str]] = []
    for of, kind in _types(nest):
        name = scope.name(of)
        between = " " if not kind.endswith("*") else "restrict " if restrict else ""
        out.append((name, f"{kind}{between}{name}"))
    return out


def _types(nest: LoopNest) -> list[tuple[Hashable, str]]:
    """What each parameter stands for, as a scope knows it, and its type."""
    return [
        *((a.name, f"const {C_TYPES[a.dtype]} *" if a.shape else C_TYPES[a.dtype]) for a in nest.inputs),
        *((Size(size), "int64_t") for size in nest.sizes),
        (key(nest.output), f"{C_TYPES[nest.output.dtype]} *"),
    ]
