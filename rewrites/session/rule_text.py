"""The sides of rules as text: functions applied to their arguments, conditions by their names, and parts of both."""

from __future__ import annotations

from collections.abc import Iterable

from atl.core.index import Bound, Index, Leaf, Var, atoms, index, map_leaves
from atl.core.predicate import Predicate, substitute
from atl.core.program import Program
from atl.core.terms import Expr, Metavariable, Term
from atl.core.traversal import Path, children, conditions_in, indices_in, names_bound
from atl.text.names import Names
from atl.text.printing import place_of, show, show_index, show_predicate
from rewrites.matching.patterns import Pattern, patterns
from rewrites.rule import Rule


def side_text(rule: Rule, reverse: bool, rank: int) -> str:
    """A side of a rule as text, for elements of the least rank that fits."""
    for at in (rank, *range(9)):
        for pattern in patterns(rule, reverse, at):
            return " ".join(show(pattern.term).split())
    return rule.law


def premises_text(rule: Rule) -> list[str]:
    """The premises of a rule as text, for elements of the least rank that fits."""
    premises = next((pattern.premises for rank in range(9) for pattern in patterns(rule, False, rank)), ())
    return [show_part(premise) for premise in premises]


def wanted_text(rule: Rule, reverse: bool, rank: int, wanted: Expr | Index | Predicate) -> str:
    """A part of a side of a rule, in words."""
    for pattern in patterns(rule, reverse, rank):
        where = path_in(pattern.term, wanted)
        if where is None:
            continue
        names = _names_at(pattern, where)
        if not isinstance(wanted, Term):
            return show_part(_opened(wanted, names))
        text = slice_of(pattern.term, where)
        if not isinstance(wanted, Metavariable):
            return f"{kind_of(wanted)} {text}".strip()
        used = {written for at in wanted.indices for written in _names_in(at, names)}
        others = [name for name in names.indices if name not in used]
        return f"{text}, which does not depend on {' and '.join(others)}" if others else text
    return show_part(wanted)


def show_part(what: Expr | Index | Predicate) -> str:
    """An index, a condition or a term as text, without what stands around it."""
    if isinstance(what, Index):
        return show_index(what)
    return show(what) if isinstance(what, Term) else show_predicate(what)


def kind_of(term: Expr) -> str:
    """What a term is, in words that its text can follow."""
    return term.form.phrase


def slice_of(root: Program | Expr, path: Path) -> str:
    """The text of a part, cut after its first line."""
    place = place_of(root, path)
    text = place.text[place.start : place.stop]
    return f"{text} …" if place.text[place.stop : place.stop + 1] == "\n" else text


def path_in(root: Expr, what: Expr | Index | Predicate) -> Path | None:
    """The path to a node, or to the node of which an index or a condition is part."""
    if root is what or any(at is what for at in indices_in(root)) or any(at is what for at in conditions_in(root)):
        return ()
    for position, child in enumerate(children(root)):
        below = path_in(child.expr, what)
        if below is not None:
            return (position, *below)
    return None


# -- within a pattern -------------------------------------------------------------------------------------------------


def _names_at(pattern: Pattern, path: Path) -> Names:
    names = Names()
    term = pattern.term
    for position in path:
        indices, tensors = names_bound(term, position)
        for name in indices:
            names.bind_index(name)
        for name in tensors:
            names.bind_tensor(name)
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
