"""The sections of a page for the calls of a derivation and their steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from atl.core.program import Program
from atl.core.traversal import Path
from atl.html.pictures import new_truncations
from atl.html.programs import Span, compare, pre, subterm_text, text_of, text_with_subterm
from atl.text.markup import Child, Html, element
from rewrites import CallTrace, StepTrace

NARROW: Final = 46
"""Maximum line length for two parts to be shown next to each other."""


def counted(number: int, what: str) -> str:
    """Return a number with a noun."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def rule_name(step: StepTrace) -> str:
    """Return the name of the step's rule, with ⁻¹ for the reverse direction."""
    return f"{step.rule}{'⁻¹' if step.reverse else ''}"


def rules_of(steps: Sequence[StepTrace]) -> str:
    """Return the rules of some steps with their numbers of uses."""
    names = Counter(map(rule_name, steps))
    return ", ".join(f"{name} ×{times}" if times > 1 else name for name, times in names.items())


def call_section(call: CallTrace, number: int, first: int) -> Html:
    """Return the section of a call: its result with the changes, and its steps, numbered from `first`."""
    steps = call.steps
    summary = (
        f"{counted(len(steps), 'step')}: {rules_of(steps)}"
        if steps
        else "no steps: this call only changed names or marks"
    )
    last = first + len(steps) - 1
    where = f"step {first}" if len(steps) == 1 else f"steps {first}–{last}" if steps else "no steps"
    head = element(
        "header",
        element("p", f"Call {number}", element("span", f" · {where}", class_="quiet"), class_="eyebrow"),
        element("h2", element("a", element("code", call.text), href=f"#call-{number}")),
        element("p", summary, class_="quiet by"),
        [element("p", element("b", "Note. "), note, class_="note") for note in call.notes],
    )
    folded = [step_details(step, first + at, alone=len(steps) == 1) for at, step in enumerate(steps)]
    return element(
        "section",
        head,
        changed_program(call, f"the program after call {number}"),
        new_truncations(call.before, call.after),
        element("div", folded, class_="steps") if folded else None,
        id=f"call-{number}",
        class_="call",
        aria_label=f"Call {number}: {call.text}",
        data_stop=True,
        tabindex=-1,
    )


def changed_program(call: CallTrace, label: str) -> Html:
    """Return the program after a call with the insertions marked, below the lines of the old one with deletions.

    For a single step, the rewritten subterm is marked in both.
    """
    old, new = text_of(call.before), text_of(call.after)
    if old == new:
        return element("p", "The program is unchanged.", class_="quiet")
    deleted, inserted = compare(old, new)
    if len(call.steps) == 1 and call.steps[0].path:
        path = call.steps[0].path
        deleted, inserted = _within(call.before, path, deleted), _within(call.after, path, inserted)
    return element(
        "div",
        _panel("before", "the changed lines", _lines_with(old, deleted)) if deleted else None,
        _panel("after", None, pre(new, inserted, label=label)),
        class_="change",
    )


def _within(program: Program, path: Path, spans: list[Span]) -> list[Span]:
    """Add a span for the subterm at a path, unless a given span is outside of it."""
    around = [Span(span.start, span.stop, "span", {"class_": "part"}) for span in text_with_subterm(program, path)[1]]
    inside = all(any(part.start <= s.start and s.stop <= part.stop for part in around) for s in spans)
    return [*around, *spans] if inside else spans or around


def _panel(word: str, more: str | None, shown: Html) -> Html:
    caption = element("figcaption", word, element("span", f" · {more}", class_="quiet") if more else None)
    return element("figure", caption, shown, class_=f"panel {word}")


def _lines_with(text: str, spans: Sequence[Span]) -> Html:
    """Return the lines of a text that contain spans, with ⋯ for omitted lines."""
    out: list[str] = []
    moved: list[Span] = []
    start = length = 0
    skipped = False
    for line in text.split("\n"):
        stop = start + len(line)
        inside = [span for span in spans if start <= span.start < stop]
        if inside:
            if skipped and out:
                out.append("⋯")
                length += 2
            moved += [Span(s.start - start + length, s.stop - start + length, s.tag, s.attributes) for s in inside]
            out.append(line)
            length += len(line) + 1
        skipped = not inside
        start = stop + 1
    return pre("\n".join(out), moved, label="the changed lines before")


# -- steps ------------------------------------------------------------------------------------------------------------


def step_details(step: StepTrace, number: int, *, alone: bool) -> Html:
    """Return a folded step: its change, its rule, and why the premises hold."""
    summary = element(
        "summary",
        element("span", str(number), class_="number"),
        element("code", rule_name(step)),
        element("span", step.law, class_="quiet law"),
    )
    return element(
        "details",
        summary,
        element(
            "div",
            element("p", "from right to left", class_="quiet way") if step.reverse else None,
            None if alone else _parts(step),
            element("div", _why(step), _rule(step), class_="beside"),
            None if alone else _whole(step, number),
            class_="inside",
        ),
        id=f"step-{number}",
        class_="step",
        open=alone,
        data_stop=True,
    )


def _parts(step: StepTrace) -> Html:
    """Return the rewritten subterm before and after the step, next to each other if narrow enough."""
    old, new = (subterm_text(program, step.path, step.names) for program in (step.before, step.after))
    deleted, inserted = compare(old, new)
    narrow = max(map(len, (*old.split("\n"), *new.split("\n")))) <= NARROW
    return element(
        "div",
        _panel("before", None, pre(old, deleted, label="the part before")),
        _panel("after", None, pre(new, inserted, label="the part after")),
        class_="change pair" if narrow else "change",
    )


def _why(step: StepTrace) -> Html:
    """Return the reason for each premise, and the arguments of the rule."""
    reasons: list[Child] = [
        element(
            "li",
            element("code", reason.premise),
            element("span", f" {reason.how}", class_="how"),
            element("p", "where ", element("code", reason.known), class_="quiet") if reason.known else None,
        )
        for reason in step.reasons
    ]
    premises: Child = element("ul", reasons, class_="reasons") if reasons else element("p", "The rule has no premises.")
    arguments = [
        element("div", element("dt", name), element("dd", element("code", value))) for name, value in step.arguments
    ]
    return element(
        "section",
        element("h3", "Why it holds here"),
        premises,
        element("details", element("summary", "with"), element("dl", arguments)) if arguments else None,
        class_="card",
    )


def _rule(step: StepTrace) -> Html:
    left, right = step.equation
    source = " · ".join(filter(None, (step.family, step.source)))
    return element(
        "section",
        element("h3", "The rule ", element("code", step.rule)),
        element(
            "pre",
            element("code", f"{left}\n  =  {right}"),
            class_="equation",
            tabindex=0,
            role="group",
            aria_label="its equation",
        ),
        element("p", "given ", [[", " if at else None, element("code", each)] for at, each in enumerate(step.premises)])
        if step.premises
        else None,
        element("p", source, class_="quiet") if source else None,
        element("p", step.status, class_="status"),
        class_="card",
    )


def _whole(step: StepTrace, number: int) -> Html:
    """Return the whole program after one of several steps, with the new subterm marked."""
    text, spans = text_with_subterm(step.after, step.path)
    return element(
        "details",
        element("summary", "The whole program after this step"),
        pre(text, spans, label=f"the program after step {number}", colours=False),
        class_="whole",
    )
