"""The lowering function (Figs. 4.1 and 4.4 with E1–E3, E23): from a program to a loop nest.

Destination-passing: a term is lowered into a destination, under a reindexer that says where its elements go. A
reduction adds to its destination; one that yields a scalar runs in a scalar variable, which is stored when it is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias, assert_never

import padtypes
from atl.checks.safety import check_safe, reads_in
from atl.checks.scope import Scope, outermost
from atl.checks.wellformed import positive_divisors
from atl.core.dtypes import bytes_of
from atl.core.index import (
    ONE,
    ZERO,
    Bound,
    Extremum,
    Index,
    Quotient,
    Read,
    Size,
    Var,
    Xor,
    constant,
    exclusive_or,
    extremum,
    floordiv,
    imax,
    index,
)
from atl.core.marks import CONCURRENT, LetMark, LoopMark
from atl.core.predicate import FALSE, TRUE, Predicate, at_most, less, negation
from atl.core.program import Program
from atl.core.substitution import map_op
from atl.core.terms import (
    OF_MONOID,
    Access,
    Binary,
    BinaryOp,
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
    PadLeft,
    PadRight,
    Reduce,
    Reshape,
    ReshapeOp,
    Select,
    TensorVar,
    Unary,
    Value,
)
from atl.core.traversal import Path, amounts, subterms
from atl.errors import InvalidArgument, UnsafeAccess, brief
from atl.prove import proves, simplify, simplify_predicate, upper_bound
from lowering.folds import RESULT_NAMES, neutral
from lowering.leaves import Storage, is_scalar_leaf, scalar
from lowering.nest.loopnest import (
    VECTOR_BYTES,
    Accumulate,
    Allocate,
    Assign,
    Block,
    Buffer,
    Cell,
    Choose,
    Clear,
    Declare,
    For,
    Free,
    If,
    Load,
    LoopNest,
    Number,
    Scalar,
    ScalarExpr,
    elements,
)
from lowering.normalize import normalize
from lowering.passes import PASSES_OF, after_passes
from lowering.reindex import IDENTITY, Cons, Reindexer, Step, stored_at
from lowering.stored_in_full import additions, fills, has_guards_of_rows, is_filled_by_zeros, zeros_of
from lowering.targets.binders import Traced, number_of_loop, numbered, traced
from lowering.targets.capabilities import MarkedBinder, marked_binders, support_of
from lowering.targets.co_iteration import check_merges
from lowering.targets.legality import check_legal, check_lowered
from lowering.targets.stack import storage_of

Body: TypeAlias = Callable[[Var, "Context"], Block]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a term's elements go: a buffer under a reindexer, or a scalar; assigned, or folded in by `op`.

    With `zeros` a zero is assigned where a guard is false (`is_filled_by_zeros`).
    """

    storage: Storage
    reindexer: Reindexer = IDENTITY
    op: BinaryOp | None = None
    zeros: bool = False

    def then(self, *steps: Step) -> Destination:
        return replace(self, reindexer=(*self.reindexer, *steps))

    @property
    def stores_zeros(self) -> bool:
        """Whether zeros are assigned here to what is padding."""
        return self.zeros and self.op is None


@dataclass(frozen=True, slots=True)
class Context:
    """What is known and in scope at a place: facts, let-bound tensors by de Bruijn position, and the loops around.

    Buffers are hoisted to `outside`, out of `loops`: out of all that are `around`, or out of those within the innermost
    one whose iterations run at once, each of which has buffers of its own.
    """

    scope: Scope
    inputs: dict[str, Buffer]
    outside: Scope
    tensors: tuple[Storage, ...] = ()
    loops: tuple[tuple[Var, Index, Index], ...] = ()
    around: tuple[tuple[Var, Index, Index], ...] = ()
    in_merge: bool = False  # right in a loop that is marked so, but for conditions

    def proves(self, goal: Predicate) -> bool:
        return proves(self.scope.facts, goal)

    def natural(self, extent: Index) -> Index:
        """The extent, or zero where it may be less."""
        return extent if self.proves(at_most(ZERO, extent)) else imax(ZERO, extent)

    def assume(self, predicate: Predicate) -> Context:
        return replace(self, scope=self.scope.assume(predicate))

    def inside(self, scope: Scope, loop: tuple[Var, Index, Index], mark: LoopMark) -> Context:
        """The body of a loop, with its scope."""
        inside = replace(self, scope=scope, around=(*self.around, loop), in_merge=mark is LoopMark.MERGE)
        if mark in CONCURRENT:
            return replace(inside, outside=scope, loops=())
        return replace(inside, loops=(*self.loops, loop))

    def scalar(self, e: Expr) -> ScalarExpr:
        return scalar(e, self.scope, self.tensors, self.inputs)


