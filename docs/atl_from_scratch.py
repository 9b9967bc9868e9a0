"""ATL from scratch: the whole of it in small, to be read from top to bottom and run.

    python docs/atl_from_scratch.py

Terms, what they mean, rules that are stated once and proved at small sizes, a kernel that makes all theorems, a tactic,
and lowering by reindexers to C, which is then compiled and compared with the meaning. What ATL has beyond it stands at
the end. Nothing here imports ATL.
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
# Sizes and positions are expressions, not numbers: one program is for all sizes. Variables of loops have a number of
# their own, so that no two of them are confused, whatever they are called.


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
    """The value of an index, with numbers for its sizes and variables."""
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
# A term says what each element of a tensor is. `Gen` is ⊞[i < n] e, the tensor of e(0), e(1), …; `Sum` is Σ[i < n] e;
# `Guard` is [i < j] · e, zero where the condition is false; `Get` is t[i]. The reshape operators change where elements
# stand, and compute nothing.


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
    """Any number with these indices in it: what a rule says nothing about."""

    name: str
    at: tuple[Index, ...]


Term: TypeAlias = Input | Gen | Sum | Guard | Get | Times | Flatten | Truncate | Unknown


def shape(term: Term) -> tuple[Index, ...]:
    """The extents of a tensor; a number has none."""
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
    """The names of the fields that hold terms."""
    return (each.name for each in fields(term) if isinstance(getattr(term, each.name), get_args(Term)))


def put(term: Any, where: Mapping[Index, Index]) -> Any:
    """The term, or index, with other indices in the place of some. Binders are made anew, so that none is captured."""
    if isinstance(term, Index):
        if term in where or term.op not in _OPERATIONS:
            return where.get(term, term)
        return _simple(term.op, put(term.args[0], where), put(term.args[1], where))
    if isinstance(term, Gen | Sum):
        new = variable(term.i.args[0])
        return type(term)(new, put(term.n, where), put(term.e, {**where, term.i: new}))
    if isinstance(term, tuple):
        return tuple(put(each, where) for each in term)
    if isinstance(term, str):
        return term
    return type(term)(*(put(getattr(term, each.name), where) for each in fields(term)))


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
# The definition of every constructor, in NumPy and slowly. All that follows is measured by it.


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
            # What is guarded has no meaning where the condition is false: there it may read outside.
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
            held = meaning(e, inputs, known)
            return held.reshape((held.shape[0] * held.shape[1], *held.shape[2:]))
        case Truncate(n, e):
            return meaning(e, inputs, known)[: number(n, known)]
        case Unknown(name, at):
            return inputs[name](*(number(each, known) for each in at))


# == 4. Rules, each stated once =======================================================================================
#
# A law is a function from sizes and unknown terms to two sides. Called with unknowns it is a pattern to be matched;
# called with numbers it is a claim to be checked. So nothing is said twice, and what is checked is what is used.


@dataclass(frozen=True)
class Law:
    """`sides(n, k, e)`: two terms that are equal for all n >= 0, all k > 0 and all terms e of one index."""

    name: str
    sides: Callable[[Index, Index, Callable[[Index], Term]], tuple[Term, Term]]


class Refuted(Exception):
    """A law is false, and here are the numbers."""


def proved_at_small_sizes(law: Law, most: int = 7) -> None:
    """Compares both sides at all small sizes, for an e of which every value is different and none is zero.

    That is every e at these sizes: a law cannot look into it. ATL proves most of its rules for all sizes as well.
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
"""A loop runs in tiles of k. The last tile may stick out: there it is guarded, and what sticks out is cut off."""

TILE_SUM = Law(
    "tile_sum",
    lambda n, k, e: (
        total(n, e),
        total(ceildiv(n, k), lambda o: total(k, lambda i: Guard(o * k + i, n, e(o * k + i)))),
    ),
)
"""A sum is added up in tiles of k."""


