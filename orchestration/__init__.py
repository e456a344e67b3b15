"""What Dagster loads from this checkout. The code is `lakewarden/dagster/`."""
