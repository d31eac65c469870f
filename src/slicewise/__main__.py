"""`python -m slicewise` is the command, where it is not on the path."""

if __name__ == "__main__":
    from slicewise.lab.cli import main

    raise SystemExit(main())
