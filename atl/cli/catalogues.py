"""`atl rules` and `atl tactics`: the catalogues of rewrite rules and of tactics."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from atl.cli.command import Command, declare_json, in_checkout, print_json
from atl.errors import InvalidArgument

if TYPE_CHECKING:
    from rewrites.rule import Rule
    from rewrites.session.catalogue import Entry


def _declare_rules(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="print only these rules, each in full")
    if in_checkout():
        parser.add_argument("--proof", action="store_true", help="check each rule again, and print its proof status")
        parser.add_argument(
            "--mutants", action="store_true", help="also check mutants of each rule, which must be rejected"
        )
    declare_json(parser)


def _rules(arguments: argparse.Namespace) -> int:
    from rewrites import rules
    from rewrites.errors import unknown_name
    from rewrites.rules.bounded import exactness_name, status_name

    if unknown := [name for name in arguments.names if name not in rules]:
        raise unknown_name("rule", unknown[0], rules, required="a name that `atl rules` lists")
    if in_checkout() and (arguments.proof or arguments.mutants):
        if arguments.json:
            raise InvalidArgument("--proof and --mutants print tables", required="--json without them")
        from proofs_tests.rules.rule_proofs import main as proofs

        return proofs([*arguments.names, *(["--mutants"] if arguments.mutants else [])])
    chosen = [rules[name] for name in arguments.names] or list(rules.values())
    if arguments.json:
        print_json([_rule_as_data(rule) for rule in chosen])
    elif arguments.names:
        from rewrites.session.display import described

        print("\n\n".join(described(rule) for rule in chosen))
    else:
        for rule in chosen:
            labels = f"{status_name(rule.name):7}  {exactness_name(rule.name):6}"
            print(f"{rule.family:16} {rule.name:24} {labels}  {rule.law}")
    return 0


def _rule_as_data(rule: Rule) -> dict[str, Any]:
    from rewrites.rule_checking.registry import status_text
    from rewrites.rules.bounded import exactness_name, status_name
    from rewrites.session.rule_text import premises_text, side_text

    return {
        "name": rule.name,
        "family": rule.family,
        "source": rule.source,
        "law": rule.law,
        "left": side_text(rule, reverse=False, rank=0),
        "right": side_text(rule, reverse=True, rank=0),
        "parameters": list(rule.metavariables),
        "premises": premises_text(rule),
        "status": status_name(rule.name),
        "status_text": status_text(rule),
        "exactness": exactness_name(rule.name),
        "derived_from": list(dict.fromkeys(rule.derived_from)),
    }


def _declare_tactics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="print only these tactics, each in full")
    parser.add_argument("--markdown", action="store_true", help="print the documentation page docs/tactics.md")
    parser.add_argument("--user", metavar="FILE.py", help="a file with user-defined tactics, listed last")
    declare_json(parser)


def _tactics(arguments: argparse.Namespace) -> int:
    from rewrites.errors import unknown_name
    from rewrites.session import catalogue
    from rewrites.user_rules import read

    if arguments.markdown:
        print(catalogue.markdown(), end="")
        return 0
    defined = [] if arguments.user is None else list(catalogue.user_tactics(read(arguments.user).tactics))
    entries = {entry.name: entry for entry in (*catalogue.entries(), *defined)}
    if unknown := [name for name in arguments.names if name not in entries]:
        raise unknown_name("tactic", unknown[0], entries, required="a name that `atl tactics` lists")
    chosen = [entries[name] for name in arguments.names] or [*catalogue.tactics_of_sessions(), *defined]
    if arguments.json:
        print_json([_entry_as_data(entry) for entry in chosen])
    elif arguments.names:
        print("\n\n".join(catalogue.described(entry) for entry in chosen))
    else:
        for entry in chosen:
            print(f"{entry.name:16} {entry.law}")
    return 0


def _entry_as_data(entry: Entry) -> dict[str, str]:
    return {"name": entry.name, "call": entry.call, "law": entry.law, "text": entry.text}


RULES = Command(
    "rules", "List the rewrite rules with their equations and proof status", _declare_rules, _rules,
    ("atl rules get_gen guard_true", "atl rules get_gen", "atl rules --json"),
)  # fmt: skip
TACTICS = Command(
    "tactics", "List the tactics of a session, each as before → after", _declare_tactics, _tactics,
    ("atl tactics tile fuse", "atl tactics --json"),
)  # fmt: skip
