"""Names, marks and places across a rewrite: what an equation says nothing of, and a person wants to keep.

A side of a rule is a skeleton of nodes with metavariables at its leaves. A binder of one side goes on as one of the
other where one metavariable takes the index of both as the same parameter: in ⊞[i < n] ⊞[j < m] e(i, j) = transpose
⊞[j < m] ⊞[i < n] e(i, j) the loop over i goes on as the loop over i. The parameter may also be i - lo, or x[i]. Where a
binder goes on as several, as in a split, the first has its place and its name, and all have its mark. Nothing here is
trusted: theorems are about neither.
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
from rewrites.instantiation import Function
from rewrites.kernel import Step
from rewrites.matching.patterns import patterns
from rewrites.rule import Rule

Key: TypeAlias = tuple[str, str, int]
"""A metavariable, "index" or "tensor", and which of its parameters of that sort."""
Bound: TypeAlias = tuple[Path, str]
"""A binder of a side: the path of its node, and the field with its name."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A side of a rule laid over a term: where metavariables stand, and which binders each of their parameters has."""

    side: Expr
    applications: tuple[tuple[Path, Metavariable], ...]
    binders: dict[Key, list[Bound]]

    def of_metavariable(self, path: Path) -> tuple[Path, Metavariable] | None:
        """The metavariable within which a path ends, and where it stands."""
        for at, applied in self.applications:
            if path[: len(at)] == at:
                return at, applied
        return None


def skeleton(rule: Rule, reverse: bool, term: Expr) -> Skeleton | None:
    """The left side of the rule (its right one with `reverse`), laid over this term."""
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
                tensor = tensor.tensor  # noqa: PLW2901 (what is accessed)
            if isinstance(tensor, Local) and tensor.position < len(tensors):
                bound.setdefault((wanted.name, "tensor", position), []).append(tensors[-1 - tensor.position])
        return
    for position, child in enumerate(children(wanted)):
        within = [*indices, *((path, binder.name) for binder in child.part.indices)]
        beside = [*tensors, *((path, binder.name) for binder in child.part.tensors)]
        _read(child.expr, (*path, position), within, beside, found, bound)


def with_hints(rule: Rule, reverse: bool, before: Expr, after: Expr) -> Expr:
    """The result of a rewrite with the names and marks of the binders that it keeps."""
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
    """The term with the mark of a binder for the one at a path that has none yet: one loop may come of two."""
    marked, there = kept.form.mark, subterm(after, at)
    if marked is None or marked != there.form.mark or getattr(there, marked.field) is not marked.of.NONE:
        return after
    return with_hints_at(after, at, {marked.field: getattr(kept, marked.field)})


def with_hints_at(term: Expr, path: Path, hints: Mapping[str, object]) -> Expr:
    """The term with another name or mark, by their fields, for the node at a path; what it has not is left out."""
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
    """Where a part of the term that a rule rewrote is afterwards; None if the rule took it away.

    A part that stands in several places afterwards is followed to the first of them.
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
    """The metavariable within whose value a path into e(x) ends, and the path there: e(x) holds x where e has its
    parameter, and on the other side x may stand alone.
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
    """The first place at which a part stands."""
    if term == part:
        return ()
    for position, child in enumerate(children(term)):
        below = _first_path(child.expr, part)
        if below is not None:
            return (position, *below)
    return None


def _in_argument(step: Step, side: Skeleton, name: str) -> Path | None:
    """Where a metavariable stands that another one is applied to: where that one uses its parameter first."""
    for where, applied in side.applications:
        function = step.arguments[applied.name]
        for position, tensor in enumerate(reversed(applied.tensors)):
            if isinstance(tensor, Metavariable) and tensor.name == name and isinstance(function, Function):
                used = _first_use(function.body, position) if isinstance(function.body, Term) else None
                return None if used is None else (*where, *used)
    return None


def _first_use(term: Expr, tensor: int) -> Path | None:
    """The first place at which the let-bound tensor with this de Bruijn position is used."""
    if isinstance(term, Local) and term.position == tensor:
        return ()
    for position, child in enumerate(children(term)):
        below = _first_use(child.expr, tensor + child.tensors)
        if below is not None:
            return (position, *below)
    return None
