"""Mutants of the prover: of facts, of ends of loops, and of linear arithmetic: no test can find them."""

from __future__ import annotations

from typing import Final

from proofs_tests.mutation.explained.reasons import ALL_POSITIONS, ANOTHER_SIGN, ONLY_TIME

_FLAT: Final = "equivalent: facts whose topics are given are flat, and the topics are those"
_NO_TERM: Final = "equivalent: an expression has no term with the coefficient 0"
_HAS_SIGN: Final = "equivalent: what has no sign has been passed over; a sign is 1 or -1"
_SAME_NUMBERS: Final = (
    "equivalent: a variable that has its number already gets it once more, and one of which nothing is said nowhere"
)
_NO_ZERO: Final = "equivalent: a row holds no column with the coefficient 0"
_DIVIDED_BY_ONE: Final = "equivalent: by 1 nothing is changed"
_ONE_SIGN: Final = "equivalent: lines with a column of one sign alone have gone before"
_ZERO_STAYS: Final = "equivalent: where the least is 0 it becomes 0"
_NEGATIVE: Final = "equivalent: that of which no least value is known stands for something negative, whatever it is"
_NO_CHOICES: Final = "equivalent: of so many atoms there are no choices of one more"
_ASKED_FOR: Final = (
    "equivalent: the one product of a row of one column is that which was asked for, and is known; a number has none"
)
_EITHER_WAY: Final = "equivalent: a product is the same the other way round, and so are the pairs that are known"

