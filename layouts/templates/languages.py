"""Index expressions in Triton, CUDA, C and MLIR.

Indices are at least 0. In these languages quotients and remainders round towards 0, while ours round towards minus
infinity. So a numerator that is not known to be at least 0 is printed in a longer form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, assert_never, get_args

from atl.text import index_notation
from layouts.errors import TemplateError

Language: TypeAlias = Literal["triton", "cuda", "c", "mlir"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)

Sign: TypeAlias = Callable[[index_notation.IndexSyntax], bool]
"""A predicate: is an expression known to be at least 0?"""

_SUM, _PRODUCT, _OPERAND = range(3)


def raised(left: index_notation.IndexSyntax, right: index_notation.IndexSyntax) -> index_notation.IndexSyntax:
    """Return the numerator that turns rounding up into rounding down."""
    if isinstance(right, index_notation.Number):
        return index_notation.Sum(((False, left), (False, index_notation.Number(right.value - 1))))
    return index_notation.Sum(((False, left), (False, right), (True, index_notation.Number(1))))


@dataclass(frozen=True, slots=True)
class Infix:
    """Printer for languages with infix operators: C, CUDA, Triton's Python."""

    language: Language
    not_negative: Sign
    spelled: Mapping[str, str] = field(default_factory=dict)
    """The text printed for a name, such as a Triton range or a thread index."""

    def text(self, written: index_notation.IndexSyntax, at_least: int = _SUM) -> str:
        """Return the text, in parentheses if it binds less tightly than `at_least`."""
        text, binds = self._text(written)
        return text if binds >= at_least else f"({text})"

    def _text(self, written: index_notation.IndexSyntax) -> tuple[str, int]:
        match written:
            case index_notation.Number(value):
                return str(value), _OPERAND if value >= 0 else _SUM
            case index_notation.Name(name):
                return self.spelled.get(name, name), _OPERAND
            case index_notation.Sum(terms):
                out = ["-"] if terms[0][0] else []
                for position, (taken, term) in enumerate(terms):
                    out += [" - " if taken else " + "] if position else []
                    out.append(self.text(term, _OPERAND if taken else _PRODUCT))
                return "".join(out), _SUM
            case index_notation.Product(factors):
                return "*".join(self.text(factor, _OPERAND) for factor in factors), _PRODUCT
            case index_notation.Division(kind, left, right):
                return self._division(kind, left, right), _PRODUCT
            case index_notation.Extreme(kind, choices):
                return self._extreme(kind, choices), _OPERAND
            case index_notation.Element(array, _):
                raise _unwritten(f"an index that reads the array {array}")
            case _:
                assert_never(written)

    def _division(self, kind: str, left: index_notation.IndexSyntax, right: index_notation.IndexSyntax) -> str:
        if kind == "ceiling":
            return self._division("floor", raised(left, right), right)
        over = "//" if self.language == "triton" else "/"
        above, below = self.text(left, _OPERAND), self.text(right, _OPERAND)
        if self.not_negative(left):
            return f"{above} {over if kind == 'floor' else '%'} {below}"
        rest = f"({above} % {below} + {below}) % {below}"
        return rest if kind == "remainder" else f"({above} - {rest}) {over} {below}"

    def _extreme(self, kind: Literal["min", "max", "xor"], choices: tuple[index_notation.IndexSyntax, ...]) -> str:
        if kind == "xor":
            return f"({' ^ '.join(self.text(choice, _OPERAND) for choice in choices)})"
        text = self.text(choices[0])
        for choice in map(self.text, choices[1:]):
            if self.language == "triton":
                text = f"tl.{kind}imum({text}, {choice})"
            elif self.language == "cuda":
                text = f"{kind}({text}, {choice})"
            else:
                text = f"(({text}) {'<' if kind == 'min' else '>'} ({choice}) ? ({text}) : ({choice}))"
        return text

    def condition(self, condition: index_notation.Condition) -> str:
        """Return the text of a condition, with parentheses."""
        word = " & " if self.language == "triton" else " && "
        match condition:
            case index_notation.Truth(value):
                return ("True" if value else "False") if self.language == "triton" else str(int(value))
            case index_notation.Comparison(operands, relations):
                pairs = zip(operands, relations, operands[1:], strict=False)
                parts = [f"({self.text(a)} {_SIGN[sign]} {self.text(b)})" for a, sign, b in pairs]
                return parts[0] if len(parts) == 1 else f"({word.join(parts)})"
            case index_notation.BooleanOp(every, conditions):
                joint = word if every else word.replace("&", "|")
                return f"({joint.join(map(self.condition, conditions))})"
            case index_notation.BooleanAtom(name, _, _, _):
                raise _unwritten(f"a condition that reads {name}")
            case _:
                assert_never(condition)


_SIGN: Final = {"<": "<", "<=": "<=", "=": "==", "!=": "!="}


@dataclass(slots=True)
class Static:
    """Printer for MLIR: a line for each operation of `arith` on `index`; equal operations are printed once."""

    not_negative: Sign
    names: Iterator[str]
    spelled: Mapping[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)

    def value(self, written: index_notation.IndexSyntax) -> str:
        """Return the name of the value, after appending the lines that compute it."""
        match written:
            case index_notation.Number(value):
                return self._line(f"arith.constant {value} : index")
            case index_notation.Name(name):
                return f"%{self.spelled.get(name, name)}"
            case index_notation.Sum(terms):
                total = self.value(terms[0][1])
                if terms[0][0]:
                    total = self._two("subi", self.value(index_notation.Number(0)), total)
                for taken, term in terms[1:]:
                    total = self._two("subi" if taken else "addi", total, self.value(term))
                return total
            case index_notation.Product(factors):
                return self._fold(lambda a, b: self._two("muli", a, b), factors)
            case index_notation.Division(kind, left, right):
                return self._division(kind, left, right)
            case index_notation.Extreme("xor", choices):
                return self._fold(lambda a, b: self._two("xori", a, b), choices)
            case index_notation.Extreme(kind, choices):
                return self._fold(lambda a, b: self._extreme("slt" if kind == "min" else "sgt", a, b), choices)
            case index_notation.Element(array, _):
                raise _unwritten(f"an index that reads the array {array}")
            case _:
                assert_never(written)

    def _division(self, kind: str, left: index_notation.IndexSyntax, right: index_notation.IndexSyntax) -> str:
        if kind == "ceiling":
            return self._division("floor", raised(left, right), right)
        above, below = self.value(left), self.value(right)
        known = self.not_negative(left)
        if kind == "floor":
            return self._two("divsi" if known else "floordivsi", above, below)
        if known:
            return self._two("remsi", above, below)
        return self._two("subi", above, self._two("muli", self._two("floordivsi", above, below), below))

    def _extreme(self, relation: str, a: str, b: str) -> str:
        which = self._line(f"arith.cmpi {relation}, {a}, {b} : index")
        return self._line(f"arith.select {which}, {a}, {b} : index")

    def _fold(self, of: Callable[[str, str], str], parts: tuple[index_notation.IndexSyntax, ...]) -> str:
        made = self.value(parts[0])
        for part in parts[1:]:
            made = of(made, self.value(part))
        return made

    def _two(self, operation: str, a: str, b: str) -> str:
        return self._line(f"arith.{operation} {a}, {b} : index")

    def _line(self, operation: str) -> str:
        if operation not in self.held:
            self.held[operation] = f"%{next(self.names)}"
            self.lines.append(f"{self.held[operation]} = {operation}")
        return self.held[operation]


def _unwritten(what: str) -> TemplateError:
    return TemplateError(f"{what} cannot be printed", required="sizes and digits only")
