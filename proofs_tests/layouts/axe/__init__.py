"""Tests of Axe layouts: expected values, and operations compared with enumeration."""
