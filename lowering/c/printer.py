"""Loop nests as C11: one function `int name(inputs, sizes, out)` for each; a long one is split into several functions.

The function returns 0, or `OUT_OF_MEMORY` if a buffer cannot be allocated. In that case it has freed all buffers, and
if the allocation failed in a parallel loop, the other threads have finished their work. Arrays are C-contiguous, with
shapes determined by the sizes, unless they have strides, and the output overlaps no input. The caller clears an output
with strides, unless the nest stores every element of it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Iterable, Sequence
from itertools import takewhile
from typing import Final, TypeAlias, assert_never

from atl.core.index import ONE, Array, Index, Size
from atl.core.marks import LoopMark
from atl.core.operations import INFIX
from atl.core.predicate import TRUE, Predicate, negation
from atl.core.program import AtLeast, Below, Lexicographic, Monotonic, facts_of, is_bool_array
from lowering.c import assembly, loops, memory, scalars
from lowering.c.helpers import identifiers, preamble
from lowering.c.index import count_text, predicate_text
from lowering.c.text import PRODUCT, WIDTH, Located, Names, Text, indented, locate_loops, wrapped
from lowering.nest import loopnest as ln
from lowering.nest.loopnest import opposite
from lowering.nest.marked_loops import is_merge, stream_at
from lowering.nest.text import TextScope, called_functions, outermost, show_condition, show_index, shown
from lowering.nest.tiles import over_lanes
from lowering.targets.legality import check_nest

# -- parameters -------------------------------------------------------------------------------------------------------


def declaration(nest: ln.LoopNest, name: str) -> str:
    """Return the function's declaration for cffi."""
    return f"int {name}({', '.join(kind for _, kind in _types(nest))});"


def parameters_of(nest: ln.LoopNest, scope: TextScope, *, restrict: bool = False) -> list[tuple[str, str]]:
    """Return each parameter's name and declaration, with `restrict` pointers if requested."""
    out: list[tuple[str, str]] = []
    for of, kind in _types(nest):
        name = scope.name(of)
        between = " " if not kind.endswith("*") else "restrict " if restrict else ""
        out.append((name, f"{kind}{between}{name}"))
    return out


def _types(nest: ln.LoopNest) -> list[tuple[Hashable, str]]:
    """Return each parameter's key in a scope, and its type."""
    return [
        *(
            (a.name, f"const {scalars.C_TYPES[a.dtype]} *" if a.shape else scalars.C_TYPES[a.dtype])
            for a in nest.inputs
        ),
        *((Size(size), "int64_t") for size in nest.sizes),
        *((stride, "int64_t") for stride in nest.strides),
        *((ln.key(buffer), f"{scalars.C_TYPES[buffer.dtype]} *") for buffer in nest.outputs),
        *(
            (("assembly", role), kind)
            for role, kind in ([] if nest.assembly is None else assembly.parameter_types(nest))
        ),
    ]


# -- files ------------------------------------------------------------------------------------------------------------


Lines: TypeAlias = list[str]

MAX_LINES: Final = 200
"""Functions with more lines, before long lines are wrapped, are split if possible."""


def print_c(nest: ln.LoopNest) -> str:
    """Print a loop nest as a file of C11 with one function, and the headers and helpers that it uses.

    Names are the user's, changed where C reserves them. Index arithmetic is exact modulo 2^64, with `-fwrapv`, and
    quotients and remainders round as in Python. The caller must ensure that sizes are at most 2^56, and that values
    that are compared or divided fit into 64 bits; a `Kernel` does so in each call.

    Loop marks become directives; their legality was proved when the program was lowered. Raises `UnsupportedMark` for a
    mark of the nest or its program that C does not support.
    """
    return print_unit((ln.checked_nest(nest),))


def print_c_located(nest: ln.LoopNest) -> tuple[str, Located]:
    """Print the nest; return the text, and the first and last line of each loop with an origin, by `uid`."""
    return locate_loops(_unit((nest,), static=False))


def print_unit(nests: Sequence[ln.LoopNest], *, static: bool = False) -> str:
    """Print several loop nests as one file; `function_names` returns the names of their functions.

    Raises `UnsupportedMark`.
    """
    return locate_loops(_unit(nests, static=static))[0]


