"""`python -m slicewise.lab.cli` is the command, where it is not on the path."""

from slicewise.lab.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
