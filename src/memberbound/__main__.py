"""The ``memberbound`` command, and ``python -m memberbound``."""

import os
import signal
from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:
    """Exit immediately with one sentence; nothing has started, so there is nothing to clean up."""
    del frame
    os.write(2, b"memberbound: stopped.\n")
    os._exit(128 + number)


def main() -> None:
    """Load the command line and run it; a signal during loading also ends in one sentence."""
    before = {number: signal.signal(number, _leave) for number in (signal.SIGINT, signal.SIGTERM)}
    from memberbound.faces.command_line import main as command

    for number, handler in before.items():
        signal.signal(number, handler)
    command()


if __name__ == "__main__":
    main()
