"""The Python client of a warehouse: nouns, and `Lakehouse`, which keeps a name for each of their methods."""

from lakewarden.lakehouse.facade import Lakehouse

__all__ = ["Lakehouse"]
