"""The C code of a self-check: it compares a kernel with its plain version on random inputs of several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from string import Template
from typing import Final

from atl.core.dtypes import BOOL, TYPES, is_integer
from atl.core.index import Bound, Size, atoms
from atl.core.predicate import TRUE
from atl.core.program import Program
from atl.core.terms import Expr, Reduce
from atl.core.traversal import children
from lowering.c.functions.halves import TO_FLOAT
from lowering.c.helpers import identifiers, preamble
from lowering.c.index import index_text, predicate_text
from lowering.c.scalars import C_TYPES
from lowering.c.text import AND, COMPARISON, Names, indented, wrapped
from lowering.export.input_generation import HELPERS, INPUTS_EXIST, CheckVariable, InputGenerator, elements_text
from lowering.nest.loopnest import Buffer, LoopNest, key
from lowering.nest.text import TextScope, names_wanted

_HEADERS: Final = ("math.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h")
"""Only these headers: `lowering.c.text` reserves the names that they define, so that no user name is a macro here."""

_FLOATS: Final = r"""
/* Count the elements whose error exceeds the rounding error, which grows with the number of terms of a sum. */
static int64_t atl_faults(const TYPE *got, const TYPE *want, int64_t count, double terms)
{
    double scale = 0, finite = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const double b = VALUE(want[i]);
        if (isfinite(b)) {
            scale += fabs(b);
            finite++;
        }
    }
    scale /= finite > 0 ? finite : 1;
    const double allowed = 8 * EPSILON + terms * ADDED;
    int64_t faults = 0;
    for (int64_t i = 0; i < count; i++) {
        const double a = VALUE(got[i]), b = VALUE(want[i]);
        if (a == b || (isnan(a) && isnan(b))) {
            continue;
        }
        const double off = fabs(a - b) / (fabs(b) + scale);
        if (!(off <= allowed)) {
            if (faults++ < 3) {
                printf("  element %lld is %.9g, not %.9g\n", (long long)i, a, b);
            }
        } else if (off > largest) {
            largest = off;
        }
    }
    printf("  %lld elements, %lld wrong; largest other error %.2g, allowed %.2g\n", (long long)count,
           (long long)faults, largest, allowed);
    return faults;
}
"""
_INTEGERS: Final = r"""
/* Count the wrong elements. */
static int64_t atl_faults(const TYPE *got, const TYPE *want, int64_t count, double terms)
{
    int64_t faults = 0;
    (void)terms;
    for (int64_t i = 0; i < count; i++) {
        if (got[i] != want[i] && faults++ < 3) {
            printf("  element %lld is %lld, not %lld\n", (long long)i, (long long)got[i], (long long)want[i]);
        }
    }
    printf("  %lld elements, %lld wrong\n", (long long)count, (long long)faults);
    return faults;
}
"""

_MAIN: Final = Template(r"""
static int64_t atl_size(const char *text)
{
    char *end;
    const long long size = strtoll(text, &end, 10);
    if (*text == 0 || *end != 0 || size < 0) {
        fprintf(stderr, "a size is a number from 0 on, not %s\n", text);
        exit(2);
    }
    return size;
}

