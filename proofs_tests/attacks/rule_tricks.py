"""User-defined rules that try to state one law when they are checked and another when they are used.

Each text is executed after `random_rules.HEAD`. Code that runs appends to the list CALLS, which must not change after
the declaration. {name} is replaced by the name of the rule.
"""

from __future__ import annotations

from typing import Final

_LAW: Final = '    """A law that looks around."""\n    CALLS.append("{name}")\n'
_COUNTING: Final = """
class Counting({base}):
    def __getattribute__(self, name):
        CALLS.append(name)
        return {base}.__getattribute__(self, name)
    def __eq__(self, other):
        CALLS.append("eq")
        return {base}.__eq__(self, other)
    def __hash__(self):
        CALLS.append("hash")
        return {base}.__hash__(self)
"""


def _of(body: str, parameters: str = "a: Elem", before: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().split("\n"))
    return f"{before}\n@rule\ndef {{name}}({parameters}) -> Equation:\n{_LAW}{lines}"


_FALSE: Final = "return equation(a, a + a)"
_EARLIER: Final = (
    'SEEN = []\n\n@rule\ndef earlier(a: Elem) -> Equation:\n    """A law."""\n    SEEN.append(a)\n'
    "    return equation(a + a, 2 * a)\n"
)
_TRUE: Final = "return equation(a + a, 2 * a)"
_TERMS: Final = """
from atl.core.index import Array, Size, Var, bound, constant, index, read
from atl.core.predicate import NonNegative, Zero, disjunction
from atl.core.terms import Binary, Cast, Constant, Gen, Input, Local, Metavariable, Padding, TensorVar, Type, Unary
from atl.surface.values import Condition, IndexExpr, Tensor
from rewrites.metavariables import Kind
"""


def _terms(body: str, parameters: str = "a: Elem", more: str = "") -> str:
    return _of(body, parameters, _TERMS + more)


