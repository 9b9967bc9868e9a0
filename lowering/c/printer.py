"""Loop nests as C11: one function `int name(inputs, sizes, out)` for each; a long one is split into several functions.

The function returns 0, or `OUT_OF_MEMORY` if a buffer cannot be allocated. In that case it has freed all buffers, and
if the allocation failed in a parallel loop, the other threads have finished their work. Arrays are C-contiguous, with
shapes determined by the sizes, and the output overlaps no input.
"""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Iterable, Sequence
from itertools import takewhile
from typing import Final, TypeAlias, assert_never

from atl.core.index import ONE, Array, Index, Size
from atl.core.marks import LoopMark
from atl.core.predicate import TRUE, Predicate, negation
from atl.core.program import AtLeast, Below, Monotonic, facts_of, is_bool_array
from atl.text.index_notation import INFIX
from lowering.c.helpers import identifiers, preamble
from lowering.c.index import count_text, predicate_text
from lowering.c.loops import (
    FENCE,
    directives,
    has_heap_buffers,
    has_streams,
    loop_bounds,
    print_merge,
    print_runs,
    print_stream,
    with_segment_ends,
)
from lowering.c.memory import (
    Heap,
    allocate,
    allocate_checked,
    declare_on_stack,
    error_exits,
    failure,
    initial_heap,
    is_on_heap,
)
from lowering.c.scalars import (
    C_TYPES,
    declare_tile,
    fold_of_keys,
    helper,
    scalar_text,
    storage_text,
    vector_statement,
    with_keys,
)
from lowering.c.text import PRODUCT, WIDTH, Located, Names, indented, locate_loops, wrapped
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
from lowering.nest.marked_loops import is_merge, stream_at
from lowering.nest.text import TextScope, outermost, show_condition, show_index, shown
from lowering.nest.tiles import over_lanes
from lowering.targets.legality import check_nest

# -- parameters -------------------------------------------------------------------------------------------------------


def declaration(nest: LoopNest, name: str) -> str:
    """Return the function's declaration for cffi."""
    return f"int {name}({', '.join(kind for _, kind in _types(nest))});"


def parameters_of(nest: LoopNest, scope: TextScope, *, restrict: bool = False) -> list[tuple[str, str]]:
    """Return each parameter's name and declaration, with `restrict` pointers if requested."""
    out: list[tuple[str, str]] = []
    for of, kind in _types(nest):
        name = scope.name(of)
        between = " " if not kind.endswith("*") else "restrict " if restrict else ""
        out.append((name, f"{kind}{between}{name}"))
    return out


def _types(nest: LoopNest) -> list[tuple[Hashable, str]]:
    """Return each parameter's key in a scope, and its type."""
    return [
        *((a.name, f"const {C_TYPES[a.dtype]} *" if a.shape else C_TYPES[a.dtype]) for a in nest.inputs),
        *((Size(size), "int64_t") for size in nest.sizes),
        (key(nest.output), f"{C_TYPES[nest.output.dtype]} *"),
    ]


# -- files ------------------------------------------------------------------------------------------------------------


Lines: TypeAlias = list[str]

MAX_LINES: Final = 200
"""Functions with more lines, before long lines are wrapped, are split if possible."""


def print_c(nest: LoopNest) -> str:
    """Print a loop nest as a file of C11 with one function, and the headers and helpers that it uses.

    Names are the user's, changed where C reserves them. Index arithmetic is exact modulo 2^64, with `-fwrapv`, and
    quotients and remainders round as in Python. The caller must ensure that sizes are at most 2^56, and that values
    that are compared or divided fit into 64 bits; a `Kernel` does so in each call.

    Loop marks become directives; their legality was proved when the program was lowered. Raises `UnsupportedMark` for a
    mark of the nest or its program that C does not support.
    """
    return print_unit((checked_nest(nest),))


def print_c_located(nest: LoopNest) -> tuple[str, Located]:
    """Print the nest; return the text, and the first and last line of each loop with an origin, by `uid`."""
    return locate_loops(_unit((nest,), static=False))


