"""The HTML page of a derivation."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

import atl
from atl.errors import ATLError
from atl.files.atomic import as_path, write_text
from atl.html.code import code_section, trace_code
from atl.html.pictures import new_truncations
from atl.html.programs import pre, text_of
from atl.html.steps import call_section, counted
from atl.text.markup import Child, Html, element, visible
from atl.text.printing import show_predicate
from lowering import GpuKernel, Kernel
from rewrites import ProofTrace, Theorem, proof_trace

_HELP: Final = (
    ("j  ↓", "to the next call, or the next open step"),
    ("k  ↑", "to the previous one"),
    ("o  Enter", "fold or unfold a step, or the steps of a call"),
    ("e", "unfold or fold everything"),
    ("/", "search: rules, laws, calls, premises, programs"),
    ("n  N", "to the next or previous match"),
    ("g  G", "to the beginning, or to the code"),
    ("t", "theme: light, dark, or that of the system"),
    ("?", "show these keys"),
    ("Esc", "close this, or leave the search"),
)


_CLAIM: Final = (
    "The program below and the one at the end have the same shape and the same values, for all sizes and arrays"
)


def page(theorem: Theorem, *, kernel: Kernel | GpuKernel | None = None, target: str | None = None) -> str:
    """Return the HTML page of a derivation.

    The page shows the program after each call with the changes marked, and the rule of each step with the reasons why
    its premises hold. It draws what truncations drop. At the end is the code, with each loop linked to its binder.

    The code is that of `kernel`, or that of the right side compiled for `target`. The default target is CUDA if the
    program has GPU marks, and C otherwise. No compiler is needed. If the program has no code, the
    page contains the error.

    The page loads no other files, and its policy allows only its own script. Raise `InvalidArgument` if `theorem` is
    not a theorem, or `kernel` is not a kernel of its right side.
    """
    proof = proof_trace(theorem)
    traced = trace_code(proof.end, kernel, target)
    style, script = _part("page.css"), _part("page.js")
    only = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    policy = f"default-src 'none'; {only}; base-uri 'none'; form-action 'none'"
    title = f"{visible(proof.start.name)}: a derivation"
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
        _bar(proof),
        element(
            "div",
            _contents(proof),
            element(
                "main",
                _statement(proof),
                _calls(proof),
                code_section(traced),
                _footer(),
                id="main",
                tabindex=-1,
            ),
            class_="sheet",
        ),
        _help(),
        element("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en').text}\n"


class PageError(ATLError, OSError):
    """A page could not be written to its file."""

    code = "ATL717"


def write(
    theorem: Theorem,
    path: str | os.PathLike[str],
    *,
    kernel: Kernel | GpuKernel | None = None,
    target: str | None = None,
) -> None:
    """Write the page of a derivation to a file atomically, as `theorem.to_html(path)` does.

    The other arguments are those of `page`. Raise what `page` raises, and `PageError`.

    >>> import atl, tempfile, pathlib
    >>> from rewrites import reschedule
    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] * 2"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(s.rw("mul_comm").done(), pathlib.Path(folder) / "f.html")
    ...     (pathlib.Path(folder) / "f.html").read_text(encoding="utf-8")[:15]
    '<!DOCTYPE html>'
    """
    file = as_path(path, refused=PageError, like="x.html")
    write_text(file, page(theorem, kernel=kernel, target=target), refused=PageError)


@lru_cache
def _part(name: str) -> str:
    text = files("atl.html").joinpath(name).read_text(encoding="utf-8")
    assert "</" not in text  # the text is inserted without escaping
    return text


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _bar(proof: ProofTrace) -> Html:
    return element(
        "header",
        element(
            "p", element("b", proof.start.name), element("span", " · a derivation", class_="quiet"), class_="brand"
        ),
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
            element("button", "Theme: auto", id="theme", type="button", title="light, dark or that of the system (t)"),
            element("button", "?", id="keys", type="button", aria_label="Keys", aria_haspopup="dialog"),
            class_="tools",
        ),
        class_="bar",
    )


def _contents(proof: ProofTrace) -> Html:
    """Return the list of calls at the side."""
    items: list[Child] = [_item("start", "", "The program", "")]
    for number, call in enumerate(proof.calls, 1):
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


def _statement(proof: ProofTrace) -> Html:
    """Return the theorem's claim with its assumptions, some numbers, and the first program."""
    steps = proof.steps
    given = [show_predicate(assumption) for assumption in proof.start.assumptions]
    tested = sorted({step.rule for step in steps if not step.proved})
    rules = len({step.rule for step in steps})
    graded = (
        f"{counted(rules, 'rule')}, each proved for all sizes"
        if not tested
        else f"{counted(rules, 'rule')}, not all of them proved for all sizes: {', '.join(tested)}"
    )
    facts = [
        f"{counted(len(proof.calls), 'call')}, {counted(len(steps), 'step')}"
        if proof.from_session
        else counted(len(steps), "step"),
        *([graded] if steps else []),
        f"{counted(sum(len(step.reasons) for step in steps), 'premise')} proved",
    ]
    return element(
        "section",
        element("p", "A derivation", class_="eyebrow"),
        element("h1", proof.start.name),
        _unproved_note(proof.unproved),
        element("p", _CLAIM, [" with ", _listed(given)] if given else None, ".", class_="lead"),
        element("ul", [element("li", fact) for fact in facts], class_="facts"),
        element(
            "figure",
            element("figcaption", "the program"),
            pre(text_of(proof.start), label="the program"),
            class_="panel",
        ),
        new_truncations(None, proof.start),
        id="start",
        data_stop=True,
        tabindex=-1,
        aria_label="The theorem",
    )


def _unproved_note(unproved: Sequence[str]) -> Html | None:
    """Return a warning if the theorem depends on unproved rules of the user."""
    if not unproved:
        return None
    each = "a user-defined rule" if len(unproved) == 1 else "user-defined rules"
    does, are = ("does", "is") if len(unproved) == 1 else ("do", "are")
    text = f" {does}: {each} that {are} not proved for all sizes."
    return element("p", element("b", "Not proved. "), "What follows holds if ", _listed(unproved), text, class_="note")


def _listed(texts: Sequence[str]) -> Child:
    return [[", " if at else None, element("code", each)] for at, each in enumerate(texts)]


def _calls(proof: ProofTrace) -> list[Html]:
    out: list[Html] = []
    first = 1
    for number, call in enumerate(proof.calls, 1):
        out.append(call_section(call, number, first))
        first += len(call.steps)
    return out


def _footer() -> Html:
    return element(
        "footer",
        element(
            "p",
            "Every step is an instance of a rule whose premises were proved at that place by the kernel of ATL "
            f"{atl.__version__}, which alone makes theorems. To check the proof, save a certificate with ",
            element("code", "theorem.save(path)"),
            " and replay it with ",
            element("code", "atl check"),
            ".",
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
