"""The lowering function (Figs. 4.1 and 4.4 with E1–E3, E23): from a program to a loop nest.

Lowering is in destination-passing style. A term is lowered into a destination under a reindexer, which maps its
elements to places there. A reduction adds to its destination. A reduction to a scalar runs in a scalar variable, which
is stored at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, TypeAlias, assert_never

import padtypes
from atl.checks.safety import reads_in
from atl.checks.scope import Scope, outermost
from atl.checks.wellformed import positive_divisors
from atl.core import index as ix
from atl.core import terms
from atl.core.dtypes import DEFAULT, STORED, TYPES, bytes_of
from atl.core.index import Index
from atl.core.marks import CONCURRENT, AnyLoopMark, LetMark, LoopMark
from atl.core.operations import Arithmetic
from atl.core.predicate import FALSE, TRUE, Predicate, at_most, conjunction, less, negation, substitute
from atl.core.program import Program
from atl.core.reshape_definitions import Pairs, destination, kept
from atl.core.substitution import map_op
from atl.core.terms import Flatten, PadLeft, PadRight, Place, ReshapeOp, Split, Transpose, TruncateLeft, TruncateRight
from atl.core.traversal import Path, amounts, subterms
from atl.errors import NotAssembled, UnsafeAccess
from atl.prove import proves, simplify, simplify_predicate, upper_bound
from lowering.nest import loopnest as ln
from lowering.nest.loopnest import (
    RESULT_NAMES,
    Apply,
    Buffer,
    Cell,
    Choose,
    Convert,
    FromIndex,
    Load,
    Number,
    Scalar,
    ScalarExpr,
    neutral,
)
from lowering.nest.obligations import stores_each_cell_once
from lowering.normalize import normalize, unconverted
from lowering.targets.capabilities import (
    MarkedBinder,
    Traced,
    marked_binders,
    number_of_loop,
    numbered,
    storage_of,
    traced,
)
from lowering.zero_fill import additions, fills, has_guards_of_rows, is_filled_by_zeros, stores_every_element, zeros_of

# -- reindexers (Fig. 4.5 as corrected by E1–E3) ----------------------------------------------------------------------
# A reindexer is a list of steps in the order in which lowering descends. Each step is a function from a list of
# (index, extent) pairs to such a list. The steps are applied from the innermost outwards.


@dataclass(frozen=True, slots=True)
class Cons:
    """The step of a generation, which prepends its index, counted from its lower bound."""

    index: Index
    extent: Index


Step: TypeAlias = Cons | ReshapeOp
Reindexer: TypeAlias = tuple[Step, ...]
"""Steps from the outermost inwards. All their index expressions and reshape amounts are opened."""

IDENTITY: Reindexer = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """The location of an element, and the condition under which every truncation keeps it."""

    pairs: Pairs
    kept: Predicate


def stored_at(reindexer: Reindexer, pairs: Pairs = ()) -> Placement:
    """Apply a reindexer to an index structure, which is empty for a scalar."""
    kept_by_all: list[Predicate] = []
    for step in reversed(reindexer):
        match step:
            case Cons(index, extent):
                pairs = ((index, extent), *pairs)
            case TruncateLeft() | TruncateRight():
                position, extent = pairs[0]
                kept_by_all.append(kept(step, extent, position))
                pairs = destination(step, pairs)
            case Transpose() | Flatten() | Split() | PadLeft() | PadRight() | Place():
                pairs = destination(step, pairs)
            case _:
                assert_never(step)
    return Placement(pairs, conjunction(kept_by_all))


# -- scalar leaves ----------------------------------------------------------------------------------------------------


Storage: TypeAlias = Buffer | Scalar
"""Storage of a tensor: a buffer, or a variable for a let-bound scalar."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a recurrence in the buffer where they are stored: a tensor of these extents under a reindexer."""

    buffer: Buffer
    reindexer: Reindexer
    extents: tuple[Index, ...]


_IN_TERMS: Final = 1 << 30
"""Id of the index of a sum whose terms are analysed before it is lowered: above the ids of a nest."""


def is_scalar_leaf(e: terms.Expr) -> bool:
    """Return whether a normalised term is arithmetic over reads and literals, without statements."""
    return not e.type.rank and isinstance(
        e,
        terms.Constant
        | terms.Value
        | terms.Access
        | terms.Input
        | terms.Local
        | terms.Unary
        | terms.Binary
        | terms.Cast
        | terms.Select
        | terms.Where,
    )


