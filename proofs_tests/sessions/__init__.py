"""Sessions: what each call does to a goal, what a refusal says, and random derivations."""
