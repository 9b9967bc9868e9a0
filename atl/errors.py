"""Exceptions for every failure that a user can cause: subclasses of `ATLError` and of a suitable builtin exception.

An error has up to five parts: a stable code, a location (carets in the printed term, and the line of user code), the
requirement, numbers that violate the requirement, and suggestions that apply at this location.
"""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

_PACKAGES = tuple(
    str(Path(__file__).resolve().parent.parent / package) + "/"
    for package in ("atl", "padtypes", "layouts", "rewrites", "lowering", "sparse", "gradients")
)
_COMMANDS = str(Path(__file__).resolve().parent / "cli") + "/"


@dataclass(frozen=True, slots=True)
class Source:
    """A line of user code."""

    file: str
    line: int

    @staticmethod
    def caller() -> Source | None:
        """Return the innermost line on the call stack that is outside this library."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.startswith(_COMMANDS):
                return None  # a shell command has no line of Python
            if not frame.f_code.co_filename.startswith(_PACKAGES):
                return Source(frame.f_code.co_filename, frame.f_lineno)
            if frame.f_back is None:
                return None
            frame = frame.f_back
        return None

    def text(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{_display_name(self.file)}:{self.line}"


def _display_name(file: str) -> str:
    """Return the display name of a Python file; for a cell of a notebook, its number."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)  # missing while IPython is being imported
    shell = find() if find is not None else None
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)  # since IPython 8
    named = name_of(file) if name_of is not None else None
    return file if named is None else " ".join(named)


@dataclass(frozen=True, slots=True)
class Location:
    """Location of an error: printed lines of a program, the marked range in them, and the user's line if known."""

    text: str = ""
    start: int = 0
    stop: int = 0
    source: Source | None = None

    def __str__(self) -> str:
        lines: list[str] = []
        if self.source is not None:
            lines.append(f"  at {self.source}")
            if written := self.source.text():
                lines.append(f"      {written}")
        if self.text:
            lines.extend(self._with_carets())
        return "\n".join(lines)

    def _with_carets(self) -> list[str]:
        out = ["  in"]
        offset = 0
        for line in self.text.split("\n"):
            low, high = max(self.start - offset, 0), min(self.stop - offset, len(line))
            marked = low < high
            out.append(f"      {line}")
            if marked:
                body = line[low:high]
                indent = len(body) - len(body.lstrip())
                out.append("      " + " " * (low + indent) + "^" * len(body.strip()))
            offset += len(line) + 1
        return _excerpt(out)


def _excerpt(lines: list[str], around: int = 4) -> list[str]:
    """Cut a long program to the lines near the carets."""
    marked = [k for k, line in enumerate(lines) if line.strip() and not line.strip().strip("^")]
    if not marked or len(lines) <= 2 * around + 3:
        return lines
    low, high = max(1, marked[0] - around), min(len(lines), marked[0] + around)
    return [lines[0], *(["      …"] if low > 1 else []), *lines[low:high], *(["      …"] if high < len(lines) else [])]


def brief(value: object, most: int = 60, *, kind: bool = False) -> str:
    """Return a one-line text of at most `most` characters for an arbitrary value in an error message.

    With `kind`, the type follows in parentheses, unless the text contains the type's name.
    """
    name = type(value).__name__
    try:
        text = shortened(repr(value), most)
    except Exception:  # noqa: BLE001 (a faulty __repr__, or an integer of thousands of digits)
        text = f"a value of type {name}"
    return f"{text} ({name})" if kind and name not in text else text


def shortened(text: str, most: int) -> str:
    """Return the text on one line, cut to `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def did_you_mean(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return a suggestion of the known names that are similar to this one, if there are any."""
    near = get_close_matches(name, list(dict.fromkeys(each for each in known if each != name)), 3, 0.5)
    return (f"did you mean {' or '.join(near)}?",) if near else ()


