"""Programs, rules, certificates and loop nests as files of Rocq, which proves them again without trusting ATL.

`Meaning.v` defines what programs mean, `Nests.v` what loop nests do; `Lemmas.v` has the laws of folds and the one proof
that is tried on every rule; `Congruence.v` the lemmas for rewriting inside a term. `statements` prints each rule from
its declaration, `certificates` a theorem with its steps as lemmas.
"""
