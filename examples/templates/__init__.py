"""The LEGO paper's kernels as templates: layouts say where everything lies, and fill the text of each language."""
