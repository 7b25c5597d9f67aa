"""Two runs side by side: what became faster, slower or wrong, and how sure that is."""
