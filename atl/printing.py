"""Programs as text, close to the notation of the papers; `atl.parse` reads it back.

    matmul (A : float32[n, k], B : float32[k, m]) : float32[n, m] :=
      ⊞[i < n] ⊞[j < m] Σ[l < k] A[i, l] * B[l, j]

The body of a binder or a let reaches as far to the right as it can; a guard [p] · e reaches over products, not over
sums; a reshape operator and a minus sign apply to what stands next to them. With `ascii=True` the same is spelled with
words. A binder prints with the name that the user gave it, made unique where it would hide another name.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from atl import dtypes
from atl.errors import Place
from atl.index import Array, Index
from atl.index_notation import (
    Comparison,
    Condition,
    Connected,
    Division,
    Element,
    Extreme,
    Name,
    Number,
    Product,
    Sum,
    Truth,
    Written,
    write_condition,
    write_index,
)
from atl.layout_text import HARD, LINE, SOFT, START, STOP, Doc, Group, Laid, Nest, call, lay_out, separated, seq
from atl.predicate import Predicate, expressions
from atl.substitution import children
from atl.terms import (
    Access,
    Binary,
    Cast,
    Concat,
    Constant,
    Expr,
    Flatten,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Padding,
    PadLeft,
    PadRight,
    Reduce,
    Reshape,
    ReshapeOp,
    Select,
    Split,
    TensorVar,
    Transpose,
    TruncateLeft,
    TruncateRight,
    Type,
    Unary,
    Value,
)
from atl.words import ASCII, INFIX, UNICODE, Names, Spelling, names_in, names_of_index, sizes_of, spelled

if TYPE_CHECKING:
    from atl.program import Program

Path: TypeAlias = tuple[int, ...]

WHOLE: Final = 600
"""A term with more nodes than this is abridged in messages and in `repr`."""
NEAR: Final = 8
"""So many levels around what a message is about are shown."""
SMALL: Final = 30
"""A part with no more nodes than this is always shown."""


def show_index(expression: Index, *, ascii: bool = False) -> str:  # noqa: A002 (so it is called everywhere)
    """An index expression as a person would write it.

    >>> from atl.index import ceildiv, size
    >>> n, k = size("n"), size("k")
    >>> show_index((n - 1) % k), show_index(ceildiv(n, k) * k - n)
    ('(n - 1) % k', 'k*⌈n / k⌉ - n')
    """
    names = names_of_index((expression,) if expression.free else ())
    return index_text(write_index(expression, names.of_leaf), ASCII if ascii else UNICODE)


def show_predicate(predicate: Predicate, *, ascii: bool = False) -> str:  # noqa: A002
    """A condition as a person would write it.

    >>> from atl.index import index, size
    >>> from atl.predicate import within
    >>> show_predicate(within(index(1), size("i"), size("n")))
    '1 <= i < n'
    """
    names = names_of_index(expressions(predicate))
    return condition_text(write_condition(predicate, names.of_leaf), ASCII if ascii else UNICODE)


def show(expr: Expr, *, ascii: bool = False, abridge: bool = True) -> str:  # noqa: A002
    """A tensor expression as text; parts of a large one are elided unless `abridge` is false."""
    spelling = ASCII if ascii else UNICODE
    printer = _Printer(names_in(expr), spelling, abridge=abridge and expr.size > WHOLE)
    return lay_out(printer.piece(expr, _Where(()), known=False).doc).text


def show_program(program: Program, *, ascii: bool = False) -> str:  # noqa: A002
    """A program as text, never abridged: `atl.parse` gives the program back."""
    return _laid(program, _Where(None), ascii=ascii, abridge=False).text


def place_of(program: Program | Expr, path: Path, *, note: str = "", ascii: bool = False) -> Place:  # noqa: A002
    """The place of the part that is reached by following the positions in `substitution.children`, for carets beneath it.

    Only its first line is meant. The user's own line is that of the nearest part around that has one. The note, if any,
    stands at the end of that line.
    """
    at = body = getattr(program, "body", program) if not isinstance(program, _EXPRESSIONS) else program
    source = at.source
    for position in path:
        below = children(at)
        if position >= len(below):
            break
        at = below[position].expr
        source = at.source or source
    where = _Where(path)
    if isinstance(program, _EXPRESSIONS):
        printer = _Printer(names_in(program), ASCII if ascii else UNICODE, abridge=body.size > WHOLE)
        laid = lay_out(printer.piece(program, where, known=False).doc)
    else:
        laid = _laid(program, where, ascii=ascii, abridge=body.size > WHOLE)
    end = laid.text.find("\n", laid.start)
    line_end = len(laid.text) if end < 0 else end
    text = f"{laid.text[:line_end]}   -- {note}{laid.text[line_end:]}" if note else laid.text
    return Place(text, laid.start, min(laid.stop, line_end), source)
