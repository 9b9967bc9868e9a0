"""The functions of CuTe's algebra, under its names: each gives a layout, or says why there is none."""
