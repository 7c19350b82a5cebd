"""The `lodstone` command."""

import signal
import sys

from . import _lodstone


def main() -> int:
    """Runs the command with the arguments of the process, and returns its exit status."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Python would defer Ctrl-C until the command returns. The default action ends the process at once.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _lodstone.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
