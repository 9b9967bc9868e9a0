"""Mutants of the kernel, of admission, of certificates and of pad-sets: no test can find them."""

from __future__ import annotations

from typing import Final

from proofs_tests.mutation.explained.reasons import MEMO

_CHECKED_AGAIN: Final = (
    "equivalent: a term whose part has the type that it had is looked at once more, and passes again"
)
_COMPARED_BEFORE: Final = "equivalent: what is zipped has been compared in length just before"
_NO_ARGUMENT: Final = "equivalent: what is nested so deeply is no argument either; the limit keeps it from being read"
_SAME_LENGTH: Final = "equivalent: both were made of the same lines"
_ONE_HASH: Final = "equivalent: links are compared where the hashes of entries agree; then they are to one entry"
_SEEN_TO: Final = (
    "equivalent: a let above is rebuilt with the type of its new value, and the tensors of the new part are looked at "
    "before; what comes in is asked the same by another call, which is tested"
)
_BUILT: Final = "equivalent: what just fits is built at once, and is not refused"

EXPLAINED: Final[dict[str, str]] = {
    "rewrites/kernel.py::reflexivity::(made,) if is_predicate(made) else (): always::0": (
        "equivalent: what is admitted as a condition is a predicate; the question is for the type checker"
    ),
    "rewrites/kernel.py::_replace::if changed: always::0": _CHECKED_AGAIN,
    "rewrites/kernel.py::_replace::if changed or inspects_subterms(rebuilt.term): always::0": _CHECKED_AGAIN,
    "rewrites/kernel.py::_replace::if changed: never::0": _SEEN_TO,
    "rewrites/kernel.py::_replace::_check_bound_types(rule, rebuilt.term): left out::0": _SEEN_TO,
    "rewrites/kernel.py::_same_type::True: negated::0": _COMPARED_BEFORE,
    "rewrites/kernel.py::Theorem.rhs::self._changed and self._at is not None: part 1 forgotten::0": (
        "equivalent: what has changed has a place; the question is for the type checker"
    ),
    "rewrites/kernel.py::reflexivity::0: one more::1": "equivalent: a condition speaks of no tensor of a let",
    "rewrites/kernel.py::_replace::made.term.type != at.term.type: part 0 ignored::0": (
        "equivalent: both sides of an instance have one element type, which is checked before"
    ),
    "atl/checks/zipper.py::Zipper.scope::object.__setattr__(at, 'known', scope): left out::0": MEMO,
    "atl/checks/zipper.py::Zipper.to::len(at.path) > common and at.above is not None: part 1 forgotten::0": (
        "equivalent: a place with a path has one above; the question is for the type checker"
    ),
    "atl/checks/zipper.py::Zipper.fits::len(self.path) + self.term.depth <= MAX_DEPTH: LtE becomes Lt::0": _BUILT,
    "atl/checks/zipper.py::Zipper.fits::self.size <= MAX_SIZE: LtE becomes Lt::0": _BUILT,
    "rewrites/admission.py::is_of::True: negated::0": _COMPARED_BEFORE,
    "padtypes/padset.py::PadSet.contains::True: negated::0": _COMPARED_BEFORE,
    "padtypes/padset.py::PadSet._repr_latex_::None if shown is None "
    "else f'$\\\\text{{padding where }} {shown.strip('$: never::0": (
        "equivalent: there is a formula for every condition; the question is for the type checker"
    ),
    "padtypes/drawing.py::_holds_at::True: negated::0": _COMPARED_BEFORE,
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
    "rewrites/certificates/digests.py::Digests._of_identity::if found is None: always::0": MEMO,
    "rewrites/certificates/term_json.py::Writer._link::if known is None: always::0": MEMO,
    "rewrites/certificates/term_json.py::_Link.__eq__::isinstance(other, _Link) and "
    "other.number == self.number: and/or exchanged::0": _ONE_HASH,
    "rewrites/certificates/term_json.py::_Link.__eq__::isinstance(other, _Link) and "
    "other.number == self.number: part 0 forgotten::0": _ONE_HASH,
    "rewrites/certificates/term_json.py::_Link.__eq__::isinstance(other, _Link) and "
    "other.number == self.number: part 1 forgotten::0": _ONE_HASH,
    "rewrites/certificates/term_json.py::argument_in::depth_of(data) > DEEPEST: Gt becomes GtE::0": _NO_ARGUMENT,
    "rewrites/certificates/term_json.py::argument_in::not isinstance(data, list) or not data or "
    "depth_of(data) > DEEPEST: part 2 forgotten::0": _NO_ARGUMENT,
}
