"""Elements of a term at a symbolic position, as polynomials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count
from typing import Final, TypeAlias, assert_never

from atl.checks.scope import Scope
from atl.checks.wellformed import obligations
from atl.core import predicate as pred
from atl.core import terms
from atl.core.dtypes import BOOL
from atl.core.index import ZERO as NONE
from atl.core.index import Index, Quotient, Var, atoms, ceildiv, floordiv, index, map_leaves
from atl.core.operations import ZERO_AT_ZERO, BinaryOp, UnaryOp
from atl.core.reshape_definitions import origin
from atl.core.substitution import instantiate, instantiate_tensor
from atl.core.terms import OF_MONOID
from atl.core.traversal import children, divisors, indices_in
from atl.prove import Facts, Proved, prove, simplify
from atl.text.printing import show_predicate
from rewrites.rule_checking import symbolic_values as values
from rewrites.rule_checking.symbolic_values import (
    Fold,
    Given,
    Operation,
    Poly,
    Read,
    Stuck,
    Undecided,
    atom,
    bracket,
    constant,
)

FEW_TERMS: Final = 4
"""Maximum number of terms of a fold over a constant range that are read one by one."""
Case: TypeAlias = Callable[[Facts], Poly]
_BOUND: Final = 1 << 58
_PLACES: Final = 1 << 16
"""Number of ids for the variables that are bound at one height, more than any tensor has dimensions."""
unused_ids: Final = count(1 << 57)


@dataclass(frozen=True, slots=True)
class Peel:
    """An induction step: the variable that grew by one, and whether sums split off their first or last terms.

    If `nested` is true, sums inside these terms split off a term too.
    """

    variable: Var
    first: bool = field(kw_only=True)
    nested: bool = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The hypothesis of an induction on rows: the rows of a side before one of them are those of `other`."""

    whole: terms.Rec
    other: terms.Expr


