"""Mutants that no test can find, or that nobody needs to: each with the reason."""

from __future__ import annotations

from typing import Final

_CHECKED_AGAIN: Final = (
    "equivalent: a term whose part has the type that it had is looked at once more, and passes again"
)
_COMPARED_BEFORE: Final = "equivalent: what is zipped has been compared in length just before"
_NO_ARGUMENT: Final = "equivalent: what is nested so deeply is no argument either; the limit keeps it from being read"
_MEMO: Final = "equivalent: what is remembered is found out again, and is the same"
_SAME_LENGTH: Final = "equivalent: both were made of the same lines"
_ONE_HASH: Final = "equivalent: links are compared where the hashes of entries agree; then they are to one entry"
_SEEN_TO: Final = (
    "equivalent: a let above is rebuilt with the type of its new value, and the tensors of the new part are looked at "
    "before; what comes in is asked the same by another call, which is tested"
)
_BUILT: Final = "equivalent: what just fits is built at once, and is not refused"
_NO_WEIGHT: Final = "equivalent: there are no weights of 0, and they would add nothing"
_ONE_LEAF: Final = "equivalent: without a leaf by itself and a number, what is left is no number"
_FLAT: Final = "equivalent: facts whose topics are given are flat, and the topics are those"
_NO_ZERO: Final = "equivalent: a row holds no column with the coefficient 0"
_DIVIDED_BY_ONE: Final = "equivalent: by 1 nothing is changed"
_ALL_POSITIONS: Final = "equivalent: an element is read at as many positions as its array has dimensions"
_SETTLED: Final = "equivalent: what is settled is left out by the other of two questions too"
_ONLY_TIME: Final = "equivalent: nothing would be found there; it takes time"
_NO_MULTIPLE: Final = "equivalent: a quotient that holds no multiple of its divisor is written as it was"

