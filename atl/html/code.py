"""The code section of a page, which links each loop to the binder that it was generated from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from atl.core.index import size
from atl.core.marks import BLOCKS, THREADS, LoopMark
from atl.core.program import Program
from atl.core.terms import Expr, Gen, Reduce
from atl.core.traversal import Path, children
from atl.errors import ATLError, InvalidArgument, brief
from atl.html.programs import WIDTH, Span, with_spans
from atl.meaning.specialise import specialise
from atl.text.markup import Child, Html, element, escaped, joined
from atl.text.printing import layout_with_heads
from lowering import GpuKernel, Kernel, TracedText, trace
from lowering.targets.capabilities import support_of

MAX_LISTED: Final = 8
"""Maximum number of loops that are listed for a binder."""

_HIGHLIGHTED: Final = re.compile(
    r"(?P<c>/\*.*?\*/|//.*)|(?P<p>^\s*#.*)"
    r"|(?P<k>\b(?:for|if|else|return|const|static|restrict|do|while|template|class|__global__|__shared__|void|extern)\b)"
    r"|(?P<t>\b(?:int|float|double|u?int(?:8|16|32|64)_t|size_t|bool|index_t|char|unsigned)\b)"
    r"|(?P<n>\b[0-9][0-9a-zA-Z_.]*\b)"
)


def trace_code(program: Program, kernel: object, target: str | None) -> TracedText | ATLError:
    """Return the code of `kernel`, or of `program` compiled for `target`, or the error if it cannot be compiled.

    Raise `InvalidArgument` if `kernel` is not a kernel, or a kernel of another program.
    """
    if kernel is None:
        if target is None:
            target = "cuda" if _is_for_gpu(program) else "c"
        support_of(target)
        try:
            return trace(program, target=target)
        except ATLError as error:
            return error
    if not isinstance(kernel, Kernel | GpuKernel):
        raise InvalidArgument(
            f"kernel={brief(kernel)}", required="a kernel of the theorem's right side: lowering.compile(theorem.rhs)"
        )
    if target is not None:
        raise InvalidArgument("a kernel and a target", required="one of the two: a kernel is made for its target")
    if not _is_specialisation(kernel.program, program):
        raise InvalidArgument(
            f"a kernel of another program than the theorem's right side: {kernel!r}",
            required="a kernel of the theorem's right side: lowering.compile(theorem.rhs)",
        )
    return trace(kernel)


def _is_specialisation(made: Program, program: Program) -> bool:
    """Return True if `made` is `program`, possibly specialised to some sizes."""
    if program.stored is not None:
        # A kernel with a sparse result computes only the array of its values.
        program = replace(program, body=program.stored[1])
    fixed = [name for name in program.sizes if name not in made.sizes]
    found: dict[str, int] = {}
    for ours, theirs in zip(program.inputs, made.inputs, strict=False):
        for extent, value in zip(ours.shape, theirs.shape, strict=False):
            found |= {name: value.constant for name in fixed if extent == size(name) and value.constant is not None}
    try:
        return len(found) == len(fixed) and specialise(program, found).body == made.body
    except ATLError:
        return False


def _is_for_gpu(program: Program) -> bool:
    return any(isinstance(e, Gen | Reduce) and e.mark in (*BLOCKS, *THREADS) for _, e in _parts(program.body, ()))


def _parts(e: Expr, path: Path) -> Iterator[tuple[Path, Expr]]:
    yield path, e
    for at, child in enumerate(children(e)):
        yield from _parts(child.expr, (*path, at))


def code_section(traced: TracedText | ATLError) -> Html:
    """Return the last program next to its code, or the error if it has no code."""
    if isinstance(traced, ATLError):
        why = element("pre", element("code", str(traced)), class_="refusal", tabindex=0, role="group", aria_label="why")
        message: Child = [element("p", "The last program cannot be compiled:"), why]
        return element(
            "section", element("h2", "The code"), message, id="code", class_="code", data_stop=True, tabindex=-1
        )
    regions = [(each.first, each.last, _key(each.binder)) for each in traced.loops]
    used = {key for _, _, key in regions}
    hint = "Point at a loop or a binder, or focus it: the corresponding parts are highlighted."
    return element(
        "section",
        element("h2", f"The {traced.language}"),
        element("p", hint, class_="quiet hint"),
        element(
            "div",
            element(
                "figure", element("figcaption", "the last program"), _program(traced, regions), class_="panel last"
            ),
            element(
                "figure",
                element("figcaption", f"its {traced.language}"),
                _listing(traced.source, regions),
                class_="panel text",
            ),
            class_="linked",
        ),
        element("p", _loop_count(traced.program, used), class_="quiet"),
        id="code",
        class_="code",
        data_stop=True,
        tabindex=-1,
    )


def _key(path: Path) -> str:
    return "-".join(("b", *map(str, path)))


def _loop_count(program: Program, used: set[str]) -> str:
    """Return a sentence about the number of binders that became loops."""
    binders = [path for path, e in _parts(program.body, ()) if isinstance(e, Gen | Reduce)]
    without = sum(_key(path) not in used for path in binders)
    if not without:
        return "Every binder of the last program has a loop."
    return (
        f"{len(binders) - without} of the {len(binders)} binders have loops; the others were inlined where their "
        "elements are used, or unrolled."
    )


def _program(traced: TracedText, regions: list[tuple[int, int, str]]) -> Html:
    """Return the last program, with links from its binders to the lines of their loops."""
    spans: list[Span] = []
    laid = layout_with_heads(traced.program, width=WIDTH)
    for path, e in _parts(traced.program.body, ()):
        if isinstance(e, Gen | Reduce):
            lines = [(first, last) for first, last, key in regions if key == _key(path)]
            spans.append(Span(*laid.heads[path], "a" if lines else "span", dict(_binder(path, e, lines))))
    return element(
        "pre",
        element("code", with_spans(laid.text, spans)),
        class_="program",
        tabindex=0,
        role="group",
        aria_label="the last program",
    )


def _binder(path: Path, e: Gen | Reduce, lines: list[tuple[int, int]]) -> Iterator[tuple[str, str]]:
    mark = f", marked {e.mark.value}" if e.mark is not LoopMark.NONE else ""
    if not lines:
        yield from (("class_", "binder none"), ("title", f"no separate loop{mark}"))
        return
    where = ", ".join(f"{first}–{last}" if first < last else str(first) for first, last in lines[:MAX_LISTED])
    more = " …" if len(lines) > MAX_LISTED else ""
    one = len(lines) == 1 and lines[0][0] == lines[0][1]
    yield from (
        ("class_", "binder"),
        ("id", _key(path)),
        ("href", f"#line-{lines[0][0]}"),
        ("data_of", _key(path)),
        ("title", f"its loop{'s' if len(lines) > 1 else ''}: line{'' if one else 's'} {where}{more}{mark}"),
    )


def _listing(source: str, regions: list[tuple[int, int, str]]) -> Html:
    """Return the code by lines. A line belongs to the innermost loop around it; the first line of a loop has a link."""
    lines = source.rstrip("\n").split("\n")
    within: list[str | None] = [None] * (len(lines) + 1)
    starts: dict[int, str] = {}
    for first, last, key in regions:  # outer ones first
        starts[first] = key
        for number in range(first, last + 1):
            within[number] = key
    out: list[Child] = []
    for number, line in enumerate(lines, 1):
        count = element("span", str(number), class_="at", aria_hidden="true")
        back = _back(starts[number], number) if number in starts else None
        shown = (count, _highlighted(line), back, "\n")
        out.append(element("span", shown, class_="line", id=f"line-{number}", data_of=within[number]))
    loops = " ".join(f"{key}:{first}:{last}" for first, last, key in regions)
    return element(
        "pre", element("code", out), class_="listing", tabindex=0, role="group", aria_label="the code", data_loops=loops
    )


def _back(key: str, line: int) -> Html:
    """Return a link from a loop to its binder."""
    label = f"line {line}: to the binder of this loop"
    return element("a", "↖", href=f"#{key}", class_="back", title="to its binder", aria_label=label)


def _highlighted(line: str) -> Html:
    out: list[Child] = []
    at = 0
    for match in _HIGHLIGHTED.finditer(line):
        out += [line[at : match.start()], element("i", match[0], class_=match.lastgroup)]
        at = match.end()
    return joined([*out, escaped(line[at:])])
