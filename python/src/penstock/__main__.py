"""Runs the program: `python -m penstock` is the same as `penstock`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from ._binary import binary
from ._errors import Error


def main() -> int:
    """Run the program in place of this process, so that exit codes and signals are the program's own."""
    try:
        command = [binary(), *sys.argv[1:]]
    except Error as e:
        print(f"penstock: {e}", file=sys.stderr)
        return 1
    if sys.platform != "win32":
        os.execv(command[0], command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Windows cannot replace a process; the program handles Ctrl-C itself
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
