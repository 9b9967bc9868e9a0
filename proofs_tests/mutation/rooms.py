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


def _of(file: str, *tests: str) -> Iterator[str]:
    """Some of the tests of a file of another subject."""
    yield from (f"{file}::test_{test}" for test in tests)


_OF_THE_PROVER: Final = ("census", "prover", "bits", "addresses", "orders", "exclusive_or", "relevance", "prover_fuzz")

_OF_STEPS: Final = tuple(
    f"proofs_tests/kernel/test_{name}.py"
    for name in ("places", "admission", "kernel_soundness", "kernel_checks", "ill_stated_rules", "instances")
)
_OF_THE_LANGUAGE: Final = ("proofs_tests/language", "proofs_tests/errors")

ROOMS: Final = {
    "kernel": Room(
        ("rewrites/kernel.py", "rewrites/admission.py", "atl/checks/zipper.py"),
        (
            *_OF_STEPS,
            "proofs_tests/user_rules/test_user_rules.py",
            "proofs_tests/user_rules/test_fixed_equations.py",
            "proofs_tests/attacks/test_attacks_on_the_kernel.py",
        ),
    ),
    "checks": Room(("atl/checks/scope.py", "atl/checks/wellformed.py"), ("atl/checks", *_OF_THE_LANGUAGE, *_OF_STEPS)),
    "core": Room(("atl/core",), ("atl/core", "atl/text", *_OF_THE_LANGUAGE, *_OF_STEPS)),
    "surface": Room(("atl/surface",), ("atl/surface", *_OF_THE_LANGUAGE)),
    "rules": Room(
        (
            "rewrites/rule.py",
            "rewrites/statement.py",
            "rewrites/stating.py",
            "rewrites/instantiation.py",
            "rewrites/kinds.py",
            "rewrites/named_operators.py",
        ),
        (
            *_OF_STEPS,
            "proofs_tests/kernel/test_certificates.py",
            "proofs_tests/kernel/test_argument_encoding.py",
            "proofs_tests/rules/test_patterns.py",
            "proofs_tests/rules/test_statements.py",
            "proofs_tests/rules/test_rule_arguments.py",
        ),
    ),
    "grading": Room(("rewrites/rule_checking",), ("rewrites/rule_checking", "proofs_tests/user_rules")),
    "certificates": Room(
        ("rewrites/certificates",),
        (
            "rewrites/certificates",
            "proofs_tests/kernel/test_argument_encoding.py",
            "proofs_tests/kernel/test_certificate_files.py",
            "proofs_tests/kernel/test_certificates.py",
            "proofs_tests/user_rules/test_user_rule_certificates.py",
            "proofs_tests/sparse/test_packed.py",
            *_of(
                "proofs_tests/sparse/test_sparsify.py",
                "a_loaded_certificate_gives_the_same_kernel",
                "a_certificate_that_names_another_format_is_refused",
                "a_format_of_the_same_arrays_and_another_meaning_is_refused",
                "without_formats_arrays_are_passed_one_by_one",
            ),
            *_of("proofs_tests/sparse/test_results.py", "a_loaded_certificate_gives_a_kernel_with_the_same_result"),
            *_of("proofs_tests/sparse/test_merges.py", "formats_in_order_are_kept_in_certificates_with_the_marks"),
            *_of(
                "proofs_tests/prover/test_without_smt.py",
                "a_session_says_which_premises_z3_decided",
                "a_certificate_that_needs_z3_is_refused_without_it",
                "the_command_refuses_what_only_z3_decides",
            ),
        ),
    ),
    "padtypes": Room(("padtypes",), ("padtypes", "proofs_tests/padding")),
    "prove": Room(
        ("atl/prove",),
        (
            "atl/prove",
            "proofs_tests/prover/parts",
            *(f"proofs_tests/prover/test_{name}.py" for name in _OF_THE_PROVER),
            *_of(
                "proofs_tests/prover/test_without_smt.py",
                "what_only_z3_proves_is_unknown_where_it_is_not_asked",
                "what_z3_was_not_asked_is_not_remembered_for_where_it_is",
            ),
            "proofs_tests/attacks/test_attacks_on_the_prover.py",
        ),
    ),
}