@dataclass(frozen=True, slots=True)
class Reader:
    """Evaluates a term at positions within its shape. `inside` are the indices of the enclosing folds."""

    bound: dict[int, terms.Expr]
    linear: bool
    peel: Peel | None = None
    inside: tuple[Var, ...] = ()
    unfolds: bool = False
    """True if a row of a recurrence is read by its definition, once on the way to an element."""
    hypothesis: Hypothesis | None = None
    depth: int = 0
    """Number of enclosing recurrences that are read as unknown functions, by which their rows are named."""
    proves: bool = False
    """True if the term may be ill-formed, so that its conditions are proved instead of assumed."""

    def read(self, term: terms.Expr, at: tuple[Index, ...], facts: Facts) -> Poly:
        conditions = tuple(granted(term, Scope(facts)))
        if self.proves and (unknown := [each for each in conditions if not isinstance(prove(facts, each), Proved)]):
            raise Stuck(f"the smaller instance requires {show_predicate(unknown[0])}, which is not proved")
        facts = facts.assume(*conditions)
        match term:
            case terms.Metavariable():
                return self._generic(term, at, facts)
            case terms.TensorVar(uid):
                return self.read(self.bound[uid], at, facts)
            case terms.Constant(value):
                return constant(value)
            case terms.Value(expression):
                return values.of_index(simplify(facts, expression))
            case terms.Padding():
                return values.ZERO
            case terms.Gen(low, _, body):
                return self.read(instantiate(body, low + at[0]), at[1:], facts)
            case terms.Reduce():
                return self._fold(term, at, facts)
            case terms.Guard(predicate, body):
                return self._where(predicate, lambda inner: self.read(body, at, inner), _nothing, facts)
            case terms.Select(predicate, left, right):
                return self._where(
                    predicate,
                    lambda inner: self.read(left, at, inner),
                    lambda inner: self.read(right, at, inner),
                    facts,
                )
            case terms.Let(value, body):
                variable = terms.TensorVar(next(unused_ids), "let", value.type)
                reader = replace(self, bound={**self.bound, variable.uid: value})
                return reader.read(instantiate_tensor(body, variable), at, facts)
            case terms.Access(tensor, position):
                there = pred.within(NONE, position, tensor.type.shape[0])
                return self._where(there, lambda inner: self.read(tensor, (position, *at), inner), _nothing, facts)
            case terms.Unary(op, operand):
                return _unary(op, term.type.dtype, self.read(operand, at, facts))
            case terms.Binary(op, left, right):
                return _binary(op, left.type.dtype, self.read(left, at, facts), self.read(right, at, facts))
            case terms.Where(test, left, right):
                condition = values.truth(self.read(test, at, facts))
                return values.choice(condition, self.read(left, at, facts), self.read(right, at, facts))
            case terms.Cast(dtype, operand):
                # The same value can differ between two types, because an index may wrap in one of them.
                name = f"{operand.type.dtype} to {dtype}"
                return values.by_cases(lambda x: x if x.zero else _opaque(name, x), self.read(operand, at, facts))
            case terms.Concat(left, right):
                n = left.type.shape[0]
                return self._where(
                    pred.less(at[0], n), lambda inner: self.read(left, at, inner),
                    lambda inner: self.read(right, (at[0] - n, *at[1:]), inner), facts,
                )  # fmt: skip
            case terms.Reshape(op, operand):
                if isinstance(op, terms.Flatten):
                    # An element exists at this position, so neither extent is zero.
                    facts = facts.assume(*(pred.at_most(index(1), extent) for extent in operand.type.shape[:2]))
                where = origin(op, operand.type.shape, at)
                return self._where(where.present, lambda inner: self.read(operand, where.at, inner), _nothing, facts)
            case terms.Rec():
                return self._where(
                    pred.less(at[0], term.low), lambda inner: self.read(term.init, at, inner),
                    lambda inner: self._row(term, at, inner), facts,
                )  # fmt: skip
            case terms.Input() | terms.Local():
                raise Stuck("an open term")

    # -- recurrences --------------------------------------------------------------------------------------------------

    def _row(self, term: terms.Rec, at: tuple[Index, ...], facts: Facts) -> Poly:
        """Read an element of a computed row."""
        if not self.unfolds:
            return self._opaque(term, at, facts)
        earlier = terms.TensorVar(next(unused_ids), "rows", terms.rows_before(term.type, at[0]))
        known = self.hypothesis
        rows = known.other if known is not None and known.whole is term else term
        reader = replace(self, unfolds=False, hypothesis=None, bound={**self.bound, earlier.uid: rows})
        body = instantiate_tensor(instantiate(term.body, at[0]), earlier)
        return reader.read(body, at[1:], facts.assume(pred.less(at[0], term.high)))

    def _opaque(self, term: terms.Rec, at: tuple[Index, ...], facts: Facts) -> Poly:
        """Return an element of row p as an unknown function of p, of the first rows, and of the body for rows up to p.

        So it does not depend on the number of rows.
        """
        variables = [Var(next(unused_ids), "q") for _ in at]
        p, *rest = map(index, variables)
        earlier = terms.TensorVar(next(unused_ids), "rows", terms.rows_before(term.type, p))
        generic = terms.Metavariable(earlier.uid, f" rows {self.depth} of {term.type.dtype}", earlier.of)
        body = instantiate_tensor(instantiate(term.body, p), earlier)
        reader = replace(
            self, inside=(*self.inside, *variables), unfolds=False, hypothesis=None, depth=self.depth + 1,
            bound={**self.bound, earlier.uid: generic},
        )  # fmt: skip
        tensors, bound = [], []
        for rows, low, part, position in ((term.low, NONE, term.init, (p, *rest)), (at[0] + 1, term.low, body, rest)):
            extents = (rows, *term.type.shape[1:])
            within = [pred.within(NONE, index(v), n) for v, n in zip(variables, extents, strict=True)]
            value = reader.read(part, tuple(position), facts.assume(*within, pred.at_most(low, p)))
            named = _bound_variables(value, len(variables))
            tensors.append((extents, _renamed(value, tuple(variables), named)))
            bound.append(named)
        positions = tuple(simplify(facts, position) for position in at)
        return atom(Given(f" rec of {term.type.dtype}", positions, tuple(tensors), tuple(bound)))

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _where(self, predicate: pred.Predicate, holds: Case, fails: Case, facts: Facts) -> Poly:
        decided = self._decided(predicate, facts)
        if decided == pred.TRUE:
            return holds(facts)
        if decided == pred.FALSE:
            return fails(facts)
        factor = bracket(decided)
        yes, no = facts.assume(decided), facts.assume(pred.negation(decided))
        return factor * holds(yes) + (values.ONE - factor) * fails(no)

    def _decided(self, predicate: pred.Predicate, facts: Facts) -> pred.Predicate:
        """Simplify a condition by the facts. Raises `Undecided` unless it depends on the index of a fold."""
        if isinstance(predicate, pred.All | pred.Any):
            return self._parts_decided(predicate, facts)
        if isinstance(prove(facts, predicate), Proved):
            return pred.TRUE
        if isinstance(prove(facts, pred.negation(predicate)), Proved):
            return pred.FALSE
        if not any(_mentions(predicate, variable) for variable in self.inside):
            raise Undecided(predicate)
        return predicate

    def _parts_decided(self, predicate: pred.All | pred.Any, facts: Facts) -> pred.Predicate:
        every = isinstance(predicate, pred.All)
        left = []
        for part in predicate.parts:
            known = self._decided(part, facts)
            if known == (pred.FALSE if every else pred.TRUE):
                return known
            if known != (pred.TRUE if every else pred.FALSE):
                left.append(known)
            # A part is evaluated only if the earlier parts hold (for a disjunction: fail).
            facts = facts.assume(part if every else pred.negation(part))
        return left[0] if len(left) == 1 else type(predicate)(tuple(left))

    # -- folds --------------------------------------------------------------------------------------------------------

    def _fold(self, term: terms.Reduce, at: tuple[Index, ...], facts: Facts) -> Poly:
        extent = simplify(facts, term.high - term.low)
        if isinstance(prove(facts, pred.at_most(extent, NONE)), Proved):
            return values.ZERO
        if extent.constant is not None and extent.constant <= FEW_TERMS:
            parts = (self.read(instantiate(term.body, term.low + k), at, facts) for k in range(extent.constant))
            return reduce(lambda x, y: _binary(OF_MONOID[term.monoid], term.type.dtype, x, y), parts)
        given, kept, offset = self._peeled(term, extent, at, facts)
        if isinstance(prove(facts, pred.equal(kept, index(1))), Proved):
            return given + self.read(instantiate(term.body, term.low + offset), at, facts)
        variable = Var(next(unused_ids), "k")
        opened = instantiate(term.body, term.low + offset + index(variable))
        inside = facts.assume(pred.within(NONE, index(variable), kept), *(() if self.proves else unconditional(opened)))
        if isinstance(prove(inside, pred.FALSE), Proved):
            return given  # no index is within the range and gives the body a meaning
        reader = replace(self, inside=(*self.inside, variable))
        body = reader.read(opened, at, inside)
        counted = isinstance(prove(facts, pred.at_most(NONE, kept)), Proved)
        if term.monoid == "sum" and self.linear:
            strided, body = _strided(body, kept, variable, facts)
            given = given + strided
        return given + folded(term.monoid, kept, variable, body, linear=self.linear, counted=counted)

    def _peeled(
        self, term: terms.Reduce, extent: Index, at: tuple[Index, ...], facts: Facts
    ) -> tuple[Poly, Index, Index]:
        """Split off the terms that a sum gained in an induction step.

        Returns their value, the extent before, and the offset of the remaining terms.
        """
        if self.peel is None or term.monoid != "sum":
            return values.ZERO, extent, NONE
        grown = self.peel.variable
        before = map_leaves(extent, lambda leaf: index(grown) - 1 if leaf == grown else index(leaf))
        gained = simplify(facts, extent - before)
        if not gained.terms:
            return values.ZERO, extent, NONE
        for needed in (pred.at_most(NONE, before), pred.at_most(NONE, gained)):
            if not isinstance(prove(facts, needed), Proved):
                if any(_mentions(needed, variable) for variable in self.inside):
                    raise Stuck("an extent that shrinks")
                raise Undecided(needed)
        start = NONE if self.peel.first else before
        if gained == index(1):
            reader = self if self.peel.nested else replace(self, peel=None)
            out = reader.read(instantiate(term.body, term.low + start), at, facts)
        else:
            variable = Var(next(unused_ids), "k")
            inside = facts.assume(pred.within(NONE, index(variable), gained))
            reader = replace(self, inside=(*self.inside, variable), peel=None)
            body = reader.read(instantiate(term.body, term.low + start + index(variable)), at, inside)
            out = folded("sum", gained, variable, body, linear=self.linear, counted=True)
        return out, before, gained if self.peel.first else NONE

    # -- metavariables ------------------------------------------------------------------------------------------------

    def _generic(self, of: terms.Metavariable, at: tuple[Index, ...], facts: Facts) -> Poly:
        positions = tuple(simplify(facts, position) for position in (*of.indices, *at))
        if not of.tensors:
            element = atom(Read(of.name, positions))
            return values.truth(element) if of.type.dtype == BOOL else element
        tensors, bound = [], []
        for tensor in of.tensors:
            own = tuple(Var(next(unused_ids), "q") for _ in tensor.type.shape)
            inside = facts.assume(
                *(pred.within(NONE, index(v), n) for v, n in zip(own, tensor.type.shape, strict=True))
            )
            reader = replace(self, inside=(*self.inside, *own), unfolds=False, hypothesis=None)
            body = reader.read(tensor, tuple(map(index, own)), inside)
            named = _bound_variables(body, len(own))
            tensors.append((tensor.type.shape, _renamed(body, own, named)))
            bound.append(named)
        return atom(Given(of.name, positions, tuple(tensors), tuple(bound)))


