"""`python -m bench.tool`: the cost of ATL itself as programs grow."""

from bench.tool.growth import main

if __name__ == "__main__":
    main()
