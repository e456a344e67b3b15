"""Topics into tables: each message of a topic counts once, by its partition and offset."""
