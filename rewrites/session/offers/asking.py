"""The calls of a session that ask what applies, and take one of what was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from atl.errors import InvalidArgument, brief
from rewrites.cursors.targets import Target
from rewrites.derivation import Derivation
from rewrites.kernel import Theorem
from rewrites.rule import Rule
from rewrites.session.diagnosis import attach_call_site
from rewrites.session.offers.offer import Offer, Offers
from rewrites.session.offers.trying import SECONDS, offered

if TYPE_CHECKING:
    from rewrites.egraph.schedules import Choice


class Asking(Protocol):
    """What is asked: a session."""

    _rules: Mapping[str, Rule]

    @property
    def theorem(self) -> Theorem: ...

    def begin(self) -> Derivation: ...
    def record(self, text: str, work: Derivation) -> Any: ...
    def _resolved(self, value: Any) -> Any: ...


S = TypeVar("S", bound=Asking)


def applicable(self: S, at: Target | None = None, *, seconds: float = SECONDS) -> Offers:
    """What applies at a place and below it, by what it would give: usual calls of tactics, then rules.

    It prints as a numbered list, each call with what it makes of what stands there: `s.take(s.applicable()[3])`
    makes that call. Nothing is rewritten. A rule that asks for a parameter is listed with that. It computes for so
    many `seconds`, and says what it has not tried by then. Raises `DoesNotApply` where nothing is meant by `at`,
    `InvalidArgument`.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := let buf := ⊞[i < n] x[i] in ⊞[j < n] 2 * buf[j]"))
    >>> s.applicable("buf", seconds=60)[0]
    s.inline('buf')
        let buf := ⊞[i < n] x[i] in ⊞[j < n] 2 * buf[j] → ⊞[j < n] 2 * (⊞[i < n] x[i])[j]
    """
    with attach_call_site():
        return offered(self.theorem, self._rules, self._resolved(at), at, seconds=seconds)


def take(self: S, choice: Choice | Offer) -> S:
    """Rewrites the goal to a schedule that `saturate` found for it, or makes a call that `applicable` offered.

    Raises `InvalidArgument` for one of another goal, or one that asks for parameters; and what the kernel and the checks
    of safety have against it.
    """
    from rewrites.egraph.schedules import Choice

    with attach_call_site():
        if isinstance(choice, Offer):
            if choice.asks:
                raise InvalidArgument(
                    f"{choice.call} asks for {' and '.join(choice.asks)}", required="a call that says what they are",
                    suggestions=(choice.called(dict.fromkeys(choice.asks, 4)),),
                )  # fmt: skip
            taken: S = getattr(self, choice.method)(*choice.arguments, **choice.options)
            return taken
        if not isinstance(choice, Choice):
            raise InvalidArgument(
                f"{brief(choice)} is nothing to be taken",
                required="one of s.saturate().best(k=…), or of s.applicable()",
            )
        work = choice.proved(self.begin)
    made: S = self.record(f"take({choice.label})", work)
    return made
