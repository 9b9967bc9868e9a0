"""What is kept of builds: listed, measured and cleared."""
