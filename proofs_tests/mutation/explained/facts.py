"""Mutants of the prover: of facts, of ends of loops, and of linear arithmetic: no test can find them."""

from __future__ import annotations

from typing import Final

from proofs_tests.mutation.explained.reasons import ONLY_TIME

_FLAT: Final = "equivalent: facts whose topics are given are flat, and the topics are those"
_NO_ZERO: Final = "equivalent: a row holds no column with the coefficient 0"
_DIVIDED_BY_ONE: Final = "equivalent: by 1 nothing is changed"

EXPLAINED: Final[dict[str, str]] = {
    "atl/prove/ends.py::_Ends._is_natural::isinstance(atom, Size) or atom in self.digits or "
    "self.shown(NonNegativ: part 0 forgotten::0": "equivalent: that a size is natural is shown at once",
    "atl/prove/facts.py::_numbered::if all((variable.uid == number for number, variable in enumerat: never::0": (
        "equivalent: variables that have their numbers get them once more"
    ),
    "atl/prove/linear/elimination.py::_Lines.keep::if common > 1: always::0": _DIVIDED_BY_ONE,
    "atl/prove/linear/elimination.py::_Lines.keep::common > 1: Gt becomes GtE::0": _DIVIDED_BY_ONE,
    "atl/prove/linear/elimination.py::_Lines.keep::value > 0: Gt becomes GtE::0": _NO_ZERO,
    "atl/prove/linear/elimination.py::_Lines.next_column::above and below and (price == _price(above, below)): "
    "part 1 forgotten::0": "equivalent: lines with a column of one sign alone have gone before",
    "atl/prove/linear/factors.py::factor::x is not None and (intervals.low.get(x, 0) > 0 or "
    "intervals.high.get(x: part 0 forgotten::0": "equivalent: where there is no factor there is no bound of it",
    "atl/prove/ends.py::_Ends._sign::1: one more::1": "equivalent: 2 is a sign as 1 is; it is compared with 0",
    "atl/prove/facts.py::Facts.__post_init__::condition part != TRUE dropped::0": (
        "equivalent: what is true is a conjunction of nothing, and has no parts"
    ),
    "atl/prove/facts.py::Facts.__post_init__::len(self.topics) != len(self.predicates) or not self.predicates: "
    "part 1 forgotten::0": _FLAT,
    "atl/prove/facts.py::Facts.__post_init__::not self.predicates: not forgotten::0": _FLAT,
    "atl/prove/facts.py::_with_numbers::one.uid != number and one in topics: part 1 forgotten::0": (
        "equivalent: a variable of which nothing is said gets a number nowhere"
    ),
    "atl/prove/linear/cases.py::_kept::case if len(left) == len(case) else left: never::0": (
        "equivalent: the same alternatives, in another tuple"
    ),
    "atl/prove/linear/intervals.py::_narrow_product::0: one more::1": "equivalent: where the least is 0 it becomes 0",
    "atl/prove/linear/intervals.py::propagate::False: negated::0": ONLY_TIME,
    "atl/prove/facts.py::_with_numbers::one.uid != number and one in topics: part 0 forgotten::0": (
        "equivalent: a variable that has its number already gets it once more"
    ),
    "atl/prove/linear/factors.py::consequences::1: one more::1": (
        "equivalent: that of which no least value is known stands for something negative, whatever it is"
    ),
    "atl/prove/linear/products.py::products::if not pairs: never::0": ONLY_TIME,
    "atl/prove/linear/products.py::_divisors::len(monomial) > 1 and monomial not in divisors and "
    "(len(divisors) < MA: part 0 forgotten::0": "equivalent: a single atom has no divisors of degree 2",
    "atl/prove/linear/products.py::_divisors::len(monomial) > 1 and monomial not in divisors and "
    "(len(divisors) < MA: part 1 forgotten::0": "equivalent: divisors that are known already are found once more",
    "atl/prove/linear/products.py::_widen::len(columns) > 1: Gt becomes GtE::0": (
        "equivalent: the one product of a row of one column is that which was asked for, and is known"
    ),
    "atl/prove/linear/products.py::_widen::1: one more::3": (
        "equivalent: of so many atoms there are no choices of one more"
    ),
    "atl/prove/linear/products.py::_product::if len(a) < len(b): always::0": (
        "equivalent: a product is the same the other way round, and so are the pairs that are known"
    ),
    "atl/prove/linear/products.py::_product::len(a) < len(b): Lt becomes LtE::0": (
        "equivalent: a product is the same the other way round, and so are the pairs that are known"
    ),
    "atl/prove/linear/rows.py::declared_rows::True: negated::0": (
        "equivalent: the bounds of an array, and the parts that were made of them"
    ),
    "atl/prove/linear/solver.py::_Refutation._bounds::1: one more::1": (
        "equivalent: elimination divides a row by what its columns have in common"
    ),
    "atl/prove/linear/solver.py::_Refutation._in_one_segment::if not ends: never::0": ONLY_TIME,
    "atl/prove/linear/solver.py::_Refutation._defined::1: one more::1": (
        "equivalent: 2 is a sign as 1 is; it is compared with 0"
    ),
    "atl/prove/linear/solver.py::_Refutation._defined::True: negated::0": ONLY_TIME,
    "atl/prove/linear/solver.py::_Refutation._pair_reads::not isinstance(left, Read) or not isinstance(right, Read): "
    "part 1 forgotten::0": "equivalent: what is paired is read; the question is for the type checker",
    "atl/prove/linear/solver.py::_Refutation._pair_reads::order is not None and a in state.within and "
    "(b in state.within) and (n: part 0 forgotten::0": "equivalent: it is asked once more below",
    "atl/prove/linear/solver.py::_Refutation.entails::if not any(row): never::0": (
        "equivalent: a negative number follows only where the facts contradict each other, which is seen anyway"
    ),
}
