"""The check that every truncation of a program cuts only padding (TRUNCRPAD and TRUNCLPAD of §5.5.3)."""

from __future__ import annotations

from collections.abc import Iterator

from atl.core.index import Quotient, atoms
from atl.core.predicate import conjunction
from atl.core.program import Program
from atl.core.terms import TruncateLeft
from atl.core.traversal import Path
from atl.errors import ATLError, UnsafeTruncation
from atl.prove import Model, Proved, Refuted, Unknown
from atl.text.printing import place_of, show_predicate
from padtypes.drawing import draw_pad_set
from padtypes.padset import Case
from padtypes.truncations import Truncation, truncations

_GUARD = "guard the computation of the elements beyond the end: atl.guard(i < n, e)"
_TILE = "drop ceildiv(n, k)*k - n elements of a tiled tensor (k - n % k is wrong where k divides n: erratum E10)"
MAX_PICTURE_ELEMENTS = 240
"""The largest number of elements of a tensor that is drawn in an error message."""


def check(program: Program) -> None:
    """Prove that every truncation cuts only padding, so that no computed element is lost.

    Lowering never stores the elements that are cut. Raises `UnsafeTruncation` with the truncation, the facts in scope,
    and the sizes and indices of a lost element, or the reason why the prover gave up. Source: Fig. 5.6, PADSETTRUNCL
    and PADSETTRUNCR.

    >>> import atl
    >>> n, k = atl.sizes("n"), atl.sizes("k", min=1)
    >>> x = atl.tensor("x", n)
    >>> split = atl.split(k, x)
    >>> check(atl.program("there_and_back", [x], atl.truncr(atl.ceildiv(n, k) * k - n, atl.flatten(split))))
    """
    for _, error in unsafe_truncations(program):
        raise error


def unsafe_truncations(program: Program) -> Iterator[tuple[Path, UnsafeTruncation]]:
    """Yield each truncation not proved to cut only padding: its path, and the error that `check` raises."""
    for truncation in truncations(program):
        for case in truncation.operand.cases:
            answer = truncation.decide(case)
            if not isinstance(answer, Proved):
                yield truncation.path, _unsafe(program, truncation, case, answer)
                break


def _unsafe(program: Program, truncation: Truncation, case: Case, answer: Refuted | Unknown) -> UnsafeTruncation:
    end = "first" if isinstance(truncation.op, TruncateLeft) else "last"
    what = f"the truncation of the {end} {truncation.op.by} elements"
    place = place_of(program, truncation.path)
    known = [show_predicate(fact) for fact in truncation.operand.scope.facts.predicates]
    required = "only padding may be cut" + (f"  (known here: {', '.join(known)})" if known else "")
    if isinstance(answer, Unknown):
        return UnsafeTruncation(
            f"{what} cannot be proved to cut only padding: the prover gave up ({answer.reason})",
            place=place,
            required=f"{required}: never {show_predicate(conjunction((truncation.cut, case.given())))}",
            suggestions=(
                _GUARD,
                "declare assumptions on the sizes: atl.sizes(…, min=…), or atl.program(…, given=[…])",
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
        numbers=f"{numbers}: the element at {where} would be lost"
        if numbers
        else f"the element at {where} would be lost",
        suggestions=(
            _GUARD,
            *((_TILE,) if any(isinstance(atom, Quotient) for atom in atoms(truncation.op.by)) else ()),
        ),
        picture=_picture(truncation, model),
    )


def _picture(truncation: Truncation, model: Model) -> str | None:
    """Draw the operand for the sizes of the counterexample; None if it is too large to read."""
    count = 1
    for extent in truncation.operand.shape:
        count *= model.value(extent)
    if count > MAX_PICTURE_ELEMENTS:
        return None
    try:
        return str(draw_pad_set(truncation.operand, model.leaf, model.element, cut=truncation.cut))
    except (ATLError, ZeroDivisionError):
        return None
