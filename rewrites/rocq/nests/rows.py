"""Proof scripts for the rows of assembled results, with the lemmas of `Assembling.v`, and the theorem about entries.

Rows end one after another, or all of them after the last store. The first index of a row, as a function of the
variable of its loop, bounds the rows that a loop ends. Scripts are hints; Rocq checks them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from atl.core.index import Index, index
from atl.core.program import Program
from atl.errors import InvalidArgument
from lowering.nest import loopnest as ln
from lowering.nest.assembly import assembly_of, gathers, number_of_rows
from rewrites.rocq.nests.plan import Both, Branch, Loop, Plan, Simple
from rewrites.rocq.nests.printing import Printer
from rewrites.rocq.notation import positions


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of the assembled output of a nest: the storage id, and the dimension of a cell that is its row."""

    nest: ln.LoopNest
    printer: Printer

    @property
    def rank(self) -> int:
        return len(self.nest.output.extents)

    @property
    def parameters(self) -> str:
        """Print the arguments that the lemmas have in common. A vector is one row: it lacks the index of a row."""
        order = assembly_of(self.nest).order
        return f"{self.nest.output.uid} {order[0] if self.rank > 1 else 1} {self.rank}"

    @property
    def is_counted(self) -> bool:
        return any(each.row is None for each in gathers(self.nest))

    def lemma(self, plan: Plan) -> Iterator[str]:
        """Yield the lemma about the ends of rows. `plan` follows the statement that empties the output."""
        rows = self.printer.index(number_of_rows(self.nest))
        if self.is_counted:
            claim, script = f"ends_last {self.parameters} c", ["stored."]
        else:
            claim, script = f"ends {self.parameters} 0 {rows} c", self._ends(plan, "0", rows)
        yield f"Lemma nest_ends : match nest with Then _ c => {claim} | _ => False end."
        yield "Proof.\n  unfold nest."
        yield from (f"  {line}" for line in script)
        yield "Qed.\n"

    def theorem(self, first: Program) -> Iterator[str]:
        """Yield the theorem that the arrays of the entries represent the value of the first program."""
        uid, dimension, rank = self.parameters.split()
        rows = self.printer.index(number_of_rows(self.nest))
        at = [f"p''{d}" for d in range(first.type.rank)]
        place = positions(at)
        within = "".join(f"0 <= {p} < {self.printer.index(e)} -> " for p, e in zip(at, first.type.shape, strict=True))
        made = f"(assembled {uid} nest s)"
        once = f"NoDup (map fst {made})"
        appended = f"by_rows {dimension} {made} (Z.to_nat {rows}) = {made}"
        known = f"represents {rank} {made} (run nest s {uid})"
        if self.is_counted:
            yield f"Lemma nest_represents : forall s, {known}."
            yield f"Proof. exact (fun s => all_end {self.parameters} _ _ _ _ s nest_ends). Qed."
        else:
            yield f"Lemma nest_represents : forall s, {known} /\\ {appended}."
            yield f"Proof. exact (fun s => rows_end {self.parameters} _ _ _ _ _ s nest_ends). Qed."
        facts = [once] if self.is_counted else [once, appended]
        yield "Theorem assembles : forall (s : state), " + "".join(f"{fact} /\\ " for fact in facts)
        yield f"  forall {' '.join(f'({p} : Z)' for p in at)}, {within}"
        yield f"  decompressed {dimension} {made} {rows} {place} = program_0 {place}."
        yield "Proof."
        yield "  intros s. pose proof (nest_represents s) as M''."
        if not self.is_counted:
            yield "  destruct M'' as [M'' R'']."
        yield "  split; [exact (proj1 M'')|]."
        if not self.is_counted:
            yield "  split; [exact R''|]."
        yield f"  intros. rewrite (decompression {dimension} {rank} _ _ _ _ M'')"
        yield "    by first [reflexivity | unfold row; cbn [nth]; known]."
        yield "  apply nest_fills; [exact I | unfold within; each_part]."
        yield "Qed."

    # -- scripts

    def _ends(self, plan: Plan, low: str, high: str) -> list[str]:
        """Prove that a plan ends the rows between two indices."""
        end = _end_of(plan)
        if end is not None:
            return ["repeat apply ends_assoc. solve [apply ends_row; [known | stored]]."]
        match plan:
            case _ if _first_row(plan) is None:
                return ["apply ends_nothing. stored."]
            case Both(first, second):
                between = _first_row(second)
                middle = high if between is None else self.printer.index(between)
                if _first_row(first) is None:
                    middle = low
                return [
                    f"apply (ends_then _ _ _ {low} {middle} {high}); [known | |].",
                    *_part(self._ends(first, low, middle)),
                    *_part(self._ends(second, middle, high)),
                ]
            case Branch(_, body):
                return ["apply ends_when. intros ?.", *self._ends(body, low, high)]
            case Loop(at, body):
                row = _row_of(body)
                assert row is not None
                variable = self.printer.index(index(at.variable))
                of = f"(fun {variable} => {self.printer.index(row)})"
                ends = f"{self.printer.index(at.low)} {self.printer.index(at.high)}"
                low_row, high_row = (f"({of} {self.printer.index(e)})" for e in (at.low, at.high))
                return [
                    f"apply (ends_wider _ _ _ {low_row} {high_row}); [cbv beta; known | cbv beta; known |].",
                    f"apply (ends_for _ _ _ {of} {ends}); [known |].",
                    f"intros {variable} ?; split; [cbv beta; known | cbv beta].",
                    *self._ends(body, f"({of} {variable})", f"({of} ({variable} + 1))"),
                ]
            case _:
                raise InvalidArgument(
                    f"rows of {self.nest.output.name} end in a way that has no proof here",
                    required="loops over rows, each with the end of its row as the last statement",
                )


def _end_of(plan: Plan) -> ln.Gather | None:
    """Return the end of a row if it is the last statement of a plan."""
    match plan:
        case Simple(ln.Gather() as at):
            return at
        case Both(_, second):
            return _end_of(second)
        case _:
            return None


def _row_of(plan: Plan) -> Index | None:
    """Return the row that ends first in a plan."""
    match plan:
        case Simple(ln.Gather(_, row)):
            return row
        case Loop(_, body) | Branch(_, body):
            return _row_of(body)
        case Both(first, second):
            found = _row_of(first)
            return _row_of(second) if found is None else found
        case _:
            return None


def _first_row(plan: Plan) -> Index | None:
    """Return the first row that a plan ends, at the first iterations of its loops."""
    match plan:
        case Simple(ln.Gather(_, row)):
            return row
        case Loop(at, body):
            inside = _first_row(body)
            return None if inside is None else ln.index_at(inside, at.variable, at.low)
        case Branch(_, body):
            return _first_row(body)
        case Both(first, second):
            found = _first_row(first)
            return _first_row(second) if found is None else found
        case _:
            return None


def _part(lines: list[str]) -> list[str]:
    return ["{", *(f"  {line}" for line in lines), "}"]
