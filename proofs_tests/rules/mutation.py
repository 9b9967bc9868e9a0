"""Mutants of rules, made from their declarations: every mutant that is not true must be refuted.

A mutant drops or weakens a premise, shifts or exchanges an index, takes another extent, replaces a ceiling by a floor,
forgets an offset or a conjunct, or mirrors an operator. A mutant that no case refutes must be proved for all sizes
(`rules.symbolic`), or be listed in `EQUIVALENT`.

`python -m proofs_tests.rules.mutation` prints the score and the survivors of each rule.
"""

from __future__ import annotations

import ast
import copy
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from proofs_tests.rules.declarations import declaration, function_of, restated
from rewrites.metavariables import Kind
from rewrites.rule import Rule
from rewrites.rule_checking.exhaustion import decide, found_spelled_out
from rewrites.rule_checking.symbolic import proved
from rewrites.rules import RULES

MIRROR: Final = {
    "truncr": "truncl", "truncl": "truncr", "padr": "padl", "padl": "padr", "flatten": "transpose",
}  # fmt: skip
_OVER_INDICES: Final = ("gen", "sum", "reduce")
_OTHER_WAY: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip

EQUIVALENT: Final[dict[tuple[str, str], str]] = {
    ("sum_collapse", "p + 1 in p % k"): "each row is summed as a whole, from wherever in it",
    ("tile_gen", "a floor for ceildiv(n, k)"): "unless k divides n, less than nothing would be cut off",
    ("gen_scatter", "i + 1 in place(n, i, e(i))"): "it has a meaning only where there are no elements",
    ("place_of_guard", "n for i in place(n, i, e)"): "it has a meaning only where the guard does not hold",
    ("gen_as_guarded_place", "hi for lo in a - lo"): "it has a meaning only where the guard does not hold",
    ("place_of_select", "n for i in place(n, i, a)"): "it has a meaning only where the other one is selected",
    ("place_of_select", "n for i in place(n, i, b)"): "it has a meaning only where the other one is selected",
    ("transpose_of_place", "n for i in place(n, i, v[j])"): "it has a meaning only where there are no columns",
    **{
        ("adjoint_of_concat", change): "a tensor that is read has no negative extent"
        for change in ("without n >= 0", "without m >= 0", "b.shape[0] of y")
    },
    ("adjoint_of_split", "without k > 0"): "a split has a meaning only for positive k",
    ("adjoint_of_split", "weaker k > 0"): "a split has a meaning only for positive k",
    **{
        ("adjoint_of_access", change): "the access has a meaning only within the tensor, or there are no elements"
        for change in ("without k >= 0", "without k < v.shape[0]", "weaker k < v.shape[0]")
    },
    ("adjoint_of_truncr", "without k >= 0"): "a truncation drops no negative number of elements",
    ("rec_strips", "a floor for ceildiv(hi, k)"): "unless k divides hi, less than nothing would be cut off",
    **{
        ("rec_strips", change): "rows after the last one are computed, and cut off"
        for change in ("hi for hi - b * k", "the other sign in hi - b * k")
    },
    **{(f"{extremum}_repeat", "k + 1 in (lo, k)"): "the last term is taken once more" for extremum in ("min", "max")},
    **{
        (f"{extremum}_of_few", change): why
        for extremum in ("min", "max")
        for change, why in (
            ("exchanged e(j, k)", "both sides have the same terms"),
            ("hi + 1 in (lo, hi)", "a term more of the selected fold is one of its terms, or zero"),
        )
    },
    **{
        (f"tile_{extremum}", f"{bound} in imin(k, n - o * k)"): "blocks that overlap have the same extremum"
        for extremum in ("min", "max")
        for bound in ("k + 1", "n for k")
    },
}
"""Equivalent mutants without a proof, and the reason why they are true."""


