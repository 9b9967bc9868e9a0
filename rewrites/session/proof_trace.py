"""What a derivation did, call by call and step by step, as data for whoever shows it: pages and listings.

A theorem that a session made tells its calls, with the programs that they went through. Of any other one, such as a
certificate that was read, the programs between are made again by the rules' own equations: it has been proved that the
steps hold, and nothing is asked of a prover a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr
from atl.core.traversal import Path, children, subterm
from atl.errors import InvalidArgument, brief
from atl.text.names import Names
from atl.text.printing import show_predicate
from rewrites.cursors.cursor import Cursor, cursor_at
from rewrites.kernel import ProvedPremise, Step, Theorem
from rewrites.matching import correspondence
from rewrites.rule_checking.registry import is_proved, status_text
from rewrites.session.call import Call
from rewrites.session.diagnosis import facts_text
from rewrites.session.display import argument_text, proved_how
from rewrites.session.rule_text import premises_text, side_text

RENAMED = "names and marks"
"""The text of what no step brings about in a theorem that tells no calls."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A premise of a step, how it was proved there, and the facts of that place that speak of the same things."""

    premise: str
    how: str
    known: str


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One rewrite: its rule and direction, the place, with what, why it holds, and the programs around it.

    `proved` says whether the rule is, for all sizes; `names` are what things are called at the place, before and after.
    """

    rule: str
    reverse: bool
    family: str
    source: str
    law: str
    equation: tuple[str, str]
    asks: tuple[str, ...]
    status: str
    proved: bool
    path: Path
    arguments: tuple[tuple[str, str], ...]
    reasons: tuple[Reason, ...]
    names: Names = field(repr=False)
    before: Program
    after: Program


@dataclass(frozen=True, slots=True)
class CallTrace:
    """One call of a session with its steps; one of none gives names or marks. `notes` are what a tactic had to say."""

    text: str
    notes: tuple[str, ...]
    steps: tuple[StepTrace, ...]
    before: Program
    after: Program


@dataclass(frozen=True, slots=True)
class ProofTrace:
    """A derivation: the program that it began with, the one it came to, and the calls between.

    With `told` the calls are those of a session; else each step is taken for one. `unproved` are the user's own rules
    that it rests on and that are not proved for all sizes: it holds if they do.
    """

    start: Program
    end: Program
    calls: tuple[CallTrace, ...]
    told: bool
    unproved: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[StepTrace, ...]:
        """The steps of all calls."""
        return tuple(step for call in self.calls for step in call.steps)


def proof_trace(theorem: Theorem) -> ProofTrace:
    """What the derivation of a theorem did.

    >>> import atl
    >>> from rewrites import reschedule
    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] * 2"))
    >>> (call,) = proof_trace(s.rw("mul_comm").done()).calls
    >>> call.text, call.steps[0].law
    ("rw('mul_comm')", 'a ∘ b = b ∘ a.')

    Raises `InvalidArgument` for what is no theorem.
    """
    if not isinstance(theorem, Theorem):
        raise InvalidArgument(f"a trace of {brief(theorem)}", required="a theorem: s.done(), or load(path)")
    calls = _told(theorem)
    unproved = tuple(rule.name for rule in theorem.unproved)
    if calls is None:
        return ProofTrace(theorem.lhs, theorem.rhs, tuple(_step_by_step(theorem)), told=False, unproved=unproved)
    made = [
        CallTrace(
            call.text,
            tuple(call.notes),
            tuple(step_account(step, before, after) for step, before, after in call.traced()),
            call.before.rhs,
            call.theorem.rhs,
        )
        for call in calls
    ]
    return ProofTrace(theorem.lhs, theorem.rhs, tuple(made), told=True, unproved=unproved)


def _told(theorem: Theorem) -> Sequence[Call] | None:
    """The calls that a theorem tells, if they are those that led to it.

    Whoever has a theorem can have it tell anything. What is shown are the programs of theorems, one step after another.
    """
    if not theorem.provenance:
        return None
    at: Theorem | None = None
    for call in theorem.provenance:
        if not isinstance(call, Call) or not all(isinstance(each, Theorem) for each in (call.before, *call.theorems)):
            return None
        if not call.theorems or (call.before is not at if at is not None else call.before.chain is not None):
            return None
        for before, after in zip((call.before, *call.theorems), call.theorems, strict=False):
            last = after.chain
            same = last is before.chain and before.rhs == after.rhs
            if not same and (last is None or last.before is not before.chain):
                return None
        at = call.theorem
    ends = at is not None and at.chain is theorem.chain and at.lhs is theorem.lhs and at.rhs is theorem.rhs
    return theorem.provenance if ends else None  # type: ignore[return-value]


def _step_by_step(theorem: Theorem) -> list[CallTrace]:
    out: list[CallTrace] = []
    at = theorem.lhs
    for step in theorem.steps:
        after = _after(step, at)
        text = f"rw({step.rule.name!r}{', reverse=True' if step.reverse else ''})"
        out.append(CallTrace(text, (), (step_account(step, at, after),), at, after))
        at = after
    if str(at) != str(theorem.rhs):
        out.append(CallTrace(RENAMED, (), (), at, theorem.rhs))
    return out


def _after(step: Step, program: Program) -> Program:
    """The program that a step leads to, with the names and marks of what it keeps."""
    before = subterm(program.body, step.path)
    instance = step.rule.instance(step.arguments, before.type.dtype)
    made = instance.lhs if step.reverse else instance.rhs
    kept = correspondence.with_hints(step.rule, step.reverse, before, made)
    return replace(program, body=_with(program.body, step.path, kept))


def _with(e: Expr, path: Path, part: Expr) -> Expr:
    if not path:
        return part
    parts = [child.expr for child in children(e)]
    parts[path[0]] = _with(parts[path[0]], path[1:], part)
    return with_children(e, tuple(parts))


def _reason(proved: ProvedPremise, cursor: Cursor) -> Reason:
    return Reason(show_predicate(proved.premise), proved_how(proved), facts_text(cursor.scope.facts, proved.premise))


def step_account(step: Step, before: Program, after: Program) -> StepTrace:
    """What one step did, from one program to the other."""
    rule = step.rule
    cursor = cursor_at(before, step.path)
    names = cursor.names
    return StepTrace(
        rule.name,
        step.reverse,
        rule.family,
        rule.source,
        rule.law,
        (side_text(rule, reverse=False, rank=0), side_text(rule, reverse=True, rank=0)),
        tuple(premises_text(rule)),
        status_text(rule),
        is_proved(rule),
        step.path,
        tuple((name, argument_text(value, names)) for name, value in step.arguments.items()),
        tuple(_reason(each, cursor) for each in step.premises),
        names,
        before,
        after,
    )
