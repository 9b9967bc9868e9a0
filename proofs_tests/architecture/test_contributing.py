"""Recipes of CONTRIBUTING.md, applied to a copy of the repository."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from proofs_tests.architecture import recipes
from proofs_tests.architecture.test_defaults import default_faults

DECLARED: Final = "Declare it"
MEANT: Final = "Define its meaning"
WRITTEN: Final = "Add the user function"


OF_THE_RULE: Final = """
import atl
from rewrites.rule_checking.status import determine_status
from rewrites import reschedule
from rewrites.rules import RULES

rule = RULES["sum_telescope"]
print(rule)
print(determine_status(rule))
n = atl.sizes("n")
x = atl.tensor("x", n + 1)
print(reschedule(atl.program("rise", [x], atl.sum(n, lambda i: x[i + 1] - x[i]))).rw("sum_telescope"))
"""


@pytest.mark.long
def test_recipe_of_a_rule(tmp_path: Path) -> None:
    tree = recipes.copy_tree(tmp_path)
    recipes.apply(recipes.section("A rule"), tree)
    assert recipes.output_of(tree, OF_THE_RULE).splitlines() == [
        "sum_telescope: A sum of differences of neighbours is the difference of the ends.",
        "proved for all sizes",
        "rise (x : float32[n + 1]) : float32 :=",
        "  x[n] - x[0]",
    ]


OF_THE_TACTIC: Final = """
import atl
import doctest
from random import Random
from proofs_tests.sessions.random_tactics import TACTICS
from rewrites import reschedule, tactics
from rewrites.errors import DoesNotApply
from rewrites.session import catalogue

n = atl.sizes("n")
x, y = atl.tensor("x", n), atl.tensor("y", n)
s = reschedule(atl.program("p", [x, y], atl.sum(n, lambda i: x[i] * y[i] + x[i])))
print(s.fission("i"))
assert "sum_add" in s.done().as_python()
try:
    reschedule(atl.program("q", [x], atl.gen(n, lambda i: x[i]))).fission("i")
except DoesNotApply as error:
    print(error.required)
assert "fission" in tactics.TACTICS
assert TACTICS["fission"](s.undo(), Random(0)) is s
entry = {each.name: each for each in catalogue.tactics_of_sessions()}["fission"]
example = doctest.DocTestParser().get_doctest(entry.text, {"atl": atl, "reschedule": reschedule}, "", "", 0)
assert doctest.DocTestRunner().run(example) == (0, 2)
"""


@pytest.mark.long
def test_recipe_of_a_tactic(tmp_path: Path) -> None:
    tree = recipes.copy_tree(tmp_path)
    recipes.apply(recipes.section("A tactic"), tree)
    assert recipes.output_of(tree, OF_THE_TACTIC).splitlines() == [
        "p (x : float32[n], y : float32[n]) : float32 :=",
        "  (Σ[i < n] x[i] * y[i]) + Σ[i < n] x[i]",
        "a gen or a sum of a + b or a - b",
    ]


@pytest.mark.long
def test_type_checker_finds_the_functions_in_the_recipe(tmp_path: Path) -> None:
    """The other recipes are applied too: their code is complete and well typed."""
    tree = recipes.copy_tree(tmp_path)
    for heading in ("A rule", "A tactic", DECLARED):
        recipes.apply(recipes.section(heading), tree)
    assert recipes.functions_with_type_errors(tree) == recipes.listed_functions(recipes.section(MEANT))


PROGRAMS: Final = """
import atl
from atl.core.index import Array, Size, bound, index
from atl.core.marks import LoopMark
from atl.core.program import Program
from atl.core.terms import Access, Gen, Input, Cumsum

n, m = index(Size("n")), index(Size("m"))
x = Array("x", (n,), "float32")

def prefixes(outer, inner, position):
    read = Access(Input(x), position)
    return Program("p", (x,), Gen(index(0), outer, Cumsum(index(0), inner, read, "k", LoopMark.PARALLEL), "i"))

# The index of the new binder is the innermost one; taken for that of the loop around, the second access seems safe.
protected, unprotected = prefixes(m, n, bound(0)), prefixes(n, m, bound(0))
"""

ACCESSES: Final = f"""{PROGRAMS}
from atl.checks.safety import accesses
from atl.checks.scope import outermost, parts_in_scope
from atl.errors import UnsafeAccess
from atl.prove import Proved, prove

def unproved(program):
    return [
        needed.error
        for _, at, scope in parts_in_scope(program.body, outermost(program))
        for needed in accesses(at, scope)
        if not isinstance(prove(scope.facts, needed.goal), Proved)
    ]

assert unproved(unprotected) == [UnsafeAccess], "an access that nothing protects was accepted"
assert unproved(protected) == []
atl.check_safe(protected)
"""

DERIVED: Final = f"""{PROGRAMS}
from atl.core.substitution import children
from proofs_tests.programs.constructs import ALL
from rewrites.certificates.term_json import Reader, written
from rewrites.rule_arguments import is_term
from rewrites.cursors.cursor import binders, cursor_at
from rewrites.cursors.text_pattern import ANYTHING, Pattern, fits

