"""Registry of instructions by name: the built-in ones and those of users."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from atl.core.program import Program
from atl.errors import InvalidArgument, UnknownMark, brief, did_you_mean
from atl.parsing.parse import parse_predicate
from atl.surface.program import program
from atl.surface.values import Condition
from lowering.instructions import blas, dot_products, systolic, tensor_cores
from lowering.instructions.instruction import Instruction

BUILT_IN: Final[Mapping[str, Instruction]] = {
    each.name: each
    for each in (*tensor_cores.INSTRUCTIONS, *dot_products.INSTRUCTIONS, *blas.INSTRUCTIONS, *systolic.INSTRUCTIONS)
}
_declared: Final[dict[str, Instruction]] = {}


def declare_instruction(instruction: Instruction) -> Instruction:
    """Make an instruction known by its name, so that sums may be marked with it; return it.

    A later declaration replaces an instruction of this name. Kernels that are compiled already keep their text.

    Raises `InvalidArgument` if a built-in instruction has this name.
    """
    if not isinstance(instruction, Instruction):
        raise InvalidArgument(f"{brief(instruction)} is not an instruction", required="an atl.Instruction")
    name = instruction.name
    if BUILT_IN.get(name, instruction) != instruction or name == systolic.CLEAR:
        raise InvalidArgument(f"{name} is a built-in instruction", required=f"a name other than {', '.join(BUILT_IN)}")
    _declared[name] = instruction
    return instruction


def instruction(
    *,
    text: str | None = None,
    source: str | os.PathLike[str] | None = None,
    target: str = "c",
    given: str = "",
    **options: Any,
) -> Callable[[Callable[..., Any] | Program], Instruction]:
    """Declare the decorated function as an instruction: the function returns the term that the instruction computes.

    Its annotations declare the operands, as for `atl.program`; a program may be given in place of a function. The
    text of the C function is `text`, or the content of the file `source`; a relative path is looked up beside the file
    of the decorated function. Headers beside that file (`#include "my.h"`) become part of the text.
    An instruction of the target systolic has a function `emulate=…` in place of a text.
    `given` is a condition on sizes, such as "k <= 128", and the other options are the fields of `Instruction`.

    >>> import atl
    >>> @atl.instruction(text="static void halves(float *out, const float *x, int64_t n) {…}", result="stored")
    ... def halves(x: atl.Tensor["n"]):
    ...     return 0.5 * x
    >>> halves
    <Instruction halves: elements of any size, for c>

    Raises `InvalidArgument`.
    """

    def declared(function: Callable[..., Any] | Program) -> Instruction:
        conditions = [Condition(parse_predicate(given))] if given else []
        made = function if isinstance(function, Program) else program(given=conditions)(function)
        if isinstance(function, Program) and given:
            raise InvalidArgument(f"given={given!r} for a program", required="the condition in the program")
        own = "" if target == systolic.TARGET and text is source is None else _text(function, text, source)
        return declare_instruction(Instruction(made.name, made, target, own, **options))

    unknown = sorted(options.keys() - {each.name for each in fields(Instruction)})
    for name in unknown:
        raise InvalidArgument(
            f"an instruction has no field {name}",
            required=", ".join(each.name for each in fields(Instruction)),
            suggestions=did_you_mean(name, [each.name for each in fields(Instruction)]),
        )
    return declared


def _text(function: Callable[..., Any] | Program, text: str | None, source: str | os.PathLike[str] | None) -> str:
    if (text is None) == (source is None):
        raise InvalidArgument(
            f"text={brief(text)} and source={brief(source)}", required="either the C text or the path of a file with it"
        )
    if text is not None:
        return text
    assert source is not None
    path = Path(os.fspath(source))
    if not path.is_absolute() and not isinstance(function, Program):
        path = Path(function.__code__.co_filename).parent / path
    try:
        return _with_headers(path, set())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"the source {path} of an instruction cannot be read: {error}", required="a text file with a C function"
        ) from None


_INCLUDE: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"\n]+)"[^\n]*$', re.MULTILINE)


def _with_headers(path: Path, included: set[Path]) -> str:
    """Return the content of a file, in which the headers beside it replace their first includes."""

    def content(found: re.Match[str]) -> str:
        header = path.parent / found[1]
        if not header.is_file():
            return found[0]
        if header.resolve() in included:
            return ""
        included.add(header.resolve())
        return _with_headers(header, included).rstrip("\n")

    return _INCLUDE.sub(content, path.read_text(encoding="utf-8"))


_IN_ORDER: Final = """\
#if defined(__clang__)
#pragma float_control(push)
#pragma clang fp reassociate(off)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("no-associative-math")
#endif
{text}
#if defined(__clang__)
#pragma float_control(pop)
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif
"""


def definition_of(instruction: Instruction) -> str:
    """Return the text of an instruction as it is compiled. The text of a user keeps the order of its operations.

    Kernels are compiled with `-fassociative-math`, which would remove, for example, a correction of rounding errors.
    """
    if instruction.target != "c" or BUILT_IN.get(instruction.name) == instruction:
        return instruction.text
    return _IN_ORDER.format(text=instruction.text.rstrip("\n"))


def instructions() -> Mapping[str, Instruction]:
    """Return the declared instructions by name."""
    return {**BUILT_IN, **_declared}


def instruction_named(name: str) -> Instruction:
    """Return a declared instruction. Raises `UnknownMark`; `InvalidArgument` if the name is not a text."""
    known = instructions()
    if not isinstance(name, str):
        raise InvalidArgument(f"an instruction named {brief(name)}", required=f"one of {', '.join(known)}")
    if name not in known:
        raise UnknownMark(
            f"unknown instruction {brief(name)}",
            required=f"one of {', '.join(known)}, or one of your own: atl.declare_instruction(atl.Instruction(…))",
            suggestions=did_you_mean(name, known),
        )
    return known[name]
