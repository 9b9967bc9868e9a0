"""What a person writes: symbolic values with operators, and the functions of `import atl`."""