cumsum = protected.body.body
assert cumsum.loose == 0 and [(part.expr, part.indices) for part in children(cumsum)] == [(cumsum.body, 1)]
outer, binder = binders(protected)
assert (outer.called, binder.called) == (("i",), ("k",))
inside = cursor_at(protected, (0, 0))
assert inside.names.indices == ["i", "k"] and len(inside.scope.facts.predicates) == 4
assert fits(Pattern(Cumsum, name="k", indices=(index(0), n), parts=(ANYTHING,)), binder)
assert not fits(Pattern(Cumsum, indices=(index(1), n), parts=(ANYTHING,)), binder)
table, (values,) = written([{{"e": protected.body}}], protected.inputs)
back = Reader(protected.inputs, table).argument(values["e"])
assert back == protected.body != unprotected.body and (back.body.name, back.body.mark) == ("k", LoopMark.PARALLEL)
assert is_term(cumsum) and "cumsum" in ALL
"""


@pytest.mark.long
def test_declared_constructor_has_scopes_names_patterns_and_certificates(tmp_path: Path) -> None:
    tree = recipes.copy_tree(tmp_path)
    recipes.apply(recipes.section(DECLARED), tree)
    recipes.output_of(tree, ACCESSES)
    recipes.output_of(tree, DERIVED)


OUTER_SCOPE: Final = recipes.Edit(
    "atl/checks/scope.py",
    "before",
    """    from atl.core.terms import Gen, Guard, Reduce, Select

    match expr:
        case Gen() | Reduce() | Guard() | Select():
            pass
        case _:
            return (scope,) * len(children(expr))
""",
    "return tuple(_scope_of_part(expr, child.part, scope) for child in children(expr))",
    "child_scopes",
)
NO_PARTS: Final = recipes.Edit(
    "atl/checks/scope.py",
    "before",
    """    from atl.core.terms import Access, Binary, Cast, Concat, Gen, Guard, Let, Reduce, Select, Unary

    match expr:
        case Gen() | Reduce() | Guard() | Let() | Access() | Unary() | Binary() | Select() | Cast() | Concat():
            pass
        case _:
            return
""",
    "for position, (child, inside) in enumerate(zip(children(expr), child_scopes(expr, scope), strict=True)):",
    "_direct_parts",
)


@pytest.mark.long
@pytest.mark.parametrize("default", [OUTER_SCOPE, NO_PARTS], ids=["the scope around", "no parts"])
def test_silent_default_for_unknown_constructors_is_found(default: recipes.Edit, tmp_path: Path) -> None:
    tree = recipes.copy_tree(tmp_path)
    recipes.apply(recipes.section(DECLARED), tree)
    default.apply(tree)
    with pytest.raises(AssertionError, match="an access that nothing protects was accepted"):
        recipes.output_of(tree, ACCESSES)
    shutil.copytree(tree / "atl", tmp_path / "alone" / "atl")  # the recipe changes this package only
    assert [fault.partition(":")[0] for fault in default_faults(tmp_path / "alone")] == ["atl/checks/scope.py"]


WHOLE: Final = f"""{PROGRAMS}
import numpy as np
from atl.errors import ExtentError, UnsafeAccess
from atl.surface.operators import cumsum

try:
    atl.check_safe(unprotected)
except UnsafeAccess as refused:
    print(refused)
n = atl.sizes("n")
x = atl.tensor("x", n)
p = atl.program("sums", [x], cumsum(n, lambda k: x[k] * x[k]))
print(p)
print(atl.evaluate(p, x=np.arange(4, dtype=np.float32)))
late = atl.program("late", [x], cumsum((2, n + 2), lambda k: atl.guard(k >= 3, x[k - 2])))
print(atl.evaluate(late, x=np.ones(3, dtype=np.float32)))
try:
    atl.program("backwards", [x], cumsum((n, 0), lambda k: 1.0))
except ExtentError as refused:
    print(refused.summary)
"""


@pytest.mark.long
def test_recipe_of_a_constructor(tmp_path: Path) -> None:
    tree = recipes.copy_tree(tmp_path)
    for heading in (DECLARED, MEANT, WRITTEN):
        recipes.apply(recipes.section(heading), tree)
    said = recipes.output_of(tree, WHOLE)
    assert said.startswith("an access at k to x, of extent n, goes out of bounds")
    assert "  ⊞[i < n] cumsum[k < m | parallel] x[k]\n" in said
    assert "required: 0 <= k < n  (known here: 0 <= i, i < n, 0 <= k, k < m)" in said
    assert said.splitlines()[-5:] == [
        "sums (x : float32[n]) : float32[n] :=",
        "  cumsum[k < n] x[k] * x[k]",
        "[ 0.  1.  5. 14.]",
        "[0. 1. 2.]",
        "the range of cumsum runs backwards: from n to 0",
    ]


OF_THE_TARGET: Final = """
import atl
import numpy as np
from lowering import lower
from examples.python_target import print_python

