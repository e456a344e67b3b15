"""The command line `lakewarden`: options, output, exit status; no rule of its own.

Imports the client and `serve`. Begin with `main.py`.
"""

from lakewarden.cli.main import main

__all__ = ["main"]
