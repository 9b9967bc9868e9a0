"""Numerators of quotients in kernels that are not in the loop nest, and that are proved non-negative."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from lowering.gpu import kernels as kn
from lowering.nest import loopnest as ln
from lowering.passes.simplification import with_nonnegative_numerators


def with_numerators_of(nest: ln.LoopNest, body: kn.HostBlock) -> ln.LoopNest:
    """Return the nest with the numerators in pipelines and calls of kernels that are proved non-negative too."""
    if not any(launch.calls or _has_rings(launch) for launch in kn.launches(body)):
        return nest
    made = with_nonnegative_numerators(replace(nest, body=tuple(_of_host(body))))
    known = nest.nonnegative_numerators | made.nonnegative_numerators
    return nest if known == nest.nonnegative_numerators else replace(nest, nonnegative_numerators=known)


def _has_rings(launch: kn.Launch) -> bool:
    return any(isinstance(step, ln.Allocate) and step.buffer.rows for step in kn.steps_of(launch.body))


def _of_host(block: kn.HostBlock) -> Iterator[ln.Statement]:
    """Yield the steps of a host as statements of a loop nest."""
    for step in block:
        match step:
            case kn.Launch():
                inner = tuple(_of_steps(step, step.body))
                for loop in reversed(step.grid):
                    inner = (replace(loop, body=inner),)
                yield from inner
            case kn.HostLoop(variable, low, high, body):
                yield ln.For(variable, low, high, tuple(_of_host(body)))
            case kn.HostBranch(predicate, body):
                yield ln.If(predicate, tuple(_of_host(body)))
            case ln.Allocate() | ln.Clear() | ln.Free():
                yield step
            case _:
                assert_never(step)


def _of_steps(launch: kn.Launch, steps: kn.Steps) -> Iterator[ln.Statement]:
    for step in steps:
        match step:
            case kn.Run(statement):
                yield from _with_calls(launch, (statement,))
            case kn.Repeat(variable, low, high, body):
                yield ln.For(variable, low, high, tuple(_of_steps(launch, body)))
            case kn.Branch(predicate, body):
                yield ln.If(predicate, tuple(_of_steps(launch, body)))
            case kn.Barrier() | kn.Commit() | kn.Wait():
                pass
            case ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                yield step
            case _:
                assert_never(step)


def _with_calls(launch: kn.Launch, block: ln.Block) -> ln.Block:
    """Return statements with the calls of a launch, whose operands have addresses."""
    out: list[ln.Statement] = []
    for statement in block:
        if isinstance(statement, ln.For):
            body = _with_calls(launch, statement.body)
            out.append(replace(statement, body=body, call=launch.calls.get(statement.variable.uid)))
        else:
            out.append(
                ln.with_body(statement, _with_calls(launch, statement.body))
                if isinstance(statement, ln.If)
                else statement
            )
    return tuple(out)
