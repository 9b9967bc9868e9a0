"""What terms of the graph would cost, and the best of them."""