def _nothing(_: Facts) -> Poly:
    return values.ZERO


def _mentions(predicate: pred.Predicate, variable: Var) -> bool:
    return values.mentions(bracket(predicate), variable)


def _renamed(body: Poly, old: tuple[Var, ...], new: tuple[Var, ...]) -> Poly:
    to = dict(zip(old, new, strict=True))
    return values.mapped(body, lambda leaf: index(to.get(leaf, leaf) if isinstance(leaf, Var) else leaf))


def _bound_variables(body: Poly, count: int) -> tuple[Var, ...]:
    """Return the variables that are bound around a value: equal for equal values, and different from those inside."""
    assert count < _PLACES
    return tuple(Var(_BOUND + _height(body) * _PLACES + place, "q") for place in range(count))


def _above(variable: Var) -> int:
    """Return the next height above the one at which a variable is bound."""
    return 1 + (variable.uid - _BOUND) // _PLACES


def _height(value: Poly) -> int:
    """Return a height above those at which the variables in a value are bound, at least the nesting depth of folds.

    A fold keeps its variable when folds inside it vanish, so the depth alone could be the height of that variable.
    """
    found = 0
    for monomial, _ in value.terms:
        for part, _ in monomial:
            match part:
                case Fold(variable=variable, body=body):
                    found = max(found, 1 + _height(body), _above(variable))
                case Given(tensors=tensors, bound=bound):
                    found = max([found, *(1 + _height(body) for _, body in tensors)])
                    found = max([found, *(_above(variable) for each in bound for variable in each)])
                case Operation(operands=operands):
                    found = max([found, *map(_height, operands)])
                case Read() | values.Bracket() | values.Number():
                    pass
                case _:
                    assert_never(part)
    return found


