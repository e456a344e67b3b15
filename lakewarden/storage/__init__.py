"""Object stores, paths and topics of Kafka (`kafka_topics.py`): the only room that talks to a store or a broker.

Imports base. Begin with `objects.py`, the interface of a store, and `open.py`, which opens one.
"""
