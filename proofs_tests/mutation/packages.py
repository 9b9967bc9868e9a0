"""The packages under mutation testing, with the tests that should kill their mutants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Scope:
    """Files or folders to mutate, and the files or folders of tests to run."""

    files: tuple[str, ...]
    tests: tuple[str, ...]

    def paths(self) -> Iterator[str]:
        """Yield the Python files, as paths relative to the checkout."""
        for name in self.files:
            at = HERE / name
            found = [at] if at.is_file() else sorted(at.rglob("*.py"))
            yield from (str(path.relative_to(HERE)) for path in found if path.name != "__init__.py")


def _tests(file: str, *tests: str) -> Iterator[str]:
    """Yield the ids of some tests of a file."""
    yield from (f"{file}::test_{test}" for test in tests)


_STEPS: Final = tuple(
    f"proofs_tests/kernel/test_{name}.py"
    for name in ("places", "admission", "kernel_soundness", "kernel_checks", "ill_stated_rules", "instances")
)
_LANGUAGE: Final = ("proofs_tests/language", "proofs_tests/errors")

SCOPES: Final = {
    "kernel": Scope(
        ("rewrites/kernel.py", "rewrites/admission.py", "atl/checks/zipper.py", "atl/checks/validation.py"),
        (
            *_STEPS,
            "proofs_tests/language/test_validation.py",
            "proofs_tests/kernel/test_induction.py",
            "proofs_tests/user_rules/test_user_rules.py",
            "proofs_tests/user_rules/test_fixed_equations.py",
            "proofs_tests/attacks/test_attacks_on_the_kernel.py",
        ),
    ),
    "checks": Scope(("atl/checks/scope.py", "atl/checks/wellformed.py"), ("atl/checks", *_LANGUAGE, *_STEPS)),
    "core": Scope(("atl/core",), ("atl/core", "atl/text", *_LANGUAGE, *_STEPS)),
    "surface": Scope(("atl/surface",), ("atl/surface", *_LANGUAGE)),
    "rules": Scope(
        (
            "rewrites/rule.py",
            "rewrites/rule_statement.py",
            "rewrites/elaboration.py",
            "rewrites/rule_arguments.py",
            "rewrites/metavariables.py",
            "rewrites/named_operators.py",
        ),
        (
            *_STEPS,
            "proofs_tests/kernel/test_certificates.py",
            "proofs_tests/kernel/test_argument_encoding.py",
            "proofs_tests/rules/test_patterns.py",
            "proofs_tests/rules/test_statements.py",
            "proofs_tests/rules/test_declarations.py",
            "proofs_tests/rules/test_rule_arguments.py",
            "proofs_tests/user_rules/test_forged_statements.py",
            *_tests("proofs_tests/user_rules/test_laws_and_axes.py", "indices_need_a_tensor_with_these_axes"),
        ),
    ),
    "grading": Scope(
        ("rewrites/rule_checking", "atl/meaning/free_terms.py"),
        (
            "rewrites/rule_checking",
            "atl/meaning/free_terms.py",
            "proofs_tests/user_rules",
            "proofs_tests/rules/test_exactness.py",
        ),
    ),
    "certificates": Scope(
        ("rewrites/certificates",),
        (
            "rewrites/certificates",
            "proofs_tests/kernel/test_argument_encoding.py",
            "proofs_tests/kernel/test_certificate_files.py",
            "proofs_tests/kernel/test_certificates.py",
            "proofs_tests/user_rules/test_user_rule_certificates.py",
            "proofs_tests/sparse/test_packed.py",
            *_tests(
                "proofs_tests/sparse/test_sparsify.py",
                "loaded_certificate_compiles_to_the_same_kernel",
                "certificate_with_another_format_is_refused",
                "format_with_equal_arrays_and_other_meaning_is_refused",
                "arrays_may_be_passed_separately",
            ),
            *_tests("proofs_tests/sparse/test_results.py", "loaded_certificate_compiles_to_the_same_result"),
            *_tests("proofs_tests/sparse/test_merges.py", "certificates_keep_sorted_formats_and_marks"),
            *_tests(
                "proofs_tests/prover/test_without_smt.py",
                "session_reports_premises_decided_by_z3",
                "certificate_that_needs_z3_is_refused_without_it",
                "check_command_refuses_z3_proofs",
            ),
        ),
    ),
    "recurrences": Scope(
        (
            "lowering/passes/recurrences.py",
            "lowering/passes/splitting.py",
            "rewrites/induction.py",
            "rewrites/tactics/recurrences.py",
        ),
        (
            "proofs_tests/nests/test_recurrences.py",
            "proofs_tests/nests/test_passes.py",
            "proofs_tests/kernel/test_induction.py",
            "proofs_tests/tactics/test_recurrence_splits.py",
            "proofs_tests/language/test_recurrences.py",
        ),
    ),
    "padtypes": Scope(("padtypes",), ("padtypes", "proofs_tests/padding")),
    "prove": Scope(
        ("atl/prove",),
        (
            "atl/prove",
            "proofs_tests/prover/parts",
            *(
                f"proofs_tests/prover/test_{name}.py"
                for name in [
                    "census",
                    "prover",
                    "bits",
                    "addresses",
                    "orders",
                    "exclusive_or",
                    "relevance",
                    "prover_fuzz",
                ]
            ),
            *_tests(
                "proofs_tests/prover/test_without_smt.py",
                "z3_goals_are_unknown_without_smt",
                "answers_without_smt_are_not_memoized_for_z3",
            ),
            "proofs_tests/attacks/test_attacks_on_the_prover.py",
        ),
    ),
}
