"""The demonstration: zero differences, correct pictures, and no files after errors."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tomllib
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from atl.cli import main as command_line
from atl.cli import photograph
from atl.cli.command import FAILED, INTERRUPTED, REFUSED
from atl.cli.photograph import blur, by_numpy, demonstrate, read_picture, shipped_picture, write_all
from atl.errors import ImageError
from proofs_tests.c.scripts import fake_gcc

HERE = Path(__file__).resolve().parents[2]
Array = npt.NDArray[Any]


def drawn(folder: Path, *shape: int, mode: str | None = None, name: str = "drawn.png") -> Path:
    """Save a picture of random pixels; in small pictures the border matters most."""
    pixels = np.random.default_rng(sum(shape)).integers(0, 256, shape, dtype=np.uint8)
    image = Image.fromarray(pixels)
    path = folder / name
    (image if mode is None else image.convert(mode)).save(path)
    return path


def pixels_of(path: Path) -> Array:
    with Image.open(path) as image:
        return np.asarray(image)


def blurred_by_hand(pixels: Array) -> Array:
    """Return the mean of nine pixels, with zeros beyond the border."""
    height, width = pixels.shape[:2]
    total = np.zeros(pixels.shape, dtype=np.int64)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            for y in range(max(0, -dy), min(height, height - dy)):
                for x in range(max(0, -dx), min(width, width - dx)):
                    total[y, x] += pixels[y + dy, x + dx]
    return np.rint(total / 9).astype(np.uint8)


@pytest.mark.sampled
@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 7, 3), (30, 2), (37, 29, 3), (26, 50)])
def test_differences_are_zero_and_pictures_are_written(
    shape: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, out = drawn(tmp_path, *shape), tmp_path / "made" / "here"
    assert command_line(["demo", "--image", str(picture), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "from NumPy                      0  " in printed
    assert "from the reference interpreter  0  " in printed
    assert sorted(path.name for path in out.iterdir()) == ["after.png", "before.png"]
    before = pixels_of(picture)
    assert np.array_equal(pixels_of(out / "before.png"), before)
    assert np.array_equal(pixels_of(out / "after.png"), blurred_by_hand(before))


def test_each_section_is_shown(tmp_path: Path) -> None:
    sections = list(demonstrate(drawn(tmp_path, 12, 10, 3), tmp_path / "out"))
    assert [section.title for section in sections] == [
        "The photograph", "The program", "Its shape", "The checks that passed", "The loop nest", "The C", "The run",
        "The comparison", "The pictures",
    ]  # fmt: skip
    shown = {section.title: section.shown for section in sections}
    assert all(section.passed for section in sections)
    assert "let buf := ⊞[y < n] ⊞[x < m]" in shown["The program"]
    assert "float32 of shape (n, m)" in shown["Its shape"]
    assert "0 <= x - 1 < m   proved, from 0 <= x, x < m, 1 <= x" in shown["The checks that passed"]
    assert "NOT PROVED" not in shown["The checks that passed"]
    assert "breaks at: m = 1, n = 1, y = 0, x = 0" in shown["The checks that passed"]
    assert "for x in 0..m:" in shown["The loop nest"]
    assert "for (int64_t x = 0; x < m; x++)" in shown["The C"]
    for named in ("ms", "Mpixel/s", "GB/s", "processor", "compiler"):
        assert named in shown["The run"]


def test_first_screen_has_program_schedule_speed_and_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["demo", "--image", str(drawn(tmp_path, 12, 10, 3)), "--out", str(tmp_path / "out")]
    assert command_line(command) == 0
    first = capsys.readouterr().out
    assert len(first.splitlines()) <= 36
    titles = [line for line in first.splitlines() if line and not line.startswith((" ", "-"))]
    assert titles == ["The program", "The schedule", "The run", "The comparison", "The pictures"]
    shown = ("let buf :=", "s.mark('buf', 'ring')", "s.tails('x')", "Mpixel/s", "as written", "after.png", "--verbose")
    assert [part for part in shown if part not in first] == []
    assert command_line([*command, "--verbose"]) == 0
    everything = capsys.readouterr().out
    assert len(everything.splitlines()) > 100
    for part in ("The checks that passed", "The loop nest", "for (int64_t", "s.tails('x')"):
        assert part in everything


def test_make_demo_installs_what_the_readme_needs() -> None:
    extras = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert any("egraph" in needed or "egglog" in needed for needed in extras["demo"])
    assert any("sparse" in needed or "scipy" in needed for needed in extras["demo"])


def test_photograph_of_scikit_image_is_found() -> None:
    assert read_picture(shipped_picture()).pixels.shape == (512, 512, 3)


def test_numpy_blur_is_that_of_the_paper() -> None:
    plane = np.arange(20, dtype=np.float32).reshape(4, 5)
    assert np.array_equal(np.rint(by_numpy(plane) / 9), blurred_by_hand(plane))
    assert blur().sizes == ("n", "m")


@pytest.mark.parametrize(
    ("mode", "shape", "note"),
    [
        ("L", (5, 6), "grey"),
        ("1", (5, 6), "grey"),
        ("LA", (5, 6), "grey (transparency is dropped)"),
        ("RGBA", (5, 6, 3), "red, green and blue (transparency is dropped)"),
        ("P", (5, 6, 3), "red, green and blue"),
    ],
)
def test_usual_kinds_of_pictures_are_read(mode: str, shape: tuple[int, ...], note: str, tmp_path: Path) -> None:
    picture = read_picture(drawn(tmp_path, *shape, mode=mode))
    assert picture.pixels.shape == (5, 6, 1 if note.startswith("grey") else 3)
    assert picture.described == f"6 × 5 pixels, {note}"


def test_sixteen_bits_become_eight(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 255, 256, 65535]], dtype=np.uint16)).save(tmp_path / "deep.png")
    picture = read_picture(tmp_path / "deep.png")
    assert picture.pixels[:, :, 0].tolist() == [[0, 0, 1, 255]]
    assert "the upper 8 of 16 bits" in picture.described


def png_of(width: int, height: int) -> bytes:
    """Return the beginning of a PNG file that claims this size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0"))]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def refused(folder: Path, capsys: pytest.CaptureFixture[str], picture: Path, *options: str) -> str:
    """Return the message of the command for an invalid picture; no file may be written."""
    before = sorted(folder.rglob("*"))
    assert command_line(["demo", "--image", str(picture), "--out", str(folder / "out"), *options]) == REFUSED
    assert sorted(folder.rglob("*")) == before
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "[ATL503]" in captured.err
    return captured.err


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "its format is not known to Pillow"),
        (b"hello", "its format is not known to Pillow"),
        (png_of(4, 4)[:20], "cannot be read"),
        (png_of(400, 400), "cannot be read"),
        (png_of(0, 5), "cannot be read"),
        (png_of(9_000, 9_000), "too large for the demonstration"),
        (png_of(2**31 - 1, 2**31 - 1), "too large for the demonstration"),
    ],
)
def test_unreadable_picture_is_refused(
    content: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.png"
    path.write_bytes(content)
    assert reason in refused(tmp_path, capsys, path)


def test_picture_without_pixels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="has no pixels"):
        photograph._check_size(tmp_path / "empty.tif", 0, 5)