class ATLError(Exception):
    """Base class of the errors that this library raises for incorrect use.

    `required` is the violated requirement, `numbers` are values that violate it, `suggestions` are remedies that apply
    at this location, and `picture` is an optional drawing of the problem.
    """

    code: ClassVar[str] = "ATL000"

    def __init__(
        self,
        summary: str,
        *,
        place: Location | None = None,
        required: str | None = None,
        numbers: Mapping[str, object] | str | None = None,
        suggestions: tuple[str, ...] = (),
        picture: str | None = None,
    ) -> None:
        self.picture = picture
        self.summary = summary
        self.place = place
        self.required = required
        self.numbers = numbers
        self.suggestions = suggestions
        super().__init__(summary)

    def __str__(self) -> str:
        lines = [f"{self.summary} [{self.code}]"]
        if self.place is not None and (place := str(self.place)):
            lines.append(place)
        if self.required:
            lines.append(f"  required: {self.required}")
        if self.numbers:
            lines.append(f"  breaks at: {_assignments(self.numbers)}")
        if self.picture:
            lines.extend(f"      {line}" for line in self.picture.split("\n"))
        lines.extend(f"  try: {suggestion}" for suggestion in self.suggestions)
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that a notebook shows: only lines of user code, and the message."""
        shown = traceback.TracebackException.from_exception(self)
        shown.stack[:] = [
            traceback.FrameSummary(_display_name(frame.filename), frame.lineno, frame.name, line=frame.line)
            for frame in shown.stack
            if not frame.filename.startswith(_PACKAGES) and "/IPython/" not in frame.filename
        ]
        return "".join(shown.format()).rstrip().split("\n")


def _assignments(numbers: Mapping[str, object] | str) -> str:
    if isinstance(numbers, str):
        return numbers
    return ", ".join(f"{name} = {value}" for name, value in numbers.items())


# -- writing a program ------------------------------------------------------------------------------------------------


class SymbolicValue(ATLError, TypeError):
    """A symbolic value is used where Python needs a concrete one: `if`, `for`, `range`, chained comparison, set."""

    code = "ATL101"


class InvalidArgument(ATLError, TypeError):
    """An operator does not accept an argument of this kind."""

    code = "ATL102"


class InvalidName(ATLError, ValueError):
    """A name is not an identifier, is reserved, or is used for two different objects."""

    code = "ATL103"


class EscapedIndex(ATLError, ValueError):
    """An index or a let-bound tensor is used outside of the operator that binds it."""

    code = "ATL104"


class TooLarge(ATLError, ValueError):
    """A term exceeds the documented limits of depth or size. Binding repeated parts with `let` makes it smaller."""

    code = "ATL105"


class ParseError(ATLError, ValueError):
    """A text is not a program."""

    code = "ATL106"


class NoSuchAttribute(ATLError, AttributeError):
    """`atl`, a session, a kernel, a tensor, an index expression or a condition has no attribute of this name."""

    code = "ATL107"


class UnknownMark(ATLError, ValueError):
    """A mark does not exist, or a loop mark is used for a let, or a let mark for a loop."""

    code = "ATL108"


# -- shapes and types -------------------------------------------------------------------------------------------------


class RankError(ATLError, ValueError):
    """A tensor has too few or too many dimensions for an operation."""

    code = "ATL201"


class DtypeError(ATLError, TypeError):
    """Operands have different element types, or an element type does not support the operation."""

    code = "ATL202"


class ShapeError(ATLError, ValueError):
    """Two shapes must be equal, but differ or cannot be proved equal."""

    code = "ATL203"


class RaggedShape(ShapeError):
    """The shape of an element depends on its index."""

    code = "ATL204"


class ExtentError(ATLError, ValueError):
    """A bound, tile size, amount of padding or divisor is out of range, or cannot be proved in range."""

    code = "ATL205"


class ContradictoryAssumptions(ATLError, ValueError):
    """No sizes satisfy the assumptions of a program."""

    code = "ATL206"


# -- safety -----------------------------------------------------------------------------------------------------------


class UnsafeAccess(ATLError, IndexError):
    """An access cannot be proved in bounds."""

    code = "ATL301"


class UnsafeTruncation(ATLError, ValueError):
    """A truncation drops a computed element, or cannot be proved to drop only padding."""

    code = "ATL302"


class UnsafeGuard(ATLError, ValueError):
    """The body of a reduction whose neutral element is not zero contains padding, for example from a guard."""

    code = "ATL303"


# -- calling ----------------------------------------------------------------------------------------------------------


class ArgumentError(ATLError, TypeError):
    """A call has a missing argument, an extra argument, or an argument of the wrong kind."""

    code = "ATL401"


class ArrayError(ATLError, ValueError):
    """An array passed to a call has the wrong shape, dtype or memory layout, or violates a declared fact."""

    code = "ATL402"


class AssumptionError(ATLError, ValueError):
    """The sizes of a call do not satisfy the assumptions of the program."""

    code = "ATL403"


class OutOfMemory(ATLError, MemoryError):
    """A buffer could not be allocated, or a product of sizes overflows."""

    code = "ATL404"


class NotExact(ATLError, ArithmeticError):
    """An operation, such as a square root, has no exact value."""

    code = "ATL405"


class IndexOverflow(ATLError, OverflowError):
    """With these arguments, a computed index, bound or condition may not fit into 64 bits."""

    code = "ATL406"


# -- building ---------------------------------------------------------------------------------------------------------


class CompilerMissing(ATLError, FileNotFoundError):
    """No C compiler was found."""

    code = "ATL501"


class CompilerFailed(ATLError, RuntimeError):
    """The C compiler failed; the error shows the compiler's message."""

    code = "ATL502"


