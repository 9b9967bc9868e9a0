"""Search for the places where a rule applies, on behalf of `Session.rw`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atl.errors import ATLError, brief
from rewrites.cursors.cursor import Cursor, cursors
from rewrites.cursors.targets import Target, places, topmost
from rewrites.derivation import Derivation, Given
from rewrites.errors import DoesNotApply
from rewrites.rule import Rule
from rewrites.rule_checking.registry import status_of
from rewrites.session import display
from rewrites.session.diagnosis import RewriteRequest, explain_failure


@dataclass(frozen=True, slots=True)
class RuleSearch:
    """The arguments of `rw`: a rule with its parameters, and where to apply it."""

    rule: Rule
    reverse: bool
    given: Mapping[str, Given]
    at: Target | None
    around: Target | None
    nth: int
    every: bool
    top_down: bool

    def _places(self, work: Derivation) -> Iterator[Cursor]:
        return iter(places(work.goal, self.at, self.around, top_down=self.top_down))

    def run(self, work: Derivation) -> bool:
        """Apply the rule at the selected places; return False if it applied at none."""
        if self.every:
            return self._everywhere(work)
        left = self.nth
        for cursor in self._places(work):
            if left:
                left -= work.applies(self.rule, cursor, self.given, reverse=self.reverse)
            elif work.attempted(self.rule, cursor.path, self.given, reverse=self.reverse):
                return True
        return False

    def _everywhere(self, work: Derivation) -> bool:
        # Pass a user-defined rule as an object, because its name may be ambiguous.
        rule = self.rule if status_of(self.rule) is not None else self.rule.name
        if self.around is not None:
            # Deeper places first: a rewrite does not move anything outside of it.
            chosen = {cursor.path for cursor in self._places(work)}
            if self.top_down:
                return bool(
                    sum(
                        work.attempted(self.rule, path, self.given, reverse=self.reverse)
                        for path in sorted(chosen, key=len, reverse=True)
                    )
                )
            return bool(work.sweep([rule], reverse=self.reverse, given=self.given, where=lambda path: path in chosen))
        below = {()} if self.at is None else {cursor.path for cursor in places(work.goal, None, self.at)}
        return bool(
            sum(
                work.sweep([rule], path, reverse=self.reverse, top_down=self.top_down, given=self.given)
                for path in sorted(topmost(below))
            )
        )

    def failure(self, work: Derivation, parameters_text: str) -> ATLError:
        """Return the error for a rule that applies at none of the places. `parameters_text` are its parameters."""
        found = list(self._places(work))
        if self.nth:
            count = sum(work.applies(self.rule, cursor, self.given, reverse=self.reverse) for cursor in found)
            if count:
                times = f"{count} place{'s' if count > 1 else ''}"
                return DoesNotApply(
                    f"{self.rule.name} applies at {times} only; nth={brief(self.nth)} is out of range",
                    required=f"nth from 0 to {count - 1}",
                    suggestions=(f's.cursors("{self.rule.name}") lists them',),
                )
        restricted = " and ".join(display.written(what) for what in (self.at, self.around) if what is not None)
        request = RewriteRequest(
            work, self.rule, self.reverse, self.given, found, list(cursors(work.goal)), restricted, parameters_text
        )
        return explain_failure(request)

    def written(self, arguments: Mapping[str, Any]) -> str:
        """Return the call as Python source."""
        parts = [repr(self.rule.name)]
        parts += [f"at={display.written(self.at)}"] if self.at is not None else []
        parts += [f"around={display.written(self.around)}"] if self.around is not None else []
        parts += [f"nth={self.nth}"] if self.nth else []
        flags = (("all=True", self.every), ("reverse=True", self.reverse), ("top_down=True", self.top_down))
        parts += [flag for flag, on in flags if on]
        return f"rw({', '.join(parts)}{parameters_written(arguments)})"


def parameters_written(arguments: Mapping[str, Any]) -> str:
    """Return a rule's parameters as they follow other arguments in a call."""
    return "".join(f", {key}={display.written(value)}" for key, value in arguments.items())
