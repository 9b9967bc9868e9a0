"""Loading programs from Python files and modules, for the command line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument, Location, Source

EXPECTED = "path/to/file.py:name or package.module:name"


def load_program(target: str) -> Program:
    """Load the program named by "path/to/file.py:name" or "package.module:name".

    The name is optional if there is only one program. The file is executed. Exceptions other than `ATLError` become an
    `InvalidArgument` with the line that raised them.
    """
    where, _, name = target.rpartition(":")
    if not where:
        where, name = name, ""
    module = load_module(where)
    found = {name: value for name, value in vars(module).items() if isinstance(value, Program)}
    if not name and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    there = f"{where} has the programs {', '.join(found)}" if found else f"{where} has no programs"
    what = vars(module).get(name)
    raise InvalidArgument(
        f"{name} in {where} is a {type(what).__name__}" if what is not None else f"{name} is not defined in {where}",
        required=f"{EXPECTED}; {there}",
        suggestions=(f"write {where}:{next(iter(found))}",)
        if found
        else ('define a program with @atl.program, or with atl.program("name", [inputs], body)',),
    )


def load_module(where: str) -> ModuleType:
    """Execute a Python file, or import a module by its dotted name.

    Its standard output is redirected to standard error, as the command's output may be JSON or C.
    """
    path = Path(where)
    is_file = path.suffix == ".py" or _is_file(path)
    if is_file and not _is_file(path):
        raise InvalidArgument(f"the file {where} does not exist", required=EXPECTED)
    # Search the same folders for imports as Python does for a script.
    before = [*sys.path]
    sys.path.insert(0, str(path.resolve().parent if is_file else Path.cwd()))
    try:
        with redirect_stdout(sys.stderr):
            return _from_file(path) if is_file else importlib.import_module(where)
    except ATLError as error:
        if error.place is None:
            error.place = Location(source=_last_line_of(error, path if is_file else None))
        raise
    except (Exception, SystemExit) as error:
        message = "".join(traceback.format_exception_only(error)).strip()
        raise InvalidArgument(
            f"{where} cannot be loaded: {message}",
            place=Location(source=_last_line_of(error, path if is_file else None)),
            required=EXPECTED,
        ) from error
    finally:
        sys.path[:] = before  # a name in that folder must not hide a module that is imported later


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False  # an invalid file name


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InvalidArgument(f"{path} is not a Python file", required=EXPECTED)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _last_line_of(error: BaseException, path: Path | None) -> Source | None:
    """Return the innermost line of the user's file in the traceback."""
    if path is None:
        return None
    lines = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    return Source(lines[-1][0], lines[-1][1] or 1) if lines else None
