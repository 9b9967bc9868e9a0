"""Correspondence of names, marks and places before and after a rewrite, which the equation does not determine.

A side of a rule is a skeleton of nodes with metavariables at its leaves. Two binders of different sides correspond if a
metavariable has their indices as the same parameter: in ⊞[i < n] ⊞[j < m] e(i, j) = transpose ⊞[j < m] ⊞[i < n] e(i, j)
both loops over i correspond. The parameter may also be i - lo, or x[i]. If several binders correspond to one, as in a
split, the first gets its place and its name, and all get its mark. Nothing here is trusted, because theorems ignore
names and marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from atl.core.index import Bound as BoundIndex
from atl.core.index import atoms
from atl.core.substitution import with_children
from atl.core.terms import Access, Expr, Local, Metavariable, Term
from atl.core.traversal import Path, children, subterm
from rewrites.kernel import Step
from rewrites.matching.patterns import patterns
from rewrites.rule import Rule
from rewrites.rule_arguments import Function

Key: TypeAlias = tuple[str, str, int]
"""A metavariable, "index" or "tensor", and the number of its parameter of that sort."""
Bound: TypeAlias = tuple[Path, str]
"""A binder of a side: the path of its node, and the field that holds its name."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A side of a rule aligned with a term: the paths of metavariables, and the binders of their parameters."""

    side: Expr
    applications: tuple[tuple[Path, Metavariable], ...]
    binders: dict[Key, list[Bound]]

    def of_metavariable(self, path: Path) -> tuple[Path, Metavariable] | None:
        """Return the metavariable that contains the end of a path, and its path."""
        for at, applied in self.applications:
            if path[: len(at)] == at:
                return at, applied
        return None


def skeleton(rule: Rule, reverse: bool, term: Expr) -> Skeleton | None:
    """Align the left side of the rule (the right side with `reverse`) with this term."""
    for pattern in patterns(rule, reverse, term.type.rank):
        if _aligned(pattern.term, term):
            found: list[tuple[Path, Metavariable]] = []
            bound: dict[Key, list[Bound]] = {}
            _read(pattern.term, (), [], [], found, bound)
            return Skeleton(pattern.term, tuple(found), bound)
    return None


def _aligned(wanted: Expr, found: Expr) -> bool:
    if isinstance(wanted, Metavariable):
        return wanted.type.rank == found.type.rank
    return type(wanted) is type(found) and all(
        _aligned(a.expr, b.expr) for a, b in zip(children(wanted), children(found), strict=True)
    )


def _read(
    wanted: Expr,
    path: Path,
    indices: list[Bound],
    tensors: list[Bound],
    found: list[tuple[Path, Metavariable]],
    bound: dict[Key, list[Bound]],
) -> None:
    if isinstance(wanted, Metavariable):
        found.append((path, wanted))
        for position, at in enumerate(wanted.indices):
            used = [atom.position for atom in atoms(at) if isinstance(atom, BoundIndex)]
            if len(used) == 1 and used[0] < len(indices):
                bound.setdefault((wanted.name, "index", position), []).append(indices[-1 - used[0]])
        for position, tensor in enumerate(wanted.tensors):
            while isinstance(tensor, Access):
                tensor = tensor.tensor  # noqa: PLW2901 (the accessed tensor)
            if isinstance(tensor, Local) and tensor.position < len(tensors):
                bound.setdefault((wanted.name, "tensor", position), []).append(tensors[-1 - tensor.position])
        return
    for position, child in enumerate(children(wanted)):
        within = [*indices, *((path, binder.name) for binder in child.part.indices)]
        tensors_inside = [*tensors, *((path, binder.name) for binder in child.part.tensors)]
        _read(child.expr, (*path, position), within, tensors_inside, found, bound)


def with_hints(rule: Rule, reverse: bool, before: Expr, after: Expr) -> Expr:
    """Copy the names and marks of corresponding binders from `before` to `after`, the result of a rewrite."""
    first, second = skeleton(rule, reverse, before), skeleton(rule, not reverse, after)
    if first is None or second is None:
        return after
    for key, targets in second.binders.items():
        if key in first.binders:
            where, source = first.binders[key][0]
            kept = subterm(before, where)
            at, name = targets[0]
            after = with_hints_at(after, at, {name: getattr(kept, source)})
            for at, _ in targets:
                after = _with_mark_of(kept, after, at)
    return after


