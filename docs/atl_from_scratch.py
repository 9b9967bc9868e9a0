"""ATL from scratch: a miniature of the whole system in one file, to read from top to bottom and run.

    python docs/atl_from_scratch.py

It has terms and their meaning, rules that are declared once and checked at small sizes, a kernel that makes all
theorems, a tactic, and lowering by reindexers to C. The C is compiled and compared with the meaning. The end of the
file lists the other features of ATL. Nothing here imports ATL.
"""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np

# == 1. Indices =======================================================================================================
#
# Sizes and positions are expressions, not numbers: one program serves all sizes. Each loop variable gets a unique
# number, so that variables with the same name differ.


@dataclass(frozen=True)
class Index:
    """A number, a size, a variable of a loop, or an operation on two indices; / rounds down."""

    op: str
    args: tuple[Any, ...]

    def __add__(self, other: int | Index) -> Index:
        return _simple("+", self, index(other))

    def __sub__(self, other: int | Index) -> Index:
        return _simple("-", self, index(other))

    def __mul__(self, other: int | Index) -> Index:
        return _simple("*", self, index(other))

    def __floordiv__(self, other: int | Index) -> Index:
        return _simple("/", self, index(other))

    def __str__(self) -> str:
        if self.op not in _OPERATIONS:
            return str(self.args[0])
        return f"({self.args[0]} {self.op} {self.args[1]})"


def index(of: int | Index) -> Index:
    return of if isinstance(of, Index) else Index("number", (of,))


def _simple(op: str, a: Index, b: Index) -> Index:
    if a.op == b.op == "number":
        return index(_OPERATIONS[op](a.args[0], b.args[0]))
    if (op in "+-" and b == index(0)) or (op in "*/" and b == index(1)):
        return a
    return b if op == "+" and a == index(0) else Index(op, (a, b))


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
}
_fresh = itertools.count()


def size(name: str) -> Index:
    return Index("size", (name,))


def variable(name: str = "i") -> Index:
    return Index("variable", (f"{name.rstrip('0123456789')}{next(_fresh)}",))


def number(of: Index, known: Mapping[Index, int]) -> int:
    """Return the value of an index, given numbers for its sizes and variables."""
    match of.op:
        case "number":
            return int(of.args[0])
        case "size" | "variable":
            return known[of]
        case op:
            return _OPERATIONS[op](number(of.args[0], known), number(of.args[1], known))


def ceildiv(n: Index, k: Index) -> Index:
    return (n + (k - 1)) // k


# == 2. Terms =========================================================================================================
#
# A term defines each element of a tensor. `Gen` is ⊞[i < n] e, the tensor of e(0), e(1), …; `Sum` is Σ[i < n] e;
# `Guard` is [i < j] · e, zero where the condition is false; `Get` is t[i]. The reshape operators move elements, and
# compute nothing.


@dataclass(frozen=True)
class Input:
    name: str
    extents: tuple[Index, ...]


@dataclass(frozen=True)
class Gen:
    i: Index
    n: Index
    e: Term


@dataclass(frozen=True)
class Sum:
    i: Index
    n: Index
    e: Term


@dataclass(frozen=True)
class Guard:
    """[low < high] · e."""

    low: Index
    high: Index
    e: Term


@dataclass(frozen=True)
class Get:
    t: Term
    i: Index


@dataclass(frozen=True)
class Times:
    """The product of two numbers."""

    a: Term
    b: Term


@dataclass(frozen=True)
class Flatten:
    """The rows of a matrix, one after the other."""

    e: Term


@dataclass(frozen=True)
class Truncate:
    """The first n elements."""

    n: Index
    e: Term


@dataclass(frozen=True)
class Unknown:
    """A metavariable of a rule: any number that depends on these indices."""

    name: str
    at: tuple[Index, ...]


Term: TypeAlias = Input | Gen | Sum | Guard | Get | Times | Flatten | Truncate | Unknown


