"""Text of rules: their sides, premises, and parts of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from atl.core.index import Bound, Index, Leaf, Var, atoms, index, map_leaves
from atl.core.predicate import Predicate, substitute
from atl.core.terms import Expr, Metavariable, Term
from atl.core.traversal import Path, children, conditions_in, indices_in, names_bound
from atl.errors import InvalidArgument
from atl.text.index_notation import Names
from atl.text.latex import formula
from atl.text.printing import show, show_index, show_predicate, text_at
from rewrites.cursors.cursor import Cursor, cursor_at
from rewrites.matching.patterns import Pattern, patterns
from rewrites.rule import Rule


def side_text(rule: Rule, reverse: bool, rank: int) -> str:
    """Return a side of a rule as text, for elements of the smallest rank that matches."""
    for at in (rank, *range(9)):
        for pattern in patterns(rule, reverse, at):
            return " ".join(show(pattern.term).split())
    return rule.law


def side_latex(rule: Rule, reverse: bool) -> str | None:
    """Return a side of a rule as LaTeX, for elements of the smallest rank that matches; None if it is too long."""
    for rank in range(9):
        for pattern in patterns(rule, reverse, rank):
            shown = formula(pattern.term)
            return None if shown is None else shown.strip("$").removeprefix(r"\displaystyle ")
    return None


def premises_text(rule: Rule) -> list[str]:
    """Return the premises of a rule as text, for elements of the smallest rank that matches."""
    found = ((*pattern.premises, *pattern.tests) for rank in range(9) for pattern in patterns(rule, False, rank))
    return [show_part(premise) for premise in next(found, ())]


def wanted_text(rule: Rule, reverse: bool, cursor: Cursor, wanted: Expr | Index | Predicate) -> str:
    """Describe an expected part of a side of a rule, marking the rule's names as such.

    A loop that the part must not depend on is called by the user's name for it.
    """
    for pattern in patterns(rule, reverse, cursor.term.type.rank):
        where = path_in(pattern.term, wanted)
        if where is None:
            continue
        names = _names_at(pattern, where)
        if not isinstance(wanted, Term):
            return f"the rule's {show_part(_opened(wanted, names))}"
        text = text_at(pattern.term, where)
        if not isinstance(wanted, Metavariable):
            return ", the rule's ".join(filter(None, (kind_of(wanted).removesuffix(","), text)))
        used = {written for at in wanted.indices for written in _names_in(at, names)}
        others = [_loop(cursor, name, at) for name, at in _binding(pattern, where) if name not in used]
        return f"the rule's {text}" + (f", which does not depend on {' and '.join(others)}" if others else "")
    return f"the rule's {show_part(wanted)}"


def _binding(pattern: Pattern, path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the indices bound above a place of a pattern, each with the path of its binder."""
    at = pattern.term
    for depth, position in enumerate(path):
        indices, _ = names_bound(at, position)
        yield from ((name, path[:depth]) for name in indices)
        at = children(at)[position].expr


def _loop(cursor: Cursor, name: str, path: Path) -> str:
    """Return the user's name for a loop of a rule."""
    try:
        called = cursor_at(cursor.program, (*cursor.path, *path)).called
    except InvalidArgument:
        called = ()
    return f"your {called[0]} (the rule's {name})" if called else f"the rule's {name}"


def show_part(what: Expr | Index | Predicate) -> str:
    """Return an index, a condition or a term as text, without its context."""
    if isinstance(what, Index):
        return show_index(what)
    return show(what) if isinstance(what, Term) else show_predicate(what)


def kind_of(term: Expr) -> str:
    """Return the kind of a term in words, to be followed by its text."""
    return term.form.phrase


def path_in(root: Expr, what: Expr | Index | Predicate) -> Path | None:
    """Return the path to a node, or to the node that contains an index or a condition."""
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
    """Replace the indices that the pattern binds by named variables."""

    def leaf(at: Leaf) -> Index:
        if isinstance(at, Bound) and at.position < len(names.indices):
            level = len(names.indices) - 1 - at.position
            return index(Var(level, names.indices[level]))
        return index(at)

    return map_leaves(what, leaf) if isinstance(what, Index) else substitute(what, leaf)


def _names_in(expression: Index, names: Names) -> Iterable[str]:
    return (names.of_leaf(atom) for atom in atoms(expression) if isinstance(atom, Bound))
