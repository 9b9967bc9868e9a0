"""A program whose input is given by other arrays: it becomes what these mean, and the steps taken so far stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from atl.checks.assembly import make_program
from atl.core.index import Array, Read, atoms
from atl.core.predicate import expressions
from atl.core.program import SparseOperand
from atl.core.substitution import with_children
from atl.core.terms import Expr, Input, Let
from atl.core.traversal import children, indices_in, subterms
from atl.errors import InvalidArgument, brief
from rewrites import kernel
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply, unknown_name
from rewrites.instantiation import Argument, Function, is_term
from rewrites.kernel import Theorem
from rewrites.rule import Rule
from rewrites.tactics.storage.binding import abstracted


@dataclass(frozen=True, slots=True)
class Given:
    """What an input is made of: the inputs in its place, which a call passes, and the tensor that they mean."""

    inputs: tuple[Array, ...]
    meaning: Expr


@dataclass(frozen=True, slots=True)
class Operand(Given):
    """An input that a call passes as one object."""

    packed: SparseOperand

    @property
    def of_result(self) -> SparseOperand:
        """The packed operand that says that the result is stored as it is.

        What values mean in the place of its own, the last of the inputs, is a body for the let that binds them.
        """
        return replace(self.packed, result=abstracted(self.meaning, Input(self.inputs[-1]), 0, 0))


class InputForm(Protocol):
    """How a tensor is given by arrays. A value from above: this room knows no format and no layout."""

    def operand(self, array: Array, taken: Collection[str]) -> Given:
        """The arrays for an input, with names that are not taken, and what they mean."""


class OperandFormat(Protocol):
    """How a tensor is given by arrays that a call passes as one object."""

    def operand(self, array: Array, taken: Collection[str], *, distinct: bool = False) -> Operand:
        """The arrays for an input, with names that are not taken, what they mean, and how a call passes them.

        If `distinct` is true, they are declared such that no two entries share a position.
        """


@dataclass(frozen=True, slots=True)
class OfResult:
    """A format in which the result is stored too, as the operand is."""

    form: OperandFormat

    def operand(self, array: Array, taken: Collection[str]) -> Operand:
        """As that of the format; no two entries have one position."""
        made = self.form.operand(array, taken, distinct=True)
        return replace(made, packed=made.of_result)


def given_as(theorem: Theorem, name: str, form: InputForm, rules: Mapping[str, Rule]) -> Theorem:
    """The theorem about the program in which the input `name` is what the arrays of a format mean.

    f (A) = g (A) becomes  let A := meaning in f (A)  =  g (meaning): the let is unfolded, then the steps are taken
    again. A closed term in the place of an input moves no path.
    """
    if not isinstance(name, str):
        raise InvalidArgument(f"{brief(name)} names no input", required="the name of an input, a text")
    if not callable(getattr(form.form if isinstance(form, OfResult) else form, "operand", None)):
        raise InvalidArgument(f"{brief(form)} is not a sparse format", required="a format, such as sparse.CSR")
    start = theorem.lhs
    array = next((each for each in start.inputs if each.name == name), None)
    if array is None:
        raise unknown_name("input", name, [each.name for each in start.inputs], required="the name of an input")
    holder = next((packed for packed in start.packed if name in packed.arrays), None)
    if holder is not None:
        raise InvalidArgument(
            f"{name} is one of the arrays of {holder.name}, which a call passes as one object",
            required="an input that is passed by itself",
        )
    _check_not_read(theorem, array)
    made = form.operand(array, {*start.sizes, *(each.name for each in start.inputs)})
    at = start.inputs.index(array)
    inputs = (*start.inputs[:at], *made.inputs, *start.inputs[at + 1 :])
    body = Let(made.meaning, abstracted(start.body, Input(array), 0, 0), name)
    program = make_program(start.name, inputs, body, start.assumptions, start.results)
    packed = (*start.packed, made.packed) if isinstance(made, Operand) else start.packed
    work = Derivation(kernel.reflexivity(replace(program, packed=packed)), rules)
    work.rewrite("unfold_let", ())
    out = work.theorem
    for step in theorem.steps:
        arguments = {key: _argument(argument, array, made.meaning) for key, argument in step.arguments.items()}
        out = kernel.rewrite(out, step.rule, step.path, arguments, reverse=step.reverse)
    # With the names and marks that have been given since.
    return kernel.with_names_and_marks(out, _replaced(theorem.rhs.body, array, made.meaning))


def _check_not_read(theorem: Theorem, array: Array) -> None:
    """Raises `DoesNotApply` where an index or a condition speaks of the input's elements: they are no tensor there."""
    stated = [*(e for each in theorem.lhs.assumptions for e in expressions(each))]
    stated += [extent for result in theorem.lhs.results for extent in result.shape]
    stated += [e for program in (theorem.lhs, theorem.rhs) for term in subterms(program.body) for e in indices_in(term)]
    if not any(isinstance(atom, Read) and atom.array == array for e in stated for atom in atoms(e)):
        return
    name = array.name
    if array.dtype == "bool":
        raise DoesNotApply(
            f"the truth values of {name} are read in conditions",
            required="an input of numbers, of which elements are only computed with",
            suggestions=(
                f'declare it of numbers, dtype="float64", with {name}[…] * e in the place of guard({name}[…], e)',
                f"a call is passed {name}.astype(np.float64) then",
            ),
        )
    raise DoesNotApply(
        f"elements of {name} are used as indices, or in conditions",
        required="an input of which elements are only computed with",
    )


def _argument(argument: Argument, array: Array, meaning: Expr) -> Argument:
    if isinstance(argument, Function):
        body = argument.body
        return Function(argument.parameters, _replaced(body, array, meaning)) if is_term(body) else argument
    return _replaced(argument, array, meaning) if is_term(argument) else argument


def _replaced(term: Expr, array: Array, meaning: Expr) -> Expr:
    """The term with the input replaced by what it means, which is closed."""
    if isinstance(term, Input):
        return meaning if term.array == array else term
    found = children(term)
    parts = tuple(_replaced(child.expr, array, meaning) for child in found)
    return term if all(a is b.expr for a, b in zip(parts, found, strict=True)) else with_children(term, parts)


__all__ = ["Given", "InputForm", "Operand", "OperandFormat", "given_as"]
