"""Prove that the checks of an op test reject wrong kernels."""
