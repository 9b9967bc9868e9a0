"""Programs as coloured text, with marks on the parts that a step is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final, TypeAlias

from atl.core.program import Program
from atl.core.traversal import Path, subterm
from atl.html.elements import Child, Html, Value, element, escaped, joined
from atl.text.names import Names
from atl.text.printing import layout_at, show_part, show_program

WIDTH: Final = 88
"""Programs are laid out for so many columns, fewer than in a terminal: the list of calls stands beside them."""
COMPARED: Final = 4_000_000
"""Texts with more pairs of words than this are compared line by line."""
LARGEST: Final = 20_000
"""A program with more nodes than this is elided."""
MOSTLY: Final = 0.6
"""Where more than this share of a part has changed, the whole of it is marked."""

Range: TypeAlias = tuple[int, int]

_COLOURED: Final = re.compile(
    r"(?P<k>[⊞Σ∏⨁]|\b(?:let|in|(?:max|min|product)(?=[\[(])|truncr|truncl|padr|padl|flatten|split|transpose|place|select|cast)\b)"
    r"|(?P<m>\| (?:[a-z]+(?:\.[xyz])?)(?=\]| :=))"
)
_OPENING: Final = frozenset("([{⌈")
_CLOSING: Final = frozenset(")]}⌉")
_WORDS: Final = re.compile(r"\s+|\w+|.")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text that stands in an element of its own."""

    start: int
    stop: int
    tag: str
    attributes: dict[str, Value] = field(default_factory=dict)


def coloured(text: str) -> Html:
    """A piece of a program with its signs and marks told apart."""
    out: list[Child] = []
    at = 0
    for met in _COLOURED.finditer(text):
        out += [text[at : met.start()], element("i", met[0], class_=met.lastgroup)]
        at = met.end()
    return joined([*out, text[at:]])


def with_spans(text: str, spans: Iterable[Span], *, colours: bool = True) -> Html:
    """A text with elements around parts of it: each two of them apart, or one in the other."""
    leaf = coloured if colours else escaped
    ordered = sorted((s for s in spans if s.start < s.stop), key=lambda span: (span.start, -span.stop))

    def within(start: int, stop: int, inner: Sequence[Span]) -> Html:
        out: list[Child] = []
        at, number = start, 0
        while number < len(inner):
            span = inner[number]
            last = number + 1
            while last < len(inner) and inner[last].start < span.stop:
                last += 1
            out.append(leaf(text[at : span.start]))
            out.append(element(span.tag, within(span.start, span.stop, inner[number + 1 : last]), **span.attributes))
            at, number = span.stop, last
        return joined([*out, leaf(text[at:stop])])

    return within(0, len(text), ordered)


def line_by_line(text: str, start: int, stop: int) -> Iterator[Range]:
    """A range without the blanks that lines begin with, and without their ends: a range in each line."""
    at = start
    for line in text[start:stop].split("\n"):
        left = len(line) - len(line.lstrip(" "))
        if line.strip():
            yield at + left, at + len(line.rstrip())
        at += len(line) + 1


def spans_of(text: str, ranges: Iterable[Range], tag: str, **attributes: Value) -> list[Span]:
    """The ranges as elements."""
    return [
        Span(first, last, tag, dict(attributes))
        for start, stop in ranges
        for first, last in line_by_line(text, start, stop)
    ]


# -- what has changed -------------------------------------------------------------------------------------------------


def changes(old: str, new: str) -> tuple[list[Range], list[Range]]:
    """The ranges of the one text that are not in the other, and those of the other; blanks count for nothing."""
    ours, theirs = _words(old), _words(new)
    first, last = _alike(ours, theirs)
    left, right = ours[first : len(ours) - last], theirs[first : len(theirs) - last]
    if len(left) * len(right) > COMPARED:
        return _ranges(left), _ranges(right)
    if not left or not right:
        gone, come = (_whole(words, [(True, first, len(words) - last)]) for words in (ours, theirs))
        return _ranges(gone, ours), _ranges(come, theirs)
    kept = SequenceMatcher(None, [w for w, _ in left], [w for w, _ in right], autojunk=False).get_opcodes()
    met = [each for each in kept if each[0] != "equal"]
    gone = _whole(ours, [(tag != "replace", first + low, first + high) for tag, low, high, _, _ in met])
    come = _whole(theirs, [(tag != "replace", first + low, first + high) for tag, _, _, low, high in met])
    return _settled(gone, left, ours), _settled(come, right, theirs)


def _words(text: str) -> list[tuple[str, int]]:
    return [(met[0], met.start()) for met in _WORDS.finditer(text) if not met[0].isspace()]


