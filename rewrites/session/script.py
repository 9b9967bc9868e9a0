"""Export of a theorem, or of the calls of a session, as a Python script that derives it again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from atl.core.index import Index
from atl.core.program import Program
from atl.core.terms import Expr
from atl.core.traversal import Path, children, names_given
from atl.errors import ATLError
from atl.parsing.parse import parse
from atl.text.index_notation import ASCII, write_condition, write_index
from atl.text.printing import condition_text, index_text, show_program
from rewrites.certificates.certificate import dumps, loads
from rewrites.certificates.rule_json import names_of, rule_text, used_ranks
from rewrites.certificates.term_json import text_of
from rewrites.derivation import Derivation, arguments_of
from rewrites.induction import ROWS
from rewrites.kernel import Step, Theorem, reflexivity
from rewrites.matching.match import Mismatch, match
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument, Function, sort_of
from rewrites.rule_checking.registry import status_of
from rewrites.rules import RULES
from rewrites.session.call import Call
from rewrites.tactics import Tactics
from rewrites.tactics.tactic import Tactic

FORMAT: Final = re.compile(r"^(sparsify\('\w+', |assemble\()")
"""The text of a call before the name of a sparse format."""
_KEYWORDS = frozenset({"name", "at", "around", "nth", "all", "reverse", "top_down"})
"""Keywords of `Session.rw` itself: a rule's parameter with such a name is passed through `exactly`."""


def as_python(theorem: Theorem) -> str:
    """Return a script that derives the theorem again in a session and ends with `theorem = s.done()`.

    Each step is `s.rw(rule, around=path, …)`, without the parameters that the place determines. Indices and conditions
    are written with the names in scope; other arguments as JSON for `argument_in` of `rewrites.certificates.term_json`.
    Where matching does not find the arguments of the step, all of them are passed to `exactly`. Names and marks that
    the steps do not produce are set at the end.
    """
    program = show_program(theorem.lhs)
    # Parse the printed program, so that the names are those the script will see.
    own = _user_rules(theorem.steps)
    calls = _steps_as_calls(Derivation(reflexivity(parse(program)), RULES), theorem.steps, theorem.rhs, own)
    literal = repr(program) if "\\" in program or '"""' in program else f'"""\n{program}\n"""'
    lines = ["import atl", "from rewrites import reschedule"]
    lines += _imports(calls, own, theorem.steps)
    calls += _assembled(theorem.rhs)
    return "\n".join(
        [*lines, "", f"start = atl.parse({literal})", "s = reschedule(start)", *calls, "theorem = s.done()", ""]
    )


def session_script(start: Theorem, calls: Sequence[Call], rules: Mapping[str, Rule]) -> str:
    """Return a script that makes the calls of a session, with the rewrite steps of those that are not method calls.

    After a restart whose arguments are not literals, such as a layout, the script starts from the program of the
    restart, and the calls until then are rewrite steps.
    """
    steps = [step for call in calls for step in call.steps]
    own = _user_rules(steps)
    lines: list[str] = []
    restarts = [at for at, call in enumerate(calls) if _is_restart(call, calls[at - 1].theorem if at else start)]
    opaque = [at for at in restarts if not _is_method_call(calls[at].text)]
    if opaque:
        start, last = calls[opaque[-1]].before, opaque[-1]
        lines += [f"# {call.text}" for call in calls[: last + 1]]
        theorem, calls = calls[last].theorem, calls[last + 1 :]
        work = Derivation(reflexivity(parse(show_program(start.lhs))), rules)
        lines += [*_steps_as_calls(work, theorem.steps, theorem.rhs, own), *_assembled(theorem.rhs)]
    else:
        # A loop k may be printed as k1; tactics name its parts after k.
        lines += names_and_marks(parse(show_program(start.lhs)).body, start.lhs.body, ())
    for call in calls:
        if _is_method_call(call.text) and not any(step.rule in own for step in call.steps):
            lines.append("s." + FORMAT.sub(r"\1atl.", call.text))
        else:
            lines.append(f"# {call.text}")
            lines += _steps_as_calls(Derivation(call.before, rules), call.steps, call.theorem.rhs, own)
    before = ["start = s.goal"] if any("argument_in(" in line for line in lines) else []
    return "\n".join(
        [
            "import atl",
            *_imports(lines, own, steps),
            "",
            "s = atl.reschedule(atl.parse('''",
            str(start.lhs),
            "'''))",
            *before,
            *lines,
            "",
        ]
    )


