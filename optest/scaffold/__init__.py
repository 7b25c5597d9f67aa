"""`optest new`: an op test that runs as written, for its author to fill in."""
