"""The command line where only the packages of the wheel can be imported."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
INSTALLED = ("atl", "gradients", "layouts", "lowering", "padtypes", "rewrites", "sparse")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the packages that are installed, and nothing else of the repository."""
    folder = tmp_path_factory.mktemp("installed")
    for name in INSTALLED:
        (folder / name).symlink_to(HERE / name)
    return folder


def atl(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = f"""
import os, sys
others = [path for path in sys.path if not os.path.isdir(os.path.join(path, 'proofs_tests'))]
sys.path[:] = [{str(installed)!r}, *others]
from atl.cli import main
sys.exit(main({list(arguments)!r}))
"""
    return subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=installed, capture_output=True, text=True, check=False
    )


def test_six_packages_are_installed() -> None:
    found = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    assert sorted({name.partition(".")[0] for name in found["include"]}) == [*INSTALLED]


@pytest.mark.long
def test_commands_that_need_a_checkout_are_not_listed(installed: Path) -> None:
    done = atl(installed, "--help")
    assert done.returncode == 0, done.stderr
    assert "certify" in done.stdout
    assert "Compare the speed of our schedules" not in done.stdout
    assert "Test the compiler and the prover" not in done.stdout
    assert "--proof" not in atl(installed, "rules", "--help").stdout


@pytest.mark.long
def test_certify_runs_where_only_the_wheel_is_installed(installed: Path, tmp_path: Path) -> None:
    derived = tmp_path / "proof.atl.json"
    program = (
        "import atl; n = atl.sizes('n'); x = atl.tensor('x', n); "
        "f = atl.program('same', [x], atl.gen(n, lambda i: x[i])); "
        f"atl.reschedule(f).rw('gen_eta').done().save({str(derived)!r})"
    )
    subprocess.run([sys.executable, "-c", program], cwd=installed, check=True)
    done = atl(installed, "certify", str(derived), "--out", str(tmp_path / "proof.v"))
    assert done.returncode == 0, done.stderr
    assert "Theorem certified" in (tmp_path / "proof.v").read_text()
