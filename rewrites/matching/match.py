"""Higher-order pattern matching: finding the arguments for which a side of a rule equals a given subterm.

A metavariable applied to distinct bound indices stands for a function (a Miller pattern). With any other arguments,
another occurrence must determine the function. Indices are compared in canonical form, and an index metavariable is
solved for if it occurs linearly. Nothing here is trusted: the kernel compares the instance with the subterm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from atl.core import index as ix
from atl.core.index import index, shift
from atl.core.predicate import Any as AnyOf
from atl.core.predicate import NonZero, Predicate, Zero, conjunction, conjuncts, expressions, is_predicate, negation
from atl.core.predicate import substitute as substitute_predicate
from atl.core.substitution import free_positions, map_type, rebuild, shift_term, transform, unbound
from atl.core.terms import Expr, Local, Metavariable, Padding, TensorVar, Type
from atl.core.traversal import children, conditions_in, own_indices, static
from atl.errors import ATLError
from rewrites.matching.patterns import Pattern, later_patterns, patterns
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument, Function, Parameter, is_term, of_indices, substituted
from rewrites.rule_statement import LARGEST_RANK, Extent, condition_variable, permuted_groups, shift_under


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first difference between a pattern and a subterm, and the number of nodes matched before."""

    matched: int
    wanted: Expr | ix.Index | Predicate
    found: Expr | ix.Index | Predicate


