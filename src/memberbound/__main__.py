"""``python -m memberbound``."""

from memberbound.cli import main

main()
