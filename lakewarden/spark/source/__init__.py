"""Spark's data source `lakewarden`, by PySpark's Python Data Source API."""
