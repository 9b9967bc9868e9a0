"""Attempts to obtain a theorem with forged rules, arguments, theorems or programs.

Each function takes an attack and returns a theorem, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

from atl.core.terms import Expr, Unary
from proofs_tests.attacks.contexts import Attack
from proofs_tests.attacks.damage import damaged
from proofs_tests.attacks.declarations import Declarations
from proofs_tests.programs.choices import Choices
from rewrites import kernel
from rewrites.kernel import Theorem
from rewrites.rule import Equation, Rule, RuleStatement
from rewrites.rule_arguments import Argument, Function, is_term
from rewrites.rule_statement import Ranks
from rewrites.rules import RULES


class Changing(Mapping[str, Any]):
    """Arguments that are valid at the first access and others at later ones."""

    def __init__(self, first: Mapping[str, Argument], later: Mapping[str, Argument]) -> None:
        self.first, self.later = first, later
        self.seen: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        if name in self.seen:
            return self.later[name]
        self.seen.add(name)
        return self.first[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.first)

    def __len__(self) -> int:
        return len(self.first)

    def __contains__(self, name: object) -> bool:
        return name in self.first


def changing(choices: Choices, start: Theorem, attack: Attack, declarations: Declarations) -> Theorem:
    later = {name: damaged(choices, declarations, value) for name, value in attack.arguments.items()}
    shown = Changing(attack.arguments, later)
    return kernel.rewrite(start, attack.rule, attack.path, shown, reverse=attack.reverse)


def changing_conditions(choices: Choices, start: Theorem, attack: Attack, declarations: Declarations) -> Theorem:
    """Exchange the arguments for their negations after the first access."""
    later = {name: _opposite(value) for name, value in attack.arguments.items()}
    shown = Changing(attack.arguments, later)
    return kernel.rewrite(start, attack.rule, attack.path, shown, reverse=attack.reverse)


def _opposite(value: Argument) -> Argument:
    if isinstance(value, Function) and is_term(value.body):
        return Function(value.parameters, Unary("neg", value.body))
    return Unary("neg", value) if is_term(value) else value


def _negated(start: Theorem) -> Equation:
    body: Expr = start.rhs.body
    return Equation(body, Unary("neg", Unary("neg", Unary("neg", body))))


def forged_rule(choices: Choices, start: Theorem, attack: Attack, declarations: Declarations) -> Theorem:
    """Use an object that looks like a rule and states a false equation."""
    false = _negated(start)
    statements: dict[Ranks, RuleStatement] = {(): RuleStatement({}, (), false.lhs, false.rhs, (), {}, {}, ())}
    fakes: tuple[Any, ...] = (
        SimpleNamespace(name="mul_one", metavariables={}, instance=lambda arguments: false, law="", derived_from=()),
        Rule("mul_one", "scalars", "", "x = -x", {}, statements),
        replace(RULES["mul_one"], metavariables={}, statements=statements),
    )
    fake = fakes[choices.integer(0, len(fakes) - 1)]
    return kernel.rewrite(start, fake, (), {})


def extended_catalogue(choices: Choices, start: Theorem, attack: Attack, declarations: Declarations) -> Theorem | None:
    """Add a false rule to the catalogue."""
    false = _negated(start)
    own = Rule("own", "scalars", "", "x = -x", {}, {(): RuleStatement({}, (), false.lhs, false.rhs, (), {}, {}, ())})
    catalogue: Any = vars(kernel)["RULES"]
    try:
        catalogue["own"] = own
    except TypeError:
        return None
    try:
        return kernel.rewrite(start, own, (), {})
    finally:
        del catalogue["own"]


def reinitialised_program(choices: Choices, start: Theorem, attack: Attack, declarations: Declarations) -> Theorem:
    """Call the constructor of a theorem's right side again, with another body."""
    twice = kernel.transitivity(kernel.reflexivity(attack.program), kernel.reflexivity(attack.program))
    twice.rhs.__init__("p", twice.rhs.inputs, _negated(start).rhs)  # type: ignore[misc]
    return twice


def forged_theorem(choices: Choices, start: Theorem, attack: Attack, declarations: Declarations) -> Theorem:
    """Use an object that looks like a theorem."""
    other = replace(start.rhs, body=_negated(start).rhs)
    fake: Any = SimpleNamespace(lhs=start.lhs, rhs=other, chain=None, steps=())
    calls: tuple[Callable[[], Theorem], ...] = (
        lambda: kernel.transitivity(start, fake),
        lambda: kernel.symmetry(fake),
        lambda: Theorem(object(), start.lhs, other, None),
        lambda: kernel.with_names_and_marks(start, other.body),
    )
    return calls[choices.integer(0, len(calls) - 1)]()


def invalid_path(choices: Choices, start: Theorem, attack: Attack, declarations: Declarations) -> Theorem:
    """Use a path with an invalid position."""
    odd: tuple[Any, ...] = (-1, True, 7, 0.0, "0", None)
    at = odd[choices.integer(0, len(odd) - 1)]
    path: Any = (*attack.path[:-1], at) if attack.path else (at,)
    return kernel.rewrite(start, attack.rule, path, attack.arguments, reverse=attack.reverse)


Forgery = Callable[[Choices, Theorem, Attack, Declarations], Theorem | None]
FORGERIES: Final[tuple[Forgery, ...]] = (
    changing,
    changing_conditions,
    forged_rule,
    extended_catalogue,
    reinitialised_program,
    forged_theorem,
    invalid_path,
)