def _strided(body: Poly, extent: Index, variable: Var, facts: Facts) -> tuple[Poly, Poly]:
    """Return the sum of the terms that are zero except at multiples of a divisor d, and the other terms of a body.

    Σ[y < n] [(y + c) mod d = 0] f(y) is the sum of f(d * k - c) for the k with 0 <= d * k - c < n.
    """
    total, rest = values.ZERO, values.ZERO
    for monomial, coefficient in body.terms:
        term = values.poly({monomial: coefficient})
        found = (_stride(part.literal, variable, facts) for part, _ in monomial if isinstance(part, values.Bracket))
        stride = next((each for each in found if each is not None), None)
        if stride is None:
            rest = rest + term
            continue
        literal, offset, divisor = stride
        first = ceildiv(offset, divisor, positive=True)
        count_of = floordiv(extent + offset - 1, divisor, positive=True) + 1 - first
        number = Var(next(unused_ids), "k")
        one = values.poly({monomial - {(values.Bracket(literal), 1)}: coefficient})
        moved = _at(one, variable, divisor * (index(number) + first) - offset)
        inside = facts.assume(pred.within(NONE, index(number), count_of))
        inner = values.settled(moved, inside)
        counted = isinstance(prove(facts, pred.at_most(NONE, count_of)), Proved)
        total = total + folded("sum", simplify(facts, count_of), number, inner, linear=True, counted=counted)
    return total, rest


