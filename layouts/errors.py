"""Errors of layouts and of operations on them."""

from __future__ import annotations

from atl.errors import ATLError


class LayoutError(ATLError, ValueError):
    """An invalid shape, stride or coordinate, or several that do not match."""

    code = "ATL651"


class NoLayout(ATLError, ValueError):
    """An operation has no result for these layouts; the message gives the failing condition."""

    code = "ATL652"


class NoMode(ATLError, IndexError):
    """The layout has no mode with this number."""

    code = "ATL654"


class CannotTabulate(ATLError, ValueError):
    """A function cannot be tabulated: it is too large, or sizes are symbolic."""

    code = "ATL653"


class TemplateError(ATLError, ValueError):
    """A template cannot be filled: an undefined name, an unsuitable value, or an expression without text."""

    code = "ATL655"
