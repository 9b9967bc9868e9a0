"""Replacing an input by the arrays of a format: the program is restated with their meaning, its steps are replayed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from atl.checks.wellformed import make_program
from atl.core.dtypes import STORED
from atl.core.index import Array, Read, atoms
from atl.core.predicate import expressions
from atl.core.program import Assembly, Sharding, SparseOperand
from atl.core.substitution import with_children
from atl.core.terms import Expr, Input, Let
from atl.core.traversal import children, indices_in, subterms
from atl.errors import DtypeError, InvalidArgument, brief
from rewrites import kernel
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply, unknown_name
from rewrites.kernel import Theorem
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument, Function, is_term
from rewrites.rule_statement import MAX_ELEMENT_RANK
from rewrites.tactics.storage.binding import abstracted


@dataclass(frozen=True, slots=True)
class Given:
    """The arrays that replace an input, and the tensor that they represent.

    An array of which each rank holds a part has a `sharding`.
    """

    inputs: tuple[Array, ...]
    meaning: Expr
    sharding: Sharding | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Operand(Given):
    """The arrays of an input that a call passes as one object."""

    packed: SparseOperand

    @property
    def of_result(self) -> SparseOperand:
        """The packed operand for a result stored in the same format.

        Its `result` is the meaning of the operand with the values, the last array, replaced by a let-bound tensor.
        """
        return replace(self.packed, result=abstracted(self.meaning, Input(self.inputs[-1]), 0, 0))


class InputForm(Protocol):
    """A representation of a tensor by arrays, such as a format or a layout."""

    def operand(self, array: Array, taken: Collection[str]) -> Given:
        """Return the arrays for an input, with names not in `taken`, and their meaning."""


class OperandFormat(Protocol):
    """A representation of a tensor by arrays that a call passes as one object."""

    def operand(self, array: Array, taken: Collection[str], *, distinct: bool = False) -> Operand:
        """Return the arrays for an input, with names not in `taken`, their meaning, and how a call passes them.

        If `distinct` is true, they are declared such that no two entries share a position.
        """


class AssembledFormat(Protocol):
    """A representation of a tensor in which a kernel can store its result."""

    def assembly(self, rank: int, *, zeros: bool = True) -> Assembly:
        """Return how a result of this rank is stored. Without `zeros`, entries with the value zero are dropped."""


@dataclass(frozen=True, slots=True)
class ResultForm:
    """A format that is used for the result as well as for the operand."""

    form: OperandFormat

    def operand(self, array: Array, taken: Collection[str]) -> Operand:
        """Return the format's operand, with distinct positions and the result's representation."""
        if array.dtype in STORED:
            raise DtypeError(
                f"the result cannot be stored like {array.name}, whose entries are {array.dtype} elements",
                required="an operand of a type that is computed with",
                suggestions=(f"s.sparsify({array.name!r}, …) without result=True, then s.assemble(…)",),
            )
        made = self.form.operand(array, taken, distinct=True)
        return replace(made, packed=made.of_result)


def with_input_form(theorem: Theorem, name: str, form: InputForm, rules: Mapping[str, Rule]) -> Theorem:
    """Restate a theorem for the program in which the input `name` is represented by the arrays of a format.

    f (A) = g (A) becomes  let A := meaning in f (A)  =  g (meaning): the let is unfolded, then the steps are replayed.
    Their paths stay valid, since an input is replaced by a closed term.
    """
    if not isinstance(name, str):
        raise InvalidArgument(
            f"{brief(name)} is not the name of an input", required="the name of an input, as a string"
        )
    if not callable(getattr(form.form if isinstance(form, ResultForm) else form, "operand", None)):
        raise InvalidArgument(f"{brief(form)} is not a sparse format", required="a format, such as sparse.CSR")
    start = theorem.lhs
    array = next((each for each in start.inputs if each.name == name), None)
    if array is None:
        raise unknown_name("input", name, [each.name for each in start.inputs], required="the name of an input")
    holder = next((packed for packed in start.packed if name in packed.arrays), None)
    if holder is not None:
        raise InvalidArgument(
            f"{name} is one of the arrays of {holder.name}, which a call passes as one object",
            required="an input that is passed separately",
        )
    _check_not_read(theorem, array)
    _check_rank(name, len(array.shape))
    _check_rank("the result", start.body.type.rank)
    made = form.operand(array, {*start.sizes, *(each.name for each in start.inputs)})
    at = start.inputs.index(array)
    inputs = (*start.inputs[:at], *made.inputs, *start.inputs[at + 1 :])
    body = Let(made.meaning, abstracted(start.body, Input(array), 0, 0), name)
    program = make_program(start.name, inputs, body, start.assumptions, start.results)
    packed = (*start.packed, made.packed) if isinstance(made, Operand) else start.packed
    kept = tuple(each for each in start.sharded if each.name != name)
    sharded = (*kept, made.sharding) if made.sharding is not None else kept
    work = Derivation(
        kernel.reflexivity(replace(program, packed=packed, sharded=sharded), strict=theorem.strict), rules
    )
    work.rewrite("unfold_let", ())
    out = work.theorem
    for step in theorem.steps:
        arguments = {key: _argument(argument, array, made.meaning) for key, argument in step.arguments.items()}
        out = kernel.rewrite(out, step.rule, step.path, arguments, reverse=step.reverse)
    # Restore the current names and marks.
    out = kernel.with_names_and_marks(out, _replaced(theorem.rhs.body, array, made.meaning))
    return kernel.with_assembly(out, theorem.rhs.assembly)


def _check_rank(what: str, rank: int) -> None:
    """Raise `DoesNotApply` if no statement of `unfold_let` is about a tensor of this rank."""
    if rank > MAX_ELEMENT_RANK:
        raise DoesNotApply(
            f"{what} has {rank} dimensions",
            required=f"at most {MAX_ELEMENT_RANK} dimensions, for which the rules are checked",
        )


def _check_not_read(theorem: Theorem, array: Array) -> None:
    """Raise `DoesNotApply` if an index or a condition reads the input's elements, where it cannot be a tensor."""
    stated = [*(e for each in theorem.lhs.assumptions for e in expressions(each))]
    stated += [extent for result in theorem.lhs.results for extent in result.shape]
    stated += [e for program in (theorem.lhs, theorem.rhs) for term in subterms(program.body) for e in indices_in(term)]
    if not any(isinstance(atom, Read) and atom.array == array for e in stated for atom in atoms(e)):
        return
    name = array.name
    if array.dtype == "bool":
        raise DoesNotApply(
            f"the truth values of {name} are read in conditions",
            required="an input of numbers that is only used in arithmetic",
            suggestions=(
                f'declare it with dtype="float64", and write {name}[…] * e instead of guard({name}[…], e)',
                f"then pass {name}.astype(np.float64)",
            ),
        )
    raise DoesNotApply(
        f"elements of {name} are used as indices, or in conditions",
        required="an input that is only used in arithmetic",
    )


def _argument(argument: Argument, array: Array, meaning: Expr) -> Argument:
    if isinstance(argument, Function):
        body = argument.body
        return Function(argument.parameters, _replaced(body, array, meaning)) if is_term(body) else argument
    return _replaced(argument, array, meaning) if is_term(argument) else argument


def _replaced(term: Expr, array: Array, meaning: Expr) -> Expr:
    """Replace the input by its meaning, which is closed."""
    if isinstance(term, Input):
        return meaning if term.array == array else term
    found = children(term)
    parts = tuple(_replaced(child.expr, array, meaning) for child in found)
    return term if all(a is b.expr for a, b in zip(parts, found, strict=True)) else with_children(term, parts)


__all__ = ["AssembledFormat", "Given", "InputForm", "Operand", "OperandFormat", "with_input_form"]
