"""`python -m proofs_tests.mutation ROOM`: plants faults in a room, one at a time, and says which no test has found.

    kernel, rules, grading, checks, core, surface, certificates, padtypes, prove
                                               what is planted in (`rooms`)
    --sample N --seed S                        so many, drawn by a seed
    --survived, --again                        those too that no test has found; all, whatever is known of them
    --only TEXT                                those whose key holds this text, or one of several
    --workers N                                so many processes at a time
    --seconds S, --without FILE, --tests FILE  fewer or other tests: what survives them may be found by more

What was found is kept in `out/mutation`, and a run goes on where the one before it was stopped. 1 if a mutant survives
that nobody has explained (`explained`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from random import Random

import pytest

from proofs_tests.mutation.edits import Mutant, mutants
from proofs_tests.mutation.explained import EXPLAINED
from proofs_tests.mutation.rooms import HERE, ROOMS
from proofs_tests.mutation.running import SECONDS, Runner, Verdicts


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m proofs_tests.mutation", description="Faults, and who finds them.")
    parser.add_argument("room", choices=list(ROOMS))
    parser.add_argument("--sample", type=int, help="so many mutants, drawn by the seed (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="mutants whose key holds this text")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests for one mutant (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time (default: %(default)s)")
    parser.add_argument("--tests", action="append", default=[], metavar="FILE", help="these, not those of the room")
    parser.add_argument("--without", action="append", default=[], metavar="FILE", help="tests of the room to leave out")
    parser.add_argument("--survived", action="store_true", help="run those too that no test found before")
    parser.add_argument("--again", action="store_true", help="run those too whose verdict is known")
    asked = parser.parse_args(argv)
    room = ROOMS[asked.room]
    texts = {file: (HERE / file).read_text(encoding="utf-8") for file in room.paths()}
    made = [mutant for file, text in texts.items() for mutant in mutants(file, text)]
    chosen = [mutant for mutant in made if not asked.only or any(text in mutant.key for text in asked.only)]
    if asked.sample is not None and asked.sample < len(chosen):
        chosen = sorted(Random(asked.seed).sample(chosen, asked.sample), key=lambda mutant: mutant.key)
    verdicts = Verdicts(HERE / "out" / "mutation" / f"{asked.room}.jsonl", texts)
    asked_again = ("survived", "unreached", None) if asked.survived else (None,)
    left = [mutant for mutant in chosen if asked.again or verdicts.of(mutant) in asked_again]
    print(f"{len(chosen)} mutants, {len(chosen) - len(left)} of them judged before", flush=True)
    tests = asked.tests or [test for test in room.tests if test not in asked.without]
    if left:
        runner = Runner(left, texts, verdicts, seconds=asked.seconds, workers=asked.workers)
        # A failure is not explained: nobody reads it, and of large terms that takes longer than the test.
        quick = ["-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]
        code = pytest.main([*quick, *tests], plugins=[runner])
        if code != pytest.ExitCode.OK or runner.broken:
            print(f"the tests of the room do not pass as they are: {', '.join(runner.broken) or code}", file=sys.stderr)
            return 2
    return told(chosen, verdicts)


def told(chosen: Sequence[Mutant], verdicts: Verdicts) -> int:
    """Prints what became of the mutants."""
    by: dict[str, list[Mutant]] = {}
    for mutant in chosen:
        by.setdefault(verdicts.of(mutant) or "not run", []).append(mutant)
    unexplained = 0
    for mutant in sorted(by.get("survived", []), key=lambda mutant: (mutant.file, mutant.line)):
        why = EXPLAINED.get(mutant.key)
        unexplained += why is None
        print(
            f"{mutant.file}:{mutant.line} {mutant.function}: {mutant.change} #{mutant.number}: {why or 'NOT EXPLAINED'}"
        )
    counts = ", ".join(f"{len(found)} {verdict}" for verdict, found in sorted(by.items()))
    judged = len(by.get("killed", [])) + len(by.get("timeout", [])) + len(by.get("survived", []))
    found = judged - len(by.get("survived", []))
    print(f"{counts}; {found / judged:.1%} found" if judged else counts)
    print(f"{unexplained} survivors are not explained")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
