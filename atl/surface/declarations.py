"""Declarations in annotations and texts: names, extents, and types of inputs."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from atl.core import dtypes
from atl.core.index import Index, Size, index
from atl.errors import InvalidArgument, InvalidName, brief


def checked_name(name: object, what: str) -> str:
    """Return the name if it is valid for a size, an input, a let or a program. Raises `InvalidName`."""
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise InvalidName(
            f"{brief(name)} cannot name {what}",
            required="a name of ASCII letters, digits and underscores that does not start with a digit",
        )
    return name


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The annotation `atl.Tensor["n k", "float64"]`: extents, separated by spaces, and an element type."""

    extents: tuple[str, ...]
    dtype: str = dtypes.DEFAULT

    @staticmethod
    def parse(item: str | tuple[str, ...]) -> TensorSpec:
        parts = item if isinstance(item, tuple) else (item,)
        if not parts or len(parts) > 2 or not all(isinstance(part, str) for part in parts):
            raise InvalidArgument(
                f"atl.Tensor[{brief(item)}]", required='extents and an element type: atl.Tensor["n k", "float64"]'
            )
        return TensorSpec(
            tuple(parts[0].split()), dtypes.checked_dtype(parts[1]) if len(parts) == 2 else dtypes.DEFAULT
        )


def parse_extent(text: str) -> Index:
    """Parse an index expression over sizes without spaces, such as "2*n+1"."""
    try:
        return _extent(ast.parse(text, mode="eval").body)
    except SyntaxError:
        raise InvalidArgument(
            f"{brief(text)} is not an extent", required='a size or an expression such as "2*n+1"'
        ) from None


def _extent(node: ast.expr) -> Index:
    match node:
        case ast.Name(name):
            return index(Size(checked_name(name, "a size")))
        case ast.Constant(int() as value):
            return index(value)
        case ast.BinOp(left, ast.Add(), right):
            return _extent(left) + _extent(right)
        case ast.BinOp(left, ast.Sub(), right):
            return _extent(left) - _extent(right)
        case ast.BinOp(left, ast.Mult(), right):
            return _extent(left) * _extent(right)
        case ast.BinOp(left, ast.FloorDiv(), right):
            return _extent(left) // _extent(right)
        case ast.BinOp(left, ast.Div(), right):
            raise InvalidArgument(
                f"{brief(ast.unparse(node))} is not an extent: indices have no exact division",
                required='sizes and integers joined by + - * //, such as "2*n+1"',
                suggestions=(f"write {ast.unparse(left)}//{ast.unparse(right)} to round down",),
            )
        case _:
            raise InvalidArgument(
                f"{brief(ast.unparse(node))} is not an extent",
                required='sizes and integers joined by + - * //, such as "2*n+1"',
                suggestions=('separate extents by spaces: atl.Tensor["n m"]',) if isinstance(node, ast.Tuple) else (),
            )
