"""Random programs with GPU marks: tiles filled and read by threads in different orders, sums, and registers."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

HEAD: Final = "(x : float32[n, 8, 8], y : float32[n, 8, 8])"

AXES: Final = (("y", "x"), ("y", "x"), ("x", "y"), ("x", "z"), ("y", ""), ("", "x"), ("", ""))
"""Axes of threads for two nested loops."""


@dataclass(slots=True)
class Maker:
    """A generator of one program; `tiles` are the lets in scope with their extents."""

    random: Random
    tiles: list[tuple[str, int, int]] = field(default_factory=list)
    names: int = 0

    def program(self, name: str) -> str:
        random = self.random
        rows, columns = random.choice((2, 3, 4)), random.choice((2, 4, 8))
        grid = random.choice(("block.x", "block.y", "block.z"))
        if random.random() < 0.1:
            # A tensor between two launches.
            axes = self._axes()
            made = f"⊞[b < n | {grid}] {self._loops(rows, columns, axes)} {self._element('b')}"
            self.tiles = []
            read = random.choice(("w[n - 1 - b, i, j] + w[b, i, j]", "w[b, i, j] * w[b, i, j]"))
            used = f"⊞[b < n | block.x] {self._loops(rows, columns, axes)} {read}"
            return f"{name} {HEAD} : float32[n, {rows}, {columns}] := let w := {made} in {used}"
        if random.random() < 0.08:
            return self._stepped(name, grid, rows, columns)
        if random.random() < 0.25:
            return f"{name} {HEAD} : float32[n] := ⊞[b < n | {grid}] {self._lets('b')} {self._sum('b')}"
        lets = self._lets("b")
        body = self._tile("b", rows, columns)
        return f"{name} {HEAD} : float32[n, {rows}, {columns}] := ⊞[b < n | {grid}] {lets} {body}"

    def _stepped(self, name: str, grid: str, rows: int, columns: int) -> str:
        """Return a state after some steps, each of which is a launch."""
        states = f"float32[n, {rows}, {columns}]"
        loops = f"⊞[b < n | {grid}] {self._loops(rows, columns, self._axes())}"
        read = self.random.choice(
            ("w[s - 1, b, i, j]", f"w[s - 1, n - 1 - b, {rows} - 1 - i, j]", f"w[s - 1, b, i, {columns} - 1 - j]")
        )
        step = self.random.choice(("max(w[s - 1, b, i, j], {})", "w[s - 1, b, i, j] + {}", "{}")).format(read)
        first = f"⊞[f < 1] ⊞[b < n] ⊞[i < {rows}] ⊞[j < {columns}] x[b, i, j]"
        made = f"rec[1 <= s < n + 1] w from {first} in {loops} {step} + y[b, i, j]"
        return f"{name} {HEAD} : {states} := ({made})[n]"

    def _lets(self, block: str) -> str:
        """Return some tiles, each computed from earlier ones."""
        return " ".join(self._let(block) for _ in range(self.random.choice((1, 1, 2, 2, 3))))

    def _let(self, block: str) -> str:
        random = self.random
        name = f"t{self.names}"
        self.names += 1
        if random.random() < 0.15:
            value = self._sum(block)
            self.tiles.append((name, 0, 0))
            return f"let {name} := {value} in"
        rows, columns = random.choice((2, 3, 4)), random.choice((2, 4, 8))
        mark = random.choice((" | shared", " | shared", " | shared", " | registers", ""))
        value = self._rounds(block, rows, columns) if random.random() < 0.25 else self._tile(block, rows, columns)
        if mark == " | shared" and random.random() < 0.2:
            value = random.choice(("transpose padr 1 transpose {}", "transpose transpose {}")).format(f"({value})")
        self.tiles.append((name, rows, columns))
        return f"let {name}{mark} := {value} in"

    def _rounds(self, block: str, rows: int, columns: int) -> str:
        """Return a sum of tiles in a loop that all threads run together, with another tile per iteration."""
        inner = f"t{self.names}"
        self.names += 1
        kept, stages = list(self.tiles), self.random.choice((0, 0, 2, 3, 4))
        if stages:  # filled ahead, from memory that the kernel does not change; by vectors, these are copies
            self.tiles = []
        width = self.random.choice((4, 4, 8)) if stages else columns
        filled = f"{self._loops(rows, width, self._axes())} {self._element('q')}"
        if stages and self.random.random() < 0.7:
            filled = f"⊞[i < {rows} | thread.y] ⊞[j < {width} | vector] x[q, i, j]"
        self.tiles = [*kept, (inner, rows, width)]
        used = self._tile(block, rows, columns)
        self.tiles = kept
        if stages:
            return f"Σ[q < n] let {inner} | shared {stages} stages := {filled} in {used}"
        return f"Σ[q < 3] [q < n] · let {inner} | shared := {filled} in {used}"

    def _tile(self, block: str, rows: int, columns: int) -> str:
        value = self._element(block)
        if self.random.random() < 0.3:
            value = f"[{self.random.choice(('i + 1 < ', 'j < ', 'i + j < '))}{self.random.choice('234')}] · {value}"
        return f"{self._loops(rows, columns, self._axes())} {value}"

    def _axes(self) -> tuple[str, str]:
        return self.random.choice(AXES)

    def _loops(self, rows: int, columns: int, axes: tuple[str, str]) -> str:
        marks = [f" | thread.{axis}" if axis else "" for axis in axes]
        if not axes[1] and columns in {2, 4} and self.random.random() < 0.7:
            marks[1] = " | vector"
        return f"⊞[i < {rows}{marks[0]}] ⊞[j < {columns}{marks[1]}]"

    def _element(self, block: str) -> str:
        """Return one or two reads. The first reads the last tile, so that no tile is unused."""
        reads = [self._read(block, first=True), *(self._read(block) for _ in range(self.random.choice((0, 1, 1))))]
        made = self.random.choice((" + ", " * ", " - ")).join(reads)
        if self.random.random() < 0.1:
            return f"where({reads[0]} < {self._read(block)}, {made}, {reads[0]})"
        return made

    def _read(self, block: str, *, first: bool = False) -> str:
        random = self.random
        if not self.tiles or (not first and random.random() < 0.5):
            at = ", ".join(random.choice((("i", "j"), ("j", "i"), ("7 - j", "i"))))
            return f"{random.choice('xy')}[{block}, {at}]"
        name, rows, columns = self.tiles[-1] if first else random.choice(self.tiles)
        if not rows:
            return name
        row = random.choice(("i", f"{rows - 1} - i", "i + 1", "0"))
        column = random.choice(("j", f"{columns - 1} - j", "j + 1", str(columns - 1)))
        return f"([0 <= {row} < {rows} ∧ 0 <= {column} < {columns}] · {name}[{row}, {column}])"

    def _sum(self, block: str) -> str:
        """Return a scalar that threads reduce together, or that each thread computes."""
        random = self.random
        rows, columns = random.choice(((1, 4), (2, 8), (1, 32), (3, 4)))
        marks = random.choice(((" | thread.y", " | thread.x"), ("", " | thread.x"), ("", "")))
        fold = random.choice(("Σ", "Σ", "max"))
        value = self._element(block).replace("[b, i, j]", "[b, i % 8, j % 8]").replace("j, i]", "j % 8, i]")
        value = value.replace("7 - j", "7 - j % 8").replace("[b, j % 8 % 8", "[b, j % 8")
        return f"({fold}[i < {rows}{marks[0]}] {fold}[j < {columns}{marks[1]}] {value})"


def program_by_seed(seed: int, number: int) -> str:
    """Return the text of program `number` in the run with this seed."""
    return Maker(Random(f"gpu {seed} {number}")).program(f"fuzzed{number}")
