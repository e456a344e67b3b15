"""As `lakewarden.ingest.templates.template`."""

from lakewarden.ingest.templates.template import Columns, NoOptions, Template

__all__ = ["Columns", "NoOptions", "Template"]
