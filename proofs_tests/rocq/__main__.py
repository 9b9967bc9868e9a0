"""`make rocq`: a table of what Rocq checks; without `coqc` a line on how to install it.

python -m proofs_tests.rocq --part 1/2          half of the nests and of the faults in them (`make rocq PART=1/2`)
python -m proofs_tests.rocq rules [NAME ...]    every rule is proved (`make rocq` does this, and the next three)
python -m proofs_tests.rocq definitions         what the operators mean, against the reference interpreter
python -m proofs_tests.rocq faults              what is wrong is refused
python -m proofs_tests.rocq nests [NAME ...]    loop nests compute their programs, and wrong ones are refused
python -m proofs_tests.rocq levels              levels of sparse formats encode like those of Python (`make rocq` too)
python -m proofs_tests.rocq mutants [NAME ...]  no mutant of a rule that is found false is proved
python -m proofs_tests.rocq recurrences         steps inside recurrences (`make rocq` does this too)
python -m proofs_tests.rocq xla [NAME ...]      the rules of XLA in `examples/xla_rules.py`
python -m proofs_tests.rocq figure              the derivations of Fig. 8.6
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from proofs_tests.rocq import evaluation, figure, levels, mutants, refusals, rules, xla
from proofs_tests.rocq.nests import checked
from rewrites.rocq import coqc

Report = TypeVar("Report")
PARTS: Final[dict[str, Callable[[Sequence[str]], tuple[object, bool]]]] = {
    "rules": lambda names: _judged(rules.prove_all(names), lambda report: report.as_expected),
    "definitions": lambda _: _judged(evaluation.compare(100), lambda report: not report.wrong),
    "faults": lambda _: _judged(refusals.all_faults(), lambda report: not report.unseen),
    "nests": lambda names: _judged(checked.check_all(names), lambda report: report.as_expected),
    "levels": lambda _: _judged(levels.compare(), lambda report: not report.wrong),
    "mutants": lambda names: _judged(mutants.try_all(names), lambda report: not report.wrong),
    "recurrences": lambda names: _judged(
        figure.check_all(names, made=figure.in_recurrences()), lambda report: not report.refused
    ),
    "xla": lambda names: _judged(xla.prove_all(names), lambda report: bool(names) or report.as_expected),
    "figure": lambda names: _judged(figure.check_all(names), lambda report: not report.refused),
}
"""The parts by name; each returns whether it succeeded."""
USUAL: Final = ("rules", "definitions", "faults", "nests", "levels", "recurrences")


def _judged(report: Report, good: Callable[[Report], bool]) -> tuple[object, bool]:
    return report, good(report)


def _nests_in(part: str) -> tuple[object, bool]:
    return _judged(checked.check_all(part=part), lambda report: report.as_expected)


def main(arguments: Sequence[str] = ()) -> int:
    """Run the parts; return 0 if all is as expected or Rocq is not installed."""
    half = None
    if len(arguments) == 2 and arguments[0] == "--part":
        half, arguments = arguments[1], ()
    if arguments and arguments[0] not in PARTS:
        print(f"unknown part {arguments[0]}; choose from {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if coqc.found() is None:
        print(coqc.HOW_TO_GET, file=sys.stderr)
        return 0
    well = True
    for part in arguments[:1] or USUAL:
        report, good = PARTS[part](arguments[1:]) if part != "nests" or half is None else _nests_in(half)
        print(report, flush=True)
        well &= good
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
