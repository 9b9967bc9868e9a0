"""A session as a Python file: its calls as they were made, where these lead to the same goal again."""

from __future__ import annotations

from atl.cli.interactive.words import call_in
from atl.core.program import Program
from atl.errors import ATLError
from atl.parsing.parse import parse
from atl.text.printing import show_program
from rewrites import Session, Theorem, reschedule


def script(s: Session) -> str:
    """A script that derives the theorem again, ending with `theorem = s.done()`.

    It has the calls of the session, if these, made anew from the printed program, come to the same goal; otherwise the
    steps of the kernel one by one.
    """
    theorem = s.done()
    calls = [call.text for call in s.steps]
    again = _replayed(theorem, calls)
    if again is None or show_program(again) != show_program(theorem.rhs) or again.body != theorem.rhs.body:
        return theorem.as_python()
    program = show_program(theorem.lhs)
    literal = repr(program) if "\\" in program or '"""' in program else f'"""\n{program}\n"""'
    lines = [
        "import atl",
        "from rewrites import reschedule",
        "",
        f"start = atl.parse({literal})",
        "s = reschedule(start)",
    ]
    return "\n".join([*lines, *(f"s.{call}" for call in calls), "theorem = s.done()", ""])


def _replayed(theorem: Theorem, calls: list[str]) -> Program | None:
    """The goal that these calls come to, each read as it is written."""
    try:
        again = reschedule(parse(show_program(theorem.lhs)))
        for call in calls:
            call_in(f"s.{call}").made(again)
    except ATLError:
        return None
    return again.goal
