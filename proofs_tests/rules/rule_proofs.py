"""Table of the proof status of each rule, and of the properties that it may lose (`rule_labels`).

python -m proofs_tests.rules.rule_proofs              table of the rules
python -m proofs_tests.rules.rule_proofs --mutants    number of refuted mutants of each (`mutation`)
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

from proofs_tests.rules import mutation
from proofs_tests.rules.corollaries import replayed
from proofs_tests.rules.rule_labels import Labels, labels
from rewrites.rule import Rule
from rewrites.rule_checking.small_choices import size, spaces
from rewrites.rule_checking.status import ProofStatus, Status, determine_status
from rewrites.rules import RULES

EVERY: Final = 1_000_000


def row(rule: Rule, found: ProofStatus, kept: Labels) -> str:
    """Return a line of the table."""
    window = "every choice" if found.exhaustive else f"of {size(spaces(rule.metavariables))}"
    follows = f"; follows from {', '.join(rule.derived_from)}" if rule.derived_from else ""
    return (
        f"{rule.family:16} {rule.name:22} {found.status!s:11}  {kept}  "
        f"{found.cases:6} {window:14} {found.reason}{follows}"
    ).rstrip()


def table(names: Sequence[str]) -> int:
    """Print the table and a summary. Return 1 if a rule is false or a corollary does not follow."""
    count_of: Counter[Status] = Counter()
    families: Counter[str] = Counter()
    broken = 0
    for rule in [RULES[name] for name in names] if names else RULES.values():
        found = determine_status(rule, EVERY)
        print(row(rule, found, labels(rule)), flush=True)
        if found.counterexample is not None:
            print(f"    FALSE: {found.counterexample}")
        if rule.derived_from and replayed(rule) is None:
            broken += 1
            print(f"    does not follow from {', '.join(rule.derived_from)}")
        count_of[found.status] += 1
        families[rule.family] += 1
    print(", ".join(f"{count} {family}" for family, count in families.items()))
    print(", ".join(f"{status}: {count}" for status, count in sorted(count_of.items(), reverse=True)))
    return 1 if broken or count_of[Status.UNSUPPORTED] or count_of[Status.TESTED] else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command: the table, or the scores with --mutants."""
    parser = argparse.ArgumentParser(prog="atl rules", description="How far each rule is known to be true.")
    parser.add_argument("names", nargs="*", metavar="RULE", help="the rules; all, if none is named")
    parser.add_argument("--mutants", action="store_true", help="how many wrong variants of each rule are found")
    arguments = parser.parse_args(argv)
    unknown = [name for name in arguments.names if name not in RULES]
    if unknown:
        parser.error(f"unknown rule {unknown[0]}")
    if arguments.mutants:
        return mutation.report(arguments.names)
    return table(arguments.names)


if __name__ == "__main__":
    sys.exit(main())
