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
    "padtypes/padset.py::PadSet._repr_latex_::self.simplified if self.cases else None: always::0": (
        "equivalent: without cases every element is padding, and that is shown by no formula either"
    ),
    "padtypes/padset.py::PadSet._repr_latex_::None if shown is None "
    "else f\"$\\\\text{{padding where }} {shown.strip('$: never::0": (
        "equivalent: there is a formula for every condition; the question is for the type checker"
    ),
    "padtypes/picture.py::_holds_at::True: negated::0": _COMPARED_BEFORE,
}
"""By the key of the mutant."""
