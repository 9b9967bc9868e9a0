"""The page of a derivation."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

import atl
from atl.html.code import code_section, traced_of
from atl.html.elements import Child, Html, element, seen
from atl.html.pictures import truncations_that_came
from atl.html.programs import pre, text_of
from atl.html.steps import call_section, counted
from atl.text.printing import show_predicate
from lowering import GpuKernel, Kernel
from rewrites import ProofTrace, Theorem, proof_trace

_HELP: Final = (
    ("j  ↓", "to the next call, or the next open step"),
    ("k  ↑", "to the one before"),
    ("o  Enter", "fold or unfold the steps of a call, or a step"),
    ("e", "unfold everything, or fold it again"),
    ("/", "search: rules, laws, calls, premises, programs"),
    ("n  N", "to the next, or the last, that was found"),
    ("g  G", "to the beginning, to the code"),
    ("t", "light, dark, or as the system has it"),
    ("?", "these keys"),
    ("Esc", "close this, or leave the search"),
)


_SAYS: Final = (
    "The program below and the one at the end have the same shape and the same values, for all sizes and arrays"
)


def page(theorem: Theorem, *, kernel: Kernel | GpuKernel | None = None, target: str | None = None) -> str:
    """The page of a derivation as text: the program at each call with what changed, the rule of each step and why it
    held, pictures of what is cut off, and the code at the end with each loop tied to its binder.

    The code is that of `kernel`, or what `compile` would make of the right side for `target`: by default CUDA where
    the program has marks for a GPU, else C. No compiler is needed. Where there is no code, the page says why.

    It asks for nothing else, from this machine or the network, and its policy lets it run its own script only.
    Raises `InvalidArgument` for what is no theorem, or a kernel of another program.
    """
    told = proof_trace(theorem)
    traced = traced_of(told.end, kernel, target)
    style, script = _part("page.css"), _part("page.js")
    only = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    policy = f"default-src 'none'; {only}; base-uri 'none'; form-action 'none'"
    title = f"{seen(told.start.name)}: a derivation"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"ATL {atl.__version__}"),
        element("title", title),
        element("style", Html(style)),
    )
    body = element(
        "body",
        element("a", "To the derivation", href="#main", class_="skip"),
        _bar(told),
        element(
            "div",
            _contents(told),
            element(
                "main",
                _statement(told),
                _calls(told),
                code_section(traced),
                _foot(),
                id="main",
                tabindex=-1,
            ),
            class_="sheet",
        ),
        _help(),
        element("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en').text}\n"


@lru_cache
def _part(name: str) -> str:
    text = files("atl.html").joinpath(name).read_text(encoding="utf-8")
    assert "</" not in text  # it stands in an element as it is
    return text


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _bar(told: ProofTrace) -> Html:
    return element(
        "header",
        element("p", element("b", told.start.name), element("span", " · a derivation", class_="quiet"), class_="brand"),
        element(
            "search",
            element("label", "Search", for_="search", class_="unseen"),
            element(
                "input",
                id="search",
                type="search",
                placeholder="Search  /",
                autocomplete="off",
                spellcheck="false",
                aria_describedby="found",
            ),
            element("output", "", id="found", for_="search", aria_live="polite"),
        ),
        element(
            "div",
            element(
                "button", "Unfold", id="unfold", type="button", aria_pressed="false", title="unfold everything (e)"
            ),
            element(
                "button", "Theme: auto", id="theme", type="button", title="light, dark or as the system has it (t)"
            ),
            element("button", "?", id="keys", type="button", aria_label="Keys", aria_haspopup="dialog"),
            class_="tools",
        ),
        class_="bar",
    )


def _contents(told: ProofTrace) -> Html:
    """The list of calls at the side."""
    items: list[Child] = [_item("start", "", "The program", "")]
    for number, call in enumerate(told.calls, 1):
        items.append(_item(f"call-{number}", str(number), call.text, str(len(call.steps)) if call.steps else "–"))
    items.append(_item("code", "", "The code", ""))
    return element(
        "nav",
        element("h2", "Calls", element("span", "steps", class_="quiet")),
        element("ol", items),
        aria_label="Calls",
    )


def _item(anchor: str, number: str, text: str, count: str) -> Html:
    name = element("code", text) if number else element("span", text)
    return element(
        "li",
        element(
            "a",
            element("span", number, class_="number"),
            name,
            element("span", count, class_="quiet count"),
            href=f"#{anchor}",
            title=text,
        ),
    )


def _statement(told: ProofTrace) -> Html:
    """What has been proved, and the program that it began with."""
    steps = told.steps
    given = [show_predicate(assumption) for assumption in told.start.assumptions]
    tested = sorted({step.rule for step in steps if not step.proved})
    rules = len({step.rule for step in steps})
    graded = (
        f"{counted(rules, 'rule')}, each proved for all sizes"
        if not tested
        else f"{counted(rules, 'rule')}, not all of them proved for all sizes: {', '.join(tested)}"
    )
    facts = [
        f"{counted(len(told.calls), 'call')}, {counted(len(steps), 'step')}"
        if told.from_session
        else counted(len(steps), "step"),
        *([graded] if steps else []),
        f"{counted(sum(len(step.reasons) for step in steps), 'premise')} proved in place",
    ]
    return element(
        "section",
        element("p", "A derivation", class_="eyebrow"),
        element("h1", told.start.name),
        _rests_on(told.unproved),
        element("p", _SAYS, [" with ", _listed(given)] if given else None, ".", class_="lead"),
        element("ul", [element("li", fact) for fact in facts], class_="facts"),
        element(
            "figure",
            element("figcaption", "the program"),
            pre(text_of(told.start), label="the program"),
            class_="panel",
        ),
        truncations_that_came(None, told.start),
        id="start",
        data_stop=True,
        tabindex=-1,
        aria_label="The theorem",
    )


def _rests_on(unproved: Sequence[str]) -> Html | None:
    """The mark of a theorem that holds only if rules of the user's own do."""
    if not unproved:
        return None
    each = "a rule" if len(unproved) == 1 else "rules"
    does, are = ("does", "is") if len(unproved) == 1 else ("do", "are")
    said = f" {does}: {each} of the user's own that {are} not proved for all sizes."
    return element("p", element("b", "Not proved. "), "What follows holds if ", _listed(unproved), said, class_="note")


def _listed(texts: Sequence[str]) -> Child:
    return [[", " if at else None, element("code", each)] for at, each in enumerate(texts)]


def _calls(told: ProofTrace) -> list[Html]:
    out: list[Html] = []
    first = 1
    for number, call in enumerate(told.calls, 1):
        out.append(call_section(call, number, first))
        first += len(call.steps)
    return out


def _foot() -> Html:
    return element(
        "footer",
        element(
            "p",
            "Every step is an instance of a rule whose premises were proved at that place by the kernel of ATL "
            f"{atl.__version__}, which alone makes theorems. This page shows what was proved; the certificate, ",
            element("code", "theorem.save(path)"),
            ", is what ",
            element("code", "atl check"),
            " proves once more.",
        ),
    )


def _help() -> Html:
    keys = [
        element("div", element("dt", [element("kbd", key) for key in keys.split()]), element("dd", what))
        for keys, what in _HELP
    ]
    return element(
        "dialog",
        element("h2", "Keys", id="help-title"),
        element("dl", keys),
        element("form", element("button", "Close", type="submit"), method="dialog"),
        id="help",
        aria_labelledby="help-title",
    )
