"""The op-test standard as rules over the syntax tree of a test file; nothing is imported or run."""
