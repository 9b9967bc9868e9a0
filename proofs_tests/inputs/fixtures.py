"""Fixtures of `atl fuzz inputs`: valid programs, sessions, kernels and files, and unusual objects.

A case is the text of a Python expression over the names of this module, so that it can be repeated as it is printed:
`from proofs_tests.inputs.fixtures import *`. Functions that read damaged bytes compare the result with an independent
reader and raise `Unnoticed` if damage was accepted.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import math
import operator
import os
import runpy
import sys
import tempfile
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import atl
import layouts
import lowering
import padtypes
import rewrites
import sparse
from atl.files import programs
from atl.files.arrays import parse_values
from lowering import builds
from rewrites.certificates.certificate import dumps
from rewrites.tactics import TACTICS

n, m, k = atl.sizes("n"), atl.sizes("m"), atl.sizes("k", min=1)
x, y, A = atl.tensor("x", n), atl.tensor("y", n), atl.tensor("A", n, m, dtype="float64")
u = atl.tensor("u", m, dtype="int64", range=(0, n))
c = atl.tensor("c")

doubled = atl.program("doubled", [x], atl.gen(n, lambda i: 2 * x[i]))
staged = atl.program(
    "staged",
    [x],
    atl.let(atl.gen(n, lambda j: 2 * x[j]), lambda buf: atl.gen(n, lambda i: atl.guard(i >= 1, buf[i - 1]) + buf[i])),
)
rows = atl.program("rows", [A], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j])))
scaled = atl.program("scaled", [x, c], atl.sum(n, lambda j: c * x[j]))
gathered = atl.program("gathered", [x, u, c], atl.gen(m, lambda i: c * x[u[i]]))
tiled = atl.program("tiled", [x], atl.truncr(atl.ceildiv(n, k) * k - n, atl.flatten(atl.split(k, x))))
copied = atl.program("copied", [A], atl.gen(n, m, lambda i, j: 2.0 * A[i, j]))
PROGRAMS: Final = (doubled, staged, rows, gathered, tiled)
TEXTS: Final = tuple(map(str, PROGRAMS))

nest = lowering.lower(rows)
padset = padtypes.infer(tiled)[()]
picture = padtypes.draw(tiled, sizes={"n": 5, "k": 2})
rule = rewrites.rules["get_gen"]
packed = sparse.pack(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]]), sparse.CSR)
layout = layouts.Layout((4, 8), (1, 4))


class Unnoticed(Exception):
    """Damage that was accepted."""


class Mute:
    """Object that cannot be printed."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Text(str):
    """Subclass of `str`."""

    __slots__ = ()


class Whole(int):
    """Subclass of `int`."""


def lists(depth: int) -> list[Any]:
    """Return nested lists."""
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


def looped() -> list[Any]:
    """Return a list that contains itself."""
    made: list[Any] = []
    made.append(made)
    return made


def session(program: atl.Program = staged) -> rewrites.Session:
    return rewrites.reschedule(program)


@cache
def _trunk() -> rewrites.Session:
    return session()


def branch() -> rewrites.Session:
    """Return a new branch of one session."""
    return _trunk().branch()


@cache
def example(tactic: str) -> tuple[str, str]:
    """Return the setup and the call in a tactic's docstring."""
    text = TACTICS[tactic].__doc__ or ""
    lines = [each.source.strip() for each in doctest.DocTestParser().get_examples(text)]
    at = next(at for at, line in enumerate(lines) if line.startswith(f"s.{tactic}("))
    return "\n".join(lines[:at]), lines[at]


def shown(tactic: str) -> rewrites.Session:
    """Return the session of the example in a tactic's docstring."""
    names: dict[str, Any] = {"atl": atl, "reschedule": rewrites.reschedule}
    exec(example(tactic)[0], names)
    made: rewrites.Session = names["s"]
    return made


def handle() -> rewrites.Handle:
    """Return a handle in a new session."""
    return session().find("i")


def gone() -> rewrites.Handle:
    """Return a handle of a place that no longer exists."""
    s = session()
    found = s.find("buf")
    s.rw("unfold_let")
    return found


@cache
def theorem() -> rewrites.Theorem:
    return session().fuse("buf").done()


@cache
def kernel(program: atl.Program = doubled) -> lowering.Kernel:
    return lowering.compile(program)


@cache
def multiplied() -> atl.Program:
    """Return a matrix-vector product with a CSR matrix."""
    v = atl.tensor("v", m, dtype="float64")
    product = atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * v[j]))
    return rewrites.reschedule(atl.program("multiplied", [A, v], product)).sparsify("A", sparse.CSR).goal


@cache
def stored() -> atl.Program:
    """Return a program with a CSR result."""
    return rewrites.reschedule(copied).sparsify("A", sparse.CSR, result=True).goal


@cache
def certificate() -> bytes:
    return dumps(theorem()).encode()


@cache
def array_bytes() -> bytes:
    """Return the bytes of a .npy file."""
    held = io.BytesIO()
    np.save(held, np.arange(6, dtype=np.float32).reshape(2, 3))
    return held.getvalue()


