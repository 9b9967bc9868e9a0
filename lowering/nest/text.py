"""Text of loop nests: scopes for printing, and pseudocode."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, assert_never

from atl.core.index import Index, Size, Var
from atl.core.marks import CallMark, Mark
from atl.core.operations import INFIX, BinaryOp
from atl.core.predicate import Predicate
from atl.core.program import Assembly
from atl.text.index_notation import ASCII, write_condition, write_index
from atl.text.printing import condition_text, index_text
from lowering.c.text import (
    PRIMARY,
    PRODUCT,
    SUM,
    TERNARY,
    UNARY,
    Names,
    Text,
    anchored_lines,
    ids_of,
    indented,
    wrapped,
)
from lowering.nest import loopnest as ln
from lowering.nest.assembly import assembly_of, column_extents, gathers, number_of_columns, parallel_rows
from lowering.nest.loopnest import Conditions, LoopNest, key, under
from lowering.nest.marked_loops import Finger, NoMerge, is_merge, merge_at
from lowering.nest.tiles import Tiles

# -- scopes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AssembledText:
    """An assembled output in a text: its storage, the key of its values, and how the nest stores its rows.

    `counts` is set where entries are only counted. If the loop over rows is `parallel`, the entries of each row are
    counted first, and each thread has a workspace.
    """

    assembly: Assembly
    output: Hashable
    dtype: str
    kind: ln.RowStorageKind
    repeats: Literal["none", "adjacent", "any"]
    columns: Index
    column_extents: tuple[Index, ...]
    parallel: bool = False
    counts: bool = False

    @classmethod
    def of(cls, nest: LoopNest) -> AssembledText:
        """Return the storage of the output of a nest after the pass that ends its rows."""
        ends = gathers(nest)
        assert ends, f"the rows of the output of {nest.name} do not end"
        kind, repeats = ends[0].kind, ends[0].repeats
        columns, extents = number_of_columns(nest), column_extents(nest)
        assembly, output, dtype = assembly_of(nest), key(nest.output), nest.output.dtype
        return cls(assembly, output, dtype, kind, repeats, columns, extents, parallel_rows(nest))

    @property
    def has_bits(self) -> bool:
        """True if rows are gathered in a workspace with bits."""
        gathered = self.kind == "gathered" and (self.assembly.ordered or self.parallel)
        return gathered or (self.kind == "counted" and self.repeats == "any")

    @property
    def has_places(self) -> bool:
        """True if columns have the positions of their entries."""
        return self.kind == "gathered" and not self.has_bits

    @property
    def arrays(self) -> list[tuple[str, str]]:
        """The arrays that a function takes besides the values of the output: their roles and element types."""
        index = self.assembly.index_dtype
        found = [("pos", index), ("crd", self.assembly.column_dtype)]
        if self.has_bits:
            found += [("work", self.dtype), ("bits", "uint64"), ("words", "uint64")]
        if self.has_places:
            found += [("place", index)]
        return [*found, ("space", "int64")]


@dataclass(frozen=True, slots=True)
class TextScope:
    """The scope of a place in the printed text.

    Names are looked up by size, loop variable, or `key` of the storage. `nonnegative_numerators` and `strict_keys` are
    those of the nest. `tiles` are the buffers in registers. `indices` is the type of indices, if helper functions are
    templates over it; in C all indices have 64 bits. `anchored` are the loops whose lines are located in the text.
    `in_order` and `external_rows` are those of the nest.
    """

    names: Names
    conditions: Conditions
    nonnegative_numerators: frozenset[tuple[Conditions, Index]]
    tiles: Tiles = field(default_factory=dict)
    strict_keys: frozenset[Var] = frozenset()
    indices: str = ""
    anchored: frozenset[int] = frozenset()
    assembled: AssembledText | None = None
    in_order: bool = False
    external_rows: ln.ExternalRows | None = None

    def name(self, of: Hashable) -> str:
        return self.names.of[of]

    def bind(self, key: Hashable, hint: str) -> tuple[str, TextScope]:
        """Return a fresh name for `key`, and the scope in which it is visible."""
        name, names = self.names.bind(key, hint)
        return name, replace(self, names=names)

    def with_tile(self, uid: int, lengths: tuple[int, ...]) -> TextScope:
        """Return the scope with a tile in registers whose rows consist of vectors of these lengths."""
        return replace(self, tiles={**self.tiles, uid: lengths})

    def counting(self) -> TextScope:
        """Return the scope in which the stores to an assembled output are counted."""
        assert self.assembled is not None
        return replace(self, assembled=replace(self.assembled, counts=True))

    def under(self, predicate: Predicate) -> TextScope:
        """Return the scope within a loop or branch."""
        return replace(self, conditions=under(self.conditions, predicate))

    def of_loop(self, variable: Var, lines: list[str]) -> list[str]:
        """Return the lines of a loop, with anchors if its lines are to be located."""
        return anchored_lines(self.anchored, variable, lines)

    def function(self, name: str) -> str:
        """Return the text that calls a helper function of indices."""
        return f"{name}<{self.indices}>" if self.indices else name

    def is_nonnegative(self, numerator: Index) -> bool:
        """Return whether the nest lists this numerator of a quotient as non-negative here."""
        return (self.conditions, numerator) in self.nonnegative_numerators


def names_wanted(nest: LoopNest) -> list[tuple[Hashable, str]]:
    """Return the keys of the parameters of a nest, each with its preferred name."""
    assembled = _assembled(nest)
    return [
        *((array.name, array.name) for array in nest.inputs),
        *((Size(size), size) for size in nest.sizes),
        *((stride, stride.name) for stride in nest.strides),
        *((key(buffer), buffer.name) for buffer in nest.outputs),
        *((("assembly", role), f"{nest.output.name}_{role}") for role, _ in (assembled.arrays if assembled else ())),
    ]


def called_functions(*nests: LoopNest) -> frozenset[str]:
    """Return the names of the instructions that the loops of nests are marked with."""
    marks = (binder.mark for nest in nests for binder in nest.marks)
    return frozenset(mark.name for mark in marks if isinstance(mark, CallMark))


def _assembled(nest: LoopNest) -> AssembledText | None:
    """Return the assembled output of a nest; None before the pass that ends its rows."""
    return AssembledText.of(nest) if nest.assembly is not None and gathers(nest) else None


def outermost(nest: LoopNest) -> TextScope:
    """Return the scope of the body of a loop nest, in which its parameters are visible."""
    names = Names(taken=called_functions(nest)).bind_all(names_wanted(nest))
    return TextScope(
        names,
        frozenset(),
        nest.nonnegative_numerators,
        strict_keys=nest.strict_keys,
        anchored=ids_of(nest.origins),
        assembled=_assembled(nest),
        in_order=nest.in_order,
        external_rows=nest.external_rows,
    )


# -- the notation of programs, with the names of a scope --------------------------------------------------------------


def show_index(scope: TextScope, expression: Index) -> str:
    """Return the text of an index expression."""
    return index_text(write_index(expression, scope.name), ASCII)


def show_key(scope: TextScope, finger: Finger) -> str:
    """Return the text of the key of a position in a merge; a tuple if it has several parts."""
    parts = ", ".join(show_index(scope, part) for part in finger.key)
    return f"({parts})" if len(finger.key) > 1 else parts


def show_condition(scope: TextScope, predicate: Predicate) -> str:
    """Return the text of a predicate."""
    return condition_text(write_condition(predicate, scope.name), ASCII)


def shown(scope: TextScope, storage: Hashable, indices: Sequence[Index]) -> str:
    """Return the text of a tensor with its extents or of an element with its indices; the name alone for rank 0."""
    name = scope.name(storage)
    return f"{name}[{', '.join(show_index(scope, index) for index in indices)}]" if indices else name


# -- pseudocode -------------------------------------------------------------------------------------------------------


_PLACES: Final[dict[str, str]] = {"heap": "", "stack": " on stack", "registers": " in registers"}
_ENDS: Final[dict[ln.RowStorageKind, str]] = {
    "appended": "end row",
    "union": "merge the two loops of row",
    "gathered": "gather row",
    "counted": "count, then fill the rows",
}
_LEVELS: Final[dict[BinaryOp, int]] = {"add": SUM, "sub": SUM, "mul": PRODUCT, "div": PRODUCT}


def print_nest(nest: ln.LoopNest) -> str:
    """Return the pseudocode of a loop nest.

    >>> import atl
    >>> from lowering import lower, print_nest
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> print(print_nest(lower(atl.program("running", [x], atl.gen(n, lambda i: atl.sum((0, i), lambda k: x[k]))))))
    running(x[n]) -> out[n]
        for i in 0..n:
            total = 0.0
            for k in 0..i:
                total += x[k]
            out[i] = total
    """
    scope = outermost(ln.checked_nest(nest))
    inputs = ", ".join(shown(scope, array.name, array.shape) for array in nest.inputs)
    out = ", ".join(shown(scope, key(buffer), buffer.extents) for buffer in nest.outputs)
    cleared = [f"clear {scope.name(key(each))}" for each in nest.outputs if not nest.complete and not nest.assembly]
    kept = [f"# {storage}" for storage in nest.row_storage]
    stored = f" as {nest.assembly.format}" if nest.assembly else ""
    lines = [f"{nest.name}({inputs}) -> {out}{stored}", *indented([*kept, *cleared, *_block(scope, nest.body)])]
    return "\n".join(part for line in lines for part in wrapped(line))


def show_statement(scope: TextScope, statement: ln.Statement) -> str:
    """Return the first line of a statement's pseudocode."""
    return _block(scope, (statement,))[0]


