"""Capabilities of the targets: supported marks, storage limits, and names that programs may not use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, assert_never

from atl.checks.scope import Scope, child_scopes, outermost
from atl.core import terms
from atl.core.dtypes import bytes_of
from atl.core.forms import TensorBinder
from atl.core.index import ONE, Index
from atl.core.marks import BLOCKS, DEVICES, LANES, STAGED, THREADS, CallMark, LetMark, LoopMark, Mark
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr
from atl.core.traversal import Path, children, names_bound, names_given
from atl.errors import InvalidArgument, InvalidName, Location, UnsupportedMark, brief
from atl.prove import simplify
from atl.text.index_notation import Names
from atl.text.printing import place_of, show_index

# -- marked binders ---------------------------------------------------------------------------------------------------

BinderKind: TypeAlias = Literal["loop", "scalar", "buffer"]
"""The kind of a marked binder: a loop, or a let of a scalar or of a tensor."""


@dataclass(frozen=True, slots=True)
class MarkedBinder:
    """A binder with a mark: its path in the program, its kind, its name as printed there, and its mark."""

    path: Path
    kind: BinderKind
    name: str
    mark: Mark
    program: Program = field(repr=False)

    @property
    def place(self) -> Location:
        """Location in the printed program, for carets."""
        return place_of(self.program, self.path)


def marked_binders(program: Program) -> tuple[MarkedBinder, ...]:
    """Return the marked binders of a program, outermost first, including those that no code is generated for."""
    known: dict[int, bool] = {}

    def has_marks(e: Expr) -> bool:
        if id(e) not in known:
            known[id(e)] = _mark_of(e) is not None or any(has_marks(child.expr) for child in children(e))
        return known[id(e)]

    names = Names((*program.sizes, *(array.name for array in program.inputs)))

    def visit(e: Expr, path: Path) -> Iterator[MarkedBinder]:
        mark = _mark_of(e)
        if mark is not None:
            printed = names.bind_index(names_given(e)[0])
            names.unbind_index()
            yield MarkedBinder(path, _kind(e, mark), printed, mark, program)
        for position, child in enumerate(children(e)):
            if not has_marks(child.expr):
                continue
            indices, tensors = names_bound(e, position)
            for name in indices:
                names.bind_index(name)
            for name in tensors:
                names.bind_tensor(name)
            yield from visit(child.expr, (*path, position))
            for _ in indices:
                names.unbind_index()
            for _ in tensors:
                names.unbind_tensor()

    return tuple(visit(program.body, ()))


def _mark_of(e: Expr) -> Mark | None:
    marked = type(e).form.mark
    if marked is None:
        return None
    mark: Mark = getattr(e, marked.field)
    return mark if mark.value else None


def _kind(e: Expr, mark: Mark) -> BinderKind:
    match mark:
        case LoopMark() | CallMark():
            return "loop"
        case LetMark():
            values = [getattr(e, binder.value) for binder in type(e).form.binders if isinstance(binder, TensorBinder)]
            return "buffer" if any(value.type.rank for value in values) else "scalar"
        case _:
            assert_never(mark)


FULLY_UNROLLED: Final = 16
"""C compilers fully unroll loops with up to this many iterations, if the number is a constant (gcc: up to 16)."""


# -- supported marks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Support:
    """The marks that a target supports on loops, on lets that bind a scalar, and on lets that bind a buffer.

    `storage_of` defines the storage of a marked buffer.
    """

    name: str
    loops: frozenset[LoopMark]
    scalars: frozenset[LetMark]
    buffers: frozenset[LetMark]

    def of(self, kind: BinderKind) -> frozenset[Mark]:
        """Return the marks supported on binders of a kind."""
        match kind:
            case "loop":
                return frozenset[Mark](self.loops)
            case "scalar":
                return frozenset[Mark](self.scalars)
            case "buffer":
                return frozenset[Mark](self.buffers)
            case _:
                assert_never(kind)

    def __str__(self) -> str:
        known = {
            "a loop": [mark.value for mark in LoopMark if mark in self.loops],
            "a scalar": [mark.value for mark in LetMark if mark in self.scalars],
            "a buffer": [mark.value for mark in LetMark if mark in self.buffers],
        }
        return "; ".join(f"on {what}: {', '.join(marks) or 'none'}" for what, marks in known.items())


SUPPORT: Final[Mapping[str, Support]] = {
    "c": Support(
        "C",
        loops=frozenset((LoopMark.PARALLEL, *LANES, LoopMark.UNROLL, LoopMark.MERGE, LoopMark.RUNS)),
        # A local variable of C is in a register or on the stack.
        scalars=frozenset((LetMark.REGISTERS, LetMark.STACK)),
        buffers=frozenset((LetMark.REGISTERS, LetMark.STACK, LetMark.HEAP, LetMark.RING)),
    ),
    "cuda": Support(
        "CUDA",
        loops=frozenset((*BLOCKS, *THREADS, LoopMark.VECTOR, LoopMark.UNROLL)),
        scalars=frozenset((LetMark.REGISTERS,)),
        buffers=frozenset((LetMark.REGISTERS, LetMark.SHARED, *STAGED, LetMark.GLOBAL)),
    ),
    "systolic": Support(
        "systolic",
        loops=frozenset(),
        scalars=frozenset(),
        buffers=frozenset((LetMark.SCRATCHPAD, LetMark.ACCUMULATOR)),
    ),
}
"""The targets, by name."""


def support_of(target: str) -> Support:
    """Return the support of a target. Raises `InvalidArgument` for an unknown target."""
    if not isinstance(target, str) or target not in SUPPORT:
        raise InvalidArgument(
            f"target={brief(target)}",
            required=f"one of {', '.join(map(repr, SUPPORT))}",
            suggestions=("omit target= for the C target",),
        )
    return SUPPORT[target]


def unsupported_marks(binders: Iterable[MarkedBinder], target: str) -> Iterator[UnsupportedMark]:
    """Yield the marks that a target does not support, including those that no code is generated for."""
    support = support_of(target)
    for binder in binders:
        error = unsupported(binder.kind, binder.name, binder.mark, support, binder)
        if error is not None:
            yield error


def unsupported(
    kind: BinderKind, name: str, mark: Mark, support: Support, binder: MarkedBinder | None = None
) -> UnsupportedMark | None:
    """Return an error if a target does not support a mark."""
    if not mark.value or isinstance(mark, CallMark) or mark in support.of(kind):
        return None
    others = [
        f'use target="{target}", which supports it' for target, other in SUPPORT.items() if mark in other.of(kind)
    ]
    if mark in DEVICES:
        others.append("compile for the ranks of a mesh: atl.compile(program, mesh=atl.Mesh(…))")
    return UnsupportedMark(
        f"the {kind} {name} is marked {mark.value}, which the {support.name} target does not support yet",
        binder=name,
        mark=mark.value,
        place=None if binder is None else binder.place,
        required=f"a mark that this target supports ({support})",
        suggestions=(f's.mark("{name}", None) removes the mark', *others),
    )


def check_names(program: Program) -> None:
    """Raise `InvalidName` if an input or size is named `out`, which is an argument of every kernel."""
    if "out" in (*(array.name for array in program.inputs), *program.sizes):
        raise InvalidName(
            f"{program.name} has an input or a size named out",
            required="another name: kernel(…, out=array) is reserved for the result",
        )


# -- tracing of binders -----------------------------------------------------------------------------------------------


_PREFIX: Final = "\0"
"""Prefix of the names of numbered loops without a mark; no user's name begins with it."""


