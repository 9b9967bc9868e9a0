"""The rules of a certificate: those of the catalogue by their hashes, those of a user's own with their grades as well.

    "rules": {name: digest}, "own": {name: {"grade": 2, "says": "grade 2: …"}}

A certificate that was made with a user's own rule is replayed where that rule is supplied, with the same text, and was
judged there to be as well proved. So what is written here of a grade is looked at, and not believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from atl.errors import WrongArgument, brief
from rewrites.certificates.term_json import Json, abbreviated
from rewrites.errors import CertificateError, UnknownRule
from rewrites.grading.graded import standing_of
from rewrites.kernel import Step
from rewrites.rule import Rule


@lru_cache(maxsize=4096)
def digest(rule: Rule) -> str:
    """The hash of a rule's text. Raises `CertificateError` where that cannot be read."""
    try:
        return rule.digest
    except (OSError, TypeError) as error:
        raise CertificateError(
            f"the text of the rule {rule.name} cannot be read: {error}",
            field="rules",
            required="rules in source files that have not changed since they were imported",
        ) from error


def grades_written(steps: Iterable[Step]) -> dict[str, Json]:
    """The part `own` of a certificate, where its steps are by rules of the user's own."""
    used = {step.rule.name: found for step in steps if (found := standing_of(step.rule)) is not None}
    return {"own": {name: {"grade": found.grade, "says": str(found)} for name, found in used.items()}} if used else {}


def rules_of(
    lines: Sequence[tuple[int, str]], digests: dict[str, Json], own: dict[str, Json], rules: Mapping[str, Rule]
) -> dict[str, Rule]:
    """The rules of the steps, each with its number. Each must be known here, with the text that it had when the
    certificate was made.
    """
    for number, name in lines:
        if name not in rules:
            raise _not_here(number, name, digests, own)
        if not isinstance(rules[name], Rule):
            raise WrongArgument(f"rules[{name!r}]={brief(rules[name])}", required="rules by their names")
        found = digest(rules[name])
        if digests.get(name) != found:
            raise _another(number, rules[name], digests, found)
    used = {name: rules[name] for _, name in lines}
    for name in digests:
        if name not in used:
            raise CertificateError(f"no step uses the rule {name!r}", field="rules", required="the rules of the steps")
    _check_grades(used, own)
    return used


def _not_here(number: int, name: str, digests: dict[str, Json], own: dict[str, Json]) -> CertificateError:
    if name not in own:
        return CertificateError(
            f"there is no rule {name!r}", step=number, field="rule", required="a rule that is known here"
        )
    return UnknownRule(
        f"{name} is a rule of the user's own who made the certificate, and is not here",
        rule=name,
        recorded=str(digests.get(name)),
        step=number,
        field="rule",
        required=f"the rule {name} whose hash is {abbreviated(digests.get(name))}",
        suggestions=(f'load("…", own=[{name}])', "atl check FILE --own RULES.py"),
    )


def _another(number: int, rule: Rule, digests: dict[str, Json], found: str) -> CertificateError:
    name = rule.name
    required = f"a rule whose hash is {abbreviated(digests.get(name))}"
    if standing_of(rule) is not None and name in digests:
        return UnknownRule(
            f"your own rule {name} says something else than the one that the certificate was made with",
            rule=name,
            recorded=str(digests[name]),
            step=number,
            field="rules",
            found=found,
            required=required,
            suggestions=("supply the rule with the text that it had: own=[…]", "derive the theorem again"),
        )
    return CertificateError(
        f"the rule {name} says something else since the certificate was made"
        if name in digests
        else f"the certificate has no hash of the rule {name}",
        step=number,
        field="rules",
        found=found,
        required=required,
        suggestions=("derive the theorem again with the rules as they are now",),
    )


def _check_grades(used: Mapping[str, Rule], own: dict[str, Json]) -> None:
    """The rules of a user's own are those that are called so, and are as well proved as is said."""
    for name in dict.fromkeys((*own, *used)):
        found = None if name not in used else standing_of(used[name])
        said = own.get(name)
        if found is None and said is not None:
            raise CertificateError(f"no step is by {abbreviated(name)}, a rule of the user's own", field="own")
        grade = said.get("grade") if isinstance(said, dict) else None
        if found is not None and (type(grade) is not int or grade != found.grade):
            raise CertificateError(
                f"the certificate gives {name} {'no grade' if grade is None else f'the grade {abbreviated(grade)}'}",
                field="own",
                found={"grade": found.grade, "says": str(found)},
                required=f"what it was judged here: {found}",
            )
