"""Reproducibility of generated text: it must not depend on the hash seed, the order of sets or addresses.

python -m proofs_tests.architecture.reproducible                      compare all texts under ten hash seeds
python -m proofs_tests.architecture.reproducible searches prover      only these parts; --seeds N sets how many seeds
python -m proofs_tests.architecture.reproducible --here programs      print the digest of each text in this process
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from inspect import isfunction, signature
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

import atl
import examples
from atl.core.program import Program
from atl.html import page
from atl.text.latex import latex
from examples import derivations as derived
from examples.schedules import anchors, blur, matmul
from examples.templates.rows import softmax
from layouts import blocked, families_table
from layouts.templates import Filled
from lowering import lower
from lowering.nest.text import print_nest
from lowering.origins import trace
from proofs_tests.errors import catalogue
from proofs_tests.programs.differential import run_block
from proofs_tests.programs.generate import Case, case_by_seed
from proofs_tests.prover.test_prover_fuzz import written_answers
from proofs_tests.rules.page import statement
from proofs_tests.sessions.random_derivations import run as derive
from proofs_tests.sparse.matrices import FORMATS
from rewrites import Session, reschedule
from rewrites.certificates.certificate import describe, dumps
from rewrites.egraph import Limit, saturate
from rewrites.rocq.statements import lemma
from rewrites.rules import RULES
from rewrites.session.catalogue import markdown

HERE: Final = Path(__file__).resolve().parents[2]
SEEDS: Final = 10
Texts: TypeAlias = Iterator[tuple[str, str]]
"""Texts with their names."""


@cache
def example_results() -> dict[str, object]:
    """Return the results of the examples' functions that can be called without arguments."""
    made = {}
    for found in pkgutil.walk_packages(examples.__path__, "examples."):
        module = importlib.import_module(found.name)
        for name, function in _public_functions(module):
            if all(one.default is not one.empty for one in signature(function).parameters.values()):
                made[f"{found.name}.{name}"] = function()
    return made


def _public_functions(module: ModuleType) -> Iterator[tuple[str, Callable[[], object]]]:
    for name, function in vars(module).items():
        if isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_"):
            yield name, function


def programs() -> Texts:
    """Yield programs as text and LaTeX, their loop nests and their C."""
    for name, made in example_results().items():
        if isinstance(made, Program):
            yield name, f"{made}\n{latex(made)}\n{print_nest(lower(made))}\n{trace(made).source}"


def derivations() -> Texts:
    """Yield the calls, certificate, trace and page of each derivation."""
    for name, made in example_results().items():
        if isinstance(made, Session):
            yield from _of_a_session(name, made)


def _of_a_session(name: str, session: Session) -> Texts:
    theorem = session.done()
    yield f"{name}: calls", "\n".join(f"{call}" for call in session.steps)
    yield f"{name}: certificate", dumps(theorem)
    yield f"{name}: account", describe(theorem)
    yield f"{name}: page", page(theorem)


def templates() -> Texts:
    """Yield templates with their layouts filled in."""
    for name, made in example_results().items():
        for at, one in enumerate(made if isinstance(made, tuple) else (made,)):
            if isinstance(one, Filled):
                yield f"{name} {at}", f"{one}\n{one.operations}"


def storages() -> Texts:
    """Yield sparse matrix-vector products in all formats, and a product with a blocked operand."""
    n, m = atl.sizes("n m")
    a, v = atl.tensor("A", n, m), atl.tensor("v", m)
    spmv = atl.program("spmv", [a, v], atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * v[j])))
    for name, form in FORMATS.items():
        yield name, _stored(reschedule(spmv).sparsify("A", form))
    yield "stored in blocks", _stored(reschedule(anchors.product()).store("B", blocked(4, 8)))


def _stored(session: Session) -> str:
    return f"{session.goal}\n{dumps(session.done())}\n{trace(session.goal).source}"