class ImageError(ATLError, ValueError):
    """A file is not a readable image."""

    code = "ATL503"


class RefusedMark(ATLError):
    """Base class for a mark that cannot be applied: `binder` is the name of the marked loop or let, `mark` the mark.

    `others` are errors for further marks, which the summary names.
    """

    def __init__(
        self,
        summary: str,
        *,
        binder: str,
        mark: str,
        place: Location | None = None,
        required: str | None = None,
        numbers: Mapping[str, object] | None = None,
        suggestions: tuple[str, ...] = (),
    ) -> None:
        super().__init__(summary, place=place, required=required, numbers=numbers, suggestions=suggestions)
        self.binder = binder
        self.mark = mark
        self.others: tuple[RefusedMark, ...] = ()


class UnsupportedMark(RefusedMark, NotImplementedError):
    """A target does not support a mark, or does not support it at this place."""

    code = "ATL505"


class IllegalMark(RefusedMark, ValueError):
    """A mark changes the result, or cannot be proved to keep it.

    For example, concurrent iterations of a loop access one element (data race), or the reads of a let do not fit into
    the window of a circular buffer.
    """

    code = "ATL506"


class NotAssembled(ATLError, ValueError):
    """The result of a program cannot be assembled as a sparse tensor, such as one of which every element is stored."""

    code = "ATL513"


class MeshError(ATLError, ValueError):
    """The mesh of a distributed program does not have the axes or the number of ranks that the program needs."""

    code = "ATL517"


class IllegalExchange(ATLError, ValueError):
    """A rank reads elements that another rank holds, and no exchange can send them."""

    code = "ATL518"


class DistributedFailure(ATLError, RuntimeError):
    """A run on several ranks failed: a rank raised an error or ended, or two ranks disagree about an exchange.

    `rank` is the number of the rank that failed, if it is known.
    """

    code = "ATL519"

    def __init__(
        self,
        summary: str,
        *,
        rank: int | None = None,
        required: str | None = None,
        numbers: Mapping[str, object] | None = None,
        suggestions: tuple[str, ...] = (),
    ) -> None:
        super().__init__(summary, required=required, numbers=numbers, suggestions=suggestions)
        self.rank = rank


class NoInstruction(ATLError, ValueError):
    """A target computes by its instructions only, and none of them computes these loops."""

    code = "ATL520"


class GpuMissing(ATLError, RuntimeError):
    """A GPU kernel is called without a usable GPU, driver or compiler."""

    code = "ATL507"


class CudaError(ATLError, RuntimeError):
    """A CUDA call failed: `name` is CUDA's name of the error, `number` its number."""

    code = "ATL508"

    def __init__(
        self,
        summary: str,
        *,
        name: str,
        number: int,
        required: str | None = None,
        suggestions: tuple[str, ...] = (),
    ) -> None:
        super().__init__(summary, required=required, suggestions=suggestions)
        self.name = name
        self.number = number


class GridTooLarge(ATLError, ValueError):
    """A loop over blocks has more iterations than the grid has blocks along this axis."""

    code = "ATL509"


class LibraryMissing(ATLError, ImportError):
    """An operation needs a library that is not installed."""

    code = "ATL510"


class ForkedProcess(ATLError, RuntimeError):
    """A kernel with parallel loops is called in a process that was forked after such a kernel ran."""

    code = "ATL511"


class KernelCrashed(ATLError, RuntimeError):
    """A run of a kernel in a child process, in which `autotune` limits its time, was ended by a signal."""

    code = "ATL512"


class NoErrorBound(ATLError, ArithmeticError):
    """The rounding error of a kernel has no bound, such as where a comparison of rounded numbers decides."""

    code = "ATL514"


class NotInSubset(ATLError, NotImplementedError):
    """C text has a statement that is outside of the subset which is validated."""

    code = "ATL515"


class TextDiffers(ATLError, ValueError):
    """C text computes another result than its program, or has an invalid access."""

    code = "ATL516"
