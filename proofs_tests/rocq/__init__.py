"""Rules, certificates and loop nests, printed as statements of Rocq, which checks them anew and believes none of us.

`Meaning.v` says what programs mean; `Lemmas.v` has the laws of folds and the one proof that is tried on every rule;
`Congruence.v` the ways down into a term. Nothing of a rule, and no proof of a single one, is written by hand here:
`statements` prints each from its one declaration. `make rocq` runs it all where `coqc` is found.
"""
