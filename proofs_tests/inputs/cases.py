"""Cases of `atl fuzz inputs`: calls, methods, operators, texts, files, names and commands, each as Python text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import Any, Final

import atl
import layouts
import lowering
import padtypes
import rewrites
import sparse
from proofs_tests.inputs import fixtures
from proofs_tests.programs.choices import Choices, chance, choose, weighted
from rewrites.session import catalogue

ODD: Final = tuple(
    text.strip()
    for text in r"""
None | True | False | 0 | 1 | -1 | 2 | 3 | 7 | 65 | 10**6 | 2**31 | 2**56 | 2**63 - 1 | 2**63 | -2**63 | 10**400
10**5000 | -10**5000 | 0.0 | 1.5 | 2.0 | -0.0 | math.nan | math.inf | -math.inf | 1e308 | 5e-324 | 1j | Fraction(1, 3)
Decimal('1.5') | '' | ' ' | 'i' | 'j' | 'n' | 'buf' | 'm / 2' | 'n // 0' | 'n %' | 'é' | '_' | '__' | 'a b' | 'n,m'
'\0' | '\ud800' | 'x' * 5000 | '(' * 5000 | '-' * 3000 | '1' * 5000 | '1 + ' * 5000 + '1' | '⊞[_ < n] _' | '[_] · _'
'Σ[_ < _' | 'float32' | 'vector' | 'get_gen' | b'n' | b'\xff' | bytearray(b'i') | memoryview(b'abc') | [] | [n]
['i'] | ['i', 'j'] | [0] | [0, 0] | [-1] | (0,) | (0, 1) | (0.0,) | ('0',) | () | (n,) | (0, n) | (n, 0) | (0, n, n)
{} | {'n': 3} | {'n': -1} | {'n': 'n'} | {3: 3} | {'k': 0} | set() | {1, 2} | frozenset() | range(3) | slice(1, 2)
... | object() | type | int | len | Mute() | Text('i') | Whole(2) | lists(50) | lists(100000) | looped() | lambda: 0
lambda i: i | lambda i: x[i] | lambda i, j: A[i, j] | lambda *a: 1.0 | lambda i: None | lambda i: 'i'
lambda **o: 1 | lambda i: i < 1 | (j for j in range(3)) | iter([1]) | zip([1], [2]) | map(int, ['1']) | id
np.int64(3) | np.int8(-1) | np.uint64(2**64 - 1) | np.float32(2) | np.float16(1.5) | np.float64('nan')
np.bool_(True) | np.str_('i') | np.complex64(1) | np.array(3) | np.array(2.5) | np.array(None) | np.zeros(3)
np.zeros(3, np.float32) | np.zeros((2, 3), np.float32) | np.zeros((2, 3)) | np.zeros(0) | np.zeros((0, 3))
np.arange(6.)[::-2] | np.arange(6, dtype=np.float32)[::2] | np.zeros(3, 'S3') | np.zeros(3, object)
np.array([None, 1]) | np.zeros(3, '>f4') | np.zeros(3, 'M8[s]') | np.zeros(3, [('a', 'i4')]) | np.ma.zeros(3)
np.broadcast_to(np.float32(1), (3,)) | np.zeros(3, np.longdouble) | np.zeros((1,) * 33) | np.array([1, 2], np.int64)
np.array([-1, 99], np.int64) | np.zeros(3, np.float16) | np.zeros(3, np.bool_) | np.zeros((3, 0, 2), np.float32)
np.float32 | np.dtype('float32') | n | m | k | n + 1 | n * m | n - 5 | n // 2 | n % 3 | -n | atl.ceildiv(n, k)
atl.imin(n, m) | u[0] | n == m | n < 3 | ~(n < 3) | (n < 3) & (m < 2) | n == n | x | A | u | c | x[0] | A[0] | A + A
1.5 * x | -x | atl.transpose(A) | atl.gen(3, lambda i: 1.0) | atl.gen(n, lambda i: x[i]) | doubled | staged | rows
tiled | doubled.body | doubled.inputs | doubled.inputs[0] | doubled.shape | doubled.shape[0] | doubled.assumptions
theorem() | theorem().steps | session() | session(rows) | handle() | gone() | kernel() | nest | padset | picture
rule | rewrites.rules | doubled.name | atl | atl.Tensor | atl.Size | atl.ATLError('x') | ValueError() | Path('x')
Path('/') | '/' | '/dev/null' | '/nonexistent/x' | NotImplemented | (0,) * 500
""".replace("\n", "|").split("|")
    if text.strip()
)  # fmt: skip
"""Unusual arguments, most of them invalid, separated by `|`. So none of them contains this operator."""

GOOD: Final = (
    "atl.sizes('n m')", "atl.sizes('n', min=1)", "atl.tensor('B', n, 3, dtype='float64')",
    "atl.tensor('v', n, dtype='int32', range=(0, n), monotonic='increasing')", "atl.gen(n, lambda i: x[i])",
    "atl.gen((0, n), m, lambda i, j: A[i, j])", "atl.sum(n, lambda i: x[i])", "atl.reduce('max', n, lambda i: x[i])",
    "atl.guard(n < 3, x)", "atl.let(x, lambda b: b + b, name='b')", "atl.select(n < m, x[0], 1.0)",
    "atl.concat(x, x, x)", "atl.transpose(A)", "atl.flatten(A)", "atl.split(4, x)", "atl.padl(2, x)",
    "atl.padr(n, x)", "atl.truncl(0, x)", "atl.truncr(0, x)", "atl.place(3, 1, x)", "atl.shear(A)",
    "atl.unshear(n, m, atl.shear(A))", "atl.scatter(n, m, lambda p: u[p], lambda p: 1.0)", "atl.minimum(x, 1)",
    "atl.einsum('ij,kj->ik', A, A)", "atl.einsum('...', x)",
    "atl.results(x, of=x[0])", "atl.program('p', [x], (x, 2 * x))", "atl.let(x, lambda b: {'b': b, 'c': 2 * b})",
    "atl.coiter([(u, 0, n), (u, 0, m)], lambda p, q: p < q, lambda p, q: x[p])",
    "atl.maximum(x, x)", "atl.abs(x)", "atl.sqrt(x)", "atl.exp(x)", "atl.log(x)", "atl.tanh(x)",
    "atl.erf(x)", "atl.sin(x)", "atl.cos(x)", "atl.pow(x, 2)",
    "atl.cast('float64', x)", "atl.value(n)", "atl.ceildiv(n, k)", "atl.imin(n, m)", "atl.imax(n, 3)",
    "atl.program('p', [x], x)", "atl.program('p', [A, x], x[0] * x, given=[n > 0, m > 0])",
    "atl.evaluate(doubled, x)", "atl.evaluate(doubled, np.ones(3, np.float32))",
    "atl.evaluate(tiled, np.ones(3, np.float32), k=2)",
    "atl.evaluate(gathered, u=np.array([0, 2]), x=np.ones(3, np.float32), c=2.0)",
    "atl.evaluate(rows, A=np.ones((2, 3)), exact=True)", "atl.check_safe(rows)", "atl.parse(str(rows))",
    "atl.Tensor['n m', 'float64']", "atl.Tensor['n m']", "atl.Program('p', (), doubled.body)",
    "rewrites.reschedule(doubled, given=[n > 0])", "atl.load('/nonexistent/x')",
    "atl.load(written('good.json', certificate()), rules=rewrites.rules)", "rewrites.rules['get_gen']",
    "rewrites.Derivation(theorem(), rewrites.rules)", "padtypes.infer(tiled)", "padtypes.check(tiled)",
    "padtypes.draw(tiled, (0,), sizes={'n': 4, 'k': 2})", "list(padtypes.truncations(tiled))", "within(padset, (0,))",
    "picture.svg(cell=3)", "lowering.lower(rows, registers=False)", "lowering.print_c(nest)",
    "lowering.print_nest(nest)", "lowering.compile(doubled, target='c', sizes={}, fast_math=False)",
    "kernel()(np.ones(3, np.float32))", "kernel()(x=np.ones(3, np.float32), out=np.ones(3, np.float32))",
    "kernel(gathered)(np.ones(3, np.float32), np.array([0, 2]), 1.0)", "kernel(tiled)(np.ones(3, np.float32), k=2)",
    "kernel(rows)(np.ones((2, 3)))", "kernel(rows)(A=np.ones((2, 3)))", "doubled(x)",
    "theorem().save(folder() / 'x.json')", "theorem().as_python()", "n ^ 3",
    "layouts.blocked(4, 2)((4, 4))", "layouts.swizzled(4, 2)((8, 8))", "layouts.morton(4)((4, n))",
    "layouts.skewed((3, 4))", "layouts.antidiagonal((n, m))", "layouts.padded(1)((3, 3))",
    "sparse.pack(np.eye(3), sparse.CSR)", "sparse.compress(sparse.BCSR(2, 2), np.eye(3))", "sparse.decompress(packed)",
    "sparse.to_scipy(packed)", "sparse.draw(packed, folder() / 'a.svg')", "sparse.description(packed)",
    "sparse.meaning(sparse.CSR, 2, dtype='float64')", "sparse.format_named('BCSR(2, 8)')",
    "sparse.CSR.with_index_dtype('int64')",
    "sparse.Format('mine', (sparse.Dense(), sparse.Compressed()), sparse.Permuted((1, 0)), 'int32')",
    "sparse.Blocked((2, 2))", "sparse.Composed(sparse.Permuted((1, 0)), sparse.Blocked((2, 2)))", "sparse.HASH(4)",
    "sparse.load(written('good.json', certificate()), custom={}, smt=True)", "sparse.Compressed(2, False)",
    "kernel(multiplied())(packed, np.ones(3))", "kernel(multiplied())(A=np.eye(3), v=np.ones(3), out=np.ones(3))",
    "kernel(stored())(packed)", "sparse.SparseTensor(sparse.CSR, (3, 3), packed.levels, packed.values)",
    "layouts.Layout((4, 8), (1, 4))", "layouts.Layout((4, (2, 2)), (2, (1, 8)))(3)", "layouts.coalesce(layout)",
    "layouts.composition(layout, layouts.Layout(8, 2))", "layouts.complement(layout, 64)", "layouts.Swizzle(2, 1, 3)",
    "layouts.logical_divide(layout, layouts.Layout(4))", "layouts.equal(layout, layout)", "layouts.injective(layout)",
    "layouts.draw(layout)", "layouts.explain(layouts.composition, layout, layouts.Layout(8, 2))",
)  # fmt: skip
"""Valid or nearly valid calls, whose arguments are replaced."""
METHODS: Final = (
    "session().rw('get_gen')", "session().rw('get_gen', at='i', nth=0, all=False, reverse=False)",
    "session().rw('truncr_flatten_split', reverse=True, around='i', k=8)",
    "session().rw('unfold_let', top_down=True)", "session().rw('split_gen', around='i', k='n // 2')",
    "session().inline('buf', at='i')", "session().lbind('2 * _', 'two', over='i')",
    "session(rows).tile(['i', 'j'], [4, 4])", "session().tile('i', 8, in_='buf')", "session(rows).interchange('i')",
    "session().fuse('buf')", "session(rows).stage('A[_, _]', at='i', name='t')", "session().hoist('buf', out_of='i')",
    "session(rows).flatten_loops('i')", "session().unroll('i')", "session().split_loop('i', 1)",
    "session().mark('i', 'vector')", "session().rename('i', 'r', binder=0)", "session().find('i', in_='buf').path",
    "session().cursors('get_gen', reverse=False)", "session().undo(0)", "session().redo(0)", "session().branch()",
    "branch().continue_as(branch())", "session().script()",
    "session(rows).optimize(sizes={'n': 3, 'm': 2}, seconds=None, machine=None, parallel=False, recipes=None)",
    "session().explain(-1)", "session().diff(-1)", "session().solve_for_index('i')", "session().simpl_guard(at='i')",
    "session().normalize()", "session().simpl_index()", "session().do(lambda work: work.rewrite('unfold_let', ()))",
    "session().record('text', session().begin())", "session().begin().rewrite('unfold_let', ())",
    "session().begin().attempt('get_gen', (0,))", "session().begin().sweep(['get_gen'])",
    "session().begin().repeat(['get_gen'], most=3)", "session().begin().cursor((0,))",
    "session().begin().rename((0,), 'r')", "session().goal", "session().steps[0]", "session().done()",
    "session(rows).tails('i', strategy='bounds')", "session(rows).pack('A', at='i', order=['j', 'i'])",
    "session(rows).pack('A', name='packed', nth=0)", "session(scaled).factor_out('c', out_of='j')",
    "session(rows).check(target='c')",
    "session(doubled).time(np.ones(3, np.float32), seconds=0.01)",
    "session(rows).compile(target='c', sizes=None, fast_math=False, strict=None)",
    "session(rows).stage('A[_, _]', at='i', nth=0)",
    "session().lbind('2 * _', 'two', nth=0)", "session().theorem", "session().report",
    "shown('induct').induction_goals('y', lambda p: atl.sum(p + 1, lambda k: x[k]))",
    "session(rows).equal_to(rows, limit=30, watch=None)", "session(rows).saturate(rules=None, limit=30, watch=None)",
    "session(rows).take(session(rows).saturate(limit=30).best(k=1)[0])",
    "session().applicable(at='i', seconds=0.05)", "session().apply(lambda s: s.inline('buf'))",
    "session().record_call(session().fuse('buf').steps[0])",
    "session(rows).auto(cost='code size', sizes={'n': 9}, tiles=(2,), k=1, rules=None, limit=30, watch=None)",
    "session(rows).store('A', layouts.blocked(4, 2), name='t')",
    "session().store('buf', layouts.backwards)", "session(rows).view('A', layouts.column_major)",
    "session(rows).store_result(layouts.column_major)", "session(rows).schedule()",
    "session(rows).shard('A', layouts.shards(x=(0, n, 1)))", "session(rows).shard_result(layouts.shards(x=(0, n, 1)))",
    "session(rows).traffic()", "session(rows).compare_errors(rows, np.ones((3, 2), np.float32))",
    "session(rows).compile(mesh=atl.Mesh(x=2))",
    "session(rows).reorder('i', layouts.padded(1))", "session(rows).reorder(['j'], layouts.morton(4))",
    "session(rows).store('A', layouts.Layout((n, m), (1, n)))",
    "session(rows).sparsify('A', sparse.CSR)", "session(copied).sparsify('A', sparse.COO, result=True)",
    "session(rows).assemble(sparse.COO, zeros=False)",
    "session(rows).autotune({'n': 3, 'm': 2}, 0, schedule=lambda s: s, choices={}, measure=None, folder=folder())",
    "session(rows).optimize({'n': 3, 'm': 2}, 0, machine=None, parallel=False, recipes=(), folder=folder())",
)  # fmt: skip
"""Calls of sessions, whose arguments are replaced too."""


def _documented_calls() -> Iterator[str]:
    """Yield the call in each tactic's docstring, with all options at their defaults."""
    for entry in catalogue.tactics_of_sessions():
        head, arguments, tail = split_call(fixtures.example(entry.name)[1])
        options = inspect.signature(getattr(rewrites.Session, entry.name)).parameters.values()
        given = {argument.partition("=")[0] for argument in arguments}
        arguments += [f"{o.name}={o.default!r}" for o in options if o.kind is o.KEYWORD_ONLY and o.name not in given]
        yield f"shown({entry.name!r}).{head.removeprefix('s.')}{', '.join(arguments)}{tail}"


