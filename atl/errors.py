"""Every failure that a user can cause, each a subclass of `ATLError` and of the builtin one would expect.

An error has up to five parts: a stable code, the place (a caret in the printed term, and the user's own source
line), what was required, concrete numbers that break it, and suggestions that apply there.
"""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

_ROOMS = tuple(
    str(Path(__file__).resolve().parent.parent / room) + "/"
    for room in ("atl", "padtypes", "layouts", "rewrites", "lowering", "sparse")
)
_COMMANDS = str(Path(__file__).resolve().parent.parent / "commands") + "/"


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's own code."""

    file: str
    line: int

    @staticmethod
    def caller() -> Source | None:
        """The nearest line on the call stack that is not part of this library."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.startswith(_COMMANDS):
                return None  # whoever gave the command has written no line of Python
            if not frame.f_code.co_filename.startswith(_ROOMS):
                return Source(frame.f_code.co_filename, frame.f_lineno)
            if frame.f_back is None:
                return None
            frame = frame.f_back
        return None

    def text(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{_called(self.file)}:{self.line}"


def _called(file: str) -> str:
    """What a person calls a file of Python: a cell of a notebook by its number, for the file's name is of one run."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)  # not there yet while it is being imported
    shell = find() if find is not None else None
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)  # since IPython 8
    named = name_of(file) if name_of is not None else None
    return file if named is None else " ".join(named)


@dataclass(frozen=True, slots=True)
class Location:
    """Where in a program an error is: some printed lines, the part of them meant, and the user's line, if known."""

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
    """A long program is cut to the lines near the carets."""
    marked = [k for k, line in enumerate(lines) if line.strip() and not line.strip().strip("^")]
    if not marked or len(lines) <= 2 * around + 3:
        return lines
    low, high = max(1, marked[0] - around), min(len(lines), marked[0] + around)
    return [lines[0], *(["      …"] if low > 1 else []), *lines[low:high], *(["      …"] if high < len(lines) else [])]


def brief(value: object, most: int = 60, *, kind: bool = False) -> str:
    """A value that was given, in a few characters on one line, whatever it is: for the texts of errors.

    With `kind`, its type stands behind it, unless the value shows that by itself.
    """
    name = type(value).__name__
    try:
        text = shortened(repr(value), most)
    except Exception:  # noqa: BLE001 (another's __repr__, or an integer of thousands of digits)
        text = f"a value of type {name}"
    return f"{text} ({name})" if kind and name not in text else text


def shortened(text: str, most: int) -> str:
    """A text on one line, of so many characters at most."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


class ATLError(Exception):
    """The base of every error that this library raises for a mistake in its use.

    `required` says what must hold, `numbers` are values that break it, `suggestions` are things to do that apply here;
    `picture` shows it, where a person would rather look.
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
            lines.append(f"  breaks at: {_written(self.numbers)}")
        if self.picture:
            lines.extend(f"      {line}" for line in self.picture.split("\n"))
        lines.extend(f"  try: {suggestion}" for suggestion in self.suggestions)
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the lines of the user's own code that led here, and the message."""
        told = traceback.TracebackException.from_exception(self)
        told.stack[:] = [
            traceback.FrameSummary(_called(frame.filename), frame.lineno, frame.name, line=frame.line)
            for frame in told.stack
            if not frame.filename.startswith(_ROOMS) and "/IPython/" not in frame.filename
        ]
        return "".join(told.format()).rstrip().split("\n")


def _written(numbers: Mapping[str, object] | str) -> str:
    if isinstance(numbers, str):
        return numbers
    return ", ".join(f"{name} = {value}" for name, value in numbers.items())


# -- writing a program ------------------------------------------------------------------------------------------------


class SymbolicValue(ATLError, TypeError):
    """A symbolic thing was used where Python needs a value: `if`, `for`, `range`, a chained comparison, a set."""

    code = "ATL101"


class InvalidArgument(ATLError, TypeError):
    """An argument is of a kind that the operator does not take."""

    code = "ATL102"


class InvalidName(ATLError, ValueError):
    """A name is not an identifier, is reserved, or is given to two different things."""

    code = "ATL103"


class EscapedIndex(ATLError, ValueError):
    """An index or a let-bound tensor is used outside of the operator that binds it."""

    code = "ATL104"


class TooLarge(ATLError, ValueError):
    """A term is deeper or larger than the documented limits; share parts of it with `let`."""

    code = "ATL105"


