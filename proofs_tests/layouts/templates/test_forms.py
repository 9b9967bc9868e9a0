"""Printed forms of indices: same value in every language, with the fewest operations."""

from __future__ import annotations

import ast
import ctypes
import re
import subprocess
from collections.abc import Callable
from operator import add, floordiv, mul, sub, xor
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

import atl
from atl.core.index import Index, value_of
from atl.surface.values import IndexExpr
from atl.text.index_notation import write_index
from examples.templates import grouped, matmul, partial_groups, rows
from layouts.lego import CoverBy, GroupBy, Row, TileInto
from layouts.templates import fill
from layouts.templates.forms import called, common, operations, shortest
from lowering.builds import find_compiler

for needed in ("jinja2", "sympy"):
    pytest.importorskip(needed, reason=f"{needed}, which templates need: pip install 'atl-tensor[layouts]'")

NAMES = ("a", "b", "c", "d")


def drawn(random: Random, depth: int = 3) -> Any:
    """Return a random index expression over four sizes, with positive divisors."""
    if depth == 0 or random.random() < 0.15:
        return random.choice([atl.sizes(name) for name in NAMES] + [random.randint(0, 6) + 0 * atl.sizes("a")])
    x, y = drawn(random, depth - 1), drawn(random, depth - 1)
    match random.randrange(9):
        case 0 | 1 | 2:
            return x + y
        case 3 | 4:
            return x * y
        case 5:
            return x - y
        case 6:
            return x // (random.choice([atl.sizes("a"), atl.sizes("b") * atl.sizes("c")]) + 1)
        case 7:
            return x % random.choice([2, 3, 4])
        case _:
            return random.choice([atl.imin, atl.imax])(x, y)


def value(expression: Index, sizes: dict[str, int]) -> int:
    """Return its value, by definition."""
    return value_of(expression, lambda leaf: sizes[leaf.name], lambda *_: 0)  # type: ignore[union-attr]


def expressions(count: int) -> list[Index]:
    """Return `count` random expressions that depend on sizes."""
    random = Random(11)
    found: list[Index] = []
    while len(found) < count:
        made = drawn(random)
        if isinstance(made, IndexExpr) and made.node.constant is None and len(made.node.terms) < 30:
            found.append(made.node)
    return found


def test_the_chosen_form_has_the_fewest_operations() -> None:
    for each in expressions(60):
        assert operations(shortest(each)) <= operations(write_index(each, called))


@pytest.mark.parametrize("language", ["c", "triton"])
def test_text_has_the_value_of_the_index_rounded_down(language: Any, tmp_path: Path) -> None:
    random = Random(12)
    chosen = expressions(40)
    texts = [fill("{{ x }}|{{ define(x) }}|{{ x }}", language, {"x": each}).text.split("|") for each in chosen]
    sizes = [{name: random.randint(0, 5) for name in NAMES} for _ in range(8)]
    got = (in_c if language == "c" else in_python)(texts, sizes, tmp_path)
    for place, each in enumerate(chosen):
        for numbers, inline, defined in zip(sizes, *got[place], strict=True):
            assert inline == defined == value(each, numbers), f"{each} at {numbers}: {texts[place]}"


def in_c(texts: list[list[str]], sizes: list[dict[str, int]], folder: Path) -> list[tuple[list[int], list[int]]]:
    """Return the values by a C compiler, inline and with definitions."""
    head = f"#include <stdint.h>\nint64_t %s({', '.join(f'int64_t {name}' for name in NAMES)}) {{\n"
    parts = [
        head % f"x{n}" + f"return {inline};\n}}\n" + head % f"y{n}" + f"{lines}\nreturn {last};\n}}\n"
        for n, (inline, lines, last) in enumerate(texts)
    ]
    (folder / "x.c").write_text("\n".join(parts), encoding="utf-8")
    library = folder / "x.so"
    subprocess.run([find_compiler().path, "-shared", "-fPIC", str(folder / "x.c"), "-o", str(library)], check=True)
    opened = ctypes.CDLL(str(library))

    def run(name: str) -> list[int]:
        function = getattr(opened, name)
        function.restype = ctypes.c_int64
        return [function(*(ctypes.c_int64(each[size]) for size in NAMES)) for each in sizes]

    return [(run(f"x{n}"), run(f"y{n}")) for n in range(len(texts))]


