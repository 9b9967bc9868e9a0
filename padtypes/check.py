"""Whether every truncation of a program cuts only padding (TRUNCRPAD and TRUNCLPAD of §5.5.3)."""

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
from padtypes.padset import Case
from padtypes.picture import picture_of
from padtypes.truncations import Truncation, truncations

_GUARD = "guard the elements beyond the end where they are computed: atl.guard(i < n, e)"
_TILE = "drop ceildiv(n, k)*k - n elements of a tiled tensor (k - n % k is wrong where k divides n: erratum E10)"
READABLE = 240
"""An error shows the picture of a tensor of up to this many elements."""


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
    for _, error in unsafe_truncations(program):
        raise error


def unsafe_truncations(program: Program) -> Iterator[tuple[Path, UnsafeTruncation]]:
    """Each truncation that is not proved to cut only padding: its path, and what `check` raises for it."""
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
    required = "every element that is cut to be padding" + (f"  (known here: {', '.join(known)})" if known else "")
    if isinstance(answer, Unknown):
        return UnsafeTruncation(
            f"{what} cannot be proved to cut only padding: the prover gave up ({answer.reason})",
            place=place,
            required=f"{required}: that never {show_predicate(conjunction((truncation.cut, case.given())))}",
            suggestions=(
                _GUARD,
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
    """The operand at the numbers of the counterexample, where that is small enough to be read."""
    count = 1
    for extent in truncation.operand.shape:
        count *= model.value(extent)
    if count > READABLE:
        return None
    try:
        return str(picture_of(truncation.operand, model.leaf, model.element, cut=truncation.cut))
    except (ATLError, ZeroDivisionError):
        return None
