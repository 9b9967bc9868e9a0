"""Errors of rewriting, ATL701 to ATL719, and messages for unknown names.

These errors state the request and the condition that fails. `rewrites.session.diagnosis` adds, for interactive users,
why a rule applies nowhere and what would help.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from atl.checks.scope import Scope
from atl.core.index import Index
from atl.core.predicate import Predicate
from atl.core.program import Program
from atl.core.terms import Expr, Gen, Term
from atl.errors import ATLError, InvalidArgument, did_you_mean
from atl.prove import Answer, Refuted
from atl.text.printing import show, show_predicate
from rewrites.rule import Rule

Part: TypeAlias = Expr | Index | Predicate

MOST_LINES: Final = 40
"""Maximum number of lines of a difference; the rest is cut."""
MOST_NAMES: Final = 24
"""Maximum number of names in a list; the rest is cut."""


class NotEqual(ATLError, ValueError):
    """The subterm at a path is not the expected side of the rule's instance."""

    code = "ATL701"


def show_premise(premise: Predicate | Expr) -> str:
    """Return a premise as text; one about every element is a tensor of truth values."""
    if isinstance(premise, Term):
        return f"for all elements that arrays can have, {' '.join(show(premise).split())}"
    return show_predicate(premise)


class PremiseFailed(ATLError, ValueError):
    """A premise of a rule's instance is refuted, or cannot be proved, at the place of the rewrite."""

    code = "ATL702"

    def __init__(self, rule: Rule, premise: Predicate | Expr, scope: Scope, answer: Answer, summary: str) -> None:
        super().__init__(summary)
        self.rule = rule
        self.premise = premise
        self.scope = scope
        self.answer = answer

    def __str__(self) -> str:
        """Return the message, the premise, and numbers that refute it. Computed lazily, because searches fail often."""
        text = f"{super().__str__()}\n  required: {show_premise(self.premise)}"
        numbers = self.answer.model.numbers if isinstance(self.answer, Refuted) else {}
        return f"{text}\n  breaks at: {', '.join(f'{k} = {v}' for k, v in numbers.items())}" if numbers else text


class NotATheorem(ATLError, ValueError):
    """Two theorems do not compose, or another request to the kernel does not follow from what is proved."""

    code = "ATL703"


class DoesNotApply(ATLError, ValueError):
    """A rule or tactic applies nowhere: no place matches, or a premise fails at every match."""

    code = "ATL704"


class NoMatch(ATLError, ValueError):
    """A subterm is not an instance of a side of a rule."""

    code = "ATL705"

    def __init__(self, rule: Rule, reverse: bool, term: Expr, wanted: Part, found: Part) -> None:
        super().__init__(f"{rule.name} does not match here", required=f"the {side_name(reverse)} side of the rule")
        self.rule = rule
        self.reverse = reverse
        self.term = term
        self.wanted = wanted
        self.found = found


class Undetermined(ATLError, TypeError):
    """Matching a side of a rule leaves some of the rule's parameters undetermined."""

    code = "ATL706"

    def __init__(self, rule: Rule, reverse: bool, missing: Sequence[str]) -> None:
        self.missing = tuple(missing)
        many = "parameters" if len(missing) > 1 else "parameter"
        super().__init__(
            f"the {side_name(reverse)} side of {rule.name} does not determine its {many} {', '.join(missing)}",
            required=f"a value for {missing[0]}",
            suggestions=(_how_to_determine(rule, reverse, missing[0]),),
        )


def _how_to_determine(rule: Rule, reverse: bool, name: str) -> str:
    if any(parameter.sort == "tensor" for kind in rule.metavariables.values() for parameter in kind.parameters):
        return (
            's.lbind("…", "x") binds a subterm to a name, s.stage("…", at="…") stores it for the loops inside of a loop'
        )
    return f"pass it by name: s.rw({rule.in_calls}, {'reverse=True, ' if reverse else ''}{name}=…)"


