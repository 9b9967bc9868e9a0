"""Programs in the core language of `Lowering.v`, with the choices that lowering made for them.

Rocq lowers such a term by its own lowering function, which is proved correct for every term, and compares the result
with the nest. The term is a hint: Rocq proves that it is well-formed, that it has the value of the program, and that
its nest is this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from atl.checks.scope import Scope, outermost
from atl.core import terms
from atl.core.index import Index, index
from atl.core.predicate import TRUE, negation
from atl.core.program import Program
from atl.errors import InvalidArgument
from lowering.nest import loopnest as ln
from lowering.normalize import normalize
from rewrites.rocq.nests.printing import Printer, literal, looks_of
from rewrites.rocq.notation import operation, positions

Block: TypeAlias = Sequence[ln.Statement]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A term of the core language, and its nest as a list of statements."""

    term: str
    nest: str
    count: str
    """The number of elements of an output that is filled with zeros first, as an option."""


def kernel(program: Program, nest: ln.LoopNest, printer: Printer) -> Kernel:
    """Return the term of a program for a nest. Raises `InvalidArgument` for what the core language lacks."""
    if nest.assembly is not None:
        raise _outside("an assembled result")
    body = normalize(program, in_order=nest.in_order).body
    reader = _Reader(printer)
    text = reader.block(nest.body)
    term, rest = reader.statement(body, nest.body, outermost(program))
    _end(rest)
    cells = printer.index(ln.elements(nest.output.extents))
    if nest.complete:
        return Kernel(term, text, "None")
    zeros = f"Storage {nest.output.uid} {printer.shape(nest.output)} {cells} (Own {cells}) (fun _ => zero)"
    return Kernel(term, f"(Then ({zeros})\n{text})", f"(Some {cells})")


