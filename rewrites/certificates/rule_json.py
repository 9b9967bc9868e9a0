"""Rules in certificates: the hash of each rule's equations, and the equations of user-defined rules.

    "rules": {name: hash}
    "own": {name: {"law": "…", "parameters": [["e", ["tensor", 0, "s", []]]], "statements": […], "grade": 2,
                   "says": "…"}}
    statement: {"ranks": [0], "left": tensor, "right": tensor, "premises": [condition, …], "tests": [tensor, …]}

Terms of a statement are encoded by `rewrites.certificates.term_json`. In them ["var", "n"] is an index metavariable,
["extent", "v", 0] an extent of a tensor metavariable, ["of", "e", [index, …], [tensor, …]] a tensor metavariable with
its arguments, and ["read", "p", index, …] in a condition is a condition metavariable.

A rule is written at the ranks at which the steps use it. A user-defined rule is built from the file and checked again.
The recorded proof status ("grade": 1 tested, 2 bounded, 3 proved) is refused if it is higher than the status found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from atl.core.dtypes import ANY_DTYPE, is_variable
from atl.core.index import AnyAtom, Index, Var, index
from atl.core.terms import Expr, Metavariable
from atl.errors import ATLError, InvalidArgument, brief
from rewrites.certificates.digests import Digests
from rewrites.certificates.term_json import Json, Reader, Writer, abbreviated, checked_type
from rewrites.elaboration import checked
from rewrites.errors import CertificateError, Unreadable
from rewrites.kernel import Step
from rewrites.metavariables import Kind, PerAxis, is_kind
from rewrites.rule import USER_FAMILY, Rule, is_name
from rewrites.rule_arguments import Arguments
from rewrites.rule_checking.every_rank import with_sources
from rewrites.rule_checking.registry import register, status_of
from rewrites.rule_checking.status import Status
from rewrites.rule_statement import (
    LARGEST_RANK,
    Equation,
    Ranks,
    RuleStatement,
    Variables,
    is_choice_of_ranks,
    ranks_of,
)

_PYTHON_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@lru_cache(maxsize=4096)
def digest(rule: Rule, ranks: tuple[Ranks, ...]) -> str:
    """Return a hash of a rule's parameters and its equations at these ranks; names of loops are ignored.

    Raises `CertificateError` for ranks without a statement.
    """
    stated = []
    for each in ranks:
        found = rule.statements.get(each)
        if found is None:
            raise CertificateError(
                f"the rule {rule.name} has no statement for elements of ranks {list(each)}", field="rules"
            )
        stated.append((each, found.lhs, found.rhs, found.premises, *found.tests))
    parameters = tuple((name, _key(kind)) for name, kind in rule.metavariables.items())
    return hashlib.sha256(Digests().of_key((parameters, tuple(stated)))).hexdigest()[:16]


def _key(kind: Kind) -> tuple[Any, ...]:
    if kind.of_axis is not None:
        return "permutation" if kind.permutes else "axis", kind.of_axis[1], kind.group, ()
    return kind.sort, kind.rank, kind.group, tuple(map(_key, kind.parameters))


# -- writing ----------------------------------------------------------------------------------------------------------


def names_of(steps: Iterable[Step]) -> dict[Rule, str]:
    """Return the name of each rule in a certificate. Rules with the same name get a number."""
    found: dict[Rule, str] = {}
    for step in steps:
        if step.rule not in found:
            alike = sum(rule.name == step.rule.name for rule in found)
            found[step.rule] = f"{step.rule.name}#{alike + 1}" if alike else step.rule.name
    return found


def used_ranks(uses: Iterable[tuple[Rule, Arguments]]) -> dict[Rule, tuple[Ranks, ...]]:
    """Return the ranks at which each rule is used."""
    found: dict[Rule, set[Ranks]] = {}
    for rule, arguments in uses:
        found.setdefault(rule, set()).add(ranks_of(rule.metavariables, arguments))
    return {rule: tuple(sorted(ranks)) for rule, ranks in found.items()}


def rules_written(steps: Sequence[Step], names: Mapping[Rule, str]) -> dict[str, Json]:
    """Return the part `rules` of a certificate and, if there are user-defined rules, the part `own`."""
    used = used_ranks((step.rule, step.arguments) for step in steps)
    parts: dict[str, Json] = {"rules": {names[rule]: digest(rule, ranks) for rule, ranks in used.items()}}
    own = {names[rule]: _written(rule, ranks) for rule, ranks in used.items() if status_of(rule) is not None}
    return {**parts, "own": own} if own else parts


def _written(rule: Rule, ranks: tuple[Ranks, ...]) -> Json:
    status = status_of(rule)
    assert status is not None
    return {
        "law": rule.law,
        "parameters": tuple((name, _key(kind)) for name, kind in rule.metavariables.items()),
        "statements": [_statement_written(rule.statements[each]) for each in with_sources(rule, ranks)],
        "grade": int(status.status),
        "says": str(replace(status, of_ranks="")),
    }


def rule_text(rule: Rule, ranks: tuple[Ranks, ...]) -> str:
    """Return the text from which `rule_in` reads a user-defined rule, with its statements at these ranks."""
    return json.dumps(_written(rule, ranks), separators=(",", ":"))


def _statement_written(stated: RuleStatement) -> Json:
    writer = _StatementWriter(stated)
    return {
        "ranks": stated.ranks,
        "left": writer.tensor(stated.lhs),
        "right": writer.tensor(stated.rhs),
        "premises": tuple(writer.condition(premise) for premise in stated.premises),
        **({"tests": tuple(map(writer.tensor, stated.tests))} if stated.tests else {}),
    }


class _StatementWriter(Writer):
    """Encodes the terms of a statement, each in full."""

    def __init__(self, stated: RuleStatement) -> None:
        super().__init__(Variables(stated.metavariables, stated.ranks).arrays.values())
        self._stated = stated

    def tensor(self, term: Expr) -> Json:
        return self.resolved(self._link(term))

    def condition(self, premise: Any) -> Json:
        return self._predicate(premise)

    def _atom(self, atom: AnyAtom) -> Json:
        if isinstance(atom, Var):
            extent = self._stated.extents.get(atom.uid)
            return ("var", self._stated.names[atom.uid]) if extent is None else ("extent", *extent)
        return super()._atom(atom)

    def _entry(self, expr: Expr) -> tuple[Json, ...]:
        if isinstance(expr, Metavariable):
            return "of", expr.name, tuple(map(self._index, expr.indices)), tuple(map(self._link, expr.tensors))
        return super()._entry(expr)


# -- reading ----------------------------------------------------------------------------------------------------------


def rules_of(
    lines: Sequence[tuple[int, str]], digests: Mapping[str, Json], own: Mapping[str, Json], rules: Mapping[str, Rule]
) -> dict[str, Rule]:
    """Return the rules of the steps, given as (number, rule name). Raises `CertificateError` for unknown rules."""
    found: dict[str, Rule] = {}
    for number, name in lines:
        if name in found:
            continue
        if (name in own or name in rules) and name not in digests:
            raise CertificateError(f"the certificate has no hash of the rule {name}", step=number, field="rules")
        if name in own:
            found[name] = _user_rule(name, own[name])
            continue
        if name not in rules:
            raise CertificateError(
                f"unknown rule {name!r}", step=number, field="rule", required="a rule that is known here"
            )
        if not isinstance(rules[name], Rule):
            raise InvalidArgument(f"rules[{name!r}]={brief(rules[name])}", required="a mapping of rules by name")
        found[name] = rules[name]
    for name in digests:
        if name not in found:
            raise CertificateError(f"no step uses the rule {name!r}", field="rules", required="the rules of the steps")
    for name in own:
        if name not in found:
            raise CertificateError(f"no step uses the user-defined rule {abbreviated(name)}", field="own")
    return found


def check_digests(
    known: Mapping[str, Rule],
    lines: Sequence[tuple[int, str]],
    arguments: Sequence[Arguments],
    digests: dict[str, Json],
) -> None:
    """Raise `CertificateError` if the equations of a rule have changed since the certificate was made."""
    used = used_ranks((known[name], values) for (_, name), values in zip(lines, arguments, strict=True))
    first = {name: number for number, name in reversed(lines)}
    for name, rule in known.items():
        found = digest(rule, used[rule])
        if digests[name] != found:
            raise CertificateError(
                f"the equation of the rule {name} has changed since the certificate was made",
                step=first[name],
                field="rules",
                found=found,
                required=f"a rule whose hash is {abbreviated(digests[name])}",
                suggestions=("derive the theorem again with the current rules",),
            )


def rule_in(name: str, text: str) -> Rule:
    """Return a user-defined rule written by `rule_text`, which is checked again.

    Raises `CertificateError` for another text, and for a rule that is false or that has a lower status here.
    """
    try:
        data = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused(brief(name), f"{brief(text)} is not the encoding of a rule") from error
    return _user_rule(name, data)


def _user_rule(called: str, data: Json) -> Rule:
    """Decode a user-defined rule and check it again."""
    match data:
        case {
            "law": str(law),
            "parameters": [*parameters],
            "statements": [_, *_] as statements,
            "grade": int(grade),
            "says": str(),
        } if (
            len(data) == 5
            and type(grade) is not bool
            and is_name(called.partition("#")[0])
            and " ".join(law.split()).isprintable()
        ):
            pass
        case _:
            raise _refused(called, f"{abbreviated(data)} is not the encoding of a rule")
    try:
        kinds = dict(map(_parameter, parameters))
        if len(kinds) < len(parameters):
            raise Unreadable("two of its parameters have the same name", required="a different name for each parameter")
        stated = [_statement(kinds, each) for each in statements]
        made = Rule(
            called.partition("#")[0],
            USER_FAMILY,
            "",
            law,
            kinds,
            MappingProxyType({each.ranks: each for each in stated}),
        )
        found = register(made, whole=False)
    except ATLError as error:
        raise _refused(called, error.summary, error) from error
    except _PYTHON_ERRORS as error:
        raise _refused(called, f"its equation cannot be read: {error}") from error
    if grade > found.status or grade < 1:
        raise CertificateError(
            f"the certificate claims that {called} is {_status_name(grade)}",
            field="own",
            found={"grade": int(found.status), "says": str(found)},
            required=f"the status found here: {found}",
        )
    return made


def _status_name(number: int) -> str:
    return str(Status(number)) if number in tuple(Status) else f"of status {number}"


def _refused(called: str, why: str, error: ATLError | None = None) -> CertificateError:
    return CertificateError(
        f"the user-defined rule {abbreviated(called)} is refused: {why}",
        field="own",
        required=(error and error.required) or "a rule that is found true, encoded as theorem.save does it",
        numbers=error.numbers if error else None,
    )


def _parameter(data: Json) -> tuple[str, Kind]:
    match data:
        case [str(name), kind] if is_name(name):
            return name, _axis_kind(name, kind) or _kind(kind)
        case _:
            raise Unreadable(f"{abbreviated(data)} is not the encoding of a parameter", required="[name, kind]")


def _axis_kind(name: str, data: Json) -> Kind | None:
    """Return the kind of an index of one axis, or of an entry of a permutation; None for any other kind."""
    match data:
        case [("axis" | "permutation") as sort, int(axis), str(group), []] if name.endswith(f"_{axis}"):
            found = PerAxis(group, permutes=sort == "permutation").kinds(name.rpartition("_")[0], LARGEST_RANK)
            return found.get(name)
        case _:
            return None


def _kind(data: Json) -> Kind:
    match data:
        case [str(sort), int(rank), str(group), [*parameters]]:
            made = Kind(sort, rank, group, tuple(map(_kind, parameters)))  # type: ignore[arg-type]
            if is_kind(made):
                return made
        case _:
            pass
    raise Unreadable(f"{abbreviated(data)} is not the encoding of a kind", required="[sort, rank, group, […]]")


def _statement(kinds: Mapping[str, Kind], data: Json) -> RuleStatement:
    match data:
        case {"ranks": [*ranks], "left": left, "right": right, "premises": [*premises]} if (
            data.keys() <= {"ranks", "left", "right", "premises", "tests"}
            and all(type(rank) is int for rank in ranks)
            and is_choice_of_ranks(kinds, tuple(ranks))
        ):
            variables = Variables(kinds, tuple(ranks))
            reader = _StatementReader(variables)
            tests = data.get("tests", ())
            if not isinstance(tests, list | tuple):
                raise Unreadable(f"{abbreviated(tests)} are not premises about elements", required="a list of tensors")
            conditions = tuple(reader.condition(premise) for premise in premises)
            equation = Equation(reader.tensor(left), reader.tensor(right), conditions, tuple(map(reader.tensor, tests)))
            return checked(variables, equation)
        case _:
            raise Unreadable(
                f"{abbreviated(data)} is not the encoding of a statement", required="ranks, left, right and premises"
            )


class _StatementReader(Reader):
    """Decodes the output of a `_StatementWriter`."""

    def __init__(self, variables: Variables) -> None:
        super().__init__(variables.arrays.values())
        self._variables = variables
        self._uids = {name: uid for uid, name in variables.names.items()}

    def index(self, data: Json) -> Index:
        match data:
            case ["var", str(name)] if (found := self._variables.variable(self._uids.get(name, 0))) is not None:
                return index(found)
            case ["extent", str(name), int(dimension)] if (name, dimension) in self._variables.extents.values():
                return index(self._variables.extent(name, dimension))
            case _:
                return super().index(data)

    def tensor(self, data: Json) -> Expr:
        match data:
            case ["of", str(name), [*indices], [*tensors]] if name in self._variables.types:
                return Metavariable(
                    self._uids[name],
                    name,
                    self._variables.types[name],
                    tuple(map(self.index, indices)),
                    tuple(map(self.tensor, tensors)),
                )
            case _:
                return super().tensor(data)

    def _checked_dtype(self, data: str | None) -> str | None:
        # Type variables are inferred again for each statement.
        return ANY_DTYPE if data is not None and is_variable(data) else checked_type(data)