EXPLAINED: Final[dict[str, str]] = {
    "rewrites/kernel.py::reflexivity::(made,) if is_predicate(made) else (): always::0": (
        "equivalent: what is admitted as a condition is a predicate; the question is for the type checker"
    ),
    "rewrites/kernel.py::_put::if changed: always::0": _CHECKED_AGAIN,
    "rewrites/kernel.py::_put::if changed or looks_below(rebuilt.term): always::0": _CHECKED_AGAIN,
    "rewrites/kernel.py::_put::if changed: never::0": _SEEN_TO,
    "rewrites/kernel.py::_put::_check_bound_types(rule, rebuilt.term): left out::0": _SEEN_TO,
    "rewrites/kernel.py::_same_type::True: negated::0": _COMPARED_BEFORE,
    "rewrites/kernel.py::Theorem.rhs::self._changed and self._at is not None: part 1 forgotten::0": (
        "equivalent: what has changed has a place; the question is for the type checker"
    ),
    "rewrites/kernel.py::reflexivity::0: one more::1": "equivalent: a condition speaks of no tensor of a let",
    "atl/checks/zipper.py::Zipper.scope::object.__setattr__(at, 'known', scope): left out::0": _MEMO,
    "atl/checks/zipper.py::Zipper.up::if parts[self.path[-1]] is self.term: never::0": (
        "equivalent: a term with the parts that it had is the same one"
    ),
    "atl/checks/zipper.py::Zipper.to::len(at.path) > common and at.above is not None: part 1 forgotten::0": (
        "equivalent: a place with a path has one above; the question is for the type checker"
    ),
    "atl/checks/zipper.py::Zipper.fits::len(self.path) + self.term.depth <= MAX_DEPTH: LtE becomes Lt::0": _BUILT,
    "atl/checks/zipper.py::Zipper.fits::self.size <= MAX_SIZE: LtE becomes Lt::0": _BUILT,
    "rewrites/admission.py::is_of::True: negated::0": _COMPARED_BEFORE,
    "padtypes/padset.py::PadSet._repr_latex_::self.simplified if self.cases else None: always::0": (
        "equivalent: without cases every element is padding, and that is shown by no formula either"
    ),
    "padtypes/padset.py::PadSet._repr_latex_::None if shown is None "
    "else f\"$\\\\text{{padding where }} {shown.strip('$: never::0": (
        "equivalent: there is a formula for every condition; the question is for the type checker"
    ),
    "padtypes/picture.py::_holds_at::True: negated::0": _COMPARED_BEFORE,
    "rewrites/certificates/certificate.py::_arguments::True: negated::0": _SAME_LENGTH,
    "rewrites/certificates/certificate.py::_replayed_from::True: negated::0": _SAME_LENGTH,
    "rewrites/certificates/certificate.py::dumps::True: negated::0": _SAME_LENGTH,
    "rewrites/certificates/certificate.py::_check_assumptions::tuple(stated) != start.assumptions or not all("
    "(isinstance(text, str) f: part 1 forgotten::0": (
        "equivalent: what Python writes of a number, a list or an object of JSON is no condition"
    ),
    "rewrites/certificates/certificate.py::_object::if '\\\\ud' in text.lower(): always::0": (
        "equivalent: of text without half a pair of surrogates nothing is refused there; it takes time"
    ),
    "rewrites/certificates/certificate.py::load::1: one more::0": (
        "equivalent: one byte more is read of a file that is refused for its length"
    ),
    "rewrites/certificates/digests.py::Digests._of_identity::if found is None: always::0": _MEMO,
    "rewrites/certificates/term_json.py::Writer._link::if known is None: always::0": _MEMO,
    "rewrites/certificates/term_json.py::_Link.__eq__::isinstance(other, _Link) and "
    "other.number == self.number: and/or exchanged::0": _ONE_HASH,
    "rewrites/certificates/term_json.py::_Link.__eq__::isinstance(other, _Link) and "
    "other.number == self.number: part 0 forgotten::0": _ONE_HASH,
    "rewrites/certificates/term_json.py::_Link.__eq__::isinstance(other, _Link) and "
    "other.number == self.number: part 1 forgotten::0": _ONE_HASH,
    "rewrites/certificates/term_json.py::argument_in::depth_of(data) > DEEPEST: Gt becomes GtE::0": _NO_ARGUMENT,
    "rewrites/certificates/term_json.py::argument_in::not isinstance(data, list) or not data or "
    "depth_of(data) > DEEPEST: part 2 forgotten::0": _NO_ARGUMENT,
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
    "atl/prove/bounds.py::_Elimination._element::False: negated::0": _ALL_POSITIONS,
    "atl/prove/bounds.py::_Elimination._sign::1: one more::0": "equivalent: 2 is a sign as 1 is; it is compared with 0",
    "atl/prove/cases.py::_least::condition len(monomial) == 1 dropped::0": _ONE_LEAF,
    "atl/prove/cases.py::_least::isinstance(fact, NonNegative) and len(fact.expression.terms) <= 2: "
    "part 1 forgotten::0": _ONE_LEAF,
    "atl/prove/elements.py::_stretches::end - first: another operation::0": (
        "equivalent: what has no two elements restricts nothing, and lies in no other part"
    ),
    "atl/prove/cases.py::_least::2: one more::0": "equivalent: of three terms, two are left: no number",
    "atl/prove/elements.py::_lawful::False: negated::0": _ALL_POSITIONS,
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
    "atl/prove/linear/intervals.py::propagate::False: negated::0": _ONLY_TIME,
    "atl/prove/facts.py::_with_numbers::one.uid != number and one in topics: part 0 forgotten::0": (
        "equivalent: a variable that has its number already gets it once more"
    ),
    "atl/prove/linear/factors.py::consequences::1: one more::1": (
        "equivalent: that of which no least value is known stands for something negative, whatever it is"
    ),
    "atl/prove/linear/products.py::products::if not pairs: never::0": _ONLY_TIME,
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
    "atl/prove/linear/solver.py::_Refutation._in_one_segment::if not ends: never::0": _ONLY_TIME,
    "atl/prove/linear/solver.py::_Refutation._defined::1: one more::1": (
        "equivalent: 2 is a sign as 1 is; it is compared with 0"
    ),
    "atl/prove/linear/solver.py::_Refutation._defined::True: negated::0": _ONLY_TIME,
    "atl/prove/linear/solver.py::_Refutation._pair_reads::not isinstance(left, Read) or not isinstance(right, Read): "
    "part 1 forgotten::0": "equivalent: what is paired is read; the question is for the type checker",
    "atl/prove/linear/solver.py::_Refutation._pair_reads::order is not None and a in state.within and "
    "(b in state.within) and (n: part 0 forgotten::0": "equivalent: it is asked once more below",
    "atl/prove/linear/solver.py::_Refutation.entails::if not any(row): never::0": (
        "equivalent: a negative number follows only where the facts contradict each other, which is seen anyway"
    ),
    "atl/prove/prover.py::_Query._checked::negative or model.satisfies(self.goal) or "
    "(not lawful(self._arrays(tab: part 0 forgotten::0": (
        "equivalent: sizes are chosen from 0 on, and of one that an equality gives it is a row that it is natural"
    ),
    "atl/prove/prover.py::_Query.answer::if any((not case for case in whole.cases)): never::0": (
        "equivalent: a case without an alternative is a contradiction for the next layer too"
    ),
    "atl/prove/prover.py::_Query.answer::None if self.thorough else search(table, whole, "
    "undefined=not _divides: never::0": "equivalent: numbers and a proof are never both found; it takes time",
    "atl/prove/prover.py::_answered::if found is not None: never::0": _MEMO,
    "atl/prove/prover.py::_Query.answer::if simpler == TRUE: never::0": (
        "equivalent: what is true has no denial, and is proved by the same layer"
    ),
    "atl/prove/prover.py::_answered::asked is TRUE.identity or asked in facts.known or "
    "(isinstance(goal, No: part 0 forgotten::0": (
        "equivalent: what is true is a conjunction of nothing, which is proved as trivial"
    ),
    "atl/prove/prover.py::_Query.answer::if samples is None: always::0": (
        "equivalent: the numbers that a quick question was tried with, by the same seed, fail again"
    ),
    "atl/prove/prover.py::_Query._divided_out::if not any(map(_may_be_divided_out, (*facts, denied))): never::0": (
        _NO_MULTIPLE
    ),
    "atl/prove/prover.py::_holds_multiple::False: negated::0": _NO_MULTIPLE,
    "atl/prove/reduction.py::_quotient::b.constant is None and (not shown(less(ZERO, b))): part 0 forgotten::0": (
        "equivalent: of a positive number it is shown"
    ),
    "atl/prove/reduction.py::_simplified::if not _compound(expression): never::0": _ONLY_TIME,
    "atl/prove/reduction.py::_simplified_atom::if found is None: always::0": _MEMO,
    "atl/prove/search.py::_planned::others.remove(column): left out::0": _SETTLED,
    "atl/prove/search.py::_planned::column in plan.ready or not _depends_only(table, column, plan.ready): "
    "part 0 forgotten::0": _SETTLED,
    "atl/prove/smt.py::_Translation.inside::False: negated::0": _ALL_POSITIONS,
    "atl/prove/smt.py::_Translation.add_pairs::True: negated::0": _ALL_POSITIONS,
    "atl/prove/smt.py::_Translation.add_pairs::0: one more::3": "equivalent: at one position there is one element",
    "atl/prove/reduction.py::_shared_factors::1 < size < divisor: Lt 1 becomes LtE::0": (
        "equivalent: terms that the whole divisor divides have been taken out before"
    ),
}
"""By the key of the mutant."""
