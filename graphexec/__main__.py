"""`python -m graphexec`: the command line, if its script is not on the path."""

from graphexec.cli import main

main()
