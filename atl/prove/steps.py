"""Steps of the prover before and after linear arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice, pairwise, product
from typing import Final, TypeAlias, assert_never

from atl.core import index as ix
from atl.core import predicate as pred
from atl.core.index import AnyAtom, Array, Bound, Extremum, Quotient, Read, Size, Var, Xor, atoms
from atl.core.program import AtLeast, Below, bounds_of, is_strict, order_of
from atl.prove.facts import Facts, Model
from atl.prove.rows import Budget, Row, System, Table, combined, leaves_no_rows, plus, read_predicate

# -- case splits ------------------------------------------------------------------------------------------------------


SplitCase: TypeAlias = tuple[Facts, pred.Predicate]

LARGEST_DIVISOR: Final = 4
"""Largest divisor for which each remainder becomes a case."""
_WHOLE: Final = 1 << 56


def split_alternatives(facts: Facts, goal: pred.Predicate) -> SplitCase | None:
    """Prove p or (q and r) as (q and r) under the assumption not p. None for goals of another form."""
    if not isinstance(goal, pred.Any):
        return None
    compound = [part for part in goal.parts if isinstance(part, pred.All)]
    if len(compound) != 1:
        return None
    others = [pred.negation(part) for part in goal.parts if part is not compound[0]]
    return facts.assume(*others), compound[0]


def split_remainders(facts: Facts, goal: pred.Predicate) -> list[SplitCase]:
    """Split on the remainder of a variable by a small divisor: i = d*q, i = d*q + 1, …, with a new variable q.

    The cases contain no such quotient. Return an empty list if the goal has none.
    """
    for variable, divisor in _divided(goal):
        whole = ix.index(ix.Var(_WHOLE + variable.uid, variable.name))
        return [_substituted(facts, goal, variable, whole * divisor + ix.constant(rest)) for rest in range(divisor)]
    return []


def _divided(goal: pred.Predicate) -> Iterator[tuple[ix.Var, int]]:
    """Yield (variable, divisor) for each quotient by a small number in the goal."""
    for atom in pred.atoms_of(goal):
        if isinstance(atom, ix.Quotient) and 1 < (divisor := atom.denominator.constant or 0) <= LARGEST_DIVISOR:
            for variable in dict.fromkeys(each for each in ix.atoms(atom.numerator) if isinstance(each, ix.Var)):
                factor = ix.factor_of(atom.numerator, variable)
                if factor is not None and factor.constant is not None and abs(factor.constant) == 1:
                    yield variable, divisor


def with_plain_limits(facts: Facts) -> Facts:
    """Return the facts with k < max(0, n) replaced by k < n if k >= 0."""
    least = dict(_least(facts))
    found = [_plain(fact, least) for fact in facts.predicates]
    return facts if all(new is old for new, old in zip(found, facts.predicates, strict=True)) else Facts(tuple(found))


def _least(facts: Facts) -> Iterator[tuple[ix.Monomial, int]]:
    """Yield leaves with constant lower bounds."""
    for fact in facts.predicates:
        if isinstance(fact, pred.NonNegative) and len(fact.expression.terms) <= 2:
            leaf = next((monomial[0] for monomial, _ in fact.expression.terms if len(monomial) == 1), None)
            rest = None if leaf is None else (fact.expression - ix.index(leaf)).constant
            if rest is not None and isinstance(leaf, ix.Size | ix.Bound | ix.Var):
                yield (leaf,), -rest


def _plain(fact: pred.Predicate, known: Mapping[ix.Monomial, int]) -> pred.Predicate:
    if not isinstance(fact, pred.NonNegative):
        return fact
    for monomial, factor in fact.expression.terms:
        if factor != 1 or len(monomial) != 1 or not isinstance(monomial[0], ix.Extremum) or monomial[0].kind != "max":
            continue
        rest = fact.expression - ix.index(monomial[0])
        most = [factor * known[at] for at, factor in rest.terms if factor < 0 and at in known]
        if len(most) < sum(1 for at, _ in rest.terms if at):
            continue
        reach = rest.offset + sum(most)
        possible = [choice for choice in monomial[0].choices if choice.constant is None or choice.constant + reach >= 0]
        if 0 < len(possible) < len(monomial[0].choices):
            return pred.non_negative(ix.extremum("max", *possible) + rest)
    return fact


def _substituted(facts: Facts, goal: pred.Predicate, variable: ix.Var, value: ix.Index) -> SplitCase:
    def leaf(at: ix.Leaf) -> ix.Index:
        return value if at == variable else ix.index(at)

    return Facts().assume(*(pred.substitute(fact, leaf) for fact in facts.predicates)), pred.substitute(goal, leaf)


# -- realisability of models ------------------------------------------------------------------------------------------


def realisable(arrays: Iterable[Array], model: Model) -> bool:
    """Return True if some arrays with the declared properties contain the elements of the model, and all its
    out-of-bounds elements are zero.

    Raise `ZeroDivisionError` if a declaration divides by a number that is not positive.
    """
    return all(_realisable(array, model) for array in {array.name: array for array in arrays}.values())


def _realisable(array: Array, model: Model) -> bool:
    shape = [model.value(extent) for extent in array.shape]
    inside: list[tuple[tuple[int, ...], int]] = []
    for name, position, value in model.elements:
        if name != array.name:
            continue
        if all(0 <= k < extent for k, extent in zip(position, shape, strict=False)):
            inside.append((position, value))
        elif value:
            return False
    if any(extent <= 0 for extent in shape):
        return True
    low = high = None
    for fact in bounds_of(array):
        match fact:
            case AtLeast(bound):
                low = model.value(bound)
            case Below(bound):
                high = model.value(bound)
            case _:
                assert_never(fact)
    if low is not None and high is not None and high <= low:
        return False
    if any((low is not None and value < low) or (high is not None and value >= high) for _, value in inside):
        return False
    if array.after is not None:
        return _continues(array, {position[0]: value for position, value in inside}, model, low, high)
    order = order_of(array)
    if order is None or not shape:
        return True
    rows: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for position, value in inside:
        rows.setdefault(position[:-1], []).append((position[-1], value))
    segments = [(0, shape[-1])] if order.between is None else _segments(order.between, shape[-1], model)
    # Elements that are not in the model must fit before, between and behind those that are.
    return all(
        _fits([each for each in row if first <= each[0] < end], (first, end), low, high, step=int(order.strict))
        for row in (*rows.values(), [])
        for first, end in segments
    )


def _continues(array: Array, known: Mapping[int, int], model: Model, low: int | None, high: int | None) -> bool:
    """Return True if an array that is ordered after others can have these elements; False if that is not certain.

    Positions without elements may continue the row of the tuple before them, or of the first one.
    """
    extent = model.value(array.shape[0])
    step = int(is_strict(array))
    span = None if low is None or high is None else high - low
    if not known:
        return not step or span is None or span >= extent
    rows: dict[int, tuple[int, ...]] = {}
    leading = [each.name for each in array.leading]
    held = {(name, at[0]): value for name, at, value in model.elements if name in leading and 0 <= at[0] < extent}
    if set(held) != {(name, p) for name in leading for p in known}:
        return False
    for p in sorted(known):
        rows[p] = tuple(held[name, p] for name in leading)
    first, last = min(known), max(known)
    before = low is None or known[first] - low >= step * first
    behind = high is None or high - 1 - known[last] >= step * (extent - 1 - last)
    return (
        before
        and behind
        and all(
            known[q] - known[p] >= step * (q - p)
            if rows[p] == rows[q]
            else rows[p] < rows[q] and (high is None or high - 1 - known[p] >= step * (q - p - 1))
            for p, q in pairwise(rows)
        )
    )


def _segments(between: Array, extent: int, model: Model) -> list[tuple[int, int]]:
    """Return the parts of a row that are ordered. A boundary that the model does not contain equals the previous one.

    If `between` is strictly ordered, boundaries cannot repeat: then the whole row is ordered, which is stronger.
    """
    count = model.value(between.shape[0])
    known = sorted((at[0], value) for name, at, value in model.elements if name == between.name and 0 <= at[0] < count)
    if len(known) < count and is_strict(between):
        return [(0, extent)]
    found: list[tuple[int, int]] = []
    for first, end in sorted((max(a, 0), min(b, extent)) for (_, a), (_, b) in pairwise(known)):
        if found and first < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((first, end))
    return found


def _fits(
    row: Sequence[tuple[int, int]], part: tuple[int, int], low: int | None, high: int | None, *, step: int
) -> bool:
    """Return True if part of a row, ordered with at least this step, can have these (position, value) pairs."""
    begin, end = part
    if low is not None and high is not None and high - low <= step * (end - begin - 1):
        return False
    if not row:
        return True
    (first, least), (last, greatest) = row[0], row[-1]
    if low is not None and least < low + step * (first - begin):
        return False
    if high is not None and greatest >= high - step * (end - 1 - last):
        return False
    return all(after - before >= step * (at - position) for (position, before), (at, after) in pairwise(row))


# -- bounds of nonlinear expressions ----------------------------------------------------------------------------------
# In s0*s1*s2 - 1 - (i*s1*s2 + j*s2 + k) the coefficient of i is negative, so the minimum is at i = s0 - 1. Then j and k
# follow, and 0 remains. Linear arithmetic would need a product of hypotheses for each variable. A variable inside a
# quotient is first split into digits: i = K*(i // K) + r with 0 <= r < K, with i // K as a new variable.


MAX_SUBSTITUTIONS: Final = 40
"""Maximum number of substitutions of variables by ends."""
MAX_TERMS: Final = 60
FIRST_DIGIT: Final = -(1 << 40)
"""First id of the variables for digits; other variables do not have such ids."""


def is_least_at_ends(facts: Facts, expression: ix.Index, can_prove: Callable[[pred.Predicate], bool]) -> bool:
    """Return True if the expression is proved non-negative; `can_prove` answers simple queries under the facts."""
    search = _Ends(facts, cache(can_prove))
    return search.never_negative(search.in_digits(expression), frozenset())


@dataclass(slots=True)
class _Ends:
    facts: Facts
    can_prove: Callable[[pred.Predicate], bool]
    digits: dict[ix.AnyAtom, ix.Index] = field(default_factory=dict)
    """Variables for remainders, with their divisors."""
    left: int = MAX_SUBSTITUTIONS

    def never_negative(self, e: ix.Index, done: frozenset[ix.AnyAtom]) -> bool:
        """Return True if the expression is proved non-negative after replacing the variables not in `done`."""
        if self._sign(e) > 0:
            return True
        if all(len(monomial) < 2 for monomial, _ in e.terms):
            return self.can_prove(pred.NonNegative(e))
        if len(e.terms) > MAX_TERMS:
            return False
        for variable in self._variables(e):
            multiple, rest = _collected(e, variable)
            if multiple is None or not (sign := self._sign(multiple)):
                continue
            eliminated = done | {variable}
            for end in self._ends(variable, up=sign < 0):
                self.left -= 1
                if self.left < 0:
                    return False
                if eliminated.isdisjoint(ix.atoms(end)) and self.never_negative(rest + multiple * end, eliminated):
                    return True
            return False
        return False

    def _variables(self, e: ix.Index) -> list[ix.AnyAtom]:
        """Return the atoms with ranges, innermost first, as an inner range may contain outer variables."""
        found = dict.fromkeys(atom for monomial, _ in e.terms for atom in monomial if _varies(atom))
        return sorted(found, key=lambda atom: (atom not in self.digits, isinstance(atom, ix.Quotient), _depth(atom)))

    def _sign(self, e: ix.Index) -> int:
        """Return 1 for >= 0 and -1 for <= 0, by the signs of the terms; 0 for unknown."""
        signs = {value > 0 for _, value in e.terms}
        if len(signs) > 1 or not all(self._is_non_negative(atom) for monomial, _ in e.terms for atom in monomial):
            return 0
        return 1 if signs != {False} else -1

    def _is_non_negative(self, atom: ix.AnyAtom) -> bool:
        return isinstance(atom, ix.Size) or atom in self.digits or self.can_prove(pred.NonNegative(ix.index(atom)))

    def _is_positive(self, divisor: ix.Index) -> bool:
        """Return True if a divisor is positive. Constants are checked even under contradictory facts."""
        return divisor.constant > 0 if divisor.constant is not None else self.can_prove(pred.less(ix.ZERO, divisor))

    # -- ranges ------------------------------------------------------------------------------------------------------

    def _ends(self, variable: ix.AnyAtom, *, up: bool) -> Iterator[ix.Index]:
        """Yield upper (`up`) or lower bounds of the variable."""
        if variable in self.digits:
            yield self.digits[variable] - ix.ONE if up else ix.ZERO
        elif isinstance(variable, ix.Quotient):
            yield from self._ends_of_quotient(variable, up=up)
        else:
            yield from self._ends_in_facts(variable, up=up)

    def _ends_in_facts(self, variable: ix.AnyAtom, *, up: bool) -> Iterator[ix.Index]:
        for fact in self.facts.predicates:
            if isinstance(fact, pred.NonNegative):
                multiple, rest = _collected(fact.expression, variable)
                if multiple == (-ix.ONE if up else ix.ONE):
                    yield rest if up else -rest

    def _ends_of_quotient(self, quotient: ix.Quotient, *, up: bool) -> Iterator[ix.Index]:
        yield from self._ends_in_facts(quotient, up=up)
        a, b = quotient.numerator, quotient.denominator
        if not self._is_positive(b):
            return
        if not up:
            if self.can_prove(pred.at_most(ix.ZERO, a)):
                yield ix.ZERO
            return
        for leaf in self._variables(a):
            multiple, rest = _collected(a, leaf)
            if multiple == ix.ONE:
                for end in self._ends_in_facts(leaf, up=True):
                    # This is end // b, written as the ceiling of the next number, minus 1.
                    yield ix.floordiv(rest + end + b, b, positive=True) - ix.ONE

    # -- digits ------------------------------------------------------------------------------------------------------

    def in_digits(self, e: ix.Index) -> ix.Index:
        """Replace a variable in the numerator a of a quotient by the digits of a = b * (a // b) + digit."""
        split: set[ix.AnyAtom] = set()
        for quotient in [*dict.fromkeys(atom for monomial, _ in e.terms for atom in monomial)]:
            if not isinstance(quotient, ix.Quotient) or not self._is_positive(quotient.denominator):
                continue
            for leaf in self._variables(quotient.numerator):
                multiple, rest = _collected(quotient.numerator, leaf)
                times, others = _collected(e, leaf)
                if multiple == ix.ONE and times is not None and times.terms and leaf not in split:
                    split.add(leaf)
                    digit = ix.Var(FIRST_DIGIT - len(self.digits), "digit")
                    self.digits[digit] = quotient.denominator
                    whole = quotient.denominator * ix.index(quotient) + ix.index(digit) - rest
                    e = others + times * whole
                    break
        return e


def _collected(e: ix.Index, variable: ix.AnyAtom) -> tuple[ix.Index | None, ix.Index]:
    """Return the coefficient of the variable (None if it occurs in a power) and the other terms."""
    multiple, rest = {}, {}
    for monomial, value in e.terms:
        if variable not in monomial:
            rest[monomial] = value
            continue
        at = monomial.index(variable)
        left = (*monomial[:at], *monomial[at + 1 :])
        if variable in left:
            return None, e
        multiple[left] = value
    return ix.polynomial(multiple), ix.polynomial(rest)


def _varies(atom: ix.AnyAtom) -> bool:
    """Return True for variables and quotients with variables in the numerator."""
    return isinstance(atom, ix.Var | ix.Bound) or (
        isinstance(atom, ix.Quotient) and any(map(_varies, ix.atoms(atom.numerator)))
    )


def _depth(atom: ix.AnyAtom) -> int:
    """Return a sort key that is smaller for inner variables."""
    match atom:
        case ix.Bound(position):
            return position
        case ix.Var(uid):
            return -uid
        case ix.Size() | ix.Quotient() | ix.Extremum() | ix.Xor() | ix.Read():
            return 0


# -- relevance filter -------------------------------------------------------------------------------------------------
# A condition such as i % 4 < 3 constrains i // 4, but elimination learns nothing about i alone. Of forty such
# conditions with different quotients, a query about one quotient needs one.


MIN_FACTS: Final = 6
"""Minimum number of facts for filtering."""
GROUP_BUDGET: Final = 200
MAX_CHOICES: Final = 8
"""Maximum number of combinations of alternatives that are tried for a group."""

_Group: TypeAlias = tuple[pred.Predicate, ...]
"""Facts that share quotients, directly or through other facts of the group."""


def relevant(facts: Facts, goal: pred.Predicate) -> Facts:
    """Drop facts that only constrain quotients which do not occur in the goal, if there are many.

    This is sound, as fewer facts prove less. It may lose proofs that need a fact's effect on integers.
    """
    if len(facts.predicates) < MIN_FACTS:
        return facts
    needed = _quotients(goal)
    alone = {fact for group, quotients in _independent(facts) if needed.isdisjoint(quotients) for fact in group}
    return facts.only(lambda fact: fact not in alone) if len(alone) >= MIN_FACTS else facts


@lru_cache(maxsize=256)
def _independent(facts: Facts) -> tuple[tuple[_Group, frozenset[Quotient]], ...]:
    """Return the groups of facts that only constrain their own quotients, with these quotients."""
    groups: list[tuple[_Group, frozenset[Quotient]]] = []
    for fact in facts.predicates:
        if own := _quotients(fact):
            tied = [group for group in groups if not own.isdisjoint(group[1])]
            groups = [group for group in groups if own.isdisjoint(group[1])]
            together = (*(other for group, _ in tied for other in group), fact)
            groups.append((together, own.union(*(quotients for _, quotients in tied))))
    return tuple(group for group in groups if _constrains_only_quotients(group[0]))


@lru_cache(maxsize=4096)
def _quotients(predicate: pred.Predicate) -> frozenset[Quotient]:
    return frozenset(atom for atom in _atoms(predicate) if isinstance(atom, Quotient))


def _atoms(predicate: pred.Predicate) -> Iterator[AnyAtom]:
    for expression in pred.expressions(predicate):
        yield from atoms(expression)


@lru_cache(maxsize=4096)
def _constrains_only_quotients(group: _Group) -> bool:
    """Return True if real values of the quotients satisfy the facts for all values of the variables."""
    table, system = Table(), System()
    for fact in group:
        if any(isinstance(atom, Read | Extremum | Xor) for atom in _atoms(fact)):
            return False
        read_predicate(table, fact, system)
    rows = [*_definitions(table), *system.rows]
    if system.equalities or any(len(monomial) > 1 for monomial in table.monomials):
        return False
    kept = frozenset(column for column, atom in table.atoms.items() if isinstance(atom, Size | Bound | Var))
    return any(_unconstrained(rows, chosen, kept) for chosen in islice(product(*system.cases), MAX_CHOICES))


def _unconstrained(rows: list[Row], chosen: Iterable[System], kept: frozenset[int]) -> bool:
    """Return True if the rows and those of the alternatives do not constrain the kept columns."""
    more: list[Row] = []
    for alternative in chosen:
        if alternative.equalities or alternative.cases:
            return False
        more += alternative.rows
    return leaves_no_rows([*rows, *more], kept, Budget(GROUP_BUDGET))


def _definitions(table: Table) -> list[Row]:
    """Return the rows b*q <= a < b*q + b of the quotients q = a // b."""
    rows: list[Row] = []
    for column, atom in table.atoms.items():
        if isinstance(atom, Quotient):
            numerator, divisor = table.parts[column]
            rest = combined(numerator, 1, table.product(divisor, {column: 1}), -1)
            rows += [rest, plus(combined(divisor, 1, rest, -1), -1)]
    return rows
