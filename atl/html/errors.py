"""What can be wrong with a page."""

from __future__ import annotations

from atl.errors import ATLError


class PageError(ATLError, OSError):
    """A page cannot be written where it is wanted."""

    code = "ATL717"
