"""Templates: text with placeholders, `{{ name }}`, that layouts fill with index expressions in its language.

Templates are rendered by jinja2 in its sandbox; undefined names are errors. The text around the placeholders is copied
unchecked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import count
from typing import Any, Final

from atl.core.index import Index, Leaf, index, map_leaves, size
from atl.core.predicate import TRUE, NonNegative, Predicate, at_most, substitute
from atl.errors import InvalidArgument, brief
from atl.surface.values import Condition, IndexExpr
from atl.text.index_notation import IndexSyntax, write_condition
from atl.text.printing import show_predicate
from layouts.errors import TemplateError
from layouts.foundation.facts import EMPTY, Known
from layouts.foundation.function import Function
from layouts.lego import Slice
from layouts.templates.forms import called, common, meaning, operations, shortest
from layouts.templates.languages import LANGUAGES, Infix, Language, Static

INDEX_TYPES: Final[Mapping[Language, str]] = {"triton": "", "c": "const int64_t ", "cuda": "const int64_t ", "mlir": ""}
"""The text before a name that is defined."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A filled template: its text, and the number of operations in the index expressions of each placeholder."""

    text: str
    operations: Mapping[str, int]

    def __str__(self) -> str:
        return self.text


def fill(template: str, language: Language, values: Mapping[str, object], *, given: Iterable[object] = ()) -> Filled:
    """Fill a template with text in its language: "triton", "cuda", "c" or "mlir".

    A placeholder holds an index expression, a slice of a layout, a condition, a number or a text. Expressions are
    printed in the form with the fewest operations among those of `layouts.templates.forms`. In Triton, each colon of a
    slice becomes a `tl.arange`. In other languages the variables of a slice keep their names, or get those that the
    slice is called with: `{{ tile("ty", "tx") }}`. `{{ define(a, b) }}` defines the common subexpressions of later
    placeholders; in MLIR all operations must be in such lines.

    `given` are conditions on sizes, and layouts whose facts are used; indices and sizes are assumed to be at least 0.
    Raises `TemplateError` for an undefined name, an unsuitable value, or an invalid template, and `InvalidArgument` if
    jinja2 or sympy is not installed.

    >>> import atl
    >>> from layouts.lego import Row, TileBy
    >>> M, K, BM, BK, i, k = atl.sizes("M K BM BK i k")
    >>> tiles = TileBy([M // BM, K // BK], [BM, BK], given=[M % BM == 0, K % BK == 0]).OrderBy(Row(M, K))
    >>> print(fill("a_ptrs = a_ptr + {{ tile }}", "triton", {"tile": tiles[i, k, :, :]}))
    a_ptrs = a_ptr + K*(BM*i + tl.arange(0, BM)[:, None]) + BK*k + tl.arange(0, BK)[None, :]
    >>> print(fill("A[{{ tile('y', 'x') }}]", "c", {"tile": tiles[i, k, :, :]}))
    A[K*(BM*i + y) + BK*k + x]
    """
    _need(template, language, values)
    known = EMPTY
    for fact in given:
        known = known.joined(fact.known) if isinstance(fact, Function) else known.given([fact])
    writer = _Writer(language, known, _names(template, values))
    held = {
        name: _Placeholder(writer, name, value) if _is_expression(value) else _plain(name, value)
        for name, value in values.items()
    }
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    try:
        text = environment.from_string(template).render(**held, define=writer.define)
    except jinja2.UndefinedError as error:
        raise TemplateError(
            f"undefined name in the template: {error}", required=f"one of {', '.join([*values, 'define'])}"
        ) from error
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(
            f"invalid template: {error.message}, line {error.lineno}", required="jinja2 syntax: {{ name }}"
        ) from error
    except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        if isinstance(error, TemplateError):
            raise
        raise TemplateError(
            f"the template fails: {error}", required="placeholders that are printed or called"
        ) from error
    return Filled(text, writer.counts)


def _need(template: object, language: object, values: object) -> None:
    if not isinstance(template, str):
        raise InvalidArgument(f"{brief(template)} is not a template", required="a text with placeholders: {{ name }}")
    if language not in LANGUAGES:
        raise InvalidArgument(f"the language {brief(language)}", required=f"one of {', '.join(LANGUAGES)}")
    if not isinstance(values, Mapping) or not all(isinstance(name, str) and name.isidentifier() for name in values):
        raise InvalidArgument(
            f"the values {brief(values)}", required="a mapping from the names in the template to values"
        )
    if "define" in values:
        raise InvalidArgument(
            "a placeholder named define", required="another name; define(…) is a function of templates"
        )
    for module in ("jinja2", "sympy"):
        if find_spec(module) is None:
            raise InvalidArgument(
                f"templates need {module}, which is not installed",
                required=f"the package {module}",
                suggestions=("pip install 'atl-tensor[layouts]'",),
            )


