"""Display of sessions: steps, diffs and explanations in a terminal, and collapsible states in a notebook."""

from __future__ import annotations

import html
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, TypeVar

from atl.core.index import Bound, Index, Leaf, Var, index, map_leaves
from atl.core.marks import CallMark, LetMark, LoopMark
from atl.core.predicate import Predicate, substitute
from atl.core.program import Program
from atl.core.substitution import map_type, transform
from atl.core.terms import Expr, Local, TensorVar, Term
from atl.surface.values import Condition, IndexExpr, Tensor
from atl.text.index_notation import Names
from atl.text.latex import formula
from atl.text.printing import place_of, show, show_index, show_predicate, show_program
from rewrites.cursors.cursor import cursor_at
from rewrites.errors import show_premise
from rewrites.kernel import ProvedPremise, Step, Theorem
from rewrites.rule import Kind, Rule
from rewrites.rule_arguments import Argument, Function
from rewrites.rule_checking.registry import exactness_of, status_text
from rewrites.session.call import Call
from rewrites.session.rule_text import premises_text, side_latex, side_text

T = TypeVar("T")

_RED: Final = "\x1b[31m"
_GREEN: Final = "\x1b[32m"
_PLAIN: Final = "\x1b[0m"

_LAYERS: Final = {
    "trivial": "known at this place",
    "linear": "by linear arithmetic",
    "z3": "by z3",
    "elements": "by the order of elements",
}
MAX_FOLDED: Final = 200


def marked(before: Program, after: Program) -> str:
    """Return a program as text; on a terminal, new lines are coloured."""
    if not on_a_terminal() or before is after:
        return str(after)
    lines = [(mark, line) for mark, line in Diff(before, after).lines if mark in " +"]
    return "\n".join(f"{_GREEN}{line}{_PLAIN}" if mark == "+" else line for mark, line in lines)


def on_a_terminal() -> bool:
    """Return True if colours can be shown and are not disabled."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def written(value: Any) -> str:
    """Return an argument of a call as Python source, where possible."""
    try:
        return _written(value)
    except Exception:  # noqa: BLE001 (a failing __repr__, an integer of thousands of digits, recursive lists)
        return "…"


def call_text(name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> str:
    """Return a call as Python source."""
    given = [*map(written, arguments), *(f"{key}={written(value)}" for key, value in options.items())]
    return f"{name}({', '.join(given)})"


def _written(value: Any) -> str:
    match value:
        case LoopMark() | LetMark() | CallMark():
            return repr(value.value)
        case IndexExpr():
            return show_index(value.node)
        case Condition():
            return show_predicate(value.node)
        case Tensor():
            return show(value.node)
        case tuple() | list():
            inside = ", ".join(_written(item) for item in value)
            return f"({inside}{',' if len(value) == 1 else ''})" if isinstance(value, tuple) else f"[{inside}]"
        case _ if callable(value):
            return "…"
        case _:
            return repr(value)


class Listing(tuple[T, ...]):
    """A tuple that prints one item per line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(f"{number:3}  {item!r}" for number, item in enumerate(self)) or "no steps yet"


# -- differences ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Diff:
    """The difference of two programs by lines, in colour on a terminal."""

    before: Program
    after: Program

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Lines with their marks: "-" before, "+" after, "^" carets below a changed part, " " unchanged."""
        old, new = str(self.before).split("\n"), str(self.after).split("\n")
        out: list[tuple[str, str]] = []
        for tag, low, high, to_low, to_high in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag == "equal":
                out += [(" ", line) for line in old[low:high]]
            elif tag == "replace" and high - low == to_high - to_low:
                for left, right in zip(old[low:high], new[to_low:to_high], strict=True):
                    first, second = _carets(left, right)
                    out += [("-", left), *first, ("+", right), *second]
            else:
                out += [("-", line) for line in old[low:high]]
                out += [("+", line) for line in new[to_low:to_high]]
        return out

    def text(self, *, colour: bool = False) -> str:
        """Return the difference as text."""
        if self.before.body == self.after.body and str(self.before) == str(self.after):
            return "nothing has changed"
        painted = {"-": _RED, "+": _GREEN}
        out = []
        for mark, line in self.lines:
            shown = f"{mark if mark != '^' else ' '} {line}".rstrip()
            out.append(f"{painted[mark]}{shown}{_PLAIN}" if colour and mark in painted else shown)
        return "\n".join(out)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text(colour=on_a_terminal())

    def _repr_html_(self) -> str:
        return _lines_html(self.lines)


def _carets(left: str, right: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return carets below the changed part of two lines that differ in one part only."""
    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    stop = 0
    while stop < min(len(left), len(right)) - start and left[-1 - stop] == right[-1 - stop]:
        stop += 1
    if start + stop < min(len(left), len(right)) // 4:
        return [], []
    marks = [" " * start + "^" * (len(line) - start - stop) for line in (left, right)]
    first, second = ([("^", mark)] if mark.strip() else [] for mark in marks)
    return first, second


