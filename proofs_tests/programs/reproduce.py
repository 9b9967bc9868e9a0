"""Python source that rebuilds a program with the public operators, and scripts that run a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from atl.core import dtypes, terms
from atl.core import index as ix
from atl.core.predicate import All, NonNegative, NonZero, Predicate, Zero, expressions
from atl.core.predicate import Any as AnyOf
from atl.core.program import Program, is_bool_array
from atl.core.traversal import amounts, indices_in, subterms
from lowering.targets.capabilities import marked_binders

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_FUNCTIONS = {"min": "atl.minimum", "max": "atl.maximum"}


def as_python(program: Program) -> str:
    """Return statements that assign to `program` an equal program with the same marks; names may differ.

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
    """Return a script that builds the program, its sizes and arrays, and compares all ways to run it."""
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


def _sizes(program: Program) -> list[ix.Size]:
    found = [e for array in program.inputs for e in array.shape]
    for term in subterms(program.body):
        found += indices_in(term)
    for assumption in program.assumptions:
        found += expressions(assumption)
    return sorted(
        {atom for e in found for atom in ix.atoms(e) if isinstance(atom, ix.Size)}, key=lambda size: size.minimum
    )


def _truth(element: ix.Index) -> ix.Read | None:
    """Return the element of a boolean input that the expression is, if any."""
    atom = element.atom
    return atom if isinstance(atom, ix.Read) and is_bool_array(atom.array) else None


def _declaration(writer: _Writer, array: ix.Array) -> str:
    parts = [f'"{array.name}"', *(writer.index(extent) for extent in array.shape), f'dtype="{array.dtype}"']
    if array.low is not None and array.high is not None and not is_bool_array(array):
        parts.append(f"range=({writer.index(array.low)}, {writer.index(array.high)})")
    if array.monotonic:
        order = f'"{array.monotonic}"'
        parts.append(f"monotonic={order}" if array.between is None else f"monotonic=({order}, {array.between.name})")
    return f"{array.name} = atl.tensor({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class _Writer:
    """Printer of terms with names in scope; bound indices and tensors are named by de Bruijn index."""

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

    def term(self, e: terms.Expr) -> str:
        match e:
            case terms.Input(array):
                return array.name
            case terms.Local(position):
                return self.tensors[-1 - position]
            case terms.TensorVar() | terms.Metavariable() | terms.Padding():
                raise ValueError(f"{type(e).__name__} is not written by a person")
            case terms.Constant(value):
                return f'atl.cast("{e.type.dtype or dtypes.DEFAULT}", {value!r})'
            case terms.Value(position):
                return f'atl.cast("{e.type.dtype or dtypes.DEFAULT}", atl.value({self.index(position)}))'
            case terms.Gen(low, high, body, name):
                return f"atl.gen({self.bounds(low, high)}, {self.under(name, body)})"
            case terms.Reduce(monoid, low, high, body, name):
                head = "atl.sum(" if monoid == "sum" else f'atl.reduce("{monoid}", '
                return f"{head}{self.bounds(low, high)}, {self.under(name, body)})"
            case terms.Guard(predicate, body):
                return f"atl.guard({self.predicate(predicate)}, {self.term(body)})"
            case terms.Let(value, body, name):
                fresh = self.fresh(name)
                return f"atl.let({self.term(value)}, lambda {fresh}: {self.with_tensor(fresh).term(body)})"
            case terms.Access(tensor, position):
                return f"{self.term(tensor)}[{self.index(position)}]"
            case terms.Unary(op, operand):
                return f"(-{self.term(operand)})" if op == "neg" else f"atl.{op}({self.term(operand)})"
            case terms.Binary(op, left, right):
                if op in _FUNCTIONS:
                    return f"{_FUNCTIONS[op]}({self.term(left)}, {self.term(right)})"
                return f"({self.term(left)} {_OPERATORS[op]} {self.term(right)})"
            case terms.Select(predicate, left, right):
                return f"atl.select({self.predicate(predicate)}, {self.term(left)}, {self.term(right)})"
            case terms.Cast(dtype, operand):
                return f'atl.cast("{dtype}", {self.term(operand)})'
            case terms.Concat(left, right):
                return f"atl.concat({self.term(left)}, {self.term(right)})"
            case terms.Reshape(op, operand):
                return f"{self.reshape(op)}{self.term(operand)})"
            case _:
                assert_never(e)

    def under(self, hint: str, body: terms.Expr) -> str:
        name = self.fresh(hint)
        return f"lambda {name}: {self.with_index(name).term(body)}"

    def bounds(self, low: ix.Index, high: ix.Index) -> str:
        return self.index(high) if low.constant == 0 else f"({self.index(low)}, {self.index(high)})"

    def reshape(self, op: terms.ReshapeOp) -> str:
        by = "".join(f"{self.index(amount)}, " for amount in amounts(op))
        return f"atl.{op.form.word}({by}"

    def index(self, e: ix.Index) -> str:
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
            case ix.Size(name):
                return name
            case ix.Bound(position):
                return self.indices[-1 - position]
            case ix.Quotient(numerator, denominator):
                return f"(({self.index(numerator)}) // ({self.index(denominator)}))"
            case ix.Extremum(kind, choices):
                return f"atl.i{kind}({', '.join(map(self.index, choices))})"
            case ix.Xor(parts):
                return "(" + " ^ ".join(f"({self.index(part)})" for part in parts) + ")"
            case ix.Read(array, positions):
                # The minimum of one element is that element, as an index.
                return f"atl.imin({array.name}[{', '.join(map(self.index, positions))}])"
            case ix.Var(_, name):
                raise ValueError(f"the index {name} is open")
            case _:
                raise ValueError(f"{atom!r} is no atom")

    def truth(self, element: ix.Read) -> str:
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
