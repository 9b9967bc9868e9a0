"""Mutants of rules, made from their declarations: each that is not equivalent must be found false.

A premise is dropped or weakened, < becomes <= or <= becomes <, an operator becomes its mirror image, a ceiling becomes a
floor, an offset is forgotten, two indices are exchanged. `python -m proofs_tests.mutation` prints the score of each rule
and the mutants that survive: those are to be looked at, for they are true as well, or the cases are too few.
"""

from __future__ import annotations

import ast
import copy
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from proofs_tests.exhaustion import decide
from rewrites.rule import Rule
from rewrites.rules import RULES

MIRROR: Final = {
    "truncr": "truncl", "truncl": "truncr", "padr": "padl", "padl": "padr", "flatten": "transpose",
}  # fmt: skip


EQUIVALENT: Final = {
    ("access_guard", "<= in k < v.shape[0]"): "an element outside reads as zero",
    ("unfold_split", "<= in i * k + j < n"): "an element outside reads as zero",
    ("unfold_concat", "<= in i < n"): "an element outside reads as zero",
    ("unfold_padr", "<= in i < n"): "an element outside reads as zero",
    ("truncr_flatten_split", "a floor for ceildiv(n, k)"): "the amount is negative but where k divides n",
}
"""Mutants that are true, and why."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule with one change to its text."""

    rule: Rule
    change: str


@dataclass(slots=True)
class Score:
    """How many mutants of a rule there are, how many were found false, and which were not."""

    rule: str
    made: int = 0
    killed: int = 0
    survivors: list[str] = field(default_factory=list)


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Every single change to a rule's text."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(rule.declaration)))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    function.returns = None
    for argument in function.args.args:
        argument.annotation = None
    for number in range(len(list(_edits(function)))):
        mutated = copy.deepcopy(function)
        described = _apply(mutated, number)
        if described is not None:
            module = ast.fix_missing_locations(ast.Module(body=[mutated], type_ignores=[]))
            space = dict(rule.declaration.__globals__)  # type: ignore[attr-defined]
            exec(compile(module, f"<mutant of {rule.name}>", "exec"), space)
            chosen = rule.states.args if isinstance(rule.states, partial) else ()
            yield Mutant(replace(rule, states=partial(space[function.name], *chosen)), described)


def _apply(function: ast.FunctionDef, number: int) -> str | None:
    """Makes the change with this number."""
    name, edit = list(_edits(function))[number]
    edit()
    return name


def _edits(function: ast.FunctionDef) -> Iterator[tuple[str, Callable[[], None]]]:
    names = {argument.arg for argument in function.args.args}
    premises = {
        id(part) for part in ast.walk(function) if isinstance(part, ast.Call) and ast.unparse(part.func) == "given"
    }
    premises = {id(inner) for part in ast.walk(function) if id(part) in premises for inner in ast.walk(part)}
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name("given"), args=stated):
                for position, premise in enumerate(stated):
                    yield (
                        f"without {ast.unparse(premise)}",
                        lambda p=stated, k=position: p.__setitem__(slice(k, k + 1), []),
                    )
            case ast.Compare(ops=[ast.Lt()]):
                yield f"<= in {ast.unparse(node)}", lambda n=node: n.__setattr__("ops", [ast.LtE()])
            case ast.Compare(ops=[ast.LtE()]) if id(node) not in premises:
                # Not in a premise: one that asks for more leaves a rule that is true.
                yield f"< in {ast.unparse(node)}", lambda n=node: n.__setattr__("ops", [ast.Lt()])
            case ast.Call(func=ast.Name(name) as called) if name in MIRROR:
                yield f"{MIRROR[name]} for {name}", lambda c=called, m=MIRROR[name]: c.__setattr__("id", m)
            case ast.Call(func=ast.Name("ceildiv") as called, args=[a, b]):
                yield (
                    f"a floor for {ast.unparse(node)}",
                    lambda n=node, a=a, b=b: n.__dict__.update(
                        func=ast.parse("(lambda x, y: x // y)", mode="eval").body
                    ),
                )
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Name(offset)) if offset in names:
                yield (
                    f"{ast.unparse(left)} for {ast.unparse(node)}",
                    lambda n=node: n.__setattr__("right", ast.Constant(0)),
                )
            case ast.Subscript(slice=ast.Tuple(elts=[first, second])):
                yield (
                    f"exchanged {ast.unparse(node)}",
                    lambda n=node, a=first, b=second: n.__setattr__("slice", ast.Tuple(elts=[b, a], ctx=ast.Load())),
                )
            case _:
                pass


def score(rule: Rule, cases: int = 300) -> Score:
    """The mutants of a rule, each decided on a few hundred choices."""
    result = Score(rule.name)
    for mutant in mutants(rule):
        result.made += 1
        try:
            killed = decide(mutant.rule, cases).counterexample is not None
        except Exception:  # noqa: BLE001 (a mutant may fail in any way; it is not a rule then)
            killed = True
        if killed:
            result.killed += 1
        else:
            result.survivors.append(mutant.change)
    return result


def report(names: Sequence[str] = ()) -> int:
    """Prints the score of every rule, or of those named."""
    made = killed = unexplained = 0
    for rule in RULES.values():
        if names and rule.name not in names:
            continue
        found = score(rule)
        made, killed = made + found.made, killed + found.killed
        print(f"{rule.family:16} {rule.name:24} {found.killed} of {found.made} mutants found false")
        for survivor in found.survivors:
            why = EQUIVALENT.get((rule.name, survivor))
            unexplained += why is None
            print(f"    survives: {survivor}: {why or 'NOT EXPLAINED'}")
    print(
        f"{killed} of {made} mutants found false, {made - killed - unexplained} are true as well, for a stated reason"
    )
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(report(sys.argv[1:]))
