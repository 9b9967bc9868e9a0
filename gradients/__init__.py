"""Derivatives of programs: tangents by definition, gradients by derivation."""
