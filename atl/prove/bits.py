"""Decomposition of index expressions into bits: weighted sums of forms over F2.

Forms, which are sums over F2 of bits, are linearly independent over the integers, except that 1 ^ f = 1 - f. (They are
shifted and halved characters.) So the weights are a normal form: two values without rest are equal exactly if their
weights are. Parts that do not consist of bits are kept in the rest.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from typing import Final, TypeAlias, assert_never

from atl.core import index as ix
from atl.core.predicate import NonNegative, Predicate, Zero, conjuncts, expressions, non_negative, zero
from atl.prove.facts import Facts

MAX_BITS: Final = 24
"""Maximum number of bits of a variable that are considered separately."""

Bit: TypeAlias = tuple[ix.Leaf, int]
Form: TypeAlias = frozenset[Bit]
"""A sum over F2 of bits."""


@dataclass(slots=True)
class Value:
    """The sum of weight · form, plus a rest that does not consist of bits."""

    weights: dict[Form, int]
    rest: ix.Index

    def least(self) -> ix.Index:
        """Return a lower bound for all values of the bits."""
        return self.rest + sum(min(weight, 0) for weight in self.weights.values())


def by_bits(facts: Facts, goal: Predicate) -> Predicate | None:
    """Return a predicate that implies the goal under the facts, after decomposing variables into bits.

    For an equality, all weights must vanish, possibly by the facts' equations over F2. For an inequality, the bits take
    their worst values. Return None if this does not apply or gives nothing new.
    """
    if not isinstance(goal, Zero | NonNegative) or not (_contains_bits(goal) or _equates_bits(facts, goal)):
        return None
    reading = _Reading(facts, goal)
    value = reading.value(goal.expression)
    if isinstance(goal, Zero):
        if value.weights:
            value = reading.folded(_reduced(value, _relations(reading, facts)))
        return None if value.weights or value.rest == goal.expression else zero(value.rest)
    least = reading.folded(value).least()
    return None if least == goal.expression else non_negative(least)


def _contains_bits(goal: Predicate) -> bool:
    """Return True if the goal contains an exclusive or, or a quotient by a power of two."""
    return any(_power(atom) for part in expressions(goal) for atom in ix.atoms(part))


def _equates_bits(facts: Facts, goal: Predicate) -> bool:
    """Return True if the goal is an equality, and some fact is an equality with an exclusive or."""
    equalities = (fact for fact in facts.predicates if isinstance(fact, Zero)) if isinstance(goal, Zero) else ()
    return any(isinstance(atom, ix.Xor) for fact in equalities for part in expressions(fact) for atom in ix.atoms(part))


def _power(atom: ix.AnyAtom) -> int:
    """Return the number of bits that a quotient drops, or of the last part of an exclusive or (1 if not constant)."""
    if isinstance(atom, ix.Quotient):
        divisor = atom.denominator.constant or 0
        return divisor.bit_length() - 1 if divisor > 1 and not divisor & (divisor - 1) else 0
    if isinstance(atom, ix.Xor):
        return (atom.parts[-1].constant or 1).bit_length()
    return 0


def _parts(atom: ix.AnyAtom) -> tuple[ix.Index, ...]:
    return atom.parts if isinstance(atom, ix.Xor) else (atom.numerator,) if isinstance(atom, ix.Quotient) else ()


# -- expressions as bits ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Reading:
    """Reads expressions as bits. Bounded variables become bits, and other variables low bits and a quotient."""

    facts: Facts
    goal: Predicate
    extents: dict[ix.Leaf, int] = field(default_factory=dict)
    decomposed: frozenset[Hashable] = frozenset()
    bits: int = 0
    done: dict[ix.AnyAtom, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.extents = dict(_extents(self.facts))
        asked = [self.goal, *(fact for fact in self.facts.predicates if isinstance(fact, Zero))]
        found = [atom for each in asked for part in expressions(each) for atom in ix.atoms(part) if _power(atom)]
        self.decomposed = frozenset(leaf for atom in found for part in _parts(atom) for leaf in ix.atoms(part))
        largest = max(self.extents.values(), default=0)
        self.bits = min(max([*map(_power, found), largest]), MAX_BITS)

    def value(self, expression: ix.Index) -> Value:
        weights: dict[Form, int] = {}
        rest: list[tuple[int, ix.Index]] = []
        for monomial, coefficient in expression.terms:
            if len(monomial) != 1:
                rest.append((coefficient, ix.polynomial({monomial: 1})))
                continue
            part = self._atom(monomial[0])
            rest.append((coefficient, part.rest))
            _accumulate(weights, ((form, coefficient * weight) for form, weight in part.weights.items()))
        return Value(weights, ix.linear(rest))

    def _atom(self, atom: ix.AnyAtom) -> Value:
        found = self.done.get(atom)
        if found is None:
            found = self.done[atom] = self._new(atom)
        return found

    def _new(self, atom: ix.AnyAtom) -> Value:
        match atom:
            case ix.Size() | ix.Bound() | ix.Var():
                known = self.extents.get(atom)
                if known is None and atom not in self.decomposed:
                    return Value({}, ix.index(atom))
                count = self.bits if known is None else known
                high = ix.floordiv(ix.index(atom), ix.constant(1 << count)) if known is None else ix.ZERO
                return Value({frozenset([(atom, k)]): 1 << k for k in range(count)}, high * (1 << count))
            case ix.Quotient(numerator, _):
                bits = _power(atom)
                out = None if not bits else _shifted(self.value(numerator), bits)
                return out or Value({}, ix.index(atom))
            case ix.Xor(parts):
                return self._exclusive_or(parts) or Value({}, ix.index(atom))
            case ix.Extremum() | ix.Read():
                return Value({}, ix.index(atom))
        assert_never(atom)

    def folded(self, value: Value) -> Value:
        """Recombine the bits of a variable that occur with consecutive weights into a quotient of the variable."""
        weights, rest = dict(value.weights), value.rest
        for leaf in dict.fromkeys(bit[0] for form in value.weights if len(form) == 1 for bit in form):
            known = self.extents.get(leaf)
            count = self.bits if known is None else known
            alone = [weights.get(frozenset([(leaf, k)]), 0) for k in range(count)]
            top = alone[-1]
            high = ix.Quotient(ix.index(leaf), ix.constant(1 << count))
            above = next((factor for monomial, factor in rest.terms if monomial == (high,)), 0)
            if not top or (known is None and above != 2 * top):
                continue
            first = next((k for k in reversed(range(count)) if alone[k] << (count - 1 - k) != top), -1) + 1
            whole = ix.floordiv(ix.index(leaf), ix.constant(1 << first)) * alone[first]
            rest = rest - ix.index(high) * above + whole
            for k in range(first, count):
                del weights[frozenset([(leaf, k)])]
        return Value(weights, rest)

    def _exclusive_or(self, parts: Sequence[ix.Index]) -> Value | None:
        strings = [_string(self.value(part)) for part in parts]
        known = [each for each in strings if each is not None]
        if len(known) < len(parts):
            return None
        length = max(len(each.bits) for each in known)
        if any(each.high != ix.ZERO and len(each.bits) < length for each in known):
            return None
        weights: dict[Form, int] = {}
        offset = 0
        for k in range(length):
            at = [each.bits[k] for each in known if k < len(each.bits)]
            form = reduce(xor, (form for form, _ in at))
            odd = sum(one for _, one in at) % 2
            offset += odd << k
            _accumulate(weights, [(form, (-1 if odd else 1) << k)])
        high = ix.exclusive_or(*(each.high for each in known))
        return Value(weights, high * (1 << length) + offset)


def _accumulate(weights: dict[Form, int], more: Iterable[tuple[Form, int]]) -> None:
    for form, weight in more:
        total = weights.get(form, 0) + weight
        if total and form:
            weights[form] = total
        else:
            weights.pop(form, None)


def _extents(facts: Facts) -> Iterator[tuple[ix.Leaf, int]]:
    """Yield the non-negative leaves with a constant upper bound, and the bit length of this bound."""
    most: dict[ix.Leaf, int] = {}
    non_negative_leaves: set[ix.Leaf] = set()
    for fact in facts.predicates:
        for part in conjuncts(fact):
            if not isinstance(part, NonNegative):
                continue
            ((monomial, factor), *_) = part.expression.terms or (((), 0),)
            leaf = monomial[0] if len(monomial) == 1 else None
            if (
                not isinstance(leaf, ix.Size | ix.Bound | ix.Var)
                or (part.expression - factor * ix.index(leaf)).constant is None
            ):
                continue
            if factor == 1 and part.expression.offset <= 0:
                non_negative_leaves.add(leaf)
            elif factor == -1:
                most[leaf] = min(most.get(leaf, part.expression.offset), part.expression.offset)
    for leaf, value in most.items():
        if (leaf in non_negative_leaves or isinstance(leaf, ix.Size)) and 0 <= value < 1 << MAX_BITS:
            yield leaf, value.bit_length()


def _shifted(value: Value, bits: int) -> Value | None:
    """Return value // 2**bits, if the remaining low part is within one multiple of 2**bits."""
    step = 1 << bits
    out = {form: weight // step for form, weight in value.weights.items() if weight % step == 0}
    low = [weight for weight in value.weights.values() if weight % step]
    whole = [(monomial, factor) for monomial, factor in value.rest.terms if monomial]
    if any(factor % step for _, factor in whole):
        return None
    offset = value.rest.offset
    first = (offset + sum(min(weight, 0) for weight in low)) // step
    last = (offset + sum(max(weight, 0) for weight in low)) // step
    if first != last:
        return None
    return Value(out, ix.polynomial({monomial: factor // step for monomial, factor in whole}) + first)


@dataclass(slots=True)
class _String:
    """Bits from the lowest up, each as a form and a flag for adding 1, and the number above these bits."""

    bits: list[tuple[Form, bool]]
    high: ix.Index


def _string(value: Value) -> _String | None:
    """Return the value as a string of bits, if the weights are distinct powers of two."""
    places: dict[int, tuple[Form, bool]] = {}
    offset = value.rest.offset
    for form, weight in value.weights.items():
        place = abs(weight).bit_length() - 1
        if abs(weight) != 1 << place or place in places:
            return None
        places[place] = form, weight < 0
        offset += min(weight, 0)  # -w·f is w·(1 ^ f) - w
    above = value.rest - value.rest.offset
    length = max(places, default=-1) + 1
    if above.terms:
        least = min((factor & -factor).bit_length() - 1 for _, factor in above.terms)
        if least < length:
            return None
        length = least
    else:
        length = max(length, offset.bit_length())
    if any(offset >> place & 1 for place in places):
        return None
    bits = [places.get(k, (frozenset(), bool(offset >> k & 1))) for k in range(length)]
    high = ix.polynomial({monomial: factor >> length for monomial, factor in above.terms}) + (offset >> length)
    return _String(bits, high)


# -- equations over F2 from the facts ---------------------------------------------------------------------------------


def _relations(reading: _Reading, facts: Facts) -> dict[Bit, Form]:
    """Solve the equations over F2 that follow from equalities: each leading bit in terms of other bits."""
    solved: dict[Bit, Form] = {}
    for fact in facts.predicates:
        for part in conjuncts(fact):
            if isinstance(part, Zero):
                for relation in _equal_bits(reading.value(part.expression)):
                    _solve(solved, relation)
    return solved


def _equal_bits(value: Value) -> Iterator[Form]:
    """Yield sums over F2 that vanish because value = 0 equates two strings of bits.

    The weights must be powers of two, each at most once with either sign.
    """
    ups: dict[int, Form] = {}
    downs: dict[int, Form] = {}
    for form, weight in value.weights.items():
        side, place = (ups if weight > 0 else downs), abs(weight).bit_length() - 1
        if abs(weight) != 1 << place or place in side:
            return
        side[place] = form
    steps = [(factor & -factor).bit_length() - 1 for _, factor in value.rest.terms]
    length = max([*ups, *downs], default=-1) + 1
    if any(step < length for step in steps):
        return
    # Modulo 2^length both sides are strings of bits, which are equal bit by bit.
    for place in sorted({*ups, *downs}):
        yield ups.get(place, frozenset()) ^ downs.get(place, frozenset())


def _solve(solved: dict[Bit, Form], relation: Form) -> None:
    form = _substitute(relation, solved)
    if not form:
        return
    lead = max(form, key=_order)
    own = form - {lead}
    for bit, other in list(solved.items()):
        if lead in other:
            solved[bit] = (other - {lead}) ^ own
    solved[lead] = own


def _order(bit: Bit) -> tuple[str, int]:
    return repr(bit[0].order), bit[1]


def _substitute(form: Form, solved: dict[Bit, Form]) -> Form:
    less = form
    for bit in form:
        if bit in solved:
            less = less ^ {bit} ^ solved[bit]
    return less


def _reduced(value: Value, solved: dict[Bit, Form]) -> Value:
    weights: dict[Form, int] = {}
    for form, weight in value.weights.items():
        _accumulate(weights, [(_substitute(form, solved), weight)])
    return Value(weights, value.rest)
