"""Whether every truncation of a program cuts only padding (TRUNCRPAD and TRUNCLPAD of §5.5.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atl.definitions import kept
from atl.errors import UnsafeTruncation
from atl.index import index
from atl.predicate import FALSE, Predicate, conjunction, negation
from atl.program import Program
from atl.prove import Answer, Facts, Proved, Refuted, Unknown, prove
from atl.scope import Scope, outermost
from atl.substitution import map_op
from atl.terms import Expr, Reshape, TruncateLeft, TruncateRight
from atl.wellformed import Path, places
from padtypes.padset import Case, PadSet, pad_set


@dataclass(frozen=True, slots=True)
class Truncation:
    """A truncation of a program: its path, how many elements of how many it drops, and its operand's pad-set."""

    path: Path
    op: TruncateLeft | TruncateRight
    operand: PadSet

    @property
    def cut(self) -> Predicate:
        """Of an element of the operand, that it is cut."""
        keeps = kept(self.op, self.operand.shape[0], index(self.operand.elements[0]))
        return conjunction((self.operand.within_shape, negation(keeps)))

    def facts(self, case: Case) -> Facts:
        """What is known of an element that is cut and that this case computes; it is safe when that is contradictory."""
        return self.operand.scope.facts.assume(self.cut, case.given())

    def decide(self, case: Case) -> Answer:
        return prove(self.facts(case), FALSE)


def truncations(program: Program) -> Iterator[Truncation]:
    """Every truncation of a program, from the outside in."""
    for path, at, scope in places(program.body, outermost(program)):
        found = truncation_at(at, scope, path)
        if found is not None:
            yield found


def truncation_at(e: Expr, scope: Scope, path: Path = ()) -> Truncation | None:
    """The truncation that stands at this place, if one does."""
    if isinstance(e, Reshape) and isinstance(e.op, TruncateLeft | TruncateRight):
        op = map_op(e.op, scope.index)
        assert isinstance(op, TruncateLeft | TruncateRight)
        return Truncation(path, op, pad_set(e.operand, scope))
    return None


def check(program: Program) -> None:
    """Proves that every truncation cuts only padding: lowering stores nothing to what is cut, so nothing is lost.

    Raises `UnsafeTruncation` with the truncation, the facts in scope, and sizes and indices of an element that would be
    lost; or it says that the prover gave up. Source: Fig. 5.6, PADSETTRUNCL and PADSETTRUNCR.

    >>> import atl
    >>> n, k = atl.sizes("n"), atl.sizes("k", min=1)
    >>> x = atl.tensor("x", n)
    >>> split = atl.split(k, x)
    >>> check(atl.program("there_and_back", [x], atl.truncr(atl.ceildiv(n, k) * k - n, atl.flatten(split))))
    """
    for truncation in truncations(program):
        for case in truncation.operand.cases:
            answer = truncation.decide(case)
            if not isinstance(answer, Proved):
                raise _unsafe(program, truncation, case, answer)


def _unsafe(program: Program, truncation: Truncation, case: Case, answer: Refuted | Unknown) -> UnsafeTruncation:
    from atl.printing import place_of, show_predicate

    end = "first" if isinstance(truncation.op, TruncateLeft) else "last"
    what = f"the truncation of the {end} {truncation.op.by} elements"
    place = place_of(program, truncation.path)
    known = [show_predicate(fact) for fact in truncation.operand.scope.facts.predicates]
    required = "every element that is cut to be padding" + (f"  (known here: {', '.join(known)})" if known else "")
    if isinstance(answer, Unknown):
        return UnsafeTruncation(
            f"{what} cannot be proved to cut only padding: the prover gave up ({answer.reason})",
            place=place,
            required=f"{required}: that never {show_predicate(conjunction((truncation.cut, case.given())))}",
            suggestions=(
                "guard the elements beyond the end where they are computed: atl.guard(i < n, e)",
                "state what is known of the sizes: atl.sizes(…, min=…), or atl.program(…, given=[…])",
            ),
        )
    model = answer.model
    lost = tuple(model.leaf(variable) for variable in truncation.operand.elements)
    own = {variable.name for variable in truncation.operand.elements}
    numbers = ", ".join(f"{name} = {value}" for name, value in model.numbers.items() if name not in own)
    where = lost[0] if len(lost) == 1 else lost
    return UnsafeTruncation(
        f"{what} would cut a computed element",
        place=place,
        required=required,
        numbers=f"{numbers}: the element at {where} would be lost" if numbers else f"the element at {where} would be lost",
        suggestions=(
            "guard the elements beyond the end where they are computed: atl.guard(i < n, e)",
            "drop ceildiv(n, k)*k - n elements of a tiled tensor (k - n % k is wrong where k divides n: erratum E10)",
        ),
    )
