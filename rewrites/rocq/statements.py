"""Rules as statements of Rocq.

A statement says that both sides have equal shapes, and equal values at every position within the shape. It assumes the
premises, non-negative extents, and the well-formedness conditions of both sides (`atl.checks.wellformed.obligations`)
under the facts of their binders. Elements have the least rank that the rule allows. The rest of the list of positions
is arbitrary, so that the statement covers every rank.

A tensor of Rocq has values outside of its extents too. If a metavariable reads a compound term, the statement assumes
that it reads that term within its first extent only. This follows from the well-formedness of the instance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from atl.checks.scope import Scope, parts_in_scope
from atl.checks.wellformed import obligations
from atl.core.index import ZERO, Index, Var, index
from atl.core.predicate import Predicate, at_most
from atl.core.terms import Expr, Local, Metavariable, TensorVar
from atl.errors import InvalidArgument, UnsafeGuard
from atl.prove import Facts
from rewrites.metavariables import Kind
from rewrites.rocq.notation import Notation, check_distinct, positions, word
from rewrites.rule import Rule
from rewrites.rule_statement import MAX_ELEMENT_RANK, RuleStatement

SECONDS_EACH: Final = 30
"""Time limit of the proof of one rule, for a busy machine."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A hypothesis: the goal holds for all values of some indices that satisfy the facts."""

    goal: Predicate
    indices: tuple[Index, ...] = ()
    facts: tuple[Predicate, ...] = ()

    def text(self, notation: Notation) -> str:
        binders = " ".join(notation.index(i) for i in self.indices)
        facts = "".join(f"{notation.predicate(fact)} = true -> " for fact in self.facts)
        # Parentheses keep the facts inside of the hypothesis.
        return f"({f'forall {binders} : Z, ' if binders else ''}{facts}{notation.predicate(self.goal)} = true)"


@dataclass(frozen=True, slots=True)
class RocqStatement:
    """The statement of a rule. `binders` are its metavariables, followed by the extents of its tensors.

    `reading` are the metavariables that read a tensor within an extent: each has the number of its indices, and the
    position of the index that is equal to that extent.
    """

    rule: Rule
    equation: RuleStatement
    binders: tuple[tuple[str, str], ...]
    hypotheses: tuple[Hypothesis, ...]
    reading: tuple[tuple[str, int, int], ...] = ()

    @property
    def extents(self) -> tuple[tuple[str, int], ...]:
        """The metavariable and the dimension of each of the last binders."""
        return tuple(self.equation.extents.values())

    def text(self) -> str:
        """Return the text of the statement."""
        notation = Notation(called(self.equation))
        lhs, rhs = self.equation.lhs, self.equation.rhs
        pairs = zip(lhs.type.shape, rhs.type.shape, strict=True)
        shapes = [f"{notation.index(a)} = {notation.index(b)}" for a, b in pairs if a != b]
        at = [f"p''{d}" for d in range(lhs.type.rank)]
        within = [f"0 <= {p} < {notation.index(e)} ->" for p, e in zip(at, lhs.type.shape, strict=True)]
        place = positions(at, "rest")
        bound = " ".join([*(f"({p} : Z)" for p in at), "(rest : list Z)"])
        values = f"{notation.term(lhs)} {place}\n    = {notation.term(rhs)} {place}"
        lines = [
            f"forall {' '.join(f'({name} : {of})' for name, of in self.binders)},",
            *(f"  {hypothesis.text(notation)} ->" for hypothesis in self.hypotheses),
            *(f"  {_reads_within(*each)} ->" for each in self.reading),
            *(f"  {shape} /\\" for shape in shapes),
            f"  forall {bound}, {' '.join(within)}\n    {values}",
        ]
        return "\n".join(lines)


def called(stated: RuleStatement) -> dict[int, str]:
    """Return the names of the variables of a statement."""
    names = {uid: word(name) for uid, name in stated.names.items()}
    return names | {uid: f"{word(of)}{dimension}" for uid, (of, dimension) in stated.extents.items()}