def matched(law: Law, term: Term) -> tuple[Index, Callable[[Index], Term]] | None:
    """What n and e are, where the term looks like the left side of the law: ⊞[i < n] e(i), or Σ[i < n] e(i)."""
    pattern, _ = law.sides(size("n?"), size("k?"), lambda i: Unknown("e", (i,)))
    match pattern, term:
        case (Gen(i, n, e), Gen(own, extent, body)) | (Sum(i, n, e), Sum(own, extent, body)):
            if n == size("n?") and e == Unknown("e", (i,)):
                return extent, lambda at: put(body, {own: at})
        case _:
            pass
    return None


Way = tuple[str, ...]
"""From a term to a part of it: the names of fields."""


def part(term: Term, at: Way) -> Term:
    for name in at:
        term = getattr(term, name)
    return term


def with_part(term: Any, at: Way, new: Term) -> Any:
    if not at:
        return new
    first, *rest = at
    return replace(term, **{first: with_part(getattr(term, first), tuple(rest), new)})


# == 5. The kernel ====================================================================================================
#
# A theorem says that two terms are equal, for all sizes and arrays. The kernel makes theorems in two ways, and knows
# those that it made; so what is wrong elsewhere (in a tactic, in a script) can fail, but can prove nothing false.


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
        """A law becomes a rule once it is checked."""
        proved_at_small_sizes(law)
        self._rules[law.name] = law

    def knows(self, theorem: Theorem) -> bool:
        return any(theorem is each for each in self._theorems)

    def reflexivity(self, term: Term) -> Theorem:
        return self._made(Theorem(term, term, ()))

    def rewrite(self, theorem: Theorem, rule: str, at: Way, k: int) -> Theorem:
        """The theorem with a part of its right side rewritten by a rule, from left to right."""
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
# Finds the place, and asks the kernel. It need not be trusted.


def tile(kernel: Kernel, theorem: Theorem, name: str, k: int) -> Theorem:
    """Runs the loop of this name in tiles of k."""
    for at in places(theorem.rhs):
        loop = part(theorem.rhs, at)
        if isinstance(loop, Gen | Sum) and loop.i.args[0].rstrip("0123456789") == name:
            return kernel.rewrite(theorem, "tile" if isinstance(loop, Gen) else "tile_sum", at, k)
    raise ValueError(f"there is no loop {name} in {show(theorem.rhs)}")


def places(term: Term, at: Way = ()) -> Iterator[Way]:
    yield at
    for name in parts(term):
        yield from places(getattr(term, name), (*at, name))


# == 7. Lowering ======================================================================================================
#
# Loops store elements. Where an element goes is a *reindexer*, handed down: from positions in the term at hand to a
# position in the output, and the tests under which there is one. A reshape operator prints nothing: it changes the
# reindexer. So no tensor is built only to be taken apart.

Reindexer = Callable[[list[Index]], tuple[list[str], Index]]


def lower(term: Term, to: Reindexer, store: str = "=") -> list[str]:
    """The lines of C that store a term's elements; the output is zero before, and sums add to it."""
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
    """Row by row."""
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
    given = [f"const double *restrict {each.name}" for each in inputs] + [f"long {each}" for each in sizes]
    lines = lower(term, lambda at: ([], _flat(at, shape(term))))
    return "\n".join([f"void {name}({', '.join([*given, 'double *restrict out'])})", "{", *_indented(lines), "}", ""])


def run(source: str, name: str, arrays: list[Any], sizes: list[int], shape: tuple[int, ...]) -> Any:
    """Compiles and calls."""
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


# What ATL has beyond this miniature, in the order of the sections above: a prover that decides indices for all sizes
# and finds numbers that refute; element types, lets, selections, folds by other monoids and all reshape operators, each
# defined in what exists; hundreds of rules, most of them proved for all sizes, and each of them by Rocq;
# certificates that replay; pad-sets, by which a truncation is known to cut only padding, so that no test is printed for
# it; loops that are marked to run in lanes, threads and blocks; sparse formats and layouts; and C that is fast.

if __name__ == "__main__":
    main()