def in_python(texts: list[list[str]], sizes: list[dict[str, int]], _: Path) -> list[tuple[list[int], list[int]]]:
    """Return the values with Triton's operators, which are Python's on natural numbers."""
    tl = ModuleType("tl")
    tl.minimum, tl.maximum = min, max  # type: ignore[attr-defined]

    def run(lines: str, last: str) -> list[int]:
        out = []
        for each in sizes:
            scope: dict[str, Any] = {"tl": tl, **each}
            exec(lines, scope)
            out.append(eval(last, scope))
        return out

    return [(run("", inline), run(lines, last)) for inline, lines, last in texts]


def test_operations_of_mlir_have_the_value_of_the_index() -> None:
    random = Random(13)
    for each in expressions(40):
        lines, _, name = fill("{{ define(x) }}|{{ x }}", "mlir", {"x": each}).text.partition("|")
        for _ in range(6):
            numbers = {size: random.randint(0, 5) for size in NAMES}
            assert in_mlir(lines, numbers)[name] == value(each, numbers), f"{each} at {numbers}: {lines}"


def in_mlir(lines: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return the values of all names by interpreting each operation; divsi and remsi round towards 0."""
    held = {f"%{name}": number for name, number in sizes.items()}

    def towards_zero(a: int, b: int) -> int:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    binary: dict[str, Callable[[int, int], int]] = {
        "addi": add, "subi": sub, "muli": mul, "xori": xor, "floordivsi": floordiv,
        "divsi": towards_zero, "remsi": lambda a, b: a - towards_zero(a, b) * b,
    }  # fmt: skip
    for line in lines.splitlines():
        name, _, operation = line.partition(" = arith.")
        kind, *operands = re.split(r"[ ,]+", operation.partition(" :")[0])
        if kind == "constant":
            held[name] = int(operands[0])
        elif kind == "cmpi":
            a, b = held[operands[1]], held[operands[2]]
            held[name] = {"slt": a < b, "sgt": a > b}[operands[0]]
        elif kind == "select":
            held[name] = held[operands[1]] if held[operands[0]] else held[operands[2]]
        else:
            held[name] = binary[kind](held[operands[0]], held[operands[1]])
    return held


def test_common_subexpressions_are_computed_once() -> None:
    x, y, k = atl.sizes("x y k")
    found = common([shortest((k * x + y).node), shortest((k * x + y + 1).node * 2)], iter("pqrs"))
    assert found.operations < operations(shortest((k * x + y).node)) + operations(shortest((2 * (k * x + y + 1)).node))


FIGURE_10 = {"pid_m": 13, "pid_n": 5, "a": 6, "b": 6, "c": 6}
"""Operations of the index expressions in Fig. 10, without the addition to the pointer."""


@pytest.mark.parametrize("a", ["row", "column"])
@pytest.mark.parametrize("b", ["row", "column"])
def test_products_need_at_most_the_operations_of_figure_10(a: str, b: str) -> None:
    counted = matmul.matmul(a, b).operations
    assert counted.keys() == FIGURE_10.keys()
    assert all(counted[name] <= FIGURE_10[name] for name in counted), counted


def grouped_ids(pid: int, rows: int, columns: int, group: int) -> tuple[int, int]:
    """Return the tile of a program as in Triton's tutorial."""
    of = pid // (group * columns)
    size = min(rows - of * group, group)
    return of * group + pid % (group * columns) % size, pid % (group * columns) // size


@pytest.mark.long
def test_programs_in_partial_groups_are_those_of_triton() -> None:
    text = partial_groups.matmul_in_groups().text
    found = {name: re.search(rf"{name} = (.*)", text) for name in ("pid_m", "pid_n")}
    formulas = [compile(each[1], "", "eval") for each in found.values() if each]
    assert len(formulas) == 2
    for count in range(1, 8):
        for columns in range(1, 5):
            for group in range(1, 10):
                tiles = [grouped_ids(pid, count, columns, group) for pid in range(count * columns)]
                assert len(set(tiles)) == count * columns
                for pid, tile in enumerate(tiles):
                    names = {"pid": pid, "nt_m": count, "nt_n": columns, "GM": group, "tl": Tl}
                    assert tuple(eval(each, names) for each in formulas) == tile


class Tl:
    """Triton's functions of numbers."""

    minimum = min


TABLE_IV = {"layer_norm": 1 + 0, "softmax": 0, "grouped": 6, "matmul": 9}
"""Index operations that a user writes, in layouts and template (LayerNorm: forward and backward)."""


def written_by_a_user(source: str) -> int:
    """Count index arithmetic in a module, except pointer additions and arithmetic on loaded data."""
    tree = ast.parse(source)
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    templates = [text for text in texts if "{{" in text and "def " in text]
    spec = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return sum(map(in_spec, spec)) + sum(map(in_template, templates))


ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)


