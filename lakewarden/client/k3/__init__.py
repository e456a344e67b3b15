"""K3's calls, with K3's rules and wire forms; what they do is done by the rooms below."""

from lakewarden.client.k3.facade import K3

__all__ = ["K3"]
