"""Properties that compiled programs of all targets share: their parts, copies and displays."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final, Self

from atl.core.program import Program
from atl.errors import InvalidArgument, NoSuchAttribute, brief, did_you_mean
from atl.text.latex import formula
from atl.text.printing import show_program


class Compiled:
    """A compiled program. A copy of it is the object itself, which may be bound to code in this process."""

    def __init__(self, program: Program) -> None:
        self.program: Final = program
        """The program, with the sizes fixed that were passed to `compile`."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):
                raise AttributeError(name)
            known = [each for each in dir(self) if not each.startswith("_")]
            raise NoSuchAttribute(
                f"a {type(self).__name__} has no {name}",
                required=f"one of {', '.join(known)}",
                suggestions=did_you_mean(name, known),
            )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> Self:
        return self

    def __repr__(self) -> str:
        inputs = ", ".join(f"{array.name}{list(array.shape)}" for array in self.program.inputs)
        return f"<{type(self).__name__} {self.program.name}({inputs})>"


def check_parts(made_by: str, *parts: tuple[object, type]) -> None:
    """Raise `InvalidArgument` if a part of a kernel has another class than it must have."""
    for value, kind in parts:
        if not isinstance(value, kind):
            raise InvalidArgument(f"a kernel of {brief(value)}", required=f"a program: {made_by} makes a kernel")


def kernel_html(program: Program, language: str, source: str) -> str:
    """Return the HTML of a kernel: its program, and its text in this language."""
    meaning = formula(program)
    shown = html.escape(show_program(program, abridge=True) if meaning is None else meaning)
    head = f"<pre>{shown}</pre>" if meaning is None else f'<div class="atl-formula">{shown}</div>'
    lines = source.count("\n")
    summary = f"<summary><i>{language}, {lines} lines</i></summary>"
    return f'<div class="atl-kernel">{head}<details>{summary}<pre>{html.escape(source)}</pre></details></div>'
