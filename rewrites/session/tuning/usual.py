"""What is tried where nobody says: rows together, tiles in registers, lanes, by the form of the main nest of loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from atl.core.program import Program
from atl.core.terms import (
    Access,
    Binary,
    Cast,
    Concat,
    Constant,
    Expr,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Metavariable,
    Padding,
    Reduce,
    Reshape,
    Select,
    TensorVar,
    Unary,
    Value,
)
from atl.core.traversal import Path, subterm
from atl.errors import InvalidArgument
from rewrites.errors import DoesNotApply

Schedule: TypeAlias = Callable[..., object]
Choices: TypeAlias = Mapping[str, Sequence[Any]]

TILES: Final[Choices] = {"rows": (8, 4, 6), "columns": (32, 16, 48), "swapped": (False, True)}
ROWS: Final[Choices] = {"rows": (1, 4, 2, 6, 8), "vector": (False, True)}
LANES: Final[Choices] = {"lanes": (0, 8, 16, 64)}


def usual(goal: Program) -> tuple[Schedule, Choices]:
    """A schedule for the loops that make the result of a program, and the choices of its parameters.

    A sum for each element of a matrix is added up in tiles of rows x columns in registers; of other loops within loops
    some iterations of the last but one run together, with the let around them that they share; of a single loop some
    iterations are the lanes of vectors. Raises `InvalidArgument` where there is no loop.

    >>> import atl
    >>> usual(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))[1]
    {'lanes': (0, 8, 16, 64)}
    """
    lets, nest, below = _nest(goal)
    if len(nest) >= 2 and isinstance(below, Reduce) and below.monoid == "sum" and not below.type.rank:
        outer, inner = nest[-2:]
        total = _past_guards(goal, (*inner, 0))
        columns = subterm(goal.body, inner)
        assert isinstance(columns, Gen)
        return lambda s, **numbers: _tiles(s, (outer, inner), total, columns.name, **numbers), TILES
    if len(nest) >= 2:
        around = nest[-2]
        return lambda s, **numbers: _rows(s, around, lets, **numbers), ROWS
    if nest:
        return lambda s, **numbers: _lanes(s, nest[0], **numbers), LANES
    own = "schedule=lambda s, by: s.tile(…, by), choices={'by': [8, 16]}"
    if isinstance(below, Concat):
        raise InvalidArgument(
            f"the result of {goal.name} is made by several nests of loops, one after the other",
            required="one nest; or a schedule, and choices of its parameters",
            suggestions=("tune before tails: s.undo(), then s.autotune(…), which takes the tests away by itself", own),
        )
    raise InvalidArgument(
        f"the result of {goal.name} is made by no loop that one knows how to tune",
        required="a schedule, and choices of its parameters",
        suggestions=(own,),
    )


def _nest(goal: Program) -> tuple[list[str], list[Path], Expr]:
    """The lets around the loops that make the result, these loops, and what stands in them."""
    lets: list[str] = []
    nest: list[Path] = []
    path: Path = ()
    while True:
        match subterm(goal.body, path):
            case Let(name=name) if not nest:
                lets.append(name)
                path = (*path, 1)
            case Gen():
                nest.append(path)
                path = (*path, 0)
            case Guard() | Reshape():
                path = (*path, 0)
            case (
                Let()
                | Concat()
                | Reduce()
                | Access()
                | Unary()
                | Binary()
                | Cast()
                | Select()
                | Constant()
                | Value()
                | Input()
                | Local()
                | Padding()
                | TensorVar()
                | Metavariable()
            ) as below:
                return lets, nest, below


def _past_guards(goal: Program, path: Path) -> Path:
    while isinstance(subterm(goal.body, path), Guard):
        path = (*path, 0)
    return path


def _tiles(s: Any, nest: tuple[Path, Path], total: Path, name: str, *, rows: int, columns: int, swapped: bool) -> None:
    outer, inner = nest
    total = s.find(total)
    if swapped:
        # Columns outside: the part of the right operand that a tile reads stays in the cache for all rows.
        s.interchange(outer)
        s.tile([(*outer, 0), (*outer, 0, 0)], [columns, rows]).interchange(f"{name}i")
    else:
        s.tile([outer, inner], [rows, columns])
    s.accumulate(total, name="acc").mark("acc", "registers")
    _without_tests(s)


def _rows(s: Any, around: Path, lets: Sequence[str], *, rows: int, vector: bool) -> None:
    loop = s.find((*around, 0))
    if rows > 1:
        s.unroll_and_jam(around, rows, share=lets[-1] if lets else None)
    if vector:
        s.mark(loop, "vector")
    _without_tests(s)


def _lanes(s: Any, loop: Path, *, lanes: int) -> None:
    s.vectorize(loop, lanes or None, tails="split" if lanes else None)


def _without_tests(s: Any) -> None:
    with suppress(DoesNotApply):  # there are none
        s.tails(strategy="split")
