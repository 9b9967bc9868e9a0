"""Passes over stores: dead stores, reduction fusion, and single stores."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Final, TypeAlias, assert_never

from atl.checks.scope import initial_facts
from atl.core import index as ix
from atl.core.index import ZERO, Index, Leaf, Read, Var, atoms, index, map_leaves
from atl.core.marks import LoopMark
from atl.core.predicate import TRUE, equal, within
from atl.core.predicate import substitute as substitute_predicate
from atl.core.reshape_definitions import Pairs
from atl.prove import Facts, proves, without_smt
from lowering.nest import loopnest as ln
from lowering.nest.accesses import Access, accesses_of, other_run, same_cell_facts
from lowering.nest.loopnest import at_iteration
from lowering.nest.text import TextScope, outermost
from lowering.nest.tiles import cells_of, sources, step, tiles_of
from lowering.passes.simplification import in_a_block

# -- dead stores ------------------------------------------------------------------------------------------------------


def without_dead_stores(nest: ln.LoopNest) -> ln.LoopNest:
    """Remove the stores that the output does not depend on."""
    needed = _needed(nest)
    return replace(nest, body=_kept(nest.body, needed))


def _needed(nest: ln.LoopNest) -> frozenset[Hashable]:
    """Return the storage that the output depends on, including the output."""
    stores = [s for s in ln.statements(nest.body) if isinstance(s, ln.Assign | ln.Accumulate | ln.Declare)]
    reads: dict[Hashable, set[Hashable]] = {}
    for store in stores:
        value = store.initial if isinstance(store, ln.Declare) else store.value
        reads.setdefault(_target(store), set()).update(loaded(value))
    needed: set[Hashable] = set()
    waiting: list[Hashable] = [*map(ln.key, nest.outputs)]
    while waiting:
        found = waiting.pop()
        if found not in needed:
            needed.add(found)
            waiting.extend(reads.get(found, ()))
    return frozenset(needed)


def _target(store: ln.Assign | ln.Accumulate | ln.Declare) -> Hashable:
    return ln.accessed(store.variable if isinstance(store, ln.Declare) else store.target)


def loaded(e: ln.ScalarExpr) -> Iterator[Hashable]:
    """Return the storage that an expression reads."""
    return map(ln.accessed, sources(e))


def _kept(block: ln.Block, needed: frozenset[Hashable]) -> ln.Block:
    return tuple(kept for statement in block for kept in _live_part(statement, needed))


def _live_part(statement: ln.Statement, needed: frozenset[Hashable]) -> ln.Block:
    """Return the needed part of the statement."""
    match statement:
        case ln.For(body=body) | ln.If(body=body):
            inner = _kept(body, needed)
            return (ln.with_body(statement, inner),) if inner else ()
        case ln.Assign() | ln.Accumulate() | ln.Declare():
            return (statement,) if _target(statement) in needed else ()
        case ln.Allocate(buffer) | ln.Clear(buffer) | ln.Free(buffer) | ln.Gather(buffer):
            return (statement,) if ln.key(buffer) in needed else ()
    assert_never(statement)


# -- reduction fusion -------------------------------------------------------------------------------------------------
#     for j in 0..m:                      total = 0.0
#         power[j] = exp(x[j])            for j in 0..m:
#     total = 0.0                   →         power[j] = exp(x[j])
#     for j in 0..m:                          total += power[j]
#         total += power[j]
#
# The term is then still in a register, and a loop is saved. Compilers do not do this by themselves. Only unmarked loops
# over plain assignments and accumulations are fused. Reductions by maximum or minimum are not, because C compilers
# vectorise them only in a loop that does nothing else.


_SUMS: Final = ("add", "sub", "mul")


def with_fused_reductions(nest: ln.LoopNest) -> ln.LoopNest:
    """Fuse each reduction over values that a preceding loop stores into that loop."""
    return replace(nest, body=_fused_block(nest.body, tiles_of(nest).keys()))


def _fused_block(block: ln.Block, tiles: AbstractSet[int]) -> ln.Block:
    out: ln.Block = ()
    for statement in block:
        match statement:
            case ln.For() if out and isinstance(out[-1], ln.Declare):
                joined = _fused(out[:-1], out[-1], statement, tiles)
                out = joined or (*out, _inside(statement, tiles))
            case ln.If(predicate, (ln.Declare() as declared, ln.For() as summing, *rest)) if predicate == TRUE:
                joined = _fused(out, declared, summing, tiles)
                left = in_a_block(_fused_block(tuple(rest), tiles)) if joined else (_inside(statement, tiles),)
                out = (*(joined or out), *left)
            case (
                ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear()
                | ln.Free() | ln.Gather()
            ):  # fmt: skip
                out = (*out, _inside(statement, tiles))
            case _:
                assert_never(statement)
    return out


def _inside(statement: ln.Statement, tiles: AbstractSet[int]) -> ln.Statement:
    return (
        ln.with_body(statement, _fused_block(statement.body, tiles))
        if isinstance(statement, ln.For | ln.If)
        else statement
    )


def _fused(before: ln.Block, declared: ln.Declare, summing: ln.For, tiles: AbstractSet[int]) -> ln.Block | None:
    """Fuse a reduction into the last loop of the statements before it, if allowed."""
    read = {
        ln.key(source) for value in _values(summing.body) for source in sources(value) if isinstance(source, ln.Scalar)
    }
    for at, loop in reversed(tuple(enumerate(before))):
        match loop:
            case ln.For():
                adding = at_iteration(summing, index(loop.variable))
                plain = _is_plain(loop, tiles) and _is_plain(summing, tiles)
                if not (plain and _may_join(loop, declared, summing, adding)):
                    return None
                return (*before[:at], declared, ln.with_body(loop, (*loop.body, *adding)), *before[at + 1 :])
            case ln.Allocate():
                pass  # nothing is stored to it yet
            case ln.Declare(variable) if ln.key(variable) not in read:
                pass
            case ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free() | ln.Gather():
                return None
            case _:
                assert_never(loop)
    return None


def _values(block: ln.Block) -> list[ln.ScalarExpr]:
    return [statement.value for statement in block if isinstance(statement, ln.Assign | ln.Accumulate)]


def _is_plain(loop: ln.For, tiles: AbstractSet[int]) -> bool:
    """Return whether a loop consists of assignments and accumulations only, and does not access tiles in registers."""
    return (
        loop.mark is LoopMark.NONE
        and all(isinstance(s, ln.Assign) or (isinstance(s, ln.Accumulate) and s.op in _SUMS) for s in loop.body)
        and all(cell.buffer.uid not in tiles for cell, _ in cells_of(loop.body))
    )


def _may_join(loop: ln.For, declared: ln.Declare, summing: ln.For, adding: ln.Block) -> bool:
    """Return whether a reduction over the same range may be fused with the loop before it.

    It must add only to its variable. Of the values that the loop stores, it may read only those that the same iteration
    stored last.
    """
    targets = [s.target for s in adding if isinstance(s, ln.Accumulate)]
    if (loop.low, loop.high) != (summing.low, summing.high) or len(targets) < len(adding):
        return False
    if not isinstance(declared.initial, ln.Number) or any(target != declared.variable for target in targets):
        return False
    made = {
        ln.key(s.target)
        for s in loop.body
        if isinstance(s, ln.Assign | ln.Accumulate) and isinstance(s.target, ln.Scalar)
    }
    made.add(ln.key(declared.variable))
    stored = [cell for cell, is_stored in cells_of(loop.body) if is_stored]
    return all(
        ln.key(source) not in made
        if isinstance(source, ln.Scalar)
        else all(_is_own(cell, source, loop.variable) for cell in stored if cell.buffer == source.buffer)
        for value in _values(adding)
        for source in sources(value)
    )


def _is_own(stored: ln.Cell, read: ln.Cell, variable: Var) -> bool:
    """Return whether the iteration reads the cell that it stores, and no other iteration stores to that cell."""
    return stored.pairs == read.pairs and any(step(position, variable) for position, _ in stored.pairs)


# -- preimages of cells -----------------------------------------------------------------------------------------------


_CELL: Final = (1 << 57) + 500
MOST_STEPS: Final = 60
_Equation: TypeAlias = tuple[ix.Index, ix.Index]
"""A formula over loop variables, and its value over the indices of a cell."""


@dataclass(frozen=True, slots=True)
class Preimage:
    """Index variables of a cell, and the value of each loop variable in terms of them."""

    cell: Sequence[ix.Index]
    iteration: Mapping[ix.Var, ix.Index]


def preimage(positions: Sequence[ix.Index], loops: Sequence[ix.Var]) -> Preimage | None:
    """Guess the values of loop variables for which the positions equal the indices of a cell.

    The result is not proved: callers substitute the values and check. A sum of several digits becomes one equation for
    each digit, where the digit of the largest stride is the quotient. Equations for x // b and x % b become one for x.
    """
    cell = [ix.index(ix.Var(_CELL + k, f"c{k}")) for k in range(len(positions))]
    equations: list[_Equation] = list(zip(positions, cell, strict=True))
    found: dict[ix.Var, ix.Index] = {}
    for _ in range(MOST_STEPS):
        equations = [(_substituted(formula, found), value) for formula, value in equations]
        equations = [each for each in equations if any(v.uid in each[0].free for v in loops)]
        open_ = [v for v in loops if v not in found]
        if not open_:
            return Preimage(cell, found)
        alone = next(((formula.atom, value) for formula, value in equations if formula.atom in open_), None)
        if alone is not None and isinstance(alone[0], ix.Var):
            found[alone[0]] = alone[1]
            continue
        solved = _split(equations, open_) or _joined(equations) or _without_remainder(equations, open_)
        if solved is None:
            return None
        equations = solved
    return None


def _substituted(formula: ix.Index, found: Mapping[ix.Var, ix.Index]) -> ix.Index:
    return ix.map_leaves(formula, lambda at: found[at] if isinstance(at, ix.Var) and at in found else ix.index(at))


def _split(equations: Sequence[_Equation], open_: Sequence[ix.Var]) -> list[_Equation] | None:
    """Split the first formula that is a sum of digits or an exclusive or."""
    for position, equation in enumerate(equations):
        parts = _digits(equation, open_) or _cancelled(equation, open_)
        if parts is not None:
            return [*equations[:position], *parts, *equations[position + 1 :]]
    return None


def _digits(equation: _Equation, open_: Sequence[ix.Var]) -> list[_Equation] | None:
    """Solve a*x + b*y + c = d, where b < a: x is (d - c) // a, and the remainder determines y."""
    formula, value = equation
    factors: list[tuple[ix.AnyAtom, ix.Index]] = []
    rest = formula
    for atom in dict.fromkeys(_outermost(formula)):
        if not _open(atom, open_):
            continue
        factor = ix.factor_of(formula, atom)
        if factor is None or _open(factor, open_):
            return None
        factors.append((atom, factor))
        rest = rest - factor * ix.index(atom)
    if formula.atom is not None or _open(rest, open_):
        return None
    left, parts = value - rest, []
    for atom, factor in sorted(factors, key=_reach, reverse=True):
        sign = factor.constant
        if sign is not None and (sign < -1 or (sign < 0 and len(factors) > 1)):
            return None
        digit = left * factor if sign in (1, -1) else ix.floordiv(left, factor)
        left = left - factor * digit
        parts.append((ix.index(atom), digit))
    return parts