def _at(value: Poly, variable: Var, place: Index) -> Poly:
    """Return a value with an index for a variable."""
    return values.mapped(value, lambda leaf: place if leaf == variable else index(leaf))


def _stride(literal: pred.Predicate, variable: Var, facts: Facts) -> tuple[pred.Predicate, Index, Index] | None:
    """Return c and d if a literal says that variable + c is a multiple of d, which is proved positive."""
    if not isinstance(literal, pred.Zero):
        return None
    for part in atoms(literal.expression):
        if isinstance(part, Quotient):
            offset = part.numerator - index(variable)
            for sign in (1, -1):
                rest = part.numerator - part.denominator * index(part) - literal.expression * sign
                if rest == NONE and variable not in (*atoms(offset), *atoms(part.denominator)):
                    positive = isinstance(prove(facts, pred.less(NONE, part.denominator)), Proved)
                    return (literal, offset, part.denominator) if positive else None
    return None


def folded(monoid: str, extent: Index, variable: Var, body: Poly, *, linear: bool, counted: bool) -> Poly:
    """Return a fold. In a sum, terms are summed separately and factors that do not depend on its index are moved out.

    A constant term is multiplied by the extent if `counted`: the extent is known to be non-negative.
    """
    if body.zero:
        return values.ZERO
    if monoid != "sum" or not linear:
        return _fold_of(monoid, extent, variable, body)
    total = values.ZERO
    for monomial, coefficient in body.terms:
        outside, inner = constant(coefficient), values.ONE
        for part, power in monomial:
            for _ in range(power):
                if values.mentions(atom(part), variable):
                    inner = inner * atom(part)
                else:
                    outside = outside * atom(part)
        if inner == values.ONE and counted:
            total = total + outside * values.of_index(extent)
        else:
            total = total + outside * _fold_of(monoid, extent, variable, inner)
    return total


def _fold_of(monoid: str, extent: Index, variable: Var, body: Poly) -> Poly:
    (named,) = _bound_variables(body, 1)
    return atom(Fold(monoid, extent, named, _renamed(body, (variable,), (named,))))


def _unary(op: UnaryOp, dtype: str | None, x: Poly) -> Poly:
    match op:
        case "neg":
            return -x
        case "invert" if dtype == BOOL:
            return values.ONE - values.truth(x)
        case "exp":
            return values.by_cases(values.exponential, x)
        case "abs":
            return values.by_cases(values.absolute, x)
        case (
            "sqrt" | "log" | "tanh" | "erf" | "sin" | "cos" | "log1p" | "expm1" | "floor" | "round" | "stop"
            | "invert"
        ):  # fmt: skip
            return values.by_cases(lambda at: at if at.zero and op in ZERO_AT_ZERO else _opaque(op, at), x)
        case _:
            assert_never(op)


def _opaque(op: str, x: Poly) -> Poly:
    """Return a function of which nothing is known."""
    return values.by_cases(lambda at: atom(Operation(op, frozenset((at,)))), x)


