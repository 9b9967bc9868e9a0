"""Mutants of the prover: of bits, bounds, cases and elements, and of its answers: no test can find them."""

from __future__ import annotations

from typing import Final

from proofs_tests.mutation.explained.reasons import ALL_POSITIONS, ANOTHER_SIGN, MEMO

_NO_WEIGHT: Final = "equivalent: there are no weights of 0, and they would add nothing"
_NO_FACTOR: Final = "equivalent: no term has the factor 0"
_LOWEST_BIT: Final = "equivalent: x | -x is less 0 by the lowest bit of x, so that its bits are as many"
_A_SIGN: Final = "equivalent: it is asked where the sign is not 0"
_BY_ONE: Final = "equivalent: a quotient by 1 is none"
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
    "atl/prove/cases.py::split_remainders::_WHOLE + variable.uid: another operation::0": (
        "equivalent: it is another number that no variable has"
    ),
    "atl/prove/bits.py::by_bits::if value.weights: always::0": (
        "equivalent: where there are no weights none is reduced, and none taken together"
    ),
    "atl/prove/bits.py::_string::1: one more::2": (
        "equivalent: without bits the length is that of the number, or of what stands above, which is 0 at least"
    ),
    "atl/prove/bits.py::_Reading.folded::condition len(form) == 1 dropped::0": (
        "equivalent: of a variable none of whose bits stands by itself the highest has no weight"
    ),
    "atl/prove/bits.py::_string::weight < 0: Lt becomes LtE::0": _NO_WEIGHT,
    "atl/prove/bounds.py::_Elimination._element::False: negated::0": ALL_POSITIONS,
    "atl/prove/bounds.py::_Elimination._sign::1: one more::0": ANOTHER_SIGN,
    "atl/prove/cases.py::_least::condition len(monomial) == 1 dropped::0": _ONE_LEAF,
    "atl/prove/cases.py::_least::isinstance(fact, NonNegative) and len(fact.expression.terms) <= 2: "
    "part 1 forgotten::0": _ONE_LEAF,
    "atl/prove/cases.py::_least::2: one more::0": "equivalent: of three terms, two are left: no number",
    "atl/prove/elements.py::_realisable::False: negated::0": ALL_POSITIONS,
    "atl/prove/bits.py::_power::divisor > 1: Gt becomes GtE::0": "equivalent: 1 has one bit, and takes none off",
    "atl/prove/bits.py::_power::1: one more::1": ("equivalent: from 2 on, d & (d - 2) is 0 where d & (d - 1) is"),
    "atl/prove/bits.py::_Reading.__post_init__::0: one more::0": (
        "equivalent: a question that is read has a quotient or an exclusive or of one bit at least"
    ),
    "atl/prove/bits.py::_Reading._atom::if found is None: always::0": MEMO,
    "atl/prove/bits.py::_extents::0: one more::0": "equivalent: without a leaf the factor is not looked at",
    "atl/prove/bits.py::_string::0: one more::0": _NO_WEIGHT,
    "atl/prove/bits.py::_string::factor & -factor: another operation::0": _LOWEST_BIT,
    "atl/prove/bits.py::_equal_bits::factor & -factor: another operation::0": _LOWEST_BIT,
    "atl/prove/bits.py::_equal_bits::weight > 0: Gt becomes LtE::0": (
        "equivalent: the two sides of an equality exchanged say the same"
    ),
    "atl/prove/bits.py::_equal_bits::1: one more::3": (
        "equivalent: where no bit stands on either side, nothing lies below and no pair of bits is given"
    ),
    "atl/prove/bounds.py::_Elimination.extreme::if self.absent(expression): never::0": (
        "equivalent: what does not hold the variable is the coefficient of nothing, and its own bound"
    ),
    "atl/prove/bounds.py::_Elimination._term::sign > 0: Gt becomes GtE::0": _A_SIGN,
    "atl/prove/bounds.py::_Elimination._by_remainder::sign > 0: Gt becomes GtE::0": _A_SIGN,
    "atl/prove/bounds.py::_Elimination._sign::1: one more::1": ANOTHER_SIGN,
    "atl/prove/bounds.py::_Elimination._positive::0: one more::0": _BY_ONE,
    "atl/prove/bounds.py::_Elimination._by_remainder::times is None or not self.absent(b) or "
    "(not (sign := self._sign(times): part 1 forgotten::0": (
        "equivalent: a coefficient that does not hold the variable, and is not 0, is no multiple of a divisor that does"
    ),
    "atl/prove/cases.py::_divided::1 < (divisor := (atom.denominator.constant or 0)) <= LARGEST_DIVISOR: "
    "Lt 0 becomes LtE::0": _BY_ONE,
    "atl/prove/cases.py::_divided::0: one more::0": "equivalent: 1 is as little above 1 as 0 is",
    "atl/prove/cases.py::with_plain_limits::True: negated::0": "equivalent: one is made of each of the other",
    "atl/prove/cases.py::_plain::factor != 1 or len(monomial) != 1 or (not isinstance(monomial[0], Extr: "
    "part 0 forgotten::0": (
        "equivalent: then the maximum stands in what is left too, of which nothing is known but of leaves"
    ),
    "atl/prove/cases.py::_plain::factor < 0: Lt becomes LtE::0": _NO_FACTOR,
    "atl/prove/cases.py::_plain::0: one more::3": _NO_FACTOR,
    "atl/prove/cases.py::_plain::0 < len(possible) < len(monomial[0].choices): Lt 0 becomes LtE::0": (
        "equivalent: of two choices or more one at most is a number, and the others are meant"
    ),
}
