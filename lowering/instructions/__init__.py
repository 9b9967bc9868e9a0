"""Instructions: declarations, the built-in ones, and matching of loop nests with them."""

from lowering.instructions.instruction import Instruction, declare, instruction_named, instructions

__all__ = ["Instruction", "declare", "instruction_named", "instructions"]
