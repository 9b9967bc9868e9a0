"""What sparse formats refuse: errors ATL901 to ATL904."""

from __future__ import annotations

from atl.errors import ATLError


class FormatError(ATLError, ValueError):
    """A format does not fit a tensor, or is not put together as formats are."""

    code = "ATL901"


class NoSpace(ATLError, ValueError):
    """A level of fixed width has no room for all entries."""

    code = "ATL902"


class NotSparse(ATLError, TypeError):
    """What is given is no tensor that could be packed."""

    code = "ATL903"


class LawBroken(ATLError, ValueError):
    """A level does not do what a level format must: the law, and the tensor that breaks it."""

    code = "ATL904"
