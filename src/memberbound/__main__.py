"""``python -m memberbound``."""

from memberbound.faces.command_line import main

main()
