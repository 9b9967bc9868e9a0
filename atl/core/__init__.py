"""Terms of the language: index expressions, predicates, tensor expressions, programs, and substitution."""
