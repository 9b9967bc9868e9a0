"""Writer of docs/errors.md: `python -m proofs_tests.errors.catalogue > docs/errors.md`."""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import indent
from typing import Final

from atl.errors import ATLError
from proofs_tests.errors.entry import PRELUDE, Entry, refusal
from proofs_tests.errors.of_building import OF_BUILDING
from proofs_tests.errors.of_language import OF_LANGUAGE
from proofs_tests.errors.of_layouts import OF_LAYOUTS
from proofs_tests.errors.of_rewriting import OF_REWRITING

ENTRIES: Final = tuple(sorted((*OF_LANGUAGE, *OF_BUILDING, *OF_LAYOUTS, *OF_REWRITING), key=lambda entry: entry.code))
DECLARED_IN: Final = (
    "atl.errors", "bench.errors", "layouts.errors", "lowering.nest.execution", "atl.html.document", "rewrites.errors",
    "sparse.errors",
)  # fmt: skip
"""Modules that declare errors. A test checks that the list is complete."""

_HUNDREDS: Final = {
    "ATL1": "Writing a program",
    "ATL2": "Shapes and types",
    "ATL3": "Safety",
    "ATL4": "Calling",
    "ATL5": "Building, marks, GPUs",
    "ATL60": "The interpreter of loop nests",
    "ATL65": "Layouts",
    "ATL7": "Rewriting",
    "ATL8": "The benchmark (in a checkout)",
    "ATL9": "Sparse tensors",
}
_MACHINE: Final = (
    (re.compile(r"found: .*"), "found: …"),
    (re.compile(r"the C compiler /\S+ \(.*?\) (?=ended|gave|refused|failed|exited)"), "the C compiler … "),
    (re.compile(r"(      > .*\n)+"), "      > …\n"),
    (re.compile(r"required: .* -c answer\.c.*"), "required: …"),
)
"""Parts of a message that depend on the machine."""

_HEAD: Final = """\
# Errors

Every error that this library raises for incorrect use is an `atl.ATLError`, and the builtin error that a Python
user expects. It has a code, the place, the violated requirement, numbers that violate it, and suggestions. A test
raises each of these errors and applies its correction. The errors of the language are names of `atl`, such as
`atl.UnsafeAccess`; the others are in `rewrites.errors`, `layouts` and `sparse`. Each example begins with these
lines:

"""


def classes() -> dict[str, type[ATLError]]:
    """Return the errors that have a code, by code."""
    found: dict[str, type[ATLError]] = {}
    for module in DECLARED_IN:
        for value in vars(import_module(module)).values():
            if (
                isinstance(value, type)
                and issubclass(value, ATLError)
                and "code" in vars(value)
                and value is not ATLError
            ):
                assert found.setdefault(value.code, value) is value, value.code
    return dict(sorted(found.items()))


def shown(found: ATLError) -> str:
    """Return a message without the parts that depend on the machine."""
    text = str(found)
    for of_machine, said in _MACHINE:
        text = of_machine.sub(said, text)
    return text


def message(entry: Entry) -> str:
    """Return the message of an example."""
    with tempfile.TemporaryDirectory() as folder:
        found = refusal(entry, Path(folder))
    return "it is not refused" if found is None else shown(found)


def page(messages: dict[str, str]) -> str:
    """Return the page of all errors, for messages by code."""
    return "".join(_parts(messages))


def _parts(messages: dict[str, str]) -> Iterator[str]:
    yield f"{_HEAD}{_set_off(PRELUDE)}"
    of = classes()
    title = ""
    for entry in ENTRIES:
        if (under := next(name for start, name in _HUNDREDS.items() if entry.code.startswith(start))) != title:
            title = under
            yield f"\n## {title}\n"
        error = of[entry.code]
        also = [base.__name__ for base in error.__mro__ if base.__module__ == "builtins"]
        builtins = "".join(f" (`{name}`)" for name in also[:1] if name != "Exception")
        yield f"\n### {entry.code} {error.__name__}{builtins}\n\n{_plain(inspect.getdoc(error) or '')}\n"
        yield f"\n{_set_off(entry.example)}\nraises:\n\n{_set_off(messages[entry.code])}"
        yield f"\nCorrection: {entry.remedy}.\n"


def _set_off(text: str) -> str:
    return indent(text.rstrip("\n"), "    ") + "\n"


def _plain(text: str) -> str:
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_])", r"\\\\\1", part) for part in parts)


def main() -> None:
    """Print the page."""
    sys.stdout.write(page({entry.code: message(entry) for entry in ENTRIES}))


if __name__ == "__main__":
    main()
