"""The Python client of a warehouse: `Lakehouse`, its nouns, and their methods once more; K3's calls (`k3/`); the demo.

Imports sql, spark and below. Begin with `facade.py`.
"""

from lakewarden.client.facade import Lakehouse

__all__ = ["Lakehouse"]