def print_unit(nests: Sequence[LoopNest], *, static: bool = False) -> str:
    """Print several loop nests as one file; `function_names` returns the names of their functions.

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
    """Return distinct names for the functions of a file with these loop nests."""
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
    inside, heap, pointers = initial_heap(scope, nest)
    parameters = parameters_of(nest, scope, restrict=True)
    parts = _parts(inside, heap, nest)
    functions = _part_functions(parts, name, parameters, others) if len(parts) > 1 else []
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
        *error_exits(inside, heap),
        "}",
    ]
    return "\n".join(part for line in lines for part in wrapped(line)) + "\n"


def _parts(scope: TextScope, heap: Heap, nest: LoopNest) -> list[Lines]:
    """Print the statements of a nest, in one part for each loop or branch if the nest is long and uses no heap.

    gcc compiles several functions in two thirds of the time of one function of the same length.
    """
    plain = all(isinstance(each, For | If) for each in nest.body) and not any(map(is_on_heap, statements(nest.body)))
    parts: list[Block] = []
    for at, statement in enumerate(nest.body):
        if plain and not (at and opposite(nest.body[at - 1], statement)):
            parts.append((statement,))
        else:
            parts[-1:] = [(*(parts[-1] if parts else ()), statement)]  # joined to the previous statement
    printed = [_block(scope, heap, part) for part in parts]
    return printed if sum(map(len, printed)) > MAX_LINES else [[line for lines in printed for line in lines]]


def _part_functions(
    parts: Sequence[Lines], name: str, parameters: Sequence[tuple[str, str]], others: Iterable[str]
) -> list[tuple[Lines, str]]:
    """Return a function and its call for each part, with those parameters that the part uses."""
    made: list[tuple[Lines, str]] = []
    taken = {*others, *(each for each, _ in parameters)}
    for number, lines in enumerate(parts, 1):
        called = f"{name}_part{number}"
        while called in taken:
            called += "_"
        used = identifiers("\n".join(lines))
        own = [parameter for parameter in parameters if parameter[0] in used]
        # Otherwise gcc may inline all of them into one function again.
        head = f"static __attribute__((noinline)) void {called}({', '.join(text for _, text in own) or 'void'})"
        function = [*wrapped(head), "{", *indented(lines), "}", ""]
        made.append((function, f"{called}({', '.join(each for each, _ in own)});"))
    return made


def _comment(nest: LoopNest, name: str, scope: TextScope) -> Lines:
    """Return a comment with the function's inputs and output, and the preconditions on its arguments."""
    facts = [*assumed(nest, scope), *(fact for array in nest.inputs for fact in facts_text(scope, array))]
    inputs = [shown(scope, array.name, array.shape) for array in nest.inputs]
    text = f"{name}: {shown(scope, key(nest.output), nest.output.extents)}"
    text += (f" from {', '.join(inputs)}" if inputs else "") + (f", where {', '.join(facts)}" if facts else "")
    return textwrap.wrap(f"/* {text}. */", WIDTH, subsequent_indent="   ", break_long_words=False)


def assumed(nest: LoopNest, scope: TextScope) -> list[str]:
    """Return the preconditions on sizes, as text."""
    return [show_condition(scope, assumption) for assumption in nest.assumptions if assumption != TRUE]


def facts_text(scope: TextScope, array: Array) -> list[str]:
    """Return the preconditions on the elements of an input, as text."""
    name = scope.name(array.name)
    element = f"{name}[...]" if array.shape else name
    facts: list[str] = []
    for fact in () if is_bool_array(array) else facts_of(array):
        match fact:
            case AtLeast(bound):
                facts.append(f"{show_index(scope, bound)} <= {element}")
            case Below(bound) if facts:
                facts[-1] += f" < {show_index(scope, bound)}"
            case Below(bound):
                facts.append(f"{element} < {show_index(scope, bound)}")
            case Monotonic(strict, between):
                where = "along its last dimension"
                if between is not None:
                    where = f"from each element of {scope.name(between.name)} up to the next one"
                facts.append(f"{name} {'increases strictly' if strict else 'never falls'} {where}")
            case _:
                assert_never(fact)
    return facts


# -- statements -------------------------------------------------------------------------------------------------------


