"""Mutants of the checks of programs, and of what is known at a place: no test can find them."""

from __future__ import annotations

from typing import Final

from proofs_tests.mutation.explained.reasons import SAME_LENGTH

_NOTHING_BOUND: Final = "equivalent: where nothing is bound there is nothing to replace; it takes time"
_TRIVIAL: Final = "equivalent: what is asked in addition is proved at once"

EXPLAINED: Final[dict[str, str]] = {
    "atl/checks/scope.py::Scope.index::map_leaves(expression, self._leaf) if expression.loose else expression: "
    "always::0": _NOTHING_BOUND,
    "atl/checks/scope.py::Scope.predicate::predicates.substitute(predicate, self._leaf) if predicate.loose else p: "
    "always::0": _NOTHING_BOUND,
    "atl/checks/scope.py::_unique_name::Names(others).fresh(name) if name in others else name: always::0": (
        "equivalent: a name that no other variable has is fresh"
    ),
    "atl/checks/scope.py::_direct_parts::True: negated::0": SAME_LENGTH,
    "atl/checks/scope.py::_scope_of_part::for binder in part.indices: the first alone::0": (
        "equivalent: no form binds two indices over one part"
    ),
    "atl/checks/wellformed.py::check_meaning::for error in meaning_errors(program): the first alone::0": (
        "equivalent: the first error is raised"
    ),
    "atl/checks/wellformed.py::inspects_subterms::False: negated::1": (
        "equivalent: it is asked of terms with parts, and these have none"
    ),
    "atl/checks/wellformed.py::_shape_outside::if never_negative(extent): never::0": _TRIVIAL,
    "atl/checks/wellformed.py::_shape_outside::if not never_negative(opened): always::0": _TRIVIAL,
    "atl/checks/wellformed.py::_same_shape::True: negated::0": SAME_LENGTH,
    "atl/checks/wellformed.py::_same_shape::dimension >= first and a != b: part 1 forgotten::0": _TRIVIAL,
}
