"""What must hold of a program: facts in scope, well-formedness, safe accesses."""
