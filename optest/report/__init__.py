"""What became of a run, for people and for continuous integration."""