def _unit(nests: Sequence[ln.LoopNest], *, static: bool) -> str:
    for nest in nests:
        check_nest(nest, "c")
    names = function_names(nests)
    others = (*names, *called_functions(*nests))
    functions = [_function(nest, name, static=static, others=others) for nest, name in zip(nests, names, strict=True)]
    code = "\n".join(functions)
    before = preamble(code, _definitions(nests))
    return f"{before}\n{code}" if before else code


def _definitions(nests: Sequence[ln.LoopNest]) -> list[str]:
    """Return the definitions of the instructions that the nests call."""
    statements = (statement for nest in nests for statement in ln.statements(nest.body))
    calls = [s.call for s in statements if isinstance(s, ln.For) and s.call is not None]
    return list(dict.fromkeys(map(_definition, calls)))


def _definition(call: ln.InstructionCall) -> str:
    """Return the definition of a called function. If it needs a library, it is compiled only where that is linked."""
    if not call.libraries:
        return call.definition
    return f"#if {scalars.has(call)}\n{call.definition.rstrip()}\n#endif\n"


def function_names(nests: Sequence[ln.LoopNest]) -> tuple[str, ...]:
    """Return distinct names for the functions of a file with these loop nests."""
    names = Names(taken=called_functions(*nests))
    made: list[str] = []
    for at, nest in enumerate(nests):
        name, names = names.bind(at, nest.name, of_function=True)
        made.append(name)
    return tuple(made)


# -- functions --------------------------------------------------------------------------------------------------------


def _function(nest: ln.LoopNest, name: str, *, static: bool, others: Sequence[str]) -> str:
    nest = loops.with_aligned_stores(memory.without_external_copies(nest))
    scope = memory.with_external_names(outermost(nest))
    body: Lines = []
    if not nest.complete and nest.assembly is None and nest.output.strides is None:
        body += [
            f"memset({scope.name(ln.key(each))}, 0, {_bytes(scope, each, ln.elements(each.extents))});"
            for each in nest.outputs
        ]
    inside, heap, pointers = memory.initial_heap(scope, nest)
    parameters = parameters_of(nest, scope, restrict=True)
    if nest.assembly is None:
        parts = _parts(inside, heap, nest)
    else:
        parts = [assembly.print_function(inside, nest, lambda scope: _block(scope, heap, nest.body))]
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
        *indented([*pointers, *body, *([loops.FENCE] if loops.has_streams(nest.body) else []), "return 0;"]),
        *memory.error_exits(inside, heap),
        "}",
    ]
    return "\n".join(part for line in lines for part in wrapped(line)) + "\n"


def _parts(scope: TextScope, heap: memory.Heap, nest: ln.LoopNest) -> list[Lines]:
    """Print the statements of a nest, in one part for each loop or branch if the nest is long and uses no heap.

    gcc compiles several functions in two thirds of the time of one function of the same length.
    """
    plain = all(isinstance(each, ln.For | ln.If) for each in nest.body) and not any(
        map(memory.is_on_heap, ln.statements(nest.body))
    )
    parts: list[ln.Block] = []
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


def _comment(nest: ln.LoopNest, name: str, scope: TextScope) -> Lines:
    """Return a comment with the function's inputs and output, and the preconditions on its arguments."""
    facts = [*assumed(nest, scope), *(fact for array in nest.inputs for fact in facts_text(scope, array))]
    inputs = [shown(scope, array.name, array.shape) for array in nest.inputs]
    text = f"{name}: {', '.join(shown(scope, ln.key(each), each.extents) for each in nest.outputs)}"
    text += f" as {nest.assembly.format}" if nest.assembly else ""
    text += (f" from {', '.join(inputs)}" if inputs else "") + (f", where {', '.join(facts)}" if facts else "")
    text = ". ".join((text, *(str(storage).replace("*/", "* /") for storage in nest.row_storage)))
    return textwrap.wrap(f"/* {text}. */", WIDTH, subsequent_indent="   ", break_long_words=False)


def assumed(nest: ln.LoopNest, scope: TextScope) -> list[str]:
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
            case Lexicographic(strict, leading):
                tuples = ", ".join(f"{scope.name(each.name)}[p]" for each in (*leading, array))
                facts.append(f"({tuples}) {'increases strictly' if strict else 'never falls'} in p, lexicographically")
            case _:
                assert_never(fact)
    return facts


# -- statements -------------------------------------------------------------------------------------------------------