def _lines_html(lines: Iterable[tuple[str, str]]) -> str:
    tints = {"-": ' style="background:#fdd;color:#111"', "+": ' style="background:#dfd;color:#111"'}
    shown = [
        f"<span{tints[mark]}>{html.escape(f'{mark} {line}')}</span>" if mark in tints else html.escape(f"  {line}")
        for mark, line in lines
        if mark != "^"
    ]
    return f"<pre>{chr(10).join(shown)}</pre>"


# -- explanations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation of a call, step by step, or of the storage of a recurrence, which has no steps."""

    text: str
    steps: Sequence[tuple[Step, Program, Program]]
    notes: Sequence[str] = ()
    of_call: bool = True

    def __str__(self) -> str:
        return "\n".join([self._steps_text(), *(f"note: {note}" for note in self.notes)])

    def _steps_text(self) -> str:
        if not self.steps and not self.of_call:
            return self.text
        if not self.steps:
            return f"{self.text}\nno proof steps: names and marks do not change the meaning"
        many = len(self.steps) > 1
        parts = [
            explained(step, before, f"{k + 1}. " if many else "") for k, (step, before, _) in enumerate(self.steps)
        ]
        return "\n".join([self.text, *parts]) if many or not self.text.startswith("rw(") else "\n".join(parts)

    __repr__ = __str__


def explained(step: Step, before: Program, number: str = "") -> str:
    """Return a step as text: the rule, the place, the arguments, and the premises with how each was proved."""
    rule = step.rule
    source = f" ({rule.source})" if rule.source else ""
    lines = [f"{number}{rule.name}{', from right to left' if step.reverse else ''}{source}: {rule.law}"]
    lines.append(str(place_of(before, step.path)))
    names = cursor_at(before, step.path).names
    arguments = [f"{name} = {argument_text(value, names)}" for name, value in step.arguments.items()]
    lines += [f"  with {line}" for line in arguments]
    lines += [f"  {premise_text(premise)}" for premise in step.premises] or ["  no premises"]
    return "\n".join(line for line in lines if line)


def argument_text(value: Argument, names: Names) -> str:
    """Return an argument with the names in scope; the parameters of a function are named i1, x2, …"""
    if not isinstance(value, Function):
        return _named(value, names, (), ())
    indices: list[str] = []
    tensors: list[str] = []
    called: list[str] = []
    for number, parameter in enumerate(value.parameters, 1):
        name = f"i{number}" if parameter == "index" else f"x{number}"
        (indices if parameter == "index" else tensors).append(name)
        called.append(name)
    return f"({', '.join(called)}) ↦ {_named(value.body, names, tuple(indices), tuple(tensors))}"


def _named(value: Index | Expr | Predicate, names: Names, indices: tuple[str, ...], tensors: tuple[str, ...]) -> str:
    """Return a part of a program as text, with its free indices and tensors replaced by named variables."""
    at = [*names.indices, *indices]
    lets = [*names.tensors, *tensors]

    def on_leaf(leaf: Leaf, depth: int = 0) -> Index:
        if isinstance(leaf, Bound) and leaf.position >= depth:
            level = len(at) - 1 - (leaf.position - depth)
            return index(Var(level, at[level]))
        return index(leaf)

    def on_tensor(local: Local | TensorVar, depth: int, tensor_depth: int) -> Expr | None:
        if isinstance(local, Local) and local.position >= tensor_depth:
            level = len(lets) - 1 - (local.position - tensor_depth)
            return TensorVar(
                level, lets[level], map_type(local.of, lambda e: map_leaves(e, lambda f: on_leaf(f, depth)))
            )
        return None

    if isinstance(value, Index):
        return show_index(map_leaves(value, on_leaf))
    if isinstance(value, Term):
        return " ".join(show(transform(value, on_leaf, on_tensor)).split())
    return show_predicate(substitute(value, on_leaf))


def premise_text(premise: ProvedPremise) -> str:
    """Return a premise and how it was proved."""
    return f"premise {show_premise(premise.premise)}: {proved_how(premise)}"


