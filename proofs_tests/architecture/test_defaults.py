"""Rule of the repository: no match silently ignores a new constructor.

A match over a closed union (tensor expressions, reshape operators, conditions, atoms of indices) lists every member, or
ends in a case that raises. Then the type checker or an error reports a new constructor. A default case that does
something else would treat it wrongly without notice.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from atl.core import terms
from proofs_tests.architecture.tree import HERE, Module, lay_out, modules

STRICT = ("lowering", "padtypes", "rewrites.rocq")
"""Packages in which no match has a default that does not raise."""

EXHAUSTIVE = (
    "atl", "rewrites.kernel", "rewrites.admission", "rewrites.rule_arguments", "rewrites.rule",
    "rewrites.certificates.term_json",
)  # fmt: skip
"""Packages and modules in which a match over a closed union lists its members: the language and the kernel."""

DISPLAY = ("atl.text.printing", "atl.text.index_notation")
"""Modules that may treat all other constructors alike, because only the layout of text depends on it."""

CLOSED_UNIONS = ("Expr", "ReshapeOp", "Predicate", "AnyAtom")
GROUPS = ("Named", "Number", "Elementwise")
"""Base classes of several members of `Expr`."""


def default_faults(root: Path) -> list[str]:
    """Return the default cases that are not allowed."""
    tree = modules(root)
    members = frozenset((*GROUPS, *(name for module in tree for name in union_members(module))))
    return [
        f"{module.at(case.pattern.lineno)} is a default case of a closed match"
        for module in tree
        for node in ast.walk(module.syntax)
        if isinstance(node, ast.Match)
        for case in node.cases
        if _is_default(case) and not _allowed(module, node, case, members)
    ]


def union_members(module: Module) -> Iterator[str]:
    """Yield the classes of closed unions."""
    for node in module.syntax.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in CLOSED_UNIONS:
                yield from (part.id for part in ast.walk(value) if isinstance(part, ast.Name))
            case _:
                pass


def _is_default(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


def _allowed(module: Module, match: ast.Match, case: ast.match_case, members: frozenset[str]) -> bool:
    if _is_assert_never(case.body):
        return True
    if isinstance(case.body[-1], ast.Raise):
        return True
    if _is_in(module, STRICT):
        return False
    if not _is_in(module, EXHAUSTIVE) or _is_in(module, DISPLAY):
        return True
    return members.isdisjoint(_classes_named(match))


def _is_in(module: Module, packages: Sequence[str]) -> bool:
    return any(module.name == package or module.name.startswith(f"{package}.") for package in packages)


def _is_assert_never(body: list[ast.stmt]) -> bool:
    match body:
        case [ast.Expr(value=ast.Call(func=ast.Name(id="assert_never")))]:
            return True
        case _:
            return False


def _classes_named(match: ast.Match) -> Iterator[str]:
    """Yield the classes in the top-level patterns of a match."""
    for case in match.cases:
        alternatives = case.pattern.patterns if isinstance(case.pattern, ast.MatchOr) else [case.pattern]
        for pattern in alternatives:
            inner = pattern.pattern if isinstance(pattern, ast.MatchAs) else pattern
            if isinstance(inner, ast.MatchClass):
                yield inner.cls.attr if isinstance(inner.cls, ast.Attribute) else ast.unparse(inner.cls)


@pytest.mark.long
def test_matches_list_every_constructor() -> None:
    assert default_faults(HERE) == []


@pytest.mark.long
def test_closed_unions_are_found() -> None:
    members = {name for module in modules(HERE) for name in union_members(module)}
    assert {"Gen", "Let", "Reshape", "Place", "NonNegative", "All", "Size", "Read"} <= members


DEFAULTS = ["case _:\n        pass", "case other:\n        f(other)", "case _ if x:\n        pass"]
UNION = "Expr: TypeAlias = Gen | Let\n"


@pytest.mark.parametrize("default", DEFAULTS)
@pytest.mark.parametrize("path", ["atl/a.py", "rewrites/kernel.py", "rewrites/rule_arguments.py", "padtypes/a.py"])
@pytest.mark.parametrize("case", ["Gen(low)", "terms.Let()", "Cat() | Let()", "Gen() as y", "terms.Named()"])
def test_default_over_a_union_is_found(path: str, case: str, default: str, tmp_path: Path) -> None:
    lay_out(tmp_path, {"atl/core/terms.py": UNION, path: f"match x:\n    case {case}:\n        pass\n    {default}\n"})
    assert default_faults(tmp_path) == [f"{path}:4 is a default case of a closed match"]


@pytest.mark.parametrize("default", DEFAULTS)
def test_default_in_a_strict_package_is_found(default: str, tmp_path: Path) -> None:
    text = f"match x:\n    case 1:\n        pass\n    {default}\n"
    strict = ["lowering/a.py", "rewrites/rocq/nests/a.py"]
    lay_out(tmp_path, dict.fromkeys([*strict, "atl/a.py"], text))
    assert default_faults(tmp_path) == [f"{path}:4 is a default case of a closed match" for path in strict]


def test_complete_raising_and_unrelated_matches_are_allowed(tmp_path: Path) -> None:
    over = "match x:\n    case Gen() as y:\n        pass\n    case _:\n        "
    lay_out(
        tmp_path,
        {
            "atl/core/terms.py": UNION,
            "atl/never.py": f"{over}assert_never(x)\n",
            "atl/refuses.py": f"{over}raise InvalidArgument\n",
            "atl/text.py": "match x:\n    case 'a' | Token(Let()):\n        pass\n    case _:\n        pass\n",
            "atl/text/printing.py": f"{over}pass\n",
            "rewrites/tactics/loops.py": f"{over}pass\n",
            "lowering/b.py": f"{over}assert_never(x)\n",
            "lowering/c.py": f"{over}raise NoMatch\n",
        },
    )
    assert default_faults(tmp_path) == []


def test_groups_have_these_members() -> None:
    """A case of a group takes a new member without a report by the type checker, so each member is listed here."""
    assert {group: _members(getattr(terms, group)) for group in GROUPS} == {
        "Named": ["Input", "Local", "TensorVar", "Metavariable"],
        "Number": ["Constant", "Value"],
        "Elementwise": ["Unary", "Binary", "Where", "Cast"],
    }


def _members(group: type) -> list[str]:
    return [of.__name__ for of in terms.CONSTRUCTORS if issubclass(of, group)]