class Unreadable(ATLError, ValueError):
    """A value is not the encoding of a term, or a term cannot be encoded."""

    code = "ATL707"


class CertificateError(ATLError, ValueError):
    """A certificate is refused, or a theorem cannot be saved as a certificate.

    `step` is the first step that differs, counted from 1 (None if the error is not in a step). `field` is the wrong
    part of the file, and `found` its correct value, if known.
    """

    code = "ATL708"

    def __init__(
        self, summary: str, *, step: int | None = None, field: str = "", found: Any = None, **parts: Any
    ) -> None:
        super().__init__(summary if step is None else f"step {step}: {summary}", **parts)
        self.step = step
        self.field = field
        self.found = found


class NotAdmitted(ATLError, ValueError):
    """An argument of a rule has a wrong kind, or is not a term of this program."""

    code = "ATL709"


class SearchFailed(ATLError, RuntimeError):
    """A search cannot run: egglog is not installed, failed, or gave up."""

    code = "ATL710"


class NotFound(ATLError, ValueError):
    """A search found no proof that two programs are equal, or no schedule that it could prove.

    For two programs, `left` and `right` are their normal forms and `difference` is the difference between them.
    `numbers` are inputs for which the programs differ, if random evaluation found some; otherwise they may be equal.
    """

    code = "ATL711"

    def __init__(self, summary: str, *, left: str = "", right: str = "", difference: str = "", **parts: Any) -> None:
        super().__init__(summary, **parts)
        self.left = left
        self.right = right
        self.difference = difference

    def __str__(self) -> str:
        """Return the message and the difference between the normal forms."""
        if not self.difference:
            return super().__str__()
        lines = self.difference.splitlines()
        shown = [*lines[:MOST_LINES], "…"] if len(lines) > MOST_LINES else lines
        text = "\n".join(f"      {line}".rstrip() for line in shown)
        return f"{super().__str__()}\n  unfolded, they differ:\n{text}"


# -- words ------------------------------------------------------------------------------------------------------------


def side_name(reverse: bool) -> str:
    """Return the name of the side of a rule that is rewritten."""
    return "right" if reverse else "left"


def unknown_name(what: str, name: str, known: Iterable[str], *, required: str) -> InvalidArgument:
    """Return the error for an unknown name, with similar names as suggestions."""
    return InvalidArgument(f"no {what} is called {name!r}", required=required, suggestions=did_you_mean(name, known))


def known_names(program_names: Iterable[str]) -> str:
    """Return names as a list for a message; a long list is cut."""
    names = list(dict.fromkeys(program_names))
    return ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")


class NotInjective(ATLError, ValueError):
    """A layout is not proved injective: it may store two elements at one place, or lose an element."""

    code = "ATL712"


class FalseRule(ATLError, ValueError):
    """A user-defined rule is false: there are sizes and elements for which its sides differ."""

    code = "ATL713"


class UntriedRule(ATLError, ValueError):
    """A user-defined rule has no instance at any size that was tried, so it could not be tested."""

    code = "ATL714"


class RoundingStep(ATLError, ValueError):
    """A step of a strict derivation would change how floating-point numbers are rounded."""

    code = "ATL718"

    def __init__(self, rule: Rule, goal: Program) -> None:
        loop = goal.body if isinstance(goal.body, Gen) else None
        results = f's.tile("{loop.name}", 8), for example' if loop else "s.tile with the name of such a loop"
        super().__init__(
            f"{rule.name} changes how floats are rounded. It states: {rule.law}",
            required="steps that keep the bits of floats, because the derivation is strict",
            suggestions=(
                f"tile, split and reorder loops over results, which keeps the order of each sum: {results}",
                "leave out strict=True: theorem.rounding then names the steps that round",
            ),
        )
        self.rule = rule


class NotRaised(ATLError, ValueError):
    """A statement of C text cannot be read as a term."""

    code = "ATL719"
