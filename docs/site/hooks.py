"""Additional pages of the site: CONTRIBUTING.md, and the files outside of `docs/` that pages link to, as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
GUIDE: Final = "CONTRIBUTING.md"
_OUTSIDE: Final = re.compile(r"\]\(\.\./([^)#]+)(#[^)]*)?\)")
_OF_THE_DOCUMENTS: Final = re.compile(r"\]\(docs/([^)]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add CONTRIBUTING.md as `extending.md`, and linked files outside of `docs/` under `project/`."""
    from mkdocs.structure.files import File

    guide = _OF_THE_DOCUMENTS.sub(r"](\1)", (ROOT / GUIDE).read_text(encoding="utf-8"))
    files.append(File.generated(config, "extending.md", content=guide))
    linked = {link[1] for page in files.documentation_pages() for link in _OUTSIDE.finditer(page.content_string)}
    for target in sorted(linked - {GUIDE}):
        content = (ROOT / target).read_text(encoding="utf-8")
        files.append(File.generated(config, f"project/{target}.txt", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Change links to files outside of `docs/` into links to their copies in the site."""
    return markdown if "/" in page.file.src_uri else _OUTSIDE.sub(_inside, markdown)


def _inside(link: re.Match[str]) -> str:
    return f"](extending.md{link[2] or ''})" if link[1] == GUIDE else f"](project/{link[1]}.txt)"
