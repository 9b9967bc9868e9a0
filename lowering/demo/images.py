"""Reading of pictures, with error messages, and atomic writing of PNG files."""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.errors import ImageError
from atl.files.atomic import write_atomically

Pixels: TypeAlias = npt.NDArray[np.uint8]
"""Height, width and channels: one for grey, three for red, green and blue."""

LARGEST: Final = 50_000_000
"""Maximum number of pixels of a picture."""

SHIPPED: Final = "astronaut.png"
"""A photograph that scikit-image's wheel contains (NASA, in the public domain)."""

INSTALL: Final = 'pip install "atl-tensor[demo]"'


@dataclass(frozen=True, slots=True)
class Photo:
    """The pixels of a picture, with a note on how they were converted."""

    pixels: Pixels
    note: str = ""

    @property
    def described(self) -> str:
        height, width, channels = self.pixels.shape
        return f"{width} × {height} pixels, {'grey' if channels == 1 else 'red, green and blue'}{self.note}"


def shipped_picture() -> Path:
    """Return the path of the photograph in the installed scikit-image, without importing it. Raises `ImageError`."""
    spec = find_spec("skimage")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        if (path := Path(folder) / "data" / SHIPPED).is_file():
            return path
    raise ImageError(
        "there is no photograph to blur: scikit-image, which ships one, is not installed",
        required="scikit-image, or a custom picture",
        suggestions=(INSTALL, "atl demo --image PATH"),
    )


def read_picture(path: Path, *, into: Path | None = None) -> Photo:
    """Read a picture as 8-bit grey or colour. `into`, if not None, is checked to be a directory or new.

    Raises `ImageError`.
    """
    image_module = _pillow()
    if into is not None and into.exists() and not into.is_dir():
        raise ImageError(
            f"{into} is not a directory", required="a directory for the two pictures", suggestions=("--out DIR",)
        )
    if not path.is_file():
        problem = "is a directory" if path.is_dir() else "is not a regular file" if path.exists() else "does not exist"
        raise ImageError(f"{path} {problem}", required="a picture: PNG, JPEG, TIFF or another format that Pillow reads")
    try:
        with warnings.catch_warnings():
            # Pillow warns of large sizes, which are checked below, and of metadata.
            warnings.simplefilter("ignore")
            with image_module.open(path) as image:
                _check_size(path, *image.size)
                return _pixels(image)
    except ImageError:
        raise
    except image_module.DecompressionBombError as error:
        raise _too_large(path) from error
    except (OSError, ValueError, SyntaxError, EOFError, struct.error) as error:
        reason = "its format is not known to Pillow" if "cannot identify" in str(error) else str(error)
        raise ImageError(
            f"{path} cannot be read: {reason or type(error).__name__}",
            required="a whole picture: PNG, JPEG, TIFF or another format that Pillow reads",
        ) from error
    except MemoryError as error:
        raise ImageError(f"{path} does not fit in memory", required="a smaller picture") from error


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImageError(
            f"pictures are read with Pillow, which cannot be imported: {error}",
            required="Pillow",
            suggestions=(INSTALL,),
        ) from error
    return Image


def _check_size(path: Path, width: int, height: int) -> None:
    if width * height == 0:
        raise ImageError(
            f"{path} has no pixels", required="at least one pixel", numbers={"width": width, "height": height}
        )
    if width * height > LARGEST:
        raise _too_large(path, {"width": width, "height": height})


def _too_large(path: Path, numbers: Mapping[str, object] | None = None) -> ImageError:
    return ImageError(
        f"{path} is too large for the demonstration", required=f"at most {LARGEST:,} pixels", numbers=numbers
    )


def _pixels(image: Any) -> Photo:
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in ("I", "F"):
        raise ImageError(
            f"the picture has 32-bit pixels (mode {image.mode})",
            required="8 or 16 bits for each channel",
            suggestions=("convert it to 8 bits first",),
        )
    if image.mode.startswith("I;16"):
        # The upper byte; sums of nine 16-bit values would be exact as well, but could not be written as 8-bit PNG.
        pixels = (np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8)
        return Photo(pixels[:, :, None], " (the upper 8 of 16 bits)")
    transparent = image.has_transparency_data
    grey = image.mode in ("1", "L", "LA", "La")
    pixels = np.asarray(image.convert("L" if grey else "RGB"), dtype=np.uint8)
    return Photo(pixels[:, :, None] if grey else pixels, " (transparency is dropped)" if transparent else "")


def encoded(pixels: Pixels) -> bytes:
    """Encode the pixels as a PNG file."""
    image = _pillow().fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    return stream.getvalue()


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write all files atomically: none is replaced before all are complete on disk. Raises `ImageError`."""
    try:
        for path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically({path: partial(_write, content) for path, content in files.items()})
    except OSError as error:
        raise ImageError(
            f"the pictures cannot be written: {error}",
            required="a directory that can be written",
            suggestions=("choose another one with --out DIR",),
        ) from error


def _write(content: bytes, stream: IO[bytes]) -> None:
    stream.write(content)
