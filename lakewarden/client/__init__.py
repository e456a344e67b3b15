"""The Python client of a warehouse: `Lakehouse`, with a noun for each part of it; K3's calls (`k3/`); the demo.

Imports sql, spark and below. Begin with `facade.py`.
"""

from lakewarden.client.facade import Lakehouse

__all__ = ["Lakehouse"]
