"""Parsing of programs: tokens, index expressions and conditions, tensor expressions and declarations."""