def statement(rule: Rule) -> RocqStatement:
    """Return the statement of a rule."""
    stated = at_least_rank(rule)
    if stated.tests:
        raise InvalidArgument(
            f"{rule.name} has a premise about elements, which is not exported", required="premises about indices"
        )
    if stated.lhs.type.rank != stated.rhs.type.rank:
        raise InvalidArgument(f"the sides of {rule.name} have different ranks", required="an equation of one rank")
    extents = [Var(uid, "") for uid in stated.extents]
    names = called(stated)
    binders = [(word(name), _type(kind)) for name, kind in rule.metavariables.items()]
    binders += [(names[extent.uid], "Z") for extent in extents]
    check_distinct(name for name, _ in binders)
    hypotheses = [Hypothesis(at_most(ZERO, index(extent))) for extent in extents]
    hypotheses += [Hypothesis(premise) for premise in stated.premises]
    hypotheses += [*_wellformed(stated.lhs), *_wellformed(stated.rhs)]
    always = {hypothesis.goal for hypothesis in hypotheses if not hypothesis.facts}
    needed = [each for each in dict.fromkeys(hypotheses) if not each.facts or each.goal not in always]
    return RocqStatement(rule, stated, tuple(binders), tuple(needed), tuple(_reading(stated)))


def _reads_within(name: str, indices: int, extent: int) -> str:
    """Return the hypothesis that a metavariable reads its tensor only before the index that is its extent."""
    at = [f"i''{d}" for d in range(indices)]
    return f"(forall {' '.join(at)} : Z, reads_before {at[extent]} ({' '.join((word(name), *at))}))"


def _reading(stated: RuleStatement) -> Iterator[tuple[str, int, int]]:
    """Yield each metavariable that reads a compound term whose extent is one of its indices."""
    sides = (stated.lhs, stated.rhs)
    found: dict[str, list[Metavariable]] = {}
    for side in sides:
        for _, at, _ in parts_in_scope(side, Scope(Facts())):
            if isinstance(at, Metavariable) and len(at.tensors) == 1:
                found.setdefault(at.name, []).append(at)
    for name, uses in found.items():
        if all(isinstance(use.tensors[0], Local | TensorVar | Metavariable) for use in uses):
            continue
        extents = [
            d for d in range(len(uses[0].indices)) if all(u.tensors[0].type.shape[:1] == (u.indices[d],) for u in uses)
        ]
        yield from [(name, len(uses[0].indices), d) for d in extents[:1]]


def at_least_rank(rule: Rule) -> RuleStatement:
    """Return the equation for elements of the least ranks."""
    if not rule.statements:
        raise InvalidArgument(
            f"{rule.name} has no statement", required=f"a statement for elements of rank {MAX_ELEMENT_RANK} or less"
        )
    return rule.statements[min(rule.statements, key=sum)]


def _type(kind: Kind) -> str:
    sorts = {"index": "Z", "condition": "bool", "tensor": "tensor"}
    taken = sorted(kind.parameters, key=lambda parameter: parameter.sort != "index")
    return " -> ".join([*(sorts[parameter.sort] for parameter in taken), sorts[kind.sort]])


def _wellformed(side: Expr) -> Iterator[Hypothesis]:
    """Yield the well-formedness conditions of a side, except those about guards: as a value a guard reads zero."""
    for _, at, here in parts_in_scope(side, Scope(Facts())):
        for needed in obligations(at, here):
            if needed.error is not UnsafeGuard:
                yield Hypothesis(needed.goal, here.indices, here.facts.predicates)


def lemma(rule: Rule) -> str:
    """Return a rule as a lemma with its proof."""
    proof = f'Proof. timeout {SECONDS_EACH} (time "{rule.name}" by_the_rule). Qed.'
    return f"Lemma {rule.name} :\n{statement(rule).text()}.\n{proof}\n"
