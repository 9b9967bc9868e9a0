"""Surface language: symbolic values with operators, and the functions of `import atl`."""
