"""Gradients: programs that a derivation from the pairing of a tangent arrives at, with their theorems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atl.checks.wellformed import make_program
from atl.core import terms
from atl.core.index import Array
from atl.core.program import Program, checked_program
from atl.core.substitution import shift_term
from atl.core.terms import Expr
from atl.errors import InvalidArgument, brief
from atl.surface.results import results
from atl.surface.values import Tensor
from gradients.tangents import directions_of, fresh_name, tangent
from gradients.transposition import Transposition
from rewrites.kernel import Theorem
from rewrites.named_operators import pairing
from rewrites.session.session import Session, reschedule


@dataclass(frozen=True, eq=False)
class Gradient:
    """The gradient of a program, with its derivation.

    `program` computes it from the inputs of the program and the cotangent of its result. `theorem` states that
    Σ y · tangent = Σ gradient · direction, for the cotangent y and all directions.
    """

    program: Program
    theorem: Theorem
    wrt: tuple[str, ...]

    @property
    def session(self) -> Session:
        """A session that starts from the gradient program."""
        return reschedule(self.program)

    def __repr__(self) -> str:
        return f"{self.program}"


def gradient(program: Program, wrt: Sequence[str]) -> Gradient:
    """Derive the gradient of a program with respect to some of its inputs.

    The gradient program takes the inputs of `program` and the cotangent of its result, `dout`. For one input it returns
    one tensor of the input's shape, for several inputs one result for each, named after the direction: dx for x.

    The gradient is the end of a derivation by rules of the catalogue (family "adjoints"), which starts from the pairing
    of the cotangent with the tangent: Σ dout · tangent = Σ gradient · dx. Raises the errors of `tangent`.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x, y = atl.tensor("x", n), atl.tensor("y", n)
    >>> atl.gradient(atl.program("dot", [x, y], atl.sum(n, lambda i: x[i] * y[i])), ["x", "y"])
    """
    checked_program(program)
    if isinstance(wrt, str) or not isinstance(wrt, Sequence):
        raise InvalidArgument(f"wrt={brief(wrt)}", required='a list of names of inputs: wrt=["x"]')
    wrt = tuple(wrt)
    directions = directions_of(program, wrt)
    along = tangent(program, *wrt)
    cotangent = Array(fresh_name(along, "dout"), program.shape, program.dtype)
    work = reschedule(paired_with(along, cotangent)).begin()
    Transposition(work, frozenset(array.name for array in directions)).push((), ())
    made = _gradient_program(program, work.goal.body, directions, cotangent)
    return Gradient(made, work.theorem, wrt)


def paired_with(along: Program, cotangent: Array) -> Program:
    """Return the program of the pairing of a cotangent with a tangent."""
    return make_program(
        f"{along.name}_paired",
        (*along.inputs, cotangent),
        pairing(Tensor(terms.Input(cotangent)), Tensor(along.body)).node,
        along.assumptions,
    )


def _gradient_program(program: Program, collected: Expr, directions: Sequence[Array], cotangent: Array) -> Program:
    """Return the first operands of the pairings of a collected term, in the order of the directions."""
    lets: list[terms.Let] = []
    while isinstance(collected, terms.Let):
        lets.append(collected)
        collected = collected.body
    found: dict[str, Expr] = {}
    while not isinstance(collected, terms.Padding):
        is_sum = isinstance(collected, terms.Binary) and collected.op == "add"
        last = collected.right if is_sum else collected
        rank, y = 0, last
        while isinstance(y, terms.Reduce):
            y, rank = y.body, rank + 1
        assert isinstance(y, terms.Binary)
        y, v = y.left, y.right
        for _ in range(rank):
            y, v = y.tensor, v.tensor
        found[v.array.name] = shift_term(y, -rank)
        if not is_sum:
            break
        collected = collected.left
    each = [
        found.get(array.name, terms.Padding(terms.Input(array).type)) for array in directions
    ]
    if len(each) == 1:
        body, several = each[0], ()
    else:
        made = results(**{array.name: Tensor(e) for array, e in zip(directions, each, strict=True)})
        body, several = made.tensor.node, made.each
    for let in reversed(lets):
        body = terms.Let(let.value, body, let.name, let.mark)
    return make_program(f"{program.name}_gradient", (*program.inputs, cotangent), body, program.assumptions, several)
