"""`python -m mtpcore` is the `mtpcore` command."""

from mtpcore.cli.main import main

if __name__ == "__main__":
    main()