def test_truncated_photograph_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = drawn(tmp_path, 40, 40, 3, name="whole.jpg")
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(whole.read_bytes()[:700])
    assert "cannot be read" in refused(tmp_path, capsys, cut)


def test_path_that_is_not_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "does not exist" in refused(tmp_path, capsys, tmp_path / "gone.png")
    assert "is a directory" in refused(tmp_path, capsys, tmp_path)
    assert "is not a regular file" in refused(tmp_path, capsys, Path(os.devnull))


def test_pixels_of_32_bits_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "float.tif"
    Image.fromarray(np.ones((3, 3), dtype=np.float32)).save(path)
    assert "32-bit pixels (mode F)" in refused(tmp_path, capsys, path)


def test_output_path_that_is_not_a_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = drawn(tmp_path, 3, 3)
    assert "is not a directory" in refused(tmp_path, capsys, picture, "--out", str(picture))


def test_missing_scikit_image_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photograph, "find_spec", lambda name: None)
    with pytest.raises(ImageError, match=r'pip install "atl-tensor\[demo\]"'):
        shipped_picture()


def test_missing_pillow_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImageError, match=r'pip install "atl-tensor\[demo\]"'):
        read_picture(tmp_path / "any.png")


def demo_with(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CC", "PATH")}
    return subprocess.run(
        [sys.executable, "-m", "atl", "demo", "--image", str(drawn(folder, 5, 5)), "--out", str(folder / "out")],
        cwd=HERE,
        capture_output=True,
        encoding="utf-8",
        env={**kept, "ATL_CACHE": str(folder / "cache"), **environment},
        check=False,
    )


@pytest.mark.long
def test_missing_compiler_error_names_what_to_install(tmp_path: Path) -> None:
    done = demo_with(tmp_path, PATH="")
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert done.stderr.startswith("atl: no C compiler was found [ATL501]")
    assert "apt install gcc" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_failing_compiler_is_quoted(tmp_path: Path) -> None:
    script = fake_gcc(tmp_path / "broken-cc", 'echo "disk on fire" >&2; exit 3')
    done = demo_with(tmp_path, CC=str(script), PATH=os.environ["PATH"])
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert "[ATL502]" in done.stderr
    assert "> disk on fire" in done.stderr
    assert not (tmp_path / "out").exists()


def test_difference_fails_the_command_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(photograph, "by_numpy", lambda plane: by_numpy(plane) + 1)
    code = command_line(["demo", "--image", str(drawn(tmp_path, 4, 4)), "--out", str(tmp_path / "out")])
    captured = capsys.readouterr()
    assert code == FAILED
    assert "The comparison: MISMATCH" in captured.out
    assert "no picture was written" in captured.err
    assert not (tmp_path / "out").exists()


def test_interrupt_reports_the_finished_sections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(photograph, "_run", interrupted)
    code = command_line(["demo", "--image", str(drawn(tmp_path, 4, 4)), "--out", str(tmp_path / "out")])
    assert code == INTERRUPTED
    assert "finished steps: The photograph, The program, Its shape" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_pictures_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file, where a directory is needed", encoding="utf-8")
    with pytest.raises(ImageError, match="cannot be written"):
        write_all({tmp_path / "first.png": b"1", tmp_path / "blocked" / "second.png": b"2"})
    assert [path.name for path in tmp_path.iterdir()] == ["blocked"]
