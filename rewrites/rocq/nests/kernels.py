"""Loop nests as theorems of Rocq: a nest computes its program, which a certificate derives from the formula."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from atl.checks.scope import initial_facts
from atl.core.program import Program
from atl.errors import InvalidArgument
from lowering.nest.loopnest import LoopNest, elements, statements
from rewrites.rocq import certificates
from rewrites.rocq.certificates import Derivation, equal_within
from rewrites.rocq.nests import core
from rewrites.rocq.nests.plan import Plan, hoisted_in, plan_of
from rewrites.rocq.nests.printing import Printer
from rewrites.rocq.nests.proofs import Place, Prover
from rewrites.rocq.nests.rows import Rows
from rewrites.rocq.nests.storage import check_storage
from rewrites.rocq.notation import positions

SECONDS: Final = 300
"""Time limit for the proof of one nest, in seconds."""
SECONDS_BY_THEOREM: Final = 30
"""Time limit for each lemma about a nest that is proved by the theorem about lowering."""


def texts_of(derived: Derivation, nest: LoopNest) -> Iterator[str]:
    """Yield files that prove the same theorems about a nest, the fastest first; the nest is proved if Rocq accepts one.

    The first is proved by the theorem about lowering, the second by a proof of this nest. Raises `InvalidArgument` if
    there is neither.
    """
    with contextlib.suppress(InvalidArgument):
        yield text_by_theorem(derived, nest)
    yield text_of(derived, nest)


def text_of(derived: Derivation, nest: LoopNest, seconds: int = SECONDS) -> str:
    """Return the file with a proof of this nest: the derivation, the nest of the last program, and theorem `lowered`.

    The theorem states that the nest is safe, and that its output is the value of the first program for any initial
    contents of its storage. If the output is assembled, the theorem `assembles` states that the arrays of the entries
    represent this value.
    """
    more = [*_as_written(derived), *_nest(derived, nest, seconds), *_theorem(derived.programs[0], nest)]
    if nest.assembly is None:
        return certificates.text_of(derived, library="Storing", more=more, theorems=("lowered",))
    more += Rows(nest, printer_of(nest, derived.programs[0])).theorem(derived.programs[0])
    return certificates.text_of(derived, library="Assembling", more=more, theorems=("lowered", "assembles"))


def text_by_theorem(derived: Derivation, nest: LoopNest, seconds: int = SECONDS_BY_THEOREM) -> str:
    """Return a file with the same theorems, proved by the theorem about the lowering function (`Lowering.v`).

    Raises `InvalidArgument` if the program or its nest is not in the core language. Rocq may refuse the file although
    the nest is right, if a pass has changed more than the form of indices, the ranges of loops and the place of guards.
    """
    more = [*_as_written(derived), *_lowered_term(derived, nest, seconds), *_theorem(derived.programs[0], nest)]
    return certificates.text_of(derived, library="Lowering", more=more, theorems=("lowered",))


def _lowered_term(derived: Derivation, nest: LoopNest, seconds: int) -> Iterator[str]:
    first, last = derived.programs[0], derived.programs[-1]
    printer = printer_of(nest, last)
    kernel = core.kernel(last, nest, printer)
    shape, uid = positions(map(printer.index, first.type.shape)), nest.output.uid
    for name, arity in printer.garbage.items():
        yield f"Variable {name} : {'Z -> ' * arity}tensor."
    yield f"(* The nest of {last.name}; its output is storage {uid}. *)"
    yield f"Definition nest : statement :=\n{kernel.nest}.\n"
    yield f"Definition core : term :=\n{kernel.term}.\n"
    yield f"Lemma nest_lowered : safe (only {uid} {shape}) nest /\\ fills [] nest {uid} {shape} (meaning nothing core)."
    yield f"Proof. timeout {seconds} (apply (lowered_nest core {uid} {shape} {kernel.count}); unfold core, nest;"
    yield "  [fresh_storage | well_formed | filled_all | same_statements]). Qed.\n"
    yield f"Lemma core_value : forall p, within {shape} p -> meaning nothing core p = program_0 p."
    looks = f"{'rewrite <- as_written by known; ' if derived.steps else ''}unfold program_{len(derived.steps)}; "
    yield f"Proof. timeout {seconds} (intros; apart_lists; {looks}unfold core; same_value). Qed.\n"
    yield f"Lemma nest_safe : safe (only {uid} {shape}) nest.\nProof. exact (proj1 nest_lowered). Qed.\n"
    yield f"Lemma nest_fills : fills [] nest {uid} {shape} program_0."
    yield "Proof. exact (fills_alike _ _ _ _ _ _ (proj2 nest_lowered) core_value). Qed.\n"


def printer_of(nest: LoopNest, program: Program) -> Printer:
    """Return the printer for a nest that computes a program."""
    check_storage(nest, program)
    capacities = {uid: at.capacity for uid, at in hoisted_in(statements(nest.body)).items()}
    return Printer(capacities, {array.name: array for array in program.inputs})


def _as_written(derived: Derivation) -> Iterator[str]:
    """Yield the lemma that the last program equals the first."""
    yield f"Lemma as_written : {equal_within(derived.programs[0], f'program_{len(derived.steps)}', 'program_0')}."
    yield "Proof."
    yield "  intros. symmetry. pose proof certified as equal''."
    yield "  repeat lazymatch type of equal'' with _ /\\ _ => destruct equal'' as [_ equal''] end."
    yield "  apply equal''; assumption."
    yield "Qed.\n"


def _nest(derived: Derivation, nest: LoopNest, seconds: int) -> Iterator[str]:
    first, last = derived.programs[0], derived.programs[-1]
    looks = ["unfold program_0"]
    if derived.steps:
        # The smaller program is compared faster.
        looks.insert(
            last.body.size > first.body.size, f"rewrite <- as_written by known; unfold program_{len(derived.steps)}"
        )
    printer = printer_of(nest, last)
    prover = Prover(printer, tuple(looks))
    plan: Plan = plan_of(nest.body, nest.output.uid, frozenset(printer.capacities))
    place = Place(initial_facts(nest.assumptions, nest.inputs))
    text = prover.text(plan)
    # The caller's array has the extents of the program, not those that the nest declares.
    shape, cells = positions(map(printer.index, first.type.shape)), printer.index(elements(first.type.shape))
    if not nest.complete:
        text = f"(Then (Storage {nest.output.uid} {shape} {cells} (Own {cells}) (fun _ => zero))\n{text})"
    script = prover.output(plan, nest.output, place, zeroed=not nest.complete)
    for name, arity in printer.garbage.items():
        yield f"Variable {name} : {'Z -> ' * arity}tensor."
    yield f"(* The nest of {last.name}; its output is storage {nest.output.uid}. *)"
    yield f"Definition nest : statement :=\n{text}.\n"
    there = f"(only {nest.output.uid} {shape})"
    yield f"Lemma nest_safe : safe {there} nest.\nProof. timeout {seconds} (unfold nest; safely). Qed.\n"
    yield f"Lemma nest_fills : fills [] nest {nest.output.uid} {shape} program_0."
    yield "Proof.\n  unfold nest."
    yield from (f"  {line}" for line in script)
    yield "Qed.\n"
    if nest.assembly is not None:
        yield from Rows(nest, printer).lemma(plan)


def _theorem(first: Program, nest: LoopNest) -> Iterator[str]:
    printer = printer_of(nest, first)
    at = [f"p''{d}" for d in range(first.type.rank)]
    within = "".join(f"0 <= {p} < {printer.index(e)} -> " for p, e in zip(at, first.type.shape, strict=True))
    bound = " ".join(["(s : state)", *(f"({p} : Z)" for p in at)])
    place = positions(at)
    shape = positions(map(printer.index, first.type.shape))
    yield f"Theorem lowered : safe (only {nest.output.uid} {shape}) nest /\\"
    yield f"  forall {bound}, {within}run nest s {nest.output.uid} {place} = program_0 {place}."
    yield "Proof."
    yield "  split; [exact nest_safe | intros; apply nest_fills; [exact I | cbn [within]; each_part]]."
    yield "Qed."
