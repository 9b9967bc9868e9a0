"""Pages: a derivation as one file for a browser, with its steps, why each holds, and the code that it came to."""

from atl.html.document import page
from atl.html.errors import PageError
from atl.html.writing import write

__all__ = ["PageError", "page", "write"]
