"""The `lodstone` command."""

import signal
import sys

from . import _lodstone


def main() -> int:
    """Does what the arguments of the process ask for; gives its exit status."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Python would only remember Ctrl-C until the command is done. Ends it, as if there were no Python.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _lodstone.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
