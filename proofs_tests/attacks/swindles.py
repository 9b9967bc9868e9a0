"""Ways to get a theorem past the rules: things that only look like rules, arguments, theorems or programs.

Each is a function of an attack that says what it has got: a theorem, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

from atl.core.terms import Expr, Unary
from proofs_tests.attacks.damage import damaged
from proofs_tests.attacks.places import Attack
from proofs_tests.attacks.settings import Setting
from proofs_tests.programs.choices import Choices
from rewrites import kernel
from rewrites.instantiation import Argument, Function, is_term
from rewrites.kernel import Theorem
from rewrites.rule import Equation, Rule, Statement
from rewrites.rules import RULES
from rewrites.statement import Ranks


class Changing(Mapping[str, Any]):
    """Arguments that are good when they are first looked at, and others from then on."""

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


def changing(choices: Choices, start: Theorem, attack: Attack, setting: Setting) -> Theorem:
    later = {name: damaged(choices, setting, value) for name, value in attack.arguments.items()}
    shown = Changing(attack.arguments, later)
    return kernel.rewrite(start, attack.rule, attack.path, shown, reverse=attack.reverse)


def changing_conditions(choices: Choices, start: Theorem, attack: Attack, setting: Setting) -> Theorem:
    """Arguments of which the terms are exchanged for their opposites once they have been looked at."""
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


def no_rule(choices: Choices, start: Theorem, attack: Attack, setting: Setting) -> Theorem:
    """Something that states what it likes, under the name of a rule."""
    false = _negated(start)
    statements: dict[Ranks, Statement] = {(): Statement({}, (), false.lhs, false.rhs, (), {}, {}, ())}
    fakes: tuple[Any, ...] = (
        SimpleNamespace(name="mul_one", metavariables={}, instance=lambda arguments: false, law="", derived_from=()),
        Rule("mul_one", "scalars", "", "x = -x", {}, statements),
        replace(RULES["mul_one"], metavariables={}, statements=statements),
    )
    fake = fakes[choices.integer(0, len(fakes) - 1)]
    return kernel.rewrite(start, fake, (), {})


def written_catalogue(choices: Choices, start: Theorem, attack: Attack, setting: Setting) -> Theorem | None:
    """A rule of our own among those of the catalogue."""
    false = _negated(start)
    own = Rule("own", "scalars", "", "x = -x", {}, {(): Statement({}, (), false.lhs, false.rhs, (), {}, {}, ())})
    catalogue: Any = vars(kernel)["RULES"]
    try:
        catalogue["own"] = own
    except TypeError:
        return None
    try:
        return kernel.rewrite(start, own, (), {})
    finally:
        del catalogue["own"]


def made_again(choices: Choices, start: Theorem, attack: Attack, setting: Setting) -> Theorem:
    """The right side of a theorem made a second time, with another body."""
    twice = kernel.transitivity(kernel.reflexivity(attack.program), kernel.reflexivity(attack.program))
    twice.rhs.__init__("p", twice.rhs.inputs, _negated(start).rhs)  # type: ignore[misc]
    return twice


def no_theorem(choices: Choices, start: Theorem, attack: Attack, setting: Setting) -> Theorem:
    """Something with the two sides of a theorem."""
    other = replace(start.rhs, body=_negated(start).rhs)
    fake: Any = SimpleNamespace(lhs=start.lhs, rhs=other, chain=None, steps=())
    calls: tuple[Callable[[], Theorem], ...] = (
        lambda: kernel.transitivity(start, fake),
        lambda: kernel.symmetry(fake),
        lambda: Theorem(object(), start.lhs, other, None),
        lambda: kernel.with_names_and_marks(start, other.body),
    )
    return calls[choices.integer(0, len(calls) - 1)]()


def odd_path(choices: Choices, start: Theorem, attack: Attack, setting: Setting) -> Theorem:
    """A path of what is no position."""
    odd: tuple[Any, ...] = (-1, True, 7, 0.0, "0", None)
    at = odd[choices.integer(0, len(odd) - 1)]
    path: Any = (*attack.path[:-1], at) if attack.path else (at,)
    return kernel.rewrite(start, attack.rule, path, attack.arguments, reverse=attack.reverse)


Swindle = Callable[[Choices, Theorem, Attack, Setting], Theorem | None]
SWINDLES: Final[tuple[Swindle, ...]] = (
    changing,
    changing_conditions,
    no_rule,
    written_catalogue,
    made_again,
    no_theorem,
    odd_path,
)
