"""Queries in text form (a layout, or an operation on layouts) and their answers as text or data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from atl.errors import InvalidArgument, brief
from atl.prove import Answer, Proved, Refuted, Unknown
from atl.text.printing import show_predicate
from layouts.axe import Axe, locations
from layouts.errors import CannotTabulate
from layouts.foundation.function import Function
from layouts.foundation.tuples import shown
from layouts.pictures import report
from layouts.pictures.parse_function import read_function, read_tiler
from layouts.proofs.injectivity import bijective, injective
from layouts.proofs.layout_of_pairs import NoneExists
from layouts.proofs.relation import Relation


@dataclass(frozen=True, slots=True)
class Query:
    """A query about layouts with its answer: a layout, or what is proved or refuted. Tilers may be tuples."""

    operation: str | None
    layouts: tuple[Function | Relation | tuple[Any, ...], ...]
    result: Function | Answer | Relation | NoneExists

    @property
    def text(self) -> str:
        """The answer in words: the steps of the operation, and a description of its result."""
        if isinstance(self.result, NoneExists):
            return str(self.result)
        if isinstance(self.result, Relation):
            function = self.result.function
            return str(self.result) if function is None else f"{self.result}\n\n{report.describe_maps(function)}"
        if not isinstance(self.result, Function):
            return report.verdict(self.result)
        text = report.describe(self.result)
        if self.operation is None:
            return text
        return f"{report.explain_operation(self.operation, self.layouts)}\n\n{text}"

    @property
    def data(self) -> dict[str, Any]:
        """The answer as JSON-compatible data."""
        made: dict[str, Any] = {"layouts": [shown(each) for each in self.layouts]}
        if self.operation is not None:
            made = {"operation": self.operation, **made}
        if isinstance(self.result, NoneExists):
            return {**made, "none exists": self.result.reason}
        if isinstance(self.result, Relation):
            return {**made, "relation": str(self.result)}
        if not isinstance(self.result, Function):
            return {**made, "answer": _answer(self.result)}
        return {**made, "result": _facts(self.result)}


def ask(words: Sequence[str], *, given: Iterable[object] = ()) -> Query:
    """Evaluate a query: `LAYOUT`, `LAYOUT OPERATION LAYOUT`, or `OPERATION LAYOUT LAYOUT`.

    The second operand of a division or composition may be a tuple of tilers, as `(4,3)` or `(2:4,8)`, mode by mode.
    `relation` takes a layout, or a relation in isl's notation, for which it finds a layout.

    >>> ask(["equal", "TileBy([2,2],[2,2]).OrderBy(Row(4,4))", "(2,2,2,2):(8,2,4,1)"]).result
    Proved(layer='table', vacuous=False)
    >>> ask(["relation", "(4,8):(8,1)"]).result, ask(["relation", "{ [i] -> [3i + floor(i/2)] : 0 <= i < 4 }"]).result
    ({ [i0, i1] -> [p = 8i0 + i1] : 0 <= i0 <= 3 and 0 <= i1 <= 7 }, (2,2):(3,7))
    >>> ask(["(4,8):(8,1)", "as_lego"]).data["result"]["layout"]
    'GroupBy([4,8]).OrderBy(RegP([4,8], [1,2]))'
    >>> ask(["(8,6):(6,1)", "zipped_divide", "(4,3)"]).result
    ((4,3),(2,2)):((6,1),(24,3))
    """
    if not isinstance(words, list | tuple) or not words:
        raise InvalidArgument(f"the query {brief(words)}", required="a layout, optionally with an operation")
    given = list(given)
    first, *rest = words
    if first in report.OPERATIONS:
        operation, texts = first, rest
    elif not rest:
        made = read_function(first, given=given)
        return Query(None, (made,), made)
    else:
        operation, texts = _operation(first, rest[0]), [first, *rest[1:]]
    if operation == "relation" and len(texts) == 1 and isinstance(texts[0], str) and "{" in texts[0]:
        relation = Relation.of(texts[0])
        return Query(None, (relation,), relation.layout())
    read = [
        read_tiler if operation in report.BY_MODE and position == 1 else read_function for position in range(len(texts))
    ]
    layouts = tuple(one(text, given=given) for one, text in zip(read, texts, strict=True))
    return Query(operation, layouts, report.apply_operation(operation, layouts))


def _operation(first: str, second: str) -> str:
    """Return the second word if it names an operation. Raises `InvalidArgument` with the word meant as one."""
    if second in report.OPERATIONS:
        return second
    meant = first if first.isidentifier() and not second.isidentifier() else second
    raise report.unknown_operation(meant)


def _answer(answer: Answer) -> dict[str, Any]:
    match answer:
        case Proved(layer):
            return {"answer": "proved", "by": layer}
        case Refuted(model):
            return {"answer": "refuted", "numbers": dict(model.numbers)}
        case Unknown(reason):
            return {"answer": "unknown", "reason": reason}


def _facts(function: Function) -> dict[str, Any]:
    made: dict[str, Any] = {"layout": str(function), "family": type(function).__name__, "size": _number(function.size)}
    if function.known.facts.predicates:
        made["given"] = [show_predicate(fact) for fact in function.known.facts.predicates]
    if isinstance(function, Axe) and function.replicates:
        size = function.table_size
        if size is None or function.symbolic() or len(function.replicas()) > report.DRAWN:
            return made
        return {
            **made,
            "locations": [
                [str(location) for location in locations(function, at)] for at in range(min(size, report.DRAWN))
            ],
        }
    made["injective"] = _answer(injective(function))
    made["onto"] = _answer(bijective(function))
    try:
        table = function.table()
    except CannotTabulate:
        return made
    return {**made, "locations": table.tolist()} if len(table) <= report.DRAWN else made


def _number(size: object) -> int | str:
    return size if isinstance(size, int) else str(size)