def scalar(
    e: terms.Expr, scope: Scope, tensors: tuple[Storage | Rows, ...], inputs: Mapping[str, Buffer]
) -> ScalarExpr:
    """Return the scalar expression of a leaf. `tensors` is the storage of the let-bound tensors, the innermost last.

    A selection whose condition is decided in this scope becomes that branch, so the reads of the other one vanish.
    """

    def visit(at: terms.Expr, here: Scope) -> ScalarExpr:
        dtype = at.type.dtype or DEFAULT
        match at:
            case terms.Constant(value):
                return Number(value, dtype)
            case terms.Value(position):
                return FromIndex(here.index(position), dtype)
            case terms.Input() | terms.Local() | terms.Access():
                return _load(at, here, tensors, inputs)
            case terms.Unary(op, operand):
                return Apply(op, (visit(operand, here),), dtype)
            case terms.Binary(op, left, right):
                return Apply(op, (visit(left, here), visit(right, here)), dtype)
            case terms.Where(test, left, right):
                return Apply("where", (visit(test, here), visit(left, here), visit(right, here)), dtype)
            case terms.Cast(_, operand):
                return _converted(visit(operand, here), dtype)
            case terms.Select(predicate, left, right):
                condition = simplify_predicate(here.facts, here.predicate(predicate))
                if condition == TRUE:
                    return visit(left, here)
                if condition == FALSE:
                    return visit(right, here)
                return Choose(
                    condition, visit(left, here.assume(condition)), visit(right, here.assume(negation(condition)))
                )
            case (
                terms.Gen() | terms.Reduce() | terms.Rec() | terms.Guard() | terms.Let() | terms.Concat()
                | terms.Reshape() | terms.Padding() | terms.TensorVar() | terms.Metavariable()
            ):  # fmt: skip
                raise AssertionError(f"{type(at).__name__} is not a leaf of a normalised program")
            case _:
                assert_never(at)

    return visit(e, scope)


def _converted(e: ScalarExpr, dtype: str) -> ScalarExpr:
    """Convert a scalar to a type; if it was just converted from this type for computing, return the original."""
    if isinstance(e, Convert) and dtype in STORED and (e.argument.dtype, e.dtype) == (dtype, TYPES[dtype].computed_as):
        return e.argument
    return Convert(e, dtype)


def _load(e: terms.Expr, scope: Scope, tensors: tuple[Storage | Rows, ...], inputs: Mapping[str, Buffer]) -> ScalarExpr:
    positions: list[Index] = []
    dtype = e.type.dtype or DEFAULT
    while isinstance(e, terms.Access):
        positions.append(scope.index(e.index))
        e = e.tensor
    match e:
        case terms.Input(array):
            storage: Storage | Rows = inputs[array.name]
        case terms.Local(position):
            storage = tensors[-1 - position]
        case (
            terms.TensorVar() | terms.Metavariable() | terms.Number() | terms.Elementwise() | terms.Select()
            | terms.Padding()
        ):  # fmt: skip
            raise AssertionError("a normalised access is to a named tensor")
        case (
            terms.Gen() | terms.Reduce() | terms.Rec() | terms.Guard() | terms.Let() | terms.Concat()
            | terms.Reshape() | terms.Access()
        ):  # fmt: skip
            raise AssertionError("a normalised access is to a named tensor")
        case _:
            assert_never(e)
    if isinstance(storage, Scalar):
        return Load(storage)
    pairs = tuple(zip(reversed(positions), storage.extents, strict=True))
    if isinstance(storage, Rows):
        # An element that a truncation cuts is padding, which reads as zero.
        placement = stored_at(storage.reindexer, pairs)
        row = Load(Cell(storage.buffer, placement.pairs))
        cut = not proves(scope.facts, placement.kept)
        return Choose(placement.kept, row, Number(0, dtype)) if cut else row
    return Load(Cell(storage, pairs))


# -- programs ---------------------------------------------------------------------------------------------------------


