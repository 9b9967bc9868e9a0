"""The same work done by us and by the systems that people would use instead, side by side."""