def lower(
    program: Program,
    *,
    registers: bool = True,
    vector_bytes: int = VECTOR_BYTES,
    target: str = "c",
    origins: bool = False,
) -> LoopNest:
    """The loop nest of a program whose accesses are safe and whose truncations cut only padding; both are proved first.

    With `registers=False` it is that of Fig. 4.1 to the letter: a sum adds to its element of the buffer, arithmetic is
    done element by element, and the cells stored are exactly those of the elements that are not padding (Theorem 2).
    With registers the output has the same values, but four kinds of cells are not those of Theorem 2. A sum runs in a
    scalar variable, which is stored at the end: where the sum is empty, so that its element is padding, a zero is
    stored. Where all other elements are stored, zeros are stored to pads and to rows whose guards are false. An
    addition of tensor sums is two statements with one destination: where neither of them stores, nothing is stored to
    an element that is not padding, and it is zero because the buffer was. A loop marked `runs` adds the sum of each run
    to its element, with or without registers: a zero, where a condition leaves out all terms of the run.

    All passes (`lowering.passes`) run over either nest: each of them keeps the cells of the output that are stored, and
    the values in them. What they drop are stores to buffers and variables that the output does not depend on.

    That a target has such loops within such loops is asked when its text is printed: a `parallel` loop within a loop
    of vectors has a nest, which runs, and no C.

    `vector_bytes` is the size of a vector register, of which buffers marked `registers` are made: 16, 32 or 64. Marked
    loops are proved to be legal, for whatever target: `lowering.targets.legality`. For the target "cuda" the passes are
    left out that speak of the registers, the storage and the loops of a CPU; `lowering.gpu` makes kernels of the nest.
    With `origins` the nest says of each loop which binder of the program it came from (`LoopNest.origins`).

    Raises `InvalidArgument`, `UnsafeAccess`, `UnsafeTruncation` and `IllegalMark`.
    """
    if not isinstance(vector_bytes, int) or vector_bytes not in (16, 32, 64):
        raise InvalidArgument(f"vector_bytes={brief(vector_bytes)}", required="16, 32 or 64")
    if not isinstance(registers, bool):
        raise InvalidArgument(f"registers={brief(registers)}", required="registers=True or registers=False")
    if not isinstance(origins, bool):
        raise InvalidArgument(f"origins={brief(origins)}", required="origins=True or origins=False")
    support_of(target)
    check_safe(program)
    padtypes.check(program)
    check_merges(program)
    lowering, lowered = _lowered(program, registers=registers, origins=origins)
    check_lowered(program, lowered, lowering.met)
    nest = after_passes(replace(lowered, vector_bytes=vector_bytes), PASSES_OF[target])
    check_legal(nest)
    return nest


def lower_unchecked(program: Program, *, registers: bool = True) -> LoopNest:
    """The loop nest of a program whatever its pad-sets are, before any pass; it may store out of bounds. For tests."""
    return _lowered(program, registers=registers)[1]


def _lowered(program: Program, *, registers: bool, origins: bool = False) -> tuple[_Lowering, LoopNest]:
    binders = marked_binders(program)
    followed = traced(numbered(program, binders)) if origins else None
    body = normalize(followed.program if followed else numbered(program, binders), one_pass=not registers).body
    lowering = _Lowering(program, registers, binders, followed)
    return lowering, lowering.nest(body, outermost(program))


