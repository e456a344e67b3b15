"""The data source `lakewarden_kafka`: what is committed in a topic, as Spark's own source of Kafka shows it."""
