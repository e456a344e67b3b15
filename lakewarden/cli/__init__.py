"""The command line `lakewarden`."""

from lakewarden.cli.main import main

__all__ = ["main"]
