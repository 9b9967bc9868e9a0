"""Shell scripts that replace compilers, and a C function for them to build."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from lowering.builds import load

SQUARES = """
#include <stdint.h>
void squares(int64_t n, const double *x, double *out) {
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += x[i] * x[i];
    out[0] = s;
}
"""
SQUARES_CDEF = "void squares(int64_t n, const double *x, double *out);"


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@dataclass(frozen=True, slots=True)
class LoggingCompiler:
    """A script that logs its arguments and calls the real compiler."""

    path: Path
    log: Path

    @property
    def calls(self) -> list[list[str]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.split() for line in lines if "--version" not in line and "-dM" not in line]


def fake_gcc(path: Path, body: str = ":", version: str = "fake gcc 1.0") -> Path:
    """Write a script that identifies itself as gcc and runs `body` for all other calls."""
    whoami = f"printf '{version}\\nFree Software Foundation\\n'"
    return script(path, f"case \"$*\" in *--version*) {whoami};; *-dM*) echo '#define __GNUC__ 12';; *) {body};; esac")


def fake_compilers(directory: Path, *names: str) -> None:
    for name in names:
        fake_gcc(directory / name, version=f"fake {name} 1.0")


def sum_of_squares(path: Path, values: list[float]) -> float:
    ffi, lib = load(path, SQUARES_CDEF)
    out = ffi.new("double[1]")
    lib.squares(len(values), ffi.new("double[]", values), out)
    return float(out[0])