def _cancelled(equation: _Equation, open_: Sequence[ix.Var]) -> list[_Equation] | None:
    """Solve x ^ a = c by x = c ^ a."""
    formula, value = equation
    atom = formula.atom
    if not isinstance(atom, ix.Xor):
        return None
    own = [part for part in atom.parts if _open(part, open_)]
    if len(own) != 1:
        return None
    return [(own[0], ix.exclusive_or(value, *(part for part in atom.parts if part is not own[0])))]


def _reach(factored: tuple[ix.AnyAtom, ix.Index]) -> tuple[int, int]:
    """Return a sort key that approximates the order of strides: by the number of sizes, then by the coefficient."""
    terms = factored[1].terms
    return max((len(monomial) for monomial, _ in terms), default=0), abs(terms[0][1]) if terms else 0


def _joined(equations: Sequence[_Equation]) -> list[_Equation] | None:
    """Combine x // b = c and x % b = d to x = b*c + d."""
    for one, another in permutations(equations, 2):
        for atom in dict.fromkeys(ix.atoms(one[0])):
            if not isinstance(atom, ix.Quotient):
                continue
            whole = one[0] * atom.denominator + another[0]
            if _quotients(whole) < _quotients(one[0]) + _quotients(another[0]):
                others = [each for each in equations if each is not one and each is not another]
                return [(whole, one[1] * atom.denominator + another[1]), *others]
    return None


