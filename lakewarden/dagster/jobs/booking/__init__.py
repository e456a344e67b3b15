"""What runs did, as events of the assets they are about."""
