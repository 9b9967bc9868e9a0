"""Writer of docs/rules.md, from declarations, proof status and uses in derivations.

python -m proofs_tests.rules.page > docs/rules.md      some minutes
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import ModuleType
from typing import Final

from atl.text.printing import text_at
from examples import beyond_the_paper, derivations, everyday, fast, gpu
from proofs_tests.rules.declarations import declaration
from proofs_tests.rules.rule_labels import Labels, labels
from rewrites import Session, Theorem, kernel
from rewrites.rule import Rule
from rewrites.rule_checking.registry import exactness_of, status_text
from rewrites.rules import RULES
from rewrites.session.rule_text import premises_text, side_text

HEAD: Final = """\
# The rules

Every equation that a derivation may use: `s.rw("name")` applies one from left to right, with `reverse=True` from
right to left. This page is made from the declarations in `rewrites/rules/`; `atl rules NAME` shows one with its
parameters.

Most rules are *proved* for all sizes. The others are *bounded*: checked for all element values at small sizes, and
listed with the reason why no proof was found ([how](how-it-is-checked.md#rules-and-the-kernel-that-applies-them)).
A second label says whether both sides agree in every bit when they are computed in floating point
([exactness](bits.md)).
A theorem is about values. Access safety and safe truncation are properties of one program, and `compile` checks them
again. A rule that can lose one of them says so, with the direction. The examples are steps of the derivations in
`examples/`. Rules that differ in an operator only have one entry.
"""
_SHIPPED: Final = (derivations, fast, everyday, beyond_the_paper, gpu)


@dataclass(frozen=True, slots=True)
class Use:
    """Step of a shipped derivation, with the subterm before and after."""

    where: str
    before: str
    after: str

    def __len__(self) -> int:
        return len(self.before) + len(self.after)


def page(uses: Mapping[str, Use], kept: Mapping[str, Labels]) -> str:
    """Return the page: the rules by family, in the order of their declarations."""
    parts = [HEAD]
    for family, rules in groupby(RULES.values(), key=lambda rule: rule.family):
        parts.append(f"\n## {family.capitalize()}\n")
        alike = groupby(rules, key=lambda rule: (declaration(rule), status_of(rule), _lost(kept.get(rule.name))))
        parts += [_entry(list(group), uses, lost) for (_, _, lost), group in alike]
    return "".join(parts)


def statement(rule: Rule) -> str:
    """Return the entry of a rule without its example: law, equation, premises and proof status."""
    source = f" ({rule.source})" if rule.source else ""
    premises = "".join(f"\n    given {text}" for text in premises_text(rule))
    left, right = (side_text(rule, reverse=reverse, rank=0) for reverse in (False, True))
    origins = ", ".join(f"`{name}`" for name in dict.fromkeys(rule.derived_from))
    follows = f" It follows from {origins}." if origins else ""
    return (
        f"\n### {rule.name}\n\n{rule.law}{source}\n\n    {left}\n      =  {right}{premises}\n\n"
        f"{status_of(rule)}{follows}"
    )


def status_of(rule: Rule) -> str:
    """Return the proof status and the exactness of a rule in words."""
    text = exactness_of(rule).text
    return f"{status_text(rule).capitalize()}. {text[0].upper()}{text[1:]}."


def _entry(rules: Sequence[Rule], uses: Mapping[str, Use], lost: str) -> str:
    """Return the entry of rules that differ in an operator only: the first one, and the names of the others."""
    others = ", ".join(f"`{rule.name}`" for rule in rules[1:])
    likewise = f" Likewise {others}." if others else ""
    shown = next((uses[rule.name] for rule in rules if rule.name in uses), None)
    example = "" if shown is None else f"\nIn `{shown.where}`:\n\n    {shown.before}\n      =  {shown.after}\n"
    return f"{statement(rules[0])}{lost}{likewise}\n{example}"


def _lost(kept: Labels | None) -> str:
    if kept is None:
        return ""
    said = []
    for what, there, back in (
        ("access safety", kept.safety, kept.safety_back),
        ("padding", kept.padding, kept.padding_back),
    ):
        if directions := " and ".join(name for name, keeps in (("→", there), ("←", back)) if not keeps):
            said.append(f"{what} {directions}")
    return f" May lose {', and '.join(said)}." if said else ""


def shortest_uses(modules: Iterable[ModuleType] = _SHIPPED) -> dict[str, Use]:
    """Return the shortest use of each rule in the shipped derivations."""
    shortest: dict[str, Use] = {}
    for where, theorem in _theorems(modules):
        for name, use in _steps(where, theorem):
            if name not in shortest or len(use) < len(shortest[name]):
                shortest[name] = use
    return shortest


def _theorems(modules: Iterable[ModuleType]) -> Iterator[tuple[str, Theorem]]:
    for module in modules:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            shipped = function.__module__ == module.__name__ and not name.startswith("_")
            if shipped and inspect.signature(function).return_annotation == f"atl.{Session.__name__}":
                yield f"{module.__name__}.{name}", function().done()


def _steps(where: str, theorem: Theorem) -> Iterator[tuple[str, Use]]:
    at = kernel.reflexivity(theorem.lhs)
    for step in theorem.steps:
        after = kernel.rewrite(at, step.rule, step.path, step.arguments, reverse=step.reverse)
        sides = tuple(" ".join(text_at(side.rhs, step.path).split()) for side in (at, after))
        left, right = reversed(sides) if step.reverse else sides
        yield step.rule.name, Use(where, left, right)
        at = after


if __name__ == "__main__":
    os.environ["ATL_MACHINE"] = "vector_bytes=32,vector_registers=16,l1=32768"  # examples are the same on any machine
    sys.stdout.write(page(shortest_uses(), {name: labels(rule) for name, rule in RULES.items()}))