Body: TypeAlias = Callable[[ix.Var, "Context"], ln.Block]


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of a term's elements: a buffer under a reindexer, or a scalar variable.

    Elements are assigned, or folded in by `op`. With `zeros`, a zero is assigned where a guard is false
    (`is_filled_by_zeros`).
    """

    storage: Storage
    reindexer: Reindexer = IDENTITY
    op: Arithmetic | None = None
    zeros: bool = False

    def then(self, *steps: Step) -> Destination:
        return replace(self, reindexer=(*self.reindexer, *steps))

    @property
    def stores_zeros(self) -> bool:
        """True if zeros are assigned to padding elements here."""
        return self.zeros and self.op is None


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a subterm: facts, let-bound tensors by de Bruijn position, and the enclosing loops.

    Buffers are hoisted out of `loops` to the scope `outside`. These are all enclosing loops (`around`), or only those
    within the innermost concurrent loop, since each of its iterations has private buffers.
    """

    scope: Scope
    inputs: dict[str, ln.Buffer]
    outside: Scope
    tensors: tuple[Storage | Rows, ...] = ()
    loops: tuple[tuple[ix.Var, ix.Index, ix.Index], ...] = ()
    around: tuple[tuple[ix.Var, ix.Index, ix.Index], ...] = ()
    in_merge: bool = False  # directly in a loop marked `merge`, apart from conditions

    def proves(self, goal: Predicate) -> bool:
        return proves(self.scope.facts, goal)

    def clamped(self, extent: ix.Index) -> ix.Index:
        """Return the extent, clamped to zero unless it is proved non-negative."""
        return extent if self.proves(at_most(ix.ZERO, extent)) else ix.imax(ix.ZERO, extent)

    def assume(self, predicate: Predicate) -> Context:
        return replace(self, scope=self.scope.assume(predicate))

    def inside(self, scope: Scope, loop: tuple[ix.Var, ix.Index, ix.Index], mark: AnyLoopMark) -> Context:
        """Return the context of the body of a loop."""
        inside = replace(self, scope=scope, around=(*self.around, loop), in_merge=mark is LoopMark.MERGE)
        if mark in CONCURRENT:
            return replace(inside, outside=scope, loops=())
        return replace(inside, loops=(*self.loops, loop))

    def scalar(self, e: terms.Expr) -> ln.ScalarExpr:
        return scalar(e, self.scope, self.tensors, self.inputs)


def lower_unchecked(program: Program, *, registers: bool = True) -> ln.LoopNest:
    """Return the loop nest of a program without checks or passes. The nest may store out of bounds."""
    return lowered_by(program, registers=registers)[0]


def lowered_by(
    program: Program, *, registers: bool, origins: bool = False, strict: bool = False, own_buffers: bool = False
) -> tuple[ln.LoopNest, Collection[Path]]:
    """Return the loop nest of a program, and the marked loops that it contains or that would compute nothing.

    With `own_buffers`, results are stored to the output before their conversion to a common type.
    """
    binders = marked_binders(program)
    followed = traced(numbered(program, binders)) if origins else None
    body = normalize(
        followed.program if followed else numbered(program, binders),
        one_pass=not registers,
        in_order=strict,
        own_buffers=own_buffers,
    ).body
    lowering = _Lowering(program, registers, binders, followed, in_order=strict)
    return lowering.nest(body, outermost(program)), lowering.met


def _is_joined(e: terms.Expr) -> bool:
    """Return whether a tensor consists of parts. Where a guard is false, a part may be longer than the whole."""
    return isinstance(e, terms.Concat | terms.Rec) or (
        isinstance(e, terms.Reshape) and isinstance(e.op, terms.PadLeft | terms.PadRight)
    )


def _not_assembled_in_order(program: Program, added: str) -> NotAssembled:
    """Return the error of a sum that strict code would have to compute before it is added to entries of the result."""
    return NotAssembled(
        f"{program.name} adds {added} to entries of its result. With strict=True, it needs a dense buffer",
        required="sums with at most one term for each entry, added from left to right: (a + b) + c",
        suggestions=(
            "choose a format without repeated entries: s.sparsify(…, CSR.sorted())",
            "leave out strict=True, which adds the terms one after the other",
        ),
    )


