"""Tests of calls: arrays of other libraries, operators of other systems, processes, and exported folders."""