def _alike(ours: Sequence[tuple[str, int]], theirs: Sequence[tuple[str, int]]) -> tuple[int, int]:
    """How many words both begin with, and how many more both end with."""
    most = min(len(ours), len(theirs))
    first = next((at for at in range(most) if ours[at][0] != theirs[at][0]), most)
    last = next((at for at in range(most - first) if ours[-1 - at][0] != theirs[-1 - at][0]), most - first)
    return first, last


def _whole(words: Sequence[tuple[str, int]], runs: Sequence[tuple[bool, int, int]]) -> list[tuple[str, int]]:
    """The words of runs, each moved to where its brackets close: of `⊞[i < n] ⊞[j < m]` not the part `] ⊞[j < m`.

    A run that stands alone, with nothing in its place on the other side, may begin and end a word later where the word
    behind it is its first one, and a word earlier where the word before it is its last one.
    """
    out: list[tuple[str, int]] = []
    floor = 0
    for (alone, low, high), (_, ceiling, _) in zip(runs, [*runs[1:], (False, len(words), 0)], strict=True):
        size = high - low
        begins = _begins(words, low, size, range(floor, ceiling - size + 1)) if alone and size else [low]
        closed = [at for at in begins if _closed([word for word, _ in words[at : at + size]])]
        ends = [at for at in closed if size and words[at + size - 1][0] in _CLOSING]
        begin = [*ends, *closed, low][0]
        out += words[begin : begin + size]
        floor = begin + size
    return out


def _begins(words: Sequence[tuple[str, int]], low: int, size: int, among: range) -> list[int]:
    """Where a run of so many words may begin instead, so that the others read the same; its own place first."""
    later, earlier = [low], [low]
    while later[-1] + 1 in among and words[later[-1]][0] == words[later[-1] + size][0]:
        later.append(later[-1] + 1)
    while earlier[-1] - 1 in among and words[earlier[-1] - 1][0] == words[earlier[-1] + size - 1][0]:
        earlier.append(earlier[-1] - 1)
    return [*later, *earlier[1:]]


def _closed(words: Sequence[str]) -> bool:
    """Whether each bracket among these closes one that was opened among them, and none stays open."""
    depth = 0
    for word in words:
        depth += (word in _OPENING) - (word in _CLOSING)
        if depth < 0:
            return False
    return depth == 0


def _settled(changed: list[tuple[str, int]], part: list[tuple[str, int]], among: list[tuple[str, int]]) -> list[Range]:
    return _ranges(part) if len(changed) > MOSTLY * len(part) else _ranges(changed, among)


def _ranges(words: Sequence[tuple[str, int]], among: Sequence[tuple[str, int]] | None = None) -> list[Range]:
    """The words as ranges; those that follow each other among all words are one."""
    after = {start: following for (_, start), (_, following) in zip(among or words, (among or words)[1:], strict=False)}
    out: list[Range] = []
    previous: int | None = None
    for word, start in words:
        if out and previous is not None and after.get(previous) == start:
            out[-1] = (out[-1][0], start + len(word))
        else:
            out.append((start, start + len(word)))
        previous = start
    return out


def compared(before: str, after: str) -> tuple[list[Span], list[Span]]:
    """What of two texts has gone and what has come, as elements."""
    gone, come = changes(before, after)
    return spans_of(before, gone, "del"), spans_of(after, come, "ins")


# -- programs and their parts -----------------------------------------------------------------------------------------


def text_of(program: Program) -> str:
    """The whole of a program, for the columns of a page; what is far too long to be read is elided."""
    return show_program(program, abridge=True) if _is_large(program) else layout_at(program, (), width=WIDTH).text


def _is_large(program: Program) -> bool:
    return program.body.size > LARGEST


def part_of(program: Program, path: Path, names: Names) -> str:
    """The part of a program at a path."""
    return show_part(subterm(program.body, path), names, width=WIDTH)


def with_part(program: Program, path: Path) -> tuple[str, list[Span]]:
    """The whole of a program, with the part at a path marked as what has come, unless it is elided."""
    if _is_large(program):
        return text_of(program), []
    laid = layout_at(program, path, width=WIDTH)
    return laid.text, spans_of(laid.text, [(laid.start, laid.stop)], "ins")


def pre(
    text: str, spans: Iterable[Span] = (), *, label: str | None = None, class_: str = "program", colours: bool = True
) -> Html:
    """A program, or a part of one, in lines that are not broken. What is folded away may do without colours."""
    # A region that scrolls sideways can be reached by the keyboard.
    code = element("code", with_spans(text, spans, colours=colours))
    return element("pre", code, class_=class_, tabindex=0, role="group", aria_label=label)