@dataclass(slots=True)
class Match:
    """The state of matching a pattern: the arguments found so far, and the extents of tensor metavariables."""

    pattern: Pattern
    found: dict[str, Argument] = field(default_factory=dict)
    extents: dict[Extent, ix.Index] = field(default_factory=dict)
    postponed: list[tuple[ix.Index, ix.Index, int]] = field(default_factory=list)
    applied: list[tuple[Metavariable, Expr]] = field(default_factory=list)
    matched: int = 0
    mismatch: Mismatch | None = None

    # -- terms --------------------------------------------------------------------------------------------------------

    def term(self, wanted: Expr, found: Expr, indices: int, tensors: int) -> bool:
        """Match a term under this number of index and tensor binders of the pattern."""
        if isinstance(wanted, Metavariable):
            return self._application(wanted, found, indices, tensors) or self._fail(wanted, found)
        if type(wanted) is not type(found) or static(wanted) != static(found):
            return self._fail(wanted, found)
        self.matched += 1
        bound_at = wanted.form.bound
        if bound_at is not None and getattr(wanted, bound_at) != getattr(found, bound_at):
            return self._fail(wanted, found)
        return (
            self._conditions(wanted, found, indices)
            and all(self.index(a, b, indices) for a, b in zip(own_indices(wanted), own_indices(found), strict=True))
            and all(
                self.term(a.expr, b.expr, indices + a.indices, tensors + a.tensors)
                for a, b in zip(children(wanted), children(found), strict=True)
            )
        )

    def _fail(self, wanted: Expr | ix.Index | Predicate, found: Expr | ix.Index | Predicate) -> bool:
        if self.mismatch is None:
            self.mismatch = Mismatch(self.matched, wanted, found)
        return False

    def _application(self, applied: Metavariable, found: Expr, indices: int, tensors: int) -> bool:
        known = self.found.get(applied.name)
        if known is not None:
            if applied.type.rank != found.type.rank:
                return False
            self._note_extents(applied.name, found.type, indices)
            return self._agrees(known, applied, found, indices, tensors)
        places = [_bound_position(at, indices) for at in applied.indices]
        locals_ = [at.position if isinstance(at, Local) and at.position < tensors else None for at in applied.tensors]
        if None in places or None in locals_ or len(set(places)) < len(places):
            # Not a Miller pattern: another occurrence determines it, or `_abstract_from` does in the end.
            if not indices and not tensors and not applied.tensors:
                self.applied.append((applied, found))
            return True
        if applied.type.rank != found.type.rank:
            return False
        kept = {at: position for position, at in enumerate(reversed(places)) if at is not None}
        kept_locals = {at: position for position, at in enumerate(reversed(locals_)) if at is not None}
        body = _abstract(found, indices, tensors, kept, kept_locals)
        if body is None:
            return False
        if places or locals_:
            parameters: list[Parameter] = ["index"] * len(places)
            for at in applied.tensors:
                of = self._parameter(at.type, indices, kept)
                if of is None:
                    return False
                parameters.append(of)
            self.found[applied.name] = Function(tuple(parameters), body)
        else:
            self.found[applied.name] = body
        self._note_extents(applied.name, found.type, indices)
        return True

    def _parameter(self, of: Type, indices: int, kept: Mapping[int, int]) -> Type | None:
        """Return the type of a tensor that is bound in the pattern, under the indices that become parameters."""
        extents = []
        for extent in of.shape:
            known = self._known(extent, indices)
            moved = None if known is None else _remapped(known, indices, kept)
            if moved is None:
                return None
            extents.append(moved)
        return Type(None, tuple(extents))

    def _note_extents(self, name: str, of: Type, indices: int) -> None:
        for dimension, extent in enumerate(of.shape):
            lowered = _lowered(extent, indices)
            if lowered is not None:
                self.extents.setdefault((name, dimension), lowered)

    def _agrees(self, known: Argument, applied: Metavariable, found: Expr, indices: int, tensors: int) -> bool:
        """Return whether the known value of a metavariable, applied here, can be this term."""
        if isinstance(known, Function):
            if not is_term(known.body):
                return False
            body = shift_under(known.body, indices, tensors, known.indices, known.tensors)
            types = [parameter for parameter in known.parameters if isinstance(parameter, Type)]
            tensors_of = tuple(_of_dtype(at, of.dtype) for at, of in zip(applied.tensors, types, strict=True))
            try:
                made = substituted(body, applied.indices, tensors_of)
            except ATLError:
                return False  # the elements have another rank
            return bool(made == found) or self.term(made, found, indices, tensors)
        return is_term(known) and not applied.indices and shift_term(known, indices, tensors) == found

    # -- indices and predicates ---------------------------------------------------------------------------------------

    def index(self, wanted: ix.Index, found: ix.Index, indices: int) -> bool:
        """Match an index expression by solving for its metavariable. With several unknowns it is postponed."""
        unknown = self._unknown(wanted)
        if not unknown:
            known = self._known(wanted, indices)
            return known == found or self._fail(wanted, found)
        if len(unknown) > 1 or not self._solve(unknown[0], wanted, found, indices):
            self.postponed.append((wanted, found, indices))
        return True

    def _unknown(self, wanted: ix.Index) -> list[ix.Var]:
        variables = dict.fromkeys(atom for atom in ix.atoms(wanted) if isinstance(atom, ix.Var))
        own = self.pattern
        return [v for v in variables if self._value(v) is None and (v.uid in own.names or v.uid in own.extents)]

    def _value(self, variable: ix.Var) -> ix.Index | None:
        extent = self.pattern.extents.get(variable.uid)
        if extent is not None:
            return self.extents.get(extent)
        value = self.found.get(self.pattern.names.get(variable.uid, ""))
        return value if isinstance(value, ix.Index) else None

    def _known(self, wanted: ix.Index, indices: int) -> ix.Index | None:
        """Substitute the known metavariables of an expression; None if some are unknown."""
        if self._unknown(wanted):
            return None

        def leaf(at: ix.Leaf) -> ix.Index:
            value = self._value(at) if isinstance(at, ix.Var) else None
            return index(at) if value is None else shift(value, indices)

        return ix.map_leaves(wanted, leaf)

    def _solve(self, variable: ix.Var, wanted: ix.Index, found: ix.Index, indices: int) -> bool:
        """Solve wanted = factor * variable + rest for known rest and factor, where the factor is a single product."""
        factor = ix.factor_of(wanted, variable)
        if factor is None or len(factor.terms) != 1:
            return False
        rest = self._known(wanted - factor * index(variable), indices)
        known_factor = self._known(factor, indices)
        if rest is None or known_factor is None:
            return False
        solution = ix.quotient_exactly(found - rest, known_factor)
        lowered = None if solution is None else _lowered(solution, indices)
        if lowered is None:
            return False
        self.matched += 1
        extent = self.pattern.extents.get(variable.uid)
        if extent is not None:
            self.extents[extent] = lowered
        else:
            self.found[self.pattern.names[variable.uid]] = lowered
        return True

    def _conditions(self, wanted: Expr, found: Expr, indices: int) -> bool:
        return all(
            self.condition(a, b, indices) or self._fail(a, b)
            for a, b in zip(conditions_in(wanted), conditions_in(found), strict=True)
        )

    def condition(self, wanted: Predicate, found: Predicate, indices: int) -> bool:
        """Match conjuncts in any order. A condition metavariable takes the conjuncts that the other parts leave."""
        if condition_variable(negation(wanted)) is not None:
            return self.condition(negation(wanted), negation(found), indices)
        literals: list[Predicate] = []
        variables: list[tuple[str, tuple[ix.Index, ...]]] = []
        for part in conjuncts(wanted):
            variable = condition_variable(part)
            if variable is None:
                literals.append(part)
            else:
                variables.append(variable)
        left = list(conjuncts(found))
        for literal in literals:
            taken = self._taken(literal, left, indices)
            if taken is None:
                return False
            left.remove(taken)
        unbound = [v for v in variables if v[0] not in self.found]
        for name, at in variables:
            if (name, at) not in unbound:
                parts = self._parts_of(name, at, indices)
                if any(part not in conjuncts(found) for part in parts):
                    return False
                left = [part for part in left if part not in parts]
        if not unbound:
            return not left
        return self._bind_condition(*unbound[0], conjunction(left), indices)

    def _taken(self, literal: Predicate, left: list[Predicate], indices: int) -> Predicate | None:
        """Match a literal with one of the remaining conjuncts, and return this conjunct.

        Conjuncts that determine the unknowns of the literal are preferred, then short ones: 0 <= a should match i <= j
        rather than j - i < n.
        """
        open_still: Predicate | None = None
        for part in sorted(left, key=_length):
            before = dict(self.found), dict(self.extents), list(self.postponed)
            if not self._literal(literal, part, indices):
                continue
            if len(self.postponed) == len(before[2]):
                return part
            self.found, self.extents, self.postponed = before
            open_still = part if open_still is None else open_still
        if open_still is not None:
            self._literal(literal, open_still, indices)
        return open_still

    def _literal(self, wanted: Predicate, found: Predicate, indices: int) -> bool:
        if isinstance(wanted, AnyOf) and isinstance(found, AnyOf):
            # Parts match in order, since a condition metavariable cannot be solved for like an index.
            return len(wanted.parts) == len(found.parts) and all(
                self.condition(a, b, indices) for a, b in zip(wanted.parts, found.parts, strict=True)
            )
        if type(wanted) is not type(found):
            return False
        pairs = list(zip(expressions(wanted), expressions(found), strict=False))
        before = dict(self.found), dict(self.extents), list(self.postponed)
        tried = before
        # e = 0 and -e = 0 are the same predicate; its canonical form depends on the variables.
        for sign in (1, -1) if isinstance(wanted, Zero | NonZero) else (1,):
            if all(self._try_index(a, b * sign, indices) for a, b in pairs) and len(self.postponed) == len(before[2]):
                return True
            tried = dict(self.found), dict(self.extents), list(self.postponed)
            self.found, self.extents, self.postponed = dict(before[0]), dict(before[1]), list(before[2])
        if len(tried[2]) > len(before[2]):
            self.found, self.extents, self.postponed = tried  # postponed: the rest of the term may determine unknowns
            return True
        return False

    def _try_index(self, wanted: ix.Index, found: ix.Index, indices: int) -> bool:
        mismatch = self.mismatch
        result = self.index(wanted, found, indices)
        self.mismatch = mismatch
        return result

    def _parts_of(self, name: str, at: tuple[ix.Index, ...], indices: int) -> tuple[Predicate, ...]:
        """Return the conjuncts of the known value of a condition metavariable, applied here."""
        known = self.found[name]
        if isinstance(known, Function):
            own = known.indices
            if not is_predicate(known.body):
                return ()
            return conjuncts(
                substituted(substitute_predicate(known.body, lambda leaf: _under(leaf, own, indices)), at, ())
            )
        return (
            conjuncts(substitute_predicate(known, lambda leaf: _under(leaf, 0, indices))) if is_predicate(known) else ()
        )

    def _bind_condition(self, name: str, at: tuple[ix.Index, ...], found: Predicate, indices: int) -> bool:
        places = [_bound_position(position, indices) for position in at]
        if None in places:
            return True
        kept = {at: position for position, at in enumerate(reversed(places)) if at is not None}
        mapped = [_remapped(expression, indices, kept) for expression in expressions(found)]
        if any(expression is None for expression in mapped):
            return False
        body = substitute_predicate(found, lambda leaf: _renumber(leaf, indices, kept))
        self.found[name] = Function(of_indices(len(places)), body) if places else body
        return True

    def settle(self) -> bool:
        """Solve postponed indices, using premises that are equations. Return False on a contradiction."""
        for premise in self.pattern.premises:
            if isinstance(premise, Zero) and self._unknown(premise.expression):
                self.postponed.append((premise.expression, ix.ZERO, 0))
        progress = True
        while self.postponed and progress:
            waiting, self.postponed = self.postponed, []
            for wanted, found, indices in waiting:
                if not self.index(wanted, found, indices):
                    return False
            progress = len(self.postponed) < len(waiting)
        for applied, found_term in self.applied:
            if applied.name not in self.found:
                self._abstract_from(applied, found_term)
        return True

    def fill(self, dtype: str | None) -> None:
        """Choose padding as the value of tensors of which the rule uses only the type."""
        for name, rank in self.pattern.typed.items():
            extents = [self.extents.get((name, dimension)) for dimension in range(rank)]
            known = tuple(extent for extent in extents if extent is not None)
            if name not in self.found and len(known) == rank:
                self.found[name] = Padding(Type(dtype, known))

    def _abstract_from(self, applied: Metavariable, found: Expr) -> None:
        """Match e(a) for a known index a, by abstracting every occurrence of a in the term."""
        at = [self._known(position, 0) for position in applied.indices]
        arguments = tuple(position for position in at if position is not None and position.constant is None)
        if len(arguments) == len(applied.indices):
            self.found[applied.name] = Function(of_indices(len(arguments)), function_of(found, arguments))
            self._note_extents(applied.name, found.type, 0)


