"""`make rocq`: what Rocq checks, as a table; without `coqc` one line that says how to get it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from proofs_tests.rocq import coqc
from proofs_tests.rocq.rules import prove_all


def main(arguments: Sequence[str] = ()) -> int:
    """0 where all is as expected, and where there is no Rocq; with names, these rules only."""
    if coqc.without_coqc():
        return 0
    report = prove_all(arguments)
    print(report)
    return 0 if report.as_expected else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
