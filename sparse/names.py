"""Formats by their names, as certificates have them."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from typing import Final

from atl.errors import WrongArgument, brief
from rewrites import Theorem
from rewrites import load as load_with
from sparse import formats
from sparse.formats import Format

NAMED: Final[dict[str, Format]] = {form.name: form for form in vars(formats).values() if isinstance(form, Format)}
"""The formats that have a name here."""


def format_named(text: str, own: Mapping[str, Format] | None = None) -> Format | None:
    """The format that prints as this text; `own` are further ones by their names. None for a text of none.

    >>> format_named("BCSR(2, 8)"), format_named("CSR.with_index('int64')"), format_named("ELL")
    (BCSR(2, 8), CSR.with_index('int64'), None)
    """
    if not isinstance(text, str) or not isinstance(own, Mapping | None):
        raise WrongArgument(f"the format called {brief(text)}", required="a text, and your own formats by their names")
    known = {**NAMED, **(own or {})}
    if text in known:
        return known[text]
    try:
        found = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match found:
        case ast.Call(ast.Attribute(inner, "with_index"), [ast.Constant(str(index))], []):
            form = format_named(ast.unparse(inner), own)
            return None if form is None or index not in ("int32", "int64") else form.with_index(index)
        case ast.Call(ast.Attribute(inner, "in_order"), [], []):
            form = format_named(ast.unparse(inner), own)
            return None if form is None else form.in_order()
        case ast.Call(ast.Name(name), [*arguments], []) if name in known and known[name].make is not None:
            values = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
            whole = all(type(value) is int for value in values) and len(values) == len(arguments)
            return known[name](*values) if whole else None
        case _:
            return None


def load(
    path: str | os.PathLike[str],
    *,
    own: Mapping[str, Format] | None = None,
    smt: bool = True,
) -> Theorem:
    """The theorem that a file certifies, with operands that calls pass packed: `rewrites.load` with our formats.

    `own` are formats of your own, by their names.
    """
    return load_with(path, smt=smt, formats=lambda text: format_named(text, own))
