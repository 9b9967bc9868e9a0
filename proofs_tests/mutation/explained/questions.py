"""Mutants of the prover: of questions, of what is reduced and searched before them, of z3: no test can find them."""

from __future__ import annotations

from typing import Final

from proofs_tests.mutation.explained.reasons import ALL_POSITIONS, MEMO, ONLY_TIME

_SETTLED: Final = "equivalent: what is settled is left out by the other of two questions too"
_NO_MULTIPLE: Final = "equivalent: a quotient that holds no multiple of its divisor is written as it was"
_SLOPE: Final = "equivalent: by then it is not 0"
_ONE_POSITION: Final = "equivalent: at one position there is one element"

EXPLAINED: Final[dict[str, str]] = {
    "atl/prove/prover.py::_Query.answer::if any((not case for case in whole.cases)): never::0": (
        "equivalent: a case without an alternative is a contradiction for the next layer too"
    ),
    "atl/prove/prover.py::_Query.answer::None if self.thorough else search(table, whole, "
    "undefined=not _divides: never::0": "equivalent: numbers and a proof are never both found; it takes time",
    "atl/prove/prover.py::_Query.answer::if simpler == TRUE: never::0": (
        "equivalent: what is true has no denial, and is proved by the same layer"
    ),
    "atl/prove/prover.py::_decide::goal.identity is TRUE.identity or goal.identity in facts.known: "
    "part 0 forgotten::0": ("equivalent: what is true is a conjunction of nothing, which is proved as trivial"),
    "atl/prove/prover.py::_Query.answer::if samples is None: always::0": (
        "equivalent: the numbers that a quick question was tried with, by the same seed, fail again"
    ),
    "atl/prove/prover.py::_Query._divided_out::if not any(map(_may_be_divided_out, (*facts, denied))): never::0": (
        _NO_MULTIPLE
    ),
    "atl/prove/reduction.py::_quotient::b.constant is None and (not can_prove(less(ZERO, b))): part 0 forgotten::0": (
        "equivalent: of a positive number it is shown"
    ),
    "atl/prove/reduction.py::_simplified::if not _compound(expression): never::0": ONLY_TIME,
    "atl/prove/reduction.py::_simplified_atom::if found is None: always::0": MEMO,
    "atl/prove/search.py::_plan::others.remove(column): left out::0": _SETTLED,
    "atl/prove/search.py::_plan::column in plan.ready or not _depends_only(table, column, plan.ready): "
    "part 0 forgotten::0": _SETTLED,
    "atl/prove/smt.py::_Translation.inside::False: negated::0": ALL_POSITIONS,
    "atl/prove/smt.py::_Translation.add_pairs::True: negated::0": ALL_POSITIONS,
    "atl/prove/smt.py::_Translation.add_pairs::0: one more::3": _ONE_POSITION,
    "atl/prove/prover.py::_variables::condition isinstance(atom, Var) dropped::0": (
        "equivalent: only variables are looked up among them"
    ),
    "atl/prove/prover.py::_Query.answer::None if self.thorough else search(table, whole, "
    "undefined=not _divides: always::0": "equivalent: numbers and a proof are never both found; it takes time",
    "atl/prove/prover.py::_Query._divided_out::if not positive: never::0": (
        "equivalent: without a divisor that is positive nothing is taken out, and all is written as it was"
    ),
    "atl/prove/prover.py::_Query._divided_out::if not _may_be_divided_out(predicate): never::0": _NO_MULTIPLE,
    "atl/prove/prover.py::_inconsistent::if found is None: always::0": MEMO,
    "atl/prove/prover.py::_solvable::coefficient > 0: Gt becomes GtE::0": (
        "equivalent: it is 1 or -1, as of everything that is solved for"
    ),
    "atl/prove/relevance.py::relevant::if len(facts.predicates) < MIN_FACTS: never::0": (
        "equivalent: of fewer facts no more are left out; it takes time"
    ),
    "atl/prove/search.py::Search._choose::slope > 0: Gt becomes GtE::0": _SLOPE,
    "atl/prove/search.py::Search._choose::slope < 0: Lt becomes LtE::0": _SLOPE,
    "atl/prove/search.py::Search._choose::0: one more::3": _SLOPE,
    "atl/prove/search.py::Search._range::True: negated::0": (
        "equivalent: the bounds of an array, and the parts that were made of them"
    ),
    "atl/prove/search.py::Search._inside::False: negated::0": ALL_POSITIONS,
    "atl/prove/search.py::Search._between_neighbours::other[-1] < position[-1]: Lt becomes LtE::0": (
        "equivalent: of a position that is known already no element is chosen"
    ),
    "atl/prove/simplify.py::simplify_predicate::if simpler == FALSE: never::0": (
        "equivalent: a conjunction is false where a part is; it takes time"
    ),
    "atl/prove/simplify.py::simplify_predicate::if simpler == TRUE: never::0": (
        "equivalent: a disjunction is true where a part is; it takes time"
    ),
    "atl/prove/smt.py::_Translation.add_pairs::steps[-1] > 0: Gt becomes GtE::0": _ONE_POSITION,
    "atl/prove/smt.py::_Translation.add_pairs::steps[-1] < 0: Lt becomes LtE::0": _ONE_POSITION,
    "atl/prove/reduction.py::_quotient::1: one more::1": (
        "equivalent: only a number of one bit has none in common with the number two below it; by 1 all is taken out "
        "before"
    ),
    "atl/prove/reduction.py::_shared_factors::1 < size < divisor: Lt 1 becomes LtE::0": (
        "equivalent: terms that the whole divisor divides have been taken out before"
    ),
}
