"""`Connection`, for programs that create storages."""

from lakewarden.base.connection import Connection

__all__ = ["Connection"]
