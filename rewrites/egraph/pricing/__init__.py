"""Cost models for terms of the e-graph, and extraction of the best terms."""
