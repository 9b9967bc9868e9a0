"""Marked binders of programs, the marks that each target supports, and names that programs may not use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, assert_never

from atl.core.forms import TensorBinder
from atl.core.marks import BLOCKS, LANES, THREADS, LetMark, LoopMark, Mark
from atl.core.program import Program
from atl.core.terms import Expr
from atl.core.traversal import Path, children, names_bound, names_given
from atl.errors import InvalidArgument, InvalidName, Location, UnsupportedMark, brief
from atl.text.names import Names
from atl.text.printing import place_of

# -- marked binders ---------------------------------------------------------------------------------------------------

Kind: TypeAlias = Literal["loop", "scalar", "buffer"]
"""The kind of a marked binder: a loop, or a let of a scalar or of a tensor."""


@dataclass(frozen=True, slots=True)
class MarkedBinder:
    """A binder with a mark: its path in the program, its kind, its name as printed there, and its mark."""

    path: Path
    kind: Kind
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


def _kind(e: Expr, mark: Mark) -> Kind:
    match mark:
        case LoopMark():
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

    def of(self, kind: Kind) -> frozenset[Mark]:
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
        buffers=frozenset((LetMark.REGISTERS, LetMark.SHARED, LetMark.GLOBAL)),
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
    kind: Kind, name: str, mark: Mark, support: Support, binder: MarkedBinder | None = None
) -> UnsupportedMark | None:
    """Return an error if a target does not support a mark."""
    if not mark.value or mark in support.of(kind):
        return None
    others = (
        f'use target="{target}", which supports it' for target, other in SUPPORT.items() if mark in other.of(kind)
    )
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
