"""C text to syntax trees: the preprocessor, and the extensions of GNU C that pycparser does not read.

Comments and directives are removed, and conditionals are decided for a compiler like gcc 14 on a processor without
instruction sets. Attributes are read from typedefs of vectors and removed elsewhere. `__typeof__(e)` becomes a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from atl.errors import NotInSubset
from lowering.validation.types import NUMBERS

MACROS: Final[Mapping[str, int]] = {"__GNUC__": 14, "__STDC_VERSION__": 201112}
"""Macros that are defined, with their values."""
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DEFINED: Final = re.compile(r"defined\s*\(?\s*(\w+)\s*\)?")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_CONDITION: Final = re.compile(r"(?:True|False|and|or|not|\d+|[<>=()!\s])*")
_TYPES: Final = "".join(
    f"typedef int {name};\n" for name in NUMBERS if name not in ("int", "long", "float", "double", "unsigned")
)
_ALIAS: Final = re.compile(r"(\w+)\(([\w\s,.]*)\)\s+(\w+)\(([\w\s,.]*)\)\s*$")


@dataclass(slots=True)
class Source:
    """A file of C: its syntax tree, the sizes and alignments of vector types, and the operands of `__typeof__`.

    `aliases` are macros that only rename a function.
    """

    tree: Any
    vectors: dict[str, tuple[int, int]] = field(default_factory=dict)
    typeofs: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


@lru_cache(maxsize=64)
def read_source(text: str) -> Source:
    """Parse C text. Raises `NotInSubset` for text that is not read."""
    from pycparser import CParser
    from pycparser.c_parser import ParseError

    found = Source(None)
    plain = _preprocessed(text, found)
    plain = _without_attributes(plain, found)
    operands: dict[str, str] = {}
    plain = _without_typeof(plain, operands)
    names = "".join(f"typedef int {name};\n" for name in operands)
    try:
        found.tree = CParser().parse(f'{_TYPES}{names}# 1 "text"\n{plain}', "text")
        for name, operand in operands.items():
            found.typeofs[name] = CParser().parse(f"{_TYPES}int x = {operand};", "typeof").ext[-1].init
    except ParseError as error:
        place, _, what = str(error).partition(": ")
        line = place.split(":")[1] if place.count(":") else "?"
        raise NotInSubset(
            f"line {line} of the C text cannot be read: {what or place}",
            required="C without intrinsics and assembly",
            suggestions=("test this kernel by running it",),
        ) from None
    return found


# -- the preprocessor -------------------------------------------------------------------------------------------------


def _preprocessed(text: str, found: Source) -> str:
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
    out: list[str] = []
    taken: list[tuple[bool, bool]] = []
    """For each conditional: whether this branch is read, and whether an earlier one was."""
    continued = False
    for line in text.split("\n"):
        word, _, rest = line.strip().partition(" ")
        reads = all(now for now, _ in taken)
        if not word.startswith("#") and not continued:
            out.append(line if reads else "")
            continue
        continued = line.endswith("\\")
        out.append("")
        if continued:
            if reads:
                raise NotInSubset(f"a directive of several lines: {line.strip()}", required="directives of one line")
            continue
        if word in ("#if", "#ifdef", "#ifndef"):
            holds = reads and (_holds(rest) if word == "#if" else (rest.strip() in MACROS) == (word == "#ifdef"))
            taken.append((holds, holds or not reads))
        elif word == "#elif":
            _, before = taken.pop()
            holds = not before and _holds(rest)
            taken.append((holds, before or holds))
        elif word == "#else":
            _, before = taken.pop()
            taken.append((not before, True))
        elif word == "#endif":
            taken.pop()
        elif word == "#define" and reads:
            alias = _ALIAS.match(rest)
            if alias is None or alias[2].replace("...", "__VA_ARGS__") != alias[4]:
                raise NotInSubset(
                    f"the macro {rest}",
                    required="macros that rename a function",
                    suggestions=("test this kernel by running it",),
                )
            found.aliases[alias[1]] = alias[3]
        elif word == "#error" and reads:
            raise NotInSubset(f"the text refuses this compiler: {rest}", required="text for gcc 14")
        elif reads and word not in ("#include", "#pragma"):
            raise NotInSubset(f"the directive {line.strip()}", required="#if, #include, #define or #pragma")
    return "\n".join(out)


def _holds(condition: str) -> bool:
    text = _DEFINED.sub(lambda match: str(match[1] in MACROS), condition)
    text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or "))
    text = re.sub(r"(\d+)[uUlL]+", r"\1", text)
    text = _WORD.sub(
        lambda m: m[0] if m[0] in ("True", "False", "and", "or", "not") else str(MACROS.get(m[0], 0)), text
    )
    if not _CONDITION.fullmatch(text):
        raise NotInSubset(f"the condition #if {condition}", required="macros, numbers and comparisons")
    return bool(eval(text.strip(), {"__builtins__": {}}))


# -- extensions -------------------------------------------------------------------------------------------------------


def _closing(text: str, at: int) -> int:
    """Return the position after the parenthesis that closes the one at this position."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if not depth:
            return end + 1
    raise NotInSubset("a parenthesis is not closed", required="balanced parentheses")


def _without_attributes(text: str, found: Source) -> str:
    while (at := text.find("__attribute__")) >= 0:
        end = _closing(text, text.index("(", at))
        attributes = text[at:end]
        if size := re.search(r"vector_size\s*\((\d+)\)", attributes):
            aligned = re.search(r"aligned\s*\((\d+)\)", attributes)
            # The name is before the attributes, or after them.
            before = re.search(r"(\w+)\s*$", text[:at])
            assert before is not None
            found.vectors[before[1]] = int(size[1]), int(aligned[1]) if aligned else int(size[1])
        text = text[:at] + text[end:]
    return text


def _without_typeof(text: str, operands: dict[str, str]) -> str:
    while match := re.search(r"__typeof__\s*\(", text):
        end = _closing(text, match.end() - 1)
        name = f"typeof_{len(operands)}"
        operands[name] = text[match.end() : end - 1]
        text = text[: match.start()] + name + text[end:]
    return text
