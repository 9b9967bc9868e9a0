"""What may be wrong with what is asked of the benchmark."""

from __future__ import annotations

from atl.errors import ATLError


class UnknownWorkload(ATLError, LookupError):
    """There is no such workload."""

    code = "ATL801"


class WrongSize(ATLError, ValueError):
    """A size at which a workload cannot be measured, or a setting of the measuring out of its range."""

    code = "ATL802"


class ExtraMissing(ATLError, ModuleNotFoundError):
    """What was asked for needs a package that is not installed."""

    code = "ATL803"


class MeasuringFailed(ATLError, RuntimeError):
    """The process in which a case was measured ended before it said what came out."""

    code = "ATL804"


class WrongFile(ATLError, OSError):
    """What is measured cannot be written there."""

    code = "ATL805"