# -- statements -------------------------------------------------------------------------------------------------------


def _block(scope: TextScope, block: ln.Block) -> list[str]:
    lines: list[str] = []
    for statement in block:
        match statement:
            case ln.Declare(variable, initial, mark):
                first = _scalar(scope, initial).text
                name, scope = scope.bind(key(variable), variable.name)
                lines.append(f"{name} = {first}{_shown_mark(mark)}")
            case ln.Allocate(buffer, capacity, storage, zeroed, mark=mark):
                _, scope = scope.bind(key(buffer), buffer.name)
                whole = ln.elements(buffer.allocated_extents) == capacity
                circular = ", circular" if buffer.rows else ""
                extents = shown(scope, key(buffer), buffer.allocated_extents if whole or buffer.rows else (capacity,))
                text = f"{'zeros' if zeroed else 'alloc'} {extents}{circular}{_PLACES[storage]}"
                lines.append(f"{text}{_shown_mark(mark)}")
            case ln.Gather(buffer, row, kind):
                where = "" if row is None else f" {show_index(scope, row)}"
                lines.append(f"{_ENDS[kind]}{where} of {scope.name(key(buffer))}")
            case ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Clear() | ln.Free():
                lines += _statement(scope, statement)
            case _:
                assert_never(statement)
    return lines