def shape(term: Term) -> tuple[Index, ...]:
    """Return the extents of a tensor; a number has none."""
    match term:
        case Input(_, extents):
            return extents
        case Gen(_, n, e):
            return (n, *shape(e))
        case Sum(e=e) | Guard(e=e):
            return shape(e)
        case Get(t):
            return shape(t)[1:]
        case Times() | Unknown():
            return ()
        case Flatten(e):
            n, m, *rest = shape(e)
            return (n * m, *rest)
        case Truncate(n, e):
            return (n, *shape(e)[1:])


def gen(n: Index, e: Callable[[Index], Term], name: str = "i") -> Term:
    i = variable(name)
    return Gen(i, n, e(i))


def total(n: Index, e: Callable[[Index], Term], name: str = "p") -> Term:
    i = variable(name)
    return Sum(i, n, e(i))


def parts(term: Term) -> Iterator[str]:
    """Return the names of the fields that contain terms."""
    return (each.name for each in fields(term) if isinstance(getattr(term, each.name), get_args(Term)))


def substitute(term: Any, where: Mapping[Index, Index]) -> Any:
    """Substitute indices in a term or index. Binders get new variables, so that none is captured."""
    if isinstance(term, Index):
        if term in where or term.op not in _OPERATIONS:
            return where.get(term, term)
        return _simple(term.op, substitute(term.args[0], where), substitute(term.args[1], where))
    if isinstance(term, Gen | Sum):
        new = variable(term.i.args[0])
        return type(term)(new, substitute(term.n, where), substitute(term.e, {**where, term.i: new}))
    if isinstance(term, tuple):
        return tuple(substitute(each, where) for each in term)
    if isinstance(term, str):
        return term
    return type(term)(*(substitute(getattr(term, each.name), where) for each in fields(term)))


def show(term: Term) -> str:
    match term:
        case Input(name):
            return name
        case Gen(i, n, e):
            return f"⊞[{i} < {n}] {show(e)}"
        case Sum(i, n, e):
            return f"Σ[{i} < {n}] {show(e)}"
        case Guard(low, high, e):
            return f"[{low} < {high}] · {show(e)}"
        case Get(t, i):
            return f"{show(t)}[{i}]"
        case Times(a, b):
            return f"{show(a)} * {show(b)}"
        case Flatten(e):
            return f"flatten {show(e)}"
        case Truncate(n, e):
            return f"truncate {n} {show(e)}"
        case Unknown(name, at):
            return f"{name}({', '.join(map(str, at))})"


# == 3. Meaning =======================================================================================================
#
# The definition of every constructor, by NumPy. It is slow. Everything else is compared with it.


def meaning(term: Term, inputs: Mapping[str, Any], known: Mapping[Index, int]) -> Any:
    match term:
        case Input(name):
            return inputs[name]
        case Gen(i, n, e):
            elements = [meaning(e, inputs, {**known, i: at}) for at in range(number(n, known))]
            rest = tuple(number(extent, known) for extent in shape(e))
            return np.array(elements).reshape((len(elements), *rest))
        case Sum(i, n, e):
            rest = tuple(number(extent, known) for extent in shape(e))
            return sum((meaning(e, inputs, {**known, i: at}) for at in range(number(n, known))), np.zeros(rest))
        case Guard(low, high, e):
            # The body is not evaluated where the condition is false, because it may read out of bounds there.
            if number(low, known) < number(high, known):
                return meaning(e, inputs, known)
            return np.zeros(tuple(number(extent, known) for extent in shape(e)))
        case Get(t, i):
            at = number(i, known)
            if not 0 <= at < number(shape(t)[0], known):
                raise IndexError(f"{show(term)} at {at}, of {number(shape(t)[0], known)} elements")
            return meaning(t, inputs, known)[at]
        case Times(a, b):
            return meaning(a, inputs, known) * meaning(b, inputs, known)
        case Flatten(e):
            rows = meaning(e, inputs, known)
            return rows.reshape((rows.shape[0] * rows.shape[1], *rows.shape[2:]))
        case Truncate(n, e):
            return meaning(e, inputs, known)[: number(n, known)]
        case Unknown(name, at):
            return inputs[name](*(number(each, known) for each in at))


