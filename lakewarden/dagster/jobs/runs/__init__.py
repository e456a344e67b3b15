"""What a run is for, which tags it has, and how it fails."""
