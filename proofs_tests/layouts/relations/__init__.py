"""Relations by isl, of every family and between them, beside plain enumeration."""
