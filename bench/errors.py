"""Errors of the benchmark command."""

from __future__ import annotations

from atl.errors import ATLError


class UnknownWorkload(ATLError, LookupError):
    """Unknown name of a workload."""

    code = "ATL801"


class WrongSize(ATLError, ValueError):
    """A size that a workload does not support, or an option out of range."""

    code = "ATL802"


class ExtraMissing(ATLError, ModuleNotFoundError):
    """An option that needs a package that is not installed."""

    code = "ATL803"


class MeasuringFailed(ATLError, RuntimeError):
    """The measuring process ended without a result."""

    code = "ATL804"


class WrongFile(ATLError, OSError):
    """An output file that cannot be written."""

    code = "ATL805"