/* Check the sizes of the table, or those of the command line. Exits with 0 if all cases that ran were right. */
int main(int argc, char **argv)
{
    static const int64_t cases[][${width}] = {
${table}
    };
    const int count = argc > 1 ? 1 : (int)(sizeof cases / sizeof *cases);
    int ran = 0, wrong = 0;
    if (argc > 1 && argc != ${sizes} + 1) {
        fprintf(stderr, "usage: %s ${usage}\n", argv[0]);
        return 2;
    }
    for (int at = 0; at < count; at++) {
        int64_t sizes[${width}];
        for (int k = 0; k < ${width}; k++) {
            sizes[k] = argc > 1 ? atl_size(argv[k + 1]) : cases[at][k];
        }
        (void)sizes;
        const int found = atl_case(${arguments});
        ran += found >= 0;
        wrong += found > 0;
    }
    printf("${name}: %d of %d cases ran, %d wrong\n", ran, count, wrong);
    return wrong > 0 ? 1 : ran > 0 ? 0 : 2;
}
""")


@dataclass(frozen=True, slots=True)
class CheckedKernel:
    """The functions that a check compares: a kernel and its plain version, with their nests and declarations.

    Both take the inputs and fill an array in memory. The order of their sizes may differ.
    """

    name: str
    nest: LoopNest
    plain: str
    plain_nest: LoopNest
    declared: str


def _epsilon(dtype: str) -> str:
    """Return the C text of the distance from 1 to the next number of this type."""
    return TYPES[dtype].epsilon.hex()


def _types_of(nest: LoopNest) -> list[str]:
    """Return the element types of the outputs, each once."""
    return list(dict.fromkeys(buffer.dtype for buffer in nest.outputs))


def _faults(nest: LoopNest, dtype: str) -> str:
    """Return the name of the function that compares results of this type."""
    return "atl_faults" if len(_types_of(nest)) == 1 else f"atl_faults_{dtype}"


def _comparison(nest: LoopNest, dtype: str) -> str:
    """Return the function that compares results of this type."""
    text = _INTEGERS if is_integer(dtype) or dtype == BOOL else _FLOATS
    text = text.replace("TYPE", C_TYPES[dtype]).replace("atl_faults", _faults(nest, dtype))
    if text.count("EPSILON"):
        text = text.replace("EPSILON", _epsilon(dtype)).replace("ADDED", _epsilon(TYPES[dtype].computed_as))
    return text.replace("VALUE", TO_FLOAT.get(dtype, ""))


def check_text(program: Program, checked: CheckedKernel, cases: Sequence[tuple[int, ...]]) -> str:
    """Return the file of a check. The names of its functions begin with `atl_`."""
    nest = checked.nest
    compared = "\n".join(_comparison(nest, dtype).lstrip() for dtype in _types_of(nest))
    case = _case(program, checked)
    width = max(len(nest.sizes), 1)
    table = [f"        {{{', '.join(map(str, case)) or '0'}}}," for case in cases]
    main = _MAIN.substitute(
        table="\n".join(table),
        width=width,
        sizes=len(nest.sizes),
        usage=" ".join(nest.sizes) or "(it takes nothing)",
        arguments=", ".join(f"sizes[{k}]" for k in range(len(nest.sizes))),
        name=checked.name,
    )
    if not nest.sizes:
        main = main.replace("sizes[k] = argc > 1 ? atl_size(argv[k + 1]) : cases[at][k];", "sizes[k] = cases[at][k];")
        main = main[main.index("/* Check the sizes") :]
    helpers = [line for line in preamble(compared + case).splitlines() if not line.startswith("#include")]
    includes = "\n".join(f"#include <{header}>" for header in _HEADERS)
    head = f"/* Compares {checked.name} with {checked.plain}, the plain loops of its formula, on random inputs. */"
    guard = "enum { ATL_GUARD = 64 };"
    before = f"{includes}\n\n{checked.declared}\n{guard}"
    parts = (head, before, *_used(case), "\n".join(helpers), compared, case, main)
    return "\n".join(part.strip("\n") + "\n" for part in parts if part.strip())


def _used(code: str) -> list[str]:
    """Return the helpers that some code calls, directly or indirectly. Compilers warn of unused ones."""
    kept: list[str] = []
    for name, text in reversed(HELPERS.items()):
        if name in identifiers("\n".join((code, *kept))):
            kept.insert(0, text)
    return kept


WANT, FAILED, BYTES, KEPT, K, FOUND = map(CheckVariable, ("want", "failed", "bytes", "kept", "k", "found"))
"""Variables: plain result, error code, size of the result, whether the guard bytes are intact, index, outcome."""


@dataclass(frozen=True, slots=True)
class _Output:
    """An output of a kernel: the variables of its array, of the array of the plain version, and of its bytes."""

    buffer: Buffer
    name: str
    want: str
    size: str
    kind: str

    def allocated(self, scope: TextScope) -> list[str]:
        """Return the lines that allocate both arrays and fill them with a pattern."""
        size, elements = self.size, elements_text(scope, self.buffer.extents)
        return [
            f"const size_t {size} = (size_t)({elements}) * sizeof({self.kind});",
            f"{self.kind} *{self.name} = atl_allocate((int64_t){size}, 1);",
            f"{self.kind} *{self.want} = atl_allocate((int64_t){size}, 1);",
            f"memset({self.name}, 0xff, {size} + ATL_GUARD);",
            f"memset({self.want}, 0xff, {size} + ATL_GUARD);",
        ]

    def faults(self, nest: LoopNest, terms: str) -> str:
        """Return the call that counts the wrong elements."""
        count = f"(int64_t)({self.size} / sizeof *{self.name})"
        return f"{_faults(nest, self.buffer.dtype)}({self.name}, {self.want}, {count}, {terms})"


def _variables(nest: LoopNest) -> list[tuple[CheckVariable, CheckVariable]]:
    """Return the variables of each output: its array by the plain version, and its bytes."""
    if not nest.results:
        return [(WANT, BYTES)]
    return [(CheckVariable(f"want_{each.name}"), CheckVariable(f"bytes_{each.name}")) for each in nest.results]


def _scope(nest: LoopNest, taken: frozenset[str]) -> TextScope:
    own = [(each, each.hint) for each in (FAILED, KEPT, K, FOUND, *chain(*_variables(nest)))]
    names = Names(taken=taken).bind_all([*names_wanted(nest), *own])
    return TextScope(names, frozenset(), nest.nonnegative_numerators)


def _case(program: Program, checked: CheckedKernel) -> str:
    nest = checked.nest
    drawing = InputGenerator.of(_scope(nest, frozenset({checked.name, checked.plain})), nest.inputs)
    scope = drawing.scope
    name = scope.name
    there = name(INPUTS_EXIST)
    failed, kept, k, found = map(name, (FAILED, KEPT, K, FOUND))
    outputs = [
        _Output(buffer, name(key(buffer)), name(want), name(size), C_TYPES[buffer.dtype])
        for buffer, (want, size) in zip(nest.outputs, _variables(nest), strict=True)
    ]
    outs, wants = ([each.name for each in outputs], [each.want for each in outputs])
    assumed = [predicate_text(scope, each).at(AND + 1) for each in nest.assumptions if each != TRUE]
    sizes = [name(Size(each)) for each in nest.sizes]
    terms = _Terms(scope)
    most = terms.of(program.body)
    reads = [name(array.name) for array in nest.inputs]
    other = [name(Size(each)) for each in checked.plain_nest.sizes]
    lines = [
        *drawing.lines(),
        *([f"{there} = {there} && {' && '.join(assumed)};"] if assumed else []),
        *_print_case(checked, sizes, there),
        f"int {found} = -1;",
        f"if ({there}) {{",
        *indented(
            [
                *(line for each in outputs for line in each.allocated(scope)),
                f"int {failed} = {checked.plain}({', '.join((*reads, *other, *wants))});",
                f"{failed} = {failed} ? {failed} : {checked.name}({', '.join((*reads, *sizes, *outs))});",
                f"int {kept} = 1;",
                f"for (size_t {k} = 0; {k} < ATL_GUARD; {k}++) {{",
                *(
                    f"    {kept} = {kept} && ((unsigned char *){each.name})[{each.size} + {k}] == 0xff;"
                    for each in outputs
                ),
                "}",
                *terms.lines,
                f"{found} = {failed} != 0 || !{kept};",
                f"if ({failed}) {{",
                f'    printf("  it could not be computed: error %d\\n", {failed});',
                "} else {",
                *(f"    {found} |= {each.faults(nest, most)} > 0;" for each in outputs),
                "}",
                f"if (!{kept}) {{",
                '    printf("  memory behind the result was overwritten\\n");',
                "}",
                *(f"free({pointer});" for each in outputs for pointer in (each.name, each.want)),
            ]
        ),
        "}",
        *drawing.freed(),
        f"return {found};",
    ]
    head = f"static int atl_case({', '.join(f'int64_t {each}' for each in sizes) or 'void'})"
    text = [*wrapped(head), "{", *indented(lines), "}"]
    comment = "/* Compare on random inputs: 0 if all is right, 1 if not, -1 if there are no inputs of these sizes. */"
    return "\n".join([comment, *(part for line in text for part in wrapped(line))]) + "\n"


def _print_case(checked: CheckedKernel, sizes: Sequence[str], there: str) -> list[str]:
    """Return the code that prints the case, one line per size, since long lines would be wrapped within texts."""
    lines = [f'printf("{checked.name}");']
    for named, each in zip(checked.nest.sizes, sizes, strict=True):
        lines.append(f'printf("{"," if len(lines) > 1 else " at"} {named} = %lld", (long long){each});')
    return [*lines, f'printf("%s\\n", {there} ? ":" : ": no such inputs");']


@dataclass(slots=True)
class _Terms:
    """The maximum number of terms of an element as C code. `lines` declare the variables in the returned texts."""

    scope: TextScope
    lines: list[str] = field(default_factory=list)
    known: dict[int, str] = field(default_factory=dict)

    def of(self, e: Expr) -> str:
        if id(e) not in self.known:
            below = list(dict.fromkeys(found for child in children(e) if (found := self.of(child.expr)) != "1"))
            text = below[0] if below else "1"
            for other in below[1:]:
                text = f"atl_larger({text}, {other})"
            if isinstance(e, Reduce):
                text = f"{text} * {self._extent(e)}" if text != "1" else self._extent(e)
            if isinstance(e, Reduce) or len(below) > 1:
                name, self.scope = self.scope.bind(("terms", id(e)), "terms")
                self.lines.append(f"const double {name} = {text};")
                text = name
            self.known[id(e)] = text
        return self.known[id(e)]

    def _extent(self, e: Reduce) -> str:
        extent = e.high - e.low
        if not any(isinstance(atom, Bound) for atom in atoms(extent)):
            return f"atl_larger(1, (double)({index_text(self.scope, extent).at(COMPARISON)}))"
        sizes = [name for of, name in self.scope.names.of.items() if isinstance(of, Size)]
        text = "1"
        for size in sizes:
            text = f"atl_larger({text}, (double){size})"
        return text
