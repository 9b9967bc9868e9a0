"""Rule of the repository: every environment variable that is set is read somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proofs_tests.architecture.tree import HERE, modules

OF_THE_ENVIRONMENT = re.compile(r"""(setenv|delenv|environ\.get|environ\.pop|environ)[([]['"](ATL_\w+)""")
READ_BY_CONSTANT = re.compile(r"""(?ms)^(?P<constant>\w+): Final = ['"](ATL_\w+)['"].*environ\.get\((?P=constant)\b""")


def unread_variables(root: Path) -> list[str]:
    """Return our environment variables that are set and never read."""
    found = [(str(module.path), *use) for module in modules(root) for use in OF_THE_ENVIRONMENT.findall(module.text)]
    read = {name for _, how, name in found if how == "environ.get"}
    read |= {name for module in modules(root) for _, name in READ_BY_CONSTANT.findall(module.text)}
    return sorted({f"{path} sets {name}, which nothing reads" for path, _, name in found if name not in read})


@pytest.mark.long
def test_every_set_variable_is_read() -> None:
    assert not unread_variables(HERE)


def test_unread_variable_is_found(tmp_path: Path) -> None:
    unread = tmp_path / "proofs_tests" / "planted.py"
    unread.parent.mkdir()
    kept = "ATL_KEPT"
    unread.write_text(f'def patched(patch):\n    patch.setenv("{kept}", "x")\n')
    assert unread_variables(tmp_path) == ["proofs_tests/planted.py sets ATL_KEPT, which nothing reads"]
