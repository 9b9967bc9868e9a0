"""Parameters of a nest's function, in order: inputs, sizes, result."""

from __future__ import annotations

from collections.abc import Hashable

from atl.core.index import Size
from lowering.c.values.scalars import C_TYPES
from lowering.nest.loopnest import LoopNest, key
from lowering.nest.text_scope import TextScope


def declaration(nest: LoopNest, name: str) -> str:
    """Return the function's declaration for cffi."""
    return f"int {name}({', '.join(kind for _, kind in _types(nest))});"


def parameters_of(nest: LoopNest, scope: TextScope, *, restrict: bool = False) -> list[tuple[str, str]]:
    """Return each parameter's name and declaration, with `restrict` pointers if requested."""
    out: list[tuple[str, str]] = []
    for of, kind in _types(nest):
        name = scope.name(of)
        between = " " if not kind.endswith("*") else "restrict " if restrict else ""
        out.append((name, f"{kind}{between}{name}"))
    return out


def _types(nest: LoopNest) -> list[tuple[Hashable, str]]:
    """Return each parameter's key in a scope, and its type."""
    return [
        *((a.name, f"const {C_TYPES[a.dtype]} *" if a.shape else C_TYPES[a.dtype]) for a in nest.inputs),
        *((Size(size), "int64_t") for size in nest.sizes),
        (key(nest.output), f"{C_TYPES[nest.output.dtype]} *"),
    ]