def _without_remainder(equations: Sequence[_Equation], open_: Sequence[ix.Var]) -> list[_Equation] | None:
    """Solve (x + a) % b = c by x = (c - a) % b, assuming x < b."""
    for position, (formula, value) in enumerate(equations):
        for atom in dict.fromkeys(_outermost(formula)):
            if not isinstance(atom, ix.Quotient) or formula != atom.numerator - atom.denominator * ix.index(atom):
                continue
            open_here = [v for v in open_ if v.uid in formula.free]
            factor = ix.factor_of(atom.numerator, open_here[0]) if len(open_here) == 1 else None
            if factor is None or factor.constant not in (1, -1):
                continue
            turned = (value - (atom.numerator - factor * ix.index(open_here[0]))) * factor
            rest = turned - atom.denominator * ix.floordiv(turned, atom.denominator)
            return [*equations[:position], (ix.index(open_here[0]), rest), *equations[position + 1 :]]
    return None


def _quotients(formula: ix.Index) -> int:
    return sum(isinstance(atom, ix.Quotient) for atom in ix.atoms(formula))


def _outermost(formula: ix.Index) -> Iterator[ix.AnyAtom]:
    """Yield the factors of the terms of a formula, but not the atoms within them."""
    for monomial, _ in formula.terms:
        yield from monomial