# == 4. Rules, each declared once =====================================================================================
#
# A law is a function from sizes and metavariables to two sides. Called with metavariables it is a pattern to match;
# called with numbers it is a claim to check. So the rule that is checked is the rule that is used.


@dataclass(frozen=True)
class Law:
    """`sides(n, k, e)`: two terms that are equal for all n >= 0, all k > 0 and all terms e of one index."""

    name: str
    sides: Callable[[Index, Index, Callable[[Index], Term]], tuple[Term, Term]]


class Refuted(Exception):
    """A law is false; the message has the numbers."""


def proved_at_small_sizes(law: Law, most: int = 7) -> None:
    """Compare both sides at all small sizes, for an e with distinct non-zero values.

    This covers every e at these sizes, because a law cannot inspect e. ATL also proves most of its rules for all sizes.
    """
    n, k = size("n"), size("k")
    lhs, rhs = law.sides(n, k, lambda i: Unknown("e", (i,)))
    for many, by in itertools.product(range(most), range(1, most)):

        def e(at: int, many: int = many) -> float:
            if not 0 <= at < many:
                raise IndexError(f"e({at}), of {many}")
            return 2.0**at

        known = {n: many, k: by}
        try:
            left, right = (meaning(side, {"e": e}, known) for side in (lhs, rhs))
        except IndexError as outside:
            raise Refuted(f"{law.name}: n = {many}, k = {by}: {outside}") from None
        if left.shape != right.shape or (left != right).any():
            raise Refuted(f"{law.name}: n = {many}, k = {by}: {left} is not {right}")


TILE = Law(
    "tile",
    lambda n, k, e: (
        gen(n, e),
        Truncate(n, Flatten(gen(ceildiv(n, k), lambda o: gen(k, lambda i: Guard(o * k + i, n, e(o * k + i)))))),
    ),
)
"""A loop is tiled by k. The last tile may be partial: it is guarded, and the elements past the end are truncated."""

TILE_SUM = Law(
    "tile_sum",
    lambda n, k, e: (
        total(n, e),
        total(ceildiv(n, k), lambda o: total(k, lambda i: Guard(o * k + i, n, e(o * k + i)))),
    ),
)
"""A sum is tiled by k."""


def matched(law: Law, term: Term) -> tuple[Index, Callable[[Index], Term]] | None:
    """Match a term with the left side of a law, ⊞[i < n] e(i) or Σ[i < n] e(i). Return n and e."""
    pattern, _ = law.sides(size("n?"), size("k?"), lambda i: Unknown("e", (i,)))
    match pattern, term:
        case (Gen(i, n, e), Gen(j, extent, body)) | (Sum(i, n, e), Sum(j, extent, body)):
            if n == size("n?") and e == Unknown("e", (i,)):
                return extent, lambda at: substitute(body, {j: at})
        case _:
            pass
    return None


Route = tuple[str, ...]
"""A path from a term to one of its parts: the names of fields."""


def part(term: Term, at: Route) -> Term:
    for name in at:
        term = getattr(term, name)
    return term


def with_part(term: Any, at: Route, new: Term) -> Any:
    if not at:
        return new
    first, *rest = at
    return replace(term, **{first: with_part(getattr(term, first), tuple(rest), new)})


# == 5. The kernel ====================================================================================================
#
# A theorem states that two terms are equal, for all sizes and arrays. The kernel has two functions that make theorems,
# and records them. So an error elsewhere (in a tactic, in a script) may cause a failure, but cannot prove anything
# false.


@dataclass(frozen=True)
class Theorem:
    lhs: Term
    rhs: Term
    by: tuple[str, ...]

    def __str__(self) -> str:
        return f"{show(self.lhs)}\n  = {show(self.rhs)}\n  by {', '.join(self.by) or 'reflexivity'}"


