"""What programs are made of: index expressions, predicates, tensor expressions, and substitution in them."""