def _block(scope: TextScope, heap: memory.Heap, block: ln.Block) -> Lines:
    """Print the statements of a block; names that a declaration adds are in scope to the end of the block."""
    lines: Lines = []
    at = 0
    while at < len(block):
        statement = block[at]
        at += 1
        match statement:
            case ln.Allocate(storage="heap"):
                more = takewhile(memory.is_on_heap, block[at:])
                group = [statement, *(s for s in more if isinstance(s, ln.Allocate))]
                at += len(group) - 1
                if heap.failed:
                    scope, heap, asked, failed = memory.allocate_checked(scope, heap, group)
                    rest = _block(scope, heap, block[at:])
                    return [*lines, *asked, *failed[:-1], "} else {", *indented(rest), "}"]
                scope, heap, new = memory.allocate(scope, heap, group)
            case ln.Allocate(storage="registers"):
                scope, new = scalars.declare_tile(scope, statement, block[at:])
            case ln.Allocate():
                scope, new = memory.declare_on_stack(scope, statement)
            case ln.Declare(variable, initial):
                first = scalars.scalar_text(scope, initial).text
                name, scope = scope.bind(ln.key(variable), variable.name)
                new = [f"{scalars.C_TYPES[variable.dtype]} {name} = {first};"]
            case ln.Free(buffer):
                new = [f"free({scope.name(ln.key(buffer))});"] if buffer in heap else []
                heap = heap.without(buffer)
            case ln.If(predicate, body) if at < len(block) and opposite(statement, block[at]):
                new = _branches(scope, heap, predicate, body, block[at])
                at += 1
            case ln.For(variable, mark=LoopMark.PARALLEL) if loops.has_heap_buffers(statement):
                # A thread cannot return. It skips its work, and the function returns when all threads are done.
                flag, scope = scope.bind(("failed", variable), "failed")
                running = _loop(scope, memory.Heap({}, frozenset(), failed=flag), statement, f"reduction(|: {flag})")
                new = [f"int {flag} = 0;", *running, f"if ({flag}) {{", *indented(memory.failure(scope, heap)), "}"]
                scope = scalars.after_keys(scope, statement)
            case ln.Clear():
                new = _statement(scope, heap, statement)
                scope, pointers = memory.pointers_to_rows(scope, statement, block[at:])
                new += pointers
            case ln.For() if (both := assembly.merged_loops(scope, block[at - 1 : at + 1])) is not None:
                new = assembly.union(scope, *both)
                at += 1
            case ln.For():
                new = _statement(scope, heap, statement)
                scope = scalars.after_keys(scope, statement)
            case ln.Gather():
                new = assembly.gather(scope, statement)
            case ln.If() | ln.Assign() | ln.Accumulate():
                new = _statement(scope, heap, statement)
            case _:
                assert_never(statement)
        lines += new
    return lines


def _loop(scope: TextScope, heap: memory.Heap, loop: ln.For, *clauses: str) -> Lines:
    ends, first, last = loops.loop_bounds(scope, loop)
    skipping, first, begin_row = assembly.row_loop(scope, loop, first, last)
    inside, before, after = scalars.with_keys(scope, loop)
    name, inside = inside.bind(loop.variable, loop.variable.name)
    inside, kept = loops.with_segment_ends(inside.under(loop.range), loop, last)
    lines = [*begin_row(inside), *_block(inside, heap, loop.body)]
    if loop.mark is LoopMark.PARALLEL and loops.has_streams(loop.body):
        lines.append(loops.FENCE)  # for the stores of this thread

    def between(first: str, last: str) -> Lines:
        head = f"for (int64_t {name} = {first}{kept}; {name} < {last}; {name}++)"
        braced = _braced(head, [*loops.vectorisation_barrier(loop, inside.tiles), *lines] if lines else [])
        return [*loops.directives(inside, loop, *clauses), *braced]

    printed = loops.print_aligned(scope, loop, name, between) if loop.aligned else between(first, last)
    looped = scope.of_loop(loop.variable, printed)
    if skipping:
        looped = ["{", *indented([*skipping, *looped]), "}"]
    return [*ends, *before, *looped, *after] if lines else []


