"""HTML of kernels for notebooks: the program as a formula, and the folded text of the kernel."""

from __future__ import annotations

import html

from atl.core.program import Program
from atl.text.latex import formula
from atl.text.printing import show_program


def kernel_html(program: Program, language: str, source: str) -> str:
    """Return the HTML of a kernel: its program, and its text in this language."""
    meaning = formula(program)
    shown = html.escape(show_program(program, abridge=True) if meaning is None else meaning)
    head = f"<pre>{shown}</pre>" if meaning is None else f'<div class="atl-formula">{shown}</div>'
    lines = source.count("\n")
    summary = f"<summary><i>{language}, {lines} lines</i></summary>"
    return f'<div class="atl-kernel">{head}<details>{summary}<pre>{html.escape(source)}</pre></details></div>'
