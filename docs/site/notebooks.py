"""The notebooks as pages of the site, with their stored outputs. Nothing is executed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from formulas import mathml

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT: Final = Path(__file__).resolve().parents[2]
_PROJECT: Final = re.compile(r"\]\(\.\./project/([^)]+)\.txt\)")
_FORMULA: Final = re.compile(r'<div class="atl-formula">(.*?)</div>', re.DOTALL)
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_TO_A_NOTEBOOK: Final = re.compile(r"\]\(([^):]+)\.ipynb\)")
_OUT_OF_THE_DOCUMENTS: Final = re.compile(r"\]\(\.\./\.\./([^)]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook, next to the notebook itself, which can be downloaded."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        stored = json.loads(Path(str(file.abs_src_path)).read_text(encoding="utf-8"))
        content = page_of(stored["cells"], Path(file.src_uri).name)
        files.append(File.generated(config, file.src_uri.removesuffix(".ipynb") + ".md", content=content))
        for target in sorted(set(_PROJECT.findall(content))):
            if files.get_file_from_path(f"project/{target}.txt") is None:
                text = (ROOT / target).read_text(encoding="utf-8")
                files.append(File.generated(config, f"project/{target}.txt", content=text))
    return files


def page_of(cells: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return the page in Markdown, with outputs as HTML."""
    return "\n\n".join([*_blocks(cells), f"[This page as a notebook]({name})"]) + "\n"


def _blocks(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            outside = _OUT_OF_THE_DOCUMENTS.sub(r"](../project/\1.txt)", source)
            yield _TO_A_NOTEBOOK.sub(r"](\1.md)", outside)
            continue
        yield f"```python\n{source}\n```"
        shown = "".join(_shown(output) for output in cell["outputs"])
        if shown:
            yield f'<div class="atl-shown">{shown}</div>'


def _shown(output: Mapping[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _text("".join(output["text"]))
    if output["output_type"] == "error":
        return _text(_COLOURS.sub("", "\n".join(output["traceback"])), kind=' class="atl-refused"')
    data = {kind: "".join(lines) for kind, lines in output["data"].items()}
    if "text/html" in data:
        return _FORMULA.sub(lambda found: _formula(unescape(found[1])), data["text/html"])
    if "image/svg+xml" in data:
        return data["image/svg+xml"]
    return _formula(data["text/latex"]) if "text/latex" in data else _text(data["text/plain"])


def _text(text: str, *, kind: str = "") -> str:
    return f"<pre{kind}>{escape(text.rstrip())}</pre>"


def _formula(latex: str) -> str:
    return f'<div class="atl-formula">{mathml(latex)}</div>'