def numbered(program: Program, binders: tuple[MarkedBinder, ...]) -> Program:
    """Rename each marked loop, and each marked let of a tensor, to its index in `binders`.

    Before it is lowered, the program is rewritten, which changes paths but keeps names and marks together. By its
    number, a loop or a buffer is traced to its original binder, and not to another binder of the same name.
    """
    numbers = {binder.path: str(at) for at, binder in enumerate(binders) if binder.kind != "scalar"}
    return replace(program, body=_named(program.body, numbers)) if numbers else program


def _named(e: Expr, names: Mapping[Path, str]) -> Expr:
    """Rename what is bound at these paths."""
    parts = [child.expr for child in children(e)]
    for position in {path[0] for path in names if path}:
        below = {path[1:]: name for path, name in names.items() if path[:1] == (position,)}
        parts[position] = _named(parts[position], below)
    out = with_children(e, tuple(parts))
    if () in names:
        out = replace(out, **{type(out).form.binders[0].name: names[()]})  # type: ignore[arg-type]
    return out


def number_of_loop(e: Expr) -> int | None:
    """Return the number of a marked loop in a `numbered` program; None for other terms."""
    return int(names_given(e)[0]) if is_loop(e) and not is_unmarked(e) else None


def is_loop(e: Expr) -> bool:
    """Return whether a term is lowered to a loop."""
    marked = type(e).form.mark
    return marked is not None and marked.of is LoopMark


def is_unmarked(loop: Expr) -> bool:
    """Return whether a loop has no mark."""
    marked = type(loop).form.mark
    return marked is None or getattr(loop, marked.field) is LoopMark.NONE


@dataclass(frozen=True, slots=True)
class Traced:
    """A program whose loops without a mark are renamed to their indices in `loops`, which are paths and names."""

    program: Program
    loops: tuple[tuple[Path, str], ...] = ()

    def original(self, name: str) -> tuple[Path | None, str]:
        """Return the path of the original binder of a loop (None if it is not traced), and its original name."""
        return self.loops[int(name[1:])] if name.startswith(_PREFIX) else (None, name)


def traced(program: Program) -> Traced:
    """Rename all loops without a mark, so that they can be traced; `numbered` renames the others."""
    loops: list[tuple[Path, str]] = []

    def renamed(e: Expr, path: Path) -> Expr:
        is_traced = is_loop(e) and is_unmarked(e)
        number = len(loops)
        if is_traced:
            loops.append((path, names_given(e)[0]))
        out = with_children(e, tuple(renamed(child.expr, (*path, at)) for at, child in enumerate(children(e))))
        if not is_traced:
            return out
        return replace(out, **{type(e).form.binders[0].name: f"{_PREFIX}{number}"})  # type: ignore[arg-type]

    return Traced(replace(program, body=renamed(program.body, ())), tuple(loops))


# -- storage on the stack and in registers ----------------------------------------------------------------------------
# Both depend on the program alone, so that a session can report the errors of `compile` before anything is lowered.


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
        case (
            LetMark.REGISTERS | LetMark.RING | LetMark.SHARED | LetMark.SHARED_2 | LetMark.SHARED_3 | LetMark.SHARED_4
            | LetMark.GLOBAL
            | LetMark.SCRATCHPAD | LetMark.ACCUMULATOR
        ):  # fmt: skip
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
            case terms.Rec():
                return (_Loop(self._parts(e, path, scope, [True, True])),)
            case terms.Guard() | terms.Concat() | terms.Reshape():
                return self._parts(e, path, scope, [statement] * len(children(e)))
            case terms.Access() | terms.Elementwise() | terms.Select():
                return self._parts(e, path, scope, [False] * len(children(e)))
            case terms.Named() | terms.Number() | terms.Padding():
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
