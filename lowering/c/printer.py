"""Loop nests as C11: one function for each, `int name(inputs, sizes, out)`, and for the parts of a long one its own.

The function returns 0, or `OUT_OF_MEMORY` when storage for a buffer could not be had; it has freed everything then, and
where it was a thread of a parallel loop that could not have it, the others have ended their work first. The arrays are
C-contiguous, of the shapes that the sizes give, and the output overlaps no input.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final, TypeAlias, assert_never

from atl.core.declared import AtLeast, Below, Rising, facts_of, is_truths
from atl.core.index import ONE, Array, Index
from atl.core.marks import LoopMark
from atl.core.predicate import TRUE, Predicate, negation
from atl.text.names import INFIX
from lowering.c.helpers import identifiers, preamble
from lowering.c.loops import directives, has_heap_buffers
from lowering.c.memory import Heap, allocated, asked_for, ending, on_heap, on_stack, opened, way_out
from lowering.c.names import Names
from lowering.c.parameters import parameters_of
from lowering.c.segments import bounds, with_ends
from lowering.c.streams import FENCE, has_streams, streamed
from lowering.c.text import PRODUCT, WIDTH, indented, wrapped
from lowering.c.values.index import count_text, predicate_text
from lowering.c.values.keys import fold_of_keys, with_keys
from lowering.c.values.scalars import C_TYPES, helper, scalar_text, storage_text
from lowering.c.values.vectors import declared, operation
from lowering.c.walks import merged, run_by_run
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Buffer,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Statement,
    checked_nest,
    elements,
    key,
    opposite,
    statements,
)
from lowering.nest.marked_loops.merges import is_merge
from lowering.nest.marked_loops.streams import stream_at
from lowering.nest.text_scope import TextScope, outermost, show_condition, show_index, shown
from lowering.nest.tiles import over_lanes
from lowering.origins.anchors import Located, locate_loops
from lowering.targets.support import check_nest

Lines: TypeAlias = list[str]

LONG: Final = 200
"""Functions of more lines than this, before long ones are wrapped, are printed in parts, where they can be."""


def print_c(nest: LoopNest) -> str:
    """The loop nest as a file of C11 with one function, and before it the headers and helpers that it uses.

    Names are the user's, changed where C reserves them. Index arithmetic is exact modulo 2^64, with `-fwrapv`, and
    quotients and remainders round as Python's do. That a size is at most 2^56 and that what is compared or divided fits
    into 64 bits, the caller of the C sees to; a `Kernel` does so in each call.

    Marked loops are printed as such: that they may run so was proved when the program was lowered. Raises
    `UnsupportedMark` for a mark that C does not carry out: of the nest, or of the program that it was lowered from.
    """
    return print_unit((checked_nest(nest),))


def print_c_located(nest: LoopNest) -> tuple[str, Located]:
    """The same text, and the lines of each loop whose origin is in the nest: its uid, the first line and the last."""
    return locate_loops(_unit((nest,), static=False))


def print_unit(nests: Sequence[LoopNest], *, static: bool = False) -> str:
    """Several loop nests as one file; `function_names` tells what their functions are called.

    Raises `UnsupportedMark`.
    """
    return locate_loops(_unit(nests, static=static))[0]


def _unit(nests: Sequence[LoopNest], *, static: bool) -> str:
    for nest in nests:
        check_nest(nest, "c")
    names = function_names(nests)
    functions = [_function(nest, name, static=static, others=names) for nest, name in zip(nests, names, strict=True)]
    code = "\n".join(functions)
    before = preamble(code)
    return f"{before}\n{code}" if before else code


def function_names(nests: Sequence[LoopNest]) -> tuple[str, ...]:
    """The names of the functions of a file with these loop nests, all different."""
    names = Names()
    made: list[str] = []
    for at, nest in enumerate(nests):
        name, names = names.bind(at, nest.name, of_function=True)
        made.append(name)
    return tuple(made)


# -- functions --------------------------------------------------------------------------------------------------------


def _function(nest: LoopNest, name: str, *, static: bool, others: Sequence[str]) -> str:
    scope = outermost(nest)
    body: Lines = []
    out = scope.name(key(nest.output))
    if not nest.complete:
        body.append(f"memset({out}, 0, {_bytes(scope, nest.output, elements(nest.output.extents))});")
    inside, heap, pointers = opened(scope, nest)
    parameters = parameters_of(nest, scope, restrict=True)
    parts = _parts(inside, heap, nest)
    functions = _functions_of(parts, name, parameters, others) if len(parts) > 1 else []
    body += [call for _, call in functions] or [line for part in parts for line in part]
    used = identifiers("\n".join(body))
    body[:0] = [f"(void){parameter};" for parameter, _ in parameters if parameter not in used]
    head = f"{'static ' if static else ''}int {name}({', '.join(text for _, text in parameters)})"
    lines = [
        *(line for part, _ in functions for line in part),
        *_comment(nest, name, scope),
        *wrapped(head),
        "{",
        *indented([*pointers, *body, *([FENCE] if has_streams(nest.body) else []), "return 0;"]),
        *ending(inside, heap),
        "}",
    ]
    return "\n".join(part for line in lines for part in wrapped(line)) + "\n"


def _parts(scope: TextScope, heap: Heap, nest: LoopNest) -> list[Lines]:
    """The statements of a nest; of a long one without storage on the heap, each loop or branch at the top by itself.

    Of several functions gcc makes code in two thirds of the time that it takes for one of their length.
    """
    plain = all(isinstance(each, For | If) for each in nest.body) and not any(map(on_heap, statements(nest.body)))
    parts: list[Block] = []
    for at, statement in enumerate(nest.body):
        if plain and not (at and opposite(nest.body[at - 1], statement)):
            parts.append((statement,))
        else:
            parts[-1:] = [(*(parts[-1] if parts else ()), statement)]  # together with what stands before it
    printed = [_block(scope, heap, part) for part in parts]
    return printed if sum(map(len, printed)) > LONG else [[line for lines in printed for line in lines]]


def _functions_of(
    parts: Sequence[Lines], name: str, parameters: Sequence[tuple[str, str]], others: Iterable[str]
) -> list[tuple[Lines, str]]:
    """A function for each part, which takes what the part speaks of, and its call; none is called as the others are."""
    made: list[tuple[Lines, str]] = []
    taken = {*others, *(each for each, _ in parameters)}
    for number, lines in enumerate(parts, 1):
        called = f"{name}_part{number}"
        while called in taken:
            called += "_"
        spoken_of = identifiers("\n".join(lines))
        own = [parameter for parameter in parameters if parameter[0] in spoken_of]
        # Else gcc may make one function of them again.
        head = f"static __attribute__((noinline)) void {called}({', '.join(text for _, text in own) or 'void'})"
        function = [*wrapped(head), "{", *indented(lines), "}", ""]
        made.append((function, f"{called}({', '.join(each for each, _ in own)});"))
    return made


def _comment(nest: LoopNest, name: str, scope: TextScope) -> Lines:
    """What the function computes from what, and what must hold of its arguments."""
    facts = [*assumed(nest, scope), *(fact for array in nest.inputs for fact in facts_text(scope, array))]
    inputs = [shown(scope, array.name, array.shape) for array in nest.inputs]
    text = f"{name}: {shown(scope, key(nest.output), nest.output.extents)}"
    text += (f" from {', '.join(inputs)}" if inputs else "") + (f", where {', '.join(facts)}" if facts else "")
    return textwrap.wrap(f"/* {text}. */", WIDTH, subsequent_indent="   ", break_long_words=False)


def assumed(nest: LoopNest, scope: TextScope) -> list[str]:
    """What must hold of the sizes, as text."""
    return [show_condition(scope, assumption) for assumption in nest.assumptions if assumption != TRUE]


def facts_text(scope: TextScope, array: Array) -> list[str]:
    """What must hold of the elements of an input, as text."""
    name = scope.name(array.name)
    element = f"{name}[...]" if array.shape else name
    facts: list[str] = []
    for fact in () if is_truths(array) else facts_of(array):
        match fact:
            case AtLeast(bound):
                facts.append(f"{show_index(scope, bound)} <= {element}")
            case Below(bound) if facts:
                facts[-1] += f" < {show_index(scope, bound)}"
            case Below(bound):
                facts.append(f"{element} < {show_index(scope, bound)}")
            case Rising(strict, between):
                where = "along its last dimension"
                if between is not None:
                    where = f"from each element of {scope.name(between.name)} up to the next one"
                facts.append(f"{name} {'increases strictly' if strict else 'never falls'} {where}")
            case _:
                assert_never(fact)
    return facts


# -- statements -------------------------------------------------------------------------------------------------------


def _block(scope: TextScope, heap: Heap, block: Block) -> Lines:
    """The statements in order. What a declaration adds to the names in sight lasts to the end of the block."""
    lines: Lines = []
    at = 0
    while at < len(block):
        statement = block[at]
        at += 1
        match statement:
            case Allocate(storage="heap"):
                more = takewhile(on_heap, block[at:])
                group = [statement, *(s for s in more if isinstance(s, Allocate))]
                at += len(group) - 1
                if heap.failed:
                    scope, heap, asked, failed = asked_for(scope, heap, group)
                    rest = _block(scope, heap, block[at:])
                    return [*lines, *asked, *failed[:-1], "} else {", *indented(rest), "}"]
                scope, heap, new = allocated(scope, heap, group)
            case Allocate(storage="registers"):
                scope, new = declared(scope, statement, block[at:])
            case Allocate():
                scope, new = on_stack(scope, statement)
            case Declare(variable, initial):
                first = scalar_text(scope, initial).text
                name, scope = scope.bind(key(variable), variable.name)
                new = [f"{C_TYPES[variable.dtype]} {name} = {first};"]
            case Free(buffer):
                new = [f"free({scope.name(key(buffer))});"] if buffer in heap else []
                heap = heap.without(buffer)
            case If(predicate, body) if at < len(block) and opposite(statement, block[at]):
                new = _branches(scope, heap, predicate, body, block[at])
                at += 1
            case For(variable, mark=LoopMark.PARALLEL) if has_heap_buffers(statement):
                # A thread does not return: it goes on without, and the function returns when all are done.
                flag, scope = scope.bind(("failed", variable), "failed")
                running = _loop(scope, Heap({}, frozenset(), failed=flag), statement, f"reduction(|: {flag})")
                new = [f"int {flag} = 0;", *running, f"if ({flag}) {{", *indented(way_out(scope, heap)), "}"]
            case For() | If() | Assign() | Accumulate() | Clear():
                new = _statement(scope, heap, statement)
            case _:
                assert_never(statement)
        lines += new
    return lines


def _loop(scope: TextScope, heap: Heap, loop: For, *clauses: str) -> Lines:
    ends, first, last = bounds(scope, loop)
    inside, before, after = with_keys(scope, loop)
    name, inside = inside.bind(loop.variable, loop.variable.name)
    inside, kept = with_ends(inside.under(loop.range), loop, last)
    lines = _block(inside, heap, loop.body)
    if loop.mark is LoopMark.PARALLEL and has_streams(loop.body):
        lines.append(FENCE)  # of this thread
    head = f"for (int64_t {name} = {first}{kept}; {name} < {last}; {name}++)"
    looped = scope.of_loop(loop.variable, [*directives(inside, loop, *clauses), *_braced(head, lines)])
    return [*ends, *before, *looped, *after] if lines else []


def _statement(scope: TextScope, heap: Heap, statement: For | If | Assign | Accumulate | Clear) -> Lines:
    match statement:
        case For() if over_lanes(statement, scope.tiles):
            return scope.of_loop(statement.variable, [operation(scope, statement)])
        case For() if is_merge(statement):
            lines = merged(scope, statement, lambda inside, body: _block(inside, heap, body))
            return scope.of_loop(statement.variable, lines)
        case For() if (stream := stream_at(statement)) is not None:
            lines = streamed(scope, stream, lambda inside, body: _block(inside, heap, body))
            return scope.of_loop(statement.variable, lines)
        case For(mark=LoopMark.RUNS):
            lines = run_by_run(scope, statement, lambda inside, body: _block(inside, heap, body))
            return scope.of_loop(statement.variable, lines)
        case For():
            return _loop(scope, heap, statement)
        case If(predicate, body):
            return _branches(scope, heap, predicate, body, None)
        case Assign(target, value):
            return [f"{storage_text(scope, target).text} = {scalar_text(scope, value).text};"]
        case Accumulate(target, op, value):
            into, by = storage_text(scope, target).text, scalar_text(scope, value).text
            match op:
                case "add" | "sub" | "mul" | "div":
                    return [f"{into} {INFIX[op]}= {by};"]
                case "min" | "max":
                    return [fold_of_keys(scope, statement, by) or f"{into} = {helper(op, value.dtype)}({into}, {by});"]
            assert_never(op)
        case Clear(buffer, count, zeroed):
            # Else every cell is stored before it is read.
            if not zeroed:
                return []
            begun = statement.row_start
            first = scope.name(key(buffer)) if begun is None else f"&{storage_text(scope, begun).text}"
            return [f"memset({first}, 0, {_bytes(scope, buffer, count)});"]
    assert_never(statement)


def _braced(head: str, lines: Lines) -> Lines:
    """A statement with its block; nothing, where the block is empty."""
    return [f"{head} {{", *indented(lines), "}"] if lines else []


def _branches(scope: TextScope, heap: Heap, predicate: Predicate, body: Block, other: Statement | None) -> Lines:
    """An `if`, with an `else` where the next statement is one with the opposite condition; or a block."""
    lines = _block(scope.under(predicate), heap, body)
    if predicate == TRUE:
        return ["{", *indented(lines), "}"]
    opposite = negation(predicate)
    rest = _block(scope.under(opposite), heap, other.body) if isinstance(other, If) else []
    if not lines:
        return _braced(f"if ({predicate_text(scope, opposite).text})", rest)
    then = _braced(f"if ({predicate_text(scope, predicate).text})", lines)
    if isinstance(other, If) and rest and _is_one_test(other.body):
        return [*then[:-1], f"}} else {rest[0]}", *rest[1:]]
    return [*then[:-1], "} else {", *indented(rest), "}"] if rest else then


def _is_one_test(block: Block) -> bool:
    """Whether the block is an `if`, with or without its `else`."""
    first = block[0]
    if not isinstance(first, If) or first.predicate == TRUE:
        return False
    return len(block) == 1 or (len(block) == 2 and opposite(first, block[1]))


def _bytes(scope: TextScope, buffer: Buffer, count: Index) -> str:
    """The size of the first elements of a buffer that is there, so that nothing overflows."""
    size = f"sizeof *{scope.name(key(buffer))}"
    return size if count == ONE else f"{count_text(scope, count, buffer.extents).at(PRODUCT)} * {size}"
