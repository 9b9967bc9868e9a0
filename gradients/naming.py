"""Names for what a derivative reads again: operands of nonlinear operations become lets, by rules.

A tangent reads an operand of a nonlinear operation once for its value, and once for its derivative. Without a let, it
computes the operand twice. The number of operations then grows with the depth of the program.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from atl.core import terms
from atl.core.operations import OPERATIONS
from atl.core.program import Program
from atl.core.terms import Expr
from atl.core.traversal import Path, children, subterms
from gradients.pairings import READ, Known, is_read, reads
from rewrites.derivation import Derivation
from rewrites.tactics.simplification import decided, reduce_accesses
from rewrites.tactics.storage.binding import bind

OPERAND: Final = "u"
"""The name of lets that bind operands, if the program has no let of this name."""


_OF_VALUE: Final = ("exp", "expm1", "sqrt", "tanh")
"""Functions whose derivative is a function of their value."""


class Naming:
    """Steps that bind operands in one derivation, for a derivative with respect to some inputs."""

    def __init__(self, work: Derivation, wrt: Collection[str]) -> None:
        self._work = work
        self._wrt = wrt
        self.name = fresh_let(work.goal)

    def visit(self, path: Path, known: Known) -> None:
        """Bind operands in the term at a path. `known` says which lets around it depend on the inputs."""
        work = self._work
        e = work.term(path)
        if not reads(e, self._wrt, known):
            return
        match e:
            case terms.Let():
                self.visit((*path, 0), known)
                path, known = self._out_of_value(path, known)
                self.visit(path, known)
            case terms.Rec():
                self.visit((*path, 0), known)
                self.visit((*path, 1), (*known, True))
            case _:
                for position in range(len(children(e))):
                    self.visit((*path, position), known)
                self._bind_operands(path, known)

    def _bind_operands(self, path: Path, known: Known) -> None:
        work = self._work
        e = work.term(path)
        if isinstance(e, terms.Reduce) and e.monoid != "sum":
            if not is_read(e.body):
                before = work.checkpoint
                bind(work, (*path, 0), (), self.name)
                if not work.attempt(f"ll_{e.monoid}", path):
                    work.rollback(before)
            return
        for position in self._read_again(e, known):
            side = "" if isinstance(e, terms.Unary) else ("_left", "_right")[position]
            while isinstance(work.term((*path, position)), terms.Let):
                if not work.attempt(f"ll_{_word(e)}{side}", path):
                    return
                path, known = self._inside(path, known)
            if not is_read(work.term((*path, position))):
                bind(work, path, (position,), self.name)
                path, known = self._out_of_value(path, known)

    def _read_again(self, e: Expr, known: Known) -> tuple[int, ...]:
        """Return the operands whose values the tangent of a term reads."""
        match e:
            case terms.Unary(op, operand):
                if op != "abs" and OPERATIONS[op].tangent is None:
                    return ()
                # The derivative of exp reads exp(a). It reads a only if the tangent of a reads values that a computes.
                return () if op in _OF_VALUE and not _reads_values(operand) else (0,)
            case terms.Binary("mul", left, right):
                return (*(0,) * reads(right, self._wrt, known), *(1,) * reads(left, self._wrt, known))
            case terms.Binary("div", _, right):
                return (0, 1) if reads(right, self._wrt, known) else ()
            case terms.Binary("min" | "max"):
                return (0, 1)
            case _:
                return ()

    def _out_of_value(self, path: Path, known: Known) -> tuple[Path, Known]:
        """Move lets out of the value of the let at a path. Return the place of the body of this let."""
        while self._move_out_of_value(path):
            path, known = self._inside(path, known)
        return self._inside(path, known)

    def _move_out_of_value(self, path: Path) -> bool:
        """Move a let out of the value of the let at a path. Return whether there is one."""
        work = self._work
        inner = (*path, 0)
        rules: list[str] = []
        while (rule := _rule_of_let(work.term(inner))) is not None:
            inner = (*inner, 0)
            rules.append(rule)
        if not isinstance(work.term(inner), terms.Let) or ("ll_gen" in rules and not self._is_costly(inner)):
            return False
        before = work.checkpoint
        for rule in reversed(rules):
            inner = inner[:-1]
            if not work.attempt(rule, inner):
                work.rollback(before)
                return False
        if not work.attempt("let_let", path):
            work.rollback(before)
            return False
        return True

    def _is_costly(self, path: Path) -> bool:
        """Return whether a chain of lets binds a reduction or a function."""
        e = self._work.term(path)
        while isinstance(e, terms.Let):
            if any(isinstance(each, terms.Reduce | terms.Unary) for each in subterms(e.value)):
                return True
            e = e.body
        return False

    def _inside(self, path: Path, known: Known) -> tuple[Path, Known]:
        let = self._work.term(path)
        assert isinstance(let, terms.Let)
        return (*path, 1), (*known, reads(let.value, self._wrt, known))


def _reads_values(e: Expr) -> bool:
    """Return whether the tangent of a term may read a value that the term computes, apart from operands of products."""
    match e:
        case terms.Unary(op):
            reads_own = op not in ("neg", "stop")
        case terms.Binary(op, _, right):
            reads_own = op not in ("add", "sub", "mul") and not (op == "div" and is_read(right))
        case terms.Reduce(monoid):
            reads_own = monoid != "sum"
        case _:
            reads_own = not isinstance(e, READ)
    return reads_own or any(_reads_values(child.expr) for child in children(e))


def _rule_of_let(e: Expr) -> str | None:
    """Return the rule that moves a let out of a term, if lets move through this constructor to be named."""
    match e:
        case terms.Gen():
            return "ll_gen"
        case terms.Reshape(op) if not isinstance(op, terms.Place):
            return f"{op.form.word}_of_let"
        case _:
            return None


def _word(e: Expr) -> str:
    assert isinstance(e, terms.Unary | terms.Binary)
    return e.op


def fresh_let(program: Program) -> str:
    """Return a name that no let of a program has."""
    used = {each.name for each in subterms(program.body) if isinstance(each, terms.Let)}
    name = OPERAND
    while name in used or f"d{name}" in used:
        name += "u"
    return name


# -- both tangents ----------------------------------------------------------------------------------------------------


def unify(one: Derivation, other: Derivation, names: Collection[str]) -> bool:
    """Unfold lets until the goals of two derivations are equal. Return whether they are.

    Lets with some names are all unfolded, others only where the goals differ.
    """
    return all(_unfold(work, (), names) for work in (one, other)) and _agree(one, other, ())


def _unfold(work: Derivation, path: Path, names: Collection[str]) -> bool:
    """Unfold all lets with these names at and below a path. Return whether the rules apply to their dimensions."""
    while isinstance(let := work.term(path), terms.Let) and let.name in names:
        if not work.attempt("unfold_let", path):
            return False
    return all(
        _unfold(work, (*path, position), names)
        for position, child in enumerate(children(work.term(path)))
        if any(isinstance(each, terms.Let) for each in subterms(child.expr))
    )


def _agree(one: Derivation, other: Derivation, path: Path) -> bool:
    while (a := one.term(path)) != (b := other.term(path)):
        if _reduced(one, path, b) or _reduced(other, path, a):
            continue
        if _by_elements(one, path, b) or _by_elements(other, path, a):
            continue
        if type(a) is not type(b) or len(children(a)) != len(children(b)):
            return False
        return all(_agree(one, other, (*path, position)) for position in range(len(children(a))))
    return True


def _by_elements(work: Derivation, path: Path, other: Expr) -> bool:
    """Write an elementwise operation as the generation of its elements if the other term is a generation."""
    e = work.term(path)
    if not (isinstance(other, terms.Gen) and isinstance(e, terms.Unary | terms.Binary | terms.Where) and e.type.rank):
        return False
    return work.attempt("gen_eta", path, reverse=True, n=e.type.shape[0])


def _reduced(work: Derivation, path: Path, other: Expr) -> bool:
    """Unfold a let or a reshape operator, read an element, or remove a true guard, unless both terms have one form."""
    match work.term(path):
        case terms.Let(value) if not isinstance(other, terms.Let) or other.value.type != value.type:
            return work.attempt("unfold_let", path)
        case terms.Access() as e if not isinstance(other, terms.Access) or type(_read(e)) is not type(_read(other)):
            return bool(reduce_accesses(work, path))
        case terms.Reshape(op) if isinstance(other, terms.Gen):
            return work.attempt(f"unfold_{op.form.word}", path)
        case terms.Guard() if not isinstance(other, terms.Guard):
            return decided(work, work.cursor(path))
        case _:
            return False


def _read(e: Expr) -> Expr:
    """Return the tensor of which a term reads an element, or elements."""
    while isinstance(e, terms.Access):
        e = e.tensor
    return e