def proved_how(premise: ProvedPremise) -> str:
    """Return how a premise was proved, in words."""
    return "vacuous: this place is never reached" if premise.vacuous else _LAYERS.get(premise.layer, premise.layer)


def law_of(documented: str) -> str:
    """Return the first paragraph of a tactic's docstring on one line."""
    return " ".join(documented.split("\n\n", 1)[0].split())


# -- rules ------------------------------------------------------------------------------------------------------------

_KINDS: Final = {"index": "an index", "condition": "a condition"}


def described(rule: Rule) -> str:
    """Return a rule in full: its law, its equation, its parameters and their kinds, and its premises."""
    lines = [f"{rule.name} ({rule.family}{f', {rule.source}' if rule.source else ''}): {rule.law}"]
    lines.append(f"    {side_text(rule, reverse=False, rank=0)}  =  {side_text(rule, reverse=True, rank=0)}")
    lines += [f"  {name}: {_kind_text(kind)}" for name, kind in rule.metavariables.items()]
    lines += [f"  premise: {text}" for text in premises_text(rule)] or ["  no premises"]
    lines += [f"  {status_text(rule)}", f"  {exactness_of(rule)}: {exactness_of(rule).text}"]
    if rule.derived_from:
        lines.append(f"  follows from {', '.join(dict.fromkeys(rule.derived_from))}")
    return "\n".join(lines)


def _kind_text(kind: Kind) -> str:
    if kind.sort != "tensor":
        what = _KINDS[kind.sort]
    elif not kind.group:
        what = f"a tensor of {kind.rank} dimensions" if kind.rank else "a scalar"
    else:
        what = f"a tensor of {kind.rank} or more dimensions" if kind.rank else "a tensor"
    if not kind.parameters:
        return what
    of = [_KINDS.get(parameter.sort, "a tensor") for parameter in kind.parameters]
    return f"{what}, as a function of {' and '.join(of)}"


# -- notebooks --------------------------------------------------------------------------------------------------------


def session_html(start: Program, calls: Sequence[Call]) -> str:
    """Return the calls with the state after each, collapsed, and the goal below."""
    out = ['<div class="atl-session">', _folded(html.escape(start.name), _text_html(start))]
    hidden = len(calls) - MAX_FOLDED
    if hidden > 0:
        out.append(f"<p>… {hidden} calls …</p>")
    for call in calls[max(hidden, 0) :]:
        changes = Diff(call.before.rhs, call.theorem.rhs)
        out.append(_folded(f"<code>{html.escape(repr(call))}</code>", _lines_html(changes.lines)))
    goal = calls[-1].theorem.rhs if calls else start
    return "".join([*out, _program_html(goal), _folded("as text", _text_html(goal)), "</div>"])


def theorem_html(theorem: Theorem) -> str:
    """Return both sides and, collapsed, the rules between them; unproved rules are named first."""
    steps = theorem.steps
    listed = [
        f"<li><code>{step.rule.name}{'⁻¹' if step.reverse else ''}</code>: {html.escape(step.rule.law)}</li>"
        for step in steps[:MAX_FOLDED]
    ]
    more = f"<p>… and {len(steps) - MAX_FOLDED} more</p>" if len(steps) > MAX_FOLDED else ""
    many = f"= by {len(steps)} step{'' if len(steps) == 1 else 's'}"
    rules = _folded(many, f"<ol>{''.join(listed)}</ol>{more}")
    mark = f"<p><b>{html.escape(repr(theorem))}</b></p>" if theorem.unproved else ""
    return f'<div class="atl-theorem">{mark}{_program_html(theorem.lhs)}{rules}{_program_html(theorem.rhs)}</div>'


def rule_html(rule: Rule) -> str:
    """Return the law in words and as an equation, and the full description, collapsed."""
    sides = [side for reverse in (False, True) if (side := side_latex(rule, reverse)) is not None]
    equation = f'<div class="atl-formula">{html.escape(f"$${sides[0]} = {sides[1]}$$")}</div>' if sides[1:] else ""
    law = f"<p><b>{rule.name}</b>: {html.escape(rule.law)}</p>"
    whole = _folded("in full", f"<pre>{html.escape(described(rule))}</pre>")
    return f'<div class="atl-rule">{law}{equation}{whole}</div>'


def _folded(summary: str, inside: str) -> str:
    return f"<details><summary>{summary}</summary>{inside}</details>"


def _program_html(program: Program) -> str:
    shown = formula(program)
    return _text_html(program) if shown is None else f'<div class="atl-formula">{html.escape(shown)}</div>'


def _text_html(program: Program) -> str:
    return f"<pre>{html.escape(show_program(program))}</pre>"
