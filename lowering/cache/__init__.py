"""The cache of builds."""
