"""C text raised to a program, for all sizes: the kernel of rewrites is then asked whether both are equal.

The loops of a text are read as terms:

| C | term |
|---|---|
| a loop in which each iteration stores another element | a generation |
| a loop that adds to a cell or variable | a sum, also of products and, for `a < b ? b : a`, maxima |
| a store or an addition under a condition | a guard or a selection |
| an array or variable that is read later | its elements, substituted |

An index is read as an integer without bounds. So the theorem is about the text as far as indices fit into 64 bits,
which the calls of a kernel check and its validation executes. A quotient has to be proved to be rounded down. The
reader is trusted: it parses and finds types as `lowering.validation` does, and knows nothing of the printer.
"""

from __future__ import annotations

from atl.core.program import Program
from atl.errors import NotInSubset
from lowering.kernel import Kernel
from lowering.kernel_text import interface
from lowering.normalize import normalize
from lowering.validation.interface import Interface
from rewrites.equations import prove_by_evaluation
from rewrites.errors import NotFound, NotRaised
from rewrites.kernel import Theorem
from rewrites.raising.program import raised_program
from rewrites.session.session import reschedule


def prove_normal_form(program: Program) -> Theorem:
    """Prove that a program equals its normal form, which is translated to a loop nest: program = normal form.

    Raises `NotFound` if there is no proof, for instance because indices are read from an input.

    >>> import atl
    >>> from rewrites.raising import prove_normal_form
    >>> n = atl.sizes("n")
    >>> x, y = atl.tensor("x", n), atl.tensor("y", n)
    >>> print(prove_normal_form(atl.program("total", [x, y], x + 2 * y)).rhs)
    total (x : float32[n], y : float32[n]) : float32[n] :=
      ⊞[i < n] x[i] + 2 * y[i]
    """
    session = reschedule(program)
    work = session.begin()
    normal = normalize(program)
    why = prove_by_evaluation(work, normal)
    if why is not None:
        raise NotFound(
            f"no proof was found that {program.name} equals its normal form: {why}",
            left=str(program), right=str(normal), difference="", required="programs whose elements are decided",
        )  # fmt: skip
    return session.record("normal form", work).theorem


def prove_text(kernel: Kernel) -> Theorem:
    """Prove that the C text of a kernel computes its program, for all sizes: the theorem program = raised text.

    Raises `NotRaised` with the statement that cannot be read as a term, and `NotFound` if no proof is found.

    >>> import atl
    >>> from rewrites.raising import prove_text
    >>> n, m = atl.sizes("n m")
    >>> A = atl.tensor("A", n, m)
    >>> kernel = atl.compile(atl.program("rows", [A], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j]))))
    >>> print(prove_text(kernel).rhs)
    rows (A : float32[n, m]) : float32[n] :=
      ⊞[i < n] Σ[i1 < m] A[i, i1]
    """
    of = interface(kernel.program, kernel.nest, kernel.source, kernel.nest.name)
    return prove_interface(of)


def prove_interface(of: Interface) -> Theorem:
    """Prove that a text computes its program. Raises `NotRaised` and `NotFound`."""
    return reschedule(of.program).equal_to(raised(of))


def raised(of: Interface) -> Program:
    """Return the program that a text computes, with the inputs of its own. Raises `NotRaised`."""
    if of.calls:
        raise NotRaised(
            f"the text of {of.name} calls {', '.join(of.calls)}, which is not read",
            required="a kernel without calls of instructions and libraries",
            suggestions=("prove the same program without these calls",),
        )
    try:
        return raised_program(of)
    except NotInSubset as error:
        raise NotRaised(f"the C text of {of.name} is not read: {error.summary}", required=error.required) from None
