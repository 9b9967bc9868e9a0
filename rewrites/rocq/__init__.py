"""Export of rules, certificates and loop nests to Rocq, which proves them again without trusting ATL.

`Meaning.v` defines the semantics of programs, `Nests.v` that of loop nests. `Lemmas.v` contains the laws of folds and
the tactic that proves every rule; `Congruence.v` contains the lemmas for rewriting inside a term. The module
`statements` prints rules, and `certificates` prints a theorem with its steps as lemmas.
"""
