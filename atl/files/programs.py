"""Finding a program in a Python file or an importable module, for the command line."""

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

WRITTEN = "path/to/file.py:name or package.module:name"


def program_in(target: str) -> Program:
    """The program that "path/to/file.py:name" or "package.module:name" names; a lone program needs no name.

    The file is run. What it raises, other than an `ATLError`, is told by a `InvalidArgument`, with the line that did it.
    """
    where, _, name = target.rpartition(":")
    if not where:
        where, name = name, ""
    module = module_in(where)
    found = {name: value for name, value in vars(module).items() if isinstance(value, Program)}
    if not name and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    there = f"{where} has the programs {', '.join(found)}" if found else f"{where} has no programs"
    what = vars(module).get(name)
    raise InvalidArgument(
        f"{name} in {where} is a {type(what).__name__}" if what is not None else f"{target} names no program",
        required=f"{WRITTEN}; {there}",
        suggestions=(f"write {where}:{next(iter(found))}",)
        if found
        else ('a program is made by @atl.program, or by atl.program("name", [inputs], body)',),
    )


def module_in(where: str) -> ModuleType:
    """The module that a path to a Python file, or a dotted name, means: the file is run, the module imported.

    What it prints goes to the errors' stream: the output is that of the command, which may be JSON or C.
    """
    path = Path(where)
    is_file = path.suffix == ".py" or _is_file(path)
    if is_file and not _is_file(path):
        raise InvalidArgument(f"there is no file {where}", required=WRITTEN)
    # As if the file were run, or the module imported, from a script of the user's.
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
        said = "".join(traceback.format_exception_only(error)).strip()
        raise InvalidArgument(
            f"{where} cannot be loaded: {said}",
            place=Location(source=_last_line_of(error, path if is_file else None)),
            required=WRITTEN,
        ) from error
    finally:
        sys.path[:] = before  # a name in that folder must not hide a module that is imported later


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False  # no file has such a name


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InvalidArgument(f"{path} is no Python file", required=WRITTEN)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _last_line_of(error: BaseException, path: Path | None) -> Source | None:
    """The innermost line of the user's file that the error came through."""
    if path is None:
        return None
    lines = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    return Source(lines[-1][0], lines[-1][1] or 1) if lines else None