class ParseError(ATLError, ValueError):
    """A text is not a program."""

    code = "ATL106"


class NoSuchAttribute(ATLError, AttributeError):
    """`atl`, a session, a tensor, an index expression or a condition has no attribute of this name."""

    code = "ATL107"


class UnknownMark(ATLError, ValueError):
    """There is no such mark, or it is one of a loop where one of a let is needed, or the other way round."""

    code = "ATL108"


# -- shapes and types -------------------------------------------------------------------------------------------------


class RankError(ATLError, ValueError):
    """A tensor has too few or too many dimensions for what is done with it."""

    code = "ATL201"


class DtypeError(ATLError, TypeError):
    """Operands of different element types meet, or an element type does not support the operation."""

    code = "ATL202"


class ShapeError(ATLError, ValueError):
    """Two shapes that must be equal are not, or cannot be proved to be."""

    code = "ATL203"


class RaggedShape(ShapeError):
    """The extent of an element depends on its index, so that the elements differ in shape."""

    code = "ATL204"


class ExtentError(ATLError, ValueError):
    """A bound, a tile size, an amount of padding or a divisor is out of its range, or cannot be proved to be in it."""

    code = "ATL205"


class ContradictoryAssumptions(ATLError, ValueError):
    """No sizes meet the assumptions of a program."""

    code = "ATL206"


# -- safety -----------------------------------------------------------------------------------------------------------


class UnsafeAccess(ATLError, IndexError):
    """An access cannot be proved to lie within its tensor."""

    code = "ATL301"


class UnsafeTruncation(ATLError, ValueError):
    """A truncation would cut, or cannot be proved not to cut, a computed element."""

    code = "ATL302"


class UnsafeGuard(ATLError, ValueError):
    """A guard that may be false stands inside of a reduction whose neutral element is not zero."""

    code = "ATL303"


# -- calling ----------------------------------------------------------------------------------------------------------


class ArgumentError(ATLError, TypeError):
    """A call lacks an argument, has one too many, or has one of the wrong kind."""

    code = "ATL401"


class ArrayError(ATLError, ValueError):
    """An array passed to a call has the wrong shape, dtype or memory layout, or breaks a declared fact."""

    code = "ATL402"


class AssumptionError(ATLError, ValueError):
    """The sizes of a call do not meet the assumptions of the program."""

    code = "ATL403"


class OutOfMemory(ATLError, MemoryError):
    """A buffer could not be allocated, or a product of sizes overflows."""

    code = "ATL404"


class NotExact(ATLError, ArithmeticError):
    """An operation has no exact value (a square root, an exponential, …)."""

    code = "ATL405"


class IndexOverflow(ATLError, OverflowError):
    """What a kernel computes for an index, a bound or a condition may not fit into 64 bits with these arguments."""

    code = "ATL406"


# -- building ---------------------------------------------------------------------------------------------------------


class CompilerMissing(ATLError, FileNotFoundError):
    """No C compiler was found."""

    code = "ATL501"


class CompilerFailed(ATLError, RuntimeError):
    """The C compiler refused its input; its own message is shown."""

    code = "ATL502"


class ImageError(ATLError, ValueError):
    """A file is not a picture that can be read."""

    code = "ATL503"


class RefusedMark(ATLError):
    """A mark that is refused where it stands: `binder` is the name of what is marked, `mark` the mark.

    `others` are the marks that were refused with it, which its summary names.
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
    """A target does not carry out a mark, or not where it stands."""

    code = "ATL505"


class IllegalMark(RefusedMark, ValueError):
    """A mark changes what is computed, or it is not proved that it does not.

    Iterations of a loop that run at once meet in a cell; or what is read of a let lies in no window, of which it could
    be a ring.
    """

    code = "ATL506"


class GpuMissing(ATLError, RuntimeError):
    """A kernel for a GPU is called where something of what that takes is missing."""

    code = "ATL507"


class CudaError(ATLError, RuntimeError):
    """A call of CUDA failed: `name` is CUDA's name for what went wrong, `number` its number."""

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
    """The sizes of a call give a loop of blocks more iterations than a grid has blocks along its axis."""

    code = "ATL509"


class LibraryMissing(ATLError, ImportError):
    """What is asked for needs a library that is not installed."""

    code = "ATL510"


class ForkedProcess(ATLError, RuntimeError):
    """A kernel with parallel loops is called in a process that was forked after such a kernel had run."""

    code = "ATL511"
