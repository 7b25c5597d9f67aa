# Op tests that end, hang and fill whatever runs them.
collect_ignore = ["hostile"]