UNARY: Final = ("neg", "pos", "abs", "invert", "not_", "truth", "index")
BINARY: Final = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "lt", "le",
    "gt", "ge", "eq", "ne", "getitem", "contains", "concat",
)  # fmt: skip
OPERANDS: Final = ("x", "A", "x[0]", "u[0]", "n", "n + 1", "n < 3", "c", "doubled.shape[0]", "1.5 * x")
CONVERSIONS: Final = (
    "len", "int", "float", "list", "hash", "bool", "str", "repr", "iter", "reversed", "math.sqrt", "np.sqrt",
    "np.asarray", "sum", "max", "round", "dir", "vars", "format", "bytes", "complex",
)  # fmt: skip
PACKAGES: Final[tuple[ModuleType, ...]] = (atl, rewrites, padtypes, lowering, layouts, sparse)
NAMES: Final = (
    "if", "lambda", "None", "self", "cls", "out", "class", "int", "main", "double", "restrict", "inline", "register",
    "errno", "NULL", "memset", "malloc", "free", "sqrt", "exp", "INT64_MAX", "int64_t", "uint8_t", "gen", "sum",
    "let", "in", "prod", "max", "min", "place", "shear", "select", "cast", "value", "padding", "size", "given",
    "transpose", "strict", "exact", "__init__", "__class__", "__dict__", "__", "_", "_0", "_0_", "_a", "a_", "i", "j",
    "n", "x", "held", "b", "total", "out_", "é", "α", "\uff41", "ﬁ", "日本", "a b", "a-b", "1a", "", " ", "a\n", "`",
    "a`b",
    "\\", "#", "a#b", "∞", "Σ", "⊞", "\u202e", "\0", "a" * 63, "a" * 64, "a" * 255, "a" * 300, "a" * 70_000, "if_",
    "For", "T", "E", "M_TILE", "LC_X", "FP_SCALE", "HUGE_VALF", "PRIor", "I", "linux", "unix", "nan", "inf", "NaN",
    "true", "false", "bool", "float32", "int32", "name", "program", "inputs",
)  # fmt: skip
"""Names with a meaning in Python, in C, in the language or in a terminal."""