def match(rule: Rule, reverse: bool, subterm: Expr, given: Mapping[str, Argument]) -> dict[str, Argument] | Mismatch:
    """Return the arguments for which a side of the rule equals the subterm; `given` fixes some of them.

    Undetermined arguments are missing in the result. On failure, return the mismatch of the pattern that matched most.
    """
    worst: Mismatch | None = None
    rank = subterm.type.rank
    orders = [_order_given(name, given) for name in permuted_groups(rule.metavariables)]
    for pattern in chain(patterns(rule, reverse, rank), later_patterns(rule, reverse, rank, orders)):
        if any(given.get(name, constant) != constant for name, constant in pattern.permuted.items()):
            continue
        state = Match(pattern, dict(given))
        if state.term(pattern.term, subterm, 0, 0) and state.settle():
            state.fill(subterm.type.dtype)
            for name in pattern.unused:
                state.found.setdefault(name, ix.ZERO)
            state.found |= pattern.permuted
            return {name: value for name, value in state.found.items() if name in rule.metavariables}
        if state.mismatch is not None and (worst is None or state.mismatch.matched > worst.matched):
            worst = state.mismatch
    return worst or Mismatch(-1, subterm, subterm)


def _order_given(name: str, given: Mapping[str, Argument]) -> tuple[int, ...] | None:
    """Return the permutation that these arguments state; None without one."""
    axes = [given[f"{name}_{axis}"] for axis in range(LARGEST_RANK) if f"{name}_{axis}" in given]
    return tuple(axis.constant for axis in axes if isinstance(axis, ix.Index) and axis.constant is not None) or None