TRICKS: Final[dict[str, str]] = {
    # Tests of the metavariables.
    "the rank": _of("return equation(a, a if a.rank < 3 else a + a)"),
    "the number of extents": _of("return equation(a, a if len(a.shape) != 4 else a + a)"),
    "the node": _of("return equation(a, a if type(a.node).__name__ == 'Metavariable' else a + a)"),
    "the node by an attribute getter": _of(
        'return equation(a, a if type(operator.attrgetter("node")(a)).__name__ == "Metavariable" else a + a)',
        before="import operator",
    ),
    "the class": _of("return equation(a, a if isinstance(a, atl.Tensor) else a + a)"),
    "the text": _of('return equation(a, a if f"{a!r}" == "a" else a + a)'),
    "the element type": _of('return equation(a, a if str(a.dtype).startswith("?") else a + a)'),
    "an index that is a number": _of(
        "return equation(e(n), e(n) if as_index(n).constant is None else 0 * e(n))", "n: Index, e: Body[Index]",
        "from atl.surface.values import as_index",
    ),
    "a comparison": _of("return equation(a, a + a) if (n <= 3) is True else equation(a, a * 1)", "n: Index, a: Elem"),
    "what fails": _of(
        "try:\n    int(n)\n    return equation(a, a + a)\nexcept Exception:\n    " + _TRUE, "n: Index, a: Elem"
    ),
    "the prover": _of(
        "return equation(e(n), e(n) if not atl.prove.proves(Facts(), (n >= 0).node) else 0 * e(n))",
        "n: Index, e: Body[Index]", "import atl.prove\nfrom atl.prove import Facts",
    ),
    "the stack": _of("return equation(a, a if len(inspect.stack()) < 999 else a + a)", before="import inspect"),
    # State that changes.
    "a counter": _of("COUNT.append(1)\n" + "return equation(a, a * 1) if len(COUNT) <= 5 else equation(a, a + a)",
                     before="COUNT = []"),
    "another equation at each call": _of("COUNT.append(1)\nreturn equation(a * len(COUNT), a * COUNT.__len__())",
                                         before="COUNT = []"),
    "alternating equations": _of("COUNT.append(1)\nreturn equation(a, a * (1 if len(COUNT) % 2 else 2))",
                                 before="COUNT = []"),
    "a list that changes afterwards": _of("return equation(a * TABLE[0], a)", before="TABLE = [1]")
    + "\nTABLE[0] = 2\n",
    "a global that changes afterwards": _of("return equation(a * FACTOR, a)", before="FACTOR = 1") + "\nFACTOR = 2\n",
    "a global that it rewrites": _of(
        "global FACTOR\nFACTOR += 1\nreturn equation(a * FACTOR, a + a)", before="FACTOR = 1"
    ),
    "statistics of the prover": _of(
        "n = atl.prove.statistics.snapshot()\nreturn equation(a, a if n is not None else a + a)",
        before="import atl.prove",
    ),
    "a counter of ids": _of(
        "return equation(a, a) if next(fresh_uid) < 10**6 else equation(a, a + a)",
        before="from atl.core.substitution import fresh_uid",
    ),
    "its own attribute": _of(
        "{name}_seen.append(a)\nreturn equation(a + a, a * 2)", before="{name}_seen = []"
    ) + "\n{name}_seen[0] = None\n",
    "the law": _of(_TRUE) + "\ntry:\n    {name}.law = 'something else'\nexcept AttributeError:\n    pass\n",
    "the statements": _of(_TRUE) + "\ntry:\n    {name}.statements[(0,)] = None\nexcept TypeError:\n    pass\n",
    "a metavariable's kind": _of(_TRUE)
    + "\ntry:\n    {name}.metavariables['a'] = Index\nexcept TypeError:\n    pass\n",
    # Signatures.
    "a default": _of(_TRUE, "a: Elem, seen: Index = 1"),
    "a keyword": _of(_TRUE, "*, a: Elem"),
    "any keywords": _of("return equation(0.0, 0.0)", "**a: Elem"),
    "a signature of another": _of("return equation(k['a'], k['a'] * 1)", "**k: Elem") .replace(
        "@rule", "def shown(a: Elem) -> Equation: ...\n\ndef signed(f):\n    f.__signature__ = __import__('inspect')."
        "signature(shown)\n    f.__annotations__ = dict(a=Elem)\n    return f\n\n@rule\n@signed"),
    "a parameter with a dot": _of("return equation(k['a.0'], k['a.0'] * 1)", "**k: Elem") .replace(
        "@rule", "def shown(a: Elem) -> Equation: ...\n\ndef signed(f):\n    f.__signature__ = __import__('inspect')."
        "signature(shown)\n    f.__annotations__ = {'a.0': Elem}\n    return f\n\n@rule\n@signed"),
    "a generator": _of("yield " + _TRUE.removeprefix("return ")),
    "a rule within": _of(
        'inner = rule(shadow)\nreturn equation(a + a, a * 2)',
        before='def shadow(a: Elem) -> Equation:\n    """Within."""\n    return equation(a, a * 1)',
    ),
    "itself": _of("return equation(a, {name}(a))"),
    # Exceptions.
    **{
        f"raising {error}": _of(f"raise {error}")
        for error in ("ValueError", "KeyError(1)", "AttributeError", "RecursionError", "MemoryError", "StopIteration",
                      "AssertionError", "atl.ATLError('x')", "Exception(Exception())")
    },
    "raising at rank 0": _of("if a.rank == 0:\n    raise ValueError\n" + _TRUE),
    "raising at all ranks but 3": _of("if a.rank != 3:\n    raise ValueError\n" + _FALSE),
    "recursion": _of("return {name}_f(a)", before="def {name}_f(a):\n    return {name}_f(a)"),
    # Return values.
    "nothing": _of("return None"),
    "a pair": _of("return a, a"),
    "an equation of a subclass": _of("q = " + _TRUE.removeprefix("return ") + "\nreturn Mine(q.lhs, q.rhs)",
                                     before="class Mine(Equation):\n    pass"),
    "sides that are not terms": _of("return Equation(a, a.node)"),
    "a side that is nothing": _of("return Equation(None, a.node)"),
    "premises that are none": _of("return Equation(a.node, a.node, None)"),
    "premises that are true": _of("return Equation(a.node, a.node, (True,))"),
    "premises as a generator": _of("return Equation(a.node, (a * 1).node, (p for p in ()))"),
    "a term of a subclass": _terms(
        "g = gen(n, e).node\nreturn Equation(Mine(g.low, g.high, g.body, g.name), g)", "n: Index, e: Body[Index]",
        "class Mine(Gen):\n    def __eq__(self, other):\n        CALLS.append(1)\n        return True\n"
        "    def __hash__(self):\n        CALLS.append(1)\n        return 1\n",
    ),
    "a tensor of a subclass": _terms(
        "return equation(Mine(a.node), a + a)", more="class Mine(Tensor):\n    @property\n    def node(self):\n"
        "        CALLS.append(1)\n        return Constant(0.0, None)\n    @node.setter\n    def node(self, of): ...\n",
    ),
    "another id": _terms("m = a.node\nreturn Equation(Metavariable(m.uid + 1, m.name, m.of), m)"),
    "another name": _terms('m = a.node\nreturn Equation(Metavariable(m.uid, "b", m.of), m)'),
    "another type": _terms('m = a.node\nreturn Equation(Metavariable(m.uid, m.name, Type("float32", m.of.shape)), m)'),
    "another rank": _terms("m = a.node\nreturn Equation(Metavariable(m.uid, m.name, Type(m.of.dtype, ())), m)"),
    "arguments that it does not take": _terms(
        "m = a.node\nreturn Equation(Metavariable(m.uid, m.name, m.of, (constant(1),)), m)"
    ),
    "an index of another rule": _terms('return equation(e(IndexExpr(index(Var(7, "n")))), e(0))', "e: Body[Index]"),
    "an index named by a subclass": _terms(
        'v = n.node.atom\nreturn equation(e(IndexExpr(index(Var(v.uid, Counting("m"))))), e(n))',
        "n: Index, e: Body[Index]",
        _COUNTING.format(base="str"),
    ),
    "an index under another name": _terms(
        'v = n.node.atom\nreturn equation(e(IndexExpr(index(Var(v.uid, "m")))), e(n))', "n: Index, e: Body[Index]"
    ),
    "a size": _of("return equation(e(atl.sizes('n')), e(n))", "n: Index, e: Body[Index]"),
    "an input": _of("return equation(a, a + 0 * atl.tensor('x', dtype=None))"),
    "an input of another type": _terms("return Equation(a.node, Input(Array('x', a.node.of.shape, 'float64')))"),
    "a loose index": _terms("return equation(e(IndexExpr(bound(0))), e(0))", "e: Body[Index]"),
    "a loose index in a premise": _terms(
        "return Equation(a.node, (a * 1).node, (disjunction([Zero(bound(0)), NonNegative(n.node)]),))",
        "n: Index, m: Index, k: Index, l: Index, a: Vector",
    ),
    "a loose tensor": _terms("return Equation(Local(0, a.node.type), a.node)"),
    "a variable tensor": _terms("return Equation(TensorVar(9, 'x', a.node.type), a.node)"),
    "a condition as a number": _terms(
        "r = IndexExpr(p.node.expression)\nreturn equation(a * value(r), a * value(r))", "p: Cond, a: Elem"
    ),
    "twice a condition": _terms(
        "r = p.node.expression\nreturn Equation(a.node, guard(p, a).node, (NonNegative(r * 2 + 1),))",
        "p: Cond, a: Elem",
    ),
    "a condition less one": _terms(
        "r = p.node.expression\nreturn Equation(a.node, guard(p, a).node, (NonNegative(r - 1),))", "p: Cond, a: Elem"
    ),
    "another condition by its name": _terms(
        'r = read(Array("q", (), "bool"), ())\nreturn Equation(a.node, guard(q, a).node, (NonNegative(r),))',
        "p: Cond, q: Cond, a: Elem",
    ),
    "a condition of another rank": _terms(
        'r = read(Array("p", (constant(0),), "bool"), (constant(0),))\n'
        "return Equation(a.node, a.node, (NonNegative(r),))",
        "p: Cond, a: Elem",
    ),
    "a literal of a subclass": _terms(
        "return Equation((a * 2).node, Binary('mul', a.node, Constant(Counting(2.0), a.node.type.dtype)))", "a: Scalar",
        _COUNTING.format(base="float"),
    ),
    "an index of a subclass": _of("return equation(e(n + Counting(2)), e(n + 2))", "n: Index, e: Body[Index]",
                                  _COUNTING.format(base="int")),
    "a type of a subclass": _terms(
        'return Equation(Constant(1, Counting("float32")), Constant(1, Counting("float32")))', "a: Elem",
        _COUNTING.format(base="str"),
    ),
    "a name of a subclass": _terms(
        'g = gen(n, e).node\nreturn Equation(Gen(g.low, g.high, g.body, Counting("i")), g)', "n: Index, e: Body[Index]",
        _COUNTING.format(base="str"),
    ),
    "an operation of a subclass": _terms('return Equation(Unary(Counting("neg"), a.node), (0 - a).node)', "a: Scalar",
                                         _COUNTING.format(base="str")),
    "literals that are not numbers": _of('return equation(a * float("nan"), a * float("nan"))'),
    # Annotations.
    "a group of a subclass": _terms(_TRUE, 'a: Kind("tensor", 0, Counting("s"))', _COUNTING.format(base="str")),
    "a kind of a subclass": _terms(
        _TRUE, "a: Mine('tensor')", "class Mine(Kind):\n    @property\n    def mine(self):\n        return 1\n"
    ),
    "a kind of no sort": _terms("return equation(0.0, 0.0)", 'a: Kind("tensors")'),
    "a kind of a negative rank": _terms(_TRUE, 'a: Kind("tensor", -1)'),
    "a kind of a large rank": _terms(
        "return equation(value(n), value(v.shape[15]))", 'v: Kind("tensor", 18, ""), n: Index'
    ),
    "a function of functions": _terms("return equation(0.0, 0.0)", 'a: Kind("tensor", 0, "s", (Elem[Index],))'),
    "a function of conditions": _terms("return equation(f(n > 0), f(n >= 1))", "f: Elem[Cond], n: Index"),
    "a function to indices": _terms("return equation(0.0, 0.0)", 'f: Kind("index", 0, "s", (Index,))'),
    "no annotation": _of(_TRUE, "a"),
    "an annotation as text": _of(_TRUE, "a: 'Elem'"),
    "an annotation that counts": _of(_TRUE, "a: 'CALLS.append(0) or Elem'"),
    # Names.
    "a name of a subclass of str": _COUNTING.format(base="str") + _of(_TRUE).replace(
        "@rule", "def renamed(f):\n    f.__name__ = Counting(f.__name__)\n    return f\n\n@rule\n@renamed"
    ),
    "a name of two lines": _of(_TRUE).replace(
        "@rule", "def renamed(f):\n    f.__name__ = 'a\\nPROVED'\n    return f\n\n@rule\n@renamed"
    ),
    "a module that is none": _of(_TRUE).replace(
        "@rule", "def moved(f):\n    f.__module__ = object()\n    return f\n\n@rule\n@moved"
    ),
    # Metavariables of other calls and other rules, and what is bound elsewhere.
    "a metavariable of the first rank": _of("SEEN.append(a)\nreturn equation(a, SEEN[0] + 0 * a)", before="SEEN = []"),
    "metavariables of two ranks": _of("SEEN.append(a)\nreturn equation(SEEN[-1] + SEEN[0], 2 * a)",
                                      before="SEEN = []"),
    "a metavariable of another rule": _of("return equation(a + SEEN[0], a)", before=_EARLIER),
    "another rule's metavariable for its own": _of("return equation(a, SEEN[0])", before=_EARLIER),
    "an index beyond its loop": _of("gen(n, lambda i: SEEN.append(i) or e(i))\nreturn equation(e(SEEN[-1]), e(n))",
                                    "n: Index, e: Body[Index]", "SEEN = []"),
    "an index of the other side": _of(
        "seen = []\nleft = gen(n, lambda i: seen.append(i) or e(i))\n"
        "return equation(left, gen(n, lambda j: e(seen[0])))", "n: Index, e: Body[Index]"),
    "an index of a loop in a premise": _of(
        "seen = []\nleft = gen(n, lambda i: seen.append(i) or e(i))\n"
        "return equation(left, left + left, given(seen[0] < 0))", "n: Index, e: Body[Index]"),
    "a tensor beyond its let": _of("seen = []\nlet(a, lambda t: seen.append(t) or t)\nreturn equation(a, seen[0])"),
    "a size with a minimum": _of(
        "return equation(e(n), e(N))", "n: Index, e: Body[Index]", 'N = atl.sizes("n", min=7)'),
    # Control flow, and functions that are none.
    "another equation where reading fails": _of(
        "try:\n    a[0]\nexcept Exception:\n    " + _TRUE + "\n" + _FALSE),
    "another equation at the end": _of("try:\n    " + _TRUE + "\nfinally:\n    " + _FALSE),
    "a lambda": "{name} = rule(lambda a: equation(a, a + a))\n",
    "a partial function": "import functools\n" + _of("return equation(a, b)", "a: Elem, b: Elem").replace("@rule\n", "")
    + "\n{name} = rule(functools.partial({name}, b=None))\n",
    "a method that counts": "class Stating:\n    times = 0\n    def {name}(self, a: Elem) -> Equation:\n"
    '        """A law."""\n        CALLS.append(1)\n        self.times += 1\n'
    "        return equation(a, a * self.times)\n\n{name} = rule(Stating().{name})\n",
    "a wrapper": _of(_TRUE).replace(
        "@rule", "import functools\n\ndef twisted(f):\n    @functools.wraps(f)\n    def other(a):\n        f(a)\n"
        "        return equation(a, a + a)\n    return other\n\n@rule\n@twisted"),
    "a cached function": _of(_FALSE).replace("@rule", "import functools\n\n@rule\n@functools.cache"),
    "a rule of a rule": _of(_TRUE) + "\n{name} = rule({name})\n",
    "other code later": _of(_TRUE).replace("@rule\n", "") + "\nkept = {name}\n{name} = rule(kept)\n"
    "def other(a):\n    CALLS.append(1)\n    return equation(a, a + a)\n\nkept.__code__ = other.__code__\n",
    "a rule that declares itself again": _of(
        "DEPTH.append(1)\nif len(DEPTH) < 3:\n    rule(again)\n" + _TRUE,
        before='DEPTH = []\n\ndef again(a: Elem) -> Equation:\n    """A law."""\n    ' + _FALSE),
    "a thread": _of(
        "t = threading.Thread(target=lambda: TABLE.append(1))\nt.start()\nt.join()\nreturn equation(a * len(TABLE), a)",
        before="import threading\nTABLE = []"),
    "a session": _of(
        's = atl.reschedule(atl.program("p", [X], X + X)).rw("add_comm")\n'
        "return equation(a + a, a * (1 + len(s.steps)))", before='X = atl.tensor("x", 3)'),
    "an evaluation": _of('atl.evaluate(atl.program("p", [], a))\n' + _FALSE),
    "a deep term": _of("b = a\nfor _ in range(5000):\n    b = b + a\nreturn equation(b, 5001 * a)"),
    # Signatures and documents.
    "a signature of text": _of(_TRUE).replace(
        "@rule", "def signed(f):\n    f.__signature__ = 'a'\n    return f\n\n@rule\n@signed"),
    "a signature without parameters": _of(_TRUE).replace(
        "@rule", "import inspect\n\nclass Empty(inspect.Signature):\n    @property\n    def parameters(self):\n"
        "        CALLS.append(1)\n        return {}\n\ndef signed(f):\n    f.__signature__ = Empty()\n"
        "    return f\n\n@rule\n@signed"),
    "annotations that count": _of(_TRUE).replace(
        "@rule", "class Counted(dict):\n    def items(self):\n        CALLS.append(1)\n"
        "        return dict.items(self)\n\ndef noted(f):\n    f.__annotations__ = Counted(f.__annotations__)\n"
        "    return f\n\n@rule\n@noted"),
    "a number as docstring": _of(_TRUE).replace(
        "@rule", "def noted(f):\n    f.__doc__ = 3\n    return f\n\n@rule\n@noted"),
    # What is returned and changed.
    "premises that vanish": _of(
        "p = [(n >= 0).node]\nKEPT.append(p)\nreturn Equation(e(n).node, e(imax(n, 0)).node, p)",
        "n: Index, e: Body[Index]", "KEPT = []") + "\nfor p in KEPT:\n    p.clear()\n",
    "premises that are not listed": _of(
        "return Equation(e(n).node, e(imax(n, 0)).node, Hidden(((n >= 0).node,)))", "n: Index, e: Body[Index]",
        "class Hidden(tuple):\n    def __iter__(self):\n        CALLS.append(1)\n        return iter(())\n"),
    "a node that is rewritten": _of(
        't = (a + a).node\nKEPT.append(t)\nreturn Equation(t, (2 * a).node)', before="KEPT = []")
    + '\nfor t in KEPT[:1]:\n    object.__setattr__(t, "op", "sub")\n',
    "a node that claims to be another": _of(
        't, u = (a + a).node, a.node\nobject.__setattr__(t, "identity", u.identity)\nreturn Equation(t, u)'),
    "a node within itself": _of(
        't = (a + a).node\nobject.__setattr__(t, "left", t)\nreturn Equation(t, (2 * a).node)'),
}  # fmt: skip
"""Texts of rules by the trick that they try."""
