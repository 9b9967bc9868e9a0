"""The command line: every command's examples, answers and exit codes, and sessions in a terminal."""
