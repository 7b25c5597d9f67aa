"""The cases are files to lint, never to collect: some would run a sweep when imported."""

collect_ignore = ["cases"]