# -- parts of terms ---------------------------------------------------------------------------------------------------


def _length(predicate: Predicate) -> int:
    return sum(len(expression.terms) for expression in expressions(predicate))


def _of_dtype(at: Expr, dtype: str | None) -> Expr:
    """Set the element type of a pattern's variable."""
    match at:
        case Metavariable():
            return replace(at, of=Type(dtype, at.of.shape))
        case Local(position, of):
            return Local(position, Type(dtype, of.shape))
        case _:
            return at


def _bound_position(expression: ix.Index, indices: int) -> int | None:
    atom = expression.atom
    return atom.position if isinstance(atom, ix.Bound) and atom.position < indices else None


def _lowered(expression: ix.Index, indices: int) -> ix.Index | None:
    return _remapped(expression, indices, {})


def _remapped(expression: ix.Index, indices: int, kept: Mapping[int, int]) -> ix.Index | None:
    """Move an index out of the pattern's binders; those in `kept` become parameters. None if it uses any other."""
    if any(isinstance(a, ix.Bound) and a.position < indices and a.position not in kept for a in ix.atoms(expression)):
        return None
    return ix.map_leaves(expression, lambda leaf: _renumber(leaf, indices, kept))


def _renumber(leaf: ix.Leaf, indices: int, kept: Mapping[int, int]) -> ix.Index:
    if not isinstance(leaf, ix.Bound):
        return index(leaf)
    if leaf.position < indices:
        return ix.bound(kept.get(leaf.position, 0))
    return ix.bound(leaf.position - indices + len(kept))


