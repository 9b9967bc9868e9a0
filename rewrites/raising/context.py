"""Loop variables, and conditions that hold where a term is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from atl.core.index import Var, index
from atl.core.predicate import Predicate
from atl.core.substitution import fresh_uid
from atl.errors import ATLError
from atl.prove import Facts, proves
from atl.surface.values import IndexExpr


class Context:
    """The loop variables of a text, and the conditions that hold where a term is built."""

    def __init__(self, assumptions: Sequence[Predicate]) -> None:
        self.facts = Facts().assume(*assumptions)
        self.known: list[Any] = []
        self.symbols: dict[str, IndexExpr] = {}
        self.numbers = count(1)

    def unique(self, name: str) -> str:
        """Return a name for the variable of a loop that no other loop has."""
        return f"{name}:{next(self.numbers)}"

    def under_known(self, conditions: Sequence[Any], build: Callable[[], Any]) -> Any:
        """Build a term where these conditions hold."""
        before = len(self.known)
        self.known += conditions
        try:
            return build()
        finally:
            del self.known[before:]

    def holds(self, condition: Any) -> bool:
        """Return whether a condition is proved where the term is built."""
        try:
            return proves(self.facts.assume(*(each.node for each in self.known)), condition.node)
        except ATLError:
            return False

    def symbol(self, name: str) -> IndexExpr:
        """Return an index variable of which nothing is known, for the variable of a loop."""
        if name not in self.symbols:
            self.symbols[name] = IndexExpr(index(Var(next(fresh_uid), name.partition(":")[0])))
        return self.symbols[name]


class Symbols(dict[str, IndexExpr]):
    """The variables of loops as index variables of which nothing is known."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context

    def __missing__(self, name: str) -> IndexExpr:
        return self.context.symbol(name)
