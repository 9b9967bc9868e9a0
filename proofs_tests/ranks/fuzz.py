"""Fuzzing of distributed programs: random terms with device loops, sizes and meshes, against the interpreter.

Each case is a program whose lets read parts of other ranks in a random way. It is refused with a typed error, or runs
on simulated ranks and must agree with the interpreter, with the traffic that its formulas state. Inputs hold no zeros.

    atl fuzz ranks --n 10000
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Final

import numpy as np

import atl
from atl.errors import ATLError
from lowering.ranks.engine import AnyArray
from lowering.ranks.forming import form
from lowering.ranks.kernel import DistributedKernel
from lowering.ranks.mesh import Mesh
from lowering.ranks.steps import RankProgram, exchanges
from lowering.ranks.traffic import traffic_of
from proofs_tests.fuzzing import Progress, Tally, command, try_all
from proofs_tests.ranks.arguments import mesh_of, random_arguments


@dataclass(frozen=True)
class Case:
    """A program and the sizes of a call."""

    text: str
    sizes: dict[str, int]


def _owner(random: Random, rank: str, extent: str) -> tuple[str, str]:
    """Return an index of a rank, and the condition under which it is in range."""
    shift = random.choice([-2, -1, 1, 2])
    return random.choice(
        [
            (rank, ""),
            (f"{rank} + {shift}", f"0 <= {rank} + {shift} < {extent}"),
            ("0", ""),
            (f"{extent} - 1", ""),
            (f"{extent} - 1 - {rank}", ""),
            (f"({rank} + {abs(shift)}) % {extent}", ""),
        ]
    )


def _value(random: Random) -> tuple[str, str]:
    """Return a term that reads u, the tensor of P x b elements, and its extent."""
    reach = random.choice([1, 2])
    border = f"⊞[i < {reach}] [{reach} <= d*b + i] · u[(d*b + i - {reach}) // b, (d*b + i - {reach}) % b]"
    match random.randrange(7):
        case 0:
            return f"⊞[i < b] {random.choice(['Σ', 'max', 'min'])}[k < P] u[k, i]", "b"
        case 1:
            return "⊞[i < b] Σ[k < P] u[k, (i + d) % b]", "b"
        case 2:
            at = random.choice(["i*P + d", "d*b + (b - 1 - i)", f"(i*P + d + {random.randrange(3)}) % (P*b)"])
            return f"⊞[i < b] u[({at}) // b, ({at}) % b]", "b"
        case 3:
            return f"({border}) ++ ⊞[i < b] u[d, i]", f"b + {reach}"
        case 4:
            return "Σ[k < P] let row := ⊞[i < b] u[k, i] in ⊞[i < b] row[i] * row[(i + d) % b]", "b"
        case 5:
            return "⊞[i < b] u[d, i] + u[0, i]", "b"
        case _:
            owner, condition = _owner(random, "d", "P")
            guard = f"[{condition}] · " if condition else ""
            column = random.choice(["i", "b - 1 - i"])
            return f"⊞[i < b] {guard}{random.choice(['', '2.0 * '])}u[{owner}, {column}]", "b"


def case_of(seed: int) -> Case:
    """Return a random case."""
    random = Random(seed)
    values = [_value(random) for _ in range(random.randint(1, 3))]
    reads = [f"t{number}[i % ({extent})]" for number, (_, extent) in enumerate(values)]
    inner = f"⊞[i < b] {' + '.join(reads)} + u[d, i]"
    for number, (value, _) in reversed(list(enumerate(values))):
        inner = f"let t{number} := {value} in {inner}"
    whole = random.choice(["⊞[k < P] ⊞[i < b] u[k, i]", "⊞[k < P | device.x] ⊞[i < b] 3.0 * u[k, i]", ""])
    if whole:
        inner = inner.replace("+ u[d, i]", "+ w[d, i]" if "device" in whole else "+ w[(d + 1) % P, i]")
    body = f"{f'let w := {whole} in ' if whole else ''}⊞[d < P | device.x] {inner}"
    sizes = {"P": random.choice([1, 1, 2, 3, 4, 5, 8, 32]), "b": random.choice([1, 1, 2, 3, 5])}
    return Case(f"f (u : float32[P | device.x, b]) : float32[P, b] given 1 <= P, 1 <= b := {body}", sizes)


def mesh_case_of(seed: int) -> Case:
    """Return a random case on a mesh of two axes."""
    random = Random(seed)
    (x, if_x), (y, if_y) = _owner(random, "d", "P"), _owner(random, "e", "Q")
    conditions = " ∧ ".join(each for each in (if_x, if_y) if each)
    read = f"{f'[{conditions}] · ' if conditions else ''}u[{x}, {y}, i]"
    value = random.choice(
        [f"⊞[i < b] {read}", "⊞[i < b] Σ[k < P] u[k, e, i]", "⊞[i < b] max[k < Q] u[d, k, (i + e) % b]",
         "⊞[i < b] u[(i + d) % P, e, i]", "⊞[i < b] u[(i + d) % P, (i + e) % Q, i]",
         "Σ[k < Q] let a := ⊞[i < b] u[d, k, i] in let c := ⊞[i < b] v[k % P, i] in ⊞[i < b] a[i] * c[i]"]
    )  # fmt: skip
    body = f"⊞[d < P | device.x] ⊞[e < Q | device.y] let t := {value} in ⊞[i < b] t[i] + u[d, e, i] * v[d, i]"
    sizes = {name: random.choice([1, 2, 3]) for name in ("P", "Q", "b")}
    declared = "u : float32[P | device.x, Q | device.y, b], v : float32[P | device.x, b]"
    return Case(f"g ({declared}) : float32[P, Q, b] given 1 <= P, 1 <= Q, 1 <= b := {body}", sizes)


# -- redistributions --------------------------------------------------------------------------------------------------


def redistribution(seed: int) -> str | None:
    """Redistribute a vector between random layouts; return what is wrong, if anything.

    The number of elements is 0, 1, less than the number of ranks, or any other. In an exchange by counts, each rank
    must receive exactly the elements that it needs and does not hold. Blocks in reversed order are copied whole.
    """
    random = Random(seed)
    steps = _redistribution_steps(random.choice(ORDERS), random.choice(ORDERS))
    ranks, length = random.choice([1, 2, 3, 5, 8, 17, 32]), random.choice([1, 2, 3, 7])
    size = random.choice([0, 1, max(0, ranks - 1), random.randint(0, ranks * length)])
    size = min(size, ranks * length)
    whole = np.arange(1, size + 1, dtype=np.float32)
    kernel = DistributedKernel(steps.steps, Mesh(x=ranks), "interpreter")
    found = kernel(_dealt(whole, steps.source, ranks, length), size=size)
    if not np.array_equal(found, _dealt(whole, steps.target, ranks, length)):
        return f"{steps.source} to {steps.target}, {ranks} x {length}, {size} elements: {found}"
    here, there = (_dealt(whole, order, ranks, length) for order in (steps.source, steps.target))
    bound = [int(np.isin(there[rank][there[rank] > 0], here[rank], invert=True).sum()) for rank in range(ranks)]
    if {steps.source, steps.target} == {"blocks", "reversed blocks"}:
        bound = [0 if rank == ranks - 1 - rank else length for rank in range(ranks)]
    assert kernel.counted is not None
    return None if kernel.counted.words == bound else f"{kernel.counted.words} words, not {bound}"


ORDERS: Final = ("blocks", "cyclic", "reversed blocks")


def _dealt(whole: AnyArray, order: str, ranks: int, length: int) -> AnyArray:
    """Return the parts of a vector by rank, with zeros where a part is not full."""
    out = np.zeros((ranks, length), np.float32)
    for number, value in enumerate(whole):
        out[_place(order, number, ranks, length)] = value
    return out


def _place(order: str, number: int, ranks: int, length: int) -> tuple[int, int]:
    match order:
        case "blocks":
            return number // length, number % length
        case "cyclic":
            return number % ranks, number // ranks
        case "reversed blocks":
            return ranks - 1 - number // length, number % length
        case _:
            raise AssertionError(order)


@dataclass(frozen=True)
class Redistribution:
    """The steps of a redistribution, with the orders of the parts before and after it."""

    steps: RankProgram
    source: str
    target: str


_OWNERS: Final = {"blocks": "({0}) // b, ({0}) % b", "cyclic": "({0}) % P, ({0}) // P",
                  "reversed blocks": "P - 1 - ({0}) // b, ({0}) % b"}  # fmt: skip
_ELEMENTS: Final = {"blocks": "d*b + i", "cyclic": "i*P + d", "reversed blocks": "(P - 1 - d)*b + i"}


@cache
def _redistribution_steps(source: str, target: str) -> Redistribution:
    """Return the redistribution of a vector of `size` elements between two orders."""
    at = _ELEMENTS[target]
    text = (
        "f (u : float32[P | device.x, b], size : size) : float32[P, b] given 1 <= P, 1 <= b, size <= P*b := "
        f"⊞[d < P | device.x] ⊞[i < b] [{at} < size] · u[{_OWNERS[source].format(at)}]"
    )
    return Redistribution(form(atl.parse(text)), source, target)


# -- running ----------------------------------------------------------------------------------------------------------


def check(case: Case, counts: Counter[str]) -> str | None:
    """Run a case; return what is wrong, if anything. Counts each form of exchange, and each refusal."""
    try:
        program = atl.parse(case.text)
        steps = form(program)
    except ATLError as error:
        counts[f"refused: {type(error).__name__}"] += 1
        return None
    counts.update(each.form for each in exchanges(steps.steps))
    mesh = mesh_of(steps, case.sizes)
    arrays, free = random_arguments(program, case.sizes, np.random.default_rng(1))
    wanted = atl.evaluate_fast(program, **{**arrays, **free})
    kernel = DistributedKernel(steps, mesh, "interpreter")
    found = kernel(**{**arrays, **free})
    counts["run"] += 1
    if not np.allclose(found, wanted, rtol=1e-4):
        return f"{found} is not {wanted}"
    assert kernel.counted is not None
    stated = traffic_of(steps).of(mesh, **case.sizes) if case.sizes["P"] <= 5 else None
    if stated is not None and stated != (kernel.counted.words, kernel.counted.messages):
        return f"the traffic is {kernel.counted}, and {stated} is stated"
    return None


@dataclass(slots=True)
class Counts(Tally[str]):
    """Counts of the forms of exchanges, of refusals, and of programs that ran."""

    forms: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [self.opening("programs and redistributions")]
        lines += [f"  {number} {name}" for name, number in sorted(self.forms.items())]
        return self.report(lines)


def run(numbers: Sequence[int], seed: int, progress: Progress[str] | None = None) -> Counts:
    """Try the programs and the redistributions with these numbers."""
    counts = Counts(seed, wanted=len(numbers))

    def one(number: int) -> None:
        chosen = number + seed * 1_000_000
        case = case_of(chosen) if number % 4 else mesh_case_of(chosen)
        try:
            found = check(case, counts.forms)
        except ATLError as error:
            found = f"{type(error).__name__}: {error}"
        if found is not None:
            counts.findings.append(f"program {number} of seed {seed}, {case.sizes}: {case.text}\n  {found}")
        if (wrong := redistribution(chosen)) is not None:
            counts.findings.append(f"redistribution {number} of seed {seed}: {wrong}")

    try_all(counts, numbers, one, progress)
    return counts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 without findings, 1 with findings, 130 when interrupted."""
    return command(arguments, run, name="ranks", what="programs", description=__doc__)


if __name__ == "__main__":
    raise SystemExit(main())
