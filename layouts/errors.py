"""What a layout, or an operation on layouts, is refused for."""

from __future__ import annotations

from atl.errors import ATLError


class LayoutError(ATLError, ValueError):
    """A shape, a stride or a coordinate is none, or they do not fit each other."""

    code = "ATL651"


class NoLayout(ATLError, ValueError):
    """An operation has no result for these layouts: the message says which condition fails, and where."""

    code = "ATL652"


class NoMode(ATLError, IndexError):
    """A layout has no mode of this number."""

    code = "ATL654"


class NotByTable(ATLError, ValueError):
    """Something was to be computed place by place, and there are too many places or sizes that are not known."""

    code = "ATL653"


class TemplateError(ATLError, ValueError):
    """A template cannot be filled: a name that is not given, what is no place, a language without such text."""

    code = "ATL655"
