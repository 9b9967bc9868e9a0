"""Statements of loop nests in the notation of Rocq, with the constructors of `Nests.v`.

Storage is denoted by its id in the nest, a loop variable by its name and id. Sizes, indices and inputs are printed by
`rewrites.rocq.notation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from math import isfinite
from typing import assert_never

from atl.core.index import AnyAtom, Array, Bound, Extremum, Index, Quotient, Read, Size, Var, Xor, index
from atl.core.predicate import TRUE, All, Any, NonNegative, NonZero, Predicate, Zero, conjunction, negation
from atl.errors import InvalidArgument
from lowering.nest import loopnest as ln
from rewrites.rocq.notation import Notation, holds_integers, number, operation, positions, word

Under = tuple[Predicate, Read]
"""An element that is read, and the condition under which it is read."""


@dataclass(slots=True)
class Printer:
    """Printer of the statements of one nest. It declares variables for the initial contents of storage."""

    capacities: Mapping[int, Index]
    """The capacity of each buffer that is allocated in one block and cleared in another."""
    inputs: Mapping[str, Array]
    """The inputs, as the programs declare them."""
    notation: Notation = field(default_factory=Notation)
    garbage: dict[str, int] = field(default_factory=dict)
    """The declared variables for arbitrary contents, each with the number of loop indices it depends on."""
    latest: str = ""
    """The arbitrary contents that were declared last."""
    numbers: Iterator[int] = field(default_factory=count)

    def index(self, e: Index) -> str:
        return self.notation.index(e)

    def predicate(self, p: Predicate) -> str:
        return self.notation.predicate(p)

    # -- statements

    def loop(self, at: ln.For, body: str) -> str:
        """Print a loop around a printed body."""
        variable = self.notation.index(index(at.variable))
        ends = f"{self.index(at.low)} {self.index(at.high)}"
        return f"(For {ends} (fun {variable} =>\n{body}))"

    def branch(self, at: ln.If, body: str) -> str:
        """Print a branch around a printed body."""
        return f"(When {self.predicate(at.predicate)}\n{body})"

    def simple(self, at: ln.Statement, loops: tuple[Var, ...]) -> str:
        """Print a statement without a body."""
        match at:
            case ln.Assign(target, value):
                return f"(Assign {self._target(target)} {self.value(value)})"
            case ln.Accumulate(target, op, value):
                if op not in ("add", "sub"):
                    raise InvalidArgument(
                        f"a nest that folds by {op}",
                        required="sums: other folds start from a value that is not a scalar in Rocq",
                    )
                return f"(Accumulate {operation(op)} {self._target(target)} {self.value(value)})"
            case ln.Declare(variable, initial):
                return f"(Assign {self._target(variable)} {self.value(initial)})"
            case ln.Allocate(buffer, capacity, zeroed=zeroed):
                if buffer.uid in self.capacities:
                    return self._memory(buffer, f"Own {self.index(capacity)}", loops)
                return self.storage(buffer, capacity, f"(Own {self.index(capacity)})", zeroed, loops)
            case ln.Clear(buffer, cell=ln.Cell()):
                raise InvalidArgument(
                    f"the workspace {buffer.name}, of which single cells are cleared",
                    required="a nest whose buffers are cleared as a whole",
                )
            case ln.Clear(buffer, cells, zeroed, row):
                if row is not None:
                    raise InvalidArgument(
                        f"the circular buffer {buffer.name}", required="a nest without the mark `ring`"
                    )
                memory = f"(Of {memory_of(buffer)} {self.index(self.capacities[buffer.uid])})"
                return self.storage(buffer, cells, memory, zeroed, loops)
            case ln.Free(buffer) if buffer.uid in self.capacities:
                shape = positions([self.index(self.capacities[buffer.uid])])
                gone = f"(Storage {buffer.uid} nil 1 (Own 1) {self.anything(loops)})"
                return f"(Then {gone}\n(Storage {memory_of(buffer)} nil 1 (Freed {shape}) {self.anything(loops)}))"
            case ln.Free(buffer):
                return f"(Storage {buffer.uid} nil 1 (Freed {self.shape(buffer)}) {self.anything(loops)})"
            case ln.Gather(buffer, row):
                return f"(Gather {buffer.uid} {'None' if row is None else f'(Some {self.index(row)})'})"
            case ln.For() | ln.If():
                raise AssertionError("loops and branches have bodies")
            case _:
                assert_never(at)

    def storage(self, buffer: ln.Buffer, cells: Index, memory: str, zeroed: bool, loops: tuple[Var, ...]) -> str:
        """Print storage that holds zeros or arbitrary values."""
        holds = "(fun _ => zero)" if zeroed else self.anything(loops)
        return f"(Storage {buffer.uid} {self.shape(buffer)} {self.index(cells)} {memory} {holds})"

    def _memory(self, buffer: ln.Buffer, memory: str, loops: tuple[Var, ...]) -> str:
        """Print memory that holds a tensor of a different shape in each iteration."""
        capacity = self.index(self.capacities[buffer.uid])
        return f"(Storage {memory_of(buffer)} {positions([capacity])} {capacity} ({memory}) {self.anything(loops)})"

    def shape(self, of: ln.Buffer | ln.Scalar) -> str:
        """Print the declared extents."""
        if isinstance(of, ln.Scalar):
            return "nil"
        if of.rows or of.home is not None:
            raise InvalidArgument(
                f"{of.name} shares the storage of {'its own rows' if of.rows else of.storage.name}",
                required="a nest in which tensors do not share storage",
            )
        return positions(map(self.index, of.extents))

    def anything(self, loops: tuple[Var, ...]) -> str:
        """Declare and print arbitrary contents, which depend on the indices of loops."""
        name = f"garbage''{next(self.numbers)}"
        self.garbage[name] = len(loops)
        self.latest = f"({' '.join([name, *(self.index(index(variable)) for variable in loops)])})"
        return self.latest

    def _target(self, at: ln.Cell | ln.Scalar) -> str:
        if isinstance(at, ln.Scalar):
            return f"{at.uid} nil nil nil"
        return f"{at.buffer.uid} {self._place(at)}"

    def _place(self, cell: ln.Cell) -> str:
        extents = positions(self.index(extent) for _, extent in cell.pairs)
        name = cell.buffer.name
        shape = self.declared(name) if cell.buffer.role == "input" else self.shape(cell.buffer)
        return f"{shape} {extents} {positions(self.index(at) for at, _ in cell.pairs)}"

    def declared(self, name: str) -> str:
        """Print the extents of an input as declared by the programs, not by the nest."""
        return positions(map(self.index, self._input(name).shape))

    def _input(self, name: str) -> Array:
        if name not in self.inputs:
            raise InvalidArgument(f"the input {name} is also the output", required="inputs that are not outputs")
        return self.inputs[name]

    # -- values

    def value(self, e: ln.ScalarExpr) -> str:
        """Print an expression of type value."""
        match e:
            case ln.Number(value):
                return f"(Number {literal(value)})"
            case ln.Load(source):
                if isinstance(source, ln.Scalar):
                    return f"(Load {source.uid} nil nil nil)"
                if source.buffer.role == "input":
                    return f"(Element {self.input(source.buffer.name)} {self._place(source)})"
                return f"(Load {source.buffer.uid} {self._place(source)})"
            case ln.FromIndex(at):
                return f"(Number (integer {self.index(at)}))"
            case ln.Apply("where"):
                raise InvalidArgument(
                    "a nest with a choice between elements by a test",
                    required="operations of one or two operands, which nests in Rocq have",
                )
            case ln.Apply(op, (only,), dtype) if op != "where":
                return f"(Of_one {operation(op, dtype)} {self.value(only)})"
            case ln.Apply(op, (left, right), dtype) if op != "where":
                return f"(Of_two {operation(op, dtype)} {self.value(left)} {self.value(right)})"
            case ln.Apply():
                raise AssertionError("an operation has one operand or two")
            case ln.Choose(p, left, right):
                return f"(Choose {self.predicate(p)} {self.value(left)} {self.value(right)})"
            case ln.Convert(argument, dtype):
                return f'(Of_one (convert "{dtype}") {self.value(argument)})'
            case _:
                assert_never(e)

    def input(self, name: str) -> str:
        """Print an input as a tensor."""
        return f"(integers {word(name)})" if holds_integers(self._input(name)) else word(name)

    def look(self, under: Predicate, read: Read) -> str:
        """Print the read of an element in an index or a condition."""
        place = positions(map(self.index, read.indices))
        text = f"(Look {self.declared(read.array.name)} {place})"
        return text if under == TRUE else f"(When {self.predicate(under)} {text})"


def memory_of(buffer: ln.Buffer) -> str:
    """Return the storage id for the memory of a buffer that is allocated in one block and cleared in another."""
    return f"({-1 - buffer.uid})"


def literal(value: int | float) -> str:
    """Print a finite literal."""
    if not isfinite(value):
        raise InvalidArgument(
            f"{value} cannot be written in Rocq, whose scalars are those of a ring",
            required="finite numbers, and no maximum or minimum over a range, which starts from an infinity",
        )
    return number(value)


def looks_of(at: ln.Statement) -> Iterator[Under]:
    """Yield the elements that the indices and conditions of a statement read, without its body."""
    match at:
        case ln.For(_, low, high):
            yield from reads_of(low, high)
        case ln.If(predicate):
            yield from reads_of_condition(predicate)
        case ln.Assign(target, value) | ln.Accumulate(target, _, value):
            yield from _reads(target, value)
        case ln.Declare(_, initial):
            yield from _reads(initial)
        case ln.Allocate(_, capacity):
            yield from reads_of(capacity)
        case ln.Clear(_, cells):
            yield from reads_of(cells)
        case ln.Gather(_, row):
            yield from reads_of(*(() if row is None else (row,)))
        case ln.Free():
            return
        case _:
            assert_never(at)


def reads_of(*expressions: Index, under: Predicate = TRUE) -> Iterator[Under]:
    """Yield the array elements used in indices, inner ones last."""
    for expression in expressions:
        for monomial, _ in expression.terms:
            for atom in monomial:
                yield from _reads_of_atom(atom, under)


def _reads_of_atom(atom: AnyAtom, under: Predicate) -> Iterator[Under]:
    match atom:
        case Size() | Var() | Bound():
            return
        case Quotient(numerator, denominator):
            yield from reads_of(numerator, denominator, under=under)
        case Extremum(_, parts) | Xor(parts):
            yield from reads_of(*parts, under=under)
        case Read(_, indices):
            yield under, atom
            yield from reads_of(*indices, under=under)
        case _:
            assert_never(atom)


def reads_of_condition(p: Predicate, under: Predicate = TRUE) -> Iterator[Under]:
    """Yield the elements that a condition reads; its parts are evaluated from left to right."""
    match p:
        case NonNegative(e) | Zero(e) | NonZero(e):
            yield from reads_of(e, under=under)
        case All(parts):
            for part in parts:
                yield from reads_of_condition(part, under)
                under = conjunction((under, part))
        case Any(parts):
            for part in parts:
                yield from reads_of_condition(part, under)
                under = conjunction((under, negation(part)))
        case _:
            assert_never(p)


def _reads(*of: ln.Cell | ln.Scalar | ln.ScalarExpr, under: Predicate = TRUE) -> Iterator[Under]:
    for e in of:
        match e:
            case ln.Scalar() | ln.Number():
                pass
            case ln.Cell(buffer, pairs):
                yield from reads_of(*buffer.extents, *(part for pair in pairs for part in pair), under=under)
            case ln.Load(source):
                yield from _reads(source, under=under)
            case ln.FromIndex(at):
                yield from reads_of(at, under=under)
            case ln.Apply(_, arguments):
                yield from _reads(*arguments, under=under)
            case ln.Choose(p, left, right):
                yield from reads_of_condition(p, under)
                yield from _reads(left, under=conjunction((under, p)))
                yield from _reads(right, under=conjunction((under, negation(p))))
            case ln.Convert(argument):
                yield from _reads(argument, under=under)
            case _:
                assert_never(e)
