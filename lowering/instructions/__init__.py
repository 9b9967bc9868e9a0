"""Instructions: declarations, the built-in ones, and matching of loop nests with them."""

from lowering.instructions.instruction import Instruction
from lowering.instructions.registry import declare_instruction, instruction_named, instructions

__all__ = ["Instruction", "declare_instruction", "instruction_named", "instructions"]
