"""What a target asks of a program, as far as the program tells: the marks that it carries out, and names."""

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
"""What a marked binder makes: a loop, or a place for a number or for a tensor."""


@dataclass(frozen=True, slots=True)
class MarkedBinder:
    """A binder with a mark: its path in the program, what it makes, its name as it is printed there, and its mark."""

    path: Path
    kind: Kind
    name: str
    mark: Mark
    program: Program = field(repr=False)

    @property
    def place(self) -> Location:
        """Where it stands, for carets."""
        return place_of(self.program, self.path)


def marked_binders(program: Program) -> tuple[MarkedBinder, ...]:
    """The binders of a program that have a mark, from the outside in: those too that nothing is lowered from."""
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


WRITTEN_OUT: Final = 16
"""A loop of so few iterations, if their number is a constant, is written out by C compilers (gcc: up to 16)."""


# -- what a target carries out ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Support:
    """The marks that a target carries out: those of loops, of lets that bind a scalar, and of lets that bind a buffer.

    What a mark of a buffer means is said by `storage_of` of the loop nests.
    """

    name: str
    loops: frozenset[LoopMark]
    scalars: frozenset[LetMark]
    buffers: frozenset[LetMark]

    def of(self, kind: Kind) -> frozenset[Mark]:
        """The marks that it carries out on binders of a kind."""
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
        return "; ".join(f"of {what}: {', '.join(marks) or 'none'}" for what, marks in known.items())


SUPPORT: Final[Mapping[str, Support]] = {
    "c": Support(
        "C",
        loops=frozenset((LoopMark.PARALLEL, *LANES, LoopMark.UNROLL, LoopMark.MERGE, LoopMark.RUNS)),
        # A variable of a function stands in a register where the compiler has one, else on the stack.
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
"""The targets by their names."""


def support_of(target: str) -> Support:
    """What a target carries out. Raises `InvalidArgument` for one that is not known."""
    if not isinstance(target, str) or target not in SUPPORT:
        raise InvalidArgument(
            f"target={brief(target)}",
            required=f"one of {', '.join(map(repr, SUPPORT))}; there are no others yet",
            suggestions=("leave out target=",),
        )
    return SUPPORT[target]


def unsupported_marks(binders: Iterable[MarkedBinder], target: str) -> Iterator[UnsupportedMark]:
    """Of marked binders, what a target does not carry out, whether or not anything is lowered from them."""
    support = support_of(target)
    for binder in binders:
        error = unsupported(binder.kind, binder.name, binder.mark, support, binder)
        if error is not None:
            yield error


def unsupported(
    kind: Kind, name: str, mark: Mark, support: Support, binder: MarkedBinder | None = None
) -> UnsupportedMark | None:
    """Why a target does not carry out a mark, if it does not."""
    if not mark.value or mark in support.of(kind):
        return None
    others = (f'target="{target}" carries it out' for target, other in SUPPORT.items() if mark in other.of(kind))
    return UnsupportedMark(
        f"the {kind} {name} is marked {mark.value}, which the {support.name} target does not carry out yet",
        binder=name,
        mark=mark.value,
        place=None if binder is None else binder.place,
        required=f"marks that it carries out ({support})",
        suggestions=(f's.mark("{name}", None) takes the mark away', *others),
    )


def check_names(program: Program) -> None:
    """Raises `InvalidName` where an input or size is called `out`, which is an argument of every kernel."""
    if "out" in (*(array.name for array in program.inputs), *program.sizes):
        raise InvalidName(
            f"{program.name} has an input or a size called out",
            required="another name: kernel(…, out=array) is the array that a kernel fills",
        )