def _outside(what: str) -> InvalidArgument:
    return InvalidArgument(f"{what} is not in the core language", required="generations, sums, guards, lets, reshapes")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a normalised program and its nest side by side."""

    printer: Printer
    garbage: dict[ln.Statement, str] = field(default_factory=dict)
    """The arbitrary contents of a buffer that is allocated or freed."""

    # -- nests

    def block(self, block: Block) -> str:
        """Print a block as a statement that ends in `Skip`."""
        text = "Skip"
        for at in reversed(block):
            text = f"(Then {self._printed(at)}\n{text})"
        return text

    def _printed(self, at: ln.Statement) -> str:
        if any(True for _ in looks_of(at)):
            raise _outside("an index that is read from an array")
        match at:
            case ln.For(body=body):
                return self.printer.loop(at, self.block(body))
            case ln.If(body=body):
                return self.printer.branch(at, self.block(body))
            case ln.Assign() | ln.Accumulate() | ln.Declare():
                return self.printer.simple(at, ())
            case ln.Allocate(buffer) | ln.Free(buffer) if buffer.uid not in self.printer.capacities:
                text = self.printer.simple(at, ())
                self.garbage[at] = ["zeros", *self.printer.garbage][-1]
                return text
            case ln.Allocate() | ln.Free() | ln.Clear() | ln.Gather():
                raise _outside(f"{type(at).__name__} of {at.buffer.name}")
            case _:
                assert_never(at)

    # -- terms

    def statement(self, e: terms.Expr, block: Block, scope: Scope) -> tuple[str, Block]:
        """Return the term of the statements at the beginning of a block, and the rest of the block."""
        printer = self.printer
        match e:
            case terms.Gen(low, high, body):
                loop, rest = _first(block, ln.For, "a generation")
                return f"(Gen {self._loop(loop, low, high, body, scope)})", rest
            case terms.Reduce("sum", low, high, body):
                if not isinstance(block[0] if block else None, ln.Declare):
                    loop, rest = _first(block, ln.For, "a sum")
                    return f"(Sum None {self._loop(loop, low, high, body, scope)})", rest
                declared, rest = _first(block, ln.Declare, "a sum")
                loop, rest = _first(rest, ln.For, "a sum")
                _, rest = _store(rest)
                return f"(Sum (Some {declared.variable.uid}) {self._loop(loop, low, high, body, scope)})", rest
            case terms.Guard(predicate, body):
                condition = scope.predicate(predicate)
                if e.type.rank == 0 and block and isinstance(block[0], ln.Assign | ln.Accumulate):
                    return self._leaf_store(block)
                if not block or not isinstance(block[0], ln.If) or block[0].predicate == TRUE:
                    return self.statement(body, block, scope.assume(condition))
                branch, rest = _first(block, ln.If, "a guard")
                test = printer.predicate(branch.predicate)
                inner, left = self.statement(body, branch.body, scope.assume(branch.predicate))
                _end(left)
                if rest and isinstance(rest[0], ln.If) and rest[0].predicate == negation(branch.predicate):
                    return f"(Filled {test} {self._shape(scope.shape(e.type))}\n{inner})", rest[1:]
                return f"(Guard {test}\n{inner})", rest
            case terms.Let(value, body):
                return self._let(value, body, block, scope)
            case terms.Concat(left, right):
                n, m = (printer.index(scope.index(part.type.shape[0])) for part in (left, right))
                first, rest = self.statement(left, block, scope)
                second, rest = self.statement(right, rest, scope)
                return f"(Concat {n} {m}\n{first}\n{second})", rest
            case terms.Reshape(op, operand):
                inner, rest = self.statement(operand, block, scope)
                return f"(Reshape {self._operator(op, operand.type, scope)}\n{inner})", rest
            case terms.Named() | terms.Number() | terms.Access() | terms.Elementwise() | terms.Select():
                if e.type.rank:
                    raise _outside("two statements for one tensor")
                return self._leaf_store(block)
            case terms.Reduce() | terms.Rec() | terms.Padding():
                raise _outside(f"a {type(e).__name__.lower()}")
            case _:
                assert_never(e)

    def _loop(self, loop: ln.For, low: Index, high: Index, body: terms.Expr, scope: Scope) -> str:
        facts = scope.facts.assume(loop.range)
        inner, rest = self.statement(body, loop.body, Scope(facts, (*scope.indices, index(loop.variable))))
        _end(rest)
        ends = (self.printer.index(scope.index(end)) for end in (low, high))
        return f"{' '.join(ends)} (fun {self.printer.index(index(loop.variable))} =>\n{inner})"

    def _let(self, value: terms.Expr, body: terms.Expr, block: Block, scope: Scope) -> tuple[str, Block]:
        printer = self.printer
        if not value.type.rank:
            declared, rest = _first(block, ln.Declare, "a let of a scalar")
            held: ln.Scalar | ln.Buffer = declared.variable
            if isinstance(value, terms.Reduce | terms.Let | terms.Guard) and declared.initial == ln.Number(
                0, declared.variable.dtype
            ):
                home = "(Variable_ true)"
                first, rest = self._value(value, rest, scope)
            else:
                home, first = "(Variable_ false)", f"(Leaf {self._leaf(declared.initial)})"
            second, rest = self.statement(body, rest, scope)
            return f"(Bind {held.uid} nil {home}\n{first}\n{second})", rest
        allocated, rest = _first(block, ln.Allocate, "a let of a tensor")
        held = allocated.buffer
        first, rest = self.statement(value, rest, scope)
        second, rest = self.statement(body, rest, scope)
        freed, rest = _first(rest, ln.Free, "a let of a tensor")
        if freed.buffer != held:
            raise _outside(f"{freed.buffer.name}, which is freed out of order,")
        names = [self.garbage[at] for at in (allocated, freed)]
        home = f"(Buffer {str(allocated.zeroed).lower()} {printer.index(allocated.capacity)} {' '.join(names)})"
        return f"(Bind {held.uid} {printer.shape(held)} {home}\n{first}\n{second})", rest

    def _value(self, value: terms.Expr, block: Block, scope: Scope) -> tuple[str, Block]:
        """Return the term of a scalar variable that starts at zero: a sum adds to it directly."""
        if not isinstance(value, terms.Reduce):
            return self.statement(value, block, scope)
        loop, rest = _first(block, ln.For, "a sum")
        return f"(Sum None {self._loop(loop, value.low, value.high, value.body, scope)})", rest

    def _leaf_store(self, block: Block) -> tuple[str, Block]:
        value, rest = _store(block)
        return f"(Leaf {self._leaf(value)})", rest

    def _leaf(self, e: ln.ScalarExpr) -> str:
        printer = self.printer
        match e:
            case ln.Number(value):
                return f"(Literal {literal(value)})"
            case ln.FromIndex(at):
                return f"(Literal (integer {printer.index(at)}))"
            case ln.Load(ln.Scalar(uid)):
                return f"(Named {uid} nil nil)"
            case ln.Load(ln.Cell(buffer, pairs)):
                place = positions(printer.index(at) for at, _ in pairs)
                if buffer.role == "input":
                    return f"(Read {printer.input(buffer.name)} {printer.declared(buffer.name)} {place})"
                return f"(Named {buffer.uid} {printer.shape(buffer)} {place})"
            case ln.Apply(op, (only,), dtype) if op != "where":
                return f"(Unary {operation(op, dtype)} {self._leaf(only)})"
            case ln.Apply(op, (left, right), dtype) if op != "where":
                return f"(Binary {operation(op, dtype)} {self._leaf(left)} {self._leaf(right)})"
            case ln.Choose(p, left, ln.Number(0)):
                return f"(Guarded {printer.predicate(p)} {self._leaf(left)})"
            case ln.Choose(p, left, right):
                return f"(Pick {printer.predicate(p)} {self._leaf(left)} {self._leaf(right)})"
            case ln.Convert(argument, dtype):
                return f'(Unary (convert "{dtype}") {self._leaf(argument)})'
            case ln.Apply():
                raise _outside("a choice between elements by a test")
            case _:
                assert_never(e)

    def _shape(self, shape: Sequence[Index]) -> str:
        return positions(map(self.printer.index, shape))

    def _operator(self, op: terms.ReshapeOp, of: terms.Type, scope: Scope) -> str:
        extents = [self.printer.index(scope.index(extent)) for extent in of.shape[:2]]
        match op:
            case terms.Transpose() | terms.Flatten():
                return f"({type(op).__name__} {' '.join(extents)})"
            case terms.Split(by):
                return f"(Split {extents[0]} {self.printer.index(scope.index(by))})"
            case terms.PadLeft(by) | terms.PadRight(by) | terms.TruncateLeft(by) | terms.TruncateRight(by):
                side = "left" if isinstance(op, terms.PadLeft | terms.TruncateLeft) else "right"
                kind = "Pad" if isinstance(op, terms.PadLeft | terms.PadRight) else "Truncate"
                return f"({kind}_{side} {extents[0]} {self.printer.index(scope.index(by))})"
            case terms.Place(_, at):
                return f"(Place {self.printer.index(scope.index(at))})"
            case _:
                assert_never(op)


def _first(block: Block, kind: type[ln.Statement], what: str):
    if not block or not isinstance(block[0], kind):
        raise _outside(f"{what} that passes have changed")
    return block[0], block[1:]


def _store(block: Block) -> tuple[ln.ScalarExpr, Block]:
    if not block or not isinstance(block[0], ln.Assign | ln.Accumulate):
        raise _outside("a store that passes have changed")
    return block[0].value, block[1:]


def _end(rest: Block) -> None:
    if rest:
        raise _outside(f"{type(rest[0]).__name__} in the body of another loop or branch")
