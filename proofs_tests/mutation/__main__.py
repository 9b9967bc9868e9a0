"""`python -m proofs_tests.mutation SCOPE`: run the tests of a package on its mutants, and report the survivors.

The scopes are in `packages`. Verdicts are cached in `out/mutation`, and an interrupted run continues. The exit status
is 1 if a mutant survives that is not listed in `equivalent`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from random import Random

import pytest

from proofs_tests.mutation.edits import Mutant, mutants
from proofs_tests.mutation.equivalent import EQUIVALENT
from proofs_tests.mutation.packages import HERE, SCOPES
from proofs_tests.mutation.running import SECONDS, Runner, Verdicts


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m proofs_tests.mutation", description="Mutation testing of the trusted packages."
    )
    parser.add_argument("scope", choices=list(SCOPES))
    parser.add_argument("--sample", type=int, help="number of random mutants (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="only mutants whose key contains this text"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of tests for each mutant (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=1, help="number of processes (default: %(default)s)")
    parser.add_argument("--tests", action="append", default=[], metavar="FILE", help="run these tests instead")
    parser.add_argument("--without", action="append", default=[], metavar="FILE", help="leave out these tests")
    parser.add_argument("--survived", action="store_true", help="run survivors again")
    parser.add_argument("--again", action="store_true", help="run all again")
    options = parser.parse_args(argv)
    scope = SCOPES[options.scope]
    texts = {file: (HERE / file).read_text(encoding="utf-8") for file in scope.paths()}
    made = [mutant for file, text in texts.items() for mutant in mutants(file, text)]
    chosen = [mutant for mutant in made if not options.only or any(text in mutant.key for text in options.only)]
    if options.sample is not None and options.sample < len(chosen):
        chosen = sorted(Random(options.seed).sample(chosen, options.sample), key=lambda mutant: mutant.key)
    verdicts = Verdicts(HERE / "out" / "mutation" / f"{options.scope}.jsonl", texts)
    repeated = ("survived", "unreached", "no component", None) if options.survived else (None,)
    left = [mutant for mutant in chosen if options.again or verdicts.of(mutant) in repeated]
    print(f"{len(chosen)} mutants, {len(chosen) - len(left)} of them with a cached verdict", flush=True)
    tests = options.tests or [test for test in scope.tests if test not in options.without]
    if left:
        runner = Runner(left, texts, verdicts, seconds=options.seconds, workers=options.workers)
        # No explanation of failures, which takes longer than the test for large terms.
        quick = ["-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]
        code = pytest.main([*quick, *tests], plugins=[runner])
        if code != pytest.ExitCode.OK or runner.broken:
            print(f"the tests fail without a mutant: {', '.join(runner.broken) or code}", file=sys.stderr)
            return 2
    return report(chosen, verdicts)


def report(chosen: Sequence[Mutant], verdicts: Verdicts) -> int:
    """Print the verdicts; return 1 if a survivor is not listed as equivalent."""
    by: dict[str, list[Mutant]] = {}
    for mutant in chosen:
        by.setdefault(verdicts.of(mutant) or "not run", []).append(mutant)
    unexplained = 0
    for mutant in sorted(by.get("survived", []), key=lambda mutant: (mutant.file, mutant.line)):
        why = EQUIVALENT.get(mutant.key)
        unexplained += why is None
        status = f"equivalent: {why}" if why else "NOT EXPLAINED"
        print(f"{mutant.file}:{mutant.line} {mutant.function}: {mutant.change} #{mutant.number}: {status}")
    counts = ", ".join(f"{len(found)} {verdict}" for verdict, found in sorted(by.items()))
    decided = len(by.get("killed", [])) + len(by.get("timeout", [])) + len(by.get("survived", []))
    found = decided - len(by.get("survived", []))
    print(f"{counts}; {found / decided:.1%} found" if decided else counts)
    print(f"{unexplained} survivors are not explained")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