@cache
def callables() -> dict[str, Any]:
    """Return every public callable, by the text that evaluates to it."""
    found: dict[str, Any] = {}
    for package in PACKAGES:
        for name in package.__all__:
            if package is atl and name in atl.LAZY:
                continue  # the name of its package is used
            value = getattr(package, name)
            if callable(value) and not (isinstance(value, type) and issubclass(value, Exception)):
                found[f"{package.__name__}.{name}"] = value
    for name, value in inspect.getmembers(rewrites.Session, callable):
        if not name.startswith("_"):
            found[f"session().{name}"] = value
    return found


def case(choices: Choices) -> tuple[str, str]:
    """Return a kind and a Python expression."""
    make: tuple[str, Callable[[Choices], str]] = weighted(choices, KINDS)
    return make[0], make[1](choices)


def odd(choices: Choices) -> str:
    return choose(choices, ODD)


def _public(choices: Choices) -> str:
    """Call anything public with anything."""
    called = choose(choices, sorted(callables()))
    positional = [odd(choices) for _ in range(choices.integer(0, 4))]
    named = [f"{name}={odd(choices)}" for name in _keywords(called) if chance(choices, 20)]
    return f"{called}({', '.join([*positional, *named])})"


@cache
def _keywords(called: str) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(callables()[called]).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _replaced(templates: Sequence[str]) -> Callable[[Choices], str]:
    """Return a generator of valid calls with one or a few arguments replaced."""

    def make(choices: Choices) -> str:
        head, arguments, tail = split_call(choose(choices, templates))
        for _ in range(weighted(choices, ((6, 1), (3, 2), (1, 3)))):
            if not arguments:
                break
            at = choices.integer(0, len(arguments) - 1)
            arguments[at] = replace_value(arguments[at], odd(choices))
        if arguments and chance(choices, 8):
            del arguments[choices.integer(0, len(arguments) - 1)]
        if chance(choices, 8) and not any(map(_NAMED.match, arguments)):
            arguments.append(odd(choices))
        return f"{head}{', '.join(arguments)}{tail}"

    return make


