"""CuTe's layout algebra, under CuTe's names. Each function returns a layout or raises `NoLayout` with the reason."""
