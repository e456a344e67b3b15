"""Carries the changes of tables to topics of Kafka, each once for readers of what is committed."""
