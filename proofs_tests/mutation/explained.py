"""Mutants that no test can find, or that nobody needs to: each with the reason."""

from __future__ import annotations

from typing import Final

_CHECKED_AGAIN: Final = (
    "equivalent: a term whose part has the type that it had is looked at once more, and passes again"
)
_COMPARED_BEFORE: Final = "equivalent: what is zipped has been compared in length just before"
_SEEN_TO: Final = (
    "equivalent: a let above is rebuilt with the type of its new value, and the tensors of the new part are looked at "
    "before; what comes in is asked the same by another call, which is tested"
)

EXPLAINED: Final[dict[str, str]] = {
    "rewrites/kernel.py::reflexivity::(made,) if is_predicate(made) else (): always::0": (
        "equivalent: what is admitted as a condition is a predicate; the question is for the type checker"
    ),
    "rewrites/kernel.py::_put::if changed: always::0": _CHECKED_AGAIN,
    "rewrites/kernel.py::_put::if changed or looks_below(rebuilt.term): always::0": _CHECKED_AGAIN,
    "rewrites/kernel.py::_put::if changed: never::0": _SEEN_TO,
    "rewrites/kernel.py::_put::_check_bound_types(rule, rebuilt.term): left out::0": _SEEN_TO,
    "rewrites/kernel.py::_same_type::True: negated::0": _COMPARED_BEFORE,
    "rewrites/admission.py::is_of::True: negated::0": _COMPARED_BEFORE,
    "rewrites/admission.py::_check::if is_term(body): always::0": (
        "equivalent: what is neither an index nor a predicate is a term; the question is for the type checker"
    ),
}
"""By the key of the mutant."""
