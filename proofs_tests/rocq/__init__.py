"""Tests of the export to Rocq; `make rocq` runs those that need `coqc`."""