def _statement(
    scope: TextScope, statement: ln.For | ln.If | ln.Assign | ln.Accumulate | ln.Clear | ln.Free
) -> list[str]:
    match statement:
        case ln.For() if is_merge(statement):
            return _merge(scope, statement)
        case ln.For(variable, low, high, body, mark):
            ends = f"{_end(scope, low)}..{_end(scope, high)}"
            name, inside = scope.bind(variable, variable.name)
            return [f"for {name} in {ends}:{_shown_mark(mark)}", *indented(_block(inside, body))]
        case ln.If(predicate, body):
            return [f"if {show_condition(scope, predicate)}:", *indented(_block(scope, body))]
        case ln.Assign(target, value):
            return [f"{_stored(scope, target)} = {_scalar(scope, value).text}"]
        case ln.Accumulate(target, op, value):
            into, by = _stored(scope, target), _scalar(scope, value).text
            return [f"{into} {INFIX[op]}= {by}" if op in INFIX else f"{into} = {op}({into}, {by})"]
        case ln.Clear(cell=ln.Cell() as cell):
            return [f"clear {_stored(scope, cell)}"]
        case ln.Clear(_, _, zeroed, row) if row is not None:
            return [f"{'clear' if zeroed else 'start'} {shown(scope, key(statement.buffer), (row,))}"]
        case ln.Clear(buffer, count, zeroed):
            name = scope.name(key(buffer))
            return [f"{'clear' if zeroed else 'invalidate'} {name}[0..{_end(scope, count)}]"]
        case ln.Free(buffer):
            return [f"free {scope.name(key(buffer))}"]
    assert_never(statement)


