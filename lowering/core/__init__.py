"""Programs for an emulated systolic core: loop nests whose inner loops are instructions, and their emulation."""
