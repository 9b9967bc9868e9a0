"""Equivalent mutants, which no test can kill, with the reason for each."""

from __future__ import annotations

from typing import Final

_BY_FILE: Final[dict[str, dict[str, str]]] = {
    "atl/checks/scope.py": {
        "Scope.index::map_leaves(expression, self._leaf) if expression.loose else expression: always::0":
            "without bound variables nothing is replaced; only slower",
        "Scope.predicate::predicates.substitute(predicate, self._leaf) if predicate.loose else p: always::0":
            "without bound variables nothing is replaced; only slower",
        "_direct_parts::True: negated::0": "the sequences have one length, checked before",
        "_scope_of_part::for binder in part.indices: the first alone::0": "no form binds two indices over one part",
        "_unique_name::Names(others).fresh(name) if name in others else name: always::0":
            "a name that no other variable has is fresh",
    },
    "atl/checks/wellformed.py": {
        "_check_closed::for term in subterms(body): the first passed over::0":
            "if the body itself is the innermost term, it is the default",
        "_check_names::seen[array_name] != array: part 0 ignored::0": "declarations of one name are compared",
        "_of_rows::True: negated::0": "the sequences have one length, checked before",
        "_of_rows::if a != b: always::0": "the additional goal is proved immediately",
        "_of_rows::if count != low: always::0": "the additional goal is proved immediately",
        "_same_shape::True: negated::0": "the sequences have one length, checked before",
        "_same_shape::dimension >= first and a != b: part 1 forgotten::0": "the additional goal is proved immediately",
        "_shape_outside::if never_negative(extent): never::0": "the additional goal is proved immediately",
        "_shape_outside::if not never_negative(opened): always::0": "the additional goal is proved immediately",
        "check_meaning::for error in meaning_errors(program): the first alone::0": "only the first error is raised",
        "obligations::if divisors(expression): always::0": "without divisors nothing is required; only slower",
        "inspects_subterms::False: negated::1": "only terms with parts are passed",
    },
    "atl/checks/validation.py": {
        "_once::known is not None and known[0]() is node: part 1 forgotten::0":
            "the entry of a node is dropped before its id is used again",
        "check_class::True: negated::0": "a node has one field for each slot, which a test compares",
        "_remade_fields::True: negated::0": "a node has one field for each slot, which a test compares",
    },
    "atl/checks/zipper.py": {
        "Zipper.fits::len(self.path) + self.term.depth <= MAX_DEPTH: LtE becomes Lt::0":
            "a term of exactly the limit is built directly, and not refused",
        "Zipper.fits::self.size <= MAX_SIZE: LtE becomes Lt::0":
            "a term of exactly the limit is built directly, and not refused",
        "Zipper.scope::object.__setattr__(at, 'known', scope): left out::0":
            "the value is computed again, and is the same",
        "Zipper.up::above if made is above.term else above.with_term(made): never::0":
            "a place with the same term is made again; only slower",
        "Zipper.up_to_date::below if below.above is at else below.with_parent(at): never::0":
            "the same place is made again; only slower",
        "Zipper.to::len(at.path) > common and at.above is not None: part 1 forgotten::0":
            "a nonempty path has a parent; for the type checker",
    },
    "atl/prove/facts.py": {
        "Model.named::named.get(leaf, leaf) if isinstance(leaf, Var) else leaf: always::0":
            "only variables have names there",
        "Facts.__post_init__::if len(self.topics) != len(self.predicates) or not self.predica: always::0":
            "facts with given topics are flat, and have these topics",
        "Facts.__post_init__::len(self.topics) != len(self.predicates) or not self.predicates: part 1 forgotten::0":
            "facts with given topics are flat, and have these topics",
        "Facts.__post_init__::not self.predicates: not forgotten::0":
            "facts with given topics are flat, and have these topics",
        "_numbered::True: negated::0": "each fact has its topics",
        "_numbered::if all((variable.uid == number for number, variable in enumerat: never::0":
            "variables with their final number get it again",
        "_partition::if not left: never::0": "all facts are rebuilt, and equal the given ones",
        "_with_numbers::_renumbered(predicate, changed) if changed else predicate: always::0":
            "a predicate without renumbered variables is unchanged",
        "_with_numbers::condition one.uid != number and one in topics dropped::0":
            "a variable with its final number gets it again; one not in the facts is not used",
        "_with_numbers::one.uid != number and one in topics: and/or exchanged::0":
            "a variable with its final number gets it again; one not in the facts is not used",
        "_with_numbers::one.uid != number and one in topics: part 0 forgotten::0":
            "a variable with its final number gets it again",
        "_with_numbers::one.uid != number and one in topics: part 1 forgotten::0":
            "a variable that is not in the facts is not renumbered anywhere",
        "has_only_non_negative_terms::value > 0: Gt becomes GtE::0": "an expression has no term with coefficient 0",
    },
    "atl/prove/bits.py": {
        "_Reading.__post_init__::0: one more::0": "a goal that is read has a quotient or xor of at least one bit",
        "_Reading._atom::if found is None: always::0": "the value is computed again, and is the same",
        "_Reading.folded::condition len(form) == 1 dropped::0":
            "the highest bit of a variable has no weight if none of its bits occurs alone",
        "_equal_bits::1: one more::3": "without bits on both sides neither a low part nor a pair of bits exists",
        "_equal_bits::factor & -factor: another operation::0":
            "x | -x and the lowest bit of x differ by the sign, so the number of bits is the same",
        "_equal_bits::weight > 0: Gt becomes GtE::0": "no weight is 0, and it would add nothing",
        "_equal_bits::weight > 0: Gt becomes LtE::0": "an equality is symmetric",
        "_extents::0: one more::0": "without a leaf the factor is unused",
        "_parts::(atom.numerator,) if isinstance(atom, ix.Quotient) else (): always::0":
            "only quotients and xor are passed",
        "_power::0: one more::0": "1 is not a divisor that removes bits either",
        "_power::1: one more::1": "from 2 on, d & (d - 2) is 0 if and only if d & (d - 1) is",
        "_power::divisor > 1: Gt becomes GtE::0": "1 has one bit and removes none",
        "_string::0: one more::0": "no weight is 0, and it would add nothing",
        "_string::1: one more::2": "without bits the length is that of the number or of the high part, at least 0",
        "_string::factor & -factor: another operation::0":
            "x | -x and the lowest bit of x differ by the sign, so the number of bits is the same",
        "_string::weight < 0: Lt becomes LtE::0": "no weight is 0, and it would add nothing",
        "by_bits::if value.weights: always::0": "without weights nothing is reduced or combined",
    },
    "atl/prove/bounds.py": {
        "_Elimination._by_remainder::sign > 0: Gt becomes GtE::0": "the sign is not 0 here",
        "_Elimination._by_remainder::times is None or not self.absent(b) or (not (sign := self._sign(times): "
        "part 1 forgotten::0":
            "a nonzero coefficient without the variable is not a multiple of a divisor with it",
        "_Elimination._element::False: negated::0":
            "an element is read at as many positions as its array has dimensions",
        "_Elimination._positive::0: one more::0": "a quotient by 1 does not exist",
        "_Elimination._sign::1: one more::0": "2 is a sign like 1, and -2 like -1; signs are compared with 0",
        "_Elimination._sign::1: one more::1": "2 is a sign like 1, and -2 like -1; signs are compared with 0",
        "_Elimination._term::if not varying: never::0": "an empty product is 1, as minimum and maximum",
        "_Elimination._term::sign > 0: Gt becomes GtE::0": "the sign is not 0 here",
        "_Elimination.extreme::if self.absent(expression): never::0":
            "an expression without the variable is a coefficient of nothing, and its own bound",
    },
    "atl/prove/steps.py": {
        "_divided::0: one more::0": "neither 1 nor 0 is above 1",
        "_divided::1 < (divisor := (atom.denominator.constant or 0)) <= LARGEST_DIVISOR: Lt 0 becomes LtE::0":
            "a quotient by 1 does not exist",
        "_least::2: one more::0": "of three terms two remain, which are not a constant",
        "_least::condition len(monomial) == 1 dropped::0":
            "without a single leaf and a constant the rest is not a constant",
        "_plain::0 < len(possible) < len(monomial[0].choices): Lt 0 becomes LtE::0":
            "at most one of two or more choices is a constant, and the others remain",
        "_plain::0: one more::3": "no term has factor 0",
        "_plain::factor != 1 or len(monomial) != 1 or (not isinstance(monomial[0], ix.E: part 0 forgotten::0":
            "otherwise the maximum remains in the rest, where only leaves are known",
        "_plain::factor < 0: Lt becomes LtE::0": "no term has factor 0",
        "split_remainders::_WHOLE + variable.uid: another operation::0":
            "the result is another number that no variable has",
        "with_plain_limits::True: negated::0": "one is made for each of the other",
        "_realisable::False: negated::0": "an element is read at as many positions as its array has dimensions",
        "_Ends._is_positive::0: one more::0": "a quotient by 1 does not exist",
        "_Ends._sign::1: one more::1": "2 is a sign like 1, and -2 like -1; signs are compared with 0",
        "_Ends._sign::1: one more::2": "2 is a sign like 1, and -2 like -1; signs are compared with 0",
        "_Ends._sign::value > 0: Gt becomes GtE::0": "an expression has no term with coefficient 0",
        "_Ends.never_negative::0: one more::1": "expressions without a sign were skipped; a sign is 1 or -1",
        "_Ends.never_negative::sign < 0: Lt becomes LtE::0":
            "expressions without a sign were skipped; a sign is 1 or -1",
        "_depth::0: one more::0": "apart from variables only quotients vary, and this order compares them",
        "relevant::if len(facts.predicates) < MIN_FACTS: never::0": "fewer facts drop no more; only slower",
    },
    "atl/prove/linear.py": {
        "_kept::case if len(left) == len(case) else left: never::0": "the same alternatives in another tuple",
        "decide_cases::if not system.cases: never::0": "nothing would be found; only slower",
        "_quotients::1: one more::0": "an unknown minimum is any negative number",
        "consequences::1: one more::1": "an unknown minimum is any negative number",
        "factor::0: one more::3": "an unknown maximum is a number that is not negative",
        "factor::x is not None and (intervals.low.get(x, 0) > 0 or intervals.high.get(x: part 0 forgotten::0":
            "without a factor, it has no bound",
        "_divisors::1: one more::0": "an atom list has no choices of one more",
        "_divisors::monomial not in divisors and len(divisors) < MAX_DIVISORS: part 0 forgotten::0":
            "known divisors are found again",
        "_product::if len(a) < len(b): always::0": "products and known pairs are symmetric",
        "_product::if len(a) < len(b): never::0": "products and known pairs are symmetric",
        "_product::len(a) < len(b): Lt becomes GtE::0": "products and known pairs are symmetric",
        "_product::len(a) < len(b): Lt becomes LtE::0": "products and known pairs are symmetric",
        "_widen::1: one more::3": "an atom list has no choices of one more",
        "_widen::known if len(columns) > 1 else (): always::0":
            "the only product of a one-column row is the requested one, and is known; a constant has none",
        "_widen::len(columns) > 1: Gt becomes GtE::0":
            "the only product of a one-column row is the requested one, and is known; a constant has none",
        "_Refutation._define::True: negated::0": "nothing would be found; only slower",
        "_Refutation._define_read::False: negated::0":
            "an element is read at as many positions as its array has dimensions",
        "_Refutation._pair_in_order::step[0] > 0: Gt becomes GtE::0":
            "elements at distance 0 are one element, and not a pair",
        "_Refutation._pair_reads::True: negated::0":
            "an element is read at as many positions as its array has dimensions",
        "_Refutation.entails::0: one more::1": "the row has no terms, so it is 0, and 1 is natural like 0",
        "_Refutation.entails::if not any(row): never::0":
            "a negative number follows only from contradictory facts, which are detected anyway",
        "refuted_by_rounding::False: negated::0": "rounding makes no products, few or many",
    },
    "atl/prove/rows.py": {
        "_Lines.add::1: one more::0": "each of the first rows has its own bit, which is the next one",
        "_Lines.keep::common > 1: Gt becomes GtE::0": "division by 1 changes nothing",
        "_Lines.keep::if common > 1: always::0": "division by 1 changes nothing",
        "_Lines.keep::if other is None: always::0": "a line is stored once; the cost of its columns is computed again",
        "_Lines.keep::value > 0: Gt becomes GtE::0": "a row has no column with coefficient 0",
        "_Lines.next_column::above and below and (price == _price(above, below)): part 0 forgotten::0":
            "lines with a column of one sign only were removed before",
        "_Lines.next_column::above and below and (price == _price(above, below)): part 1 forgotten::0":
            "lines with a column of one sign only were removed before",
        "_Lines.remove::value > 0: Gt becomes GtE::0": "a row has no column with coefficient 0",
        "_without_equalities::value > 0: Gt becomes GtE::0": "a row has no column with coefficient 0",
        "Intervals.least::value > 0: Gt becomes GtE::0": "a row has no column with coefficient 0",
        "_bound_term::value > 0: Gt becomes GtE::0": "a row has no column with coefficient 0",
        "_narrow::value > 0: Gt becomes GtE::0": "a row has no column with coefficient 0",
        "_narrow::value > 0: Gt becomes GtE::1": "a row has no column with coefficient 0",
        "_narrow_product::0: one more::1": "a minimum of 0 becomes 0",
        "_narrow_product::0: one more::3":
            "a product of natural factors has a minimum; if it is too large, each factor is at least 1 already",
        "_narrow_product::1: one more::4": "an unknown minimum is any negative number",
        "_narrow_product::low < 0: Lt becomes LtE::0": "a minimum of 0 becomes 0",
        "propagate::False: negated::0": "nothing would be found; only slower",
        "propagate::if not intervals.changed: never::0": "nothing would be found; only slower",
        "propagate::len(monomial) > 1: Gt becomes GtE::0": "the product of one atom has the bounds of the atom",
        "Table.row::if len(monomial) == 1: never::0": "the column of an atom is that of its product",
        "Table.row::self.of_atom(monomial[0]) if column is None else column: always::0":
            "an existing column is found again",
        "combined::{column: x * value for column, value in a.items()} if x != 1 else dict: always::0":
            "one times a row is the row",
        "declared_rows::True: negated::0": "the bounds of an array and the parts made of them have one length",
        "segments::not isinstance(read, Read) or read.array.between is None: part 1 forgotten::0":
            "no array is None, and no element is read from it",
    },
    "atl/prove/prover.py": {
        "_Query._divided_out::if not _may_be_divided_out(predicate): never::0":
            "a quotient without a multiple of its divisor is unchanged",
        "_Query._divided_out::if not any(map(_may_be_divided_out, (*facts, denied))): never::0":
            "a quotient without a multiple of its divisor is unchanged",
        "_Query._divided_out::if not positive: never::0":
            "without a positive divisor nothing is divided out, and the goal is unchanged",
        "_Query.answer::None if self.thorough else search(table, whole, undefined=not _divides: always::0":
            "a counterexample and a proof never both exist; only slower",
        "_Query.answer::None if self.thorough else search(table, whole, undefined=not _divides: never::0":
            "a counterexample and a proof never both exist; only slower",
        "_Query.answer::if any((not case for case in whole.cases)): never::0":
            "the next layer finds the same contradiction in a case without alternatives",
        "_Query.answer::if samples is None: always::0":
            "the samples of the quick query, with the same seed, fail again",
        "_Query.answer::if simpler == pred.TRUE: never::0": "a true goal has no negation, and the same layer proves it",
        "_decide::goal.identity is pred.TRUE.identity or goal.identity in facts.known: part 0 forgotten::0":
            "a true goal is an empty conjunction, which is trivially proved",
        "_inconsistent::if found is None: always::0": "the value is computed again, and is the same",
        "_solvable::coefficient > 0: Gt becomes GtE::0": "it is 1 or -1, like all coefficients that are solved for",
        "simplify_predicate::if simpler == pred.FALSE: never::0":
            "a conjunction with a false part is false; only slower",
        "simplify_predicate::if simpler == pred.TRUE: never::0": "a disjunction with a true part is true; only slower",
    },
    "atl/prove/reduction.py": {
        "_quotient::1: one more::1":
            "only a number with one bit has none in common with the number two below; 1 is handled before",
        "_quotient::b.constant is None and (not can_prove(less(ix.ZERO, b))): part 0 forgotten::0":
            "a positive constant is known to be positive",
        "_shared_factors::1 < size < divisor: Lt 1 becomes LtE::0":
            "terms that the whole divisor divides were removed before",
        "_simplified::if not _compound(expression): never::0": "nothing would be found; only slower",
        "_simplified_atom::if found is None: always::0": "the value is computed again, and is the same",
    },
    "atl/prove/search.py": {
        "Search._between_neighbours::other[-1] < position[-1]: Lt becomes LtE::0":
            "no element is chosen for a known position",
        "Search._choose::0: one more::3": "it is not 0 at this point",
        "Search._choose::slope < 0: Lt becomes LtE::0": "it is not 0 at this point",
        "Search._choose::slope > 0: Gt becomes GtE::0": "it is not 0 at this point",
        "Search._inside::False: negated::0": "an element is read at as many positions as its array has dimensions",
        "Search._range::True: negated::0": "the bounds of an array and the parts made of them have one length",
        "_plan::column in plan.ready or not _depends_only(table, column, plan.ready): part 0 forgotten::0":
            "the other of two checks drops settled columns too",
        "_plan::others.remove(column): left out::0": "the other of two checks drops settled columns too",
    },
    "atl/prove/smt.py": {
        "_Translation.add_pairs::0: one more::3": "one position has one element",
        "_Translation.add_pairs::True: negated::0":
            "an element is read at as many positions as its array has dimensions",
        "_Translation.add_pairs::steps[-1] < 0: Lt becomes LtE::0": "one position has one element",
        "_Translation.add_pairs::steps[-1] > 0: Gt becomes GtE::0": "one position has one element",
        "_Translation.inside::False: negated::0": "an element is read at as many positions as its array has dimensions",
    },
    "padtypes/padset.py": {
        "_holds_at::True: negated::0": "the lengths were compared just before",
        "PadSet._repr_latex_::None if shown is None else f'$\\\\text{{padding where }} {shown.strip('$: never::0":
            "every condition has a formula; for the type checker",
        "PadSet.contains::True: negated::0": "the lengths were compared just before",
    },
    "rewrites/admission.py": {
        "_check_term::for declared in arrays_in(part): the first alone::0": "a node refers to at most one array",
        "is_of::True: negated::0": "the lengths were compared just before",
    },
    "rewrites/certificates/certificate.py": {
        "_arguments::True: negated::0": "both have the same number of lines",
        "_check_assumptions::tuple(stated) != start.assumptions or not all((isinstance(text, str) f: "
        "part 1 forgotten::0": "Python's text of a JSON number, list or object is not a condition",
        "_object::if '\\\\ud' in text.lower(): always::0":
            "text without unpaired surrogates is never refused; only slower",
        "_replayed_from::True: negated::0": "both have the same number of lines",
        "_written::True: negated::0": "both have the same number of lines",
        "replay::1: one more::0": "one more byte is read of a file that is too long anyway",
    },
    "rewrites/certificates/digests.py": {
        "Digests._of_identity::if found is None: always::0": "the value is computed again, and is the same",
    },
    "rewrites/certificates/term_json.py": {
        "Writer._link::if known is None: always::0": "the value is computed again, and is the same",
        "_Link.__eq__::isinstance(other, _Link) and other.number == self.number: and/or exchanged::0":
            "links are compared only if hashes agree, so they have one entry",
        "_Link.__eq__::isinstance(other, _Link) and other.number == self.number: part 0 forgotten::0":
            "links are compared only if hashes agree, so they have one entry",
        "_Link.__eq__::isinstance(other, _Link) and other.number == self.number: part 1 forgotten::0":
            "links are compared only if hashes agree, so they have one entry",
        "argument_in::depth_of(data) > DEEPEST: Gt becomes GtE::0":
            "an argument of this depth is never valid; the limit only stops reading it",
        "argument_in::not isinstance(data, list) or not data or depth_of(data) > DEEPEST: part 2 forgotten::0":
            "an argument of this depth is never valid; the limit only stops reading it",
    },
    "rewrites/rule_arguments.py": {
        "applied::True: negated::0": "the sequences have one length, checked before",
        "substituted::transform(body, on_leaf, on_tensor, untouched=unbound()): untouched not passed::0":
            "nothing changes without free variables or with a shift of 0; only slower",
    },
    "rewrites/induction.py": {
        "arguments_for::0: one more::0": "extents of a parameter's type are not used; the recurrence has its own",
        "arguments_for::1: one more::0": "extents of a parameter's type are not used; the recurrence has its own",
        "goals::True: negated::0": "the sequences have one length, since one is made of the other",
        "goals::for side in (sides.lhs, sides.rhs): the first passed over::0":
            "the left side is part of the program, so its sizes are the program's",
        "goals::of.dtype or DEFAULT: part 1 forgotten::0":
            "bound tensors of a program have a type; for the type checker",
    },
    "rewrites/kernel.py": {
        "_rewritten::for each in lemma.rounding: the first alone::0":
            "the first rule of a lemma that rounds is refused",
        "Theorem.rhs::self._changed and self._at is not None: part 1 forgotten::0":
            "a changed theorem has a position; for the type checker",
        "_replace::_check_bound_types(rule, rebuilt.term): left out::0":
            "the enclosing let is rebuilt with the new type; new tensors and arguments are checked by other calls",
        "_replace::if changed or inspects_subterms(rebuilt.term): always::0":
            "a part with an unchanged type is checked once more, and passes",
        "_replace::if changed: always::0": "a part with an unchanged type is checked once more, and passes",
        "_replace::if changed: never::0":
            "the enclosing let is rebuilt with the new type; new tensors and arguments are checked by other calls",
        "_replace::made.term.type != at.term.type: part 0 ignored::0":
            "both sides of an instance have one element type, checked before",
        "_same_type::True: negated::0": "the lengths were compared just before",
        "induction::True: negated::0": "the sequences have one length, two",
        "induction::side != wanted: part 0 ignored::0": "the name of a program does not change what it means",
        "reflexivity::(made,) if is_predicate(made) else (): always::0":
            "an admitted condition is a predicate; for the type checker",
        "reflexivity::0: one more::1": "a condition contains no tensor of a let",
    },
    "rewrites/rule.py": {
        "RuleStatements.__getitem__::0: one more::0": "0 and 1 are both below the limit",
    },
    "rewrites/rule_statement.py": {
        "Variables.__init__::0: one more::0": "the extents of the array that represents a condition are unused",
        "Variables.__init__::True: negated::0": "the sequences have one length, checked before",
        "Variables.__init__::_BASE + position * _EACH: another operation::0": "the ids of metavariables still differ",
        "Variables._tensor::True: negated::0": "the sequences have one length, checked before",
        "_Instance._application::made if dtype is None else strengthen(made, dtype): never::0":
            "a literal without a required element type is unchanged",
        "_Instance._dtype::of is not None and is_variable(of): part 0 forgotten::0":
            "each element type is known or a variable; for the type checker",
        "condition_variable::guard array.dtype == BOOL dropped::0":
            "an element of another array is refused with the same message",
        "ranks_of::kind.sort == 'tensor' and kind.group and (found.setdefault(kind.group,: part 0 forgotten::0":
            "only terms have recorded ranks",
        "shift_under::if not indices and (not tensors): never::0":
            "nothing changes without free variables or with a shift of 0; only slower",
        "shift_under::transform(body, on_leaf, on_tensor, untouched=unbound(own, own_tensors: untouched not passed::0":
            "nothing changes without free variables or with a shift of 0; only slower",
    },
    "rewrites/elaboration.py": {
        "_Checked.statement::part.loose or part.loose_tensors: part 1 forgotten::0": (
            "`_class` refuses a tensor that is bound outside of the rule"
        ),
        "_Checked._check_application::True: negated::0": "the sequences have one length, checked before",
        "_Checked._check_application::kind is None or not known or term.of != variables.types[term.name]: "
        "part 0 forgotten::0": "an unknown name has no kind; for the type checker",
        "_Checked._dtype::isinstance(root, str) and root in ELEMENTS: and/or exchanged::0":
            "among the values that share an element type only element types are strings",
        "_Checked._dtype::isinstance(root, str) and root in ELEMENTS: part 0 forgotten::0":
            "among the values that share an element type only element types are strings",
        "_Checked._dtype::isinstance(root, str) and root in ELEMENTS: part 1 forgotten::0":
            "among the values that share an element type only element types are strings",
        "_Checked._index::self.variables.variable(uid) != atom: part 0 ignored::0":
            "a variable found by id has this id",
        "_Checked._join::first == second: part 1 ignored::0":
            "after its first application the function's argument represents its parameter",
    },
}  # fmt: skip
EQUIVALENT: Final = {f"{file}::{key}": why for file, reasons in _BY_FILE.items() for key, why in reasons.items()}
"""The reasons, by key of the mutant."""
