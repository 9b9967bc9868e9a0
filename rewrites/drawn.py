"""How a theorem comes to its page: by what the installed package names for that, since this room knows no page.

`pyproject.toml` says under `[project.entry-points."atl.theorem"]` what draws one. So the arrow from a theorem to the
room that draws it, which stands above this one, is no import: it is a line that whoever puts the rooms together writes.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from os import PathLike
from typing import Any, Final

from rewrites.errors import NothingDraws
from rewrites.kernel import Theorem

GROUP: Final = "atl.theorem"
NAME: Final = "to_html"


def drawn(theorem: Theorem, path: str | PathLike[str], **options: Any) -> None:
    """Writes the page of a theorem. Raises `NothingDraws` where nothing that is installed does."""
    for found in entry_points(group=GROUP, name=NAME):
        found.load()(theorem, path, **options)
        return
    raise NothingDraws(
        "nothing that is installed here draws the page of a theorem",
        required=f'the entry point {NAME} of "{GROUP}", which the installed package has',
        suggestions=(
            "pages.write(theorem, path), after import pages, does the same",
            "pip install --editable . once more, in a checkout that was installed before it had pages",
        ),
    )
