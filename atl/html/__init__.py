"""Web pages of derivations: a single HTML file with the steps, their justification, and the generated code."""

from atl.html.document import PageError, page, write

__all__ = ["PageError", "page", "write"]