def _open(part: ix.Index | ix.AnyAtom, open_: Sequence[ix.Var]) -> bool:
    return any(variable.uid in part.free for variable in open_)


# -- single stores ----------------------------------------------------------------------------------------------------


def with_single_stores(nest: ln.LoopNest) -> ln.LoopNest:
    """Replace `a[f(i)] += e` by `a[f(i)] = e` if f is proved injective.

    This requires that no other statement stores to the buffer, which was cleared before. So a generation that runs in
    another order, with `place` for each element, is stored like one in the usual order. If every cell is also proved to
    be stored, the buffer is not cleared.
    """
    added = _added_once(nest)
    if not added:
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    scope = outermost(nest)
    single: dict[int, bool] = {}
    outputs = () if nest.complete else nest.outputs
    places = [*_cleared(facts, nest.body), *(_Cleared(output, facts, nest.body) for output in outputs)]
    for place in places:
        store = added.get(place.buffer)
        if store is not None and (reaching := _reached_once(place, store, scope)) is not None:
            single[id(store)] = _reaches_all(place, reaching)
    if not single:
        return nest
    full = {buffer for buffer, store in added.items() if single.get(id(store))}
    complete = nest.complete or full.issuperset(nest.outputs)
    return replace(nest, body=_block_of_single_stores(nest.body, frozenset(single), full), complete=complete)


@dataclass(frozen=True, slots=True)
class _Cleared:
    """A cleared buffer, and the statements that follow."""

    buffer: ln.Buffer
    facts: Facts
    after: ln.Block


@dataclass(frozen=True, slots=True)
class _Reaching:
    """A store that reaches each cell at most once, and the iteration that reaches a given cell, if found."""

    access: Access
    preimage: Preimage | None


def _added_once(nest: ln.LoopNest) -> Mapping[ln.Buffer, ln.Accumulate]:
    """Return the buffers to which a single statement adds and no other statement stores."""
    stores: dict[ln.Buffer, list[ln.Assign | ln.Accumulate]] = {}
    cleared: dict[ln.Buffer, int] = dict.fromkeys(nest.outputs, 1)
    for statement in ln.statements(nest.body):
        if isinstance(statement, ln.Assign | ln.Accumulate) and isinstance(statement.target, ln.Cell):
            stores.setdefault(statement.target.buffer, []).append(statement)
        elif isinstance(statement, ln.Allocate | ln.Clear) and (statement.zeroed or isinstance(statement, ln.Clear)):
            in_row = isinstance(statement, ln.Clear) and statement.row is not None
            cleared[statement.buffer] = cleared.get(statement.buffer, 0) + (2 if in_row else 1)
    return {
        buffer: store
        for buffer, (store, *others) in stores.items()
        if not others and isinstance(store, ln.Accumulate) and store.op == "add" and cleared.get(buffer) == 1
    }


def _cleared(facts: Facts, block: ln.Block) -> Iterator[_Cleared]:
    for position, statement in enumerate(block):
        match statement:
            case ln.Allocate(buffer, zeroed=True) | ln.Clear(buffer, zeroed=True):
                yield _Cleared(buffer, facts, block[position + 1 :])
            case ln.For(body=body):
                yield from _cleared(facts.assume(statement.range), body)
            case ln.If(predicate, body):
                yield from _cleared(facts.assume(predicate), body)
            case ln.Allocate() | ln.Clear() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


