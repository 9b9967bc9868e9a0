"""Errors raised by sparse formats: ATL901 to ATL904."""

from __future__ import annotations

from atl.errors import ATLError


class FormatError(ATLError, ValueError):
    """A format is malformed, or does not fit the tensor."""

    code = "ATL901"


class CapacityExceeded(ATLError, ValueError):
    """A level of fixed width cannot hold all entries."""

    code = "ATL902"


class NotPackable(ATLError, TypeError):
    """The value cannot be converted to a sparse tensor."""

    code = "ATL903"


class LawViolation(ATLError, ValueError):
    """A level violates a law of level formats; the error names the law and a counterexample."""

    code = "ATL904"
