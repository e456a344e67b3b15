"""As `lakewarden.ingest.templates.object_file`."""

from lakewarden.ingest.templates.object_file import ObjectFile

__all__ = ["ObjectFile"]
