"""What rewriting refuses: errors ATL701 to ATL716, and what to say of a name that is not there.

They say what was asked for and what does not hold. Why a rule applies nowhere, and what would help, is found out where
a person is to read it: `rewrites.session.diagnosis`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from atl.checks.scope import Scope
from atl.core.index import Index
from atl.core.predicate import Predicate
from atl.core.terms import Expr
from atl.errors import ATLError, InvalidArgument
from atl.prove import Answer, Refuted
from atl.text.printing import show_predicate
from rewrites.rule import Rule

Part: TypeAlias = Expr | Index | Predicate

MOST_LINES: Final = 40
"""A difference of more lines is cut."""
MOST_NAMES: Final = 24
"""A list of more names is cut."""


class NotEqual(ATLError, ValueError):
    """The subterm at a path is not the side of the rule's instance that is to be rewritten."""

    code = "ATL701"


class PremiseFailed(ATLError, ValueError):
    """A premise of a rule's instance is refuted, or cannot be proved, where it is to be applied."""

    code = "ATL702"

    def __init__(self, rule: Rule, premise: Predicate, scope: Scope, answer: Answer, summary: str) -> None:
        super().__init__(summary)
        self.rule = rule
        self.premise = premise
        self.scope = scope
        self.answer = answer

    def __str__(self) -> str:
        """The message, the premise, and numbers that make it false: written when read, as a search fails often."""
        text = f"{super().__str__()}\n  required: {show_predicate(self.premise)}"
        numbers = self.answer.model.numbers if isinstance(self.answer, Refuted) else {}
        return f"{text}\n  breaks at: {', '.join(f'{k} = {v}' for k, v in numbers.items())}" if numbers else text


class NotATheorem(ATLError, ValueError):
    """Two theorems do not compose, or something else was asked for that does not follow."""

    code = "ATL703"


class DoesNotApply(ATLError, ValueError):
    """A rule or tactic applies nowhere: no place matches, or a premise fails at those that do."""

    code = "ATL704"


class NoMatch(ATLError, ValueError):
    """A subterm is no instance of a side of a rule."""

    code = "ATL705"

    def __init__(self, rule: Rule, reverse: bool, term: Expr, wanted: Part, found: Part) -> None:
        super().__init__(f"{rule.name} does not match here", required=f"the {side_name(reverse)} side of the rule")
        self.rule = rule
        self.reverse = reverse
        self.term = term
        self.wanted = wanted
        self.found = found


class Undetermined(ATLError, TypeError):
    """A side of a rule does not tell what one of the rule's parameters is."""

    code = "ATL706"

    def __init__(self, rule: Rule, reverse: bool, missing: Sequence[str]) -> None:
        self.missing = tuple(missing)
        many = "parameters" if len(missing) > 1 else "parameter"
        super().__init__(
            f"the {side_name(reverse)} side of {rule.name} does not tell its {many} {', '.join(missing)}",
            required=f"a value for {missing[0]}",
            suggestions=(_how_to_determine(rule, reverse, missing[0]),),
        )


def _how_to_determine(rule: Rule, reverse: bool, name: str) -> str:
    if any(parameter.sort == "tensor" for kind in rule.metavariables.values() for parameter in kind.parameters):
        return 's.lbind("…", "x") binds a subterm to a name, s.stage("…", at="…") keeps it for the loops inside of one'
    return f"pass it by name: s.rw({rule.in_calls}, {'reverse=True, ' if reverse else ''}{name}=…)"


class Unreadable(ATLError, ValueError):
    """A value is not how a term is written, or a term cannot be written."""

    code = "ATL707"


class CertificateError(ATLError, ValueError):
    """A certificate is refused, or a theorem cannot be written as one.

    `step` is the first step that differs, counted from 1 (None: no step is to blame), `field` the part of the file that
    is wrong; `found` is what that part would have to be, where it is known.
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
    """An argument of a rule is not of its kind, or not a term of this program."""

    code = "ATL709"


class SearchFailed(ATLError, RuntimeError):
    """A search cannot be made: egglog is not installed, failed, or gave up."""

    code = "ATL710"


class NotFound(ATLError, ValueError):
    """A search has found no proof that two programs are equal, or no schedule that it could prove.

    Of two programs: `left` and `right` are their normal forms, and `difference` what differs between these; `numbers`
    are inputs for which the programs differ, where random evaluation found some. Without them nothing is known.
    """

    code = "ATL711"

    def __init__(self, summary: str, *, left: str = "", right: str = "", difference: str = "", **parts: Any) -> None:
        super().__init__(summary, **parts)
        self.left = left
        self.right = right
        self.difference = difference

    def __str__(self) -> str:
        """The message, and what differs between the normal forms."""
        if not self.difference:
            return super().__str__()
        lines = self.difference.splitlines()
        shown = [*lines[:MOST_LINES], "…"] if len(lines) > MOST_LINES else lines
        told = "\n".join(f"      {line}".rstrip() for line in shown)
        return f"{super().__str__()}\n  unfolded, they differ:\n{told}"


# -- words ------------------------------------------------------------------------------------------------------------


def side_name(reverse: bool) -> str:
    """Which side of a rule is rewritten."""
    return "right" if reverse else "left"


def unknown_name(what: str, name: str, known: Iterable[str], *, required: str) -> InvalidArgument:
    """What to say of a name that is not there; similar ones are suggested."""
    near = get_close_matches(name, list(dict.fromkeys(each for each in known if each != name)), 3, 0.5)
    return InvalidArgument(
        f"there is no {what} called {name!r}",
        required=required,
        suggestions=(f"did you mean {' or '.join(near)}?",) if near else (),
    )


def known_names(program_names: Iterable[str]) -> str:
    """Names as a list, cut where it is long."""
    names = list(dict.fromkeys(program_names))
    return ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")


class NotInjective(ATLError, ValueError):
    """A layout would store two elements at one place, or lose one; or it is not proved that it does not."""

    code = "ATL712"


class FalseRule(ATLError, ValueError):
    """A rule that a user has stated is false: there are sizes and elements for which its sides differ."""

    code = "ATL713"


class UntriedRule(ATLError, ValueError):
    """A rule that a user has stated claims nothing at any size that was tried, so that nothing is known of it."""

    code = "ATL714"
