"""Kinds of arguments of tactics. Signatures name them, and random tests draw arguments by them.

To the type checker each kind is the plain type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

from atl.core.marks import CallMark, LetMark, LoopMark
from atl.surface.reindexing import Arrangement, Reindexing
from rewrites.cursors.targets import Target
from rewrites.rule_arguments import Function

# -- places of the goal -----------------------------------------------------------------------------------------------

Term: TypeAlias = Annotated[Target, "any term"]
Scalar: TypeAlias = Annotated[Target, "a term without dimensions"]
Element: TypeAlias = Annotated[Target, "an access to an element"]
Tensor: TypeAlias = Annotated[Target, "an input or a let"]
Operand: TypeAlias = Annotated[Target, "an input, a let or an access"]
Loop: TypeAlias = Annotated[Target, "a loop or a sum"]
Loops: TypeAlias = Annotated[Target | Sequence[Target], "a loop or a sum, or several that are directly nested"]
Recurrence: TypeAlias = Annotated[Target, "a recurrence, or the tensor of its rows"]
Sum: TypeAlias = Annotated[Target, "a sum"]
Let: TypeAlias = Annotated[Target, "a let"]
LetOrOperator: TypeAlias = Annotated[Target, "a let, or the word of a reshape operator"]
Binder: TypeAlias = Annotated[Target, "a loop, a sum or a let"]
Around: TypeAlias = Annotated[Target, "a loop or a sum, usually around the first argument"]
Above: TypeAlias = Annotated[Target, "a term that contains the first argument"]
Inside: TypeAlias = Annotated[Target | None, "the loop, sum or let in which the first argument is looked for"]

# -- other values -----------------------------------------------------------------------------------------------------

Bound: TypeAlias = Annotated[Any, "an index in the range of the loop: a number, a size, an expression or a string"]
Factor: TypeAlias = Annotated[Any, "a tile size: a number, a size, an expression or a string"]
Factors: TypeAlias = Annotated[Any, "a tile size, or a list of them for each loop; a list for one loop tiles tiles"]
Count: TypeAlias = Annotated[Any, "a small positive number"]
Number: TypeAlias = Annotated[int, "a position, counted from 0"]
NewName: TypeAlias = Annotated[str, "a new name for a loop or a let"]
SumNames: TypeAlias = Annotated[str | Sequence[str], "the name of a sum, or several"]
Mark: TypeAlias = Annotated[str | CallMark | LoopMark | LetMark | None, "a mark or its word"]
Axis: TypeAlias = Annotated[str, "an axis of a mesh: x, y or z"]
InstructionName: TypeAlias = Annotated[str, "the name of an instruction"]
BlockTile: TypeAlias = Annotated[Any, "the rows, columns and terms of a tile of a block"]
Rows: TypeAlias = Annotated[Any, "a positive number of rows: a number, a size, an expression or a string"]
Row: TypeAlias = Annotated[Callable[..., Any] | Function, "the row of a recurrence, a function of its index"]
NextRow: TypeAlias = Annotated[Callable[..., Any], "the row of a recurrence, a function of its index and earlier rows"]
FirstRows: TypeAlias = Annotated[Callable[..., Any] | None, "a first row of a recurrence, a function of its index"]
Combination: TypeAlias = Annotated[Callable[..., Any], "an associative function of two states of a scan"]
ScanElement: TypeAlias = Annotated[Callable[..., Any] | None, "an element of a scan, a function of its index"]
OfLastRow: TypeAlias = Annotated[Callable[..., Any] | None, "a term, a function of the last row of a recurrence"]
Layout: TypeAlias = Annotated[
    Arrangement | Reindexing | Callable[..., Arrangement], "a layout, or a function from a shape to a layout"
]
