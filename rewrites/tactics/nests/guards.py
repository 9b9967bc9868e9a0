"""Splitting guards and lifting them outwards through a loop nest."""

from __future__ import annotations

from atl.core.index import Bound, atoms
from atl.core.predicate import Predicate, conjunction, conjuncts, expressions
from atl.core.terms import ZERO_AT_ZERO, Binary, Gen, Guard, Let, Reduce, Reshape, Unary
from atl.core.traversal import Path
from rewrites.cursors.cursor import positions
from rewrites.derivation import Derivation
from rewrites.tactics.loops import WORD_OF


def conditions(work: Derivation, path: Path) -> tuple[Predicate, ...]:
    """Return the conjuncts of the guard at a path."""
    term = work.term(path)
    assert isinstance(term, Guard)
    return conjuncts(term.predicate)


def used_positions(part: Predicate) -> set[int]:
    """Return the de Bruijn positions of the indices used in a condition."""
    return {atom.position for e in expressions(part) for atom in atoms(e) if isinstance(atom, Bound)}


def split_guard(work: Derivation, path: Path, outside: list[Predicate]) -> bool:
    """Split a guard, [p ∧ q] · e → [p] · [q] · e, with these conjuncts outside; return whether there are any."""
    inside = [part for part in conditions(work, path) if part not in outside]
    if outside and inside:
        work.rewrite("guard_guard", path, reverse=True, p=conjunction(outside), q=conjunction(inside))
    return bool(outside)


def lift_guards(work: Derivation, path: Path) -> None:
    """Lift guards below a place outwards as far as possible: out of loops on whose indices they do not depend.

    ⊞[i < n] [p] · e → [p] · ⊞[i < n] e; a * [p] · b → [p] · a * b; transpose [p] · e → [p] · transpose e
    """
    for position in positions(work.term(path)):
        lift_guards(work, (*path, position))
    lift_guard(work, path)


def lift_guard(work: Derivation, path: Path) -> None:
    """Lift a guard out of the operator at a path, if possible."""
    match work.term(path):
        case Gen(body=Guard()) | Reduce("sum", body=Guard()) as loop:
            found = conditions(work, (*path, 0))
            if split_guard(work, (*path, 0), [part for part in found if 0 not in used_positions(part)]):
                work.attempt("guard_gen" if isinstance(loop, Gen) else "sum_guard", path, reverse=True)
        case Guard(body=Guard()):
            work.rewrite("guard_guard", path)
        case Reshape(op, Guard()):
            work.attempt(f"{WORD_OF[type(op)]}_of_guard", path)
        case Let(body=Guard()):
            work.attempt("ll_guard", path, reverse=True)
        case Unary(op, Guard()) if op in ZERO_AT_ZERO:
            work.attempt(f"guard_{op}", path, reverse=True)
        case Binary("mul"):
            if work.attempt("guard_mul_left", path):
                lift_guard(work, (*path, 0))
                lift_guard(work, path)
            else:
                work.attempt("guard_mul_right", path)
        case Binary("div", Guard()):
            work.attempt("guard_div_left", path)
        case Binary("add" | "sub" as op, Guard(), Guard()):
            common = [part for part in conditions(work, (*path, 0)) if part in conditions(work, (*path, 1))]
            if all(split_guard(work, (*path, position), common) for position in (0, 1)):
                work.attempt(f"guard_{op}", path, reverse=True)
        case _:
            pass  # no other operator commutes with a guard
