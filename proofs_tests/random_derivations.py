"""Random derivations: rules at random places, and after every step the same values on random arrays.

`python -m proofs_tests.random_derivations --n 2000 --seed 1` prints how many steps were made, by which rules, and every
program that is not well-formed or does not compute what the start does.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl import Program
from atl.errors import ATLError
from atl.index import Leaf, Size, value_of
from atl.interpret import denote
from atl.predicate import holds
from atl.scalars import Exact
from atl.wellformed import check_wellformed
from examples import derivations
from examples.schedules import blur, convolution, matmul, tensor_addition
from rewrites import Session, reschedule, rules
from rewrites.kernel import Theorem, rewrite
from rewrites.matching import Mismatch, match
from rewrites.rule import Rule
from rewrites.sites import Site, sites

STARTS: Final = (
    derivations.pipeline,
    derivations.shifting_convolution,
    matmul.naive,
    matmul.tiled,
    blur.two_stage,
    blur.fused,
    convolution.gather,
    convolution.scatter,
    convolution.im2col,
    tensor_addition.nested,
)
LARGEST: Final = 260
"""A program of more nodes is not rewritten further."""
TRIES: Final = 160


@dataclass(slots=True)
class Report:
    """What became of the derivations of a run."""

    derivations: int = 0
    steps: int = 0
    compared: int = 0
    by_rule: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        unused = [name for name in rules if name not in self.by_rule]
        return "\n".join(
            [
                f"{self.derivations} derivations, {self.steps} steps by {len(self.by_rule)} of {len(rules)} rules",
                f"  {self.compared} programs compared with their start on random arrays, {len(self.failures)} failures",
                f"  rules not used: {', '.join(unused) or 'none'}",
                *self.failures[:5],
            ]
        )


def leaves(sizes: dict[str, int]) -> Any:
    def leaf(at: Leaf) -> int:
        return sizes[at.name] if isinstance(at, Size) else 0

    return leaf


def sizes_for(program: Program, random: Random) -> dict[str, int]:
    """Small sizes that meet the assumptions."""
    while True:
        chosen = {name: random.randint(0, 3) for name in program.sizes}
        if all(holds(assumption, leaves(chosen), lambda array, at: 0) for assumption in program.assumptions):
            return chosen


def values(program: Program, sizes: dict[str, int], seed: int) -> npt.NDArray[Any]:
    """What the program computes on arrays that this seed gives, exactly."""
    numbers = np.random.default_rng(seed)
    arrays = {}
    for array in program.inputs:
        shape = tuple(value_of(extent, leaves(sizes), lambda a, at: 0) for extent in array.shape)
        arrays[array.name] = numbers.integers(-9, 10, shape).astype(object)
    return denote(program, sizes, arrays, Exact()).to_numpy(object)


def places(program: Program, random: Random) -> Iterator[Site]:
    found = list(sites(program))
    random.shuffle(found)
    yield from found


def random_step(theorem: Theorem, random: Random) -> tuple[Theorem, Rule] | None:
    """The theorem after some rule at some place, if one is found within the tries."""
    names = list(rules)
    for _ in range(TRIES):
        rule, reverse = rules[random.choice(names)], random.random() < 0.3
        for site in list(places(theorem.rhs, random))[:6]:
            found = match(rule, reverse, site.term, {})
            if isinstance(found, Mismatch) or set(found) != set(rule.metavariables):
                continue
            try:
                after = rewrite(theorem, rule, site.path, found, reverse=reverse)
            except ATLError:
                continue
            if after.rhs.body.size <= LARGEST and after.rhs != theorem.rhs:
                return after, rule
    return None


def derive(number: int, seed: int, report: Report) -> None:
    """One derivation of 5 to 30 steps, each compared with the start."""
    random = Random(f"derivation {seed} {number}")
    start = STARTS[number % len(STARTS)]()
    session: Session = reschedule(start)
    theorem = session.theorem
    report.derivations += 1
    sizes = sizes_for(start, random)
    expected = values(start, sizes, number)
    for _ in range(random.randint(5, 30)):
        made = random_step(theorem, random)
        if made is None:
            return
        theorem, rule = made
        report.steps += 1
        report.by_rule[rule.name] += 1
        try:
            check_wellformed(theorem.rhs)
            found = values(theorem.rhs, sizes, number)
        except ATLError as error:
            report.failures.append(f"derivation {number} of seed {seed}, after {rule.name}: {error}\n{theorem.rhs}")
            return
        report.compared += 1
        if found.shape != expected.shape or not bool(np.all(found == expected)):
            report.failures.append(f"derivation {number} of seed {seed}: {rule.name} changed values\n{theorem.rhs}")
            return


def run(n: int, seed: int) -> Report:
    """`n` random derivations; interrupted, those made so far."""
    report = Report()
    try:
        for number in range(n):
            derive(number, seed, report)
    except KeyboardInterrupt:
        print(f"interrupted after {report.derivations} derivations", file=sys.stderr)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    report = run(options.n, options.seed)
    print(f"seed {options.seed}: {report}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
