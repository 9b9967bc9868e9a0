"""Factoring: moving factors out of sums by ring laws, from any place in a product and through guards."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from atl.core.predicate import conjunction, conjuncts
from atl.core.substitution import free_positions
from atl.core.terms import Binary, Expr, Guard, Reduce, Unary
from atl.core.traversal import Path
from atl.errors import ATLError
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import every
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.loops import find_loops
from rewrites.tactics.nests.guards import used_positions
from rewrites.tactics.simplification import guard_reads
from rewrites.tactics.tactic import tactic


@tactic
def factor_out(work: Derivation, what: arg.Scalar, *, out_of: arg.Around | None = None) -> None:
    """Move a factor or a divisor out of the enclosing sums whose indices it does not depend on, or out of one of them.

    Σ[k < n] Σ[l < m] a(k, l) * b(k) * c(l)  →  Σ[k < n] b(k) * Σ[l < m] a(k, l) * c(l)

    The factor may be anywhere in the product. If it depends on an inner sum, the sums are interchanged. Guards that
    do not depend on the index move out with the factor; the others stay.

    >>> s = reschedule(atl.parse(
    ...     "f (A : float32[n, m], x : float32[n]) : float32 "
    ...     ":= Σ[i < n] Σ[j < m] A[i, j] * x[i]"))
    >>> s.factor_out("x[i]")
    f (A : float32[n, m], x : float32[n]) : float32 :=
      Σ[i < n] x[i] * Σ[j < m] A[i, j]
    """
    chosen_sums = None if out_of is None else {cursor.path for cursor in find_loops(work, out_of)}
    work.try_each(every(work.goal, what), lambda cursor: _out(work, cursor, chosen_sums))


def _out(work: Derivation, cursor: Cursor, chosen_sums: Collection[Path] | None) -> None:
    if cursor.term.type.rank:
        raise DoesNotApply(
            f"the factor is a tensor of {cursor.term.type.rank} dimensions",
            place=place_of(work.goal, cursor.path),
            required="a scalar: one element, as in A[_, _]",
        )
    factor = _Factor(work, cursor.path)
    left = 0
    while (around := factor.next_sum(chosen_sums)) is not None:
        factor.move_to_front()
        factor.leave(around)
        left += 1
        if chosen_sums is not None:
            break
    if not left:
        raise _no_sum(work, cursor, chosen_sums)
    guard_reads(work, factor.path)


def _no_sum(work: Derivation, cursor: Cursor, chosen_sums: Collection[Path] | None) -> DoesNotApply:
    """Return the reason why a factor leaves none of the sums around it."""
    place = place_of(work.goal, cursor.path)
    product = _whole_product(work, cursor.path)
    around = work.term(product[:-1]) if product else None
    if not isinstance(around, Reduce) or around.monoid != "sum":
        what = f"a {around.monoid} ({around.name})" if isinstance(around, Reduce) else "not a sum"
        return DoesNotApply(
            f"the node around the product with this factor is {what}",
            place=place,
            required="a sum around a product; only products, quotients, signs and guards may be between",
            suggestions=("s.interchange(…) moves a sum inside a gen",) if work.goal.body.type.rank else (),
        )
    if chosen_sums is not None:
        return DoesNotApply(
            "this factor cannot leave that sum",
            place=place,
            required="a sum on whose index the factor does not depend, with only sums and guards between the two",
        )
    return DoesNotApply(
        f"this factor depends on the sum {around.name} around it, and on all sums directly around that one",
        place=place,
        required="a factor that does not depend on the index of a sum around it",
    )


def _whole_product(work: Derivation, path: Path) -> Path:
    """Return the path of the whole product, including guards around it, that contains a factor or divisor."""
    while path and _takes_part(work.term(path[:-1])):
        path = path[:-1]
    return path


def _takes_part(around: Expr) -> bool:
    match around:
        case Binary("mul" | "div") | Guard() | Unary("neg"):
            return True
        case _:
            return False


@dataclass(slots=True)
class _Factor:
    """A factor that is being moved: its path, and whether it is alone, the left factor, or the divisor."""

    work: Derivation
    path: Path
    form: Literal["alone", "times", "over"] = "alone"

    @property
    def product(self) -> Path:
        """The path of the smallest product that the factor leads, or of the factor itself."""
        return self.path if self.form == "alone" else self.path[:-1]

    # -- within the product -------------------------------------------------------------------------------------------

    def move_to_front(self) -> None:
        """Move the factor to the front: a * (b * f) → f * (a * b), through quotients, signs and guards; guards end
        outermost.
        """
        top = _whole_product(self.work, self.path)
        while len(self.product) > len(top):
            above = self.product[:-1]
            match self.work.term(above):
                case Guard() if all(
                    isinstance(self.work.term(above[:length]), Guard) for length in range(len(top), len(above))
                ):
                    break
                case Guard():
                    self._lift_guard(above)
                case Binary("mul"):
                    self._through_product(above, self.product[-1])
                case Binary("div"):
                    self._through_quotient(above, self.product[-1])
                case Unary("neg"):
                    self._through_sign(above)
                case _:
                    raise self._stuck(above)
        if self.form == "alone":
            self._times_one()

    def _at(self, product: Path, form: Literal["alone", "times", "over"]) -> None:
        self.form = form
        self.path = product if form == "alone" else (*product, 0 if form == "times" else 1)

    def _times_one(self) -> None:
        self.work.rewrite("mul_one", self.path, reverse=True)
        self._at(self.path, "times")

    def _lift_guard(self, guard: Path) -> None:
        """Lift a guard above the factor: [p] · a * b → [p] · (a * b)."""
        around, side = guard[:-1], guard[-1]
        below = self.product[len(guard) + 1 :]
        match self.work.term(around):
            case Guard():
                self.work.rewrite("guard_guard", around)
                self._at((*around, 0, *below), self.form)
                return
            case Binary("mul"):
                self.work.rewrite("guard_mul_left" if side == 0 else "guard_mul_right", around)
            case Binary("div") if side == 0:
                self.work.rewrite("guard_div_left", around)
            case Unary("neg"):
                self.work.rewrite("guard_neg", around, reverse=True)
            case _:
                raise self._stuck(around)
        self._at((*around, 0, side, *below), self.form)

    def _through_product(self, above: Path, side: int) -> None:
        if self.form == "over":
            if side == 0:
                self.work.rewrite("mul_comm", above)
            self.work.rewrite("mul_div", above, reverse=True)
            if side == 0:
                self.work.rewrite("mul_comm", (*above, 0))
            self._at(above, "over")
            return
        if side == 1:
            self.work.rewrite("mul_comm", above)
        if self.form == "times":
            self.work.rewrite("mul_assoc", above)
            if side == 1:
                self.work.rewrite("mul_comm", (*above, 1))
        self._at(above, "times")

    def _through_quotient(self, above: Path, side: int) -> None:
        if self.form == "alone" and side == 1:
            self._at(above, "over")
            return
        if self.form == "over" or side == 1:
            raise self._stuck(above)
        if self.form == "alone":
            self._times_one()
        self.work.rewrite("mul_div", above)
        self._at(above, "times")

    def _through_sign(self, above: Path) -> None:
        if self.form == "over":
            raise self._stuck(above)
        around = above[:-1]
        outer = self.work.term(around) if above else None
        if self.form == "alone" and isinstance(outer, Binary) and outer.op == "mul":
            # -f * e is -(f * e), which avoids a factor 1.
            if above[-1] == 1:
                self.work.rewrite("mul_comm", around)
            self.work.rewrite("neg_mul", around, reverse=True)
            self._at((*around, 0, 0), "alone")
            return
        if self.form == "alone":
            self._times_one()
        self.work.rewrite("mul_comm", (*above, 0))
        self.work.rewrite("neg_mul", above)
        self.work.rewrite("mul_comm", above)
        self._at(above, "times")

    def _stuck(self, above: Path) -> DoesNotApply:
        return DoesNotApply(
            "no ring law moves this factor out of here",
            place=place_of(self.work.goal, above),
            required="a factor of a product or dividend, or the divisor of a quotient that is not itself a divisor",
        )

    # -- out of a sum -------------------------------------------------------------------------------------------------

    def next_sum(self, chosen_sums: Collection[Path] | None) -> Path | None:
        """Return the nearest sum that the factor can leave, with only sums and guards between it and the product."""
        used = free_positions(self.work.term(self.path))[0]
        at, position = _whole_product(self.work, self.path), 0
        while at:
            at = at[:-1]
            around = self.work.term(at)
            if isinstance(around, Guard):
                continue
            if not isinstance(around, Reduce) or around.monoid != "sum":
                return None
            if position not in used and (chosen_sums is None or at in chosen_sums):
                return at
            position += 1
        return None

    def leave(self, around: Path) -> None:
        """Move the factor out of a sum: Σ[p ∧ q] · f * e → [p] · f * Σ[q] · e, where p does not depend on the index.

        Sums in between are interchanged with it first.
        """
        at = self._swap_inward(around)
        self._merge_guards(at)
        guard = self.work.term((*at, 0))
        if isinstance(guard, Guard):
            parts = conjuncts(guard.predicate)
            stay = [part for part in parts if 0 in used_positions(part)]
            go = [part for part in parts if 0 not in used_positions(part)]
            inner = (*at, 0)
            if stay and go:
                self.work.rewrite("guard_guard", inner, reverse=True, p=conjunction(go), q=conjunction(stay))
                inner = (*inner, 0)
            if stay:
                self.work.rewrite("guard_mul_right" if self.form == "times" else "guard_div_left", inner, reverse=True)
            if go:
                self.work.rewrite("sum_guard", at, reverse=True)
                at = (*at, 0)
        self.work.rewrite("sum_mul_left" if self.form == "times" else "sum_div", at)
        self._at(at, self.form)

    def _swap_inward(self, around: Path) -> Path:
        """Interchange a sum with those between it and the product; return its new path."""
        at = around
        while True:
            self._merge_guards(at)
            inside = (*at, 0)
            guarded = isinstance(self.work.term(inside), Guard)
            inner = self.work.term((*inside, 0) if guarded else inside)
            if not isinstance(inner, Reduce):
                return at
            if guarded:
                self.work.rewrite("sum_guard", inside)
            outer = self.work.term(at)
            assert isinstance(outer, Reduce)
            try:
                self.work.rewrite("sum_swap", at)
            except ATLError as error:
                raise DoesNotApply(
                    f"the factor depends on the sum {inner.name}, which cannot be moved out of {outer.name}: "
                    "its bounds depend on that index",
                    place=place_of(self.work.goal, at),
                    required="sums whose bounds do not depend on each other",
                ) from error
            at = (*at, 0)

    def _merge_guards(self, around: Path) -> None:
        """Merge the guards directly inside a sum."""
        inside = (*around, 0)
        while isinstance(self.work.term(inside), Guard) and isinstance(self.work.term((*inside, 0)), Guard):
            self.work.rewrite("guard_guard", inside)