EXPLAINED: Final[dict[str, str]] = {
    "atl/prove/facts.py::_numbered::if all((variable.uid == number for number, variable in enumerat: never::0": (
        "equivalent: variables that have their numbers get them once more"
    ),
    "atl/prove/linear/elimination.py::_Lines.keep::if common > 1: always::0": _DIVIDED_BY_ONE,
    "atl/prove/linear/elimination.py::_Lines.keep::common > 1: Gt becomes GtE::0": _DIVIDED_BY_ONE,
    "atl/prove/linear/elimination.py::_Lines.keep::value > 0: Gt becomes GtE::0": _NO_ZERO,
    "atl/prove/linear/elimination.py::_Lines.keep::if other is None: always::0": (
        "equivalent: a line stands once where it stands, and the price of its columns is found out once more"
    ),
    "atl/prove/linear/elimination.py::_Lines.remove::value > 0: Gt becomes GtE::0": _NO_ZERO,
    "atl/prove/linear/elimination.py::_without_equalities::value > 0: Gt becomes GtE::0": _NO_ZERO,
    "atl/prove/linear/elimination.py::_Lines.add::1: one more::0": (
        "equivalent: each of the first rows has a bit of its own, which is the next one"
    ),
    "atl/prove/linear/elimination.py::_Lines.next_column::above and below and (price == _price(above, below)): "
    "part 0 forgotten::0": _ONE_SIGN,
    "atl/prove/linear/elimination.py::_Lines.next_column::above and below and (price == _price(above, below)): "
    "part 1 forgotten::0": _ONE_SIGN,
    "atl/prove/linear/cases.py::decide_cases::if not system.cases: never::0": ONLY_TIME,
    "atl/prove/linear/factors.py::factor::x is not None and (intervals.low.get(x, 0) > 0 or "
    "intervals.high.get(x: part 0 forgotten::0": "equivalent: where there is no factor there is no bound of it",
    "atl/prove/ends.py::_Ends._sign::1: one more::1": ANOTHER_SIGN,
    "atl/prove/ends.py::_Ends._sign::1: one more::2": ANOTHER_SIGN,
    "atl/prove/ends.py::_Ends._sign::value > 0: Gt becomes GtE::0": _NO_TERM,
    "atl/prove/ends.py::_Ends.never_negative::sign < 0: Lt becomes LtE::0": _HAS_SIGN,
    "atl/prove/ends.py::_Ends.never_negative::0: one more::1": _HAS_SIGN,
    "atl/prove/ends.py::_Ends._is_positive::0: one more::0": "equivalent: a quotient by 1 is none",
    "atl/prove/ends.py::_depth::0: one more::0": (
        "equivalent: of what is no variable only quotients vary, which are compared with each other by it"
    ),
    "atl/prove/facts.py::Facts.__post_init__::if len(self.topics) != len(self.predicates) or not self.predica: "
    "always::0": _FLAT,
    "atl/prove/facts.py::has_only_non_negative_terms::value > 0: Gt becomes GtE::0": _NO_TERM,
    "atl/prove/facts.py::_partition::if not left: never::0": (
        "equivalent: all of the facts are made anew, and equal those that were given"
    ),
    "atl/prove/facts.py::_numbered::True: negated::0": "equivalent: each of the facts has its topics",
    "atl/prove/facts.py::_with_numbers::condition one.uid != number and one in topics dropped::0": _SAME_NUMBERS,
    "atl/prove/facts.py::_with_numbers::one.uid != number and one in topics: and/or exchanged::0": _SAME_NUMBERS,
    "atl/prove/facts.py::_with_numbers::_renumbered(predicate, changed) if changed else predicate: always::0": (
        "equivalent: a predicate in which no variable gets a number is as it was"
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
    "atl/prove/linear/intervals.py::_narrow_product::0: one more::1": _ZERO_STAYS,
    "atl/prove/linear/intervals.py::_narrow_product::low < 0: Lt becomes LtE::0": _ZERO_STAYS,
    "atl/prove/linear/intervals.py::_narrow_product::0: one more::3": (
        "equivalent: where all factors are natural their product has a least value; one too large to be kept has none, "
        "and then each factor is 1 at least already"
    ),
    "atl/prove/linear/intervals.py::_narrow_product::1: one more::4": _NEGATIVE,
    "atl/prove/linear/intervals.py::propagate::False: negated::0": ONLY_TIME,
    "atl/prove/linear/intervals.py::propagate::if not intervals.changed: never::0": ONLY_TIME,
    "atl/prove/linear/intervals.py::propagate::len(monomial) > 1: Gt becomes GtE::0": (
        "equivalent: the product of one atom has the bounds that the atom has"
    ),
    "atl/prove/linear/intervals.py::Intervals.least::value > 0: Gt becomes GtE::0": _NO_ZERO,
    "atl/prove/linear/intervals.py::_narrow::value > 0: Gt becomes GtE::0": _NO_ZERO,
    "atl/prove/linear/intervals.py::_narrow::value > 0: Gt becomes GtE::1": _NO_ZERO,
    "atl/prove/linear/intervals.py::_bound_term::value > 0: Gt becomes GtE::0": _NO_ZERO,
    "atl/prove/facts.py::_with_numbers::one.uid != number and one in topics: part 0 forgotten::0": (
        "equivalent: a variable that has its number already gets it once more"
    ),
    "atl/prove/linear/factors.py::factor::0: one more::3": (
        "equivalent: that of which no greatest value is known stands for something that is not negative"
    ),
    "atl/prove/linear/factors.py::consequences::1: one more::1": _NEGATIVE,
    "atl/prove/linear/factors.py::_quotients::1: one more::0": _NEGATIVE,
    "atl/prove/linear/products.py::_divisors::monomial not in divisors and len(divisors) < MAX_DIVISORS: "
    "part 0 forgotten::0": "equivalent: divisors that are known already are found once more",
    "atl/prove/linear/products.py::_divisors::1: one more::0": _NO_CHOICES,
    "atl/prove/linear/products.py::_widen::known if len(columns) > 1 else (): always::0": _ASKED_FOR,
    "atl/prove/linear/products.py::_widen::len(columns) > 1: Gt becomes GtE::0": _ASKED_FOR,
    "atl/prove/linear/products.py::_widen::1: one more::3": _NO_CHOICES,
    "atl/prove/linear/products.py::_product::if len(a) < len(b): never::0": _EITHER_WAY,
    "atl/prove/linear/products.py::_product::if len(a) < len(b): always::0": _EITHER_WAY,
    "atl/prove/linear/products.py::_product::len(a) < len(b): Lt becomes LtE::0": _EITHER_WAY,
    "atl/prove/linear/products.py::_product::len(a) < len(b): Lt becomes GtE::0": _EITHER_WAY,
    "atl/prove/linear/rows.py::Table.row::if len(monomial) == 1: never::0": (
        "equivalent: the column of one atom is that of the product of it alone"
    ),
    "atl/prove/linear/rows.py::Table.row::self.of_atom(monomial[0]) if column is None else column: always::0": (
        "equivalent: a column that there is already is found once more"
    ),
    "atl/prove/linear/rows.py::combined::{column: x * value for column, value in a.items()} if x != 1 else dict: "
    "always::0": "equivalent: once a row is the row",
    "atl/prove/linear/rows.py::segments::not isinstance(read, Read) or read.array.between is None: "
    "part 1 forgotten::0": "equivalent: no array is None, and no element is read from it",
    "atl/prove/linear/rows.py::declared_rows::True: negated::0": (
        "equivalent: the bounds of an array, and the parts that were made of them"
    ),
    "atl/prove/linear/solver.py::refuted_by_rounding::False: negated::0": (
        "equivalent: where bounds are rounded no products are made, neither few nor many"
    ),
    "atl/prove/linear/solver.py::_Refutation._define_read::False: negated::0": ALL_POSITIONS,
    "atl/prove/linear/solver.py::_Refutation._pair_reads::True: negated::0": ALL_POSITIONS,
    "atl/prove/linear/solver.py::_Refutation._pair_in_order::step[0] > 0: Gt becomes GtE::0": (
        "equivalent: two elements at positions that are apart by 0 are one, and no pair"
    ),
    "atl/prove/linear/solver.py::_Refutation._define::True: negated::0": ONLY_TIME,
    "atl/prove/linear/solver.py::_Refutation.entails::if not any(row): never::0": (
        "equivalent: a negative number follows only where the facts contradict each other, which is seen anyway"
    ),
    "atl/prove/linear/solver.py::_Refutation.entails::0: one more::1": (
        "equivalent: it is of a row without terms, which is 0, and 1 is natural as 0 is"
    ),
}
