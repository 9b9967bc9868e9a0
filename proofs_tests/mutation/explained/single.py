"""Mutants of the prover: of bits, bounds, cases and elements, and of its answers: no test can find them."""

from __future__ import annotations

from typing import Final

from proofs_tests.mutation.explained.reasons import ALL_POSITIONS

_NO_WEIGHT: Final = "equivalent: there are no weights of 0, and they would add nothing"
_ONE_LEAF: Final = "equivalent: without a leaf by itself and a number, what is left is no number"

EXPLAINED: Final[dict[str, str]] = {
    "atl/prove/answer.py::Model.named::named.get(leaf, leaf) if isinstance(leaf, Var) else leaf: always::0": (
        "equivalent: only variables have names there"
    ),
    "atl/prove/bits.py::_power::0: one more::0": "equivalent: 1 is no divisor that takes bits off either",
    "atl/prove/bits.py::_parts::(atom.numerator,) if isinstance(atom, Quotient) else (): always::0": (
        "equivalent: it is asked of what takes bits off, which are quotients and exclusive ors"
    ),
    "atl/prove/bits.py::_equal_bits::weight > 0: Gt becomes GtE::0": _NO_WEIGHT,
    "atl/prove/bounds.py::_Elimination._term::if not varying: never::0": (
        "equivalent: a product of nothing is 1, at least and at most"
    ),
    "atl/prove/cases.py::of_remainders::_WHOLE + variable.uid: another operation::0": (
        "equivalent: it is another number that no variable has"
    ),
    "atl/prove/cases.py::_divided::1 < (atom.denominator.constant or 0) <= LARGEST_DIVISOR: Lt 0 becomes LtE::0": (
        "equivalent: a quotient by 1 is none"
    ),
    "atl/prove/cases.py::_divided::atom.denominator.constant or 1: part 1 forgotten::0": (
        "equivalent: it is a number by then; the question is for the type checker"
    ),
    "atl/prove/bits.py::by_bits::if value.weights: always::0": (
        "equivalent: where there are no weights none is reduced, and none taken together"
    ),
    "atl/prove/bits.py::_extents::monomial[0] if len(monomial) == 1 else None: always::0": (
        "equivalent: what is left of a product, or of a sum, is no number; no inequality is about a number alone"
    ),
    "atl/prove/bits.py::_string::1: one more::2": (
        "equivalent: without bits the length is that of the number, or of what stands above, which is 0 at least"
    ),
    "atl/prove/bits.py::_Reading.folded::condition len(form) == 1 dropped::0": (
        "equivalent: of a variable none of whose bits stands by itself the highest has no weight"
    ),
    "atl/prove/bits.py::_shifted::weight > 0: Gt becomes GtE::0": _NO_WEIGHT,
    "atl/prove/bits.py::_string::weight < 0: Lt becomes LtE::0": _NO_WEIGHT,
    "atl/prove/bounds.py::_Elimination._element::False: negated::0": ALL_POSITIONS,
    "atl/prove/bounds.py::_Elimination._sign::1: one more::0": "equivalent: 2 is a sign as 1 is; it is compared with 0",
    "atl/prove/cases.py::_least::condition len(monomial) == 1 dropped::0": _ONE_LEAF,
    "atl/prove/cases.py::_least::isinstance(fact, NonNegative) and len(fact.expression.terms) <= 2: "
    "part 1 forgotten::0": _ONE_LEAF,
    "atl/prove/elements.py::_stretches::end - first: another operation::0": (
        "equivalent: what has no two elements restricts nothing, and lies in no other part"
    ),
    "atl/prove/cases.py::_least::2: one more::0": "equivalent: of three terms, two are left: no number",
    "atl/prove/elements.py::_lawful::False: negated::0": ALL_POSITIONS,
}
