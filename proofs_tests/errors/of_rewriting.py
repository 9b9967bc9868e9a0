"""Errors of rewriting: rules, tactics, theorems, certificates, searches, user-defined rules."""

from __future__ import annotations

from typing import Final

from proofs_tests.errors.entry import Entry

OF_REWRITING: Final = (
    Entry(
        "ATL701",
        "from rewrites.kernel import reflexivity, rewrite\n"
        "f = atl.program('f', [x], atl.gen(n, lambda i: 2 * x[i]))\n"
        "two, element = f.body.body.left, f.body.body.right\n"
        "rewrite(reflexivity(f), rules['mul_comm'], (0,), {'a': element, 'b': two})\n",
        "{'a': element, 'b': two}",
        "{'a': two, 'b': element}",
        "x[#0] * 2",
    ),
    Entry(
        "ATL702",
        "from rewrites.kernel import reflexivity, rewrite\n"
        "f = atl.program('f', [x], atl.gen(n, lambda i: atl.guard(i >= 1, x[i])))\n"
        "inner = f.body.body\n"
        "rewrite(reflexivity(f), rules['guard_true'], (0,), {'p': inner.predicate, 'e': inner.body})\n",
        "i >= 1",
        "i >= 0",
        "1 <= i",
    ),
    Entry(
        "ATL703",
        "s = reschedule(atl.program('double', [x], atl.gen(n, lambda i: 2 * x[i])))\nimport pickle\npickle.dumps(s)\n",
        "pickle.dumps(s)",
        "s.branch()",
    ),
    Entry(
        "ATL704",
        "s = reschedule(atl.program('double', [x], atl.gen(n, lambda i: 2 * x[i])))\ns.rw('sum_swap')\n",
        "sum_swap",
        "mul_comm",
        "the left side of the rule",
    ),
    Entry(
        "ATL705",
        "s = reschedule(atl.program('double', [x], atl.gen(n, lambda i: 2 * x[i])))\n"
        "s.begin().arguments(rules['sum_swap'], (), False, {})\n",
        "rules['sum_swap'], ()",
        "rules['mul_comm'], (0,)",
        "the left side of the rule",
    ),
    Entry(
        "ATL706",
        "s = reschedule(atl.program('double', [x], atl.gen(n, lambda i: 2 * x[i])))\n"
        "s.rw('truncr_flatten_split', around='i', reverse=True)\n",
        "reverse=True",
        "reverse=True, k=4",
        "k=…",
    ),
    Entry(
        "ATL707",
        "from rewrites.certificates.term_json import argument_in\n"
        "f = atl.program('f', [x], x)\n"
        'argument_in(\'[["tensors", ["input", "x"]]]\', f)\n',
        "tensors",
        "tensor",
        "encoded by `rewrites.certificates.term_json`",
    ),
    Entry(
        "ATL708",
        "s = reschedule(atl.program('double', [x], atl.gen(n, lambda i: 2 * x[i])))\n"
        "s.done().save('none/double.json')\n",
        "none/",
        "",
        "a writable path",
    ),
    Entry(
        "ATL709",
        "from rewrites.kernel import reflexivity, rewrite\n"
        "f = atl.program('f', [x], x)\n"
        "rewrite(reflexivity(f), rules['guard_true'], (), {'p': x.node, 'e': x.node}, reverse=True)\n",
        "'p': x.node",
        "'p': (n >= 0).node",
        "a condition",
    ),
    Entry(
        "ATL710",
        "import sys\n"
        "import egglog.bindings\n"
        "from unittest import mock\n"
        "without = {'egglog': None, 'egglog.bindings': None}\n"
        "with mock.patch.dict(sys.modules, without):\n"
        "    reschedule(atl.program('double', [x], atl.gen(n, lambda i: 2 * x[i]))).saturate(rules=['mul_comm+'])\n",
        "{'egglog': None, 'egglog.bindings': None}",
        "{}",
        "pip install 'atl-tensor[egraph]'",
        shown=(
            "# where egglog is not installed\n"
            "s = reschedule(atl.program('double', [x], atl.gen(n, lambda i: 2 * x[i])))\n"
            "s.saturate(rules=['mul_comm+'])\n"
        ),
        cure="`pip install 'atl-tensor[egraph]'`",
    ),
    Entry(
        "ATL711",
        "s = reschedule(atl.program('double', [x], atl.gen(n, lambda i: 2 * x[i])))\n"
        "s.equal_to(atl.program('double', [x], atl.gen(n, lambda i: 3 * x[i])))\n",
        "3 * x[i]",
        "x[i] * 2",
        "breaks at: n = 1",
    ),
    Entry(
        "ATL712",
        "f = atl.program('f', [x], atl.let(2 * x, lambda y: y))\n"
        "box = layouts.Box((n,), row_major=True)\n"
        "halves = layouts.IndexFunction((n,), lambda i: (i // 2,), lambda p: (p,), onto=box)\n"
        "reschedule(f).store('y', halves)\n",
        "i // 2",
        "i",
        "i = i // 2",
    ),
    Entry(
        "ATL713",
        "from rewrites.user_rules import Elem, Equation, Index, equation, given, rule\n"
        "@rule\n"
        "def shorter(n: Index, e: Elem) -> Equation:\n"
        "    'A sum over one index fewer.'\n"
        "    return equation(atl.sum(n, lambda i: e), atl.sum(n - 1, lambda i: e))\n",
        "lambda i: e))",
        "lambda i: e), given(n <= 0))",
        "given(",
    ),
    Entry(
        "ATL714",
        "from rewrites.user_rules import Elem, Equation, Index, equation, given, rule\n"
        "@rule\n"
        "def never(n: Index, e: Elem) -> Equation:\n"
        "    'Where n is less and more than nothing.'\n"
        "    return equation(e, e + 0, given(n < 0, n > 0))\n",
        ", n > 0",
        "",
        "weaken its premises",
    ),
    Entry(
        "ATL717",
        "from atl import html\nhtml.write(reschedule(atl.program('f', [x], 2 * x)).done(), 'no such folder/f.html')\n",
        "no such folder/",
        "",
        "a writable path",
    ),
    Entry(
        "ATL718",
        "total = atl.program('total', [x], 2 * atl.sum(n, lambda i: x[i]))\n"
        "reschedule(total, strict=True).rw('sum_mul_left', reverse=True)\n",
        ", strict=True",
        "",
        "leave out strict=True",
    ),
    Entry(
        "ATL719",
        "from rewrites.raising import prove_text\n"
        "f = atl.program('f', [x], atl.gen(n, lambda i: atl.cast('float32', x[i] < 1)))\n"
        "prove_text(lowering.compile(f))\n",
        "atl.cast('float32', x[i] < 1)",
        "2 * x[i]",
        "validate this kernel at chosen sizes",
    ),
)
