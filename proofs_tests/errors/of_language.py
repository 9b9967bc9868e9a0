"""Errors of the language: programs, shapes and types, safety, calls."""

from __future__ import annotations

from typing import Final

from proofs_tests.errors.entry import Entry

OF_LANGUAGE: Final = (
    Entry(
        "ATL101",
        "f = atl.program('f', [x], atl.gen(n, lambda i: x[i] if i >= 1 else 0.0))\n",
        "x[i] if i >= 1 else 0.0",
        "atl.select(i >= 1, x[i], 0.0)",
        "atl.select(p, e, other)",
    ),
    Entry("ATL102", "atl.exp('2')\n", "'2'", "2.0", "a tensor or a number"),
    Entry("ATL103", "atl.tensor('2f', n)\n", "'2f'", "'f2'", "does not start with a digit"),
    Entry(
        "ATL104",
        "held = []\n"
        "atl.gen(n, lambda i: held.append(i) or x[i])\n"
        "f = atl.program('f', [x], atl.gen(n, lambda j: x[held[0]]))\n",
        "x[held[0]]",
        "x[j]",
        "build the expression inside this function",
    ),
    Entry(
        "ATL105",
        "e = x[0]\nfor _ in range(1000):\n    e = e * x[0] + 1\n",
        "    e = e * x[0] + 1",
        "    e = x[0]",
        "let",
    ),
    Entry(
        "ATL106",
        "atl.parse('f (x : float32[n]) : float32[n] := 2 ** x')\n",
        "2 ** x",
        "2 * x",
        "expected a tensor expression, found '*'",
    ),
    Entry("ATL107", "atl.program('squares', [x], x.dot(x))\n", "x.dot(x)", "x @ x", "write a @ b"),
    Entry("ATL108", "atl.parse('f (x : float32[n]) : float32[n] := ⊞[i < n | paralel] x[i]')\n", "paralel", "parallel"),
    Entry("ATL201", "x[0, 0]\n", "x[0, 0]", "x[0]", "at most 1 index"),
    Entry(
        "ATL202",
        "i = atl.tensor('i', n, dtype='int32')\nx + i\n",
        "x + i",
        "x + atl.cast('float32', i)",
        'atl.cast("float32", …)',
    ),
    Entry(
        "ATL203",
        "f = atl.program('f', [x, atl.tensor('y', m)], x + atl.tensor('y', m))\n",
        "m)",
        "n)",
        "n = m in dimension 0",
    ),
    Entry(
        "ATL204",
        "atl.gen(n, lambda i: atl.gen(i, lambda j: x[j]))\n",
        "atl.gen(i, lambda j: x[j])",
        "atl.gen(n, lambda j: atl.guard(j < i, x[j]))",
        "generate the largest extent and guard the elements beyond",
    ),
    Entry("ATL205", "atl.split(0, x)\n", "0", "4", "a positive divisor"),
    Entry("ATL206", "f = atl.program('f', [x], 2 * x, given=[n >= 4, n <= 3])\nreschedule(f)\n", ", n <= 3", ""),
    Entry(
        "ATL301",
        "f = atl.program('f', [x], atl.gen(n, lambda i: x[i + 1]))\natl.check_safe(f)\n",
        "x[i + 1]",
        "atl.guard(i + 1 < n, x[i + 1])",
        "atl.guard((0 <= i + 1) & (i + 1 < n), …)",
    ),
    Entry(
        "ATL302",
        "f = atl.program('f', [x], atl.truncr(1, x), given=[n >= 1])\npadtypes.check(f)\n",
        "atl.truncr(1, x)",
        "atl.truncr(1, atl.padr(1, x))",
        "only padding may be cut",
    ),
    Entry(
        "ATL303",
        "f = atl.program('f', [x], atl.reduce('max', n, lambda i: atl.guard(i >= 1, x[i])))\n",
        "atl.guard(i >= 1, x[i])",
        "atl.select(i >= 1, x[i], x[0])",
        "atl.select(p, e, neutral)",
    ),
    Entry(
        "ATL401",
        "f = atl.program('f', [x], 2 * x)\natl.evaluate(f)\n",
        "evaluate(f)",
        "evaluate(f, x=np.ones(3, np.float32))",
        "x: float32 of shape (n,)",
    ),
    Entry(
        "ATL402",
        "f = atl.program('f', [x], 2 * x)\natl.evaluate(f, x=np.ones(3))\n",
        "np.ones(3)",
        "np.ones(3).astype(np.float32)",
        "x.astype(np.float32)",
    ),
    Entry(
        "ATL403",
        "f = atl.program('f', [x], 2 * x, given=[n >= 4])\natl.evaluate(f, x=np.ones(3, np.float32))\n",
        "np.ones(3",
        "np.ones(4",
        "4 <= n",
    ),
    Entry(
        "ATL404",
        "f = atl.program('f', [], atl.gen(n, lambda i: atl.value(i)))\nlowering.compile(f)(n=2**60)\n",
        "2**60",
        "2**10",
        "sizes up to 2**56",
    ),
    Entry(
        "ATL405",
        "f = atl.program('f', [x], atl.sqrt(x))\natl.evaluate(f, x=np.full(2, 2.0, np.float32), exact=True)\n",
        ", exact=True",
        "",
    ),
    Entry(
        "ATL406",
        "at = atl.tensor('at', m, dtype='int64')\n"
        "def read(i):\n"
        "    return atl.guard((2 * at[i] >= 0) & (2 * at[i] < n), x[2 * at[i]])\n"
        "f = atl.program('f', [x, at], atl.gen(m, read))\n"
        "lowering.compile(f)(np.ones(3, np.float32), np.array([2**62]))\n",
        "(2 * at[i] >= 0)",
        "(at[i] >= 0) & (at[i] < n) & (2 * at[i] >= 0)",
        "guard with bounds of at[i] in the outermost condition",
    ),
)
