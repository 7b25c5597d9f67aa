"""optest: which kernels are right, how fast each is, one markdown table per test function."""
