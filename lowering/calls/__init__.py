"""What a call of a kernel needs besides arrays: notes of what was checked once, results that are put together."""