def catalogues() -> Texts:
    """Yield the generated pages of rules (with lemmas in Rocq), tactics, errors and layout families."""
    for name, rule in RULES.items():
        yield name, f"{statement(rule)}\n{lemma(rule)}"
    yield "tactics", markdown()
    yield "families", families_table()
    for entry in catalogue.ENTRIES:
        yield entry.code, catalogue.message(entry)


def searches() -> Texts:
    """Yield the classes, choices and proof chains of equality saturation."""
    for program in (blur.two_stage(), matmul.naive()):
        yield from _of_a_search(program)


def _of_a_search(program: Program) -> Texts:
    found = saturate(program, limit=Limit(nodes=350, rounds=9, seconds=1000.0))
    yield f"{program.name}: classes", f"{found.progress.classes} {found.stopped}\n{sorted(found.nodes.items())}"
    for at, choice in enumerate(found.best(k=5)):
        moves = [(move.path, move.rule.name, move.reverse) for move in choice._moves()]
        yield f"{program.name}: choice {at}", f"{choice.label}\n{choice.body}\n{moves}"


def prover() -> Texts:
    """Yield answers and the layers that gave them."""
    yield "answers", written_answers()


def random_programs() -> Texts:
    """Yield random programs, a differential run and random derivations of fixed seeds."""
    for number in range(12):
        made = case_by_seed(9, number)
        yield f"program {number}", str(made.program) if isinstance(made, Case) else str(made)
    yield "differential run", str(run_block(9, range(40), in_c=False))
    yield "derivations", str(derive(range(6), 3))


def some() -> Texts:
    """Yield a small sample of the other parts, for a test."""
    yield from _of_a_session("im2col", derived.im2col())
    filled = softmax()
    yield "softmax", f"{filled}\n{filled.operations}"
    yield from islice(storages(), 1)
    yield from islice(catalogues(), 20)
    yield from _of_a_search(blur.two_stage())
    yield from prover()
    yield "differential run", str(run_block(9, range(12), in_c=False))


ALL: Final[tuple[Callable[[], Texts], ...]] = (
    programs, derivations, templates, storages, catalogues, searches, prover, random_programs,
)  # fmt: skip
PARTS: Final[dict[str, Callable[[], Texts]]] = {part.__name__: part for part in (*ALL, some)}


def digests(parts: Sequence[str]) -> Iterator[str]:
    """Yield a line for each text: its part, name and digest."""
    for part in parts:
        for name, text in PARTS[part]():
            yield f"{part}: {name}: {sha256(text.encode()).hexdigest()[:16]}"


def under(seed: int, parts: Sequence[str]) -> list[str]:
    """Return the digests of a process with this hash seed."""
    command = [sys.executable, "-m", "proofs_tests.architecture.reproducible", "--here", *parts]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    made = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(f"under PYTHONHASHSEED={seed}: {made.stderr}")
    return made.stdout.splitlines()


def differing(runs: Sequence[Sequence[str]]) -> list[str]:
    """Return the texts that differ between runs, or a note if only their order does."""
    first = runs[0]
    lines = {line for run in runs[1:] for line in {*run} ^ {*first}}
    if not lines and any(run != first for run in runs):
        return ["the order in which texts are made"]
    return sorted({line.rpartition(": ")[0] for line in lines})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 if every text is the same under all seeds, else 1."""
    parser = argparse.ArgumentParser(prog="python -m proofs_tests.architecture.reproducible", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all but the last)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"under how many hash seeds (default: {SEEDS})")
    parser.add_argument("--here", action="store_true", help="the digests of this process alone")
    options = parser.parse_args(arguments)
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]}; one of {', '.join(PARTS)}")
    parts = options.parts or [part.__name__ for part in ALL]
    if options.here:
        for line in digests(parts):
            print(line)
        return 0
    runs = [under(seed, parts) for seed in range(options.seeds)]
    found = differing(runs)
    print("\n".join([*found, f"{len(runs[0])} texts under {len(runs)} hash seeds: {len(found) or 'none'} differ"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