def _is_expression(value: object) -> bool:
    return isinstance(value, IndexExpr | Index | Slice | Condition)


def _plain(name: str, value: object) -> str | int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TemplateError(
            f"the value of {name} is {brief(value)}",
            required="an index expression, a slice of a layout, a condition, a number or a text",
            suggestions=("a slice of it: layout[i, k, :, :]",) if isinstance(value, Function) else (),
        )
    return value


def _names(template: str, values: Mapping[str, object]) -> Iterator[str]:
    """Return fresh names that do not occur in the template or its values."""
    taken = template + " ".join(f"{name} {value}" for name, value in values.items())
    letter = next(
        word for word in ("t", "at", "atl_t", "atl_index_") if not any(f"{word}{n}" in taken for n in range(10))
    )
    return (f"{letter}{number}" for number in count())


class _Placeholder:
    """A placeholder in a template, optionally with other names for the variables of a slice."""

    __slots__ = ("_name", "_names", "_value", "_writer")

    def __init__(self, writer: _Writer, name: str, value: Any, names: tuple[str, ...] = ()) -> None:
        self._writer = writer
        self._name = name
        self._value = value
        self._names = names

    def __call__(self, *names: object) -> _Placeholder:
        axes = len(self._value.axes) if isinstance(self._value, Slice) else 0
        if len(names) != axes or not all(isinstance(name, str) for name in names):
            raise TemplateError(f"{self._name} with {brief(names)}", required=f"a name for each of {axes} variables")
        return _Placeholder(self._writer, self._name, self._value, tuple(map(str, names)))

    def __str__(self) -> str:
        return self._writer.text(self.source, self._value, self._names)

    @property
    def inside(self) -> str:
        """The condition under which a slice has locations."""
        return self._writer.inside(self._value, self._names)

    @property
    def source(self) -> str:
        """The text of the placeholder in the template."""
        return f"{self._name}({', '.join(self._names)})" if self._names else self._name

    def written(self) -> tuple[IndexSyntax, _PrintedNames]:
        """Return the expression, and the printed names with their facts."""
        return self._writer.written(self._value, self._names)


@dataclass(frozen=True, slots=True)
class _PrintedNames:
    """The printed form of names, and facts about them."""

    names: Mapping[str, str]
    known: Known

    def not_negative(self, written: IndexSyntax) -> bool:
        """Return whether an expression over these names is at least 0, by its form or by the prover."""
        return self.known.holds(NonNegative(meaning(written, size)))


