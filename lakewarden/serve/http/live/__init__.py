"""Subscriptions over HTTP: the messages that a subscriber gets, and one module for each of the two ways to get them."""
