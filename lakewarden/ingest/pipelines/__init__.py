"""Tables that uploaded files fall into: templates read objects, rules choose them."""
