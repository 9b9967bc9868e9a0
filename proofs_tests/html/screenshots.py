"""Take the screenshots in the documents: `python -m proofs_tests.html.screenshots [FOLDER]`."""

import sys
import tempfile
from pathlib import Path

from atl import html
from examples import derivations
from proofs_tests.html.chromium import Chromium, browser

DOCS = Path(__file__).resolve().parents[2] / "docs"


def take(window: Chromium, page: Path, folder: Path) -> None:
    """Take a call in the light theme, the code with a loop under the pointer in the dark one, and a step on a phone."""
    window.looks(1280, 1040)
    window.open(page, "#call-7")
    window.press("Shift")
    window.picture(folder / "page-call.png")
    window.looks(1280, 860, dark=True)
    window.press("G")
    window.hover(".listing .line:nth-child(61)")
    window.press("Shift")
    window.picture(folder / "page-code.png")
    window.looks(390, 844, scale=2)
    window.open(page, "#step-32")
    window.press("Shift")
    window.picture(folder / "page-phone.png")


def main(folder: Path) -> None:
    """Write the page of the tiled blur and take its screenshots."""
    with tempfile.TemporaryDirectory() as place, browser() as window:
        page = Path(place) / "blur.html"
        html.write(derivations.blur_tiled_staged_with_tails().done(), page)
        take(window, page, folder)
        assert not window.faults, window.faults


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