def _with_mark_of(kept: Expr, after: Expr, at: Path) -> Expr:
    """Copy the mark of a binder to the binder at a path, unless it already has one: two loops may become one."""
    marked, there = kept.form.mark, subterm(after, at)
    if marked is None or marked != there.form.mark or getattr(there, marked.field) is not marked.of.NONE:
        return after
    return with_hints_at(after, at, {marked.field: getattr(kept, marked.field)})


def with_hints_at(term: Expr, path: Path, hints: Mapping[str, object]) -> Expr:
    """Set names and marks, by field, of the node at a path. Fields that the node does not have are ignored."""
    if not path:
        own = {field: value for field, value in hints.items() if field in term.form.ignored}
        if all(getattr(term, field) == value for field, value in own.items()):
            return term
        made = replace(term, **own)  # type: ignore[arg-type]
        object.__setattr__(made, "source", term.source)
        return made
    parts = [child.expr for child in children(term)]
    parts[path[0]] = with_hints_at(parts[path[0]], path[1:], hints)
    return with_children(term, tuple(parts))


def moved(step: Step, before: Expr, after: Expr, path: Path) -> Path | None:
    """Return the new path of a part of a rewritten term; None if the rule removed it.

    If the part occurs several times afterwards, the first occurrence is returned.
    """
    first, second = skeleton(step.rule, step.reverse, before), skeleton(step.rule, not step.reverse, after)
    if first is None or second is None:
        return None if path else ()
    inside = first.of_metavariable(path)
    if inside is not None:
        at, applied = inside
        through = _through_parameter(step.arguments.get(applied.name), applied, path[len(at) :])
        if through is not None:
            name, rest = through
            held = next((where for where, other in second.applications if other.name == name), None)
            return None if held is None else (*held, *rest)
        target = next((where for where, other in second.applications if other.name == applied.name), None)
        target = target if target is not None else _in_argument(step, second, applied.name)
        return None if target is None else (*target, *path[len(at) :])
    kept = [second.binders[key] for key, of in first.binders.items() if of[0][0] == path and key in second.binders]
    if kept:
        return kept[0][0][0]
    same = _first_path(second.side, subterm(first.side, path))
    if same is not None:
        return same
    return () if not path and not any(of[0][0] == () for of in first.binders.values()) else None


def _through_parameter(function: object, applied: Metavariable, path: Path) -> tuple[str, Path] | None:
    """Follow a path into e(x) that ends inside of x. Return the metavariable x and the rest of the path.

    On the other side of the rule x may occur by itself.
    """
    if not isinstance(function, Function) or not isinstance(function.body, Term):
        return None
    at, tensors = function.body, 0
    for depth, position in enumerate((*path, None)):
        if isinstance(at, Local) and 0 <= at.position - tensors < len(applied.tensors):
            argument = applied.tensors[-1 - (at.position - tensors)]
            return (argument.name, path[depth:]) if isinstance(argument, Metavariable) else None
        if position is None or position >= len(children(at)):
            return None
        child = children(at)[position]
        at, tensors = child.expr, tensors + child.tensors
    return None


def _first_path(term: Expr, part: Expr) -> Path | None:
    """Return the first path at which a part occurs."""
    if term == part:
        return ()
    for position, child in enumerate(children(term)):
        below = _first_path(child.expr, part)
        if below is not None:
            return (position, *below)
    return None


def _in_argument(step: Step, side: Skeleton, name: str) -> Path | None:
    """Return the path of a metavariable that is an argument of another one: the first use of the parameter."""
    for where, applied in side.applications:
        function = step.arguments[applied.name]
        for position, tensor in enumerate(reversed(applied.tensors)):
            if isinstance(tensor, Metavariable) and tensor.name == name and isinstance(function, Function):
                used = _first_use(function.body, position) if isinstance(function.body, Term) else None
                return None if used is None else (*where, *used)
    return None


def _first_use(term: Expr, tensor: int) -> Path | None:
    """Return the path of the first use of the let-bound tensor with this de Bruijn position."""
    if isinstance(term, Local) and term.position == tensor:
        return ()
    for position, child in enumerate(children(term)):
        below = _first_use(child.expr, tensor + child.tensors)
        if below is not None:
            return (position, *below)
    return None