def _assembled(program: Program) -> list[str]:
    """Return the call that stores the result in a sparse format, if the program does."""
    stored = program.assembly
    return [] if stored is None else [f"s.assemble(atl.{stored.format}{'' if stored.zeros else ', zeros=False'})"]


def _is_restart(call: Call, before: Theorem) -> bool:
    """Return whether a call restarted its session from another program than that of the theorem before it."""
    return call.before.lhs is not before.lhs and call.before.lhs != before.lhs


def _is_method_call(text: str) -> bool:
    """Return whether the text of a call is a call of a built-in method whose arguments are literals."""
    try:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        for value in (*call.args, *(each.value for each in call.keywords)):
            if not (call.func.id in ("sparsify", "assemble") and _is_format(value)):
                ast.literal_eval(value)
    except (SyntaxError, ValueError, AssertionError):
        return False
    return call.func.id in ("rw", "sparsify", "assemble", "view") or isinstance(vars(Tactics).get(call.func.id), Tactic)


def _is_format(value: ast.expr) -> bool:
    """Return whether an argument is the name of a format, or a format that calls derive from it: CSR.sorted()."""
    while isinstance(value, ast.Call | ast.Attribute):
        if isinstance(value, ast.Call) and not all(isinstance(each, ast.Constant) for each in value.args):
            return False
        value = value.func if isinstance(value, ast.Call) else value.value
    return isinstance(value, ast.Name)


def _steps_as_calls(work: Derivation, steps: Sequence[Step], wanted: Program, own: Mapping[Rule, str]) -> list[str]:
    """Return calls of a session for steps from the goal of a derivation, and for the names and marks at the end."""
    calls: list[str] = []
    for step in steps:
        if step.lemmas:
            calls.append(_by_induction(step, work))
            base, following = step.lemmas
            work.induction(step.path, step.arguments, base, following, reverse=step.reverse)
            continue
        explicit = _undetermined(step, work.term(step.path))
        calls.append(_call(step, own.get(step.rule, repr(step.rule.name)), explicit, work))
        # Replay as the script will do it, since names of loops may depend on how arguments are found.
        if explicit is None or not work.attempted(step.rule, step.path, explicit, reverse=step.reverse):
            work.apply(step.rule, step.path, step.arguments, reverse=step.reverse)
    return [*calls, *names_and_marks(work.goal.body, wanted.body, ())]


def _user_rules(steps: Sequence[Step]) -> dict[Rule, str]:
    return {rule: name.replace("#", "_") for rule, name in names_of(steps).items() if status_of(rule)}


def _imports(calls: Sequence[str], own: Mapping[Rule, str], steps: Sequence[Step]) -> Iterator[str]:
    """Yield the imports that calls need besides `atl`."""
    for helper in ("by_induction", "exactly"):
        if any(call.startswith(f"s.do({helper}, ") for call in calls):
            yield f"from rewrites.session.script import {helper}"
    if any("argument_in(" in call for call in calls):
        yield "from rewrites.certificates.term_json import argument_in"
    yield from _user_rule_imports(own, steps)


def _user_rule_imports(own: Mapping[Rule, str], steps: Sequence[Step]) -> Iterator[str]:
    """Yield imports of the user-defined rules; those from a script or notebook are read from their equations."""
    imported = {rule for rule, name in own.items() if rule.module not in ("", "__main__") and name == rule.name}
    yield from (f"from {rule.module} import {rule.name}" for rule in own if rule in imported)
    read = {rule: name for rule, name in own.items() if rule not in imported}
    if read:
        yield "from rewrites.certificates.rule_json import rule_in"
    ranks = used_ranks((step.rule, step.arguments) for step in steps)
    for rule, name in read.items():
        yield f"# The user-defined rule {name}: {' '.join(rule.law.split())}"
        yield f"{name} = rule_in({rule.name!r}, {rule_text(rule, ranks[rule])!r})"


