"""Formats by name, as certificates record them."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from typing import Final

from atl.errors import InvalidArgument, brief
from rewrites import Theorem
from rewrites import load as load_with
from sparse import formats
from sparse.formats import Format

NAMED_FORMATS: Final[dict[str, Format]] = {
    form.name: form for form in vars(formats).values() if isinstance(form, Format)
}
"""The built-in formats."""


def format_named(text: str, custom: Mapping[str, Format] | None = None) -> Format | None:
    """Return the format whose `repr` is `text`, or None. `custom` maps further names to formats.

    >>> format_named("BCSR(2, 8)"), format_named("CSR.with_index_dtype('int64')"), format_named("ELL")
    (BCSR(2, 8), CSR.with_index_dtype('int64'), None)
    """
    if not isinstance(text, str) or not isinstance(custom, Mapping | None):
        raise InvalidArgument(
            f"invalid format name {brief(text)}", required="a string, and a dictionary of custom formats"
        )
    known = {**NAMED_FORMATS, **(custom or {})}
    if text in known:
        return known[text]
    try:
        found = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match found:
        case ast.Call(ast.Attribute(inner, "with_index_dtype"), [ast.Constant(str(dtype))], []):
            form = format_named(ast.unparse(inner), custom)
            return None if form is None or dtype not in ("int32", "int64") else form.with_index_dtype(dtype)
        case ast.Call(ast.Attribute(inner, "sorted"), [], []):
            form = format_named(ast.unparse(inner), custom)
            return None if form is None else form.sorted()
        case ast.Call(ast.Name(name), [*arguments], []) if name in known and known[name].make is not None:
            values = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
            whole = all(type(value) is int for value in values) and len(values) == len(arguments)
            return known[name](*values) if whole else None
        case _:
            return None


def load(
    path: str | os.PathLike[str],
    *,
    custom: Mapping[str, Format] | None = None,
    smt: bool = True,
) -> Theorem:
    """Load a certificate whose operands are sparse: `rewrites.load`, with the formats of this package.

    `custom` maps names to user-defined formats.
    """
    return load_with(path, smt=smt, formats=lambda text: format_named(text, custom))