def _block(scope: TextScope, heap: Heap, block: Block) -> Lines:
    """Print the statements of a block; names that a declaration adds are in scope to the end of the block."""
    lines: Lines = []
    at = 0
    while at < len(block):
        statement = block[at]
        at += 1
        match statement:
            case Allocate(storage="heap"):
                more = takewhile(is_on_heap, block[at:])
                group = [statement, *(s for s in more if isinstance(s, Allocate))]
                at += len(group) - 1
                if heap.failed:
                    scope, heap, asked, failed = allocate_checked(scope, heap, group)
                    rest = _block(scope, heap, block[at:])
                    return [*lines, *asked, *failed[:-1], "} else {", *indented(rest), "}"]
                scope, heap, new = allocate(scope, heap, group)
            case Allocate(storage="registers"):
                scope, new = declare_tile(scope, statement, block[at:])
            case Allocate():
                scope, new = declare_on_stack(scope, statement)
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
                # A thread cannot return. It skips its work, and the function returns when all threads are done.
                flag, scope = scope.bind(("failed", variable), "failed")
                running = _loop(scope, Heap({}, frozenset(), failed=flag), statement, f"reduction(|: {flag})")
                new = [f"int {flag} = 0;", *running, f"if ({flag}) {{", *indented(failure(scope, heap)), "}"]
            case For() | If() | Assign() | Accumulate() | Clear():
                new = _statement(scope, heap, statement)
            case _:
                assert_never(statement)
        lines += new
    return lines


def _loop(scope: TextScope, heap: Heap, loop: For, *clauses: str) -> Lines:
    ends, first, last = loop_bounds(scope, loop)
    inside, before, after = with_keys(scope, loop)
    name, inside = inside.bind(loop.variable, loop.variable.name)
    inside, kept = with_segment_ends(inside.under(loop.range), loop, last)
    lines = _block(inside, heap, loop.body)
    if loop.mark is LoopMark.PARALLEL and has_streams(loop.body):
        lines.append(FENCE)  # for the stores of this thread
    head = f"for (int64_t {name} = {first}{kept}; {name} < {last}; {name}++)"
    looped = scope.of_loop(loop.variable, [*directives(inside, loop, *clauses), *_braced(head, lines)])
    return [*ends, *before, *looped, *after] if lines else []


def _statement(scope: TextScope, heap: Heap, statement: For | If | Assign | Accumulate | Clear) -> Lines:
    match statement:
        case For() if over_lanes(statement, scope.tiles):
            return scope.of_loop(statement.variable, [vector_statement(scope, statement)])
        case For() if is_merge(statement):
            lines = print_merge(scope, statement, lambda inside, body: _block(inside, heap, body))
            return scope.of_loop(statement.variable, lines)
        case For() if (stream := stream_at(statement)) is not None:
            lines = print_stream(scope, stream, lambda inside, body: _block(inside, heap, body))
            return scope.of_loop(statement.variable, lines)
        case For(mark=LoopMark.RUNS):
            lines = print_runs(scope, statement, lambda inside, body: _block(inside, heap, body))
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
            # Without zeroing, every cell is stored before it is read.
            if not zeroed:
                return []
            begun = statement.row_start
            first = scope.name(key(buffer)) if begun is None else f"&{storage_text(scope, begun).text}"
            return [f"memset({first}, 0, {_bytes(scope, buffer, count)});"]
    assert_never(statement)


def _braced(head: str, lines: Lines) -> Lines:
    """Return a statement with its block, or nothing if the block is empty."""
    return [f"{head} {{", *indented(lines), "}"] if lines else []


def _branches(scope: TextScope, heap: Heap, predicate: Predicate, body: Block, other: Statement | None) -> Lines:
    """Print an `if`, with an `else` if the next statement has the opposite condition; a plain block for TRUE."""
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
    """Return whether the block is a single `if`, with or without `else`."""
    first = block[0]
    if not isinstance(first, If) or first.predicate == TRUE:
        return False
    return len(block) == 1 or (len(block) == 2 and opposite(first, block[1]))


def _bytes(scope: TextScope, buffer: Buffer, count: Index) -> str:
    """Return the size in bytes of the first elements of an allocated buffer, which cannot overflow."""
    size = f"sizeof *{scope.name(key(buffer))}"
    return size if count == ONE else f"{count_text(scope, count, buffer.extents).at(PRODUCT)} * {size}"
