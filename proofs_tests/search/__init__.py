"""Tests of the search for schedules by equality saturation, and of autotuning."""
