"""`python -m bertcore`: the command, wherever the package is importable."""

import sys

from bertcore.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
