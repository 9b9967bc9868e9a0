"""The input and the result of a validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from atl.core.index import Array
from atl.core.operations import BinaryOp, UnaryOp
from atl.core.program import Program

Branch: TypeAlias = tuple[int, str]
"""The line of a branch, and which way it goes."""
Domain: TypeAlias = Literal["polynomials", "residues", "free terms"]


@dataclass(frozen=True, slots=True)
class Known:
    """What a function of the text computes: an operation of programs, on elements of a type.

    With `op="cast"`, it converts elements of type `source` to `dtype`, and with `op="same"`, it returns its operand, of
    any type.
    """

    op: UnaryOp | BinaryOp | Literal["cast", "same"]
    dtype: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Interface:
    """A C text and the calls of its function: the program, and the order of the parameters.

    `known` says what functions of the text compute, such as exponential functions. They are not executed on elements
    without numbers. `strict` text computes the operations of the program in their order. With `own_buffers`, each of
    several results is a separate parameter, with the element type of that result.
    """

    text: str
    name: str
    program: Program
    inputs: tuple[Array, ...]
    sizes: tuple[str, ...]
    dtype: str
    known: Mapping[str, Known] = field(default_factory=dict)
    strict: bool = False
    calls: tuple[str, ...] = ()
    """The calls of instructions and libraries, whose text is not executed: the loops that they replace are."""
    own_buffers: bool = False


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of a validation: that C text computes its program at some sizes.

    `domain` says for which elements. `polynomials`: for all real numbers as elements, exactly. `residues`: the same
    with a very high probability for each order of the elements that was drawn, where text branches on elements or
    polynomials are too large. `free terms`: the operations are those of the program in its order, so that the bits are
    equal, for such orders. Integers of inputs that are used as indices were drawn at random.

    `covered` are the branches that ran, of all `branches` in the functions that the kernel calls: a line of the text,
    and a way. `skipped` are sizes that were chosen, but at which the text took too many steps or polynomials were too
    large. `assumed` are functions of the text that were taken to compute what they say.
    """

    name: str
    domain: Domain
    sizes: tuple[dict[str, int], ...]
    covered: frozenset[Branch]
    branches: frozenset[Branch]
    failed_allocations: int
    assumed: tuple[str, ...]
    calls: tuple[str, ...] = ()
    """Calls of instructions and libraries. They are also in `assumed`: the loops ran that they replace."""
    skipped: tuple[dict[str, int], ...] = ()

    @property
    def complete(self) -> bool:
        """Whether all branches ran, no sizes were skipped, and no call of an instruction may run in their place."""
        return self.covered == self.branches and not self.skipped and not self.calls

    @property
    def missed(self) -> tuple[str, ...]:
        """The branches that did not run."""
        return tuple(f"line {line}, {way}" for line, way in sorted(self.branches - self.covered))

    def __str__(self) -> str:
        shown = {
            "polynomials": "for all real numbers as elements",
            "residues": "for elements modulo a prime, in random orders",
            "free terms": "with the same operations in the same order",
        }[self.domain]
        lines = [
            f"the C text of {self.name} computes its program {shown}, at {_counted(self.sizes)} of sizes",
            f"  branches that ran: {len(self.covered)} of {len(self.branches)}",
        ]
        if self.failed_allocations:
            lines.append(f"  allocations made to fail: {self.failed_allocations}, without leaks")
        if self.assumed:
            lines.append(f"  functions taken as they are named: {', '.join(self.assumed)}")
        if self.skipped:
            shown_sizes = "; ".join(", ".join(f"{name} = {each[name]}" for name in each) for each in self.skipped)
            lines.append(f"  skipped, as too large: {shown_sizes}")
        if self.missed:
            lines.append(f"  did not run: {'; '.join(self.missed)}")
        return "\n".join(lines)


def _counted(sizes: Sequence[object]) -> str:
    return "1 choice" if len(sizes) == 1 else f"{len(sizes)} choices"
