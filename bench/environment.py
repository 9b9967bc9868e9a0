"""Description of the machine: the processor, the load, the compiler with its flags, versions of packages."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import atl
from bench.isa import settings
from lowering import build_shared, find_compiler, recorded_plan

PACKAGES: Final = ("numpy", "scipy", "torch", "halide", "numba", "threadpoolctl")


def environment(isa: str | None = None) -> dict[str, Any]:
    """Return a description of the machine and the software, for the result file.

    With `isa`, the flags and the model of the machine are those for an older instruction set.
    """
    limits = settings(isa)
    with patch.dict(os.environ, limits):
        return {**_described(), "isa": isa, "limits": limits}


def _described() -> dict[str, Any]:
    return {
        "atl": atl.__version__,
        "python": platform.python_version(),
        "packages": packages(PACKAGES),
        "compiler": find_compiler().version,
        "flags": _flags(),
        "machine": asdict(atl.machine()),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def packages(names: Iterable[str]) -> dict[str, str | None]:
    """Return the versions of packages; None for one that is not installed."""
    return {name: _version(name) for name in names}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _flags() -> list[str]:
    """Return the compiler flags of our kernels and of the baselines in C."""
    plan = recorded_plan(build_shared("int nothing(void) { return 0; }\n", name="nothing"))
    if plan is None:
        return []
    # Includes the flags in $CC.
    return [flag for flag in plan.commands[0][1:] if flag.startswith("-") and flag not in ("-c", "-o", "-m")]


def processor() -> str:
    """Return the processor's model name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "CPU part"))]
    return names[0] if names else platform.processor() or platform.machine()