class Kernel:
    def __init__(self) -> None:
        self._rules: dict[str, Law] = {}
        self._theorems: list[Theorem] = []

    def admit(self, law: Law) -> None:
        """Check a law, and accept it as a rule."""
        proved_at_small_sizes(law)
        self._rules[law.name] = law

    def knows(self, theorem: Theorem) -> bool:
        return any(theorem is each for each in self._theorems)

    def reflexivity(self, term: Term) -> Theorem:
        return self._made(Theorem(term, term, ()))

    def rewrite(self, theorem: Theorem, rule: str, at: Route, k: int) -> Theorem:
        """Rewrite a part of a theorem's right side by a rule, from left to right."""
        if not self.knows(theorem):
            raise ValueError("a theorem that this kernel did not make")
        law = self._rules[rule]
        found = matched(law, part(theorem.rhs, at))
        if found is None or k < 1:
            raise ValueError(f"{rule} does not apply to {show(part(theorem.rhs, at))} with k = {k}")
        _, rhs = law.sides(found[0], index(k), found[1])
        return self._made(Theorem(theorem.lhs, with_part(theorem.rhs, at, rhs), (*theorem.by, rule)))

    def _made(self, theorem: Theorem) -> Theorem:
        self._theorems.append(theorem)
        return theorem


# == 6. A tactic ======================================================================================================
#
# It finds the place, and calls the kernel. It need not be trusted.


def tile(kernel: Kernel, theorem: Theorem, name: str, k: int) -> Theorem:
    """Tile the loop of this name by k."""
    for at in places(theorem.rhs):
        loop = part(theorem.rhs, at)
        if isinstance(loop, Gen | Sum) and loop.i.args[0].rstrip("0123456789") == name:
            return kernel.rewrite(theorem, "tile" if isinstance(loop, Gen) else "tile_sum", at, k)
    raise ValueError(f"no loop {name} in {show(theorem.rhs)}")


def places(term: Term, at: Route = ()) -> Iterator[Route]:
    yield at
    for name in parts(term):
        yield from places(getattr(term, name), (*at, name))


# == 7. Lowering ======================================================================================================
#
# Loops store elements. A *reindexer* maps positions in the current term to a position in the output, with conditions
# under which the element is stored. A reshape operator prints nothing, but changes the reindexer. So reshaping needs no
# temporary tensor.

Reindexer = Callable[[list[Index]], tuple[list[str], Index]]


def lower(term: Term, to: Reindexer, store: str = "=") -> list[str]:
    """Return the lines of C that store a term's elements. The output is zero before, and sums add to it."""
    match term:
        case Gen(i, n, e):
            return _loop(i, n, lower(e, lambda at: to([i, *at]), store))
        case Sum(i, n, e):
            return _loop(i, n, lower(e, to, "+="))
        case Guard(low, high, e):
            return [f"if ({low} < {high}) {{", *_indented(lower(e, to, store)), "}"]
        case Flatten(e):
            m = shape(e)[1]
            return lower(e, lambda at: to([at[0] * m + at[1], *at[2:]]), store)
        case Truncate(n, e):

            def cut(at: list[Index]) -> tuple[list[str], Index]:
                tests, place = to(at)
                return [f"{at[0]} < {n}", *tests], place

            return lower(e, cut, store)
        case Input() | Get() | Times() | Unknown():
            tests, place = to([])
            line = f"out[{place}] {store} {_scalar(term)};"
            return [f"if ({' && '.join(tests)})", f"    {line}"] if tests else [line]


def _loop(i: Index, n: Index, lines: list[str]) -> list[str]:
    return [f"for (long {i} = 0; {i} < {n}; {i}++) {{", *_indented(lines), "}"]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _flat(at: list[Index], shape: tuple[Index, ...]) -> Index:
    """Return the row-major address."""
    out = at[0]
    for position, extent in zip(at[1:], shape[1:], strict=True):
        out = out * extent + position
    return out


