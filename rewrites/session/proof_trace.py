"""Proof traces: the calls and steps of a derivation as data, for pages and listings.

A theorem made by a session records its calls and the programs between them. For any other theorem, such as one loaded
from a certificate, the programs between are recomputed from the rules' equations; no premise is proved again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.terms import Expr, Term
from atl.core.traversal import Path, children, subterm
from atl.errors import InvalidArgument, brief
from atl.text.index_notation import Names
from rewrites.cursors.cursor import Cursor, cursor_at
from rewrites.errors import show_premise
from rewrites.kernel import ProvedPremise, Step, Theorem
from rewrites.matching import correspondence
from rewrites.rule_checking.registry import is_proved, status_text
from rewrites.session.call import Call
from rewrites.session.diagnosis import facts_text
from rewrites.session.display import argument_text, proved_how
from rewrites.session.rule_text import premises_text, side_text

RENAMED = "names and marks"
"""Text of the final change of names and marks in a theorem that does not record its calls."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A premise of a step, how it was proved, and the related facts that are known at the place."""

    premise: str
    how: str
    known: str


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One rewrite: the rule and its direction, the place, the arguments, the proved premises, and the programs around
    it.

    `proved` is true if the rule is proved for all sizes. `names` are the names in scope at the place.
    """

    rule: str
    reverse: bool
    family: str
    source: str
    law: str
    equation: tuple[str, str]
    premises: tuple[str, ...]
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
    """One call of a session with its steps. A call without steps changes names or marks only. `notes` come from the
    tactic.
    """

    text: str
    notes: tuple[str, ...]
    steps: tuple[StepTrace, ...]
    before: Program
    after: Program


@dataclass(frozen=True, slots=True)
class ProofTrace:
    """A derivation: the start and end programs, and the calls between them.

    If `from_session` is true, the calls are those of a session; otherwise each step is shown as a call. `unproved` are
    the user-defined rules used that are not proved for all sizes: the theorem holds if they do.
    """

    start: Program
    end: Program
    calls: tuple[CallTrace, ...]
    from_session: bool
    unproved: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[StepTrace, ...]:
        """The steps of all calls."""
        return tuple(step for call in self.calls for step in call.steps)


def proof_trace(theorem: Theorem) -> ProofTrace:
    """Return the trace of a theorem.

    >>> import atl
    >>> from rewrites import reschedule
    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] * 2"))
    >>> (call,) = proof_trace(s.rw("mul_comm").done()).calls
    >>> call.text, call.steps[0].law
    ("rw('mul_comm')", 'a ∘ b = b ∘ a.')

    Raises `InvalidArgument` for other objects.
    """
    if not isinstance(theorem, Theorem):
        raise InvalidArgument(f"a trace of {brief(theorem)}", required="a theorem: s.done(), or load(path)")
    calls = _recorded_calls(theorem)
    unproved = tuple(rule.name for rule in theorem.unproved)
    if calls is None:
        return ProofTrace(
            theorem.lhs, theorem.rhs, tuple(_step_by_step(theorem)), from_session=False, unproved=unproved
        )
    made = [
        CallTrace(
            call.text,
            tuple(call.notes),
            tuple(step_trace(step, before, after) for step, before, after in call.traced()),
            call.before.rhs,
            call.theorem.rhs,
        )
        for call in calls
    ]
    return ProofTrace(theorem.lhs, theorem.rhs, tuple(made), from_session=True, unproved=unproved)


def _recorded_calls(theorem: Theorem) -> Sequence[Call] | None:
    """Return the calls that a theorem records, if they really lead to it.

    The provenance of a theorem is not checked by the kernel, so it is checked here, theorem by theorem.
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
        out.append(CallTrace(text, (), (step_trace(step, at, after),), at, after))
        at = after
    if str(at) != str(theorem.rhs):
        out.append(CallTrace(RENAMED, (), (), at, theorem.rhs))
    return out


def _after(step: Step, program: Program) -> Program:
    """Return the program after a step, keeping the names and marks of unchanged parts."""
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
    premise = proved.premise
    known = "" if isinstance(premise, Term) else facts_text(cursor.scope.facts, premise)
    return Reason(show_premise(premise), proved_how(proved), known)


def step_trace(step: Step, before: Program, after: Program) -> StepTrace:
    """Return the trace of one step between two programs."""
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
