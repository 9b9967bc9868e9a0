"""The sides of rules as text: functions applied to their arguments, conditions by their names, and parts of both."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from atl.checks.wellformed import Path
from atl.core.index import Bound, Index, Leaf, Var, atoms, index, map_leaves
from atl.core.predicate import Predicate, substitute
from atl.core.program import Program
from atl.core.substitution import children, indices_in, transform, with_children
from atl.core.terms import Expr, Gen, Let, Local, Reduce, TensorVar, Term, Type
from atl.text.index_notation import write_index
from atl.text.names import UNICODE, Names
from atl.text.printing import index_text, place_of, show, show_index, show_predicate
from rewrites.matching.patterns import Application, Pattern, application, patterns
from rewrites.rule import Rule

_PLACEHOLDER: Final = "applied_{}_"
"""What a metavariable with its arguments is called while the rest of a pattern is printed."""
_RENAMED: Final = 1 << 40
_KINDS: Final = {
    "Gen": "a generation",
    "Reduce": "a reduction",
    "Guard": "a guard",
    "Let": "a let,",
    "Access": "an access",
    "Input": "the input",
    "Local": "the let-bound",
    "Concat": "a concatenation",
    "Reshape": "a reshape,",
    "Constant": "the literal",
    "Binary": "arithmetic,",
    "Unary": "a function,",
    "Select": "a select,",
    "Padding": "padding,",
    "Cast": "a cast,",
}


def side_text(rule: Rule, reverse: bool, rank: int) -> str:
    """A side of a rule as text, for elements of the least rank that fits."""
    for at in (rank, *range(9)):
        for pattern in patterns(rule, reverse, at):
            return _text(rule, pattern, ())
    return rule.law


def premises_text(rule: Rule) -> list[str]:
    """The premises of a rule as text, for elements of the least rank that fits."""
    premises = next((pattern.premises for rank in range(9) for pattern in patterns(rule, False, rank)), ())
    named = [substitute(premise, lambda leaf: _extent_named(leaf, 0)) for premise in premises]
    return [_readable(show_part(premise), rule) for premise in named]


def wanted_text(rule: Rule, reverse: bool, rank: int, wanted: Expr | Index | Predicate) -> str:
    """A part of a side of a rule, in words."""
    for pattern in patterns(rule, reverse, rank):
        where = path_in(pattern.term, wanted)
        if where is None:
            continue
        names = _names_at(pattern, where)
        if not isinstance(wanted, Term):
            return _readable(show_part(_opened(wanted, names)), rule)
        applied = application(wanted, pattern)
        if applied is None:
            return f"{kind_of(wanted)} {_text(rule, pattern, where)}".strip()
        used = {written for at in applied.indices for written in _names_in(at, names)}
        others = [name for name in names.indices if name not in used]
        without = f", which does not depend on {' and '.join(others)}" if others else ""
        return f"{_applied(applied, pattern, names)}{without}"
    return show_part(wanted)


def show_part(what: Expr | Index | Predicate) -> str:
    """An index, a condition or a term as text, without what stands around it."""
    if isinstance(what, Index):
        return show_index(what)
    return show(what) if isinstance(what, Term) else show_predicate(what)


def kind_of(term: Expr) -> str:
    """What a term is, in words that its text can follow."""
    return _KINDS.get(type(term).__name__, "")


def slice_of(root: Program | Expr, path: Path) -> str:
    """The text of a part, cut after its first line."""
    place = place_of(root, path)
    text = place.text[place.start : place.stop]
    return f"{text} …" if place.text[place.stop : place.stop + 1] == "\n" else text


def path_in(root: Expr, what: Expr | Index | Predicate) -> Path | None:
    """The path to a node, or to the node of which an index or a condition is part."""
    if root is what or any(at is what for at in indices_in(root)) or getattr(root, "predicate", None) is what:
        return ()
    for position, child in enumerate(children(root)):
        below = path_in(child.expr, what)
        if below is not None:
            return (position, *below)
    return None


# -- patterns made readable -------------------------------------------------------------------------------------------


def _text(rule: Rule, pattern: Pattern, path: Path) -> str:
    written: list[str] = []
    term = transform(_applied_everywhere(pattern.term, pattern, Names(), written), _extent_named)
    text = slice_of(term, path) if path else " ".join(show(term).split())
    for position, applied in enumerate(written):
        text = text.replace(_PLACEHOLDER.format(position), applied)
    return _readable(text, rule)


def _extent_named(leaf: Leaf, _depth: int) -> Index:
    """The first extent of v is called v.0 in a pattern, and v_0 where it is printed."""
    if not isinstance(leaf, Var) or "." not in leaf.name:
        return index(leaf)
    # A variable is its id: with another name only, it would be the same.
    return index(Var(leaf.uid + _RENAMED, leaf.name.replace(".", "_")))


def _readable(text: str, rule: Rule) -> str:
    """Conditions by their names: they are variables >= 0 in a pattern."""
    for name in _conditions(rule):
        text = re.sub(rf"0 <= `\?{name}`\[([^\]]*)\]", rf"{name}(\1)", text)
        text = re.sub(rf"\b0 <= {name}\b", name, text)
        text = re.sub(rf"\b{name} < 0\b", f"not {name}", text)
    return text


def _conditions(rule: Rule) -> list[str]:
    return [name for name, kind in rule.metavariables.items() if kind.sort == "condition"]


def _applied_everywhere(term: Expr, pattern: Pattern, names: Names, written: list[str]) -> Expr:
    """The pattern with a placeholder for e(i), whose text is written down, in place of what stands for it."""
    applied = application(term, pattern)
    if applied is not None:
        if not applied.indices and not applied.tensors:
            return term
        written.append(_applied(applied, pattern, names))
        number = len(written) - 1
        return TensorVar(number, _PLACEHOLDER.format(number), Type(None, tuple(index(0) for _ in term.type.shape)))
    parts = []
    for position, child in enumerate(children(term)):
        _enter(term, position, names)
        parts.append(_applied_everywhere(child.expr, pattern, names, written))
        _leave(term, position, names)
    return with_children(term, tuple(parts))


def _applied(applied: Application, pattern: Pattern, names: Names) -> str:
    """A metavariable with its arguments."""
    arguments = [index_text(write_index(at, names.of_leaf), UNICODE) for at in applied.indices]
    for under, at in enumerate(reversed(applied.tensors)):
        # Each argument stands under those that are applied after it (see `rewrites.matching.patterns`).
        inner = application(at, pattern)
        text = show(_with_tensors_named(at, names, under)) if inner is None else _applied(inner, pattern, names)
        arguments.insert(len(applied.indices), text)
    return f"{applied.name}({', '.join(arguments)})" if arguments else applied.name


def _with_tensors_named(term: Expr, names: Names, under: int) -> Expr:
    def on_leaf(leaf: Leaf, depth: int) -> Index:
        if isinstance(leaf, Bound) and depth <= leaf.position < depth + len(names.indices):
            level = len(names.indices) - 1 - (leaf.position - depth)
            return index(Var(level, names.indices[level]))
        return index(leaf)

    def on_tensor(at: Local | TensorVar, _depth: int, tensor_depth: int) -> Expr | None:
        if isinstance(at, Local) and 0 <= at.position - tensor_depth - under < len(names.tensors):
            level = at.position - tensor_depth - under
            return TensorVar(level, names.of_tensor(level), at.of)
        return None

    return transform(term, on_leaf, on_tensor)


def _enter(term: Expr, position: int, names: Names) -> None:
    match term:
        case Gen(name=name) | Reduce(name=name):
            names.bind_index(name)
        case Let(name=name) if position == 1:
            names.bind_tensor(name)
        case _:
            pass


def _leave(term: Expr, position: int, names: Names) -> None:
    match term:
        case Gen() | Reduce():
            names.unbind_index()
        case Let() if position == 1:
            names.unbind_tensor()
        case _:
            pass


def _names_at(pattern: Pattern, path: Path) -> Names:
    names = Names()
    term = pattern.term
    for position in path:
        _enter(term, position, names)
        term = children(term)[position].expr
    return names


def _opened(what: Index | Predicate, names: Names) -> Index | Predicate:
    """With named variables in place of the indices that the pattern binds."""

    def leaf(at: Leaf) -> Index:
        if isinstance(at, Bound) and at.position < len(names.indices):
            level = len(names.indices) - 1 - at.position
            return index(Var(level, names.indices[level]))
        return index(at)

    return map_leaves(what, leaf) if isinstance(what, Index) else substitute(what, leaf)


def _names_in(expression: Index, names: Names) -> Iterable[str]:
    return (names.of_leaf(atom) for atom in atoms(expression) if isinstance(atom, Bound))
