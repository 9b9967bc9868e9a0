"""The interface to egglog, which holds the e-nodes, unites classes up to congruence, and finds candidates.

This is the only module that uses egglog; it is imported when a search starts. Its errors and panics become
`SearchFailed`. egglog does no substitution and no index arithmetic: a node is a kind, a head (both numbers) and its
parts.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from weakref import finalize

from rewrites.errors import SearchFailed

if TYPE_CHECKING:
    from egglog.bindings import EGraph

R = TypeVar("R")

Skeleton: TypeAlias = tuple[Any, ...]
"""A side of a rule for egglog: ("any", name or None), or the number of a kind followed by the skeletons of the parts.
"""
Row: TypeAlias = tuple[int, ...]

MAX_PARTS: Final = 3
_SIZE_BITS: Final = 32
_NUMBER: Final = (1 << _SIZE_BITS) - 1


class Store:
    """An egglog e-graph. Ground terms have numbers: `T` of a number is its class, and is never extracted."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="atl-egraph-"))
        self._remove = finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._pending: defaultdict[str, list[Row]] = defaultdict(list)
        self._seen: set[Row] = set()
        self._relations: dict[int, str] = {}
        self._patterns = 0
        self._graph: EGraph | None = _translating_errors(self._made)
        definitions = [
            "(sort E)",
            "(constructor T (i64) E :unextractable)",
            "(function least (E) i64 :merge (min old new))",
            "(relation same (i64 i64))",
            "(ruleset enter)",
            "(ruleset look)",
            "(rule ((same x y)) ((union (T x) (T y))) :ruleset enter)",
        ]
        for count in range(MAX_PARTS + 1):
            parts = [f"x{k}" for k in range(count)]
            columns, nodes = " ".join(parts), " ".join(f"(T {x})" for x in parts)
            made = f"(union (T t) (N{count} k h {nodes})) (set (least (T t)) l)"
            definitions += [
                f"(constructor N{count} (i64 i64{' E' * count}) E)",
                f"(relation node{count} (i64 i64 i64 i64{' i64' * count}))",
                f"(rule ((node{count} t l k h {columns})) ({made}) :ruleset enter)",
            ]
        self._run("\n".join(definitions))

    def _made(self) -> EGraph:
        try:
            from egglog.bindings import EGraph
        except ImportError as error:
            raise SearchFailed(
                "a search needs egglog, which is not installed",
                required="egglog 13.2",
                suggestions=("pip install 'atl-tensor[egraph]'",),
            ) from error
        return EGraph(seminaive=True, fact_directory=str(self._folder))

    @property
    def graph(self) -> EGraph:
        """The egglog graph, until the store is closed."""
        assert self._graph is not None, "the store is open"
        return self._graph

    def _run(self, text: str) -> None:
        _translating_errors(lambda: self.graph.run_program(*self.graph.parse_program(text)))

    def close(self) -> None:
        """Delete the files and the egglog graph, which must be dropped by the thread that created it."""
        self._remove()
        self._graph = None

    # -- patterns -----------------------------------------------------------------------------------------------------

    def add_pattern(self, skeleton: Skeleton) -> int:
        """Add a pattern and return its number, which is the first column of its rows in `found`.

        The further columns are, node by node from the outside in, the node's head, and for each "any" part the number
        of the smallest term of its class.
        """
        number = self._patterns
        self._patterns += 1
        body: list[str] = []
        columns: list[str] = []
        named: dict[str, str] = {}
        fresh = iter(range(1_000))

        def any_class(name: str | None) -> str:
            if name is not None and name in named:
                return named[name]
            variable = f"c{next(fresh)}"
            if name is not None:
                named[name] = variable
            body.append(f"(= l{variable} (least {variable}))")
            return variable

        def visit(at: Skeleton, variable: str) -> None:
            head = f"h{next(fresh)}"
            columns.append(head)
            parts = []
            for part in at[1:]:
                if part[0] == "any":
                    parts.append(any_class(part[1]))
                    columns.append(f"l{parts[-1]}")
                else:
                    parts.append(f"c{next(fresh)}")
                    visit(part, parts[-1])
            body.insert(0, f"(= {variable} (N{len(parts)} {at[0]} {head} {' '.join(parts)}))")

        visit(skeleton, "root")
        name = self._relations.get(len(columns))
        if name is None:
            name = self._relations[len(columns)] = f"found{len(columns)}"
            self._run(f"(relation {name} (i64{' i64' * len(columns)}))")
        self._run(f"(rule ({' '.join(body)}) (({name} {number} {' '.join(columns)})) :ruleset look)")
        return number

    # -- input --------------------------------------------------------------------------------------------------------

    def node(self, term: int, size: int, kind: int, head: int, parts: Sequence[int]) -> None:
        """Add a ground term as a node; the representative of a class is the smallest term, then the first."""
        least = min(size, 1 << 20) << _SIZE_BITS | term
        self._pending[f"node{len(parts)}"].append((term, least, kind, head, *parts))

    def unite(self, left: int, right: int) -> None:
        """Record that two ground terms are equal."""
        self._pending["same"].append((left, right))

    def _enter(self) -> None:
        from egglog import bindings as b

        commands = []
        for name, rows in self._pending.items():
            if rows:
                text = "\n".join("\t".join(map(str, row)) for row in rows)
                (self._folder / f"{name}.tsv").write_text(f"{text}\n", encoding="utf-8")
                commands.append(b.Input(b.RustSpan(__name__, 1, 1), name, f"{name}.tsv"))
                rows.clear()
        if commands:
            _translating_errors(lambda: self.graph.run_program(*commands))

    # -- output -------------------------------------------------------------------------------------------------------

    def found(self) -> list[Row]:
        """Return the new candidates of all patterns, in an order that does not depend on egglog."""
        self._enter()
        self._run("(run-schedule (seq (saturate (run enter)) (run look)))")
        tables = _translating_errors(self.graph.freeze).functions
        number = self.graph.value_to_i64
        new = []
        for name in self._relations.values():
            for row in tables[name].rows:
                read = tuple(number(value) for value in row.inputs)
                if read not in self._seen:
                    self._seen.add(read)
                    new.append(read)
        return sorted(new)

    def classes(self) -> tuple[dict[int, int], dict[int, list[tuple[int, tuple[int, ...]]]]]:
        """Return the class of each ground term, named by its first term, and the nodes of each class: heads and part
        classes.
        """
        self._enter()
        self._run("(run-schedule (saturate (run enter)))")
        tables = _translating_errors(self.graph.freeze).functions
        number = self.graph.value_to_i64
        members: defaultdict[object, list[int]] = defaultdict(list)
        for row in tables["T"].rows:
            members[row.output].append(number(row.inputs[0]))
        first = {value: min(terms) for value, terms in members.items()}
        class_of = {term: first[value] for value, terms in members.items() for term in terms}
        nodes: defaultdict[int, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
        for count in range(MAX_PARTS + 1):
            for row in tables[f"N{count}"].rows:
                _, head, *parts = row.inputs
                nodes[first[row.output]].append((number(head), tuple(first[part] for part in parts)))
        return class_of, {name: sorted(found) for name, found in sorted(nodes.items())}


def least_term(column: int) -> int:
    """Return the term number in a column for an "any" part."""
    return column & _NUMBER


def _translating_errors(call: Callable[[], R]) -> R:
    """Run an egglog call, converting its errors to `SearchFailed`."""
    try:
        return call()
    except (SearchFailed, MemoryError):
        raise
    except BaseException as error:
        # A Rust panic is raised as a PanicException, which is not a subclass of Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        first = re.sub(r"\s+", " ", str(error)).strip()[:300]
        raise SearchFailed(
            f"egglog failed: {first or type(error).__name__}",
            required="a search that egglog can run",
            suggestions=("try fewer rules or a smaller limit: s.saturate(rules=[…], limit=…)",),
        ) from error
