"""Programs in the core language of `Lowering.v`, with the choices that lowering made for them.

Rocq lowers such a term by its own lowering function, which is proved correct for every term, and compares the result
with the nest. The term is a hint: Rocq proves that it is well-formed, that it has the value of the program, and that
its nest is this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, assert_never

from atl.checks.scope import Scope, outermost
from atl.core import terms
from atl.core.index import ZERO, Index, Var, index
from atl.core.predicate import TRUE, negation
from atl.core.program import Program
from atl.errors import InvalidArgument
from lowering.nest import loopnest as ln
from lowering.normalize import normalize
from rewrites.rocq.nests.printing import Printer, literal, looks_of, memory_of
from rewrites.rocq.notation import operation, positions

Block: TypeAlias = Sequence[ln.Statement]
At = TypeVar("At", bound=ln.Statement)


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
    """The arbitrary contents of a buffer that is allocated, cleared or freed."""

    # -- nests

    def block(self, block: Block, loops: tuple[Var, ...] = ()) -> str:
        """Print a block as a statement that ends in `Skip`.

        A buffer that is cleared in the block ends with it, although its memory is freed later.
        """
        printed = [self._printed(at, loops) for at in block]
        for at in reversed(block):
            if isinstance(at, ln.Clear):
                self.garbage[_end_of(at)] = garbage = self.printer.anything(loops)
                printed.append(f"(Storage {at.buffer.uid} nil 1 (Freed {self.printer.shape(at.buffer)}) {garbage})")
        text = "Skip"
        for each in reversed(printed):
            text = f"(Then {each}\n{text})"
        return text

    def _printed(self, at: ln.Statement, loops: tuple[Var, ...]) -> str:
        printer = self.printer
        if any(True for _ in looks_of(at)):
            raise _outside("an index that is read from an array")
        match at:
            case ln.For(variable, body=body):
                return printer.loop(at, self.block(body, (*loops, variable)))
            case ln.If(body=body):
                return printer.branch(at, self.block(body, loops))
            case ln.Free(buffer) if buffer.uid in printer.capacities:
                self.garbage[at] = garbage = printer.anything(loops)
                shape = positions([printer.index(printer.capacities[buffer.uid])])
                return f"(Storage {memory_of(buffer)} nil 1 (Freed {shape}) {garbage})"
            case ln.Assign() | ln.Accumulate() | ln.Declare():
                return printer.simple(at, loops)
            case ln.Allocate() | ln.Clear() | ln.Free():
                text = printer.simple(at, loops)
                self.garbage[at] = "zeros" if isinstance(at, ln.Clear | ln.Allocate) and at.zeroed else printer.latest
                return text
            case ln.Gather():
                raise _outside("an assembled result")
            case _:
                assert_never(at)

    # -- terms

    def statement(self, e: terms.Expr, block: Block, scope: Scope) -> tuple[str, Block]:
        """Return the term of the statements at the beginning of a block, and the rest of the block."""
        printer = self.printer
        if block and isinstance(block[0], ln.If) and not isinstance(e, terms.Guard | terms.Reshape | terms.Let):
            return self._unswitched(e, block, scope)
        if block and isinstance(block[0], ln.Allocate) and block[0].buffer.uid in printer.capacities:
            return self._reserved(e, block, scope)
        match e:
            case terms.Gen(low, high, body):
                loop, rest = _first(block, ln.For, "a generation")
                text, high = f"(Gen {self._loop(loop, body, scope)})", scope.index(high)
                before, after = loop.low - scope.index(low), high - loop.high
                # A condition around the whole body has become the range of the loop.
                if after != ZERO:
                    text = f"(Reshape (Pad_right {printer.index(loop.high - loop.low)} {printer.index(after)})\n{text})"
                if before != ZERO:
                    text = f"(Reshape (Pad_left {printer.index(high - loop.low)} {printer.index(before)})\n{text})"
                return text, rest
            case terms.Reduce("sum", body=body):
                if not block or not isinstance(block[0], ln.Declare):
                    loop, rest = _first(block, ln.For, "a sum")
                    return f"(Sum None {self._loop(loop, body, scope)})", rest
                declared, rest = _first(block, ln.Declare, "a sum")
                loop, rest = _first(rest, ln.For, "a sum")
                _, rest = _store(rest)
                return f"(Sum (Some {declared.variable.uid}) {self._loop(loop, body, scope)})", rest
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

    def _unswitched(self, e: terms.Expr, block: Block, scope: Scope) -> tuple[str, Block]:
        """Return the term of a branch around a loop, whose condition was inside of the loop."""
        branch, rest = _first(block, ln.If, "a branch")
        test, other = self.printer.predicate(branch.predicate), negation(branch.predicate)
        inner, left = self.statement(e, branch.body, scope.assume(branch.predicate))
        _end(left)
        if not rest or not isinstance(rest[0], ln.If) or rest[0].predicate != other:
            return f"(Guard {test}\n{inner})", rest
        second, left = self.statement(e, rest[0].body, scope.assume(other))
        _end(left)
        return f"(Select {test}\n{inner}\n{second})", rest[1:]

    def _reserved(self, e: terms.Expr, block: Block, scope: Scope) -> tuple[str, Block]:
        """Return the term of a block that allocates memory for a buffer of an inner block."""
        allocated, rest = _first(block, ln.Allocate, "memory")
        inner, rest = self.statement(e, rest, scope)
        freed, rest = _first(rest, ln.Free, "memory")
        if freed.buffer != allocated.buffer:
            raise _outside(f"{freed.buffer.name}, which is freed out of order,")
        capacity = self.printer.index(allocated.capacity)
        garbage = f"{self.garbage[allocated]} {self.garbage[freed]}"
        return f"(Reserve {memory_of(allocated.buffer)} {capacity} {garbage}\n{inner})", rest

    def _loop(self, loop: ln.For, body: terms.Expr, scope: Scope) -> str:
        facts = scope.facts.assume(loop.range)
        inner, rest = self.statement(body, loop.body, Scope(facts, (*scope.indices, index(loop.variable))))
        _end(rest)
        ends = (self.printer.index(end) for end in (loop.low, loop.high))
        return f"{' '.join(ends)} (fun {self.printer.index(index(loop.variable))} =>\n{inner})"

    def _let(self, value: terms.Expr, body: terms.Expr, block: Block, scope: Scope) -> tuple[str, Block]:
        printer = self.printer
        if not value.type.rank:
            declared, rest = _first(block, ln.Declare, "a let of a scalar")
            variable = declared.variable
            if isinstance(value, terms.Reduce | terms.Let | terms.Guard) and declared.initial == ln.Number(
                0, variable.dtype
            ):
                home = "(Variable_ true)"
                first, rest = self._value(value, rest, scope)
            else:
                home, first = "(Variable_ false)", f"(Leaf {self._leaf(declared.initial)})"
            second, rest = self.statement(body, rest, scope)
            return f"(Bind {variable.uid} nil {home}\n{first}\n{second})", rest
        first_statement = block[0] if block else None
        begins: ln.Allocate | ln.Clear
        if isinstance(first_statement, ln.Clear):
            begins, rest = first_statement, block[1:]
            capacity = printer.index(printer.capacities[begins.buffer.uid])
            kind, of = "Hoisted", f"{printer.index(begins.count)} {memory_of(begins.buffer)} {capacity}"
        else:
            allocated, rest = _first(block, ln.Allocate, "a let of a tensor")
            begins, kind, of = allocated, "Buffer", printer.index(allocated.capacity)
        held = begins.buffer
        first, rest = self.statement(value, rest, scope)
        second, rest = self.statement(body, rest, scope)
        ends: ln.Statement
        if isinstance(begins, ln.Clear):
            ends = _end_of(begins)
            _end(rest)
        else:
            ends, rest = _first(rest, ln.Free, "a let of a tensor")
        home = f"({kind} {str(begins.zeroed).lower()} {of} {self.garbage[begins]} {self.garbage[ends]})"
        return f"(Bind {held.uid} {printer.shape(held)} {home}\n{first}\n{second})", rest

    def _value(self, value: terms.Expr, block: Block, scope: Scope) -> tuple[str, Block]:
        """Return the term of a scalar variable that starts at zero: a sum adds to it directly."""
        if not isinstance(value, terms.Reduce):
            return self.statement(value, block, scope)
        loop, rest = _first(block, ln.For, "a sum")
        return f"(Sum None {self._loop(loop, value.body, scope)})", rest

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
            case ln.Load(source):
                if isinstance(source, ln.Scalar):
                    return f"(Named {source.uid} nil nil)"
                buffer, place = source.buffer, positions(printer.index(at) for at, _ in source.pairs)
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


def _first(block: Block, kind: type[At], what: str) -> tuple[At, Block]:
    if not block or not isinstance(block[0], kind):
        raise _outside(f"{what} that passes have changed")
    return block[0], block[1:]


def _end_of(at: ln.Clear) -> ln.Statement:
    """Return the end of the lifetime of a buffer that is cleared in a block."""
    return ln.Gather(at.buffer, None, "counted")


def _store(block: Block) -> tuple[ln.ScalarExpr, Block]:
    if not block or not isinstance(block[0], ln.Assign | ln.Accumulate):
        raise _outside("a store that passes have changed")
    return block[0].value, block[1:]


def _end(rest: Block) -> None:
    if rest:
        raise _outside(f"{type(rest[0]).__name__} in the body of another loop or branch")
