"""State of a text that is read as terms: values of names, and effects of statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from atl.surface.values import IndexExpr
from lowering.validation.code import line_of
from lowering.validation.types import Number
from rewrites.errors import NotRaised

Env: TypeAlias = Mapping[str, IndexExpr]
"""The values of loop variables, by unique names."""
Value: TypeAlias = Callable[[Env], Any]
"""A value that depends on loop variables: an `IndexExpr`, a condition or a `Tensor` of rank 0."""
Read: TypeAlias = Callable[[Sequence[IndexExpr]], Any]


@dataclass(frozen=True, slots=True)
class Binder:
    """A loop: the unique name of its variable, and its bounds."""

    name: str
    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class Effect:
    """A store or an accumulation to a cell, in the iterations of loops and under conditions."""

    target: str
    op: str
    position: tuple[Value, ...]
    value: Value
    binders: tuple[Binder, ...] = ()
    conditions: tuple[Value, ...] = ()
    node: Any = None


@dataclass(frozen=True, slots=True)
class Counter:
    """A variable of 64 bits that is not changed in its scope."""

    value: Value


@dataclass(frozen=True, slots=True)
class Scalar:
    """Another variable: its type and its value, if it has one."""

    of: Number
    value: Value | None


@dataclass(slots=True)
class Cells:
    """An array: its type, its extents, outermost first and None if unknown, and how its elements are read."""

    of: Number
    extents: tuple[IndexExpr | None, ...] | None
    read: Read | None
    is_input: bool = False


@dataclass(slots=True)
class State:
    """The names in scope. No name hides another one."""

    names: dict[str, Counter | Scalar | Cells] = field(default_factory=dict)

    def inside(self) -> State:
        return State(dict(self.names))

    def counter(self, name: str) -> Counter | None:
        found = self.names.get(name)
        return found if isinstance(found, Counter) else None

    def scalar(self, name: str) -> Scalar | None:
        found = self.names.get(name)
        return found if isinstance(found, Scalar) else None

    def cells(self, name: str) -> Cells | None:
        found = self.names.get(name)
        return found if isinstance(found, Cells) else None


def refused(node: Any, why: str) -> NotRaised:
    """Return the error for a part of the text that is not read as a term."""
    return NotRaised(
        f"line {line_of(node)} of the C text is not read as a term: {why}",
        required="loops in which each iteration stores another element, or adds to a sum",
        suggestions=("validate this kernel at chosen sizes: kernel.validate()",),
    )