def _binary(op: BinaryOp, dtype: str | None, x: Poly, y: Poly) -> Poly:
    if dtype == BOOL:
        x, y = values.truth(x), values.truth(y)
    match op:
        case "add":
            return x + y
        case "sub":
            return x - y
        case "mul":
            return values.squared(x * y)
        case "div":
            return x * values.by_cases(values.inverse, y)
        case "lt":
            return values.by_cases(lambda a, b: values.less(a, b, dtype), x, y)
        case "le":
            return values.ONE - values.by_cases(lambda a, b: values.less(a, b, dtype), y, x)
        case "eq":
            return values.by_cases(lambda a, b: values.equal_values(a, b, dtype), x, y)
        case "and" | "min" if dtype == BOOL:
            return x * y
        case "or" | "max" if dtype == BOOL:
            return x + y - x * y
        case "xor" if dtype == BOOL:
            return x + y - constant(2) * x * y
        case "min" | "max" | "and" | "or":
            return values.by_cases(lambda *at: values.lattice(op, *at), x, y)
        case "xor":
            return values.by_cases(lambda a, b: values.ZERO if a == b else _of_pair(op, a, b), x, y)
        case "mod":
            return values.by_cases(_remainder, x, y)
        case "floordiv" | "shl" | "shr":
            # Their operands are distinguished, because a set has no order.
            return values.by_cases(lambda a, b: a if a.zero and b.zero else _of_pair(op, a, _opaque("right", b)), x, y)


def _of_pair(op: BinaryOp, x: Poly, y: Poly) -> Poly:
    return values.ZERO if x.zero and y.zero else atom(Operation(op, frozenset((x, y))))


def _remainder(x: Poly, y: Poly) -> Poly:
    """Return x mod y, which is x for a remainder of y."""
    right = _opaque("right", y)
    one = values.single_atom(x)
    known = isinstance(one, Operation) and one.op == "mod" and right in one.operands
    return x if x.zero or known else _of_pair("mod", x, right)


def granted(term: terms.Expr, scope: Scope) -> Iterator[pred.Predicate]:
    """Yield the well-formedness conditions of a node that the kernel checks for every instance.

    Positive divisors are excluded: an instance may have no division, because 0 // k is simplified to 0 or because a
    function ignores its argument k // m.
    """
    opened = map(scope.index, indices_in(term))
    may_vanish = {pred.less(NONE, divisor) for expression in opened for divisor in divisors(expression)}
    for obligation in obligations(term, scope):
        if obligation.goal != pred.FALSE and obligation.goal not in may_vanish:
            yield obligation.goal
    if isinstance(term, terms.Metavariable):
        yield from (pred.at_most(NONE, extent) for extent in term.type.shape)


def unconditional(term: terms.Expr) -> Iterator[pred.Predicate]:
    """Yield the well-formedness conditions of a term that are not under a binder or a guard.

    Tensor arguments of functions are excluded: a function may ignore them.
    """
    yield from granted(term, Scope(Facts()))
    if not isinstance(term, terms.Gen | terms.Reduce | terms.Guard | terms.Select | terms.Metavariable):
        for child in children(term):
            if not child.tensors:
                yield from unconditional(child.expr)


def under_binders(term: terms.Expr) -> Iterator[pred.Predicate]:
    """Yield conditions under binders, but not under guards, that do not mention an index.

    They hold if the ranges of the binders are not empty.
    """
    if isinstance(term, terms.Gen | terms.Reduce):
        variable = Var(next(unused_ids), term.name)
        empty = pred.at_most(term.high, term.low)
        body = instantiate(term.body, index(variable))
        for condition in (*unconditional(body), *under_binders(body)):
            if variable not in pred.atoms_of(condition):
                yield pred.disjunction((empty, condition))
    elif not isinstance(term, terms.Guard | terms.Select | terms.Metavariable):
        for child in children(term):
            if not child.tensors:
                yield from under_binders(child.expr)
