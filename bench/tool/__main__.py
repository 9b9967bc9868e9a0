"""`python -m bench.tool`: what the tool itself costs as programs grow."""

from bench.tool.growth import main

if __name__ == "__main__":
    main()
