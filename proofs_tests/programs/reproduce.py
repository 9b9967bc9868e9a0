"""A program as Python source that rebuilds it with the public operators, and a case as a script that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from atl.core import dtypes
from atl.core.declared import is_bool_array
from atl.core.index import Array, Bound, Extremum, Index, Quotient, Read, Size, Var, Xor, atoms
from atl.core.predicate import All, NonNegative, NonZero, Predicate, Zero, expressions
from atl.core.predicate import Any as AnyOf
from atl.core.program import Program
from atl.core.terms import (
    Access,
    Binary,
    Cast,
    Concat,
    Constant,
    Expr,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Metavariable,
    Padding,
    Reduce,
    Reshape,
    ReshapeOp,
    Select,
    TensorVar,
    Unary,
    Value,
)
from atl.core.traversal import amounts, indices_in, subterms
from lowering.targets.capabilities import marked_binders

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_FUNCTIONS = {"min": "atl.minimum", "max": "atl.maximum"}


def as_python(program: Program) -> str:
    """Statements that leave in `program` a program equal to this one, with the marks of its loops; names may differ.

    >>> import atl
    >>> from proofs_tests.programs.reproduce import as_python
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> print(as_python(atl.program("twice", [x], atl.gen(n, lambda i: 2 * x[i]))))
    import atl
    <BLANKLINE>
    n = atl.sizes("n")
    x = atl.tensor("x", n, dtype="float32")
    program = atl.program("twice", [x], atl.gen(n, lambda i: (atl.cast("float32", 2) * x[i])))
    """
    writer = _Writer(frozenset((*program.sizes, *(array.name for array in program.inputs), "atl", "np", "program")))
    lines = ["import atl", ""]
    least = {size.name: size.minimum for size in _sizes(program)}
    minima = {size: f", min={least[size]}" if least.get(size) else "" for size in program.sizes}
    lines += [f'{size} = atl.sizes("{size}"{minimum})' for size, minimum in minima.items()]
    lines += [_declaration(writer, array) for array in program.inputs]
    inputs = ", ".join(array.name for array in program.inputs)
    given = ", ".join(writer.predicate(assumption) for assumption in program.assumptions)
    assumed = f", given=[{given}]" if given else ""
    lines.append(f'program = atl.program("{program.name}", [{inputs}], {writer.term(program.body)}{assumed})')
    marks = {binder.path: binder.mark.value for binder in marked_binders(program)}
    if marks:
        lines += [
            "",
            "from proofs_tests.programs.random_marks import with_marks",
            "",
            f"program = with_marks(program, {marks})",
        ]
    return "\n".join(lines)


def as_script(program: Program, sizes: Mapping[str, int], arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """A script that builds the program, its sizes and arrays, and compares all ways to run it."""
    held = "".join(f'    "{name}": {_literal(array)},\n' for name, array in arrays.items())
    return (
        f"{as_python(program)}\n\n"
        f"import numpy as np\n"
        f"from proofs_tests.programs.agreement import compare\n\n"
        f"arrays = {{\n{held}}}\n"
        f"print(compare(program, {dict(sizes)}, arrays))\n"
    )


def _literal(array: npt.NDArray[Any]) -> str:
    shape = "" if array.ndim == 1 and array.size else f".reshape({array.shape})"
    return f'np.array({np.ravel(array).tolist()}, dtype="{array.dtype}"){shape}'


def _sizes(program: Program) -> list[Size]:
    found = [e for array in program.inputs for e in array.shape]
    for term in subterms(program.body):
        found += indices_in(term)
    for assumption in program.assumptions:
        found += expressions(assumption)
    return sorted({atom for e in found for atom in atoms(e) if isinstance(atom, Size)}, key=lambda size: size.minimum)


def _truth(element: Index) -> Read | None:
    """The element of an input of truth values that the expression is, if it is one."""
    atom = element.atom
    return atom if isinstance(atom, Read) and is_bool_array(atom.array) else None


def _declaration(writer: _Writer, array: Array) -> str:
    parts = [f'"{array.name}"', *(writer.index(extent) for extent in array.shape), f'dtype="{array.dtype}"']
    if array.low is not None and array.high is not None and not is_bool_array(array):
        parts.append(f"range=({writer.index(array.low)}, {writer.index(array.high)})")
    if array.monotonic:
        order = f'"{array.monotonic}"'
        parts.append(f"monotonic={order}" if array.between is None else f"monotonic=({order}, {array.between.name})")
    return f"{array.name} = atl.tensor({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes terms in sight of some names; bound indices and tensors have theirs by de Bruijn position."""

    taken: frozenset[str]
    indices: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()

    def fresh(self, hint: str) -> str:
        name = hint
        number = 2
        while name in self.taken:
            name = f"{hint}{number}"
            number += 1
        return name

    def with_index(self, name: str) -> _Writer:
        return replace(self, taken=self.taken | {name}, indices=(*self.indices, name))

    def with_tensor(self, name: str) -> _Writer:
        return replace(self, taken=self.taken | {name}, tensors=(*self.tensors, name))

    # -- terms --------------------------------------------------------------------------------------------------------

    def term(self, e: Expr) -> str:
        match e:
            case Input(array):
                return array.name
            case Local(position):
                return self.tensors[-1 - position]
            case TensorVar() | Metavariable() | Padding():
                raise ValueError(f"{type(e).__name__} is not written by a person")
            case Constant(value):
                return f'atl.cast("{e.type.dtype or dtypes.DEFAULT}", {value!r})'
            case Value(position):
                return f'atl.cast("{e.type.dtype or dtypes.DEFAULT}", atl.value({self.index(position)}))'
            case Gen(low, high, body, name):
                return f"atl.gen({self.bounds(low, high)}, {self.under(name, body)})"
            case Reduce(monoid, low, high, body, name):
                head = "atl.sum(" if monoid == "sum" else f'atl.reduce("{monoid}", '
                return f"{head}{self.bounds(low, high)}, {self.under(name, body)})"
            case Guard(predicate, body):
                return f"atl.guard({self.predicate(predicate)}, {self.term(body)})"
            case Let(value, body, name):
                fresh = self.fresh(name)
                return f"atl.let({self.term(value)}, lambda {fresh}: {self.with_tensor(fresh).term(body)})"
            case Access(tensor, position):
                return f"{self.term(tensor)}[{self.index(position)}]"
            case Unary(op, operand):
                return f"(-{self.term(operand)})" if op == "neg" else f"atl.{op}({self.term(operand)})"
            case Binary(op, left, right):
                if op in _FUNCTIONS:
                    return f"{_FUNCTIONS[op]}({self.term(left)}, {self.term(right)})"
                return f"({self.term(left)} {_OPERATORS[op]} {self.term(right)})"
            case Select(predicate, left, right):
                return f"atl.select({self.predicate(predicate)}, {self.term(left)}, {self.term(right)})"
            case Cast(dtype, operand):
                return f'atl.cast("{dtype}", {self.term(operand)})'
            case Concat(left, right):
                return f"atl.concat({self.term(left)}, {self.term(right)})"
            case Reshape(op, operand):
                return f"{self.reshape(op)}{self.term(operand)})"
            case _:
                assert_never(e)

    def under(self, hint: str, body: Expr) -> str:
        name = self.fresh(hint)
        return f"lambda {name}: {self.with_index(name).term(body)}"

    def bounds(self, low: Index, high: Index) -> str:
        return self.index(high) if low.constant == 0 else f"({self.index(low)}, {self.index(high)})"

    def reshape(self, op: ReshapeOp) -> str:
        by = "".join(f"{self.index(amount)}, " for amount in amounts(op))
        return f"atl.{op.form.word}({by}"

    # -- indices and predicates ---------------------------------------------------------------------------------------

    def index(self, e: Index) -> str:
        text = ""
        for monomial, coefficient in e.terms:
            factors = [self.atom(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            product = "*".join(factors)
            text = f"{text} {sign} {product}" if text else f"{'-' if coefficient < 0 else ''}{product}"
        return text or "0"

    def atom(self, atom: object) -> str:
        match atom:
            case Size(name):
                return name
            case Bound(position):
                return self.indices[-1 - position]
            case Quotient(numerator, denominator):
                return f"(({self.index(numerator)}) // ({self.index(denominator)}))"
            case Extremum(kind, choices):
                return f"atl.i{kind}({', '.join(map(self.index, choices))})"
            case Xor(parts):
                return "(" + " ^ ".join(f"({self.index(part)})" for part in parts) + ")"
            case Read(array, positions):
                # With one choice, the least is that element, as an index.
                return f"atl.imin({array.name}[{', '.join(map(self.index, positions))}])"
            case Var(_, name):
                raise ValueError(f"the index {name} is open")
            case _:
                raise ValueError(f"{atom!r} is no atom")

    def truth(self, element: Read) -> str:
        at = ", ".join(map(self.index, element.indices))
        return f"{element.array.name}[{at}]" if at else element.array.name

    def predicate(self, predicate: Predicate) -> str:
        match predicate:
            case NonNegative(e) if (element := _truth(e + 1)) is not None:
                return f"(True & {self.truth(element)})"
            case NonNegative(e) if (element := _truth(-e)) is not None:
                return f"(~{self.truth(element)})"
            case NonNegative(e):
                return f"({self.index(e)} >= 0)"
            case Zero(e):
                return f"({self.index(e)} == 0)"
            case NonZero(e):
                return f"({self.index(e)} != 0)"
            case All(parts):
                return f"({' & '.join(map(self.predicate, parts))})" if parts else "True"
            case AnyOf(parts):
                return f"({' | '.join(map(self.predicate, parts))})" if parts else "False"
