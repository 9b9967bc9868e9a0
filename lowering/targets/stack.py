"""Which buffers stand on the stack: what a mark and a size say, and whether all that is marked so has room there.

Both are properties of the program, so that a session can tell what `compile` will say, before anything is lowered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, assert_never

from atl.checks.scope import Scope, child_scopes, outermost
from atl.core.dtypes import bytes_of
from atl.core.index import ONE, Index
from atl.core.marks import LetMark
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
    Type,
    Unary,
    Value,
)
from atl.core.traversal import Path, children
from atl.errors import Location, UnsupportedMark
from atl.prove import simplify
from atl.text.printing import show_index
from lowering.targets.supported import MarkedBinder, marked_binders

STACK_LIMIT: Final = 32 * 1024
"""A buffer of constant size up to this many bytes lives on the stack, unless its mark says otherwise."""
REGISTER_LIMIT: Final = 2048
"""A tile in registers has so many bytes at most: those of 32 vectors of 64, as no processor has more."""
STACK_BUDGET: Final = 64 * 1024
"""All buffers that live on the stack at one time have this many bytes together: threads have small stacks."""

Storage: TypeAlias = Literal["heap", "stack", "registers"]


def storage_of(mark: LetMark, size: int | None) -> Storage:
    """Where a buffer of so many bytes is kept by its mark, None being no constant, if it is the only one.

    A buffer that is marked for the stack, and cannot stand there, is on the heap; a target refuses it. Of several that
    are not marked, some are moved to the heap where the stack has no room for all.
    """
    match mark:
        case LetMark.HEAP:
            return "heap"
        case LetMark.NONE | LetMark.STACK:
            return "stack" if size is not None and size <= STACK_LIMIT else "heap"
        case LetMark.REGISTERS | LetMark.RING | LetMark.SHARED | LetMark.GLOBAL:
            # A pass may put it in registers; the interpreter of loop nests knows one memory only.
            return storage_of(LetMark.NONE, size)
        case _:
            assert_never(mark)


# -- the buffers of a program that are marked for the stack -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Marked:
    """A buffer that is marked for the stack."""

    binder: MarkedBinder
    dtype: str
    capacity: Index

    @property
    def size(self) -> int | None:
        return bytes_of(self.capacity.constant, self.dtype)


@dataclass(frozen=True, slots=True)
class _Loop:
    """What is allocated in an iteration, and is gone when the loop is done."""

    body: _Block


_Block: TypeAlias = tuple[_Marked | _Loop, ...]


def beyond_the_registers(program: Program) -> Iterator[UnsupportedMark]:
    """The buffers marked for registers that are too large for them, or of no constant size."""
    for binder in marked_binders(program):
        if binder.kind == "buffer" and binder.mark is LetMark.REGISTERS:
            e, scope = program.body, outermost(program)
            for position in binder.path:
                e, scope = children(e)[position].expr, child_scopes(e, scope)[position]
            value = children(e)[0].expr.type
            marked = _Marked(binder, value.dtype or program.dtype, _capacity(value, scope))
            if not fits_registers(marked.size):
                summary, required, suggestions = too_large_for_registers(marked.capacity, marked.dtype)
                yield UnsupportedMark(
                    f"the buffer {binder.name} is marked {binder.mark.value}; {summary}",
                    binder=binder.name,
                    mark=binder.mark.value,
                    place=binder.place,
                    required=required,
                    suggestions=suggestions,
                )


def fits_registers(size: int | None) -> bool:
    """Whether a buffer of so many bytes, None being no constant, can be in registers."""
    return size is not None and 0 < size <= REGISTER_LIMIT


def too_large_for_registers(capacity: Index, dtype: str) -> tuple[str, str, tuple[str, ...]]:
    """What to say of a buffer that cannot be in registers: what is wrong, what is required, and what to try."""
    return (
        "it is too large for that, or of no constant size",
        (
            f"a constant size of 1 to {REGISTER_LIMIT} bytes, for no processor has more vector registers; "
            f"it has room for {show_index(capacity)} elements of {dtype}"
        ),
        ("choose smaller tiles", "fix the sizes that it depends on: compile(…, sizes={…})"),
    )


def beyond_the_stack(program: Program) -> Iterator[UnsupportedMark]:
    """The buffers marked for the stack that cannot stand there: by themselves, or beside those marked before them.

    Live together are a let and what is in it, and all lets of one iteration: what it computes is one block of C. Loops
    end a block; those of a generation that is read, or computed with element by element, may be none in C.
    """
    stack = [b for b in marked_binders(program) if b.kind == "buffer" and b.mark is LetMark.STACK]
    if not stack:
        return
    on_the_way = {binder.path[:depth] for binder in stack for depth in range(len(binder.path))}
    blocks = _Blocks(program, {binder.path: binder for binder in stack}, frozenset(on_the_way))
    refused = _refused(blocks.of(program.body, (), outermost(program), statement=True), 0)
    for marked in refused:
        yield not_on_the_stack(marked.binder.name, LetMark.STACK, marked.capacity, marked.dtype, marked.binder.place)


def _refused(block: _Block, held: int) -> Iterator[_Marked]:
    """The buffers of a block that have no room, where so many bytes are held around it."""
    for item in block:
        match item:
            case _Loop(body):
                yield from _refused(body, held)
            case _Marked():
                size = item.size
                if size is None or storage_of(LetMark.STACK, size) != "stack" or held + size > STACK_BUDGET:
                    yield item
                else:
                    held += size
            case _:
                assert_never(item)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The blocks of a program, as far as they have marked buffers; `on_the_way` are the paths that lead to these."""

    program: Program
    stack: Mapping[Path, MarkedBinder]
    on_the_way: frozenset[Path]

    def of(self, e: Expr, path: Path, scope: Scope, *, statement: bool) -> _Block:
        """What is allocated for a term, in order: for its own statement, or for elements of it where they are read."""
        own = self._own(e, path, scope)
        if path not in self.on_the_way:
            return own
        match e:
            case Gen():
                inner = self._parts(e, path, scope, [statement])
                return (_Loop(inner),) if statement else inner
            case Reduce(monoid):
                # A fold of tensors is one of scalars for each of their elements, unless it is a sum that is stored.
                whole = not e.type.rank or (statement and monoid == "sum")
                return (_Loop(self._parts(e, path, scope, [whole], folded=True)),)
            case Let():
                return (*own, *self._parts(e, path, scope, [True, statement]))
            case Guard() | Concat() | Reshape():
                return self._parts(e, path, scope, [statement] * len(children(e)))
            case Access() | Unary() | Binary() | Cast() | Select():
                return self._parts(e, path, scope, [False] * len(children(e)))
            case Input() | Local() | TensorVar() | Metavariable() | Constant() | Value() | Padding():
                return ()
            case _:
                assert_never(e)

    def _own(self, e: Expr, path: Path, scope: Scope) -> _Block:
        if path not in self.stack:
            return ()
        value = children(e)[0].expr.type
        return (_Marked(self.stack[path], value.dtype or self.program.dtype, _capacity(value, scope)),)

    def _parts(self, e: Expr, path: Path, scope: Scope, statements: Iterable[bool], *, folded: bool = False) -> _Block:
        out: list[_Marked | _Loop] = []
        parts = zip(children(e), child_scopes(e, scope), statements, strict=True)
        for position, (child, inside, statement) in enumerate(parts):
            # The lets of what is read stand before the conditions under which it is.
            known = inside if statement or folded else replace(inside, facts=scope.facts)
            out += self.of(child.expr, (*path, position), known, statement=statement)
        return tuple(out)


def _capacity(value: Type, scope: Scope) -> Index:
    capacity = ONE
    for extent in scope.shape(value):
        capacity = capacity * simplify(scope.facts, extent)
    return capacity


def not_on_the_stack(name: str, mark: LetMark, capacity: Index, dtype: str, place: Location | None) -> UnsupportedMark:
    """What to say of a buffer that is marked for the stack and cannot stand there, by itself or beside the others."""
    size = bytes_of(capacity.constant, dtype)
    room = f"it has room for {show_index(capacity)} elements of {dtype}"
    if size is None or storage_of(LetMark.STACK, size) != "stack":
        summary = "it is too large for that, or of no constant size"
        required = f"a constant size of at most {STACK_LIMIT} bytes; {room}"
    else:
        summary = "with the others that are marked so, there is no room left"
        required = (
            f"at most {STACK_BUDGET} bytes in all buffers on the stack at one time; {room}, which is {size} bytes"
        )
    return UnsupportedMark(
        f"the buffer {name} is marked {mark.value}; {summary}",
        binder=name,
        mark=mark.value,
        place=place,
        required=required,
        suggestions=(f's.mark("{name}", "heap"), or s.mark("{name}", None)', "stage it at a loop over tiles"),
    )