def exactly(
    work: Derivation, name: str | Rule, path: Path, arguments: Mapping[str, Any], *, reverse: bool = False
) -> None:
    """Apply one step of a rule at a path with all of its arguments: `s.do(exactly, "get_gen", (0,), {…})`."""
    rule = work.rule(name)
    work.apply(rule, path, work.settled(arguments_of(rule, arguments), path), reverse=reverse)


def by_induction(
    work: Derivation, path: Path, arguments: Mapping[str, Any], base: str, step: str, *, reverse: bool = False
) -> None:
    """Take a step by induction at a path, with the certificates of its two theorems."""
    given = work.settled(arguments_of(ROWS, arguments), path)
    work.induction(path, given, loads(base), loads(step), reverse=reverse)


def _by_induction(step: Step, work: Derivation) -> str:
    values = ", ".join(
        f"{name!r}: argument_in({text_of(at, work.goal)!r}, start)" for name, at in step.arguments.items()
    )
    lemmas = ", ".join(repr(dumps(each)) for each in step.lemmas)
    turned = ", reverse=True" if step.reverse else ""
    return f"s.do(by_induction, {step.path!r}, {{{values}}}, {lemmas}{turned})"


def names_and_marks(now: Expr, wanted: Expr, path: Path) -> Iterator[str]:
    """Yield the calls that give the names and marks of a term to the binders of an equal term."""
    for binder, (name, given) in enumerate(zip(names_given(wanted), names_given(now), strict=True)):
        # Names that are not identifiers are printed as i.
        shown = name if name.isidentifier() and name.isascii() else "i"
        if shown != given:
            yield f"s.rename({path!r}, {shown!r}{f', binder={binder}' if binder else ''})"
    marked = wanted.form.mark
    if marked is not None and getattr(now, marked.field) != getattr(wanted, marked.field):
        yield f"s.mark({path!r}, {getattr(wanted, marked.field).value!r})"
    for position, (one, other) in enumerate(zip(children(now), children(wanted), strict=True)):
        yield from names_and_marks(one.expr, other.expr, (*path, position))


def _call(step: Step, rule: str, explicit: Mapping[str, Argument] | None, work: Derivation) -> str:
    turned = ["reverse=True"] if step.reverse else []
    if explicit is None:
        values = [f"{name!r}: {_written(value, work, step)}" for name, value in step.arguments.items()]
        parts = [rule, repr(step.path), f"{{{', '.join(values)}}}", *turned]
        return f"s.do(exactly, {', '.join(parts)})"
    values = [f"{name}={_written(value, work, step)}" for name, value in explicit.items()]
    return f"s.rw({', '.join([rule, f'around={step.path!r}', *turned, *values])})"


def _undetermined(step: Step, term: Expr) -> dict[str, Argument] | None:
    """Return the parameters that `rw` needs to find the step's arguments by matching; None if it cannot."""
    explicit: dict[str, Argument] = {}
    while True:
        if not _KEYWORDS.isdisjoint(explicit):
            return None
        try:
            found = match(step.rule, step.reverse, term, explicit)
        except ATLError:
            return None
        known = {} if isinstance(found, Mismatch) else found
        missing = [name for name, value in step.arguments.items() if name not in known]
        missing += [name for name, value in step.arguments.items() if name in known and known[name] != value]
        if not missing:
            return explicit
        left = [name for name in missing if name not in explicit]
        if not left:
            return None
        explicit[left[0]] = step.arguments[left[0]]


def _written(value: Argument, work: Derivation, step: Step) -> str:
    """Return an argument as Python: a number, a string with the names in scope, or JSON."""
    if isinstance(value, Index) and value.constant is not None:
        return str(value.constant)
    if not isinstance(value, Function) and sort_of(value) != "tensor":
        text = _as_text(value, work, step)
        if text is not None:
            return repr(text)
    return f"argument_in({text_of(value, work.goal)!r}, start)"


def _as_text(value: Any, work: Derivation, step: Step) -> str | None:
    """Return an index or a condition as text, if parsing the text at the step's place returns it."""
    leaf = work.cursor(step.path).names.of_leaf
    if isinstance(value, Index):
        text = index_text(write_index(value, leaf), ASCII)
    else:
        text = condition_text(write_condition(value, leaf), ASCII)
    name = next(name for name, argument in step.arguments.items() if argument is value)
    try:
        return text if work.settled(arguments_of(step.rule, {name: text}), step.path)[name] == value else None
    except ATLError:
        return None
