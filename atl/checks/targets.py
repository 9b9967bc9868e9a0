"""What a target asks of a program, as far as the program tells: the marks that it carries out, and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, assert_never

from atl.checks.scope import child_scopes, outermost
from atl.core.dtypes import bits
from atl.core.forms import TensorBinder
from atl.core.index import ONE, Index
from atl.core.marks import LetMark, LoopMark, Mark
from atl.core.program import Program
from atl.core.terms import Expr
from atl.core.traversal import Path, children, names_given
from atl.errors import Location, UnsupportedMark, WrongArgument, WrongName, brief
from atl.prove import simplify
from atl.text.printing import place_of, show_index

STACK_LIMIT: Final = 32 * 1024
"""A buffer of constant size up to this many bytes lives on the stack, unless its mark says otherwise."""
STACK_BUDGET: Final = 64 * 1024
"""All buffers that live on the stack at one time have this many bytes together: threads have small stacks."""

# -- marked binders ---------------------------------------------------------------------------------------------------

Kind: TypeAlias = Literal["loop", "scalar", "buffer"]
"""What a marked binder makes: a loop, or a place for a number or for a tensor."""


@dataclass(frozen=True, slots=True)
class MarkedBinder:
    """A binder with a mark: its path in the program, what it makes, its name and its mark."""

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

    def visit(e: Expr, path: Path) -> Iterator[MarkedBinder]:
        mark = _mark_of(e)
        if mark is not None:
            yield MarkedBinder(path, _kind(e, mark), names_given(e)[0], mark, program)
        for position, child in enumerate(children(e)):
            if has_marks(child.expr):
                yield from visit(child.expr, (*path, position))

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
        loops=frozenset(),
        # A variable of a function stands in a register where the compiler has one, else on the stack.
        scalars=frozenset((LetMark.REGISTERS, LetMark.STACK)),
        buffers=frozenset((LetMark.STACK, LetMark.HEAP)),
    ),
}
"""The targets by their names."""


def support_of(target: str) -> Support:
    """What a target carries out. Raises `WrongArgument` for one that is not known."""
    if not isinstance(target, str) or target not in SUPPORT:
        raise WrongArgument(f"target={brief(target)}", required=f"one of {', '.join(map(repr, SUPPORT))}")
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
    return UnsupportedMark(
        f"the {kind} {name} is marked {mark.value}, which the {support.name} target does not carry out yet",
        binder=name,
        mark=mark.value,
        place=None if binder is None else binder.place,
        required=f"marks that it carries out ({support})",
        suggestions=(f's.mark("{name}", None) takes the mark away',),
    )


def beyond_the_stack(program: Program) -> Iterator[UnsupportedMark]:
    """The buffers that are marked for the stack and have no constant size, or are too large for it."""
    for binder in marked_binders(program):
        if binder.kind != "buffer" or binder.mark is not LetMark.STACK:
            continue
        scope, e = outermost(program), program.body
        for position in binder.path:
            scope, e = child_scopes(e, scope)[position], children(e)[position].expr
        value = children(e)[0].expr.type
        dtype, capacity = value.dtype or program.dtype, ONE
        for extent in scope.shape(value):
            capacity = capacity * simplify(scope.facts, extent)
        if capacity.constant is None or capacity.constant * bits(dtype) // 8 > STACK_LIMIT:
            yield not_on_the_stack(binder.name, binder.mark, capacity, dtype, binder.place)


def not_on_the_stack(name: str, mark: Mark, capacity: Index, dtype: str, place: Location | None) -> UnsupportedMark:
    """What to say of a buffer that is marked for the stack and cannot stand there, by itself or beside the others."""
    size = None if capacity.constant is None else capacity.constant * bits(dtype) // 8
    room = f"it has room for {show_index(capacity)} elements of {dtype}"
    if size is None or size > STACK_LIMIT:
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


def check_names(program: Program) -> None:
    """Raises `WrongName` where an input or size is called `out`, which is an argument of every kernel."""
    if "out" in (*(array.name for array in program.inputs), *program.sizes):
        raise WrongName(
            f"{program.name} has an input or a size called out",
            required="another name: kernel(…, out=array) is the array that a kernel fills",
        )
