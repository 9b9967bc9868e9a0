"""The steps of one rank of a distributed program. All ranks take the same steps in the same order.

A step computes one tensor, `into`, which later steps read. Programs of steps have sizes for the coordinates of the rank
(`rank_x`), for those of the rank that receives a message (`peer_x`), and for the counters of loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from atl.core.index import Index
from atl.core.marks import LoopMark
from atl.core.program import Program
from atl.core.terms import Expr, Monoid, Type
from atl.text.printing import show, show_index
from lowering.places import CopyForm
from lowering.ranks.mesh import letter_of

GatherForm: TypeAlias = Literal["all-gather", "all-to-all"]
FoldForm: TypeAlias = Literal["all-reduce", "reduce-scatter"]


@dataclass(frozen=True, slots=True)
class Local:
    """A tensor that the rank computes from what it holds."""

    into: str
    program: Program

    def __str__(self) -> str:
        return f"{self.into} := {show(self.program.body)}"


@dataclass(frozen=True, slots=True)
class Join:
    """The concatenation of two tensors along a dimension."""

    into: str
    left: str
    right: str
    dimension: int

    def __str__(self) -> str:
        along = f" along dimension {self.dimension}" if self.dimension else ""
        return f"{self.into} := {self.left} ++ {self.right}{along}"


@dataclass(frozen=True, slots=True)
class Repeat:
    """A reduction over low <= counter < high, whose terms are the tensor `term` of the steps within."""

    into: str
    monoid: Monoid
    counter: str
    low: Index
    high: Index
    steps: tuple[Step, ...]
    term: str
    type: Type

    def __str__(self) -> str:
        head = f"{self.into} := {self.monoid} over {show_index(self.low)} <= {self.counter} < {show_index(self.high)}:"
        return "\n".join([head, *(f"  {line}" for step in self.steps for line in str(step).split("\n"))])


@dataclass(frozen=True, slots=True)
class Copy:
    """An exchange in which a rank receives one message from the rank at the coordinates `owner`.

    It is called "broadcast" if the owner does not depend on the rank, "shift" if its distance is constant, and
    otherwise "copy". A rank whose owner is outside of the mesh computes `absent`, where no read has an owner.
    """

    into: str
    form: CopyForm
    owner: Mapping[LoopMark, Index]
    message: Program
    absent: Program | None
    type: Type

    def __str__(self) -> str:
        at = ", ".join(f"{letter_of(axis)} = {show_index(owner)}" for axis, owner in self.owner.items())
        return f"{self.into} := {self.form} from {at}: {show(self.message.body)}"


@dataclass(frozen=True, slots=True)
class Gather:
    """An exchange in which a rank receives a message from each rank along an axis, and stacks them.

    It is an all-gather; if messages depend on the receiver, an all-to-all.
    """

    into: str
    form: GatherForm
    axis: LoopMark
    dimension: int
    message: Program
    part: Type
    type: Type

    def __str__(self) -> str:
        return f"{self.into} := {self.form} along {letter_of(self.axis)}: {show(self.message.body)}"


@dataclass(frozen=True, slots=True)
class Fold:
    """An exchange that reduces the messages of all ranks along an axis in the order of the ranks.

    It is an all-reduce; if messages depend on the receiver, a reduce-scatter.
    """

    into: str
    form: FoldForm
    axis: LoopMark
    monoid: Monoid
    message: Program
    type: Type

    def __str__(self) -> str:
        return f"{self.into} := {self.form} ({self.monoid}) along {letter_of(self.axis)}: {show(self.message.body)}"


@dataclass(frozen=True, slots=True)
class Counts:
    """An exchange of single elements: `owners` is the number of the owner of each element plus 1, and 0 for padding.

    The owner sends the elements of `message` that it owns, in row-major order. Along axes other than `moving`, its
    coordinates are those of the receiver. Elements without an owner are those of `absent`.
    """

    into: str
    owners: Program
    owner: Expr
    message: Program
    absent: Program | None
    moving: tuple[LoopMark, ...]
    type: Type

    @property
    def form(self) -> str:
        return "exchange by counts"

    def __str__(self) -> str:
        return f"{self.into} := {self.form} from {show(self.owner)}: {show(self.message.body)}"


Exchange: TypeAlias = Copy | Gather | Fold | Counts
Step: TypeAlias = Local | Join | Repeat | Exchange


def exchanges(steps: Sequence[Step]) -> Iterator[Exchange]:
    """Yield the exchanges of steps, including those in loops."""
    for step in steps:
        match step:
            case Local() | Join():
                pass
            case Repeat():
                yield from exchanges(step.steps)
            case Copy() | Gather() | Fold() | Counts():
                yield step
            case _:
                assert_never(step)


@dataclass(frozen=True, slots=True)
class RankProgram:
    """The program of one rank: its steps, and the tensor that is its part of the result.

    `axes` are the axes of the mesh with the extents that the program gives them, `result` those of the leading
    dimensions of the result. `counters` are the sizes of loops and coordinates, by axis.
    """

    program: Program
    axes: Mapping[LoopMark, Index]
    result: tuple[LoopMark, ...]
    steps: tuple[Step, ...]
    out: str
    ranks: Mapping[LoopMark, str]
    peers: Mapping[LoopMark, str]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.steps), f"result: {self.out}"])
