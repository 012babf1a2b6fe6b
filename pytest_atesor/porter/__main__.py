"""``python -m pytest_atesor.porter``."""

import sys

from pytest_atesor.porter.agent import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