def _statement(
    scope: TextScope, heap: memory.Heap, statement: ln.For | ln.If | ln.Assign | ln.Accumulate | ln.Clear
) -> Lines:
    match statement:
        case ln.For() if over_lanes(statement, scope.tiles):
            return scope.of_loop(statement.variable, [scalars.vector_statement(scope, statement)])
        case ln.For() if is_merge(statement):
            lines = loops.print_merge(scope, statement, lambda inside, body: _block(inside, heap, body))
            return scope.of_loop(statement.variable, lines)
        case ln.For() if (stream := stream_at(statement)) is not None:
            lines = loops.print_stream(scope, stream, lambda inside, body: _block(inside, heap, body))
            return scope.of_loop(statement.variable, lines)
        case ln.For(mark=LoopMark.RUNS):
            lines = loops.print_runs(scope, statement, lambda inside, body: _block(inside, heap, body))
            return scope.of_loop(statement.variable, lines)
        case ln.For(call=ln.InstructionCall() as call):
            plain = _loop(scope, heap, statement)
            called = scalars.call_text(scope, call)
            if condition := scalars.call_condition(scope, call):
                test = [f"if ({condition}) {{", *indented([called])]
                if (has := scalars.has(call)) == "1":
                    return [*test, "} else {", *indented(plain), "}"]
                return [f"#if {has}", *test, "} else", "#endif", "{", *indented(plain), "}"]
            return [f"#if {scalars.has(call)}", called, "#else", *plain, "#endif"]
        case ln.For():
            return assembly.coalesced_count(scope, statement, _loop(scope, heap, statement))
        case ln.If(predicate, body):
            return _branches(scope, heap, predicate, body, None)
        case ln.Assign() | ln.Accumulate() if (stored := assembly.store(scope, statement)) is not None:
            return stored
        case ln.Assign(target, value):
            return [f"{scalars.storage_text(scope, target).text} = {scalars.scalar_text(scope, value).text};"]
        case ln.Accumulate(target, op, value):
            into, by = scalars.storage_text(scope, target).text, scalars.scalar_text(scope, value).text
            match op:
                case "add" | "sub" | "mul" | "div":
                    return [f"{into} {INFIX[op]}= {by};"]
                case "min" | "max":
                    combined = scalars.applied(op, [Text(into), scalars.scalar_text(scope, value)], value.dtype).text
                    return [scalars.fold_of_keys(scope, statement, by) or f"{into} = {combined};"]
            assert_never(op)
        case ln.Clear(cell=ln.Cell() as cell):
            return [f"{scalars.storage_text(scope, cell).text} = {scalars.literal(0, cell.buffer.dtype).text};"]
        case ln.Clear(buffer, count, zeroed):
            # Without zeroing, every cell is stored before it is read.
            if not zeroed:
                return []
            begun = statement.row_start
            first = scope.name(ln.key(buffer)) if begun is None else f"&{scalars.storage_text(scope, begun).text}"
            return [f"memset({first}, 0, {_bytes(scope, buffer, count)});"]
    assert_never(statement)


def _braced(head: str, lines: Lines) -> Lines:
    """Return a statement with its block, or nothing if the block is empty."""
    return [f"{head} {{", *indented(lines), "}"] if lines else []


def _branches(
    scope: TextScope, heap: memory.Heap, predicate: Predicate, body: ln.Block, other: ln.Statement | None
) -> Lines:
    """Print an `if`, with an `else` if the next statement has the opposite condition; a plain block for TRUE."""
    lines = _block(scope.under(predicate), heap, body)
    if predicate == TRUE:
        return ["{", *indented(lines), "}"]
    opposite = negation(predicate)
    rest = _block(scope.under(opposite), heap, other.body) if isinstance(other, ln.If) else []
    if not lines:
        return _braced(f"if ({predicate_text(scope, opposite).text})", rest)
    then = _braced(f"if ({predicate_text(scope, predicate).text})", lines)
    if isinstance(other, ln.If) and rest and _is_one_test(other.body):
        return [*then[:-1], f"}} else {rest[0]}", *rest[1:]]
    return [*then[:-1], "} else {", *indented(rest), "}"] if rest else then


def _is_one_test(block: ln.Block) -> bool:
    """Return whether the block is a single `if`, with or without `else`."""
    first = block[0]
    if not isinstance(first, ln.If) or first.predicate == TRUE:
        return False
    return len(block) == 1 or (len(block) == 2 and opposite(first, block[1]))


def _bytes(scope: TextScope, buffer: ln.Buffer, count: Index) -> str:
    """Return the size in bytes of the first elements of an allocated buffer, which cannot overflow."""
    size = f"sizeof *{scope.name(ln.key(buffer))}"
    return size if count == ONE else f"{count_text(scope, count, buffer.extents).at(PRODUCT)} * {size}"