def _scalar(term: Term) -> str:
    match term:
        case Times(a, b):
            return f"{_scalar(a)} * {_scalar(b)}"
        case Get():
            at: list[Index] = []
            while isinstance(term, Get):
                at.insert(0, term.i)
                term = term.t
            if isinstance(term, Input):
                return f"{term.name}[{_flat(at, term.extents)}]"
        case _:
            pass
    raise ValueError(f"{show(term)} is not an element of an input, nor a product of such")


def c_of(name: str, term: Term, inputs: list[Input], sizes: list[Index]) -> str:
    parameters = [f"const double *restrict {each.name}" for each in inputs] + [f"long {each}" for each in sizes]
    lines = lower(term, lambda at: ([], _flat(at, shape(term))))
    head = f"void {name}({', '.join([*parameters, 'double *restrict out'])})"
    return "\n".join([head, "{", *_indented(lines), "}", ""])


def run(source: str, name: str, arrays: list[Any], sizes: list[int], shape: tuple[int, ...]) -> Any:
    """Compile and call a C function."""
    out = np.zeros(shape)
    with tempfile.TemporaryDirectory() as folder:
        file, library = Path(folder) / "f.c", Path(folder) / "f.so"
        file.write_text(source, encoding="utf-8")
        command = [shutil.which("cc") or "gcc", "-O1", "-std=c99", "-shared", "-fPIC", "-o", str(library), str(file)]
        subprocess.run(command, check=True)
        function = getattr(ctypes.CDLL(str(library)), name)
        pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (*arrays, out)]
        function(*pointers[:-1], *(ctypes.c_long(each) for each in sizes), pointers[-1])
    return out


# == 8. All together ==================================================================================================


def main() -> None:
    n, m, q = size("n"), size("m"), size("q")
    a, b = Input("A", (n, q)), Input("B", (q, m))
    product = gen(n, lambda i: gen(m, lambda j: total(q, lambda p: Times(Get(Get(a, i), p), Get(Get(b, p), j))), "j"))

    kernel = Kernel()
    kernel.admit(TILE)
    kernel.admit(TILE_SUM)
    without_guard = Law(
        "without a guard",
        lambda n, k, e: (
            gen(n, e),
            Truncate(n, Flatten(gen(ceildiv(n, k), lambda o: gen(k, lambda i: e(o * k + i))))),
        ),
    )
    try:
        kernel.admit(without_guard)
    except Refuted as refuted:
        print("refused:", refuted)

    theorem = tile(kernel, tile(kernel, kernel.reflexivity(product), "i", 4), "p", 3)
    print(theorem)
    source = c_of("product", theorem.rhs, [a, b], [n, m, q])
    print(source)

    random = np.random.default_rng(0)
    for numbers in ((5, 3, 7), (4, 4, 3), (1, 1, 1), (0, 2, 2), (2, 3, 0)):
        known = dict(zip((n, m, q), numbers, strict=True))
        arrays = [
            random.integers(-9, 9, (numbers[0], numbers[2])).astype(float),
            random.integers(-9, 9, (numbers[2], numbers[1])).astype(float),
        ]
        want = meaning(product, dict(zip("AB", arrays, strict=True)), known)
        got = run(source, "product", arrays, list(numbers), (numbers[0], numbers[1]))
        assert np.array_equal(got, want), numbers
        assert np.array_equal(got, arrays[0] @ arrays[1]), numbers
    print("The kernel computes what the formula means, at five sizes.")


# Other features of ATL, in the order of the sections above:
#
# - a prover that decides conditions on indices for all sizes, or refutes them with numbers;
# - element types, lets, selections, folds by other monoids, and more reshape operators;
# - hundreds of rules, most of them proved for all sizes, and each of them by Rocq;
# - certificates that can be replayed, sessions, patterns, tactics and searches;
# - pad-sets, which prove that a truncation removes only padding, so that it needs no condition in C;
# - marks for vector, parallel and GPU loops; sparse formats; layouts; fast C.

if __name__ == "__main__":
    main()
