"""The old place of what templates of others import: `lakewarden.ingest.templates` is the new one."""
