"""Mutants of rules, their statements and their arguments: no test can find them."""

from __future__ import annotations

from typing import Final

from proofs_tests.mutation.explained.reasons import SAME_LENGTH

_NOTHING_FREE: Final = "equivalent: what has no free variable, or is shifted by 0, stays the same; it takes time"
_TRUE: Final = "equivalent: what is true has no conjuncts"
_STRING: Final = "equivalent: of what shares an element type only element types are strings"
_LEFT_BEFORE: Final = "equivalent: a tensor that is not bound outside is left as it is before that is asked"

EXPLAINED: Final[dict[str, str]] = {
    "rewrites/rule.py::Statements.__getitem__::0: one more::0": "equivalent: 0 and 1 are both below the limit",
    "rewrites/instantiation.py::substituted::transform(body, on_leaf, on_tensor, untouched=unbound()): "
    "untouched not passed::0": _NOTHING_FREE,
    "rewrites/instantiation.py::lifted::if not by or not expression.loose: never::0": _NOTHING_FREE,
    "rewrites/instantiation.py::lifted::not by or not expression.loose: and/or exchanged::0": _NOTHING_FREE,
    "rewrites/instantiation.py::lifted::not by or not expression.loose: part 0 forgotten::0": _NOTHING_FREE,
    "rewrites/instantiation.py::lifted::not by or not expression.loose: part 1 forgotten::0": _NOTHING_FREE,
    "rewrites/instantiation.py::applied::True: negated::0": SAME_LENGTH,
    "rewrites/statement.py::given::condition part != TRUE dropped::0": _TRUE,
    "rewrites/stating.py::_Checked.statement::condition part != TRUE dropped::0": _TRUE,
    "rewrites/statement.py::_Instance.premises::condition part != TRUE dropped::0": _TRUE,
    "rewrites/statement.py::ranks_of::kind.sort == 'tensor' and kind.group and (found.setdefault(kind.group,: "
    "part 0 forgotten::0": "equivalent: ranks are noted of terms alone",
    "rewrites/statement.py::Variables.__init__::_BASE + position * _EACH: another operation::0": (
        "equivalent: the ids of metavariables differ as before"
    ),
    "rewrites/stating.py::_Checked._check_application::kind is None or not known or term.of != "
    "variables.types[term.name]: part 0 forgotten::0": (
        "equivalent: what has no kind is not known; the question is for the type checker"
    ),
    "rewrites/stating.py::_Checked._dtype::isinstance(root, str) and root in DTYPES: and/or exchanged::0": _STRING,
    "rewrites/stating.py::_Checked._dtype::isinstance(root, str) and root in DTYPES: part 0 forgotten::0": _STRING,
    "rewrites/stating.py::_Checked._dtype::isinstance(root, str) and root in DTYPES: part 1 forgotten::0": _STRING,
    "rewrites/statement.py::Statement.choices_of_types::True: negated::0": SAME_LENGTH,
    "rewrites/statement.py::Variables.__init__::True: negated::0": SAME_LENGTH,
    "rewrites/statement.py::Variables._tensor::True: negated::0": SAME_LENGTH,
    "rewrites/stating.py::_Checked._check_application::True: negated::0": SAME_LENGTH,
    "rewrites/statement.py::Variables.__init__::0: one more::0": (
        "equivalent: the extents of the array that stands for a condition are not looked at"
    ),
    "rewrites/statement.py::condition_variable::guard array.dtype == BOOL dropped::0": (
        "equivalent: an element of an array that stands for no condition is refused with the same words"
    ),
    "rewrites/statement.py::_Instance._dtype::of is not None and is_variable(of): part 0 forgotten::0": (
        "equivalent: every element type of a statement is known or a variable; the question is for the type checker"
    ),
    "rewrites/statement.py::_Instance._application::made if dtype is None else strengthen(made, dtype): never::0": (
        "equivalent: a literal that is given no element type stays as it is"
    ),
    "rewrites/stating.py::_Checked._join::first == second: part 1 ignored::0": (
        "equivalent: from its first application on what a function is given represents its parameter"
    ),
    "rewrites/stating.py::_Checked._index::self.variables.variable(uid) != atom: part 0 ignored::0": (
        "equivalent: the variable that is found by an id has this id"
    ),
    "rewrites/statement.py::_raised::map_leaves(expression, leaf) if by and expression.loose > own else exp: "
    "always::0": _NOTHING_FREE,
    "rewrites/statement.py::_raised::by and expression.loose > own: and/or exchanged::0": _NOTHING_FREE,
    "rewrites/statement.py::_raised::by and expression.loose > own: part 0 forgotten::0": _NOTHING_FREE,
    "rewrites/statement.py::_raised::by and expression.loose > own: part 1 forgotten::0": _NOTHING_FREE,
    "rewrites/statement.py::_raised::expression.loose > own: Gt becomes GtE::0": _NOTHING_FREE,
    "rewrites/statement.py::shift_under::if not indices and (not tensors): never::0": _NOTHING_FREE,
    "rewrites/statement.py::shift_under::isinstance(at, Local) and at.position >= own_tensors + tensor_depth: "
    "part 0 forgotten::0": _LEFT_BEFORE,
    "rewrites/statement.py::shift_under::own_tensors + tensor_depth: another operation::0": _LEFT_BEFORE,
    "rewrites/statement.py::shift_under::transform(body, on_leaf, on_tensor, untouched=unbound(own, own_tensors: "
    "untouched not passed::0": _NOTHING_FREE,
}