@cache
def record_bytes() -> bytes:
    """Return the bytes of a cache record."""
    path = kernel().path
    return path.with_name(path.name + ".json").read_bytes()


@cache
def folder() -> Path:
    """Return a temporary folder of this process."""
    return Path(tempfile.mkdtemp(prefix="atl-inputs-", dir=os.environ.get("ATL_INPUTS")))


def written(name: str, data: bytes) -> Path:
    """Write a file with these bytes."""
    path = folder() / name
    path.write_bytes(data)
    return path


def within(found: padtypes.PadSet, at: tuple[int, ...]) -> bool:
    """Check if an element is padding where every size is 3."""
    return found.contains(at, lambda leaf: 3)


def read(text: str) -> atl.Program:
    """Parse a program and check that its printed form parses to it."""
    made = atl.parse(text)
    if atl.parse(str(made)) != made:
        raise Unnoticed(f"printed and read back it is another program: {made}")
    return made


def load_certificate(data: bytes) -> object:
    """Load a damaged certificate. Raise `Unnoticed` if the theorem is not the one in the file."""
    loaded = atl.load(written("damaged.atl.json", data))
    try:
        stated = json.loads(data.decode())
        sides = ["\n".join(stated[side]["text"]) for side in ("start", "end")]
    except (ValueError, KeyError, TypeError) as error:
        raise Unnoticed(f"an invalid certificate is loaded: {error}") from None
    if list(map(atl.parse, sides)) != [loaded.lhs, loaded.rhs]:
        raise Unnoticed("the loaded theorem differs from the file")
    return loaded


def load_array(data: bytes) -> object:
    """Read a damaged array as NAME=VALUE. Raise `Unnoticed` if NumPy reads another array, or none."""
    path = written("damaged.npy", data)
    given = parse_values(rows, [f"A={path}"])["A"]
    try:
        held = np.load(path, allow_pickle=False)
    except Exception as error:  # noqa: BLE001 (NumPy evaluates what a damaged header says)
        raise Unnoticed(f"an array that NumPy does not read is read: {error}") from None
    if held.dtype != given.dtype or not np.array_equal(held, given, equal_nan=held.dtype.kind == "f"):
        raise Unnoticed("the array differs from what NumPy reads")
    return given


def load_record(data: bytes) -> bool:
    """Check if an object with a damaged record counts as built. Raise `Unnoticed` if it does and the digest differs."""
    built = kernel()
    path = folder() / built.path.name
    if not path.exists():
        path.write_bytes(built.path.read_bytes())
    path.with_name(path.name + ".json").write_bytes(data)
    builds.recorded_plan(path)
    counts = builds.is_intact(path)
    try:
        same = json.loads(data.decode())["digest"] == json.loads(record_bytes())["digest"]
    except (ValueError, KeyError, TypeError, RecursionError):
        same = False
    if counts and not same:
        raise Unnoticed("an object with a wrong record counts as built")
    return counts


def load_program(data: bytes) -> object:
    """Load a damaged Python file, as `atl show` and `atl run` do."""
    return programs.load_program(f"{written('damaged.py', data)}:doubled")


def command(*arguments: str) -> int:
    """Return the exit code of a command, without its output."""
    before, sys.argv = sys.argv, ["atl", *arguments]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            runpy.run_module("atl", run_name="__main__")
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        sys.argv = before
    return 0


def named(name: str) -> str:
    """Print, parse and lower programs in which everything has one name."""
    size, held = atl.sizes(f"{name}"), atl.tensor("held", n)
    made = atl.program(name, [held], atl.let(held, lambda b: atl.gen(n, lambda i: b[i]), name=name))
    made = rewrites.reschedule(made).rename("i", name).goal
    other = atl.program("other", [atl.tensor(name, n), atl.tensor("held", size)], 1.0)
    for each in (made, other):
        if atl.parse(str(each)) != each:
            raise Unnoticed(f"printed and read back it is another program: {each}")
    return lowering.print_c(lowering.lower(made)) + lowering.print_c(lowering.lower(other))


SCRIPT: Final = (
    b"import atl\nn = atl.sizes('n')\nx = atl.tensor('x', n)\ndoubled = atl.program('doubled', [x], 2 * x)\n"
)

__all__ = [
    "PROGRAMS", "SCRIPT", "TEXTS", "A", "Decimal", "Fraction", "Mute", "Path", "Text", "Unnoticed", "Whole",
    "array_bytes", "atl", "branch", "c", "certificate", "command", "copied", "doubled", "folder", "gathered", "gone",
    "handle", "k", "kernel", "layout", "layouts", "lists", "load_array", "load_certificate", "load_program",
    "load_record", "looped", "lowering", "m", "math", "multiplied", "n", "named", "nest", "np", "operator", "packed",
    "padset", "padtypes", "picture", "read", "record_bytes", "rewrites", "rows", "rule", "scaled", "session", "shown",
    "sparse", "staged", "stored", "theorem", "tiled", "u", "within", "written", "x", "y",
]  # fmt: skip
