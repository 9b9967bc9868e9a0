"""Pages: a derivation as one file for a browser, with its steps, why each holds, and the code that it came to."""

from pages.document import page
from pages.errors import PageError
from pages.writing import write

__all__ = ["PageError", "page", "write"]