def in_spec(function: ast.FunctionDef) -> int:
    """Count the operators in the layouts, without divisibility conditions."""
    texts = {id(part) for node in ast.walk(function) if isinstance(node, ast.Call) for part in node.args[:1]}
    return sum(
        isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC) and id(node) not in texts
        for node in ast.walk(function)
    )


def in_template(text: str) -> int:
    """Count the operators of a template on neither data nor pointers."""
    for place in ("row.inside", "part.inside", "column.inside", "whole.inside", "tile.inside", "of_rows.inside"):
        text = text.replace(f"{{{{ {place} }}}}", "place")
    while "{{" in text:
        text = text[: text.index("{{")] + "place" + text[text.index("}}") + 2 :]
    (function,) = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    data: set[str] = {"eps"}
    assigned = [node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.AugAssign)]
    for _ in assigned:
        for node in assigned:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and is_data(node.value, data):
                data.add(target.id)
    count = sum(
        isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id not in data
        for node in ast.walk(function)
    )
    for each in ast.walk(function):
        if isinstance(each, ast.BinOp) and not is_data(each, data):
            pointer = any(isinstance(part, ast.Name) and part.id.endswith("_ptr") for part in ast.walk(each))
            count += not pointer
    return count


def is_data(node: ast.AST, data: set[str]) -> bool:
    """Return whether the expression computes with loaded data; elements of index tables are not data."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in data:
            return True
        if isinstance(part, ast.Attribute) and part.attr in ("zeros", "dot", "exp", "sum", "sqrt"):
            return True
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "load":
            return "extents_ptr" not in ast.unparse(part) and "starts_ptr" not in ast.unparse(part)
    return False


@pytest.mark.parametrize(
    ("module", "names"), [(matmul, ["matmul"]), (rows, ["layer_norm", "softmax"]), (grouped, ["grouped"])]
)
def test_a_user_writes_at_most_the_operations_of_table_iv(module: Any, names: list[str]) -> None:
    counted = written_by_a_user(Path(module.__file__).read_text(encoding="utf-8"))
    assert counted <= sum(TABLE_IV[name] for name in names), counted


def test_operations_that_a_user_writes_are_counted() -> None:
    kernel = "def f(x_ptr, n):\\n    i = tl.program_id(0) * 4 + 1\\n    x = tl.load(x_ptr + {{ a }})\\n    y = x * 2\\n"
    assert written_by_a_user(f"T = '{kernel}'\ndef g():\n    return GroupBy([n // 4, 4 * m])\n") == 2 + 2


def test_nested_tiles_have_the_locations_of_the_array() -> None:
    n, b, c = atl.sizes("n b c")
    tiles = TileInto([n, n], [b, b], [c, c]).OrderBy(Row(n, n)).where(n=12, b=6, c=2)
    numbers = TileInto([12, 12], [6, 6], [2, 2]).OrderBy(Row(12, 12))
    assert tiles.dims == (2, 2, 3, 3, 2, 2)
    assert tiles.table().tolist() == numbers.table().tolist()
    assert sorted(numbers.table().tolist()) == list(range(144))


def test_covering_tiles_contain_each_element_once() -> None:
    n, m, b = atl.sizes("n m b")
    cover = CoverBy([n, m], [b, 2])
    for numbers in ({"n": 5, "m": 3, "b": 2}, {"n": 1, "m": 1, "b": 4}, {"n": 6, "m": 4, "b": 3}):
        places = [place for place in cover.where(**numbers).table().tolist() if place >= 0]
        assert sorted(places) == list(range(numbers["n"] * numbers["m"]))
    part = cover[1, 0, :, :].table(n=5, m=1, b=3)
    assert part.tolist() == [[3, -1], [4, -1], [-1, -1]]


def test_symbolic_bricks_agree_with_numeric_bricks() -> None:
    n, b = atl.sizes("n b")
    bricks = GroupBy([n, n, n], given=[n % b == 0]).TileOrderBy(Row([n // b] * 3), Row(b, b, b))
    numbers = GroupBy([6, 6, 6]).TileOrderBy(Row(2, 2, 2), Row(3, 3, 3))
    assert bricks.where(n=6, b=3).table().tolist() == numbers.table().tolist()
    assert bricks[:, :, :].table(n=6, b=3).ravel().tolist() == numbers.table().tolist()
