"""`python -m tokfmt`, and the `tokfmt` command."""

import os
import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; a Ctrl-C while it is being imported ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from tokfmt.cli.main import run
    except ModuleNotFoundError as error:
        from tokfmt.core.errors import missing_package

        missing = missing_package(error, "the command line", ("click", "rich", "textual"))
        sys.stderr.write(f"tokfmt: error: {missing}. Without them, import tokfmt in Python reads\n")
        sys.exit(missing.exit_code)
    run()


if __name__ == "__main__":
    # `python -m` imports from the current directory first: what lies beside the data is no module
    if not sys.flags.safe_path and sys.path[0] == os.getcwd():
        del sys.path[0]
    main()
