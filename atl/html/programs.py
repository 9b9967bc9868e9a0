"""Programs as highlighted text, with spans around the changed parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final, TypeAlias

from atl.core.program import Program
from atl.core.traversal import Path, subterm
from atl.text.index_notation import Names
from atl.text.markup import Child, Html, Value, element, escaped, joined
from atl.text.printing import layout_at, show_part, show_program

WIDTH: Final = 88
"""Columns of a program's layout, fewer than in a terminal, as the list of calls is next to it."""
MAX_PAIRS: Final = 4_000_000
"""Number of word pairs above which texts are marked as a whole."""
MAX_NODES: Final = 20_000
"""Number of nodes above which a program is abridged."""
MARK_WHOLE: Final = 0.6
"""Fraction of changed words above which the whole part is marked."""

Range: TypeAlias = tuple[int, int]

_HIGHLIGHTED: Final = re.compile(
    r"(?P<k>[⊞Σ∏⨁]|\b(?:let|in|(?:max|min|product)(?=[\[(])|truncr|truncl|padr|padl|flatten|split|transpose|place|select|cast)\b)"
    r"|(?P<m>\| (?:[a-z]+(?:\.[xyz])?)(?=\]| :=))"
)
_OPENING: Final = frozenset("([{⌈")
_CLOSING: Final = frozenset(")]}⌉")
_WORDS: Final = re.compile(r"\s+|\w+|.")


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a text that becomes an element."""

    start: int
    stop: int
    tag: str
    attributes: dict[str, Value] = field(default_factory=dict)


def highlighted(text: str) -> Html:
    """Highlight the operators and marks of a program text."""
    out: list[Child] = []
    at = 0
    for match in _HIGHLIGHTED.finditer(text):
        out += [text[at : match.start()], element("i", match[0], class_=match.lastgroup)]
        at = match.end()
    return joined([*out, text[at:]])


def with_spans(text: str, spans: Iterable[Span], *, colours: bool = True) -> Html:
    """Return a text with elements around spans, which are disjoint or nested."""
    leaf = highlighted if colours else escaped
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
    """Split a range into lines without indentation and trailing blanks."""
    at = start
    for line in text[start:stop].split("\n"):
        left = len(line) - len(line.lstrip(" "))
        if line.strip():
            yield at + left, at + len(line.rstrip())
        at += len(line) + 1


def spans_of(text: str, ranges: Iterable[Range], tag: str, **attributes: Value) -> list[Span]:
    """Return the ranges, split by lines, as spans with these attributes."""
    return [
        Span(first, last, tag, dict(attributes))
        for start, stop in ranges
        for first, last in line_by_line(text, start, stop)
    ]


# -- comparison -------------------------------------------------------------------------------------------------------


def changes(old: str, new: str) -> tuple[list[Range], list[Range]]:
    """Return the ranges that only `old` has, and those that only `new` has; blanks are ignored."""
    ours, theirs = _words(old), _words(new)
    first, last = _common_ends(ours, theirs)
    left, right = ours[first : len(ours) - last], theirs[first : len(theirs) - last]
    if len(left) * len(right) > MAX_PAIRS:
        return _ranges(left), _ranges(right)
    if not left or not right:
        deleted, inserted = (_balanced_runs(words, [(True, first, len(words) - last)]) for words in (ours, theirs))
        return _ranges(deleted, ours), _ranges(inserted, theirs)
    kept = SequenceMatcher(None, [w for w, _ in left], [w for w, _ in right], autojunk=False).get_opcodes()
    match = [each for each in kept if each[0] != "equal"]
    deleted = _balanced_runs(ours, [(tag != "replace", first + low, first + high) for tag, low, high, _, _ in match])
    inserted = _balanced_runs(theirs, [(tag != "replace", first + low, first + high) for tag, _, _, low, high in match])
    return _changed_ranges(deleted, left, ours), _changed_ranges(inserted, right, theirs)


def _words(text: str) -> list[tuple[str, int]]:
    return [(match[0], match.start()) for match in _WORDS.finditer(text) if not match[0].isspace()]


def _common_ends(ours: Sequence[tuple[str, int]], theirs: Sequence[tuple[str, int]]) -> tuple[int, int]:
    """Return the number of common first words, and the number of common last words among the others."""
    most = min(len(ours), len(theirs))
    first = next((at for at in range(most) if ours[at][0] != theirs[at][0]), most)
    last = next((at for at in range(most - first) if ours[-1 - at][0] != theirs[-1 - at][0]), most - first)
    return first, last


def _balanced_runs(words: Sequence[tuple[str, int]], runs: Sequence[tuple[bool, int, int]]) -> list[tuple[str, int]]:
    """Shift each run of words so that its brackets are balanced: never `] ⊞[j < m` of `⊞[i < n] ⊞[j < m]`.

    A run can be shifted if it is a pure insertion or deletion (the first component). It can move one word later if its
    first word equals the word after it, and one word earlier if its last word equals the word before it.
    """
    out: list[tuple[str, int]] = []
    floor = 0
    for (alone, low, high), (_, ceiling, _) in zip(runs, [*runs[1:], (False, len(words), 0)], strict=True):
        size = high - low
        begins = _possible_starts(words, low, size, range(floor, ceiling - size + 1)) if alone and size else [low]
        closed = [at for at in begins if _is_balanced([word for word, _ in words[at : at + size]])]
        ends = [at for at in closed if size and words[at + size - 1][0] in _CLOSING]
        begin = [*ends, *closed, low][0]
        out += words[begin : begin + size]
        floor = begin + size
    return out


def _possible_starts(words: Sequence[tuple[str, int]], low: int, size: int, among: range) -> list[int]:
    """Return the possible starts of a run of `size` words such that the other words read the same; `low` first."""
    later, earlier = [low], [low]
    while later[-1] + 1 in among and words[later[-1]][0] == words[later[-1] + size][0]:
        later.append(later[-1] + 1)
    while earlier[-1] - 1 in among and words[earlier[-1] - 1][0] == words[earlier[-1] + size - 1][0]:
        earlier.append(earlier[-1] - 1)
    return [*later, *earlier[1:]]


def _is_balanced(words: Sequence[str]) -> bool:
    """Return True if the brackets among these words are balanced."""
    depth = 0
    for word in words:
        depth += (word in _OPENING) - (word in _CLOSING)
        if depth < 0:
            return False
    return depth == 0


def _changed_ranges(
    changed: list[tuple[str, int]], part: list[tuple[str, int]], among: list[tuple[str, int]]
) -> list[Range]:
    return _ranges(part) if len(changed) > MARK_WHOLE * len(part) else _ranges(changed, among)


def _ranges(words: Sequence[tuple[str, int]], among: Sequence[tuple[str, int]] | None = None) -> list[Range]:
    """Return the words as ranges; words that are adjacent in `among` are joined."""
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


def compare(before: str, after: str) -> tuple[list[Span], list[Span]]:
    """Compare two texts and return the deletions and insertions as spans."""
    deleted, inserted = changes(before, after)
    return spans_of(before, deleted, "del"), spans_of(after, inserted, "ins")


# -- programs and their parts -----------------------------------------------------------------------------------------


def text_of(program: Program) -> str:
    """Return the text of a program for the page; a very large program is abridged."""
    return show_program(program, abridge=True) if _is_large(program) else layout_at(program, (), width=WIDTH).text


def _is_large(program: Program) -> bool:
    return program.body.size > MAX_NODES


def subterm_text(program: Program, path: Path, names: Names) -> str:
    """Return the text of the subterm at a path."""
    return show_part(subterm(program.body, path), names, width=WIDTH)


def text_with_subterm(program: Program, path: Path) -> tuple[str, list[Span]]:
    """Return the text of a program, with the subterm at a path marked as an insertion unless the text is abridged."""
    if _is_large(program):
        return text_of(program), []
    laid = layout_at(program, path, width=WIDTH)
    return laid.text, spans_of(laid.text, [(laid.start, laid.stop)], "ins")


def pre(text: str, spans: Iterable[Span] = (), *, label: str | None, colours: bool = True) -> Html:
    """Return a program text as a `pre` element. `colours` highlights operators and marks."""
    # A region that scrolls sideways must be reachable by keyboard.
    code = element("code", with_spans(text, spans, colours=colours))
    return element("pre", code, class_="program", tabindex=0, role="group", aria_label=label)