MORE_DRAWS: Final = 20
"""Number of further seeds for a mutant that is neither refuted nor proved."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """Rule with one change to its text."""

    rule: Rule
    change: str


@dataclass(slots=True)
class Score:
    """Mutants of a rule: made, refuted, proved equivalent, and surviving."""

    rule: str
    made: int = 0
    killed: int = 0
    true: list[str] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)
    wrongly_proved: list[str] = field(default_factory=list)
    """Mutants that were refuted and proved: then the proofs are wrong."""


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Yield the rule with every single change to its text."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(declaration(rule))))
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    function.returns = None
    for argument in function.args.args:
        argument.annotation = None
    for number in range(len(list(edits(function, rule)))):
        mutated = copy.deepcopy(function)
        described, edit = list(edits(mutated, rule))[number]
        edit()
        module = ast.fix_missing_locations(ast.Module(body=[mutated], type_ignores=[]))
        space = dict(declaration(rule).__globals__)
        exec(compile(module, f"<mutant of {rule.name}>", "exec"), space)
        stated = function_of(rule)
        chosen = stated.args if isinstance(stated, partial) else ()
        yield Mutant(restated(rule, partial(space[function.name], *chosen)), described)


Edit = tuple[str, Callable[[], object]]


def edits(function: ast.FunctionDef, rule: Rule) -> Iterator[Edit]:
    """Yield the single changes, each with its description and as an action on the tree."""
    premises = [part for part in ast.walk(function) if isinstance(part, ast.Call) and ast.unparse(part.func) == "given"]
    asked = {id(inner) for part in premises for inner in ast.walk(part)}
    for call in premises:
        for place, premise in enumerate(call.args):
            yield f"without {ast.unparse(premise)}", partial(call.args.__delitem__, place)
    for node in ast.walk(function):
        yield from _comparisons(node, asked)
        yield from _operators(node)
        yield from _arguments(node, rule)
    yield from _indices(function, rule)


def _set(node: ast.AST, name: str, value: object) -> Callable[[], object]:
    return partial(setattr, node, name, value)


def _comparisons(node: ast.AST, asked: set[int]) -> Iterator[Edit]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _OTHER_WAY:
            weaker = isinstance(op, ast.Lt | ast.Gt)
            # A stronger premise leaves a true rule.
            if weaker or id(node) not in asked:
                yield (
                    f"{'weaker' if weaker else 'stronger'} {ast.unparse(node)}",
                    _set(node, "ops", [_OTHER_WAY[type(op)]()]),
                )
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            yield f"only {ast.unparse(left)} of {ast.unparse(node)}", _set(node, "right", left)
            yield f"only {ast.unparse(right)} of {ast.unparse(node)}", _set(node, "left", right)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            yield f"{ast.unparse(operand)} for {ast.unparse(node)}", _set(node, "op", ast.UAdd())
        case _:
            pass


def _operators(node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Call(func=ast.Name(name) as called) if name in MIRROR:
            yield f"{MIRROR[name]} for {name}", _set(called, "id", MIRROR[name])
        case ast.Call(func=ast.Name("ceildiv")):
            floor = ast.parse("(lambda x, y: x // y)", mode="eval").body
            yield f"a floor for {ast.unparse(node)}", _set(node, "func", floor)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op):
            yield f"{ast.unparse(left)} for {ast.unparse(node)}", partial(_forget_right, node)
            other = ast.Sub() if isinstance(op, ast.Add) else ast.Add()
            yield f"the other sign in {ast.unparse(node)}", _set(node, "op", other)
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod() as op):
            whole = isinstance(op, ast.FloorDiv)
            exchanged = ast.Mod() if whole else ast.FloorDiv()
            yield f"{'%' if whole else '//'} in {ast.unparse(node)}", _set(node, "op", exchanged)
        case _:
            pass


def _forget_right(node: ast.AST) -> None:
    """Replace a + b by a, written [a, b][0] because the node is changed in place."""
    assert isinstance(node, ast.BinOp)
    pair = ast.List(elts=[node.left, node.right], ctx=ast.Load())
    chosen = ast.Subscript(value=pair, slice=ast.Constant(value=0), ctx=ast.Load())
    node.__class__ = ast.Subscript  # type: ignore[assignment]
    node.__dict__.clear()
    node.__dict__.update(chosen.__dict__)


def _arguments(node: ast.AST, rule: Rule) -> Iterator[Edit]:
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=[first, second]) as at):
            yield f"exchanged {ast.unparse(node)}", _set(at, "elts", [second, first])
        case ast.Call(func=ast.Name(name), args=[first, second]) if name in rule.metavariables:
            yield f"exchanged {ast.unparse(node)}", _set(node, "args", [second, first])
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(name) as of, attr="shape"), slice=ast.Constant() as place
        ):
            kind = rule.metavariables.get(name, Kind("tensor"))
            if kind.rank > 1:
                yield f"the other extent for {ast.unparse(node)}", _set(place, "value", 1 - int(str(place.value)) % 2)
            for other, other_kind in rule.metavariables.items():
                if other != name and other_kind.sort == "tensor" and other_kind.rank and not other_kind.parameters:
                    yield f"{ast.unparse(node)} of {other}", _set(of, "id", other)
        case _:
            pass


def _indices(function: ast.FunctionDef, rule: Rule) -> Iterator[Edit]:
    """Shift each index on the right side by one, and exchange it for another one."""
    (stated,) = [n for n in ast.walk(function) if isinstance(n, ast.Call) and ast.unparse(n.func) == "equation"]
    of_rule = [name for name, kind in rule.metavariables.items() if kind.sort == "index"]
    bound = {
        argument.arg
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _OVER_INDICES
        for inner in call.args
        if isinstance(inner, ast.Lambda)
        for argument in inner.args.args
    }
    for above in ast.walk(stated.args[1]):
        for name, value in ast.iter_fields(above):
            for place, part in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(part, ast.Name) or part.id not in (*of_rule, *bound):
                    continue
                shifted = ast.BinOp(left=ast.Name(part.id, ast.Load()), op=ast.Add(), right=ast.Constant(1))
                put = partial(value.__setitem__, place) if isinstance(value, list) else partial(setattr, above, name)
                where = f"in {ast.unparse(above)}"
                yield f"{part.id} + 1 {where}", partial(put, shifted)
                if part.id in of_rule and len(of_rule) > 1:
                    other = of_rule[(of_rule.index(part.id) + 1) % len(of_rule)]
                    yield f"{other} for {part.id} {where}", partial(put, ast.Name(other, ast.Load()))


def score(rule: Rule, cases: int = 300) -> Score:
    """Return the score of a rule. Each mutant is tested at a few hundred choices."""
    result = Score(rule.name)
    for mutant in mutants(rule):
        try:
            verdict = decide(mutant.rule, cases)
        except Exception:  # noqa: BLE001 (a mutant may fail in any way: it states nothing then)
            continue
        if verdict.counterexample is None and not verdict.decided:
            continue
        result.made += 1
        is_proved = proved(mutant.rule) is None
        if verdict.counterexample is not None:
            result.killed += 1
            result.wrongly_proved += [mutant.change] * is_proved
        elif is_proved:
            result.true.append(mutant.change)
        elif refuted_by_more(mutant.rule, cases):
            result.killed += 1
        else:
            result.survivors.append(mutant.change)
    return result


def refuted_by_more(rule: Rule, cases: int) -> bool:
    """Return true if many more random cases refute the rule."""
    if decide(rule, 8 * cases).counterexample is not None:
        return True
    return any(found_spelled_out(rule, seed) for seed in range(1, MORE_DRAWS))


def declared_once(names: Sequence[str] = ()) -> list[Rule]:
    """Return the rules of these names, or one rule for each declaration."""
    if names:
        return [RULES[name] for name in names]
    first: dict[object, Rule] = {}
    for rule in RULES.values():
        first.setdefault(declaration(rule), rule)
    return list(first.values())


def report(names: Sequence[str] = ()) -> int:
    """Print the score of every declaration, or of the named rules."""
    made = killed = true = unexplained = 0
    for rule in declared_once(names):
        found = score(rule)
        made, killed, true = made + found.made, killed + found.killed, true + len(found.true)
        counts = f"{found.killed} of {found.made} mutants found false, {len(found.true)} proved"
        print(f"{rule.family:16} {rule.name:24} {counts}")
        for survivor in found.survivors:
            why = EQUIVALENT.get((rule.name, survivor))
            unexplained += why is None
            print(f"    survives: {survivor}: {why or 'NOT EXPLAINED'}")
    print(f"{killed} of {made} mutants found false, {true} proved true as well, {unexplained} not explained")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(report(sys.argv[1:]))
