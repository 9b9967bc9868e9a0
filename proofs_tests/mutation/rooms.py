"""The rooms whose tests are measured by faults, with the tests that are to find them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Room:
    """Files, or folders of them, and the tests that are asked, files or folders."""

    files: tuple[str, ...]
    tests: tuple[str, ...]

    def paths(self) -> Iterator[str]:
        """The Python files, as paths within the checkout."""
        for name in self.files:
            at = HERE / name
            found = [at] if at.is_file() else sorted(at.rglob("*.py"))
            yield from (str(path.relative_to(HERE)) for path in found if path.name != "__init__.py")


ROOMS: Final = {
    "kernel": Room(
        ("rewrites/kernel.py", "rewrites/admission.py", "atl/checks/zipper.py"),
        (
            "proofs_tests/kernel/test_places.py",
            "proofs_tests/kernel/test_admission.py",
            "proofs_tests/kernel/test_kernel_soundness.py",
            "proofs_tests/kernel/test_kernel_edges.py",
            "proofs_tests/kernel/test_second_line.py",
            "proofs_tests/kernel/test_instances.py",
            "proofs_tests/own/test_own_rules.py",
            "proofs_tests/attacks/test_attacks_on_the_kernel.py",
        ),
    ),
    "certificates": Room(
        ("rewrites/certificates",),
        ("proofs_tests/kernel/test_certificates.py", "proofs_tests/own", "proofs_tests/sparse/test_packed.py"),
    ),
    "padtypes": Room(("padtypes",), ("proofs_tests/padding",)),
    "prove": Room(("atl/prove",), ("proofs_tests/prover", "proofs_tests/attacks/test_attacks_on_the_prover.py")),
}