def replace_value(argument: str, other: str) -> str:
    """Return the argument with another value."""
    name, equals, _ = argument.partition("=") if _NAMED.match(argument) else ("", "", "")
    return f"{name}{equals}{other}"


_NAMED: Final = re.compile(r"\w+=(?!=)")
_OPENING, _CLOSING = "([{", ")]}"


def split_call(call: str) -> tuple[str, list[str], str]:
    """Split an expression into the text before the arguments of its last call, the arguments, and the rest."""
    end = max(call.rfind(")"), call.rfind("]"))
    depth, start = 0, end
    for start in range(end, -1, -1):
        depth += (call[start] in _CLOSING) - (call[start] in _OPENING)
        if not depth:
            break
    arguments: list[str] = [""]
    depth, quoted = 0, False
    for letter in call[start + 1 : end]:
        quoted ^= letter == "'"
        depth += 0 if quoted else (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and not depth and not quoted and not _in_lambda(arguments[-1]):
            arguments.append("")
        else:
            arguments[-1] += letter
    return call[: start + 1], [text.strip() for text in arguments if text.strip()], call[end:]


def _in_lambda(text: str) -> bool:
    return "lambda" in text and ":" not in text.partition("lambda")[2]


def _operators(choices: Choices) -> str:
    left, right = choose(choices, OPERANDS), odd(choices)
    if chance(choices, 25):
        return f"{choose(choices, CONVERSIONS)}({left})"
    if chance(choices, 15):
        return f"operator.{choose(choices, UNARY)}({left})"
    if chance(choices, 30):
        left, right = right, left
    return f"operator.{choose(choices, BINARY)}({left}, {right})"


_TOKENS: Final = (
    *"()[]{}<>=+-*/%&|~·⊞ΣΠ⊕≤∧¬⌈⌉∞_.,:;`#'\"\\\n\0é",
    "let", "in", "gen", "sum", ":=", "++", "//", " ", "0", "-1", "1e400", "9" * 401, "float32", "int64", "size",
    "given", "transpose", "split", "place", "padding", "cast", "x", "n", "i", "vector", "inf", "nan", "((((",
    "strict", "select",
)  # fmt: skip


def mutated(choices: Choices, text: str) -> str:
    """Return a text with pieces deleted, inserted, repeated and exchanged."""
    for _ in range(weighted(choices, ((5, 1), (3, 2), (2, 5)))):
        at = choices.integer(0, len(text))
        span = choices.integer(1, 6)
        match choices.integer(0, 5):
            case 0:
                text = text[:at] + text[at + span :]
            case 1:
                text = text[:at] + choose(choices, _TOKENS) + text[at:]
            case 2:
                text = text[:at] + choose(choices, _TOKENS) + text[at + span :]
            case 3:
                other = choices.integer(0, len(text))
                low, high = sorted((at, other))
                text = text[:low] + text[low:high] * choices.integer(2, 3) + text[high:]
            case 4:
                text = (
                    text[:at] + choose(choices, _TOKENS) * weighted(choices, ((5, 3), (1, 500), (1, 5000))) + text[at:]
                )
            case _:
                text = text[:at]
    return text


_PATTERNS: Final = (
    "⊞[_ < n] _", "Σ[k < _] _ * _", "buf[_]", "[_] · _", "let buf := _ in _", "2 * x[i + _]", "max(_, _)", "i",
    "⊞[_ < _ | parallel] _", "transpose _", "select(_ < _, _, _)", "_ ++ _",
)  # fmt: skip
_CALLED: Final = (
    "session().rw('get_gen', at={})", "session().find({})", "session().lbind({}, 't')", "session().stage({}, at='i')",
    "session(rows).rw('split_gen', around='i', k={})", "session().rw({})", "session().mark({}, 'vector')",
    "session().split_loop('i', {})", "session(tiled).rw('guard_add', p={})",
)  # fmt: skip


def _texts(choices: Choices) -> str:
    if chance(choices, 65):
        return f"read({mutated(choices, choose(choices, fixtures.TEXTS))!r})"
    if chance(choices, 10):
        return f"atl.Tensor[{mutated(choices, '2*n+1 m//2')!r}]"
    return choose(choices, _CALLED).format(repr(mutated(choices, choose(choices, _PATTERNS))))


_JSON: Final = (
    b"[",
    b"{",
    b"null",
    b"true",
    b"1e400",
    b"NaN",
    b"-1",
    b'"',
    b"\\u0000",
    b"\xff",
    b"9" * 5000,
    b"[" * 3000,
)


def damaged(choices: Choices, data: bytes) -> bytes:
    """Return changed bytes of a file."""
    for _ in range(weighted(choices, ((7, 1), (2, 3)))):
        at = choices.integer(0, len(data))
        match choices.integer(0, 5):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + bytes([choices.integer(0, 255)]) + data[at + 1 :]
            case 2:
                data = data[:at] + data[at + choices.integer(1, 40) :]
            case 3:
                data = data[:at] + choose(choices, _JSON) + data[at:]
            case 4:
                data = data[:at] + choose(choices, _JSON) + data[at + choices.integer(1, 10) :]
            case _:
                data = data[at:] + data[:at]
    return data


def _files(choices: Choices) -> str:
    reader, data = weighted(
        choices,
        (
            (4, ("load_certificate", fixtures.certificate())),
            (4, ("load_array", fixtures.array_bytes())),
            (3, ("load_record", fixtures.record_bytes())),
        ),
    )
    if chance(choices, 5):
        # Truncated, or with bytes that are not UTF-8: the rest of the script is run.
        script = fixtures.SCRIPT[: choices.integer(0, len(fixtures.SCRIPT))] + choose(
            choices, (b"", b"", b"\0", b"\xe9")
        )
        return f"load_program({script!r})"
    return f"{reader}({damaged(choices, data)!r})"


_ROLES: Final = (
    "named({})", "named({})", "named({})", "named({})", "atl.sizes({})", "atl.tensor({}, n)",
    "atl.program({}, [x], x)", "atl.let(x, lambda b: b, name={})", "session().rename('i', {})",
    "session().lbind('2 * _', {})", "session(rows).stage('A[_, _]', at='i', name={})",
    "atl.evaluate(doubled, **{{{}: 3}})", "lowering.compile(doubled, sizes={{{}: 3}})", "getattr(x, {})",
    "getattr(session(), {})", "getattr(n < 3, {})", "getattr(n, {})", "atl.cast({}, x)", "session().mark('i', {})",
    "atl.tensor('B', n, dtype={})", "kernel()(**{{{}: np.ones(3, np.float32)}})",
    "session().rw('get_gen', **{{{}: 1}})",
)  # fmt: skip


def _names(choices: Choices) -> str:
    name = choose(choices, NAMES)
    if chance(choices, 20):
        name += choose(choices, NAMES)
    role = choose(choices, _ROLES)
    # Python itself looks up names with underscores.
    return role.format(repr(f"a{name}" if role.startswith("getattr") else name))


_WORDS: Final = (
    "show", "run", "check", "rules", "fuzz", "demo", "--version", "--help", "-o", "/dev/full", "/dev/null", "/", "",
    "x=3", "n=-1", "x=/nonexistent.npy", "x", "=", "get_gen", "no_such_rule", "\udc80", "é:é", ":", "::",
    "json:loads", "examples.matmul", "examples.matmul:matmul", "examples/windows.py:windows", "--nest", "--c",
    "k=" + "9" * 5000, "A=a.npy", "--", "os.path:join",
)  # fmt: skip


def _commands(choices: Choices) -> str:
    first = choose(choices, ("show", "run", "check", "rules"))
    rest = [choose(choices, _WORDS) for _ in range(choices.integer(0, 4))]
    return f"command({', '.join(map(repr, [first, *rest]))})"


SHOWN: Final = tuple(_documented_calls())
KINDS: Final[tuple[tuple[int, tuple[str, Callable[[Choices], str]]], ...]] = (
    (24, ("calls", _replaced(GOOD))),
    (22, ("sessions", _replaced(METHODS + SHOWN))),
    (12, ("any call", _public)),
    (10, ("operators", _operators)),
    (14, ("texts", _texts)),
    (10, ("files", _files)),
    (7, ("names", _names)),
    (1, ("commands", _commands)),
)
"""Weights of the kinds."""
