"""Gradients: programs derived from the pairing of a cotangent with a tangent, with their theorems."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from atl.checks.wellformed import make_program
from atl.core import terms
from atl.core.index import Array
from atl.core.program import Program, Result, program_of_one_rank
from atl.core.terms import Expr
from atl.core.traversal import Path
from atl.surface.results import results
from atl.surface.values import Tensor
from gradients.keeping import Kept, kept, kept_names, outermost
from gradients.naming import Naming, unify
from gradients.pairings import is_addition, operands_of
from gradients.sharing import share
from gradients.tangents import directions_of, fresh_name, names_of, tangent
from gradients.transposition import Transposition
from rewrites.derivation import Derivation
from rewrites.errors import NotATheorem, NotEqual
from rewrites.kernel import Theorem, symmetry
from rewrites.named_operators import pairing
from rewrites.session.session import reschedule
from rewrites.tactics.simplification import reduce_accesses
from rewrites.tactics.storage.binding import bind

SCATTERS: Final = ["ll_place", "place_of_add", "gen_scatter"]
"""Rules that, in reverse, make a generation of a scatter to the position of each iteration."""
TIDY: Final = ["gen_eta", "get_gen", "place_access", "gen_as_guarded_place"]
"""Rules that remove what the derivation leaves behind."""


@dataclass(frozen=True, eq=False)
class Gradient:
    """The gradient of the program `of` with respect to its inputs `wrt`, with its derivation.

    `program` computes it from the inputs of `of` and the cotangent of its result. `theorem` states that
    Σ y · tangent = Σ gradient · direction, for the cotangent y and all directions.
    """

    program: Program
    theorem: Theorem
    wrt: tuple[str, ...]
    of: Program
    kept: Kept | None = None

    def __post_init__(self) -> None:
        """Check that the theorem is about the tangent, and that the program computes the gradients of the theorem."""
        *_, cotangent = inputs = self.theorem.rhs.inputs
        directions = inputs[-1 - len(self.wrt) : -1]
        computed = self.program if self.kept is None else self.kept.computed
        if (
            (*computed.inputs, *directions) != (*inputs[: -1 - len(self.wrt)], cotangent, *directions)
            or set(computed.assumptions) != set(self.theorem.rhs.assumptions)
            or _paired_back(computed, self.theorem.rhs.body, directions) != self.theorem.rhs.body
            or (self.kept is not None and self.program != self.kept.program)
        ):
            raise NotATheorem(
                f"{self.program.name} is not the gradient of its theorem",
                required="Σ gradient · direction as the right side of the theorem, with the program's results and "
                "assumptions",
            )
        forward = self.of if self.kept is None else self.kept.outermost.rhs
        if paired_with(tangent(forward, self.wrt), cotangent) != self.theorem.lhs:
            kept_lets = "" if self.kept is None else " with the kept lets"
            raise NotATheorem(
                f"the theorem of {self.program.name} is not about the program{kept_lets} and {', '.join(self.wrt)}",
                required=f"Σ {cotangent.name} · tangent, for the tangent of that program, on the left side",
            )
        if self.kept is not None and self.kept.outermost.lhs != self.of.whole:
            raise NotATheorem(
                f"the kept lets are not those of {self.of.name}", required=f"a theorem that starts from {self.of.name}"
            )

    @property
    def forward(self) -> Program | None:
        """The program with the kept lets as further results; None without `keep`."""
        return None if self.kept is None else self.kept.forward

    def __repr__(self) -> str:
        return f"{self.program}"


def gradient(program: Program, wrt: str | Sequence[str], *, keep: str | Sequence[str] = ()) -> Gradient:
    """Derive the gradient of a program with respect to some of its inputs: a name, or a list of names.

    The gradient program takes the inputs of `program` and the cotangent of its result, `dout`. If the program has
    several results, `dout` has one dimension: the elements of all results, one result after the other. For one input
    the gradient program returns one tensor of the input's shape, for several inputs one result for each, named after
    the direction: dx for x.

    The gradient is the end of a derivation by rules of the catalogue (family "adjoints"), which starts from the pairing
    of the cotangent with the tangent: Σ dout · tangent = Σ gradient · dx.

    `keep` names lets that the gradient program does not compute again: it takes them as inputs, before the cotangent.
    `.forward` is the program that returns them as further results. These lets are first moved out of all loops, so the
    theorem is about an equal program. The gradient on its right side computes these lets.

    Raises the errors of `tangent`, and `InvalidArgument` for names that are not lets. Raises `DoesNotApply` also for a
    conversion between floating-point types, for a tensor of more than four dimensions, where a rule cannot be proved to
    apply, and for a let that cannot be moved out of loops.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x, y = atl.tensor("x", n), atl.tensor("y", n)
    >>> g = atl.gradient(atl.program("dot", [x, y], atl.sum(n, lambda i: x[i] * y[i])), ["x", "y"])
    >>> g.program
    dot_gradient (x : float32[n], y : float32[n], dout : float32) : (
        dx : float32[n],
        dy : float32[n]) :=
      let dy := ⊞[i < n] dout * x[i] in
      let dx := ⊞[i < n] dout * y[i] in
      dx ++ dy
    >>> g.theorem
    dot_tangent_paired = dot_tangent_paired, by ... steps
    """
    program_of_one_rank(program, "the gradient")
    wrt = names_of(wrt)
    names = kept_names(keep)
    if not names:
        return _derived(program, wrt)
    directions_of(program, wrt)
    theorem = outermost(program, names)
    made = _derived(replace(theorem.rhs, results=program.results), wrt)
    taken = kept(theorem, program.results, made.program, names)
    return Gradient(taken.program, made.theorem, wrt, program, taken)


def _derived(program: Program, wrt: tuple[str, ...]) -> Gradient:
    directions = directions_of(program, wrt)
    along = tangent(program, wrt)
    cotangent = Array(fresh_name(along, "dout"), program.shape, program.dtype)
    work = reschedule(paired_with(along, cotangent)).begin()
    _name_operands(work, program, wrt, cotangent)
    Transposition(work, frozenset(array.name for array in directions)).push((), ())
    _bind_results(work)
    _tidy(work)
    share(work)
    types = {array.name: array.dtype for array in program.inputs}
    made = _gradient_program(program, work.goal.body, directions, [types[name] for name in wrt], cotangent)
    return Gradient(made, work.theorem, wrt, program)


def _name_operands(work: Derivation, program: Program, wrt: tuple[str, ...], cotangent: Array) -> None:
    """Rewrite the pairing with a program's tangent to that of an equal program whose operands are bound to lets.

    First, elements of whole tensors, as in Σi (x + y)[i], are computed one by one. Otherwise each of them would add a
    whole tensor.
    """
    named = reschedule(program.whole).begin()
    reduce_accesses(named)
    naming = Naming(named, wrt)
    share(named, naming.name)
    naming.visit((), ())
    if not named.taken:
        return
    other = reschedule(paired_with(tangent(named.goal, wrt), cotangent)).begin()
    before = work.checkpoint
    if unify(work, other, (naming.name, f"d{naming.name}")):
        # A step may be irreversible if its two sides simplify conditions on indices differently.
        with suppress(NotEqual):
            work.follow(symmetry(other.theorem))
            return
    work.rollback(before)


def _bind_results(work: Derivation) -> None:
    """Bind the first operand of each collected pairing to a let around the sum, named after the direction."""
    path: Path = ()
    while isinstance(work.term(path), terms.Let):
        path = (*path, 1)
    sides: Path = ()
    while True:
        at = (*path, *sides)
        e = work.term(at)
        if is_addition(e):
            sides = (*sides, 0 if _is_bound(work, (*at, 1)) else 1)
            continue
        if isinstance(e, terms.Padding) or _is_bound(work, at):
            return
        _, v, rank = operands_of(e)
        assert isinstance(v, terms.Input)
        bind(work, at, (*(0,) * rank, 0, *(0,) * rank), v.array.name)
        for side in reversed(sides):
            at = at[:-1]
            work.rewrite(("ll_add_left", "ll_add_right")[side], at)
        path, sides = (*path, 1), ()


def _is_bound(work: Derivation, path: Path) -> bool:
    return isinstance(operands_of(work.term(path))[0], terms.Local)


def _tidy(work: Derivation) -> None:
    """Simplify the gradients."""
    taken = -1
    while taken < work.taken:
        taken = work.taken
        work.sweep(["let_unused"])
        work.sweep(SCATTERS, reverse=True)
        work.sweep(TIDY)


def paired_with(along: Program, cotangent: Array) -> Program:
    """Return the program of the pairing of a cotangent with a tangent."""
    y = _cast(terms.Input(cotangent), along.dtype)
    return make_program(
        f"{along.name}_paired",
        (*along.inputs, cotangent),
        pairing(Tensor(y), Tensor(along.body)).node,
        along.assumptions,
    )


def _cast(e: Expr, dtype: str | None) -> Expr:
    return e if e.type.dtype == dtype or dtype is None else terms.Cast(dtype, e)


def _gradient_program(
    program: Program, collected: Expr, directions: Sequence[Array], dtypes: Sequence[str], cotangent: Array
) -> Program:
    """Return the first operands of the pairings of a collected term, in the order of the directions.

    The gradient by an input has the type of the input.
    """
    lets, found = _pairings(collected)
    each = [
        _cast(found.get(array.name, terms.Padding(terms.Input(array).type)), dtype)
        for array, dtype in zip(directions, dtypes, strict=True)
    ]
    if len(each) == 1:
        body, several = each[0], tuple[Result, ...]()
    else:
        made = results(**{array.name: Tensor(e) for array, e in zip(directions, each, strict=True)})
        body, several = made.tensor.node, made.each
    if isinstance(body, terms.Local) and body.position == 0:
        body = lets.pop().value
    inputs = (*program.inputs, cotangent)
    return make_program(f"{program.name}_gradient", inputs, _around(lets, body), program.assumptions, several)


def _pairings(collected: Expr) -> tuple[list[terms.Let], dict[str, Expr]]:
    """Return the lets of a collected term, and the first operand of the pairing with each direction, last one first."""
    lets: list[terms.Let] = []
    while isinstance(collected, terms.Let):
        lets.append(collected)
        collected = collected.body
    found: dict[str, Expr] = {}
    while not isinstance(collected, terms.Padding):
        last = collected.right if is_addition(collected) else collected
        y, v, _ = operands_of(last)
        assert isinstance(v, terms.Input)
        name = v.array.name
        if name in found:
            raise NotATheorem(f"two pairings with the direction {name}", required="one pairing with each direction")
        found[name] = y
        if not is_addition(collected):
            break
        collected = collected.left
    return lets, found


def _paired_back(made: Program, collected: Expr, directions: Sequence[Array]) -> Expr | None:
    """Return the sum of the pairings of a program's results with directions, with the lets and order of `collected`.

    Return None if the program has other results, or if the result for a direction without a pairing is not zero.
    """
    lets, found = _pairings(collected)
    own: list[terms.Let] = []
    body = made.body
    is_cast = made.dtype != directions[0].dtype
    only_local = any(isinstance(y, terms.Local) and y.position == 0 for y in found.values())
    is_value = len(directions) == 1 and only_local and not is_cast
    for _ in lets[is_value:]:
        if not isinstance(body, terms.Let):
            return None
        own.append(body)
        body = body.body
    if is_value:
        own.append(terms.Let(body, terms.Local(0, body.type)))
        body = own[-1].body
    each = _results_of(made, body, directions)
    if each is not None and is_cast:
        uncast = {name: e.operand for name, e in each.items() if isinstance(e, terms.Cast)}
        each = uncast if uncast.keys() == each.keys() else None
    if each is None or any(not isinstance(each[name], terms.Padding) for name in each.keys() - found.keys()):
        return None
    inputs = {array.name: terms.Input(array) for array in directions}
    total: Expr = terms.Padding(collected.type)
    for name in reversed(found):
        pair = pairing(Tensor(each[name]), Tensor(inputs[name])).node
        total = pair if isinstance(total, terms.Padding) else terms.Binary("add", total, pair)
    return _around(own, total)


def _results_of(made: Program, body: Expr, directions: Sequence[Array]) -> dict[str, Expr] | None:
    """Return the results in the body of a program below its lets, or None if they are not those of these directions."""
    if len(directions) == 1:
        return {directions[0].name: body}
    if [result.name for result in made.results] != [array.name for array in directions]:
        return None
    each: dict[str, Expr] = {}
    for array in reversed(directions):
        row = body
        if array is not directions[0]:
            if not isinstance(body, terms.Concat):
                return None
            row, body = body.right, body.left
        for _ in array.shape[1:]:
            if not isinstance(row, terms.Reshape):
                return None
            row = row.operand
        if not array.shape:
            if not isinstance(row, terms.Gen):
                return None
            row = row.body
        each[array.name] = row
    return each


def _around(lets: Sequence[terms.Let], body: Expr) -> Expr:
    """Return the lets around another body."""
    for let in reversed(lets):
        body = terms.Let(let.value, body, let.name, let.mark)
    return body
