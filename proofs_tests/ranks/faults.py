"""Faults planted in the steps of ranks: each must be found by simulation, or refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from atl.core.index import Index, Size, index, size
from atl.core.program import Program
from atl.core.substitution import transform
from atl.core.terms import Expr
from lowering.ranks import steps as st

Mutant = tuple[str, tuple[st.Step, ...]]


def mutants(steps: Sequence[st.Step], program: st.RankProgram) -> Iterator[Mutant]:
    """Yield steps with one fault each, and a description."""
    for position, step in enumerate(steps):
        before, after = tuple(steps[:position]), tuple(steps[position + 1 :])
        for what, made in _of_step(step, program):
            if made != (step,):
                yield what, (*before, *made, *after)


def _of_step(step: st.Step, program: st.RankProgram) -> Iterator[Mutant]:
    match step:
        case st.Local():
            pass
        case st.Join():
            yield "parts exchanged", (replace(step, left=step.right, right=step.left),)
        case st.Repeat():
            yield "loop one short", (replace(step, high=step.high - 1),)
            yield "loop begins late", (replace(step, low=step.low + 1),)
            for what, inner in mutants(step.steps, program):
                yield f"in a loop: {what}", (replace(step, steps=inner),)
        case st.Copy():
            yield from _of_copy(step, program)
        case st.Gather():
            yield "exchange left out", (st.Local(step.into, step.message),)
            yield "stacked along the next dimension", (replace(step, dimension=step.dimension + 1),)
            yield "message of the receiver", (replace(step, message=_as_receiver(step.message, program)),)
        case st.Fold():
            yield "exchange left out", (st.Local(step.into, _as_receiver(step.message, program)),)
            yield "maximum", (replace(step, monoid="min" if step.monoid == "max" else "max"),)
            yield "other axis", (replace(step, axis=next(iter(program.axes))),)
            if step.form == "reduce-scatter":
                yield "message of the sender", (replace(step, message=_as_receiver(step.message, program)),)
        case st.Counts():
            yield "exchange left out", (st.Local(step.into, step.message),)
            yield "owner next to the owner", (replace(step, owners=_shifted(step.owners, program)),)
            yield "message of the receiver", (replace(step, message=_as_receiver(step.message, program)),)
        case _:
            assert_never(step)


def _of_copy(step: st.Copy, program: st.RankProgram) -> Iterator[Mutant]:
    for axis, owner in step.owner.items():
        rank = size(program.ranks[axis])
        wrong: list[tuple[str, Index]] = [
            ("owner one further", owner + 1), ("owner one before", owner - 1), ("rank 0", owner - owner),
            ("own rank", rank), ("sign of the distance", rank * 2 - owner),
        ]  # fmt: skip
        for what, other in wrong:
            if other != owner:
                yield f"{what} along {axis.value}", (replace(step, owner={**step.owner, axis: other}),)
    yield "exchange left out", (st.Local(step.into, _as_receiver(step.message, program)),)
    yield "message of the sender", (replace(step, message=_as_receiver(step.message, program)),)


def _as_receiver(program: Program, steps: st.RankProgram) -> Program:
    """Return the message with the sender's coordinates in place of the receiver's."""
    names = {peer: steps.ranks[axis] for axis, peer in steps.peers.items()}
    return _renamed(program, names)


def _shifted(program: Program, steps: st.RankProgram) -> Program:
    """Return the program for the next rank."""
    return replace(program, body=_with(program.body, {name: size(name) + 1 for name in steps.ranks.values()}))


def _renamed(program: Program, names: dict[str, str]) -> Program:
    body = _with(program.body, {before: size(after) for before, after in names.items()})
    if body == program.body:
        return program
    kept = [each for each in program.assumptions if not any(name in str(each) for name in names)]
    return replace(program, body=body, assumptions=tuple(kept))


def _with(e: Expr, values: dict[str, Index]) -> Expr:
    return transform(e, lambda leaf, _: values.get(leaf.name, index(leaf)) if isinstance(leaf, Size) else index(leaf))