def _merge(scope: TextScope, loop: ln.For) -> list[str]:
    """Return the lines of a merge: its ranges and keys, and the body for equal keys."""
    merge = merge_at(loop)
    if isinstance(merge, NoMerge):
        return [f"invalid merge: {merge.summary}"]
    heads: list[str] = []
    for finger in merge.fingers:
        ends = f"{_end(scope, finger.loop.low)}..{_end(scope, finger.loop.high)}"
        name, scope = scope.bind(finger.variable, finger.variable.name)
        how = "" if finger.variable in scope.strict_keys else ", which may repeat"
        heads.append(f"{name} in {ends} by {show_key(scope, finger)}{how}")
    inner = _block(scope, merge.body)
    for condition in reversed(merge.conditions):
        inner = [f"if {show_condition(scope, condition)}:", *indented(inner)]
    return [f"merge {'; '.join(heads)}:", *indented(inner)]


def _shown_mark(mark: Mark) -> str:
    return f"  # {mark.value}" if mark.value else ""


def _end(scope: TextScope, index: Index) -> str:
    """Return a bound of a range a..b."""
    text = show_index(scope, index)
    return text if index.constant is not None or index.atom is not None else f"({text})"


# -- scalars ----------------------------------------------------------------------------------------------------------


def _stored(scope: TextScope, target: ln.Cell | ln.Scalar) -> str:
    if isinstance(target, ln.Scalar):
        return scope.name(key(target))
    return shown(scope, key(target.buffer), tuple(position for position, _ in target.pairs))


def _scalar(scope: TextScope, e: ln.ScalarExpr) -> Text:
    match e:
        case ln.Number(value, dtype):
            return Text(
                str(float(value) if dtype.startswith("float") else int(value)), PRIMARY if value >= 0 else UNARY
            )
        case ln.Load(source):
            return Text(_stored(scope, source))
        case ln.FromIndex(index):
            text = show_index(scope, index)
            return Text(text, PRIMARY if index.atom is not None else SUM)
        case ln.Apply("neg", (argument,)):
            return Text(f"-{_scalar(scope, argument).at(PRIMARY)}", UNARY)
        case ln.Apply(op, (left, right)) if op in _LEVELS:
            level = _LEVELS[op]
            return Text(f"{_scalar(scope, left).at(level)} {INFIX[op]} {_scalar(scope, right).at(level + 1)}", level)
        case ln.Apply(op, arguments):
            return Text(f"{op}({', '.join(_scalar(scope, argument).text for argument in arguments)})")
        case ln.Choose(predicate, left, right):
            then, otherwise = _scalar(scope, left).at(SUM), _scalar(scope, right).at(TERNARY)
            return Text(f"{then} if {show_condition(scope, predicate)} else {otherwise}", TERNARY)
        case ln.Convert(argument, dtype):
            return Text(f"{dtype}({_scalar(scope, argument).text})")
    assert_never(e)
