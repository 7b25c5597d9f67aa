"""What there is on a machine, and what will make timings unreliable there."""