n, m = atl.sizes("n m")
x = atl.tensor("x", n)
k = atl.tensor("k", dtype="int64")
tiled = atl.flatten(atl.gen(atl.ceildiv(n, 4), 4, lambda i, j: atl.guard(4 * i + j < n, 2 * x[4 * i + j])))
programs = [
    atl.program("tiled", [x], atl.truncr(4 * atl.ceildiv(n, 4) - n, tiled)),
    atl.program("most", [x], atl.reduce("max", n, lambda i: atl.abs(x[i]) - x[n - 1 - i])),
    atl.program("staged", [x], atl.let(atl.sqrt(x), lambda b: atl.gen(n, m, lambda i, j: b[i] / 3))),
    atl.program("chosen", [k, x], atl.gen(n, lambda i: atl.select(atl.imin(k) > i, x[i] * atl.value(i), -x[i]))),
]
for program in programs:
    text = print_python(lower(program))
    scope = {}
    exec(text, scope)
    for size in (0, 1, 7):
        given = {"x": np.arange(size, dtype=np.float32), "k": np.int64(3), "n": size, "m": 2}
        arrays = {array.name: given[array.name] for array in program.inputs}
        sizes = {name: given[name] for name in program.free_sizes}
        wanted = atl.evaluate(program, **arrays, **sizes)
        out = np.full_like(wanted, 9)
        done = scope[program.name](*arrays.values(), *(given[name] for name in program.sizes), out)
        assert np.array_equal(done, wanted), text
print(print_python(lower(programs[1])))
"""


@pytest.mark.long
def test_recipe_of_a_target() -> None:
    assert "examples/python_target.py" in recipes.section("A target")
    assert (
        recipes.output_of(recipes.HERE, OF_THE_TARGET).partition("\n\n\n")[2]
        == """def most(x, n, out):
    out[...] = 0
    greatest = np.float32(-inf)
    for i in range(0, n):
        greatest = max(greatest, (abs(x[i]) - x[n - i - 1]))
    if n - 1 >= 0:
        out[()] = greatest
    return out

"""
    )


@pytest.mark.long
def test_code_of_recipes_is_linted_and_formatted(tmp_path: Path) -> None:
    tree = recipes.copy_tree(tmp_path)
    for heading in ("A rule", "A tactic", "A constructor"):
        recipes.apply(recipes.section(heading), tree)
    assert recipes.run(tree, "-m", "ruff", "check", "--quiet").stdout == ""
    assert recipes.run(tree, "-m", "ruff", "format", "--diff", "--quiet").stdout == ""


RECIPE: Final = """# All

## One

In `a.py`, in `g`, before `pass`:

```python
    x = 1
```

1. At the end of `a.py`:

```python
y = 2
```

- `b.py`: `f`, `g`. Why.

## Two

A new file `c.py`:

```python
z = 3
```
"""


def test_edits_are_applied(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("@d\ndef f():\n    pass\ndef g():\n    pass\n", encoding="utf-8")
    recipes.apply(recipes.section("One", RECIPE), tmp_path)
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == (
        "@d\ndef f():\n    pass\ndef g():\n    x = 1\n    pass\ny = 2\n"
    )
    recipes.Edit("a.py", "before", "class C: ...\n", "def f():").apply(tmp_path)
    assert (tmp_path / "a.py").read_text(encoding="utf-8").startswith("class C: ...\n@d\ndef f():\n")
    recipes.Edit("a.py", "instead of", "y = 4\n", "y = 2").apply(tmp_path)
    assert (tmp_path / "a.py").read_text(encoding="utf-8").endswith("y = 4\n")
    assert recipes.listed_functions(recipes.section("One", RECIPE)) == {"b.py:f", "b.py:g"}
    assert [edit.file for edit in recipes.edits(recipes.section("Two", RECIPE))] == ["c.py"]


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (recipes.Edit("a.py", "before", "", "pass"), "a.py has 2 lines 'pass'"),
        (recipes.Edit("a.py", "after", "", "gone"), "a.py has 0 lines 'gone'"),
        (recipes.Edit("a.py", "before", "", "pass", "h"), "a.py has no function 'h'"),
        (recipes.Edit("a.py", "new", ""), "a.py exists already"),
    ],
)
def test_outdated_recipe_is_found(edit: recipes.Edit, fault: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    pass\ndef g():\n    pass\n", encoding="utf-8")
    with pytest.raises(ValueError, match=fault):
        edit.apply(tmp_path)


def test_block_without_a_place_is_found() -> None:
    with pytest.raises(ValueError, match="has no place: 'For instance:'"):
        recipes.edits(recipes.section("Two", RECIPE.replace("A new file `c.py`:", "For instance:")))
    with pytest.raises(ValueError, match="unknown section 'Three'"):
        recipes.section("Three", RECIPE)
    for heading in ("A rule", "A tactic", "A constructor"):
        assert recipes.edits(recipes.section(heading))