# -- injectivity ------------------------------------------------------------------------------------------------------


def _reached_once(place: _Cleared, store: ln.Accumulate, scope: TextScope) -> _Reaching | None:
    """Return the store if different iterations of the loops around it are proved to reach different cells."""
    access = next((a for s in place.after for a in accesses_of(scope, place.facts, s) if _is(a, store)), None)
    if access is None:
        return None
    pairs = _pairs(access)
    free = frozenset().union(*(position.free for position, _ in pairs))
    if not all(loop.uid in free for loop in access.loops):
        return None
    found = preimage([position for position, _ in pairs], access.loops)
    if found is not None and _leads_back(access, found):
        return _Reaching(access, found)
    facts = same_cell_facts(pairs, access.facts, pairs, access.facts, access.loops)
    # For array elements only their declared order helps, so a thorough search would be in vain.
    thorough = not any(isinstance(atom, Read) for position, _ in pairs for atom in atoms(position))
    with without_smt():
        return _Reaching(access, found) if _are_one(facts, list(access.loops), thorough=thorough) else None


def _leads_back(access: Access, found: Preimage) -> bool:
    """Return whether the preimage is an inverse: then no other iteration reaches the cell of an iteration."""
    cells = {cell.atom: position for cell, (position, _) in zip(found.cell, _pairs(access), strict=True)}

    def leaf(at: Leaf) -> Index:
        return cells.get(at) or index(at)

    came = ((v, map_leaves(value, leaf)) for v, value in found.iteration.items())
    return all(proves(access.facts, equal(index(v), value), thorough=False) for v, value in came)


def _are_one(facts: Facts, loops: list[Var], *, thorough: bool) -> bool:
    """Return whether two iterations are proved equal, one variable after the other in any order."""
    while loops:
        here = next((v for v in loops if proves(facts, equal(index(v), other_run(v)), thorough=thorough)), None)
        if here is None:
            return False
        facts = facts.assume(equal(index(here), other_run(here)))
        loops = [each for each in loops if each != here]
    return True


def _is(access: Access, store: ln.Accumulate) -> bool:
    return access.how == "write" and access.statement is store


def _pairs(access: Access) -> Pairs:
    return access.storage.pairs if isinstance(access.storage, ln.Cell) else ()


# -- surjectivity -----------------------------------------------------------------------------------------------------


def _reaches_all(place: _Cleared, reaching: _Reaching) -> bool:
    """Return whether each cell is proved to be reached, by the iteration that the preimage gives for it."""
    access, found = reaching.access, reaching.preimage
    pairs = _pairs(access)
    if found is None or len(place.buffer.extents) != len(pairs):
        return False
    limits = [within(ZERO, at, extent) for at, extent in zip(found.cell, place.buffer.extents, strict=True)]
    facts = place.facts.assume(*limits)

    def leaf(at: Leaf) -> Index:
        return found.iteration.get(at) or index(at) if isinstance(at, Var) else index(at)

    # The facts in the loops but not before them: their ranges, and the conditions around the store.
    known = frozenset(place.facts.predicates)
    runs = [substitute_predicate(fact, leaf) for fact in access.facts.predicates if fact not in known]
    there = [equal(map_leaves(position, leaf), at) for (position, _), at in zip(pairs, found.cell, strict=True)]
    return all(proves(facts, goal, thorough=False) for goal in (*runs, *there))


# -- the nest ---------------------------------------------------------------------------------------------------------


def _block_of_single_stores(block: ln.Block, single: frozenset[int], full: set[ln.Buffer]) -> ln.Block:
    return tuple(_single_stores(statement, single, full) for statement in block)


def _single_stores(statement: ln.Statement, single: frozenset[int], full: set[ln.Buffer]) -> ln.Statement:
    match statement:
        case ln.For(body=body) | ln.If(body=body):
            inner = _block_of_single_stores(body, single, full)
            return statement if inner == body else ln.with_body(statement, inner)
        case ln.Accumulate(target, _, value):
            return ln.Assign(target, value) if id(statement) in single else statement
        case ln.Allocate(buffer) | ln.Clear(buffer):
            return replace(statement, zeroed=False) if buffer in full and statement.zeroed else statement
        case ln.Assign() | ln.Declare() | ln.Free() | ln.Gather():
            return statement
    assert_never(statement)
