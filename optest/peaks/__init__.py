"""What this machine can do at most: bandwidth of each memory level, matrix rates, launches."""
