"""Placement of buffers on the stack or in registers, and checks that those marked so fit.

Both depend on the program alone, so that a session can report the errors of `compile` before anything is lowered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, assert_never

from atl.checks.scope import Scope, child_scopes, outermost
from atl.core import terms
from atl.core.dtypes import bytes_of
from atl.core.index import ONE, Index
from atl.core.marks import LetMark
from atl.core.program import Program
from atl.core.traversal import Path, children
from atl.errors import Location, UnsupportedMark
from atl.prove import simplify
from atl.text.printing import show_index
from lowering.targets.capabilities import MarkedBinder, marked_binders

STACK_LIMIT: Final = 32 * 1024
"""Largest constant size in bytes of a buffer that is placed on the stack, unless its mark requests otherwise."""
REGISTER_LIMIT: Final = 2048
"""Largest size in bytes of a tile in registers: 32 vector registers of 64 bytes."""
STACK_BUDGET: Final = 64 * 1024
"""Largest total size in bytes of the buffers on the stack at one time; threads have small stacks."""

Storage: TypeAlias = Literal["heap", "stack", "registers"]


def storage_of(mark: LetMark, size: int | None) -> Storage:
    """Return the storage of a buffer of `size` bytes (None if not constant), considered alone.

    A buffer marked for the stack that does not fit is on the heap, which targets refuse. If several unmarked buffers do
    not fit together, a pass moves some to the heap.
    """
    match mark:
        case LetMark.HEAP:
            return "heap"
        case LetMark.NONE | LetMark.STACK:
            return "stack" if size is not None and size <= STACK_LIMIT else "heap"
        case LetMark.REGISTERS | LetMark.RING | LetMark.SHARED | LetMark.GLOBAL:
            # A pass may use registers; the interpreter of loop nests has only one memory.
            return storage_of(LetMark.NONE, size)
        case _:
            assert_never(mark)


# -- buffers marked for the stack -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Marked:
    """A buffer marked for the stack."""

    binder: MarkedBinder
    dtype: str
    capacity: Index

    @property
    def size(self) -> int | None:
        return bytes_of(self.capacity.constant, self.dtype)


@dataclass(frozen=True, slots=True)
class _Loop:
    """The allocations in an iteration, which are freed at the end of the loop."""

    body: _Block


_Block: TypeAlias = tuple[_Marked | _Loop, ...]


def register_errors(program: Program) -> Iterator[UnsupportedMark]:
    """Yield an error for each buffer marked for registers that is too large or not of constant size."""
    for binder in marked_binders(program):
        if binder.kind == "buffer" and binder.mark is LetMark.REGISTERS:
            e, scope = program.body, outermost(program)
            for position in binder.path:
                e, scope = children(e)[position].expr, child_scopes(e, scope)[position]
            value = children(e)[0].expr.type
            marked = _Marked(binder, value.dtype or program.dtype, _capacity(value, scope))
            if not fits_registers(marked.size):
                summary, required, suggestions = exceeds_registers(marked.capacity, marked.dtype)
                yield UnsupportedMark(
                    f"the buffer {binder.name} is marked {binder.mark.value}; {summary}",
                    binder=binder.name,
                    mark=binder.mark.value,
                    place=binder.place,
                    required=required,
                    suggestions=suggestions,
                )


def fits_registers(size: int | None) -> bool:
    """Return whether a buffer of `size` bytes (None if not constant) fits in registers."""
    return size is not None and 0 < size <= REGISTER_LIMIT


def exceeds_registers(capacity: Index, dtype: str) -> tuple[str, str, tuple[str, ...]]:
    """Return summary, requirement and suggestions for a buffer that does not fit in registers."""
    return (
        "it is too large, or its size is not constant",
        (
            f"a constant size of 1 to {REGISTER_LIMIT} bytes, the most vector registers that a processor has; "
            f"it has {show_index(capacity)} elements of {dtype}"
        ),
        ("choose smaller tiles", "fix the sizes that it depends on: compile(…, sizes={…})"),
    )


def stack_errors(program: Program) -> Iterator[UnsupportedMark]:
    """Yield an error for each buffer marked for the stack that does not fit, alone or with those marked before it.

    A let is live during its body, and all lets of one iteration are live together, since an iteration is one block of
    C. A loop ends a block, but a generation that is read or computed element by element may not be a loop in C.
    """
    stack = [b for b in marked_binders(program) if b.kind == "buffer" and b.mark is LetMark.STACK]
    if not stack:
        return
    prefixes = {binder.path[:depth] for binder in stack for depth in range(len(binder.path))}
    blocks = _Blocks(program, {binder.path: binder for binder in stack}, frozenset(prefixes))
    misfits = _misfits(blocks.of(program.body, (), outermost(program), statement=True), 0)
    for marked in misfits:
        yield stack_error(marked.binder.name, LetMark.STACK, marked.capacity, marked.dtype, marked.binder.place)


def _misfits(block: _Block, used: int) -> Iterator[_Marked]:
    """Yield the buffers of a block that do not fit if `used` bytes are live around it."""
    for item in block:
        match item:
            case _Loop(body):
                yield from _misfits(body, used)
            case _Marked():
                size = item.size
                if size is None or storage_of(LetMark.STACK, size) != "stack" or used + size > STACK_BUDGET:
                    yield item
                else:
                    used += size
            case _:
                assert_never(item)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The blocks of a program that contain marked buffers; `prefixes` are the prefixes of the buffers' paths."""

    program: Program
    stack: Mapping[Path, MarkedBinder]
    prefixes: frozenset[Path]

    def of(self, e: terms.Expr, path: Path, scope: Scope, *, statement: bool) -> _Block:
        """Return the allocations for a term, computed by its own statement or element by element where it is read."""
        own = self._own(e, path, scope)
        if path not in self.prefixes:
            return own
        match e:
            case terms.Gen():
                inner = self._parts(e, path, scope, [statement])
                return (_Loop(inner),) if statement else inner
            case terms.Reduce(monoid):
                # A fold of tensors is a fold of scalars for each element, unless it is a sum that is stored.
                whole = not e.type.rank or (statement and monoid == "sum")
                return (_Loop(self._parts(e, path, scope, [whole], folded=True)),)
            case terms.Let():
                return (*own, *self._parts(e, path, scope, [True, statement]))
            case terms.Guard() | terms.Concat() | terms.Reshape():
                return self._parts(e, path, scope, [statement] * len(children(e)))
            case terms.Access() | terms.Unary() | terms.Binary() | terms.Cast() | terms.Select():
                return self._parts(e, path, scope, [False] * len(children(e)))
            case (
                terms.Input()
                | terms.Local()
                | terms.TensorVar()
                | terms.Metavariable()
                | terms.Constant()
                | terms.Value()
                | terms.Padding()
            ):
                return ()
            case _:
                assert_never(e)

    def _own(self, e: terms.Expr, path: Path, scope: Scope) -> _Block:
        if path not in self.stack:
            return ()
        value = children(e)[0].expr.type
        return (_Marked(self.stack[path], value.dtype or self.program.dtype, _capacity(value, scope)),)

    def _parts(
        self, e: terms.Expr, path: Path, scope: Scope, statements: Iterable[bool], *, folded: bool = False
    ) -> _Block:
        out: list[_Marked | _Loop] = []
        parts = zip(children(e), child_scopes(e, scope), statements, strict=True)
        for position, (child, inside, statement) in enumerate(parts):
            # Lets within a term that is read element by element are computed before the conditions of the read.
            known = inside if statement or folded else replace(inside, facts=scope.facts)
            out += self.of(child.expr, (*path, position), known, statement=statement)
        return tuple(out)


def _capacity(value: terms.Type, scope: Scope) -> Index:
    capacity = ONE
    for extent in scope.shape(value):
        capacity = capacity * simplify(scope.facts, extent)
    return capacity


def stack_error(name: str, mark: LetMark, capacity: Index, dtype: str, place: Location | None) -> UnsupportedMark:
    """Return the error of a buffer marked for the stack that does not fit, alone or together with others."""
    size = bytes_of(capacity.constant, dtype)
    has = f"it has {show_index(capacity)} elements of {dtype}"
    if size is None or storage_of(LetMark.STACK, size) != "stack":
        summary = "it is too large, or its size is not constant"
        required = f"a constant size of at most {STACK_LIMIT} bytes; {has}"
    else:
        summary = "it does not fit together with the other buffers on the stack"
        required = f"at most {STACK_BUDGET} bytes in all buffers on the stack at one time; {has}, which is {size} bytes"
    return UnsupportedMark(
        f"the buffer {name} is marked {mark.value}; {summary}",
        binder=name,
        mark=mark.value,
        place=place,
        required=required,
        suggestions=(f's.mark("{name}", "heap"), or s.mark("{name}", None)', "stage it at a loop over tiles"),
    )
