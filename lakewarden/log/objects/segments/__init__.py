"""The form of one object of a log: a segment, a carry object or one of the history."""
