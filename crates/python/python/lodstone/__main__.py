"""The `lodstone` command."""

import sys

from . import _lodstone


def main() -> int:
    """Does what the arguments of the process ask for; gives its exit status."""
    return _lodstone.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
