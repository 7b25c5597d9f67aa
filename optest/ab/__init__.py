"""Two versions of a repository, measured in turn: which of them is faster, drift taken out."""
