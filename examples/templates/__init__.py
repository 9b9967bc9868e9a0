"""The LEGO paper's kernels as templates, whose index expressions are filled in from layouts."""