class _Lowering:
    """One run of the lowering function, with its counter of ids and the buffers hoisted out of loops."""

    def __init__(
        self,
        program: Program,
        registers: bool,
        binders: tuple[MarkedBinder, ...],
        followed: Traced | None = None,
        *,
        in_order: bool = False,
    ) -> None:
        self.program = program
        self.in_order = in_order
        self.registers = registers
        self._binders = binders
        self._followed = followed
        self._origins: dict[ix.Var, Path] = {}
        self._ids: Iterator[int] = count()
        self._hoisted: list[ln.Allocate] = []
        self._recurrences: set[ix.Var] = set()
        self._direct = 0  # number of sums that add to their cell, not to a scalar variable
        self.met: set[Path] = set()  # marked loops that are in the nest, or that would compute nothing
        self._added_after: Counter[ln.Buffer] = Counter()  # additions to cells that an earlier statement has assigned

    def nest(self, body: terms.Expr, scope: Scope) -> ln.LoopNest:
        program = self.program
        inputs = {a.name: ln.Buffer(next(self._ids), a.name, a.dtype, a.shape, "input") for a in program.inputs}
        output = ln.Buffer(next(self._ids), "out", program.dtype, scope.shape(body.type), "output")
        statements, complete = self._filling(body, output, Context(scope, inputs, scope))
        return ln.LoopNest(
            program.name,
            program.sizes,
            program.inputs,
            output,
            statements,
            program.assumptions,
            complete=complete,
            marks=self._binders,
            recurrences=frozenset(self._recurrences),
            assembly=program.assembly,
            in_order=self.in_order,
            origins=self._origins,
        )

    def _filling(
        self, e: terms.Expr, buffer: ln.Buffer, context: Context, mark: LetMark = LetMark.NONE
    ) -> tuple[ln.Block, bool]:
        """Lower a term into a buffer, and return whether every element is proved to be assigned."""
        before = self._direct
        # In a loop, storing a zero to each padding element is cheaper than clearing the buffer in every iteration.
        # Outside of loops this is so only if whole rows are padding.
        in_loop = bool(context.around) or mark is LetMark.RING
        cheap = in_loop or (self.registers and has_guards_of_rows(e))
        zeros = cheap and not self._is_assembled(buffer) and is_filled_by_zeros(e, context.scope)
        block = self.statement(e, Destination(buffer, zeros=zeros), context)
        after, stored = self._added_after[buffer], self._direct == before
        return block, fills(e, context.scope, buffer, block, added_after=after, sums_stored=stored, zeros=zeros)

    def _is_assembled(self, storage: Storage) -> bool:
        """Return whether this is the output, and its entries are the cells that are stored."""
        return self.program.assembly is not None and isinstance(storage, ln.Buffer) and storage.role == "output"

    # -- statements ---------------------------------------------------------------------------------------------------

    def statement(self, e: terms.Expr, to: Destination, context: Context) -> ln.Block:
        scope, e = context.scope, unconverted(e)
        match e:
            case terms.Gen(low, high, body, name, mark):
                first, last = scope.index(low), scope.index(high)

                def element(variable: ix.Var, inside: Context) -> ln.Block:
                    return self.statement(body, to.then(Cons(ix.index(variable) - first, last - first)), inside)

                return self._loop(name, first, last, mark, context, element)
            case terms.Reduce():
                return self._tensor_fold(e, to, context) if e.type.rank else self._reduction(e, to, context)
            case terms.Rec():
                return self._recurrence(e, to, context)
            case terms.Guard(predicate, body):
                return self._guarded(scope.predicate(predicate), body, to, context)
            case terms.Let(value, body, name):
                return self._scalar_let(e, to, context) if not value.type.rank else self._buffer_let(e, to, context)
            case terms.Concat(left, right):
                after, before = scope.index(right.type.shape[0]), scope.index(left.type.shape[0])
                return (
                    *self.statement(left, to.then(terms.PadRight(after)), context),
                    *self.statement(right, to.then(terms.PadLeft(before)), context),
                )
            case terms.Reshape(op, operand):
                stored = self.statement(operand, to.then(map_op(op, scope.index)), context)
                pads = to.stores_zeros and isinstance(op, terms.PadLeft | terms.PadRight)
                return (*stored, *self._zeros_of_pad(op, operand, to, context)) if pads else stored
            case terms.Binary("add" | "sub") if e.type.rank and self.in_order and to.op is not None:
                raise _not_assembled_in_order(self.program, "a sum of entries, itself computed by two sums,")
            case terms.Binary("add" | "sub" as op, left, right) if e.type.rank:
                # Two statements: the first one assigns or adds, the second one always adds.
                sign: Arithmetic = "sub" if (op == "sub") != (to.op == "sub") else "add"
                assigned = self.statement(left, to, context)
                added = self.statement(right, replace(to, op=sign), context)
                if to.op is None and isinstance(to.storage, ln.Buffer):
                    self._added_after[to.storage] += additions(to.storage, added)
                return (*assigned, *added)
            case terms.Padding():
                return self._store(ln.Number(0, e.type.dtype or self.program.dtype), to) if to.stores_zeros else ()
            case terms.Named() | terms.Number() | terms.Access() | terms.Elementwise() | terms.Select():
                return self._store(context.scalar(e), to)
            case _:
                assert_never(e)

    def _guarded(self, predicate: Predicate, body: terms.Expr, to: Destination, context: Context) -> ln.Block:
        condition = simplify_predicate(context.scope.facts, predicate)
        zeros = to.stores_zeros
        if condition == TRUE:
            return self.statement(body, to, context)
        if zeros and condition != FALSE and is_scalar_leaf(body):
            value = context.assume(condition).scalar(body)
            return self._store(ln.Choose(condition, value, ln.Number(0, value.dtype)), to)
        if condition == FALSE:
            marked = (number_of_loop(e) for e in subterms(body))
            self.met.update(self._binders[number].path for number in marked if number is not None)
        inner = () if condition == FALSE else self.statement(body, to, context.assume(condition))
        rest: ln.Block = ()
        if zeros:
            false = context.assume(negation(condition))
            if any(map(_is_joined, subterms(body))):
                zero = ln.Number(0, body.type.dtype or self.program.dtype)
                rest = self._constant("pad", context.scope.shape(body.type), zero, to, false)
            else:
                rest = self.statement(zeros_of(body), to, false)
        return tuple(
            ln.If(outcome, block) for outcome, block in ((condition, inner), (negation(condition), rest)) if block
        )

    def _zeros_of_pad(self, op: terms.ReshapeOp, operand: terms.Expr, to: Destination, context: Context) -> ln.Block:
        """Store zeros to the elements that a pad adds to its operand."""
        first, *inner = context.scope.shape(operand.type)
        (count,) = map(context.scope.index, amounts(op))
        around = terms.PadRight(first) if isinstance(op, terms.PadLeft) else terms.PadLeft(first)
        zero = ln.Number(0, operand.type.dtype or self.program.dtype)
        return self._constant("pad", (count, *inner), zero, to.then(around), context)

    def _constant(
        self, name: str, extents: Sequence[ix.Index], value: ln.Number, to: Destination, context: Context
    ) -> ln.Block:
        """Store one value to all elements of a tensor with these extents."""
        if not extents:
            return self._store(value, to)
        extent, *rest = extents

        def row(variable: ix.Var, inside: Context) -> ln.Block:
            return self._constant(name, rest, value, to.then(Cons(ix.index(variable), extent)), inside)

        return self._loop(name, ix.ZERO, extent, LoopMark.NONE, context, row)

    def _loop(
        self, name: str, low: ix.Index, high: ix.Index, mark: AnyLoopMark, context: Context, body: Body
    ) -> ln.Block:
        """Return a loop. Buffers hoisted out of an outermost loop are allocated before it and freed after it.

        The first loop within a concurrent one counts as outermost, too.
        """
        # The name of a marked loop is its number (`numbered`).
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
            return (ln.For(variable, low, high, inner, mark, binder),) if inner else ()
        outer, self._hoisted = self._hoisted, []
        inner = body(variable, inside)
        hoisted, self._hoisted = self._hoisted, outer
        if not inner:
            return ()
        return (
            *hoisted,
            ln.For(variable, low, high, inner, mark, binder),
            *(ln.Free(a.buffer) for a in reversed(hoisted)),
        )

    def _store(self, value: ln.ScalarExpr, to: Destination) -> ln.Block:
        target = to.storage if isinstance(to.storage, ln.Scalar) else ln.Cell(to.storage, stored_at(to.reindexer).pairs)
        return (ln.Assign(target, value) if to.op is None else ln.Accumulate(target, to.op, value),)

    # -- recurrences --------------------------------------------------------------------------------------------------

    def _recurrence(self, e: terms.Rec, to: Destination, context: Context) -> ln.Block:
        """Store the first rows, then each later row, which reads the earlier ones where they are stored.

        Rows that are added to their destination have a buffer.
        """
        assert isinstance(to.storage, ln.Buffer)
        scope = context.scope
        if to.op is not None:
            return self._in_buffer(e, e.rows, LetMark.NONE, context, lambda inside: self._added(e, to, inside))
        low, high = scope.index(e.low), scope.index(e.high)
        rows = Rows(to.storage, to.reindexer, scope.shape(e.type))

        def row(variable: ix.Var, inside: Context) -> ln.Block:
            self._recurrences.add(variable)
            here = replace(inside, tensors=(*inside.tensors, rows))
            return self.statement(e.body, to.then(Cons(ix.index(variable), high)), here)

        first = self.statement(e.init, to.then(terms.PadRight(high - low)), context)
        return (*first, *self._loop(e.name, low, high, e.mark, context, row))

    def _added(self, e: terms.Expr, to: Destination, context: Context) -> ln.Block:
        """Store the elements of a tensor in the destination, except padding; the innermost buffer contains them."""
        pads = padtypes.pad_set(e, context.scope)
        buffer = context.tensors[-1]
        assert isinstance(buffer, ln.Buffer)

        def elements(at: tuple[Index, ...], to: Destination, context: Context) -> ln.Block:
            if len(at) == len(pads.shape):
                known: dict[ix.Leaf, Index] = dict(zip(pads.elements, at, strict=True))
                padding = FALSE if pads.predicate is None else pads.predicate
                computed = substitute(negation(padding), lambda leaf: known.get(leaf, ix.index(leaf)))
                cell = ln.Cell(buffer, tuple(zip(at, buffer.extents, strict=True)))
                return self._where(simplify_predicate(context.scope.facts, computed), self._store(ln.Load(cell), to))
            extent = pads.shape[len(at)]

            def element(variable: ix.Var, inside: Context) -> ln.Block:
                i = ix.index(variable)
                return elements((*at, i), to.then(Cons(i, extent)), inside)

            return self._loop("i", ix.ZERO, extent, LoopMark.NONE, context, element)

        return elements((), to, context)

    @staticmethod
    def _where(condition: Predicate, block: ln.Block) -> ln.Block:
        return block if condition == TRUE else (ln.If(condition, block),)

    # -- reductions ---------------------------------------------------------------------------------------------------

    def _fold(self, e: terms.Reduce, to: Destination, context: Context) -> ln.Block:
        """Return the loop of a reduction, which folds each iteration into the destination."""
        low, high = context.scope.index(e.low), context.scope.index(e.high)
        # To subtract a sum, subtract each of its iterations.
        into = to if e.monoid == "sum" and to.op == "sub" else replace(to, op=terms.OF_MONOID[e.monoid])
        return self._loop(e.name, low, high, e.mark, context, lambda _, inside: self.statement(e.body, into, inside))

    def _tensor_fold(self, e: terms.Reduce, to: Destination, context: Context) -> ln.Block:
        """Lower a reduction of tensors: fold each of them into the destination.

        A sum starts at zero. Another fold starts at its neutral element. It has a buffer if it is added elsewhere, or
        if the destination is assembled: entries of a result can only be added to. A sum that is added in order has no
        buffer if each of its elements has at most one term.
        """
        if (e.monoid == "sum" and (to.op is None or not self.in_order)) or self._folds_into(e, to, context):
            return self._fold(e, to, context)
        if e.monoid == "sum" and to.op in ("add", "sub") and isinstance(to.storage, ln.Buffer):
            before = self._direct, list(self._hoisted), self._added_after.copy()
            loop = self._fold(e, to, context)
            if stores_each_cell_once(loop, to.storage, context.scope.facts):
                return loop
            if self._is_assembled(to.storage):
                several = f"the sum over {e.name}, several terms of which may be one entry,"
                raise _not_assembled_in_order(self.program, several)
            self._direct, self._hoisted, self._added_after = before
        if to.op is not None or self._is_assembled(to.storage):
            name = RESULT_NAMES[e.monoid]
            return self._in_buffer(e, name, LetMark.NONE, context, lambda inside: self._added(e, to, inside))
        assert isinstance(to.storage, ln.Buffer)
        scope = context.scope
        condition = simplify_predicate(scope.facts, less(scope.index(e.low), scope.index(e.high)))
        inside = context.assume(condition)
        start = self._constant(
            "i", scope.shape(e.type), neutral(e.monoid, e.type.dtype or to.storage.dtype), to, inside
        )
        loop = self._fold(e, to, inside)
        self._added_after[to.storage] += additions(to.storage, loop)
        return self._where(condition, (*start, *loop))

    def _reduction(self, e: terms.Reduce, to: Destination, context: Context) -> ln.Block:
        """Lower a reduction to a scalar."""
        in_scalar = isinstance(to.storage, ln.Scalar)
        # A sum within another one of the same merge adds to the same destination, since the two become one loop.
        merged = context.in_merge and e.mark is LoopMark.MERGE and to.op in ("add", "sub")
        assembled = self._is_assembled(to.storage)
        direct = not in_scalar and not self._kept(to, context)
        direct = direct or (assembled and not self._stores_each_term(e, context))
        within = to.op in ("add", "sub")
        if self.in_order:
            direct = direct and not within
        elif in_scalar and to.op == "add":
            direct = True
        if e.monoid == "sum" and (merged or direct):
            # Add to an enclosing sum, or directly to a cell that a truncation may cut off: an empty sum is padding.
            self._direct += not in_scalar
            return self._fold(e, to, context)
        nonempty = less(context.scope.index(e.low), context.scope.index(e.high))
        total = ln.Scalar(next(self._ids), RESULT_NAMES[e.monoid], e.type.dtype or self.program.dtype)
        loop = self._fold(e, Destination(total), context)
        result: ln.ScalarExpr = ln.Load(total)
        start = ln.Declare(total, neutral(e.monoid, total.dtype))
        if self.in_order and within and not in_scalar and not self._kept(to, context):
            return (start, *loop, *self._where(stored_at(to.reindexer).kept, self._store(result, to)))
        if (e.monoid == "sum" and not assembled) or context.proves(nonempty):
            return (start, *loop, *self._store(result, to))
        if to.op in (None, "add", "sub"):
            # Store nothing for an empty range: a truncation may have cut its element off.
            return (start, *loop, ln.If(nonempty, self._store(result, to)))
        return (start, *loop, *self._store(ln.Choose(nonempty, result, ln.Number(0, total.dtype)), to))

    def _folds_into(self, e: terms.Reduce, to: Destination, context: Context) -> bool:
        """Return whether the terms of a maximum, minimum or product can be folded directly into a surrounding fold.

        Both must be of the same kind. There must be terms, since the result without terms is zero.
        """
        if e.monoid == "sum" or to.op != terms.OF_MONOID[e.monoid] or self._is_assembled(to.storage):
            return False
        reordered = e.monoid == "product" and self.in_order
        return not reordered and context.proves(less(context.scope.index(e.low), context.scope.index(e.high)))

    def _stores_each_term(self, e: terms.Reduce, context: Context) -> bool:
        """Return whether no term of a sum is padding, so that the sum is stored exactly if its range is not empty."""
        scope = context.scope
        _, inside = scope.bind(e.name, scope.index(e.low), scope.index(e.high), uid=_IN_TERMS)
        return stores_every_element(e.body, inside)

    def _kept(self, to: Destination, context: Context) -> bool:
        """Return whether a sum may run in a scalar variable: every truncation keeps its element."""
        return self.registers and context.proves(stored_at(to.reindexer).kept)

    # -- lets ---------------------------------------------------------------------------------------------------------

    def _scalar_let(self, e: terms.Let, to: Destination, context: Context) -> ln.Block:
        value = e.value
        variable = ln.Scalar(next(self._ids), e.name, value.type.dtype or self.program.dtype)
        inside = replace(context, tensors=(*context.tensors, variable))
        first, computed = self._scalar_value(value, variable, context)
        return (ln.Declare(variable, first, e.mark), *computed, *self.statement(e.body, to, inside))

    def _scalar_value(self, value: terms.Expr, variable: ln.Scalar, context: Context) -> tuple[ln.ScalarExpr, ln.Block]:
        """Return the initial value of a scalar variable, and the statements that compute its final value."""
        zero = ln.Number(0, variable.dtype)
        scope = context.scope
        match value:
            case terms.Guard(predicate, body) if is_scalar_leaf(body):
                condition = simplify_predicate(scope.facts, scope.predicate(predicate))
                inner = context.assume(condition).scalar(body)
                return inner if condition == TRUE else ln.Choose(condition, inner, zero), ()
            case terms.Reduce(monoid, low, high) if monoid == "sum" or context.proves(
                less(scope.index(low), scope.index(high))
            ):
                return neutral(monoid, variable.dtype), self._fold(value, Destination(variable), context)
            case terms.Named() | terms.Number() | terms.Access() | terms.Elementwise() | terms.Select():
                return context.scalar(value), ()
            case terms.Guard() | terms.Reduce() | terms.Let() | terms.Padding():
                return zero, self.statement(value, Destination(variable), context)
            case terms.Gen() | terms.Rec() | terms.Concat() | terms.Reshape():
                raise AssertionError("a scalar has no dimensions")
            case _:
                assert_never(value)

    def _buffer_let(self, e: terms.Let, to: Destination, context: Context) -> ln.Block:
        return self._in_buffer(e.value, e.name, e.mark, context, lambda inside: self.statement(e.body, to, inside))

    def _in_buffer(
        self, value: terms.Expr, name: str, mark: LetMark, context: Context, use: Callable[[Context], ln.Block]
    ) -> ln.Block:
        """Lower a tensor to a buffer on the stack or heap, or to one hoisted out of the enclosing loops, and use it."""
        scope = context.scope
        dtype = value.type.dtype or self.program.dtype
        extents = tuple(simplify(scope.facts, extent) for extent in scope.shape(value.type))
        # The name of a marked let is its number (`numbered`).
        marked = self._binders[int(name)] if mark is not LetMark.NONE else None
        name, let = (marked.name, marked.path) if marked else (name, None)
        buffer = ln.Buffer(next(self._ids), name, dtype, extents)
        stored, filled = self._filling(value, buffer, context, mark)
        used = use(replace(context, tensors=(*context.tensors, buffer)))
        needed = tuple(self._needed(name, extent, context) for extent in extents)
        count = ln.elements(needed)
        storage = storage_of(mark, bytes_of(count.constant, dtype))
        # A circular buffer is cleared row by row, and is not hoisted.
        is_circular = mark is LetMark.RING or mark.stages > 1
        hoisted = storage == "heap" and bool(context.loops) and not is_circular
        capacity = self._capacity(needed, context) if hoisted else None
        if capacity is None:
            return (ln.Allocate(buffer, count, storage, not filled, mark, let), *stored, *used, ln.Free(buffer))
        self._hoisted.append(ln.Allocate(buffer, capacity, storage, zeroed=False, mark=mark, let=let))
        return (ln.Clear(buffer, count, zeroed=not filled), *stored, *used)

    def _needed(self, name: str, extent: ix.Index, context: Context) -> ix.Index:
        """Return the extent to allocate: at least zero, without a quotient by zero or an unsafe read.

        A let that was lifted out of a selection is also allocated where its branch is not taken, and where its extents
        may be undefined. An extent with a read that is safe only in the branch is replaced by its upper bound.
        """
        if not self._safely_read(extent, context):
            most = upper_bound(context.scope.facts, extent, context.around)
            if most is None or not self._safely_read(most, context):
                raise UnsafeAccess(
                    f"the extent {extent} of {name} is read where the condition around {name} may be false",
                    required=f"an extent of {name} with an upper bound that is known outside of its selection",
                    suggestions=(
                        "declare the range of the elements: atl.tensor(…, range=(0, most))",
                        f"use the largest extent of {name}, a constant or a size, instead of an element",
                    ),
                )
            extent = most
        if not all(context.proves(needed.goal) for needed in positive_divisors(extent)):
            extent = _with_positive_divisors(extent)
        return context.clamped(extent)

    def _safely_read(self, extent: ix.Index, context: Context) -> bool:
        """Return whether all reads of array elements in an extent are proved to be in bounds here."""
        return all(context.proves(needed.goal) for needed in reads_in(extent))

    def _capacity(self, extents: tuple[ix.Index, ...], context: Context) -> ix.Index | None:
        """Return the maximum number of elements of a buffer over all iterations of the enclosing loops, if known."""
        outside = replace(context, scope=context.outside)
        bounds: list[ix.Index] = []
        for extent in extents:
            bound = upper_bound(outside.scope.facts, extent, context.loops)
            if bound is None or not all(outside.proves(needed.goal) for needed in positive_divisors(bound)):
                return None
            bounds.append(outside.clamped(bound))
        return ln.elements(tuple(bounds))


def _with_positive_divisors(e: ix.Index) -> ix.Index:
    """Replace each divisor d by max(1, d)."""
    total = ix.ZERO
    for monomial, coefficient in e.terms:
        product = ix.constant(coefficient)
        for atom in monomial:
            match atom:
                case ix.Quotient(numerator, denominator):
                    divisor = ix.imax(ix.ONE, _with_positive_divisors(denominator))
                    product = product * ix.floordiv(_with_positive_divisors(numerator), divisor)
                case ix.Extremum(kind, choices):
                    product = product * ix.extremum(kind, *map(_with_positive_divisors, choices))
                case ix.Xor(parts):
                    product = product * ix.exclusive_or(*map(_with_positive_divisors, parts))
                case ix.Size() | ix.Var() | ix.Bound() | ix.Read():
                    product = product * ix.index(atom)
                case _:
                    assert_never(atom)
        total = total + product
    return total
