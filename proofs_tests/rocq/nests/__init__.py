"""Tests of loop nests in Rocq: correct nests are proved, wrong ones refused."""
