"""The Python client of a warehouse: `Lakehouse`, its nouns, and a delegate for each of their methods."""

from lakewarden.lakehouse.facade import Lakehouse

__all__ = ["Lakehouse"]
