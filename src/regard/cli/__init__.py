"""The command line: `regard`, one small file for each command.

Read in this order:
    program      `main`: parses the arguments, runs one command, reports errors in one line
    streams      standard output and error: what a terminal would obey is shown, what cannot be written is reported
    command      `Command`: a command's texts, its options and what it runs; the options of a picture, and where it goes
then the commands: steps, see, translate, serve, train, score, quiz, demo. Their files import nothing that needs torch
until they run, so that --help, --version and a wrong option are answered at once.
"""

from regard.cli.program import main

__all__ = ["main"]
