"""Assembled sparse results of random calls, compared with the dense formula and with the interpreter's stored cells."""
