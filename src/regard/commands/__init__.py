"""What the command line can do, one file for each command that needs more than a few lines.

Each has `add(commands)`, which describes it, and imports what is heavy only when it runs.
"""