@dataclass(slots=True)
class _Writer:
    """Prints the placeholders of one template, and counts operations."""

    language: Language
    known: Known
    names: Iterator[str]
    counts: dict[str, int] = field(default_factory=dict)
    defined: dict[str, str] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)

    def written(self, value: Any, names: tuple[str, ...]) -> tuple[IndexSyntax, _PrintedNames]:
        if isinstance(value, Condition):
            raise TemplateError(
                f"define is applied to the condition {value}",
                required="index expressions; conditions are printed directly",
            )
        expression = (
            value.location if isinstance(value, Slice) else value.node if isinstance(value, IndexExpr) else value
        )
        spelled, sizes = self._spelled(value, names)
        return shortest(map_leaves(expression, sizes)), spelled

    def _spelled(self, value: Any, names: tuple[str, ...]) -> tuple[_PrintedNames, Callable[[Leaf], Index]]:
        """Return the printed form of the variables of a slice, with their bounds; and the sizes that replace them."""
        axes = value.axes if isinstance(value, Slice) else ()
        known, spelled = self.known, dict[str, str]()
        for position, (var, extent) in enumerate(axes):
            known = known.assume(at_most(size(var.name) + 1, index(extent)))
            spelled[var.name] = names[position] if names else self._axis(position, len(axes), var.name, extent)
        sizes: dict[Leaf, Index] = {var: size(var.name) for var, _ in axes}
        return _PrintedNames(spelled, known), lambda leaf: sizes.get(leaf, index(leaf))

    def _axis(self, position: int, axes: int, name: str, extent: Any) -> str:
        if self.language != "triton":
            return name
        bound = Infix("triton", _PrintedNames({}, self.known).not_negative).text(shortest(index(extent)))
        along = ", ".join(":" if at == position else "None" for at in range(axes))
        return f"tl.arange(0, {bound})" + (f"[{along}]" if axes > 1 else "")

    # -- text ---------------------------------------------------------------------------------------------------------

    def text(self, source: str, value: Any, names: tuple[str, ...]) -> str:
        """Return the text printed for a placeholder."""
        if source in self.defined:
            return self.defined[source]
        if source not in self.printed:
            self.printed[source] = self._text(source, value, names)
        return self.printed[source]

    def _text(self, source: str, value: Any, names: tuple[str, ...]) -> str:
        if isinstance(value, Condition):
            return self._condition(value.node, _PrintedNames({}, self.known))
        written, spelled = self.written(value, names)
        self.counts[source] = operations(written)
        if self.language == "mlir":
            static = Static(spelled.not_negative, self.names, spelled.names)
            made = static.value(written)
            if static.lines:
                raise TemplateError(
                    f"{source} takes {len(static.lines)} operations in MLIR",
                    required=f"{{{{ define({source}) }}}} on lines before it",
                )
            return made
        return Infix(self.language, spelled.not_negative, spelled.names).text(written)

    def inside(self, value: Any, names: tuple[str, ...]) -> str:
        """Return the condition under which a slice has locations, as text."""
        if not isinstance(value, Slice):
            raise TemplateError(
                "inside is applied to a value that is not a slice", required="a slice: ExpandBy(…)[i, :]"
            )
        spelled, sizes = self._spelled(value, names)
        return self._condition(TRUE if value.inside is None else substitute(value.inside, sizes), spelled)

    def _condition(self, condition: Predicate, spelled: _PrintedNames) -> str:
        if self.language == "mlir":
            raise TemplateError(
                f"the condition {show_predicate(condition)} in MLIR",
                required="an index; conditions in MLIR are operations",
            )
        infix = Infix(self.language, spelled.not_negative, spelled.names)
        return infix.condition(write_condition(condition, called))

    def define(self, *placeholders: _Placeholder) -> str:
        """Define the common subexpressions of the placeholders, which then print as the defined names."""
        if not placeholders or not all(isinstance(placeholder, _Placeholder) for placeholder in placeholders):
            raise TemplateError(
                "define is applied to a value that is not a placeholder", required="as in {{ define(a, b) }}"
            )
        found = [placeholder.written() for placeholder in placeholders]
        names = {name: text for _, spelled in found for name, text in spelled.names.items()}
        known = self.known
        for _, spelled in found:
            known = known.joined(spelled.known)
        spelled = _PrintedNames(names, known)
        if any(other.names[name] != names[name] for _, other in found for name in other.names):
            raise TemplateError(
                f"define({', '.join(each.source for each in placeholders)}): a variable has two different names",
                required="slices whose variables have the same names, or a separate define for each",
            )
        lines: list[str] = []
        if self.language == "mlir":
            static = Static(spelled.not_negative, self.names, names)
            for placeholder, (written, _) in zip(placeholders, found, strict=True):
                self.defined[placeholder.source] = static.value(written)
            self.counts[self._source_of(placeholders)] = sum(" = arith.constant" not in line for line in static.lines)
            return "\n".join(static.lines)
        shared = common([written for written, _ in found], self.names)
        parts = dict(shared.parts)
        infix = Infix(self.language, partial(_whole, parts, spelled), names)
        lines += [f"{INDEX_TYPES[self.language]}{name} = {infix.text(part)}" for name, part in shared.parts]
        for placeholder, rest in zip(placeholders, shared.rest, strict=True):
            name = next(self.names)
            lines.append(f"{INDEX_TYPES[self.language]}{name} = {infix.text(rest)}")
            self.defined[placeholder.source] = name
        self.counts[self._source_of(placeholders)] = shared.operations
        end = "" if self.language == "triton" else ";"
        return "\n".join(line + end for line in lines)

    def _source_of(self, placeholders: Iterable[_Placeholder]) -> str:
        return f"define({', '.join(placeholder.source for placeholder in placeholders)})"


def _whole(parts: Mapping[str, IndexSyntax], spelled: _PrintedNames, written: IndexSyntax) -> bool:
    """Return whether an expression over defined names is at least 0, with the definitions substituted."""

    def leaf(name: str) -> Index:
        return meaning(parts[name], leaf) if name in parts else size(name)

    return spelled.known.holds(NonNegative(meaning(written, leaf)))