def _under(leaf: ix.Leaf, parameters: int, by: int) -> ix.Index:
    if isinstance(leaf, ix.Bound) and leaf.position >= parameters:
        return ix.bound(leaf.position + by)
    return index(leaf)


def _abstract(
    found: Expr, indices: int, tensors: int, kept: Mapping[int, int], kept_locals: Mapping[int, int]
) -> Expr | None:
    """Turn the bound variables in `kept` and `kept_locals` into parameters; None if the term uses any other."""
    used, tensors_used = free_positions(found)
    if any(position < indices and position not in kept for position in used):
        return None
    if any(position < tensors and position not in kept_locals for position in tensors_used):
        return None
    if not indices and not tensors:
        return found

    def on_leaf(leaf: ix.Leaf, depth: int) -> ix.Index:
        if not isinstance(leaf, ix.Bound) or leaf.position < depth:
            return index(leaf)
        moved = _renumber(ix.Bound(leaf.position - depth), indices, kept)
        return shift(moved, depth)

    def on_tensor(at: Local | TensorVar, depth: int, tensor_depth: int) -> Expr | None:
        if not isinstance(at, Local) or at.position < tensor_depth:
            return None
        position = at.position - tensor_depth
        moved = kept_locals[position] if position < tensors else position - tensors + len(kept_locals)
        of = map_type(at.of, lambda e: ix.map_leaves(e, lambda leaf: on_leaf(leaf, depth)))
        return Local(moved + tensor_depth, of)

    return transform(found, on_leaf, on_tensor, untouched=unbound())


def function_of(found: Expr, arguments: tuple[ix.Index, ...]) -> Expr:
    """Replace each index that equals an argument plus a constant by a parameter plus the constant."""
    count = len(arguments)

    def visit(at: Expr, depth: int) -> Expr:
        def on_index(expression: ix.Index) -> ix.Index:
            for position, argument in enumerate(arguments):
                offset = (expression - shift(argument, depth)).constant
                if offset is not None:
                    return ix.bound(depth + count - 1 - position) + offset
            return ix.shift(expression, count, depth)

        return rebuild(at, lambda child: visit(child.expr, depth + child.indices), on_index)

    return visit(found, 0)
