"""Ingesting files through a pipeline's rule, beside Spark that reads the directory into Delta."""