class _Lowering:
    """One run of the lowering function: it numbers what it makes, and collects the buffers hoisted out of loops."""

    def __init__(
        self, program: Program, registers: bool, binders: tuple[MarkedBinder, ...], followed: Traced | None = None
    ) -> None:
        self.program = program
        self.registers = registers
        self._binders = binders
        self._followed = followed
        self._origins: dict[Var, Path] = {}
        self._ids: Iterator[int] = count()
        self._hoisted: list[Allocate] = []
        self._direct = 0  # sums that add to their cell instead of running in a scalar variable
        self.met: set[Path] = set()  # the marked loops that are loops of the nest, or would compute nothing
        self._added_after: Counter[Buffer] = Counter()  # additions to what an earlier statement has assigned

    def nest(self, body: Expr, scope: Scope) -> LoopNest:
        program = self.program
        inputs = {a.name: Buffer(next(self._ids), a.name, a.dtype, a.shape, "input") for a in program.inputs}
        output = Buffer(next(self._ids), "out", program.dtype, scope.shape(body.type), "output")
        statements, complete = self._filling(body, output, Context(scope, inputs, scope))
        return LoopNest(
            program.name,
            program.sizes,
            program.inputs,
            output,
            statements,
            program.assumptions,
            complete=complete,
            marks=self._binders,
            origins=self._origins,
        )

    def _filling(self, e: Expr, buffer: Buffer, context: Context, mark: LetMark = LetMark.NONE) -> tuple[Block, bool]:
        """The lowering of a term into a buffer, and whether it is proved to assign every element."""
        before = self._direct
        # In a loop a zero for each element that has none is cheaper than to clear all of them in each iteration; where
        # whole rows have none, it is anywhere.
        in_loop = bool(context.around) or mark is LetMark.RING
        cheap = in_loop or (self.registers and has_guards_of_rows(e))
        zeros = cheap and is_filled_by_zeros(e, context.scope)
        block = self.statement(e, Destination(buffer, zeros=zeros), context)
        after, stored = self._added_after[buffer], self._direct == before
        return block, fills(e, context.scope, buffer, block, added_after=after, sums_stored=stored, zeros=zeros)

    # -- statements ---------------------------------------------------------------------------------------------------

    def statement(self, e: Expr, to: Destination, context: Context) -> Block:
        scope = context.scope
        match e:
            case Gen(low, high, body, name, mark):
                first, last = scope.index(low), scope.index(high)

                def element(variable: Var, inside: Context) -> Block:
                    return self.statement(body, to.then(Cons(index(variable) - first, last - first)), inside)

                return self._loop(name, first, last, mark, context, element)
            case Reduce():
                return self._tensor_sum(e, to, context) if e.type.rank else self._reduction(e, to, context)
            case Guard(predicate, body):
                return self._guarded(scope.predicate(predicate), body, to, context)
            case Let(value, body, name):
                return self._scalar_let(e, to, context) if not value.type.rank else self._buffer_let(e, to, context)
            case Concat(left, right):
                after, before = scope.index(right.type.shape[0]), scope.index(left.type.shape[0])
                return (
                    *self.statement(left, to.then(PadRight(after)), context),
                    *self.statement(right, to.then(PadLeft(before)), context),
                )
            case Reshape(op, operand):
                stored = self.statement(operand, to.then(map_op(op, scope.index)), context)
                pads = to.stores_zeros and isinstance(op, PadLeft | PadRight)
                return (*stored, *self._zeros_of_pad(op, operand, to, context)) if pads else stored
            case Binary("add" | "sub" as op, left, right) if e.type.rank:
                # Two statements: the first one assigns or adds, the second one always adds to what is there.
                sign: BinaryOp = "sub" if (op == "sub") != (to.op == "sub") else "add"
                assigned = self.statement(left, to, context)
                added = self.statement(right, replace(to, op=sign), context)
                if to.op is None and isinstance(to.storage, Buffer):
                    self._added_after[to.storage] += additions(to.storage, added)
                return (*assigned, *added)
            case Padding():
                return self._store(Number(0, e.type.dtype or self.program.dtype), to) if to.stores_zeros else ()
            case Input() | Local() | TensorVar() | Metavariable() | Constant() | Value():
                return self._store(context.scalar(e), to)
            case Access() | Unary() | Binary() | Cast() | Select():
                return self._store(context.scalar(e), to)
            case _:
                assert_never(e)

    def _guarded(self, predicate: Predicate, body: Expr, to: Destination, context: Context) -> Block:
        condition = simplify_predicate(context.scope.facts, predicate)
        zeros = to.stores_zeros
        if condition == TRUE:
            return self.statement(body, to, context)
        if zeros and condition != FALSE and is_scalar_leaf(body):
            value = context.assume(condition).scalar(body)
            return self._store(Choose(condition, value, Number(0, value.dtype)), to)
        if condition == FALSE:
            marked = (number_of_loop(e) for e in subterms(body))
            self.met.update(self._binders[number].path for number in marked if number is not None)
        inner = () if condition == FALSE else self.statement(body, to, context.assume(condition))
        rest = self.statement(zeros_of(body), to, context.assume(negation(condition))) if zeros else ()
        return tuple(
            If(outcome, block) for outcome, block in ((condition, inner), (negation(condition), rest)) if block
        )

    def _zeros_of_pad(self, op: ReshapeOp, operand: Expr, to: Destination, context: Context) -> Block:
        """Zeros for what a pad adds to its operand."""
        first, *inner = context.scope.shape(operand.type)
        (count,) = map(context.scope.index, amounts(op))
        beside = PadRight(first) if isinstance(op, PadLeft) else PadLeft(first)

        def cells(extents: Sequence[Index], to: Destination, context: Context) -> Block:
            if not extents:
                return self._store(Number(0, operand.type.dtype or self.program.dtype), to)
            extent, *rest = extents

            def row(variable: Var, inside: Context) -> Block:
                return cells(rest, to.then(Cons(index(variable), extent)), inside)

            return self._loop("pad", ZERO, extent, LoopMark.NONE, context, row)

        return cells((count, *inner), to.then(beside), context)

    def _loop(self, name: str, low: Index, high: Index, mark: LoopMark, context: Context, body: Body) -> Block:
        """A loop; the buffers hoisted out of an outermost one are allocated before it and freed after it.

        Outermost is also the first loop within one whose iterations run at once.
        """
        # A marked loop is called by its number (`numbered`).
        marked = self._binders[int(name)] if mark is not LoopMark.NONE else None
        self.met.update(() if marked is None else (marked.path,))
        origin = binder = None
        if marked is not None:
            name, binder = marked.name, marked.path
            origin = binder
        elif self._followed is not None:
            origin, name = self._followed.original(name)
        variable, scope = context.scope.bind(name, low, high, uid=next(self._ids))
        if self._followed is not None and origin is not None:
            self._origins[variable] = origin
        inside = context.inside(scope, (variable, low, high), mark)
        if context.loops and mark not in CONCURRENT:
            inner = body(variable, inside)
            return (For(variable, low, high, inner, mark, binder),) if inner else ()
        outer, self._hoisted = self._hoisted, []
        inner = body(variable, inside)
        hoisted, self._hoisted = self._hoisted, outer
        if not inner:
            return ()
        return (*hoisted, For(variable, low, high, inner, mark, binder), *(Free(a.buffer) for a in reversed(hoisted)))

    def _store(self, value: ScalarExpr, to: Destination) -> Block:
        target = to.storage if isinstance(to.storage, Scalar) else Cell(to.storage, stored_at(to.reindexer).pairs)
        return (Assign(target, value) if to.op is None else Accumulate(target, to.op, value),)

    # -- reductions ---------------------------------------------------------------------------------------------------

    def _fold(self, e: Reduce, to: Destination, context: Context) -> Block:
        """The loop of a reduction; each iteration is folded into the destination."""
        low, high = context.scope.index(e.low), context.scope.index(e.high)
        # A sum that is subtracted: each of its iterations is.
        into = to if e.monoid == "sum" and to.op == "sub" else replace(to, op=OF_MONOID[e.monoid])
        return self._loop(e.name, low, high, e.mark, context, lambda _, inside: self.statement(e.body, into, inside))

    def _tensor_sum(self, e: Reduce, to: Destination, context: Context) -> Block:
        """A sum of tensors adds each of them to the destination, which starts at zero."""
        return self._fold(e, to, context)

    def _reduction(self, e: Reduce, to: Destination, context: Context) -> Block:
        """A reduction to a scalar."""
        in_scalar = isinstance(to.storage, Scalar)
        # A sum within another one of the same merge adds to what that one adds to: they are to be one loop.
        merged = context.in_merge and e.mark is LoopMark.MERGE and to.op in ("add", "sub")
        if e.monoid == "sum" and (
            merged or (in_scalar and to.op == "add") or (not in_scalar and not self._kept(to, context))
        ):
            # Into a sum that is under way; or into a cell that only some iterations are known to reach: an empty sum is
            # padding, and may be cut off.
            self._direct += not in_scalar
            return self._fold(e, to, context)
        nonempty = less(context.scope.index(e.low), context.scope.index(e.high))
        total = Scalar(next(self._ids), RESULT_NAMES[e.monoid], e.type.dtype or self.program.dtype)
        loop = self._fold(e, Destination(total), context)
        result: ScalarExpr = Load(total)
        start = Declare(total, neutral(e.monoid, total.dtype))
        if e.monoid == "sum" or context.proves(nonempty):
            return (start, *loop, *self._store(result, to))
        if to.op in (None, "add", "sub"):
            # Over an empty range there is nothing to store: an added zero could lie where a truncation has cut.
            return (start, *loop, If(nonempty, self._store(result, to)))
        return (start, *loop, *self._store(Choose(nonempty, result, Number(0, total.dtype)), to))

    def _kept(self, to: Destination, context: Context) -> bool:
        """Whether a sum may run in a scalar variable: every truncation keeps its element, whatever its iterations."""
        return self.registers and context.proves(stored_at(to.reindexer).kept)

    # -- lets ---------------------------------------------------------------------------------------------------------

    def _scalar_let(self, e: Let, to: Destination, context: Context) -> Block:
        value = e.value
        variable = Scalar(next(self._ids), e.name, value.type.dtype or self.program.dtype)
        inside = replace(context, tensors=(*context.tensors, variable))
        first, computed = self._scalar_value(value, variable, context)
        return (Declare(variable, first, e.mark), *computed, *self.statement(e.body, to, inside))

    def _scalar_value(self, value: Expr, variable: Scalar, context: Context) -> tuple[ScalarExpr, Block]:
        """What a scalar variable is declared with, and what gives it its value then."""
        zero = Number(0, variable.dtype)
        scope = context.scope
        match value:
            case Guard(predicate, body) if is_scalar_leaf(body):
                condition = simplify_predicate(scope.facts, scope.predicate(predicate))
                inner = context.assume(condition).scalar(body)
                return inner if condition == TRUE else Choose(condition, inner, zero), ()
            case Reduce(monoid, low, high) if monoid == "sum" or context.proves(
                less(scope.index(low), scope.index(high))
            ):
                return neutral(monoid, variable.dtype), self._fold(value, Destination(variable), context)
            case Input() | Local() | TensorVar() | Metavariable() | Constant() | Value():
                return context.scalar(value), ()
            case Access() | Unary() | Binary() | Cast() | Select():
                return context.scalar(value), ()
            case Guard() | Reduce() | Let() | Padding():
                return zero, self.statement(value, Destination(variable), context)
            case Gen() | Concat() | Reshape():
                raise AssertionError("a scalar has no dimensions")
            case _:
                assert_never(value)

    def _buffer_let(self, e: Let, to: Destination, context: Context) -> Block:
        """A buffer for a let-bound tensor: on the stack, on the heap, or hoisted out of the loops around."""
        value, scope = e.value, context.scope
        dtype = value.type.dtype or self.program.dtype
        extents = tuple(simplify(scope.facts, extent) for extent in scope.shape(value.type))
        # A marked let is called by its number (`numbered`).
        marked = self._binders[int(e.name)] if e.mark is not LetMark.NONE else None
        name, let = (marked.name, marked.path) if marked else (e.name, None)
        buffer = Buffer(next(self._ids), name, dtype, extents)
        stored, filled = self._filling(value, buffer, context, e.mark)
        used = self.statement(e.body, to, replace(context, tensors=(*context.tensors, buffer)))
        needed = tuple(self._needed(name, extent, context) for extent in extents)
        count = elements(needed)
        storage = storage_of(e.mark, bytes_of(count.constant, dtype))
        # A ring is emptied row by row, and stands where its let does.
        hoisted = storage == "heap" and bool(context.loops) and e.mark is not LetMark.RING
        capacity = self._capacity(needed, context) if hoisted else None
        if capacity is None:
            return (Allocate(buffer, count, storage, not filled, e.mark, let), *stored, *used, Free(buffer))
        self._hoisted.append(Allocate(buffer, capacity, storage, zeroed=False, mark=e.mark, let=let))
        return (Clear(buffer, count, zeroed=not filled), *stored, *used)

    def _needed(self, name: str, extent: Index, context: Context) -> Index:
        """The extent, as a number to make room for: at least zero, without a quotient by zero or an unsafe read.

        A let that was lifted out of a selection stands also where its branch is not taken and its extents mean nothing.
        There is room then for the most that an extent can be, if it reads what only the branch may read.
        """
        if not self._safely_read(extent, context):
            most = upper_bound(context.scope.facts, extent, context.around)
            if most is None or not self._safely_read(most, context):
                raise UnsafeAccess(
                    f"the extent {extent} of {name} is read where the condition around {name} need not hold",
                    required=f"room for {name} that is known where its selection begins",
                    suggestions=(
                        "state how large the elements can be: atl.tensor(…, range=(0, most))",
                        f"make {name} as large as its largest: a constant, or a size, instead of an element",
                    ),
                )
            extent = most
        if not all(context.proves(needed.goal) for needed in positive_divisors(extent)):
            extent = _with_positive_divisors(extent)
        return context.natural(extent)

    def _safely_read(self, extent: Index, context: Context) -> bool:
        """Whether all array elements in an extent are proved to be within their arrays here."""
        return all(context.proves(needed.goal) for needed in reads_in(extent))

    def _capacity(self, extents: tuple[Index, ...], context: Context) -> Index | None:
        """The most elements that a buffer of these extents has in any iteration of the loops around, if known."""
        outside = replace(context, scope=context.outside)
        bounds: list[Index] = []
        for extent in extents:
            bound = upper_bound(outside.scope.facts, extent, context.loops)
            if bound is None or not all(outside.proves(needed.goal) for needed in positive_divisors(bound)):
                return None
            bounds.append(outside.natural(bound))
        return elements(tuple(bounds))


def _with_positive_divisors(e: Index) -> Index:
    """The expression with 1 in place of each divisor that is not positive."""
    total = ZERO
    for monomial, coefficient in e.terms:
        product = constant(coefficient)
        for atom in monomial:
            match atom:
                case Quotient(numerator, denominator):
                    divisor = imax(ONE, _with_positive_divisors(denominator))
                    product = product * floordiv(_with_positive_divisors(numerator), divisor)
                case Extremum(kind, choices):
                    product = product * extremum(kind, *map(_with_positive_divisors, choices))
                case Xor(parts):
                    product = product * exclusive_or(*map(_with_positive_divisors, parts))
                case Size() | Var() | Bound() | Read():
                    product = product * index(atom)
                case _:
                    assert_never(atom)
        total = total + product
    return total
