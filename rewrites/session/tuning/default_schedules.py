"""Default schedules for autotuning by the form of the main nest: register tiles, unroll-and-jam or vector lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from atl.core import terms
from atl.core.program import Program
from atl.core.traversal import Path, subterm
from atl.errors import InvalidArgument
from rewrites.errors import DoesNotApply

Schedule: TypeAlias = Callable[..., object]
Choices: TypeAlias = Mapping[str, Sequence[Any]]

TILES: Final[Choices] = {"rows": (8, 4, 6), "columns": (32, 16, 48), "swapped": (False, True)}
ROWS: Final[Choices] = {"rows": (1, 4, 2, 6, 8), "vector": (False, True)}
LANES: Final[Choices] = {"lanes": (0, 8, 16, 64)}


def default_schedule(goal: Program) -> tuple[Schedule, Choices]:
    """Return a schedule for the loops that compute the result of a program, and the choices of its parameters.

    A sum for each element of a matrix is accumulated in register tiles of rows x columns. Other nested loops are
    unrolled and jammed in the second innermost loop, sharing the innermost let around them. A single loop is
    vectorized. Raises `InvalidArgument` if there is no loop.

    >>> import atl
    >>> default_schedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))[1]
    {'lanes': (0, 8, 16, 64)}
    """
    lets, nest, below = _nest(goal)
    if len(nest) >= 2 and isinstance(below, terms.Reduce) and below.monoid == "sum" and not below.type.rank:
        outer, inner = nest[-2:]
        total = _past_guards(goal, (*inner, 0))
        columns = subterm(goal.body, inner)
        assert isinstance(columns, terms.Gen)
        return lambda s, **numbers: _tiles(s, (outer, inner), total, columns.name, **numbers), TILES
    if len(nest) >= 2:
        around = nest[-2]
        return lambda s, **numbers: _rows(s, around, lets, **numbers), ROWS
    if nest:
        return lambda s, **numbers: _lanes(s, nest[0], **numbers), LANES
    custom = "schedule=lambda s, by: s.tile(…, by), choices={'by': [8, 16]}"
    if isinstance(below, terms.Concat):
        raise InvalidArgument(
            f"the result of {goal.name} is a concatenation of several loop nests",
            required="one loop nest; or a schedule, and choices of its parameters",
            suggestions=("tune before s.tails(): s.undo(), then s.autotune(…), which removes guards itself", custom),
        )
    raise InvalidArgument(
        f"{goal.name} has no loop with a default schedule",
        required="a schedule, and choices of its parameters",
        suggestions=(custom,),
    )


def _nest(goal: Program) -> tuple[list[str], list[Path], terms.Expr]:
    """Return the lets around the loops that compute the result, these loops, and the term inside them."""
    lets: list[str] = []
    nest: list[Path] = []
    path: Path = ()
    while True:
        match subterm(goal.body, path):
            case terms.Let(name=name) if not nest:
                lets.append(name)
                path = (*path, 1)
            case terms.Gen():
                nest.append(path)
                path = (*path, 0)
            case terms.Guard() | terms.Reshape():
                path = (*path, 0)
            case (
                terms.Let()
                | terms.Concat()
                | terms.Reduce()
                | terms.Access()
                | terms.Unary()
                | terms.Binary()
                | terms.Cast()
                | terms.Select()
                | terms.Constant()
                | terms.Value()
                | terms.Input()
                | terms.Local()
                | terms.Padding()
                | terms.TensorVar()
                | terms.Metavariable()
            ) as below:
                return lets, nest, below


def _past_guards(goal: Program, path: Path) -> Path:
    while isinstance(subterm(goal.body, path), terms.Guard):
        path = (*path, 0)
    return path


def _tiles(s: Any, nest: tuple[Path, Path], total: Path, name: str, *, rows: int, columns: int, swapped: bool) -> None:
    outer, inner = nest
    total = s.find(total)
    if swapped:
        # Columns outermost: the columns of the right operand that a tile reads stay in cache for all rows.
        s.interchange(outer)
        s.tile([(*outer, 0), (*outer, 0, 0)], [columns, rows]).interchange(f"{name}i")
    else:
        s.tile([outer, inner], [rows, columns])
    s.accumulate(total, name="acc").mark("acc", "registers")
    _remove_guards(s)


def _rows(s: Any, around: Path, lets: Sequence[str], *, rows: int, vector: bool) -> None:
    loop = s.find((*around, 0))
    if rows > 1:
        s.unroll_and_jam(around, rows, share=lets[-1] if lets else None)
    if vector:
        s.mark(loop, "vector")
    _remove_guards(s)


def _lanes(s: Any, loop: Path, *, lanes: int) -> None:
    s.vectorize(loop, lanes or None, tails="split" if lanes else None)


def _remove_guards(s: Any) -> None:
    with suppress(DoesNotApply):  # there are no guards
        s.tails(strategy="split")
