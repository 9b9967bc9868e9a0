"""LEGO's words beside their definitions: chains of links, partial tiles, slices, and what is refused."""
